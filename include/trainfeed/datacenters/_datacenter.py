"""Data centres as this machine knows them: mounted folders, server, and files for access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from trainfeed.errors import ConfigError

__all__ = ["Area", "Datacenter", "Datacenters"]

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
