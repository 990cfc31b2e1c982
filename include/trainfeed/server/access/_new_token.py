"""Makes tokens: the server's file gets a line with the digest, and only the caller the token."""

from __future__ import annotations

import fcntl
import os
import secrets
from datetime import datetime
from pathlib import Path
from typing import Final

from trainfeed.errors import ConfigError
from trainfeed.paths import os_errors
from trainfeed.server.access._tokens import TokenFile, are_scopes, digest_of, is_caller_name

__all__ = ["new_token"]

# 256 random bits: guessing is hopeless, and the digest needs no salt.
_TOKEN_BYTES: Final = 32
# Ends a file whose last line has no line end, before another line.
_LINE_END: Final = b"\n"


def new_token(tokens: Path, name: str, *, scopes: str, expires: datetime | None = None) -> str:
    """Add a line to a token file, which is made if it is missing, and return the new token.

    The token itself is kept nowhere.

    Args:
        tokens: The file.
        name: Name of the caller.
        scopes: What the token is good for, such as ``train,read``; ``ALL_SCOPES`` for every route.
        expires: Aware time from which the token is void; None for never.

    Raises:
        ConfigError: The name, the scopes or the file is not valid; the file is as before.
        StorageError: The file cannot be written.
    """
    if not is_caller_name(name):
        raise ConfigError(
            f"expected a name of at most 64 letters, digits, '.', '_', '@' and '-', got {name!r}"
        )
    if not are_scopes(scopes):
        raise ConfigError(
            f"expected scopes such as read,train, or * for every route, got {scopes!r}; no token"
            " was made"
        )
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    words = [name, digest_of(token), scopes]
    words += [] if expires is None else [f"{expires:%Y-%m-%dT%H:%M:%SZ}"]
    _append(tokens, " ".join(words).encode() + _LINE_END)
    return token


def _append(path: Path, line: bytes) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
    with os_errors(path):
        descriptor = os.open(path, flags, 0o600)
    try:
        with os_errors(path):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size_bytes = os.fstat(descriptor).st_size
            if size_bytes:
                TokenFile(path)  # a file with a wrong line stays as it is
                line = (
                    line if os.pread(descriptor, 1, size_bytes - 1) == _LINE_END else b"\n" + line
                )
            _write(path, descriptor, line, size_bytes)
    finally:
        os.close(descriptor)


def _write(path: Path, descriptor: int, line: bytes, size_bytes: int) -> None:
    try:
        while line:
            line = line[os.write(descriptor, line) :]
        TokenFile(path)  # the new line is read as the server will read it
        os.fsync(descriptor)
    except BaseException:
        os.ftruncate(descriptor, size_bytes)
        raise
