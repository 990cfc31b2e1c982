"""The layout of data sets below the publication root: paths, folders, and the rules for names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Final

from trainfeed.core.datacenters import local_source
from trainfeed.errors import ConfigError, FormatError, NotFoundError, StorageError
from trainfeed.files import is_there, listed_folder, read_plain
from trainfeed.files.stores.posix import map_errors

# --- The rules for names below the publication root, and the names of fixed files

MANIFEST: Final = "MANIFEST.json"
MANIFEST_DIGEST: Final = "MANIFEST.sha256"
BUILT: Final = "BUILT.json"
POSITIONS: Final = "POSITIONS.arrow"
CURRENT: Final = "CURRENT"
SKIPPED: Final = "SKIPPED.json"
RETIRED: Final = "RETIRED.json"
# Of a data set of a mirror: where it is copied from.
MIRROR: Final = "MIRROR.json"
# Of the publication root; no data set may have that name.
MODELS: Final = "models"
# Room for a generation and a newline; a longer file is no valid pointer.
CURRENT_BYTES: Final = 64

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
# Unlike other names, those of topics and their ids may begin with '_' (1 in 64 ids does), '-', '.'.
_TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
# A version, or one of the marks that hide it.
GENERATION: Final = re.compile(r"g([0-9]{4,})(\.withdrawn|\.removed)?")


def check_name(name: str) -> str:
    """Return ``name`` if it may become one component of a path.

    Raises:
        ConfigError: The name has a separator, starts with a dot or dash, or is too long.
    """
    if not is_name(name):
        raise ConfigError(f"expected a name of letters, digits, '.', '_' and '-', got {name!r}")
    return name


def is_name(name: str) -> bool:
    """Return whether ``name`` may become one component of a path, as names of data sets do."""
    return _NAME.fullmatch(name) is not None


def check_topic(name: str) -> str:
    """Return ``name`` if a topic or its id may have that name.

    Raises:
        ConfigError: It has a separator or another sign that Kafka refuses, or is too long.
    """
    if not _TOPIC.fullmatch(name):
        raise ConfigError(f"expected the name or id of a topic, got {name!r}")
    return name


def generation_name(generation: int) -> str:
    """Return the folder name of a generation, ``g0001`` for 1."""
    return f"g{generation:04d}"


def is_generation(name: str) -> bool:
    """Return whether ``name`` is a generation's folder name, like ``g0001``."""
    match = GENERATION.fullmatch(name)
    return match is not None and not match[2]


def parse_generation(name: str) -> int:
    """Return the number of a generation's folder name, 1 for ``g0001``.

    Raises:
        ConfigError: ``name`` is no such name.
    """
    match = GENERATION.fullmatch(name)
    if match is None or match[2]:
        raise ConfigError(f"expected a generation like g0001, got {name!r}")
    return int(match[1])


def plan_id_of(fingerprint: str, generation: int) -> str:
    """Return the id of the plan with a fingerprint, which makes a generation."""
    return f"{fingerprint[:16]}-{generation_name(generation)}"


def generation_of_plan(plan_id: str) -> int:
    """Return the number of the generation that a plan makes, from the plan's id.

    Raises:
        ConfigError: ``plan_id`` does not end with a generation.
    """
    return parse_generation(plan_id.rpartition("-")[2])


# --- The paths of one data set


