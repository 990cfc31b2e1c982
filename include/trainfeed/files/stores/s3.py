"""``s3://``: objects of a bucket as files; no rename, no locks, and folders that a marker keeps.

Each request is a call that blocks. An object appears whole, so what readers see is never half. The
condition of a creation holds for one PutObject alone: servers ignore that of multipart uploads.
"""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, BinaryIO, ClassVar, Final
from urllib.parse import urlsplit

from trainfeed.core.config import object_store_address
from trainfeed.core.patience import Patience
from trainfeed.errors import (
    AccessDeniedError,
    CommitUnknownError,
    ConfigError,
    ConflictError,
    FileReplacedError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
    TruncatedError,
    UnsuitableStoreError,
)
from trainfeed.files import read_plain, storage_error
from trainfeed.files.stores.file_system import FileInfo, FileInfos, Wanted, has_file, refuse_root
from trainfeed.files.stores.hadoop import (
    BUFFER_BYTES,
    RangeSource,
    UploadTarget,
    check_length,
    outage,
)

# Object of a folder that was made, so that an empty one is there; no listing has it.
_MARKER: Final = ".trainfeed-folder"
# Metadata of a created object: which attempt made it.
_ATTEMPT: Final = "trainfeed-attempt"
# The largest object of one request, and the parts of larger ones: 10,000 of them at most.
_PART_BYTES: Final = 8 << 20
_CONCURRENT_PARTS: Final = 2
# Pauses between the tries of a creation without an answer.
_PAUSES_S: Final = (0.2, 1.0, 3.0)
_CLIENT: Final = {"connect_timeout": "10s", "timeout": "120s"}
_RETRIES: Final = 3
_MAX_REASON_CHARS: Final = 300
_SAID: Final = re.compile(r"<Code>(\w{1,100})</Code>\s*<Message>([^<]{1,300})", re.ASCII)
_STATUS: Final = re.compile(r"status code: ([0-9]{3})")
# Code or status of an answer, or class of the client → error.
_KINDS: Final[dict[str | None, type[StorageError]]] = {
    "AlreadyExistsError": ConflictError,
    "FileNotFoundError": NotFoundError,
    "InsufficientStorage": QuotaExceededError,
    "InvalidPathError": UnsuitableStoreError,
    # Not NotFoundError: a misspelt bucket would look like an empty one.
    "NoSuchBucket": UnsuitableStoreError,
    "NotSupportedError": UnsuitableStoreError,
    "PreconditionError": FileReplacedError,
    "QuotaExceeded": QuotaExceededError,
    "401": AccessDeniedError,
    "403": AccessDeniedError,
    "404": NotFoundError,
    "507": QuotaExceededError,
}
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class S3FileSystem:
    """One bucket; see ``FileSystem`` for the contract of the methods.

    Credentials, region and endpoint are those of ``AWS_…`` in the environment, or of the machine.

    Attributes:
        bucket: Name of the bucket.
    """

    bucket: str
    scheme: ClassVar[str] = "s3"

    def uri(self, path: str) -> str:
        """Return ``s3://``, the bucket, and the unchanged path."""
        return f"s3://{self.bucket}{path}"

    def open_read(self, path: str) -> BinaryIO:
        """Open an object; every range is of the object that was there at this time."""
        meta = self._head(path)

        def read_at(offset_bytes: int, num_bytes: int) -> bytes:
            return self._range(path, meta["e_tag"], offset_bytes, num_bytes)

        source = RangeSource(self.uri(path), meta["size"], read_at=read_at, release=lambda: None)
        return io.BufferedReader(source, BUFFER_BYTES)

    def connect(self) -> S3Ranges:
        """Return what reads ranges of any of the objects, each by one request."""
        return S3Ranges(self)

    def open_write(self, path: str) -> BinaryIO:
        """Create an object; ``close`` makes it appear.

        Of two writers of more than 8 MiB at once, both may get no error: one of the two stays.
        """
        if self.exists(path):
            raise ConflictError(f"{self.uri(path)}: the name is taken")
        return _Upload(self, path, is_new=True).file()

    def stat(self, path: str) -> FileInfo:
        """Return facts about an object or folder; those of a folder have no time."""
        if path.strip("/"):
            try:
                return _file_info(path, self._head(path))
            except NotFoundError:
                if not self._is_folder(path):
                    raise
        return _folder_info(path)

    def exists(self, path: str) -> bool:
        """Return whether the path exists."""
        return has_file(self, path)

    def list(
        self,
        path: str,
        wanted: Wanted | None = None,
        *,
        broken: bool = False,  # noqa: ARG002 - there are no links
    ) -> FileInfos:
        """Return the entries of a folder."""
        with _errors(self.uri(path)):
            found = _package().list_with_delimiter(self.client, _key(path) or None)
        infos = [_file_info(f"/{each['path']}", each) for each in found["objects"]]
        infos += [_folder_info(f"/{each.strip('/')}") for each in found["common_prefixes"]]
        if not infos and path.strip("/"):
            raise NotFoundError(f"{self.uri(path)}: expected a folder, found nothing below it")
        kept = (each for each in infos if each.name != _MARKER)
        return sorted(
            (each for each in kept if wanted is None or wanted(each.name)),
            key=lambda info: info.name,
        )

    def checksum(self, path: str) -> str | None:
        """Return the entity tag, which another content never has."""
        return f"etag:{str(self._head(path)['e_tag']).strip(chr(34))}"

    def is_open(self, path: str) -> bool | None:
        """Return False: an object appears whole."""
        return self._head(path) is None

    def closed_files(self, path: str, entries: FileInfos) -> Set[str]:  # noqa: ARG002
        """Return all files: an object that is listed is whole."""
        return {info.name for info in entries if not info.is_dir}

    def make_dir(self, path: str) -> None:
        """Make a folder: an object that marks it."""
        above = _key(path)
        kind: type[StorageError] = ConflictError
        with suppress(AccessDeniedError):  # above the prefix of this account
            while above:
                if self._attempt_of(above) is not None:
                    raise kind(f"{self.uri(path)}: expected a folder, {above} is a file")
                above, kind = above.rpartition("/")[0], NotFoundError
        self.create(f"{path.rstrip('/')}/{_MARKER}", b"")

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete an object or folder."""
        refuse_root(path)
        key = _key(path)
        marker = f"{key}/{_MARKER}"
        with _errors(self.uri(path)):
            pages = _package().list(self.client, key)
            below = [each["path"] for page in pages for each in page if each["path"] != marker]
            if below and not recursive:
                raise ConflictError(f"{self.uri(path)}: the folder is not empty")
            # The marker last: after a kill, the folder is still there.
            for name in (*below, key, marker):
                with suppress(FileNotFoundError):
                    _package().delete(self.client, name)

    def write_atomic(self, path: str, write: Callable[[BinaryIO], None]) -> None:
        """Write an object, or replace it, when it is complete; after an error there is none."""
        if self._is_folder(path):
            raise ConflictError(f"{self.uri(path)}: expected a file to replace, got a folder")
        upload = _Upload(self, path, is_new=False)
        file = upload.file()
        try:
            write(file)
        except BaseException:
            upload.give_up()
            raise
        finally:
            file.close()

    def create_exclusive(self, path: str, data: bytes) -> bool:
        """Make an object with this content, unless the name is taken; in one request."""
        return not self._is_folder(path) and self.create(path, data)

    def free_bytes(self, path: str) -> int | None:  # noqa: ARG002
        """Return None: a store does not tell."""
        return None

    @property
    def client(self) -> Any:
        """The client of the bucket, shared by the threads of this process."""
        return _connect(self.bucket)

    def create(self, path: str, data: bytes, metadata: Mapping[str, str] | None = None) -> bool:
        """Make an object unless the name is taken, by one request; see ``create_exclusive``.

        A vague answer is asked again; then the object says which attempt made it.

        Args:
            path: The object.
            data: Its content.
            metadata: Texts that appear with it, ``attributes`` returns them.
        """
        attempt = uuid.uuid4().hex
        attributes = {**(metadata or {}), _ATTEMPT: attempt}
        vague: StorageError | None = None
        for pause_s in (0.0, *_PAUSES_S):
            Patience().pause(pause_s)
            # An existing object then costs no upload; that it is not there proves nothing.
            if (found := self._attempt_of(path)) is not None:
                return found == attempt
            try:
                self.put(path, data, mode="create", attributes=attributes)
            except ConflictError:
                continue  # of another, of an earlier request of ours, or of a race that ended
            except StorageError as error:
                if not error.is_outage:
                    raise
                vague = error
            else:
                return True
        if (found := self._attempt_of(path)) is not None:
            return found == attempt
        raise CommitUnknownError(
            f"{self.uri(path)}: the object may have been created: {vague or 'no answer was clear'};"
            " run the same again: it first looks whether the object is there"
        )

    def put(self, path: str, data: bytes, **options: Any) -> None:
        """Make an object by one request; the options are those of ``obstore.put``.

        Raises:
            ConflictError: The name is taken, and the mode is ``create``.
        """
        with _errors(self.uri(path)):
            _package().put(self.client, _key(path), data, use_multipart=False, **options)

    def attributes(self, path: str) -> dict[str, str]:
        """Return the metadata that were given with an object.

        Raises:
            NotFoundError: The object is not there.
        """
        with _errors(self.uri(path)):
            found = _package().get(self.client, _key(path), options={"head": True})
            return {str(name): str(value) for name, value in found.attributes.items()}

    def _attempt_of(self, path: str) -> str | None:
        """Return the attempt that made an object; empty if it does not say, None without one."""
        try:
            return self.attributes(path).get(_ATTEMPT, "")
        except NotFoundError:
            return None

    def _range(self, path: str, e_tag: str | None, offset_bytes: int, num_bytes: int) -> bytes:
        place = f"{self.uri(path)} at byte {offset_bytes}"
        options: dict[str, Any] = {"range": (offset_bytes, offset_bytes + num_bytes)}
        if e_tag:
            options["if_match"] = e_tag
        with _errors(place):
            return bytes(_package().get(self.client, _key(path), options=options).bytes())

    def _head(self, path: str) -> Any:
        with _errors(self.uri(path)):
            return _package().head(self.client, _key(path))

    def _is_folder(self, path: str) -> bool:
        with _errors(self.uri(path)):
            return any(_package().list(self.client, _key(path), chunk_size=1))


class S3Ranges:
    """Ranges of objects of one bucket, for readers that compare what they get with a digest.

    No object is looked at before: its range is one request, of the object that is there then.

    Args:
        fs: The bucket.
    """

    def __init__(self, fs: S3FileSystem) -> None:
        self._fs = fs

    def read_into(self, path: str, offset_bytes: int, out: memoryview, /) -> None:
        """Fill all of ``out`` from an object.

        Raises:
            NotFoundError: There is no such object.
            TruncatedError: It ends before the range does.
            StorageError: The store refused or failed.
        """
        try:
            found = self._fs._range(path, None, offset_bytes, len(out))  # noqa: SLF001 - of this file
        except StorageError as error:
            # The refusal of a range beyond the end is one among others.
            if type(error) is not StorageError or self._size(path) > offset_bytes:
                raise
            found = b""
        if len(found) != len(out):
            raise TruncatedError(
                f"expected {len(out)} bytes, the object has {len(found)}",
                path=self._fs.uri(path),
                offset_bytes=offset_bytes,
            )
        out[:] = found

    def close(self) -> None:
        """Do nothing: threads share the client of the bucket."""

    def _size(self, path: str) -> int:
        return self._fs.stat(path).size_bytes


class _Upload:
    """An object that is written from its start to its end, in parts if it is large."""

    def __init__(self, fs: S3FileSystem, path: str, *, is_new: bool) -> None:
        self._fs = fs
        self._path = path
        self._is_new = is_new
        self._first = bytearray()
        self._writer: Any = None
        self._is_given_up = False

    def file(self) -> BinaryIO:
        """Return the file to be written; its end makes the object appear."""
        target = UploadTarget(
            self._fs.uri(self._path), send=self._send, finish=self._finish, abandon=self.give_up
        )
        return io.BufferedWriter(target, BUFFER_BYTES)

    def give_up(self) -> None:
        """Make no object at the end; the store keeps parts that were sent until its rule ends."""
        self._is_given_up = True
        self._writer = None

    def _send(self, block: bytes) -> None:
        if self._is_given_up:
            return
        if self._writer is None and len(self._first) + len(block) <= _PART_BYTES:
            self._first += block
            return
        with _errors(self._fs.uri(self._path)):
            if self._writer is None:
                self._writer = _package().open_writer(
                    self._fs.client,
                    _key(self._path),
                    buffer_size=_PART_BYTES,
                    max_concurrency=_CONCURRENT_PARTS,
                )
                self._writer.write(bytes(self._first))
            self._writer.write(block)

    def _finish(self, num_bytes: int) -> None:
        if self._is_given_up:
            return
        place = self._fs.uri(self._path)
        if self._writer is None and self._is_new:
            if not self._fs.create_exclusive(self._path, bytes(self._first)):
                raise ConflictError(f"{place}: the name is taken")
        elif self._writer is None:
            self._fs.put(self._path, bytes(self._first))
        else:
            if self._is_new and self._fs.exists(self._path):
                raise ConflictError(f"{place}: the name is taken")
            with _errors(place):
                self._writer.close()
            check_length(place, self._fs.stat(self._path).size_bytes, num_bytes)


def _key(path: str) -> str:
    return path.strip("/")


def _file_info(path: str, meta: Any) -> FileInfo:
    # A single object is told with seconds, a listing with milliseconds.
    seconds = int(meta["last_modified"].timestamp())
    name = path.rpartition("/")[2]
    return FileInfo(name, path, meta["size"], seconds * 1000, is_dir=False)


def _folder_info(path: str) -> FileInfo:
    return FileInfo(path.rpartition("/")[2], path, 0, 0, is_dir=True)


# --- The client, and the meaning of its errors


@cache
def _connect(bucket: str) -> Any:
    endpoint, authorities = object_store_address()
    address = urlsplit(endpoint)
    is_plain = address.scheme == "http"
    if is_plain and address.hostname not in _LOOPBACK:
        raise ConfigError(
            f"expected https:// for {address.hostname} in AWS_ENDPOINT_URL, because what is read"
            " and written goes to another machine"
        )
    options: dict[str, Any] = {**_CLIENT, "allow_http": is_plain}
    if authorities is not None:
        options["root_certificate"] = read_plain(authorities, follow=True, max_bytes=_PART_BYTES)
    with _errors(f"s3://{bucket}"):
        return _package().store.S3Store(
            bucket,
            client_options=options,
            retry_config={"max_retries": _RETRIES},
            **({"endpoint": endpoint} if endpoint else {}),
        )


def _package() -> ModuleType:
    try:
        import obstore
        import obstore.store
    except ImportError as error:
        raise ConfigError(
            f"expected obstore for s3:// locations, got: {error}; install trainfeed[s3]"
        ) from error
    return obstore  # type: ignore[no-any-return]


@contextmanager
def _errors(place: str) -> Iterator[None]:
    """Raise errors of the client as those of ``StorageError``, with ``place``."""
    known = _package().exceptions
    try:
        yield
    except (known.BaseError, OSError) as error:
        text = str(error)
        said, status = _SAID.search(text), _STATUS.search(text)
        # The client has a class for the answers to some requests only.
        signs = (said and said[1], type(error).__name__, status and status[1])
        kind = next((_KINDS[sign] for sign in signs if sign in _KINDS), StorageError)
        reason = " ".join(text.partition("Debug source")[0].split())[:_MAX_REASON_CHARS]
        if said:
            reason = f"{said[2].strip().rstrip('.')} ({said[1]})"
        told = outage(place, reason) if kind is StorageError else storage_error(kind, place, reason)
        # Without the client's error: the text of a refusal has the signature of the request.
        raise told from None
