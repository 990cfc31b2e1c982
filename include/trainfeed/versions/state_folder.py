"""State folders: they follow a root in a bucket, and have the shape of a root for all other code.

Decisions of people and the small files of versions are copies of what the bucket has. A decision
runs on the folder, and then becomes an entry of the log in the bucket, or is undone and runs again.
docs/authors/adr/0074-decisions-in-a-bucket.md has the reasons.

``.follow/<data set>.json`` in the folder is a ``_Followed``: how far the folder has followed;
``.follow/<data set>.deciding`` is there while a decision is at work, or after it was killed.
"""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Concatenate, Final, Literal, ParamSpec, TypeVar

from trainfeed.core import canonical_json, faults
from trainfeed.core.accounts import Decision
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    RetiredError,
    RootError,
    WithdrawnError,
)
from trainfeed.files import is_there, make_folders, os_errors
from trainfeed.files.records import ROOT_MARK_FILE, ROOT_MARKS, RecordFile
from trainfeed.files.stores import Location, posix
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.bucket_root import (
    BUCKET,
    FOLLOWED,
    FollowedBucket,
    bucket_mark,
    require_bucket_root,
)
from trainfeed.versions.decision_files import (
    changes_since,
    decision_files,
    read_decision,
    stamps,
)
from trainfeed.versions.decision_log import DecisionLog, LogState
from trainfeed.versions.layout import (
    BUILT,
    CURRENT,
    MANIFEST,
    MANIFEST_DIGEST,
    MODELS,
    POSITIONS,
    DatasetFolder,
    is_name,
    parse_generation,
)
from trainfeed.versions.manifest import Manifest
from trainfeed.versions.withdraw import Withdrawal, withdrawal_of, write_withdrawal

T = TypeVar("T")
P = ParamSpec("P")

logger = logging.getLogger(__name__)

_FOLLOW: Final = ".follow"
# A decision may read whole versions while it holds the lock.
_LOCK_S: Final = 3600.0
_MOST_TRIES: Final = 16
_REMOVED: Final = ".removed"
_AT_ONCE: Final = 16
_PRIVATE_MODE: Final = 0o700
# What accounts of builds alone read, and what is large: a private copy goes without.
_QUARANTINE: Final = "quarantine/records.arrow"
_LEFT_OUT: Final = frozenset({POSITIONS, _QUARANTINE})


# --- Folders that follow a bucket: made on purpose, or a private copy


def make_state(root: Path, bucket: Location, *, is_private: bool) -> FollowedBucket:
    """Make a folder one that follows a root in a bucket, or find that it is one.

    Args:
        root: The folder, empty or absent; or one that follows the same root.
        bucket: The root in the bucket.
        is_private: Whether it is a private copy; else it has to be fit for publications.

    Raises:
        RootError: The root in the bucket was not made one; or the folder has other files, or
            follows another root.
        UnsuitableStoreError: The file system cannot rename or lock as builds need it.
        StorageError: The store, or the file system, refused or failed.
    """
    if (known := _known(root, bucket)) is not None:
        return known
    mark = require_bucket_root(bucket)
    if is_private:
        with os_errors(root):
            make_folders(root, _PRIVATE_MODE)
    else:
        posix.make_public_dir(root)
    with posix.map_errors(root):
        names = sorted(path.name for path in root.iterdir() if not path.name.startswith("."))
    if names and names != [BUCKET]:
        raise RootError(
            f"expected an empty folder to follow {bucket.uri}, got {root} with {names[0]}; nothing"
            " was made or changed; name another folder in TRAINFEED_STATE"
        )
    if not is_private:
        posix.probe(root)
    followed = FollowedBucket(bucket.uri, mark.id, is_private)
    FOLLOWED.write_once(root / BUCKET, followed)
    faults.point("state.after_address")
    ROOT_MARKS.write_once(root / ROOT_MARK_FILE, mark)
    return _known(root, bucket) or followed


def require_state(root: Path, bucket: Location) -> FollowedBucket:
    """Refuse a folder that was not made one that follows a root in a bucket.

    Raises:
        RootError: It was not; the message has the command.
        StorageError: The file system refused or failed.
    """
    if (known := _known(root, bucket)) is None:
        raise RootError(
            f"expected TRAINFEED_STATE to name the folder that follows {bucket.uri}, got {root},"
            f" which has no {BUCKET}; nothing was made or changed there; correct it, or mount the"
            f" file system; if it is to be a new one: trainfeed init {bucket.uri}"
        )
    return known


def _known(root: Path, bucket: Location) -> FollowedBucket | None:
    """Return the mark of a finished folder; refuse one of another root."""
    mark = bucket_mark(root)
    if mark is not None and mark.uri != bucket.uri:
        raise RootError(
            f"expected a folder that follows {bucket.uri}, got {root}, which follows {mark.uri};"
            " nothing was changed; name another folder in TRAINFEED_STATE"
        )
    return mark if is_there(root / ROOT_MARK_FILE) else None


