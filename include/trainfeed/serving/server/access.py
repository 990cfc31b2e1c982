"""Who may use a server: tokens and their file, certificates, files that others cannot read."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import logging
import os
import re
import secrets
import ssl
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.errors import ConfigError, FormatError, StorageError
from trainfeed.files import FilePath, open_plain, os_errors
from trainfeed.serving.server.settings import ServerSettings

# --- Reads files that only one account may know: keys, tokens and their digests

# Other accounts may do nothing with the file, and its group may at most read it.
_REFUSED_MODE: Final = stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO


def read_private(path: FilePath, what: str, *, max_bytes: int) -> bytes:
    """Return the content of a file that other accounts cannot read or change.

    Links are followed, because clusters mount secrets as links.

    Args:
        path: The file.
        what: Its content, for messages.
        max_bytes: A larger file is refused.

    Raises:
        ConfigError: The file is missing, too large, no plain file, or open to other accounts; the
            message has nothing of its content.
    """
    try:
        with open_plain(path, follow=True) as file:
            _require_closed(path, what, os.fstat(file.fileno()))
            data = file.read(max_bytes + 1)
    except (FormatError, StorageError) as error:
        raise ConfigError(f"cannot read {what}: {error}") from error
    if len(data) > max_bytes:
        raise ConfigError(f"expected at most {max_bytes} bytes of {what} in {path}, got more")
    return data


def _require_closed(path: FilePath, what: str, found: os.stat_result) -> None:
    if found.st_mode & _REFUSED_MODE or found.st_uid not in (0, os.geteuid()):
        raise ConfigError(
            f"expected {path} with {what} to be closed to other accounts, got mode"
            f" {stat.S_IMODE(found.st_mode):04o} of user {found.st_uid}; run: chmod 600 {path}"
        )


# --- TLS of a server and of its clients: version 1.2 or later, with errors that name the file

_MAX_KEY_BYTES: Final = 1 << 20


def server_context(settings: ServerSettings) -> ssl.SSLContext | None:
    """Return the TLS context of a server; None without a certificate.

    Raises:
        ConfigError: A file is missing, is no PEM file, the key is encrypted or open to other
            accounts, or key and certificate do not belong together.
    """
    if settings.certificate is None or settings.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_chain(context, settings.certificate, settings.key)
    if settings.client_ca is not None:
        _load_authorities(context, settings.client_ca)
        # Clients with a token need no certificate; one that is shown is verified.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_context(
    ca_file: Path | None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """Return the TLS context of a client, which verifies name and certificate of the server.

    Args:
        ca_file: Authorities to trust; None trusts those of the system.
        certificate: Certificate that the client shows.
        key: Key of the certificate.

    Raises:
        ConfigError: As ``server_context`` raises it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is None:
        context.load_default_certs()
    else:
        _load_authorities(context, ca_file)
    if certificate is not None and key is not None:
        _load_chain(context, certificate, key)
    return context


def common_name(certificate: object) -> str | None:
    """Return the common name of a verified certificate, as ``getpeercert`` gives it."""
    subject = certificate.get("subject", ()) if isinstance(certificate, dict) else ()
    names = [value for part in subject for name, value in part if name == "commonName"]
    # Two names in one subject do not say which of them is meant.
    return names[0] if len(names) == 1 else None


