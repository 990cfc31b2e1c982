"""Where homes and public files lie: paths inside the file system, and namespaces of objects."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from trainfeed.datacenters import PfsPath

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """Paths and namespaces of one data centre on one CephFS.

    Attributes:
        file_system: Name of the CephFS.
        datacenter: Name of the data centre.
    """

    file_system: str
    datacenter: str

    @property
    def public(self) -> str:
        """Path of the public folder."""
        return str(PfsPath(self.datacenter, "public", None, ()))

    @property
    def public_namespace(self) -> str:
        """Namespace of the objects of public files, which every user may read."""
        return self.public.removeprefix("/")

    @property
    def homes(self) -> str:
        """Path of the folder of all homes."""
        return f"{self.public.removesuffix('/public')}/home"

    def home(self, user: str) -> str:
        """Path of a user's home."""
        return str(PfsPath(self.datacenter, "home", user, ()))

    def new_namespace(self, user: str) -> str:
        """Return a namespace for a new home of a user, different at every call.

        A user of a name that another had before must not read objects that were left behind.
        """
        return f"{self.home(user).removeprefix('/')}.{secrets.token_hex(4)}"

    def is_namespace(self, user: str, namespace: str) -> bool:
        """Whether a namespace was made for a home of this user."""
        start = re.escape(self.home(user).removeprefix("/"))
        return re.fullmatch(rf"{start}\.[0-9a-f]{{8}}", namespace) is not None
