"""A file of a file server that is read in parts, all of one state of the file."""

from __future__ import annotations

from typing import Final

from trainfeed.errors import FileReplacedError, NotFoundError, ServiceError
from trainfeed.pfs.remote._asking import Asking
from trainfeed.pfs.trees import Entry, Kind, SourceState
from trainfeed.pfs.wire import DATA, FILES, MAX_READ_BYTES, Header

__all__ = ["ServerSource", "entry_of", "listed_entry", "state_header"]

_KINDS: Final = frozenset(Kind)


class ServerSource:
    """A plain file of a server; several threads may read at once.

    Args:
        asking: Requests to the server.
        path: Complete path of the file.
        state: State of the file.
    """

    def __init__(self, asking: Asking, path: str, state: SourceState) -> None:
        self._asking = asking
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
            entry = entry_of(self._asking, self._path)
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
        headers = {Header.EXPECTED_STATE.value: state_header(self.state)}
        reply = self._asking.ask("GET", DATA, parameters, headers=headers, into=part)
        if reply.num_bytes != len(part):
            raise ServiceError(
                f"{reply.request}: expected {len(part)} bytes, got {reply.num_bytes}; nothing of"
                " them was used"
            )
        return reply.num_bytes


def state_header(state: SourceState) -> str:
    """Return the state of a file as the header of the server has it."""
    return f'"{state.num_bytes}-{state.modified_ns}"'


def entry_of(asking: Asking, path: str) -> Entry:
    """Return the entry of a path.

    Raises:
        NotFoundError: Nothing has the name.
    """
    reply = asking.ask("GET", FILES, {"path": path, "method": "stat"})
    return _entry(asking.value(reply, "entry", dict))


def listed_entry(found: object) -> Entry:
    """Return an entry of a folder from its JSON object.

    Raises:
        ServiceError: The object has another form, or its name is not that of one file: a copy that
            used it would leave the folder that it is for.
    """
    entry = _entry(found)
    if entry.name in ("", ".", "..") or "/" in entry.name or "\0" in entry.name:
        raise ServiceError(
            f"expected the name of one file in a listing of the server, got {entry.name!a};"
            " nothing of the listing was used; look what the server serves"
        )
    return entry


def _entry(found: object) -> Entry:
    match found:
        case {
            "name": str(name),
            "kind": str(kind),
            "num_bytes": int(size),
            "modified_ns": int(at),
        } if kind in _KINDS:
            return Entry(name, Kind(kind), size, at)
        case _:
            raise ServiceError(
                "expected entries with name, kind, num_bytes and modified_ns, got another form;"
                " nothing of them was used; is another program, or another version of the server,"
                " listening there?"
            )
