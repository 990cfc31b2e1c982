"""From the text that people type to a place in a tree: this machine, a mount, or a server."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from trainfeed.core.datacenters import (
    Area,
    Datacenter,
    PfsPath,
    area_folder,
    is_available,
    is_shared,
    read_datacenters,
)
from trainfeed.errors import AccessDeniedError, ConfigError
from trainfeed.serving.pfs.copy_plan import Place
from trainfeed.serving.pfs.posix import LocalTree, MountedTree
from trainfeed.serving.pfs.remote import server_tree
from trainfeed.serving.pfs.tree import Tree

# --- Opens the tree of each place that is named, once for all places of a call

_ROOT: Final = "/pfs/"


class Places(ExitStack):
    """Places of this machine and of the data centres in ``~/.trainfeed/config``.

    The context manager closes connections to servers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._trees: dict[tuple[str, Area], Tree] = {}
        self._local = {True: LocalTree(Path("/")), False: LocalTree()}

    def place(self, text: str) -> Place:
        """Return the place that a text names: ``pfs://…``, ``/pfs/…``, or a path of this machine.

        Raises:
            ConfigError: The text is not a path, or the data centre is not known.
            AccessDeniedError: The place is in the home of another user, or the area cannot be read.
        """
        return self.shared(text) if _names_shared(text) else self._on_this_machine(text)

    def shared(self, text: str) -> Place:
        """Return the place of a path on shared storage; raises as ``place`` does.

        Raises:
            ConfigError: The text is a path of this machine.
        """
        if not _names_shared(text):
            raise ConfigError(
                f"expected a path of shared storage, pfs://home/… or pfs://public/…, got {text!r};"
                " nothing was changed; for files of this machine use the commands of the system"
            )
        known = read_datacenters()
        path = PfsPath.parse(text, datacenter=known.current)
        is_current = path.datacenter == known.current.name
        tree = self._tree(known.named(path.datacenter), path, is_current=is_current)
        return Place(
            tree,
            path.parts,
            is_folder=path.is_folder,
            is_content=text.endswith("/."),
            makes_folder=True,
        )

    def _on_this_machine(self, text: str) -> Place:
        if not text or "\0" in text:
            raise ConfigError(f"expected a path, got {text!r}; nothing was copied")
        names = tuple(name for name in text.split("/") if name not in ("", "."))
        return Place(
            self._local[text.startswith("/")],
            names,
            is_folder=text.endswith("/"),
            is_content=text.endswith("/.") or text == ".",
        )

    def _tree(self, datacenter: Datacenter, path: PfsPath, *, is_current: bool) -> Tree:
        folder = area_folder(path, datacenter)
        key = (datacenter.name, path.area)
        if key not in self._trees:
            self._trees[key] = self._opened(datacenter, path, folder, is_current=is_current)
        return self._trees[key]

    def _opened(
        self, datacenter: Datacenter, path: PfsPath, folder: Path, *, is_current: bool
    ) -> Tree:
        try:
            is_mounted = is_available(folder, is_local=datacenter.is_local)
        except OSError as error:
            raise AccessDeniedError(
                f"{folder}, the mount of {path}: {error.strerror}; nothing was read or"
                " written; mount it again"
            ) from error
        if is_mounted:
            area = PfsPath(path.datacenter, path.area, path.user, ())
            # The area for all is for reading; a publisher names the folder that it is mounted on.
            read_only = path.area == "public"
            return MountedTree(folder, area, read_only=read_only, is_current=is_current)
        tree = server_tree(datacenter, path.area, is_current=is_current)
        self.callback(tree.close)
        return tree


def _names_shared(text: str) -> bool:
    return is_shared(text) or text.startswith(_ROOT)
