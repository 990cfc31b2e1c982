"""One of two versions that are compared: what there is of it, also after its removal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainfeed.datacenters import local_source
from trainfeed.dataset import DatasetFolder, Manifest, Version
from trainfeed.dataset.layout import generation_name, is_generation, parse_generation
from trainfeed.dataset.retire import generation_for_readers
from trainfeed.dataset.withdraw import withdrawal_of
from trainfeed.paths import FilePath
from trainfeed.pipeline.plans import Plan, plan_of_version

__all__ = ["Side"]


@dataclass(frozen=True)
class Side:
    """A generation of an interval.

    Attributes:
        name: ``<interval>/<generation>``.
        state: ``published``; ``withdrawn``: hidden from readers, its files are there; ``removed``:
            deleted, only its plan may be left.
        version: The version; None if it is removed.
        plan: Its plan; None if the file is gone.
        folder: The data set; None for a version that lies outside of a publication root.
        withdrawn: Who withdrew it, when and why; None if it is not withdrawn.
    """

    name: str
    state: Literal["published", "withdrawn", "removed"]
    version: Version | None
    plan: Plan | None
    folder: DatasetFolder | None
    withdrawn: str | None = None

    @classmethod
    def of(cls, folder: DatasetFolder, interval: str, generation: int | None = None) -> Side:
        """Return a generation of an interval; by default the one for readers.

        Raises:
            NotFoundError: There was never such a generation.
            ChecksumError: Its manifest is not the one that was published.
            FormatError: Its manifest, or its plan, is damaged; the error names the file.
        """
        number = generation_for_readers(folder, interval) if generation is None else generation
        if folder.is_removed(interval, number):
            return cls._removed(folder, interval, number)
        version = Version.resolve(folder, interval, number)
        plan = plan_of_version(folder, interval, version.manifest.plan)
        mark = withdrawal_of(folder, interval, number)
        state: Literal["published", "withdrawn"] = "published" if mark is None else "withdrawn"
        told = None if mark is None else mark.told
        return cls(version.name, state, version, plan, folder, told)

    @classmethod
    def at(cls, path: FilePath) -> Side:
        """Return the version in a folder; raises as ``of`` does."""
        place = Path(local_source(path))
        versions = place.parent.parent
        if versions.name == "versions" and is_generation(place.name):
            folder = DatasetFolder(versions.parent.parent, versions.parent.name)
            return cls.of(folder, place.parent.name, parse_generation(place.name))
        version = Version.open(place)
        return cls(version.name, "published", version, None, None)

    @property
    def manifest(self) -> Manifest | None:
        """The manifest; None if the version is removed."""
        return None if self.version is None else self.version.manifest

    @property
    def seed(self) -> int | None:
        """The seed of the order of samples; None if the plan is gone."""
        seed = None if self.plan is None else self.plan.fingerprint_of["spec"].get("seed")
        return seed if type(seed) is int else None

    def to_json(self) -> dict[str, Any]:
        """Return what identifies the version, and why it was built."""
        known: Manifest | Plan | None = self.manifest or self.plan
        supersedes = None if known is None else known.supersedes
        return {
            "name": self.name,
            "state": self.state,
            "withdrawn": self.withdrawn,
            "path": None if self.version is None else str(self.version.path),
            "rebuild": (supersedes or {}).get("why"),
            "fingerprint": None if known is None else known.fingerprint,
            "content_digest": None if self.manifest is None else self.manifest.content_digest,
        }

    @classmethod
    def _removed(cls, folder: DatasetFolder, interval: str, number: int) -> Side:
        name = generation_name(number)
        plans = [each for each in folder.plan_ids(interval) if each.endswith(f"-{name}")]
        # Several plans of one number: all but one were never published, and no file says which.
        plan = plan_of_version(folder, interval, plans[0]) if len(plans) == 1 else None
        return cls(f"{interval}/{name}", "removed", None, plan, folder)
