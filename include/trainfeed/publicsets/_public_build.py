"""Builds a public set from its originals, with the stages of every other data set.

The specification and its function are part of trainfeed; licence, origin and lookups are written
beside a copy of them. The originals become a recorded topic. From there on it is an ordinary build:
a set is published whole or not at all, equal originals are found published, and other originals
become the next generation of the set.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.config import Environment, KafkaSettings
from trainfeed.datacenters import local_source, local_target
from trainfeed.dataset import require_root
from trainfeed.errors import ConflictError, SourceReplacedError
from trainfeed.pipeline.local import BuildReport, BuildRequest, build
from trainfeed.publicsets._public_catalogue import PublicSet, public_set
from trainfeed.publicsets._public_place import publishing_root
from trainfeed.publicsets._public_version import LICENCE_FILE, SOURCE_FILE
from trainfeed.publicsets._recorded_originals import record_originals
from trainfeed.publicsets.originals import Originals
from trainfeed.specification import DatasetSpec, load_spec

__all__ = ["PublicBuild", "build_public_set"]

_CONNECTION: Final = "originals"
_SETTING: Final = "the root of public sets"


@dataclass(frozen=True)
class PublicBuild:
    """A public set is published.

    Attributes:
        report: The report of the build.
        root: The publication root.
        num_originals: Number of records among the originals.
        source: JSON of the origin.
    """

    report: BuildReport
    root: Path
    num_originals: int
    source: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that commands print."""
        told = {"root": str(self.root), "originals": self.num_originals, "source": self.source}
        return {**self.report.to_json(), **told}


def build_public_set(
    name: str,
    *,
    originals: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    work: str | os.PathLike[str] | None = None,
    on_stage: Callable[[str], object] = str,
) -> PublicBuild:
    """Build and publish a public set.

    Args:
        name: Name of the set.
        originals: Folder with the originals; by default the folder below ``data`` that the
            requirements file names, and then this environment.
        root: See ``publishing_root``; it was made with ``trainfeed init``.
        work: Folder for files that the build needs only until it ends, by default that of the
            system; for ``synthetic_imagenet`` they take about 1 GB.
        on_stage: Called with the name of every stage before the stage starts.

    Raises:
        ConfigError: There is no such set, or its originals are not there.
        RootError: The root was not made by ``trainfeed init``.
        TrainFeedError: The error of a stage; another call starts again and adopts what was staged.
    """
    chosen, place = public_set(name), publishing_root(root)
    require_root(place, _SETTING)
    above = None if work is None else local_target(work)
    found = chosen.read(None if originals is None else Path(local_source(originals)))
    source = {"set": name, "is_synthetic": chosen.is_synthetic, **found.source}
    with tempfile.TemporaryDirectory(prefix=f"trainfeed-{name}-", dir=above) as text:
        home = Path(text)
        spec = load_spec(_data_set(chosen, found, source, home / "sets" / name))
        interval = spec.schedule_model().interval_named(chosen.interval)
        topic = home / "recorded" / name
        count = record_originals(found.records(), found.records(), topic, name, interval.start)
        env = _environment(place, home)
        report = _build(spec, chosen, env, source, on_stage)
    return PublicBuild(report, place, count, source)


def _data_set(chosen: PublicSet, found: Originals, source: dict[str, Any], folder: Path) -> Path:
    """Copy the specification and its function, and write documents and lookups beside them."""
    folder.mkdir(parents=True)
    for path in sorted(chosen.folder.iterdir()):
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    licence = folder / LICENCE_FILE
    if found.licence:
        licence.write_text(f"{licence.read_text()}\n{found.licence}")
    (folder / SOURCE_FILE).write_bytes(canonical_json.dumps(source))
    for name, data in found.files.items():
        (folder / name).write_bytes(data)
    return folder


def _environment(root: Path, home: Path) -> Environment:
    recorded = KafkaSettings(recorded=str(home / "recorded"))
    return Environment(
        root=str(root),
        landing=str(home / "landing"),
        work=str(home / "work"),
        kafka={_CONNECTION: recorded},
        datasets=home / "sets",
        root_setting=_SETTING,
    )


def _build(
    spec: DatasetSpec,
    chosen: PublicSet,
    env: Environment,
    source: dict[str, Any],
    on_stage: Callable[[str], object],
) -> BuildReport:
    """Build the set; if it is published from something else, as its next generation."""
    interval = spec.schedule_model().interval_named(chosen.interval)
    try:
        report = build(spec, interval, env, on_stage=on_stage)
    except (ConflictError, SourceReplacedError):
        why = f"other originals or code: {canonical_json.sha256_of(source)[:12]}"
        report = build(spec, interval, env, BuildRequest(rebuild=why), on_stage=on_stage)
    if not isinstance(report, BuildReport):
        raise TypeError("expected a topic, which no build skips")
    return report