def _load_chain(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    if b"ENCRYPTED" in read_private(key, "a private key", max_bytes=_MAX_KEY_BYTES):
        raise ConfigError(f"expected a key without a password in {key}, got an encrypted one")
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise ConfigError(
            f"expected a certificate in {certificate} and its key in {key}, both PEM, got"
            f" {error.reason or 'other content'}; nothing was started"
        ) from error
    except OSError as error:
        raise ConfigError(f"cannot read the certificate {certificate}: {error.strerror}") from error


def _load_authorities(context: ssl.SSLContext, ca_file: Path) -> None:
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        raise ConfigError(
            f"expected certificates of authorities in {ca_file}, PEM, got"
            f" {error.reason or 'other content'}"
        ) from error
    except OSError as error:
        raise ConfigError(f"cannot read the authorities {ca_file}: {error.strerror}") from error


# --- The token file of a server: names of callers, digests of their tokens, what each may do

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
class TokenLine:
    """A line of a token file.

    Attributes:
        proof: SHA-256 of the token in hex, or ``certificate``.
        caller: The caller that shows it.
        has_scopes: Whether the line names scopes; one without is good for every route.
        number: Number of the line, from 1.
    """

    proof: str
    caller: Caller
    has_scopes: bool
    number: int


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

    @property
    def lines(self) -> Sequence[TokenLine]:
        """The lines, in their order, as they were when the file was last read."""
        return tuple(self._lines)

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

    def _read(self) -> list[TokenLine]:
        if not (found := _lines_of(self.path)):
            raise ConfigError(
                f"expected a line per token in {self.path}, got none; make one: trainfeed token new"
                f" NAME --tokens {self.path} --scopes SCOPES"
            )
        return found


def _matching(lines: list[TokenLine], digest: str) -> Caller | None:
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


def _lines_of(path: Path) -> list[TokenLine]:
    data = read_private(path, "the tokens of clients", max_bytes=_MAX_BYTES)
    text = data.decode("utf-8", "replace").splitlines()
    return [
        _parse(line.split(), path, number)
        for number, line in enumerate(text, start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]


def _parse(words: list[str], path: Path, number: int) -> TokenLine:
    where = f"{path}, line {number}"
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
    caller = Caller(name, frozenset(scopes.split(",")), until)
    return TokenLine(proof, caller, len(words) > 2, number)


# --- Makes tokens: the server's file gets a line with the digest, and only the caller the token

# 256 random bits: guessing is hopeless, and the digest needs no salt.
_TOKEN_BYTES: Final = 32
# So many digits of a digest name a line.
_LEAST_DIGITS: Final = 4
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


def revoke_tokens(
    tokens: Path, name: str, *, digest: str | None = None, dry_run: bool = False
) -> list[TokenLine]:
    """Make lines of a caller void: servers refuse their tokens from their next request on.

    A line becomes a comment in its place: its first byte in one write, before the rest. So neither
    a kill nor a server that reads meanwhile sees half a line.

    Args:
        tokens: The file.
        name: Name of the caller.
        digest: The first digits of the digest of the one line, of at least four; None for all lines
            of the name.
        dry_run: Whether the file stays as it is.

    Returns:
        The lines that were, or would be, made void.

    Raises:
        ConfigError: No line or several have the digest, or the file is not valid; it is as before.
        StorageError: The file cannot be written.
    """
    with os_errors(tokens):
        descriptor = os.open(tokens, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        with os_errors(tokens):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        chosen = _chosen(TokenFile(tokens), name, digest)
        if not dry_run:
            with os_errors(tokens):
                _make_comments(tokens, descriptor, chosen)
        return chosen
    finally:
        os.close(descriptor)


def _chosen(file: TokenFile, name: str, digest: str | None) -> list[TokenLine]:
    found = [line for line in file.lines if line.caller.name == name]
    if not found:
        raise ConfigError(
            f"expected a caller of {file.path}, got {name[:80]!r}; nothing was changed; trainfeed"
            f" token ls --tokens {file.path} lists them"
        )
    if digest is None:
        return found
    is_one = len(digest) >= _LEAST_DIGITS
    found = [line for line in found if is_one and line.proof.startswith(digest)]
    if len(found) != 1:
        raise ConfigError(
            f"expected the first digits, {_LEAST_DIGITS} or more, of the digest of one line of"
            f" {name}, got {digest[:80]!r}, which {len(found)} have; nothing was changed; trainfeed"
            f" token ls --tokens {file.path} shows them"
        )
    return found


def _make_comments(path: Path, descriptor: int, lines: Sequence[TokenLine]) -> None:
    kept = os.pread(descriptor, _MAX_BYTES, 0).splitlines(keepends=True)
    places = [(sum(map(len, kept[: line.number - 1])), line) for line in lines]
    for _, line in places:
        words = kept[line.number - 1].split()[:2] if line.number <= len(kept) else []
        if words != [line.caller.name.encode(), line.proof.encode()]:
            raise ConfigError(
                f"expected only line feeds between the lines of {path}, got another character that"
                " ends one; nothing was changed; remove the line by hand"
            )
    for start, line in places:
        length = len(kept[line.number - 1].rstrip(b"\r\n"))
        comment = f"# revoked: {line.caller.name}".encode()[:length].ljust(length)
        os.pwrite(descriptor, comment[:1], start)
        os.pwrite(descriptor, comment, start)
    os.fsync(descriptor)


def _append(path: Path, line: bytes) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
    with os_errors(path):
        descriptor = os.open(path, flags, 0o600)
    try:
        with os_errors(path):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size_bytes = os.fstat(descriptor).st_size
            if size_bytes:
                _lines_of(path)  # a file with a wrong line stays as it is
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
