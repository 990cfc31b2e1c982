"""A bucket in memory, in place of the client of object stores: each request is a stop.

It does what ``tests/integration/s3`` shows of a real store: an object appears whole, a condition
lets one writer win, a listing shows what was put.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace

import obstore

__all__ = ["MemoryBucket", "Request"]


@dataclass(frozen=True)
class Request:
    """A request that was made, or is about to be.

    Attributes:
        name: Name of the operation.
        key: The object, or the prefix of a listing.
        changes: Whether it may change what others see.
    """

    name: str
    key: str
    changes: bool = False

    def __str__(self):
        return f"{self.name} {self.key}"


@dataclass
class MemoryBucket:
    """The objects of a bucket, and the operations of the client on them.

    Attributes:
        objects: Key → content, metadata and time.
        journal: The keys that were created or deleted, in their order.
        stop: Called before each request, and after it with whether it was made.
    """

    objects: dict = field(default_factory=dict)
    journal: list = field(default_factory=list)
    stop: object = None
    exceptions: object = obstore.exceptions

    def put(self, _client, key, data, *, mode="overwrite", attributes=None, **_options):
        with self._made("put", key, changes=True):
            if mode == "create" and key in self.objects:
                raise obstore.exceptions.AlreadyExistsError(f"{key} is there")
            self.objects[key] = bytes(data), dict(attributes or {}), datetime.now(UTC)
            self.journal.append(("put", key))

    def delete(self, _client, key):
        with self._made("delete", key, changes=True):
            if self.objects.pop(key, None) is not None:
                self.journal.append(("delete", key))

    def head(self, _client, key):
        with self._made("head", key):
            return self._meta(key)

    def get(self, _client, key, *, options):
        with self._made("get", key):
            meta = self._meta(key)
            data, attributes, _ = self.objects[key]
            first, last = options.get("range", (0, len(data)))
            return SimpleNamespace(attributes=attributes, bytes=lambda: data[first:last], meta=meta)

    def list(self, _client, prefix, *, chunk_size=1000):
        with self._made("list", prefix or ""):
            found = [self._meta(key) for key in self._below(prefix)]
            return [found[:chunk_size]] if found else []

    def list_with_delimiter(self, _client, prefix):
        with self._made("list", prefix or ""):
            start = f"{prefix}/" if prefix else ""
            names = {key: key[len(start) :].partition("/") for key in self._below(prefix)}
            folders = {f"{start}{name}" for name, slash, _ in names.values() if slash}
            files = [self._meta(key) for key, (_, slash, _) in names.items() if not slash]
            return {"objects": files, "common_prefixes": sorted(folders)}

    def _below(self, prefix):
        start = f"{prefix}/" if prefix else ""
        return [key for key in sorted(self.objects) if key.startswith(start)]

    def _meta(self, key):
        if key not in self.objects:
            raise FileNotFoundError(f"{key} is not there")
        data, _, at = self.objects[key]
        return {"path": key, "size": len(data), "last_modified": at, "e_tag": str(hash(data))}

    def _made(self, name, key, *, changes=False):
        return _Made(self, Request(name, key, changes))


class _Made:
    """Stops before a request, and after it."""

    def __init__(self, bucket, request):
        self._bucket, self._request = bucket, request

    def __enter__(self):
        if self._bucket.stop is not None:
            self._bucket.stop(self._request, is_made=False)

    def __exit__(self, kind, error, trace):
        if self._bucket.stop is not None and kind is None:
            self._bucket.stop(self._request, is_made=True)
