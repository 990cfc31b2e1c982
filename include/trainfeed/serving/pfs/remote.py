"""The tree of a file server: what copies and commands use on a machine without a mount."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import crc32c

from trainfeed.core.datacenters import Area, Datacenter, PfsPath
from trainfeed.errors import (
    AccessDeniedError,
    CommitUnknownError,
    ConfigError,
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    ServiceError,
    TrainFeedError,
)
from trainfeed.serving.pfs.tree import (
    DigestKind,
    Entry,
    FileDigests,
    Kind,
    Parts,
    SmallFile,
    Source,
    SourceState,
    Target,
    address_in_area,
    require_area_names,
    shown_in_area,
)
from trainfeed.serving.pfs.wire import (
    BUNDLE_BYTES,
    BUNDLE_FILES,
    CHUNKS,
    DATA,
    FILES,
    FINISH,
    MAX_READ_BYTES,
    PRESENT,
    SMALL,
    SMALL_DIGESTS,
    SMALL_READ,
    UPLOADS,
    Bundle,
    Header,
    entry_of_json,
    error_of,
    state_text,
)
from trainfeed.serving.server import Access, Client, Reply

# --- Answers as values, refusals as the errors that a mount would raise


def checked(reply: Reply) -> Reply:
    """Return an answer if it is a success.

    Raises:
        TrainFeedError: The error that the server reported, as its own tree raised it.
        ServiceDeniedError: The token is refused.
        ServiceRefusedError: The server refused the request itself.
        ServiceError: The server failed.
    """
    if (error := error_of(*reply.refusal)) is not None:
        raise error
    return reply.require_success()


def value_of(reply: Reply, key: str, kind: type) -> Any:
    """Return a value of a JSON answer.

    Raises:
        ServiceError: The answer is of another form.
    """
    try:
        found = json.loads(reply.body)[key]
    except (ValueError, TypeError, KeyError):
        found = None
    if not isinstance(found, kind):
        raise ServiceError(
            f"{reply.request}: expected JSON with {key!r}, got {reply.num_bytes} other bytes;"
            " is another program, or another version of the server, listening there?"
        )
    return found


# --- A file of a file server that is read in parts, all of one state of the file


class ServerSource:
    """A plain file of a server; several threads may read at once.

    Args:
        client: Connections to the server.
        path: Complete path of the file.
        state: State of the file.
    """

    def __init__(self, client: Client, path: str, state: SourceState) -> None:
        self._client = client
        self._path = path
        self.state = state

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset``; see ``Source``."""
        wanted = min(len(buffer), max(0, self.state.num_bytes - offset))
        done = 0
        while done < wanted:
            part = buffer[done : min(wanted, done + MAX_READ_BYTES)]
            done += self._read(offset + done, part)
        return done

    def require_same(self) -> None:
        """Compare the file with the state at its opening; see ``Source``."""
        try:
            entry = entry_of(self._client, self._path)
        except NotFoundError:
            entry = None
        expected = self.state.num_bytes, self.state.modified_ns
        if entry is None or (entry.num_bytes, entry.modified_ns) != expected:
            got = "other bytes" if entry else "a removed file"
            raise FileReplacedError(
                f"{self._path}: expected no change during the copy, got {got}; no name was given"
                " to the copy; repeat the command when its writer has ended"
            )

    def close(self) -> None:
        """Do nothing: a server keeps nothing open between two requests."""

    def _read(self, offset: int, part: memoryview) -> int:
        parameters = {"path": self._path, "offset": offset, "size": len(part)}
        headers = {Header.EXPECTED_STATE.value: state_text(self.state)}
        reply = checked(self._client.ask("GET", DATA, parameters, headers=headers, into=part))
        if reply.num_bytes != len(part):
            raise ServiceError(
                f"{reply.request}: expected {len(part)} bytes, got {reply.num_bytes}; nothing of"
                " them was used"
            )
        return reply.num_bytes


def entry_of(client: Client, path: str) -> Entry:
    """Return the entry of a path.

    Raises:
        NotFoundError: Nothing has the name.
    """
    reply = checked(client.ask("GET", FILES, {"path": path, "method": "stat"}))
    return entry_of_json(value_of(reply, "entry", dict))


