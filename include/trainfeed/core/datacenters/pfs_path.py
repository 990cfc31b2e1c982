"""Data centres, checked paths of files on their shared storage, and where they are mounted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias, get_args

from trainfeed.errors import AccessDeniedError, ConfigError

# --- Data centres as this machine knows them: mounted folders, server, and files for access

# A user writes below the own home; everybody reads what is public.
Area: TypeAlias = Literal["home", "public"]


@dataclass(frozen=True)
class Datacenter:
    """One data centre, for one user.

    Attributes:
        name: Name in paths, ``/pfs/<name>/…``.
        username: The user whose home is ``pfs://home``.
        home: Folder of this machine on which the user's home is mounted.
        public: Folder of this machine on which the public files are mounted.
        endpoint: ``https://HOST[:PORT]`` of the file server; None if there is none.
        token_file: File with the user's token for the server.
        ca_file: Certificates of the authorities that signed the server's.
        usercert: Certificate of the user, for a server that takes one in place of a token.
        userkey: Key of the certificate.
        is_local: Whether plain folders of this machine are the storage, so that nothing is mounted.
    """

    name: str
    username: str
    home: Path
    public: Path
    endpoint: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    usercert: Path | None = None
    userkey: Path | None = None
    is_local: bool = False

    def folder(self, area: Area) -> Path:
        """The folder of this machine on which an area is mounted, if it is mounted at all."""
        return self.home if area == "home" else self.public


@dataclass(frozen=True)
class Datacenters:
    """All data centres that this machine knows.

    Attributes:
        current: The data centre of paths that name none.
        by_name: Name → data centre.
        source: File that they were read from, for messages.
    """

    current: Datacenter
    by_name: Mapping[str, Datacenter]
    source: Path = field(compare=False)

    def named(self, name: str) -> Datacenter:
        """Return a data centre.

        Raises:
            ConfigError: The file has none of this name.
        """
        if name not in self.by_name:
            raise ConfigError(
                f"expected one of the data centres {', '.join(sorted(self.by_name))}, got"
                f" {name!r}; add it to {self.source}, or correct the name"
            )
        return self.by_name[name]


# --- Paths of files on shared storage, from text that nobody has checked before

SCHEME: Final = "pfs://"
_ROOT: Final = "/pfs/"
_FULL: Final = f"{_ROOT}<datacenter>/home/<user>/… or {_ROOT}<datacenter>/public/…"
_MAX_NAME_BYTES: Final = 255
# Names of data centres are parts of host names elsewhere; those of users may be addresses of mail.
_DATACENTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_USER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}")
# Control characters, and characters that end a line.
_REFUSED: Final = frozenset({"Cc", "Zl", "Zp"})


@dataclass(frozen=True)
class PfsPath:
    """One file or folder on the shared storage of a data centre.

    Attributes:
        datacenter: Name of the data centre.
        area: ``home`` or ``public``.
        user: The user whose home it is; None in the public area.
        parts: Names below the area, from the top; empty for the area itself.
        is_folder: Whether the text ended with a slash, which only a folder may have.
    """

    datacenter: str
    area: Area
    user: str | None
    parts: tuple[str, ...]
    is_folder: bool = False

    def __post_init__(self) -> None:
        require_datacenter_name(self.datacenter)
        if self.area not in get_args(Area):
            raise _refused(self.area, f"expected one of the areas {' and '.join(get_args(Area))}")
        if (self.area == "home") != (self.user is not None):
            raise _refused(self.user or "", "expected a user in the area home, and only there")
        if self.user is not None:
            require_user(self.user)
        for name in self.parts:
            _require_name(name)

    @classmethod
    def parse(cls, text: str, *, datacenter: Datacenter | None = None) -> Self:
        """Return the path that a text names.

        Repeated slashes and ``.`` are dropped; nothing else is changed, so ``%2e`` and ``*`` are
        characters of a name.

        Args:
            text: ``pfs://home/…``, ``pfs://public/…``, ``/pfs/<datacenter>/home/<user>/…`` or
                ``/pfs/<datacenter>/public/…``.
            datacenter: Data centre and user of ``pfs://`` paths; complete paths need none.

        Raises:
            ConfigError: The text has another form; it has ``..``, a control character, the end of a
                line, or a name above 255 bytes; or a ``pfs://`` path has no data centre.
        """
        is_folder = text.endswith(("/", "/."))
        match _complete(text, datacenter):
            case (name, "home", user, *parts):
                return cls(name, "home", user, tuple(parts), is_folder)
            case (name, "public", *parts):
                return cls(name, "public", None, tuple(parts), is_folder)
            case _:
                raise _refused(text, f"expected {SCHEME}home/…, {SCHEME}public/…, {_FULL}")

    @property
    def name(self) -> str:
        """The last name; empty for the area itself."""
        return self.parts[-1] if self.parts else ""

    def joined(self, *names: str) -> PfsPath:
        """Return the path of a file or folder below this one.

        Raises:
            ConfigError: A name is not that of one file.
        """
        return PfsPath(self.datacenter, self.area, self.user, (*self.parts, *names))

    def short(self) -> str:
        """Return the path as ``pfs://…``, which leaves out data centre and user."""
        return SCHEME + "/".join((self.area, *self.parts)) + ("/" if self.is_folder else "")

    def shown(self, *, is_current: bool) -> str:
        """Return the text for messages, which ``parse`` reads back on the same machine.

        Args:
            is_current: Whether this is the data centre of ``pfs://`` paths.
        """
        return self.short() if is_current else str(self)

    def __str__(self) -> str:
        """Return the complete path, which ``parse`` reads back."""
        owner = () if self.user is None else (self.user,)
        names = (self.datacenter, self.area, *owner, *self.parts)
        return _ROOT + "/".join(names) + ("/" if self.is_folder else "")