# --- A folder is brought to the end of the log


def follow(folder: DatasetFolder) -> None:
    """Bring a data set of a state folder up to date; do nothing for one of any other root.

    Raises:
        FormatError: An object of the bucket is damaged, or of a newer trainfeed.
        StorageError: The store, or the file system, refused or failed.
    """
    if folder.path in _held.get() or (mark := bucket_mark(folder.root)) is None:
        return
    state = _State(folder, mark)
    with state.locked():
        state.follow()


def follow_root(root: Path) -> None:
    """Bring all data sets of a state folder up to date; see ``follow``."""
    if (mark := bucket_mark(root)) is None:
        return
    names = [each.name for each in mark.place.list() if each.is_dir and is_name(each.name)]
    folders = [DatasetFolder(root, name) for name in names if name != MODELS]
    # Threads do not know what this one holds.
    folders = [folder for folder in folders if folder.path not in _held.get()]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="trainfeed-follow") as pool:
        list(pool.map(follow, folders))


@dataclass(frozen=True)
class _Followed:
    """How far a folder has followed.

    Attributes:
        log: What the entries up to then amount to.
        pending: Announced versions whose manifests were not there.
    """

    log: LogState
    pending: list[str]


_FOLLOWED: Final = RecordFile(
    _Followed,
    "how far the folder follows its bucket",
    "nothing was changed; remove the file, and it is written anew from the bucket",
    max_bytes=canonical_json.MAX_BYTES,
)


# Data sets whose lock this process holds, each where it decides.
_held: Final[ContextVar[frozenset[Path]]] = ContextVar("_held", default=frozenset())


