"""The token file of a server: names of callers, digests of their tokens, what each may do.

One line per token, separated by spaces; empty lines and lines that begin with ``#`` are skipped::

    NAME SHA256-HEX [SCOPE[,SCOPE…]] [EXPIRES]
    NAME certificate [SCOPE[,SCOPE…]] [EXPIRES]

With the scope ``*`` a token is good for every route. Lines without scopes, which were made before
scopes had to be named, are good for every route too, and the log warns of them. ``EXPIRES`` is a
day or a time in UTC, such as ``2027-01-31`` or ``2027-01-31T12:00:00Z``. Two lines of one name are
two tokens, which is how a token is replaced without an interruption. ``certificate`` stands for a
client certificate whose common name is NAME. Of several lines of one token or certificate, the
first that has not expired counts.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.errors import ConfigError
from trainfeed.server.access._private_files import read_private

__all__ = [
    "ALL_SCOPES",
    "Caller",
    "TokenFile",
    "are_scopes",
    "digest_of",
    "is_caller_name",
    "parse_expiry",
]

ALL_SCOPES: Final = "*"

_log: Final = logging.getLogger("trainfeed.server")
_MAX_BYTES: Final = 1 << 20
_CERTIFICATE: Final = "certificate"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SCOPES: Final = re.compile(r"\*|[a-z][a-z0-9_-]{0,31}(,[a-z][a-z0-9_-]{0,31})*")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FORM: Final = "NAME SHA256-HEX|certificate [SCOPES] [EXPIRES]"


@dataclass(frozen=True)
class Caller:
    """The sender of a request, as a line of the token file has it.

    Attributes:
        name: Name of the line, for audit and limits.
        scopes: Scopes that the line grants.
        expires: Aware UTC time from which the line is void; None for never.
    """

    name: str
    scopes: frozenset[str] = frozenset({ALL_SCOPES})
    expires: datetime | None = None

    def may(self, scope: str) -> bool:
        """Return whether the line grants a scope."""
        return ALL_SCOPES in self.scopes or scope in self.scopes

    def is_expired(self, now: datetime) -> bool:
        """Return whether the line is void at an aware time."""
        return self.expires is not None and now >= self.expires


@dataclass(frozen=True)
class _Line:
    proof: str
    caller: Caller
    has_scopes: bool


class TokenFile:
    """The token file, which is read again whenever it changes.

    Args:
        path: The file; see the docstring of the module.

    Raises:
        ConfigError: The file cannot be read, is open to other accounts, or has a wrong line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = self._now()
        self._lines = self._read()
        self._fault = ""

    def warn(self) -> None:
        """Warn in the log of lines without scopes, which give access to everything."""
        if names := sorted({line.caller.name for line in self._lines if not line.has_scopes}):
            _log.warning(
                "%s: the tokens of %s have no scopes and are good for every route; name the scopes"
                " behind the digest, or * for all",
                self.path,
                ", ".join(names),
            )

    def is_usable(self) -> bool:
        """Return whether the file can be used now."""
        try:
            self._look()
        except ConfigError:
            return False
        return True

    def caller(self, token: str | None, certificate: str | None) -> Caller | None:
        """Return the caller whose token or certificate this is, expired or not; None if unknown.

        Args:
            token: The token of the request.
            certificate: Common name of the verified certificate of the connection.

        Raises:
            ConfigError: The file has changed and cannot be used. No token is accepted then, because
                the change may be a revocation.
        """
        self._look()
        if token is not None:
            return _matching(self._lines, digest_of(token))
        shown = [line.caller for line in self._lines if line.proof == _CERTIFICATE]
        return _valid([caller for caller in shown if caller.name == certificate])

    def _look(self) -> None:
        """Read the file if it has changed; a wrong one is read, and logged, once."""
        try:
            stamp = self._now()
        except ConfigError as error:
            self._tell((), error)
            raise
        if stamp != self._stamp:
            try:
                self._lines = self._read()
            except ConfigError as error:
                self._tell(stamp, error)
                raise
            self._stamp, self._fault = stamp, ""
            self.warn()
        if self._fault:
            raise ConfigError(self._fault)

    def _tell(self, stamp: tuple[int, ...], error: ConfigError) -> None:
        if self._stamp != stamp or not self._fault:
            _log.error("no request is accepted: %s", error)
        self._stamp, self._fault = stamp, str(error)

    def _now(self) -> tuple[int, ...]:
        try:
            found = os.stat(self.path)  # noqa: PTH116 (once per request)
        except OSError as error:
            raise ConfigError(
                f"cannot read the tokens of clients in {self.path}: {error.strerror}; no request is"
                " accepted until the file is there"
            ) from error
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

    def _read(self) -> list[_Line]:
        data = read_private(self.path, "the tokens of clients", max_bytes=_MAX_BYTES)
        text = data.decode("utf-8", "replace").splitlines()
        lines = enumerate(text, start=1)
        found = [
            _parse(line.split(), f"{self.path}, line {number}")
            for number, line in lines
            if line.strip() and not line.lstrip().startswith("#")
        ]
        if not found:
            raise ConfigError(
                f"expected a line per token in {self.path}, got none; make one: trainfeed token new"
                f" NAME --tokens {self.path} --scopes SCOPES"
            )
        return found


def _matching(lines: list[_Line], digest: str) -> Caller | None:
    # All lines are compared, each in constant time: the time of an answer tells nothing.
    return _valid([line.caller for line in lines if hmac.compare_digest(line.proof, digest)])


def _valid(callers: list[Caller]) -> Caller | None:
    """Return the first that has not expired; the first of all if there is none."""
    now = datetime.now(UTC)
    return next((caller for caller in callers if not caller.is_expired(now)), (*callers, None)[0])


def digest_of(token: str) -> str:
    """Return the digest of a token as the file has it. Tokens are random, so no salt is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_caller_name(name: str) -> bool:
    """Return whether a name may begin a line."""
    return _NAME.fullmatch(name) is not None


def are_scopes(text: str) -> bool:
    """Return whether a text may be the scopes of a line; an empty one would be every route."""
    return _SCOPES.fullmatch(text) is not None


def parse_expiry(text: str) -> datetime:
    """Return the time of a day, or of a time with or without ``Z``, as an aware UTC time.

    Raises:
        ValueError: The text is neither.
    """
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _parse(words: list[str], where: str) -> _Line:
    # Messages have no word of the line, which may be a token that was pasted by mistake.
    if not 2 <= len(words) <= 4 or not is_caller_name(words[0]):
        raise ConfigError(f"expected {_FORM} at {where}, got {len(words)} words of another form")
    name, proof, scopes, expires = (*words, ALL_SCOPES, "")[:4] if len(words) < 4 else words
    if proof != _CERTIFICATE and not _DIGEST.fullmatch(proof):
        raise ConfigError(f"expected a SHA-256 of 64 hex digits at {where}, got another word")
    if not are_scopes(scopes):
        raise ConfigError(f"expected scopes such as read,train or * at {where}, got another word")
    try:
        until = parse_expiry(expires) if len(words) == 4 else None
    except ValueError:
        raise ConfigError(f"expected a day such as 2027-01-31 at {where}") from None
    return _Line(proof, Caller(name, frozenset(scopes.split(",")), until), len(words) > 2)
