"""The caps of a user's key, and whether a key found on the cluster is that of a user.

Caps of the mds cover names and attributes only. The bytes of files are objects of a pool, which a
key reads from the osds without the mds; so the osd caps name the namespace of the user's objects.
They name pools by the file system's tag: with a pool by its name, the monitors would let the key
make and delete snapshots of the whole pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainfeed.pfs.users._shared_layout import Layout

__all__ = ["caps_arguments", "describes_user", "expected_caps", "narrow_caps"]


def expected_caps(layout: Layout, user: str, namespace: str) -> dict[str, str]:
    """Return daemon → caps of a user's key.

    Args:
        layout: Names of the file system and of the data centre.
        user: A checked name.
        namespace: Namespace of the objects of the user's home.
    """
    fs = layout.file_system
    pools = f"tag cephfs data={fs}"
    return {
        "mon": f"allow r fsname={fs}",
        "mds": (
            f"allow rw fsname={fs} path={layout.home(user)},"
            f" allow r fsname={fs} path={layout.public}"
        ),
        "osd": (
            f"allow rw namespace={namespace} {pools},"
            f" allow r namespace={layout.public_namespace} {pools}"
        ),
    }


def narrow_caps(layout: Layout, user: str) -> dict[str, str]:
    """Return caps by which a key reads names of its home and no byte, during a correction."""
    fs = layout.file_system
    return {
        "mon": f"allow r fsname={fs}",
        "mds": f"allow r fsname={fs} path={layout.home(user)}",
    }


def caps_arguments(caps: Mapping[str, str]) -> list[str]:
    """Return caps as arguments of ``ceph auth``."""
    return [word for daemon, allowed in caps.items() for word in (daemon, allowed)]


def describes_user(entity: Mapping[str, Any], layout: Layout, user: str) -> bool:
    """Whether a key was made for this user's home, perhaps with caps that were changed since."""
    words = entity.get("caps", {}).get("mds", "").replace(",", " ").split()
    return f"path={layout.home(user)}" in words
