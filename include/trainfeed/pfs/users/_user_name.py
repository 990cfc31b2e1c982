"""Names of users on a Ceph cluster, where a name is a folder, a key and a part of caps."""

from __future__ import annotations

import re
from typing import Final

from trainfeed.errors import ConfigError

__all__ = ["require_user_name"]

# A letter first: Ceph names its own sessions client.<number>. No dot, which ends the name of a user
# in a namespace.
_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
# Keys that Ceph, its gateways and the programs around it use, and words of the layout.
_RESERVED: Final = frozenset(
    {
        "admin",
        "ceph",
        "ceph-exporter",
        "cinder",
        "client",
        "crash",
        "fs",
        "glance",
        "home",
        "iscsi",
        "libvirt",
        "manila",
        "mds",
        "mgr",
        "mon",
        "nfs",
        "nobody",
        "nova",
        "osd",
        "public",
        "radosgw",
        "rbd",
        "rbd-mirror",
        "rgw",
        "root",
        "snap",
    }
)
_RESERVED_STARTS: Final = ("bootstrap-", "crash-", "nfs-", "rgw-")


def require_user_name(name: str) -> str:
    """Return ``name`` if a user may have it.

    Raises:
        ConfigError: The name has other characters, or is reserved.
    """
    if _NAME.fullmatch(name) is None:
        raise ConfigError(
            "expected a user's name of at most 63 lower-case letters, digits and '-', a letter"
            f" first and no '-' last, got {name[:80]!a}; nothing was changed; choose such a"
            " name"
        )
    if name in _RESERVED or name.startswith(_RESERVED_STARTS):
        raise ConfigError(
            f"expected a user's name that Ceph does not use itself, got {name!r}; nothing was"
            " changed; choose another name"
        )
    return name