@dataclass(frozen=True)
class DatasetPaths:
    """The paths of one data set. Properties and methods read and create nothing.

    Attributes:
        root: The publication root.
        name: The data set.
    """

    root: Path
    name: str

    def __post_init__(self) -> None:
        # A root given as text becomes a Path.
        object.__setattr__(self, "root", Path(local_source(self.root)))

    @cached_property
    def path(self) -> Path:
        """The data set's own folder."""
        return self.root / check_name(self.name)

    @cached_property
    def _versions(self) -> Path:
        return self.path / "versions"

    @property
    def schedule(self) -> Path:
        """The file of the recorded schedule."""
        return self.path / "SCHEDULE.json"

    def code(self, digest: str) -> Path:
        """The file with the code of a digest."""
        return self.path / "code" / f"{check_name(digest)}.json"

    def lookup(self, digest: str) -> Path:
        """The file with the lookup of a digest."""
        return self.path / "lookups" / check_name(digest)

    def layouts(self, digest: str) -> Path:
        """The file with the layouts of the files of an interval, by its digest."""
        return self.path / "layouts" / f"{check_name(digest)}.layouts"

    def file_list(self, digest: str) -> Path:
        """The list of the files of a plan that has many, by its digest."""
        return self.path / "lists" / f"{check_name(digest)}.arrow"

    @property
    def staging(self) -> Path:
        """The folder of unfinished versions."""
        return self.path / "_staging"

    @property
    def trash(self) -> Path:
        """The folder of what was taken away, which upkeep deletes later."""
        return self.path / "_trash"

    def staged(self, plan_id: str) -> Path:
        """The staging folder of a plan."""
        return self.staging / check_name(plan_id)

    def interval(self, interval: str) -> Path:
        """The folder of an interval's versions."""
        return self._versions / check_name(interval)

    def version(self, interval: str, generation: int) -> Path:
        """The folder of one version."""
        return self.interval(interval) / generation_name(generation)

    def plans(self, interval: str) -> Path:
        """The folder of the plans of an interval."""
        return self.path / "plans" / check_name(interval)

    def plan(self, interval: str, plan_id: str) -> Path:
        """The plan file."""
        return self.plans(interval) / f"{check_name(plan_id)}.json"

    def skip(self, interval: str) -> Path:
        """The file with the decision to skip an interval."""
        return self.plans(interval) / SKIPPED

    def landing_removal(self, interval: str) -> Path:
        """The file that says when and why retention removed landing files of an interval."""
        return self.plans(interval) / "LANDING_REMOVED.json"

    def unpublished(self, interval: str) -> Path:
        """The file that says why the last attempt at an interval did not publish it."""
        return self.path / "unpublished" / f"{check_name(interval)}.json"

    def boundaries(self, topic: str, topic_uuid: str) -> Path:
        """The folder of boundary files of one topic."""
        return self.path / "boundaries" / check_topic(topic) / check_topic(topic_uuid)

    def boundary(self, topic: str, topic_uuid: str, at: datetime) -> Path:
        """The boundary file of a topic at the aware UTC time ``at``."""
        return self.boundaries(topic, topic_uuid) / f"{at:%Y%m%dT%H%M%SZ}.json"

    def table_boundaries(self, table_uuid: str) -> Path:
        """The folder of boundary files of one table of Iceberg."""
        return self.path / "snapshots" / check_name(table_uuid)

    def table_boundary(self, table_uuid: str, at: datetime) -> Path:
        """The boundary file of a table at the aware UTC time ``at``."""
        return self.table_boundaries(table_uuid) / f"{at:%Y%m%dT%H%M%SZ}.json"

    def training(self, interval: str, job: str) -> Path:
        """The folder of one training job."""
        return self.path / "training" / check_name(interval) / check_name(job)

    @property
    def leases(self) -> Path:
        """The folder of leases of readers and builds."""
        return self.path / "_leases"

    @property
    def training_marks(self) -> Path:
        """The folder of marks about trainings; no interval has this name."""
        return self.path / "training" / "_marks"

    @property
    def history(self) -> Path:
        """The folder of actions of people and upkeep, with one folder for each month."""
        return self.path / "history"

    @property
    def tags(self) -> Path:
        """The folder of tags, with one folder for each."""
        return self.path / "tags"

    def tag(self, tag: str) -> Path:
        """The folder with the changes of a tag."""
        return self.tags / check_name(tag)

    def overrides(self, interval: str) -> Path:
        """The folder of decisions about the parameters of an interval."""
        return self.path / "parameters" / interval

    @property
    def holes(self) -> Path:
        """The folder of accepted holes between versions."""
        return self.path / "holes"

    @property
    def quarantine_audit(self) -> Path:
        """The file with a line for every reading of quarantined bytes."""
        return self.path / "quarantine-audit.jsonl"

    @property
    def uploads(self) -> Path:
        """The folder of labelled files, with one folder for each interval."""
        return self.path / "uploads"

    @property
    def receipts(self) -> Path:
        """The folder of receipts of uploads."""
        return self.path / "receipts"

    def uploads_removal(self, interval: str) -> Path:
        """The file that says when, by whom and why the uploads of an interval were removed."""
        return self.receipts / "removed" / f"{check_name(interval)}.json"

    def interval_lock(self, interval: str) -> Path:
        """The lock of an interval, held while a version is published, withdrawn or restored."""
        return self.interval(interval) / ".lock"

    def withdrawal_mark(self, interval: str, generation: int) -> Path:
        """The mark of a generation that a person has withdrawn."""
        return self.interval(interval) / f"{generation_name(generation)}.withdrawn"

    def retirement(self, interval: str) -> Path:
        """The file that says who retired an interval, and why."""
        return self.interval(interval) / RETIRED

    def removal_mark(self, interval: str, generation: int) -> Path:
        """The mark of a generation that retention has deleted."""
        return self.interval(interval) / f"{generation_name(generation)}.removed"


# --- What is in the folder of one data set: intervals, plans, and the generations of an interval

_PLAN_FILE: Final = re.compile(r"([0-9a-f]{16}-g[0-9]{4,})\.json")


