"""How programs and trainings read a public set: verified first, then shown as lines to copy."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.config import PUBLIC_FOLDER
from trainfeed.dataset import Version
from trainfeed.errors import AccessDeniedError, ConfigError, StorageError
from trainfeed.publicsets._public_place import known_public_root
from trainfeed.publicsets._public_version import PublicVersion, public_version

__all__ = ["PublicUse", "use_public_set"]

_TURNED_DOWN: Final = "quarantine"
# Sets that Paddle's names read, too.
_PADDLE: Final = frozenset({"bow", "mnist"})


@dataclass(frozen=True)
class PublicUse:
    """A public set that this account can read; every file of it has the published digest.

    Attributes:
        found: The version.
        is_whole: Whether all files were compared. The file of the records that the build turned
            down is closed to other accounts; it is left out where this account may not read it.
        setting: What makes the set known to programs, as a line to copy; None if it is known.
        argument: Argument of ``open_public`` without which the set is not found; or empty.
    """

    found: PublicVersion
    is_whole: bool
    setting: str | None
    argument: str

    @property
    def split(self) -> str:
        """The split of the examples: ``train`` if there is one."""
        splits = sorted(self.found.version.manifest.splits)
        return "train" if "train" in splits else splits[0]

    @property
    def call(self) -> str:
        """The call that opens the set."""
        return f'open_public("{self.found.name}", split="{self.split}"{self.argument})'

    def examples(self) -> dict[str, list[str]]:
        """Return use → lines of Python; each begins with its imports."""
        begin = "from trainfeed.publicsets import open_public"
        path = str(self.found.version.path)
        shown = {
            "a reader": [begin, f"for sample in {self.call}.reader()():", "    …"],
            "a loader, also in train.py": [
                "from trainfeed.loader import DataLoader",
                begin,
                f"with DataLoader({self.call}, 64) as batches:",
                "    for batch in batches:",
                "        …",
            ],
            "a path": [
                "from trainfeed.readers import open_dataset",
                f'data = open_dataset("{path}", split="{self.split}")',
            ],
        }
        if self.found.name in _PADDLE and not self.argument:
            call = f"paddle.dataset.{self.found.name}.train"
            given = "paddle.dataset.bow.word_dict()" if self.found.name == "bow" else ""
            shown["Paddle's names"] = [
                "from trainfeed.compat import paddle",
                f"for sample in {call}({given})():",
                "    …",
            ]
        return shown

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that commands print."""
        manifest = self.found.version.manifest
        return {
            "name": self.found.name,
            "version": self.found.version.name,
            "path": str(self.found.version.path),
            "state": "verified" if self.is_whole else "verified, except turned-down records",
            "splits": {name: split.samples for name, split in manifest.splits.items()},
            "bytes": self.found.num_bytes,
            "fields": manifest.fields,
            "content_digest": manifest.content_digest,
            "source": self.found.source,
            "documents": self.found.version.documents(),
            "setting": self.setting,
            "examples": self.examples(),
        }


def use_public_set(
    name: str, *, interval: str | None = None, root: str | os.PathLike[str] | None = None
) -> PublicUse:
    """Read every byte of a public set that this account may read, and return how programs read it.

    Args:
        name: Name of the set.
        interval: Name of the interval, for a set with several.
        root: See ``public_root``.

    Raises:
        ChecksumError: A file is not the one that was published.
        FormatError: A file is missing or foreign.
        TrainFeedError: The errors of ``public_version``.
    """
    found = public_version(name, interval=interval, root=root)
    is_whole = _verified(found.version)
    chosen = "" if interval is None else f', interval="{interval}"'
    if _is_known(found.root):
        return PublicUse(found, is_whole, None, chosen)
    if found.root.name == "dataset":
        setting = f"export {PUBLIC_FOLDER}={found.root.parent}"
        return PublicUse(found, is_whole, setting, chosen)
    return PublicUse(found, is_whole, None, f'{chosen}, root="{found.root}"')


def _is_known(root: Path) -> bool:
    """Return whether programs of this account find the root by themselves."""
    try:
        return root == known_public_root()
    except (ConfigError, StorageError):
        return False  # the root that was named is read, whatever the data centre's state is


def _verified(version: Version) -> bool:
    """Compare all files that this account may read; return whether these are all."""
    closed = str(version.path / _TURNED_DOWN)
    is_whole = True
    for problem in version.problems():
        if not isinstance(problem, AccessDeniedError) or closed not in str(problem):
            raise problem
        is_whole = False
    return is_whole
