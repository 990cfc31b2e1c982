"""Requests for many small files at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from trainfeed.datacenters import PfsPath
from trainfeed.errors import ConflictError, ServiceError, TrainFeedError
from trainfeed.pfs.remote._asking import Asking
from trainfeed.pfs.trees import DigestKind, Parts, SmallFile
from trainfeed.pfs.wire import (
    BUNDLE_BYTES,
    BUNDLE_FILES,
    SMALL,
    SMALL_DIGESTS,
    SMALL_READ,
    Bundle,
    error_of,
)

__all__ = ["SmallRequests"]

# Bytes of small files in one request; the head of the bundle comes to them.
_BUNDLED_BYTES: Final = BUNDLE_BYTES // 2
# Bytes of paths in one request: a server takes 64 KiB of JSON. A path of 4,096 bytes that are not
# UTF-8 takes six times its size.
_PATHS_BYTES: Final = 60 << 10


class SmallRequests:
    """Small files of one area behind a server.

    Args:
        asking: Requests to the server.
        area: The area, without parts.
    """

    def __init__(self, asking: Asking, area: PfsPath) -> None:
        self._asking = asking
        self._area = area

    def get_small(self, files: Sequence[Parts]) -> list[bytes | TrainFeedError]:
        """Return the bytes of small files, or the error of each; see ``Tree``."""
        found = list[bytes | TrainFeedError]()
        while len(found) < len(files):
            reply = self._asking.post(SMALL_READ, {"paths": self._paths(files[len(found) :])})
            self._asking.require_success(reply)
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
            reply = self._asking.ask("POST", SMALL, body=bundle.pack())
            answered = self._asking.value(reply, "errors", list)
            found = [each and _error(each) for each in answered]
            errors += self._without_repeats(some, found) if reply.may_repeat else found
        return errors

    def small_digests(self, files: Sequence[Parts]) -> list[bytes | None]:
        """Return SHA-256 of each small file, None for anything else; see ``Tree``."""
        found = list[bytes | None]()
        while len(found) < len(files):
            paths = self._paths(files[len(found) :])
            reply = self._asking.post(SMALL_DIGESTS, {"paths": paths})
            self._asking.require_success(reply)
            digests = self._asking.value(reply, "digests", list)
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
