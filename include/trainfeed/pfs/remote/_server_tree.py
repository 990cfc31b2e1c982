"""An area of shared storage behind a file server, as a tree."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from trainfeed.datacenters import Area, Datacenter, PfsPath
from trainfeed.errors import (
    AccessDeniedError,
    CommitUnknownError,
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
)
from trainfeed.pfs.remote._asking import Asking
from trainfeed.pfs.remote._server_source import ServerSource, entry_of, listed_entry
from trainfeed.pfs.remote._server_target import ServerTarget
from trainfeed.pfs.remote._small_requests import SmallRequests
from trainfeed.pfs.trees import (
    DigestKind,
    Entry,
    FileDigests,
    Kind,
    Parts,
    Source,
    SourceState,
    Target,
    address_in_area,
    require_area_names,
    shown_in_area,
)
from trainfeed.pfs.wire import (
    CHUNKS,
    FILES,
    Header,
)
from trainfeed.server import Access, ByteClient, Reply

__all__ = ["ServerTree", "server_tree"]


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
    return ServerTree(ByteClient(datacenter.endpoint, access), root, is_current=is_current)


class ServerTree(SmallRequests):
    """Files of one area behind a server; every call is one of ``Tree``, for many threads.

    Errors are those of a mount; ``ServiceError`` and its subclasses come to them.

    Args:
        client: Connections to the server, closed with the tree.
        area: The area, without parts.
        is_current: Whether messages may leave out the data centre; see ``MountedTree``.
    """

    def __init__(self, client: ByteClient, area: PfsPath, *, is_current: bool = True) -> None:
        super().__init__(Asking(client), area)
        self._client = client
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
        return entry_of(self._asking, self._path(parts))

    def entries(self, parts: Parts) -> list[Entry]:
        """Return the entries of a folder, sorted by name; see ``Tree``."""
        found, is_complete = list[Entry](), False
        while not is_complete:
            after = found[-1].name if found else ""
            asked = {"path": self._path(parts), "method": "ls", "after": after}
            reply = self._asking.ask("GET", FILES, asked)
            found += [listed_entry(each) for each in self._asking.value(reply, "entries", list)]
            is_complete = self._asking.value(reply, "is_complete", bool)
        return found

    def make_folder(self, parts: Parts, *, parents: bool = False) -> None:
        """Make a folder; see ``Tree``."""
        asked = {"method": "mkdir", "path": self._path(parts), "parents": parents}
        reply = self._asking.post(FILES, asked)
        if reply.may_repeat and reply.refusal[0] == ConflictError.__name__:
            self._require_folder(parts, reply)
            return
        self._asking.require_success(reply)

    def remove(self, parts: Parts, *, recursive: bool = False) -> None:
        """Remove a file, a link or a folder; see ``Tree``."""
        asked = {"path": self._path(parts), "recursive": str(recursive).lower()}
        reply = self._asking.try_to("DELETE", FILES, asked)
        if reply.may_repeat and reply.refusal[0] == NotFoundError.__name__:
            # The first try, whose answer was lost, has removed it.
            return
        self._asking.require_success(reply)

    def rename(self, source: Parts, target: Parts, *, replace: bool) -> None:
        """Rename a file or folder in one step; see ``Tree``.

        Raises:
            CommitUnknownError: The answer was lost, and the source is not there any more.
        """
        old, new = self._path(source), self._path(target)
        asked = {"method": "mv", "path": old, "target": new, "replace": replace}
        reply = self._asking.post(FILES, asked)
        if reply.may_repeat and reply.refusal[0] == NotFoundError.__name__:
            raise CommitUnknownError(
                f"{self.show(source)}: expected the answer to a rename, which was lost, and now the"
                f" name is free; look whether {self.show(target)} is what was renamed"
            )
        self._asking.require_success(reply)

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
        return ServerSource(self._asking, path, state)

    def open_target(self, parts: Parts, state: SourceState, *, replace: bool) -> Target:
        """Open the upload of a file, which an earlier try may have left; see ``Tree``."""
        return ServerTarget(
            self._asking,
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
            reply = self._asking.ask("GET", CHUNKS, asked, headers=headers)
            chunks = self._asking.value(reply, "chunks", list)
            found += [bytes.fromhex(digest) for digest in chunks]
            if self._asking.value(reply, "is_complete", bool):
                return FileDigests(self._asking.value(reply, "num_bytes", int), tuple(found))
            # All parts of the answer are about one state of the file.
            headers = {Header.EXPECTED_STATE.value: self._asking.value(reply, "state", str)}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _sync(self, parts: Parts, *, recursive: bool) -> None:
        asked = {"method": "sync", "path": self._path(parts), "recursive": recursive}
        self._asking.require_success(self._asking.post(FILES, asked))

    def _require_folder(self, parts: Parts, reply: Reply) -> None:
        """Accept that the first try, whose answer was lost, has made the folder."""
        if self.stat(parts).kind is not Kind.FOLDER:
            self._asking.require_success(reply)
