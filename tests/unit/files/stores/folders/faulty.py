"""A file system that counts its calls, and kills, fails or forgets at one of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from trainfeed.errors import AccessDeniedError, QuotaExceededError, StorageError
from trainfeed.files.stores import FileInfo
from trainfeed.files.stores.local import LocalFileSystem

__all__ = ["ACTIONS", "Faults", "FaultyFileSystem", "KilledHereError"]

# ``kill``: nothing more happens, not even the cleaning. ``kill-after``: the same, but the call took
# place. ``once``: one call fails. ``lost``: one call takes place and its answer is lost.
# ``refused``: one call fails for good. ``outage``, ``denied``, ``full``: this call and all that
# follow fail, each in its way.
ACTIONS = ("kill", "kill-after", "once", "lost", "refused", "outage", "denied", "full")


class KilledHereError(BaseException):
    """The process ended here: no handler of errors sees it, and no call works afterwards."""


@dataclass
class Faults:
    """The account of the calls, and the fault."""

    at: int | None = None
    action: str = ""
    calls: list[str] = field(default_factory=list)

    def call(self, name: str, act: Callable[[], Any]) -> Any:
        number = len(self.calls)
        self.calls.append(name)
        if self.at is None or number < self.at:
            return act()
        if number > self.at and self.action in {"once", "lost", "refused"}:
            return act()
        self._strike(name, act, is_first=number == self.at)
        raise AssertionError

    def _strike(self, name: str, act: Callable[[], Any], *, is_first: bool) -> None:
        if is_first and self.action in {"kill-after", "lost"}:
            act()
        if self.action in {"kill", "kill-after"}:
            raise KilledHereError(name)
        kinds = {
            "denied": AccessDeniedError,
            "full": QuotaExceededError,
            "refused": QuotaExceededError,
        }
        raise kinds.get(self.action, StorageError)(f"{name}: {self.action}, injected")


@dataclass(frozen=True)
class FaultyFileSystem:
    """A local file system under another scheme, through ``Faults``."""

    faults: Faults = field(compare=False)
    inner: LocalFileSystem = field(default_factory=LocalFileSystem)
    scheme: str = "faulty"

    def uri(self, path: str) -> str:
        return f"faulty://{path}"

    def open_read(self, path: str) -> BinaryIO:
        return self.faults.call("open_read", lambda: _File(self.faults, self.inner.open_read(path)))

    def open_write(self, path: str) -> BinaryIO:
        return self.faults.call(
            "open_write", lambda: _File(self.faults, self.inner.open_write(path))
        )

    def stat(self, path: str) -> FileInfo:
        return self.faults.call("stat", lambda: self.inner.stat(path))

    def exists(self, path: str) -> bool:
        return self.faults.call("exists", lambda: self.inner.exists(path))

    def list(self, path: str, wanted=None, *, broken=False) -> list[FileInfo]:
        return self.faults.call("list", lambda: self.inner.list(path, wanted, broken=broken))

    def checksum(self, path: str) -> str | None:
        return self.faults.call("checksum", lambda: self.inner.checksum(path))

    def is_open(self, path: str) -> bool | None:
        return self.faults.call("is_open", lambda: self.inner.is_open(path))

    def closed_files(self, path: str, entries) -> set[str]:
        return self.faults.call("closed_files", lambda: set(self.inner.closed_files(path, entries)))

    def make_dir(self, path: str) -> None:
        self.faults.call("make_dir", lambda: self.inner.make_dir(path))

    def rename(self, source: str, target: str) -> None:
        self.faults.call("rename", lambda: self.inner.rename(source, target))

    def replace(self, source: str, target: str) -> None:
        self.faults.call("replace", lambda: self.inner.replace(source, target))

    def write_atomic(self, path: str, write: Callable[[BinaryIO], None]) -> None:
        self.faults.call("write_atomic", lambda: self.inner.write_atomic(path, write))

    def create_exclusive(self, path: str, data: bytes) -> bool:
        return self.faults.call("create", lambda: self.inner.create_exclusive(path, data))

    def delete(self, path: str, *, recursive: bool = False) -> None:
        self.faults.call("delete", lambda: self.inner.delete(path, recursive=recursive))

    def free_bytes(self, path: str) -> int | None:
        return self.faults.call("free_bytes", lambda: self.inner.free_bytes(path))


class _File(io.RawIOBase):
    def __init__(self, faults: Faults, inner: BinaryIO) -> None:
        self._faults = faults
        self._inner = inner

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._faults.call("read", lambda: self._inner.read(size))

    def write(self, data: Any) -> int:
        return self._faults.call("write", lambda: self._inner.write(data))

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            self._faults.call("close", self._inner.close)
        finally:
            # The descriptor of a killed process is closed by the system, with what is written.
            self._inner.close()