class DatasetFolder(DatasetPaths):
    """The folder of one data set: its paths, and what is there. Nothing is created.

    Attributes:
        root: The publication root.
        name: The data set.
    """

    def names_in(self, folder: Path, *, strictly: bool = False) -> list[str]:
        """Names in a folder of the data set, in any order; none if there is no such folder.

        Args:
            folder: The folder.
            strictly: Whether something else in the place of the folder is an error.

        Raises:
            FormatError: Something else is in the place of the folder.
            StorageError: The folder cannot be listed.
        """
        if strictly:
            return [path.name for path in listed_folder(folder)]
        with map_errors(folder):
            try:
                return [path.name for path in folder.iterdir()]
            except (FileNotFoundError, NotADirectoryError):
                return []

    def unpublished_intervals(self) -> list[str]:
        """Names of the intervals with such a file, sorted."""
        names = self.names_in(self.path / "unpublished")
        stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(stem for stem in stems if is_name(stem))

    def plan_ids(self, interval: str) -> list[str]:
        """Names of the plans of an interval, published or not, sorted.

        Raises:
            FormatError: Something else than a folder is in the place of the plans.
            StorageError: The plans cannot be listed.
        """
        names = self.names_in(self.plans(interval), strictly=True)
        return sorted(match[1] for match in map(_PLAN_FILE.fullmatch, names) if match)

    def planned_intervals(self) -> list[str]:
        """Names of the intervals that have plans, sorted; raises as ``plan_ids`` does."""
        return sorted(filter(is_name, self.names_in(self.path / "plans", strictly=True)))

    def intervals(self) -> list[str]:
        """Names of the intervals that have a folder, sorted."""
        return sorted(name for name in self.names_in(self._versions) if is_name(name))

    def generations(self, interval: str) -> list[int]:
        """The generations that are neither withdrawn nor removed, ascending."""
        entries = self._entries(interval)
        gone = {number for number, suffix in entries if suffix}
        return sorted({number for number, suffix in entries if not suffix} - gone)

    def last_generation(self, interval: str) -> int:
        """The largest number ever used, also of withdrawn and removed generations; 0 if none."""
        return max((number for number, _ in self._entries(interval)), default=0)

    def current_generation(self, interval: str) -> int | None:
        """The newest generation that is neither withdrawn nor removed, or None; for writers.

        The method lists the interval's folder and does not use CURRENT, which may be behind.
        """
        return max(self.generations(interval), default=None)

    def is_removed(self, interval: str, generation: int) -> bool:
        """Whether retention has deleted the generation, for good."""
        mark = self.removal_mark(interval, generation)
        with map_errors(mark):
            return mark.exists()

    def has_folder(self, interval: str, generation: int) -> bool:
        """Whether the folder of the generation is there, marked or not."""
        path = self.version(interval, generation)
        with map_errors(path):
            return path.is_dir()

    def readable_generation(self, interval: str) -> int | None:
        """The generation for readers: the one that CURRENT names; None if there is none.

        CURRENT is only a hint. If it is missing, torn, or names a generation that is gone, the
        newest existing generation is used.
        """
        return self._pointed(interval) or self.current_generation(interval)

    def require_generation(self, interval: str) -> int:
        """The generation for readers, as from ``readable_generation``.

        Raises:
            NotFoundError: The interval has no readable version.
        """
        generation = self.readable_generation(interval)
        if generation is None:
            raise NotFoundError(
                f"data set {self.name!r} has no published version of interval {interval}"
                f" in {self.interval(interval)}; build it: trainfeed build {self.name}"
                f" --interval {interval}"
            )
        return generation

    def _pointed(self, interval: str) -> int | None:
        # Texts, as a range of a year of hours asks for thousands of them.
        folder = f"{self._versions}/{check_name(interval)}"
        try:
            match = GENERATION.fullmatch(
                read_plain(f"{folder}/{CURRENT}", follow=False, max_bytes=CURRENT_BYTES)
                .decode()
                .strip()
            )
        except (FormatError, StorageError, UnicodeDecodeError):
            return None
        if match is None or match[2]:
            return None
        # The pointer may be behind: its generation must have a manifest, and no mark.
        named = f"{folder}/{match[0]}"
        manifest = Path(f"{named}/{MANIFEST}")
        with map_errors(manifest):
            is_gone = is_there(f"{named}.withdrawn") or is_there(f"{named}.removed")
            return None if is_gone or not manifest.is_file() else int(match[1])

    def _entries(self, interval: str) -> list[tuple[int, str]]:
        matches = map(GENERATION.fullmatch, self.names_in(self.interval(interval)))
        return [(int(m[1]), m[2] or "") for m in matches if m]
