"""The places in which files are made again: outside of the version, and removed at the end.

Files that will be swapped in grow in the staging folder of the data set, which is on the file
system of the versions. A temporary root stands for the real one: its staging folder is a link to
that place, and it has the plan, but no version, so that the stages of a build do their work.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, init_root
from trainfeed.paths import listed
from trainfeed.pipeline.plans import PLANS, Plan
from trainfeed.pipeline.upkeep import REPAIR
from trainfeed.storage import Location, posix

__all__ = ["RepairPlace", "repair_place"]

_PREFIX: Final = "trainfeed-"
# What stages read besides the plan, its interval and the versions it refers to.
_READ: Final = ("boundaries", "code", "lookups", "receipts", "uploads")


@dataclass(frozen=True)
class RepairPlace:
    """The places of one repair.

    Attributes:
        env: Folders and connections, with the temporary root and a work folder of its own.
        folder: The data set in the temporary root.
        staging: Where files grow, on the file system of the versions.
        scratch: A temporary folder of this machine.
    """

    env: Environment
    folder: DatasetFolder
    staging: Path
    scratch: Path

    def adopt(self, real: DatasetFolder, plan: Plan) -> None:
        """Give the temporary root a plan, with its waivers and the versions it refers to."""
        interval = plan.interval["name"]
        target = self.folder.plan(interval, plan.plan_id)
        posix.make_public_dir(target.parent)
        for path in listed(real.plans(interval), f"{plan.plan_id}.waive*.json"):
            shutil.copyfile(path, target.parent / path.name, follow_symlinks=False)
        PLANS.replace(target, plan)
        for other in {each.interval for each in plan.references} - {interval}:
            link = self.folder.interval(other)
            posix.make_public_dir(link.parent)
            if not link.is_symlink():
                link.symlink_to(real.interval(other), target_is_directory=True)


@contextmanager
def repair_place(env: Environment, real: DatasetFolder) -> Iterator[RepairPlace]:
    """Make the places of one repair, and remove them at the end; upkeep removes them after a kill.

    Args:
        env: Folders and connections.
        real: The data set.

    Raises:
        StorageError: The publication root or the work folder refused or failed.
    """
    name = f"{REPAIR}{uuid.uuid4().hex}"
    staging, work = real.staging / name, Location.parse(env.work) / "spill" / name
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as scratch:
        shadow = DatasetFolder(Path(scratch) / "root", real.name)
        init_root(shadow.root)
        posix.make_public_dir(staging)
        try:
            posix.make_public_dir(shadow.path)
            shadow.staging.symlink_to(staging, target_is_directory=True)
            for each in _READ:
                if (real.path / each).is_dir():
                    (shadow.path / each).symlink_to(real.path / each, target_is_directory=True)
            place = replace(env, root=str(shadow.root), work=work.uri)
            yield RepairPlace(place, shadow, staging, Path(scratch))
        finally:
            posix.remove_tree(staging)
            if work.exists():
                work.delete(recursive=True)
