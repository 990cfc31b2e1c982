"""Errors of formats and of file systems."""

from __future__ import annotations

from trainfeed.errors._root import Outcome, TrainFeedError

__all__ = [
    "AccessDeniedError",
    "BadMagicError",
    "ChecksumError",
    "CommitUnknownError",
    "ConflictError",
    "FileReplacedError",
    "FormatError",
    "NonDeterminismError",
    "NotFoundError",
    "QuotaExceededError",
    "RetiredError",
    "SnapshotError",
    "StorageError",
    "TruncatedError",
    "UnsuitableStoreError",
    "UnsupportedCodecError",
    "WithdrawnError",
]


class FormatError(TrainFeedError):
    """Bytes on disk are not what their format says.

    ``path`` and ``offset_bytes`` are the place, as far as known.

    Cause: A file is damaged, was cut, has another format than expected, or was written by a later
        version.
    Remedy: Restore the file or write it again; for a file of a version, build the next generation
        with `--rebuild`. `trainfeed file repair` keeps the whole parts of a record file.
    See docs/reference/errors.md#formaterror
    """

    path: str | None = None
    offset_bytes: int | None = None

    def __init__(
        self, message: str, *, path: str | None = None, offset_bytes: int | None = None
    ) -> None:
        super().__init__(message)
        self.path = path
        self.offset_bytes = offset_bytes

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, self.__dict__

    def __str__(self) -> str:
        place = [f"in {self.path}"] if self.path is not None else []
        if self.offset_bytes is not None:
            place.append(f"at byte {self.offset_bytes}")
        return " ".join([super().__str__(), *place])


class BadMagicError(FormatError):
    """No chunk starts here.

    Cause: The file has another format, or its bytes are damaged where a chunk or header should
        begin.
    Remedy: Name the right file or format; restore a damaged file.
    See docs/reference/errors.md#badmagicerror
    """


class ChecksumError(FormatError):
    """The stored bytes are damaged.

    Cause: A disk, a copy or a program changed the bytes after they were written.
    Remedy: Restore the file, or make it again as the message says; readers give no samples of
        damaged bytes.
    See docs/reference/errors.md#checksumerror
    """


class TruncatedError(FormatError):
    """The file ends before its announced end.

    Cause: A writer was killed, a copy is not complete, or a disk was full.
    Remedy: Copy or write the file again.
    See docs/reference/errors.md#truncatederror
    """


class UnsupportedCodecError(FormatError):
    """This build has no decoder for a chunk's codec.

    Cause: The file was compressed with a codec that this version of trainfeed does not have.
    Remedy: Read the file with the version that wrote it, or write it again with one of the codecs
        of docs/reference/formats.md.
    See docs/reference/errors.md#unsupportedcodecerror
    """


class StorageError(TrainFeedError):
    """A file system refused or failed an operation.

    ``is_outage`` is set if a server did not answer, or answered that it cannot serve: the server
    may be back soon.

    Cause: The file system did not answer, or an operation failed in a way that may pass.
    Remedy: A scheduler tries again; if the error repeats, check the file system, then clear the
        task.
    See docs/reference/errors.md#storageerror
    """

    outcome = Outcome.RETRY
    is_outage: bool = False


class NotFoundError(StorageError):
    """A file or folder is not there.

    Cause: A name is misspelt, or the file was never made, was removed, or lies below another root.
    Remedy: Correct the name, or make the file as the message says.
    See docs/reference/errors.md#notfounderror
    """

    outcome = Outcome.FAIL


class AccessDeniedError(StorageError):
    """The file system denies the operation to this user.

    Cause: The account that runs the process may not read or write the path.
    Remedy: Give the account the right, or run as the account that has it.
    See docs/reference/errors.md#accessdeniederror
    """

    outcome = Outcome.FAIL


class QuotaExceededError(StorageError):
    """A quota or the disk is full.

    Cause: The disk or a quota is full, or a build would not fit, going by the newest version.
    Remedy: Make room, then run the build again: kept files are not made twice.
    See docs/reference/errors.md#quotaexceedederror
    """

    outcome = Outcome.FAIL


class ConflictError(StorageError):
    """Another version, or another content, has the name.

    Cause: The interval is published from other code, specification or sources, or a name is taken.
    Remedy: Keep the published version with `--outdated keep`, or build the next generation with
        `--outdated rebuild` or `--rebuild WHY`, as the message shows.
    See docs/reference/errors.md#conflicterror
    """

    outcome = Outcome.FAIL


class WithdrawnError(ConflictError):
    """A person withdrew this version, or one with the same content.

    Cause: Somebody found the content wrong and withdrew it, for the reason in the message; a build
        would publish the same again, or a version was asked for by its number.
    Remedy: Correct the cause and build. If the content is right after all, `trainfeed restore`
        gives it back, or `trainfeed build --rebuild WHY` publishes it again.
    See docs/reference/errors.md#withdrawnerror
    """


class RetiredError(ConflictError):
    """Retention or a person retired this interval, so that no build makes it again by accident.

    Cause: All versions of the interval were removed for good, as the message says, and a build
        without a reason was asked for it.
    Remedy: Nothing, or `trainfeed build --rebuild WHY`, which makes it again as long as the source
        has its records.
    See docs/reference/errors.md#retirederror
    """


class SnapshotError(ConflictError):
    """A folder cannot be removed, because a snapshot of it is kept.

    Cause: Somebody made a snapshot of this very folder (CephFS: `mkdir FOLDER/.snap/NAME`); the
        file system keeps the folder for it, although its files are gone from the present state.
    Remedy: Remove the snapshot that the message names (`rmdir FOLDER/.snap/NAME`), then run the
        same command again.
    See docs/reference/errors.md#snapshoterror
    """


class FileReplacedError(StorageError):
    """A file, or a set of shards, was replaced while it was read.

    Cause: Another process put a new file at the path: a second run of the same build, or a
        conversion into the same folder.
    Remedy: Read again. A stage and a scheduler do that by themselves; a reader in your own program
        must be opened again.
    See docs/reference/errors.md#filereplacederror
    """

    outcome = Outcome.RETRY


class NonDeterminismError(StorageError):
    """Equal fingerprints gave other bytes.

    Cause: The function depends on time, random numbers, the order of a set, or on anything but
        record and lookups; or a package that it uses gives other results.
    Remedy: Make the function pure, then build the interval again with `--rebuild WHY`.
    See docs/reference/errors.md#nondeterminismerror
    """

    outcome = Outcome.FAIL


class CommitUnknownError(StorageError):
    """The outcome of a commit is unknown; a retry first looks for the version.

    Cause: The file system did not confirm the rename that publishes a version.
    Remedy: Run the task again: the task first looks for the version. Do not rename or remove files
        by hand.
    See docs/reference/errors.md#commitunknownerror
    """

    outcome = Outcome.RETRY


class UnsuitableStoreError(StorageError):
    """The file system lacks an operation that publication needs.

    Cause: The root lies on a file system without exclusive rename of folders, or a quota border
        lies inside the root.
    Remedy: Choose a root on CephFS or on another POSIX file system that passes the probe.
    See docs/reference/errors.md#unsuitablestoreerror
    """

    outcome = Outcome.FAIL