class _State:
    """One data set of a state folder, and its log.

    Args:
        folder: The data set.
        mark: The mark of the state folder.
    """

    def __init__(self, folder: DatasetFolder, mark: FollowedBucket) -> None:
        self.log = DecisionLog(mark.place / folder.name)
        self._folder = folder
        self._mark = mark
        home = folder.root / _FOLLOW
        self._lock, self._file, self._deciding = (
            home / f"{folder.name}.{kind}" for kind in ("lock", "json", "deciding")
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the data set in this folder."""
        with posix.map_errors(self._lock):
            make_folders(self._lock.parent)
        with posix.file_lock(self._lock, timeout_s=_LOCK_S):
            token = _held.set(_held.get() | {self._folder.path})
            try:
                yield
            finally:
                _held.reset(token)

    def follow(self) -> LogState:
        """Bring the folder to the end of the log; the caller holds the lock."""
        known = _FOLLOWED.read(self._file)
        before = LogState(self._folder.name) if known is None else known.log
        after = self.log.newest(None if known is None else before)
        if known is None or is_there(self._deciding):
            self._undo(after.files)
        else:
            self._apply(before.files, after.files)
        faults.point("follow.after_files")
        new = set(after.versions) - set(before.versions)
        # What was marked as removed, and is shown again, has lost its folder here.
        new |= {_marked(path) for path in before.files.keys() - after.files.keys()} & {
            *after.versions
        }
        pending = self._fetch([*(() if known is None else known.pending), *sorted(new)], after)
        found = _Followed(after, pending)
        if found != known:
            _FOLLOWED.replace(self._file, found)
        self.end()
        return after

    def begin(self) -> None:
        """Note that a decision is at work: a kill from here on is undone."""
        posix.replace_file(self._deciding, b"")

    def keep(self, state: LogState, known: LogState) -> None:
        """Note that the folder has what the log has, with the entry of this decision."""
        followed = _FOLLOWED.read(self._file)
        pending = [] if followed is None else followed.pending
        new = sorted(set(state.versions) - set(known.versions))
        _FOLLOWED.replace(self._file, _Followed(state, [*pending, *new]))
        self.end()

    def undo(self, state: LogState) -> None:
        """Take back what a decision has changed in the folder."""
        self._undo(state.files)
        self.end()

    def end(self) -> None:
        """Note that no decision is at work any more."""
        with posix.map_errors(self._deciding), suppress(FileNotFoundError):
            self._deciding.unlink()

    def _apply(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        for path, text in after.items():
            if before.get(path) != text:
                self._write(path, text)
        for path in before.keys() - after.keys():
            self._remove(path)

    def _undo(self, files: Mapping[str, str]) -> None:
        """Make the decisions of the folder those of the log, whatever they are."""
        for path, text in files.items():
            if _text_of(self._folder, path) != text:
                self._write(path, text)
        strange = [path for path in decision_files(self._folder) if path not in files]
        if not strange:
            return
        # Not deleted: they tell what a killed decision was about, until upkeep empties the trash.
        kept = self._folder.trash / uuid.uuid4().hex
        for path in strange:
            logger.warning("%s/%s was not decided, and is taken back", self._folder.name, path)
            posix.make_public_dir((kept / path).parent)
            with posix.map_errors(kept / path):
                (self._folder.path / path).rename(kept / path)

    def _write(self, path: str, text: str) -> None:
        place = self._folder.path / path
        posix.make_public_dir(place.parent)
        posix.replace_file(place, text.encode(), is_public=True)
        if path.endswith(_REMOVED):
            self._drop(_marked(path))

    def _remove(self, path: str) -> None:
        place = self._folder.path / path
        with posix.map_errors(place), suppress(FileNotFoundError):
            place.unlink()
            posix.sync_dir(place.parent)

    def _drop(self, name: str) -> None:
        """Remove the folder of a version that retention has removed."""
        place = self._folder.path / "versions" / name
        if is_there(place):
            gone = self._folder.trash / uuid.uuid4().hex
            posix.make_public_dir(gone.parent)
            with posix.map_errors(place), suppress(FileNotFoundError):
                place.rename(gone)
            posix.remove_tree(gone)

    # --- Versions: the small files of those whose manifests are there

    def _fetch(self, names: Sequence[str], state: LogState) -> list[str]:
        """Copy announced versions; return those whose manifests are not there."""
        wanted = [name for name in names if f"versions/{name}.removed" not in state.files]
        if not wanted:
            return []
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="trainfeed-follow") as pool:
            are_there = list(pool.map(self._fetch_one, wanted))
        return [name for name, is_here in zip(wanted, are_there, strict=True) if not is_here]

    def _fetch_one(self, name: str) -> bool:
        target = self._folder.path / "versions" / name
        if is_there(target / MANIFEST):
            return True
        version = BucketVersion(self._mark.place / self._folder.name / "versions" / name)
        try:
            manifest, sha256 = version.read()
        except NotFoundError:
            return False
        # Where upkeep deletes what a kill leaves.
        scratch = self._folder.trash / uuid.uuid4().hex
        try:
            self._copy(version, manifest, sha256, scratch)
            # Retention counts from here on.
            time_s = version.published_at().timestamp()
            os.utime(scratch, (time_s, time_s))
            faults.point("follow.before_version")
            posix.make_public_dir(target.parent)
            # A hint of earlier days would keep readers from the newest generation.
            with posix.map_errors(target), suppress(FileNotFoundError):
                (target.parent / CURRENT).unlink()
            with suppress(ConflictError):
                posix.rename_directory(scratch, target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return True

    def _copy(self, version: BucketVersion, manifest: Manifest, sha256: str, scratch: Path) -> None:
        """Write what a folder has of a version beside its shards."""
        data = (version.folder / MANIFEST).read_bytes(max_bytes=canonical_json.MAX_BYTES)
        files = {MANIFEST: data, MANIFEST_DIGEST: f"{sha256}\n".encode()}
        files[BUILT] = canonical_json.dumps(version.built())
        for entry in manifest.files:
            if self._mark.is_private and entry.name in _LEFT_OUT:
                continue
            files[entry.name] = version.read_file(entry.name, entry.bytes, entry.sha256)
        for name, content in files.items():
            place = scratch / name
            posix.make_public_dir(place.parent)
            mode = 0o600 if name == _QUARANTINE else 0o444
            posix.create_exclusive(place, content, mode=mode)


def _marked(path: str) -> str:
    """Return the version that the path of a removal mark is about."""
    return path.removeprefix("versions/").removesuffix(_REMOVED)


def _text_of(folder: DatasetFolder, path: str) -> str | None:
    """Return the text of a decision; None if it is not there, or no text."""
    with suppress(FormatError):
        return read_decision(folder, path)
    return None


# --- Decisions: they run on the folder, and the next entry of the log makes them count


def decide(
    folder: DatasetFolder, work: str, act: Callable[[], T], versions: Iterable[str] = ()
) -> T:
    """Run code that decides about a data set, so that it counts wherever the data set is.

    In a root on a file system it just runs. In a state folder it runs between the end of the log
    and its next entry: if somebody else has decided meanwhile, all is undone, and it runs again. So
    it must not rely on what it has read before. What it has changed when it fails counts, too.

    Args:
        folder: The data set.
        work: What it does, for people, such as ``withdraw``.
        act: The code; decisions that it makes about the same data set belong to it.
        versions: ``<interval>/gNNNN`` that are announced with it.

    Raises:
        ConflictError: Others have decided again and again; nothing was changed.
        CommitUnknownError: The store did not say whether the decision counts; the next command
            finds out.
        FormatError, StorageError: As of ``follow``; nothing was changed. And what ``act`` raises.
    """
    if folder.path in _held.get() or (mark := bucket_mark(folder.root)) is None:
        return act()
    state, announced = _State(folder, mark), list(versions)
    for _ in range(_MOST_TRIES):
        with state.locked():
            known = state.follow()
            outcome = _tried(folder, state, known, act)
            is_announced = outcome.error is None
            new = [name for name in announced if is_announced and name not in known.versions]
            if outcome.changes or new:
                after = state.log.append(known, outcome.changes, work, new)
                if after is None:
                    state.undo(known)
                    continue
                state.keep(after, known)
            else:
                state.end()
        if outcome.error is not None:
            raise outcome.error
        return outcome.result  # type: ignore[return-value]
    raise ConflictError(
        f"{folder.name}: others have decided {_MOST_TRIES} times while {work} was at work; nothing"
        " was changed; run it again"
    )


@dataclass(frozen=True)
class _Outcome:
    result: object
    error: Exception | None
    changes: dict[str, str | None]


def _tried(
    folder: DatasetFolder, state: _State, known: LogState, act: Callable[[], object]
) -> _Outcome:
    """Run the code of a decision; return what came of it, and the files that it has changed."""
    before = stamps(folder)
    state.begin()
    faults.point("decide.begun")
    result, error = None, None
    try:
        result = act()
    except Exception as caught:  # noqa: BLE001 - raised when what was changed before counts
        error = caught
    faults.point("decide.acted")
    changes = {
        path: text
        for path, text in changes_since(folder, before).items()
        if known.files.get(path) != text
    }
    return _Outcome(result, error, changes)


def deciding(
    work: str,
) -> Callable[
    [Callable[Concatenate[DatasetFolder, P], T]], Callable[Concatenate[DatasetFolder, P], T]
]:
    """Return a decorator for functions that decide about the data set that they get first.

    Args:
        work: What they do; see ``decide``.
    """

    def decorate(
        function: Callable[Concatenate[DatasetFolder, P], T],
    ) -> Callable[Concatenate[DatasetFolder, P], T]:
        @wraps(function)
        def decided(folder: DatasetFolder, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return decide(folder, work, partial(function, folder, *args, **kwargs))

        return decided

    return decorate


# --- A staged version is published: files, announcement, manifest, and a second look


def publish_staged(
    folder: DatasetFolder,
    staged: Path,
    name: str,
    require_wanted: Callable[[], object],
    *,
    work: str = "publish",
) -> Literal["published", "known"]:
    """Publish a staged version in the bucket of a state folder, which then has its small files.

    Args:
        folder: The data set.
        staged: The folder of the whole version.
        name: ``<interval>/gNNNN``.
        require_wanted: Raises for a version that was withdrawn or retired, or whose number was
            given up. It is asked at the end of the log before the manifest, and once more after
            it: if a withdrawal or a retirement is found then, the version is withdrawn.
        work: What publishes it, as ``decide`` takes it.

    Returns:
        Whether this call published it, or another one with the same content.

    Raises:
        ConfigError: The folder follows no bucket.
        WithdrawnError: The same content, or the interval, was given up while it was published.
        StorageError: As of ``publish_folder``; and what ``require_wanted`` raises.
    """
    # What looks at versions and decides about them does not wait for Arrow.
    from trainfeed.versions.bucket_versions import publish_folder

    if (mark := bucket_mark(folder.root)) is None:
        raise ConfigError(f"expected a folder that follows a bucket, got {folder.root}")
    version = BucketVersion(mark.place / folder.name / "versions" / name)
    announce = partial(decide, folder, work, require_wanted, [name])
    done = publish_folder(version, staged, announce)
    decide(folder, work, partial(_look_again, folder, name, require_wanted))
    return done


def _look_again(folder: DatasetFolder, name: str, require_wanted: Callable[[], object]) -> None:
    """Withdraw a version that was given up between its announcement and its manifest."""
    try:
        require_wanted()
    except (RetiredError, WithdrawnError) as error:
        interval, _, number = name.partition("/")
        generation = parse_generation(number)
        if withdrawal_of(folder, interval, generation) is not None:
            raise
        manifest, sha256 = Manifest.read(folder.version(interval, generation))
        made = Decision.now("it was given up by another decision while it was published")
        mark = Withdrawal(
            folder.name,
            interval,
            generation,
            **vars(made),
            fingerprint=manifest.fingerprint,
            content_digest=manifest.content_digest,
            manifest_sha256=sha256,
            plan=manifest.plan,
        )
        write_withdrawal(folder, mark)
        raise WithdrawnError(
            f"{folder.name}/{name} was published and is withdrawn: meanwhile {error}"
        ) from error