def require_user(name: str) -> str:
    """Return the name of a user, which is one name of a folder too.

    Raises:
        ConfigError: ``name`` is none.
    """
    if not _USER.fullmatch(name):
        raise _refused(name, "expected a user's name of at most 63 of A-Z a-z 0-9 . _ @ + -")
    return name


def require_datacenter_name(name: str) -> str:
    """Return the name of a data centre.

    Raises:
        ConfigError: ``name`` is none.
    """
    if not _DATACENTER.fullmatch(name):
        raise _refused(name, "expected a data centre's name of at most 63 of A-Z a-z 0-9 . _ -")
    return name


def _complete(text: str, datacenter: Datacenter | None) -> tuple[str, ...]:
    """Return the names of a path in its complete form, without ``/pfs``."""
    if text.startswith(_ROOT):
        return _names(text.removeprefix(_ROOT))
    if not text.startswith(SCHEME):
        raise _refused(text, f"expected a path that begins with {SCHEME} or {_ROOT}")
    if datacenter is None:
        raise _refused(text, "expected a path that names its data centre")
    area, *names = _names(text.removeprefix(SCHEME)) or ("",)
    owner = (datacenter.username,) if area == "home" else ()
    return datacenter.name, area, *owner, *names


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split("/") if name not in ("", "."))


def _require_name(name: str) -> None:
    if name in ("", ".", "..") or "/" in name:
        raise _refused(name, "expected names that stay below their area")
    is_plain = name.isascii() and name.isprintable()  # most names; a loop takes 50 times as long
    if not is_plain and any(unicodedata.category(c) in _REFUSED for c in name):
        raise _refused(name, "expected names without control characters")
    try:
        num_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise _refused(name, "expected names in UTF-8") from None
    if num_bytes > _MAX_NAME_BYTES:
        raise _refused(name, f"expected names of at most {_MAX_NAME_BYTES} bytes")


def _refused(text: str, expected: str) -> ConfigError:
    shown = ascii(text if len(text) <= _MAX_NAME_BYTES else f"{text[:_MAX_NAME_BYTES]}…")
    return ConfigError(
        f"{expected} on shared storage, got {shown}; nothing was read or written; correct the path"
    )


# --- Files of shared storage on a mount of this machine


def area_folder(path: PfsPath, datacenter: Datacenter) -> Path:
    """Return the folder of this machine on which the area of ``path`` is mounted.

    Whether it is there is not looked at.

    Raises:
        ConfigError: The path is in another data centre.
        AccessDeniedError: The path is in the home of another user.
    """
    if path.datacenter != datacenter.name:
        raise ConfigError(
            f"expected a path in the data centre {datacenter.name}, got {path}; name its data"
            " centre, or correct the path"
        )
    if path.user not in (None, datacenter.username):
        raise AccessDeniedError(
            f"expected a path in the home of {datacenter.username}, got {path}, which is another"
            " user's; nothing was read or written; ask for a copy in the public folder"
        )
    return datacenter.folder(path.area)


def local_path(path: PfsPath, datacenter: Datacenter) -> Path:
    """Return the path of a file on the mount of its area; raises as ``area_folder`` does.

    The file need not be there, and links are not looked at: programs that may meet links of others
    open the file beneath ``area_folder`` without following links.
    """
    return area_folder(path, datacenter).joinpath(*path.parts)
