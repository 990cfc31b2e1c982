"""A client of a store that ends at one of its requests, as a killed process does."""

from __future__ import annotations

from trainfeed.files.stores import s3 as _s3


class KilledHereError(BaseException):
    """The process ended here: no handler of errors sees it."""


class Requests:
    """The client, which ends at one of its requests: before it, or when it has taken place."""

    def __init__(self, at: int, *, is_done: bool) -> None:
        self._client = _s3._package()
        self._at = at
        self._is_done = is_done
        self.made: list[str] = []

    def __getattr__(self, name: str) -> object:
        found = getattr(self._client, name)
        if name not in {"delete", "get", "head", "list", "list_with_delimiter", "put"}:
            return found

        def request(*arguments: object, **options: object) -> object:
            self.made.append(name)
            if len(self.made) <= self._at:
                return found(*arguments, **options)
            if len(self.made) == self._at + 1 and self._is_done:
                found(*arguments, **options)
            raise KilledHereError

        return request