def listed_entry(found: object) -> Entry:
    """Return an entry of a folder from its JSON object.

    Raises:
        ServiceError: The object has another form, or its name is not that of one file: a copy that
            used it would leave the folder that it is for.
    """
    entry = entry_of_json(found)
    if entry.name in ("", ".", "..") or "/" in entry.name or "\0" in entry.name:
        raise ServiceError(
            f"expected the name of one file in a listing of the server, got {entry.name!a};"
            " nothing of the listing was used; look what the server serves"
        )
    return entry


# --- A file that is uploaded to a file server in chunks, and goes on after a restart of the server

_UNKNOWN: Final = "UploadUnknown"
# Each request of an upload begins the upload again at most so many times.
_BEGINS: Final = 8


class ServerTarget:
    """An upload; several threads may write at once.

    Args:
        client: Connections to the server.
        path: Complete path that the file gets.
        state: State of the source.
        replace: Whether a file that has the name is replaced.
        digests_of: Returns the digests of the file that has the name.

    Raises:
        ConflictError: Another copy of this source to this name runs, or the name is taken.
        StorageError: The storage of the server refused or failed.
        ServiceError: The server refused, failed or did not answer.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        state: SourceState,
        *,
        replace: bool,
        digests_of: Callable[[DigestKind], FileDigests],
    ) -> None:
        self._client = client
        self._path = path
        self._state = state
        self._replace = replace
        self._digests_of = digests_of
        self._lock = threading.Lock()
        self._upload = self._begun()

    def digests(self, kind: DigestKind = DigestKind.SHA256) -> tuple[bytes, ...]:
        """Return the digests of the chunks that an earlier try has left; see ``Target``."""
        reply = self._long("GET", PRESENT, kind)
        found = value_of(reply, "chunks", list)
        return tuple(bytes.fromhex(digest) for digest in found)

    def write(self, offset: int, data: memoryview) -> None:
        """Send one chunk; see ``Target``."""
        # TLS detects changes on the way; this detects those in memory at both ends. The digest of
        # each chunk is compared once, with the file as it was read back, at the end.
        headers = {Header.CRC32C.value: f"{crc32c.crc32c(data):08x}"}
        self._ask("POST", DATA, {"offset": offset}, body=data, headers=headers)

    def commit(self, chunks: Sequence[bytes], kind: DigestKind = DigestKind.SHA256) -> None:
        """Have the server verify the file and name it; see ``Target``.

        Raises:
            CommitUnknownError: The server ended within the last step, and the name has other bytes.
        """
        body = b"".join(chunks)
        asked = {"kind": kind.value}
        reply = self._try("POST", FINISH, asked, body=body)
        # The server answers after some seconds whether the step has ended.
        while reply.status == 202:
            reply = self._try("POST", FINISH, asked, body=body)
        if reply.refusal[0] != _UNKNOWN:
            checked(reply)
        elif not self._has_name(tuple(chunks), kind):
            self._finish_again(body, kind)

    def close(self) -> None:
        """Leave the upload to the next try; the server closes it when it was idle for a time."""

    def _finish_again(self, body: bytes, kind: DigestKind) -> None:
        """Finish an upload that the server has forgotten, with the chunks that are there."""
        self._begin_again(self._upload)
        reply = self._long("POST", FINISH, kind, body=body)
        if reply.status != 200:
            raise CommitUnknownError(
                f"{self._path}: expected the server to finish the upload, got status"
                f" {reply.status}; repeat the command, which sends what is missing"
            )

    def _has_name(self, chunks: tuple[bytes, ...], kind: DigestKind) -> bool:
        """Return whether the file has its name already: the answer to an earlier try was lost."""
        try:
            found = self._digests_of(kind)
        except NotFoundError:
            return False
        return found.num_bytes == self._state.num_bytes and found.chunks == chunks

    def _long(self, method: str, route: str, kind: DigestKind, body: bytes = b"") -> Reply:
        """Ask for a step that may take long, until it is done."""
        asked = {"kind": kind.value}
        reply = self._ask(method, route, asked, body=body)
        while reply.status == 202:
            reply = self._ask(method, route, asked, body=body)
        return reply

    def _ask(self, method: str, route: str, parameters: dict[str, Any], **more: Any) -> Reply:
        for _ in range(_BEGINS):
            number = self._upload
            reply = self._try(method, route, parameters, **more)
            if reply.refusal[0] != _UNKNOWN:
                checked(reply)
                return reply
            self._begin_again(number)
        raise ServiceError(
            f"{self._path}: expected an upload that stays known to the server, began it {_BEGINS}"
            " times; look in the log of the server why it ends again and again"
        )

    def _try(self, method: str, route: str, parameters: dict[str, Any], **more: Any) -> Reply:
        return self._client.ask(method, route, {"upload": self._upload, **parameters}, **more)

    def _begin_again(self, number: str) -> None:
        with self._lock:
            # Of the threads whose upload is unknown, one begins it again.
            if self._upload == number:
                self._upload = self._begun()

    def _begun(self) -> str:
        state = self._state
        asked = {
            "path": self._path,
            "num_bytes": state.num_bytes,
            "modified_ns": state.modified_ns,
            "identity": state.identity,
            "replace": self._replace,
        }
        reply = checked(self._client.ask("POST", UPLOADS, body=asked))
        number: str = value_of(reply, "upload", str)
        return number


# --- Requests for many small files at once

# Bytes of small files in one request; the head of the bundle comes to them.
_BUNDLED_BYTES: Final = BUNDLE_BYTES // 2
# Bytes of paths in one request: a server takes 64 KiB of JSON. A path of 4,096 bytes that are not
# UTF-8 takes six times its size.
_PATHS_BYTES: Final = 60 << 10


class SmallRequests:
    """Small files of one area behind a server.

    Args:
        client: Connections to the server.
        area: The area, without parts.
    """

    def __init__(self, client: Client, area: PfsPath) -> None:
        self._client = client
        self._area = area

    def get_small(self, files: Sequence[Parts]) -> list[bytes | TrainFeedError]:
        """Return the bytes of small files, or the error of each; see ``Tree``."""
        found = list[bytes | TrainFeedError]()
        while len(found) < len(files):
            paths = self._paths(files[len(found) :])
            reply = checked(self._client.ask("POST", SMALL_READ, body={"paths": paths}))
            bundle = Bundle.unpack(reply.body)
            if not bundle.about:
                raise ServiceError(f"{reply.request}: expected at least one file, got none")
            pairs = zip(bundle.about, bundle.data, strict=True)
            found += [_error(about) or data for about, data in pairs]
        return found

    def put_small(
        self, files: Sequence[SmallFile], *, replace: bool, is_hidden: bool
    ) -> list[TrainFeedError | None]:
        """Write small files, sync them and read them back; see ``Tree``."""
        errors = list[TrainFeedError | None]()
        for some in _bundled(files):
            about = [self._about(file) for file in some]
            options = {"replace": replace, "is_hidden": is_hidden}
            bundle = Bundle(about, [file.data for file in some], options)
            reply = checked(self._client.ask("POST", SMALL, body=bundle.pack()))
            answered = value_of(reply, "errors", list)
            found = [each and _error(each) for each in answered]
            errors += self._without_repeats(some, found) if reply.may_repeat else found
        return errors

    def small_digests(self, files: Sequence[Parts]) -> list[bytes | None]:
        """Return SHA-256 of each small file, None for anything else; see ``Tree``."""
        found = list[bytes | None]()
        while len(found) < len(files):
            paths = self._paths(files[len(found) :])
            reply = checked(self._client.ask("POST", SMALL_DIGESTS, body={"paths": paths}))
            digests = value_of(reply, "digests", list)
            if not digests:
                raise ServiceError(f"{reply.request}: expected at least one digest, got none")
            found += [None if digest is None else bytes.fromhex(digest) for digest in digests]
        return found

    def _about(self, file: SmallFile) -> dict[str, str]:
        kind = DigestKind.XXH3
        return {"path": self._path(file.parts), kind.value: kind.of(file.data).hex()}

    def _path(self, parts: Parts) -> str:
        return str(self._area.joined(*parts))

    def _paths(self, files: Sequence[Parts]) -> list[str]:
        """Return the paths of the first files that have room in one request; at least one."""
        paths, room = list[str](), _PATHS_BYTES
        for parts in files[:BUNDLE_FILES]:
            path = self._path(parts)
            room -= len(json.dumps(path)) + 2
            if room < 0 and paths:
                break
            paths.append(path)
        return paths

    def _without_repeats(
        self, files: list[SmallFile], errors: list[TrainFeedError | None]
    ) -> list[TrainFeedError | None]:
        """Drop conflicts with files that the first try, whose answer was lost, has written."""
        there = self.small_digests([file.parts for file in files])
        return [
            None if isinstance(error, ConflictError) and digest == file.digest else error
            for file, error, digest in zip(files, errors, there, strict=True)
        ]


def _bundled(files: Sequence[SmallFile]) -> Iterator[list[SmallFile]]:
    some, num_bytes = list[SmallFile](), 0
    for file in files:
        if some and (num_bytes + len(file.data) > _BUNDLED_BYTES or len(some) == BUNDLE_FILES):
            yield some
            some, num_bytes = [], 0
        some.append(file)
        num_bytes += len(file.data)
    if some:
        yield some


def _error(about: dict[str, Any]) -> TrainFeedError | None:
    kind, text = str(about.get("error", "")), str(about.get("got", ""))
    if not kind:
        return None
    return error_of(kind, text) or ServiceError(f"{kind}: {text}")


# --- An area of shared storage behind a file server, as a tree


def server_tree(datacenter: Datacenter, area: Area, *, is_current: bool) -> ServerTree:
    """Return the tree of an area behind the file server of a data centre.

    Args:
        datacenter: The data centre.
        area: The area.
        is_current: Whether ``pfs://`` paths are those of this data centre.

    Raises:
        ConfigError: The data centre has no endpoint, or a file for access is not usable.
    """
    if datacenter.endpoint is None:
        raise ConfigError(
            f"expected a mount of the data centre {datacenter.name} at {datacenter.folder(area)},"
            " or an endpoint in ~/.trainfeed/config, got neither; nothing was read or written;"
            " mount it, or add the endpoint of its file server; if plain folders of this machine"
            " are the storage, write local: true to the data centre in that file"
        )
    access = Access(
        datacenter.token_file, datacenter.ca_file, datacenter.usercert, datacenter.userkey
    )
    user = datacenter.username if area == "home" else None
    root = PfsPath(datacenter.name, area, user, ())
    return ServerTree(Client(datacenter.endpoint, access), root, is_current=is_current)


class ServerTree(SmallRequests):
    """Files of one area behind a server; every call is one of ``Tree``, for many threads.

    Errors are those of a mount; ``ServiceError`` and its subclasses come to them.

    Args:
        client: Connections to the server, closed with the tree.
        area: The area, without parts.
        is_current: Whether messages may leave out the data centre; see ``MountedTree``.
    """

    def __init__(self, client: Client, area: PfsPath, *, is_current: bool = True) -> None:
        super().__init__(client, area)
        self._is_current = is_current

    def show(self, parts: Parts) -> str:
        """Return the path of a place, as ``pfs://…`` in the current data centre."""
        return shown_in_area(self._area, parts, is_current=self._is_current)

    def require_names(self, parts: Parts) -> None:
        """Refuse names that shared storage does not allow; see ``Tree``."""
        require_area_names(self._area, parts, is_current=self._is_current)

    def address(self, parts: Parts) -> str:
        """Return the complete path of a place, which a mount of its area has too."""
        return address_in_area(self._area, parts)

    def stat(self, parts: Parts) -> Entry:
        """Return the entry of a place; see ``Tree``."""
        return entry_of(self._client, self._path(parts))

    def entries(self, parts: Parts) -> list[Entry]:
        """Return the entries of a folder, sorted by name; see ``Tree``."""
        found, is_complete = list[Entry](), False
        while not is_complete:
            after = found[-1].name if found else ""
            asked = {"path": self._path(parts), "method": "ls", "after": after}
            reply = checked(self._client.ask("GET", FILES, asked))
            found += [listed_entry(each) for each in value_of(reply, "entries", list)]
            is_complete = value_of(reply, "is_complete", bool)
        return found

    def make_folder(self, parts: Parts, *, parents: bool = False) -> None:
        """Make a folder; see ``Tree``."""
        asked = {"method": "mkdir", "path": self._path(parts), "parents": parents}
        reply = self._client.ask("POST", FILES, body=asked)
        if reply.may_repeat and reply.refusal[0] == ConflictError.__name__:
            self._require_folder(parts, reply)
            return
        checked(reply)

    def remove(self, parts: Parts, *, recursive: bool = False) -> None:
        """Remove a file, a link or a folder; see ``Tree``."""
        asked = {"path": self._path(parts), "recursive": str(recursive).lower()}
        reply = self._client.ask("DELETE", FILES, asked)
        if reply.may_repeat and reply.refusal[0] == NotFoundError.__name__:
            # The first try, whose answer was lost, has removed it.
            return
        checked(reply)

    def rename(self, source: Parts, target: Parts, *, replace: bool) -> None:
        """Rename a file or folder in one step; see ``Tree``.

        Raises:
            CommitUnknownError: The answer was lost, and the source is not there any more.
        """
        old, new = self._path(source), self._path(target)
        asked = {"method": "mv", "path": old, "target": new, "replace": replace}
        reply = self._client.ask("POST", FILES, body=asked)
        if reply.may_repeat and reply.refusal[0] == NotFoundError.__name__:
            raise CommitUnknownError(
                f"{self.show(source)}: expected the answer to a rename, which was lost, and now the"
                f" name is free; look whether {self.show(target)} is what was renamed"
            )
        checked(reply)

    def sync_names(self, parts: Parts) -> None:
        """Make the names in a folder and in all folders below it durable; see ``Tree``."""
        self._sync(parts, recursive=True)

    def sync_names_of(self, files: Sequence[Parts]) -> None:
        """Make the names of files durable; see ``Tree``."""
        for parts in sorted({parts[:-1] for parts in files}):
            self._sync(parts, recursive=False)

    def open_source(self, parts: Parts) -> Source:
        """Open a plain file for reading; see ``Tree``."""
        entry, path = self.stat(parts), self._path(parts)
        if entry.kind is Kind.LINK:
            raise AccessDeniedError(
                f"{self.show(parts)} is a link, and links are not followed on shared storage;"
                " nothing was read; name the file itself"
            )
        if entry.kind is not Kind.FILE:
            raise FormatError("expected a plain file, got another kind", path=self.show(parts))
        identity = hashlib.sha256(self.address(parts).encode()).hexdigest()[:32]
        state = SourceState(entry.num_bytes, entry.modified_ns, identity)
        return ServerSource(self._client, path, state)

    def open_target(self, parts: Parts, state: SourceState, *, replace: bool) -> Target:
        """Open the upload of a file, which an earlier try may have left; see ``Tree``."""
        return ServerTarget(
            self._client,
            self._path(parts),
            state,
            replace=replace,
            digests_of=lambda kind: self.digests(parts, kind),
        )

    def digests(self, parts: Parts, kind: DigestKind = DigestKind.SHA256) -> FileDigests:
        """Return the digests of a plain file, read by the server; see ``Tree``."""
        found, headers = list[bytes](), dict[str, str]()
        while True:
            asked = {"path": self._path(parts), "first": len(found), "kind": kind.value}
            reply = checked(self._client.ask("GET", CHUNKS, asked, headers=headers))
            chunks = value_of(reply, "chunks", list)
            found += [bytes.fromhex(digest) for digest in chunks]
            if value_of(reply, "is_complete", bool):
                return FileDigests(value_of(reply, "num_bytes", int), tuple(found))
            # All parts of the answer are about one state of the file.
            headers = {Header.EXPECTED_STATE.value: value_of(reply, "state", str)}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _sync(self, parts: Parts, *, recursive: bool) -> None:
        asked = {"method": "sync", "path": self._path(parts), "recursive": recursive}
        checked(self._client.ask("POST", FILES, body=asked))

    def _require_folder(self, parts: Parts, reply: Reply) -> None:
        """Accept that the first try, whose answer was lost, has made the folder."""
        if self.stat(parts).kind is not Kind.FOLDER:
            checked(reply)
