"""Two data sets of one topic, with own rules: ``clicks`` every day, ``views`` on some."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tests.retention.days import GATES, PARTITIONS, START, day_of
from tests.unit.pipeline.clicks import Project, batch
from trainfeed.pipeline.local import build
from trainfeed.specification import DatasetSpec, load_spec
from trainfeed.versions import DatasetFolder

VIEWS: Final = "views"
_TRAIN: Final = """
from pathlib import Path


def main(job):
    if Path({broken!r}).exists():
        raise ValueError("the machine of the training was lost")
    (job.output / "model.bin").write_bytes(b"m" * {output_bytes})
    return {{"samples": sum(1 for _ in job.open("train").reader()())}}
"""
OUTPUT_BYTES: Final = 20_000


@dataclass(frozen=True)
class Rules:
    """Days for which things are kept; the rules of both data sets.

    Attributes:
        landing: Days of landing files, for ``clicks``.
        intervals: Days of intervals, for ``clicks``.
        withdrawn: Days of withdrawn generations.
        plans: Days of plans that were not published; more than the nights after which people go on.
        trainings: Days of the outputs of trainings.
        work: Days of unfinished files.
        views_every: Number of days of which ``views`` builds one.
        views_landing: Days of landing files, for ``views``.
        views_intervals: Days of intervals, for ``views``.
    """

    landing: int = 30
    intervals: int = 120
    withdrawn: int = 8
    plans: int = 20
    trainings: int = 45
    work: int = 2
    views_every: int = 4
    views_landing: int = 45
    views_intervals: int = 60

    @property
    def clicks(self) -> str:
        """The part ``retention`` of ``clicks``."""
        return (
            f"retention: {{keep_generations: 2, keep_intervals_days: {self.intervals},"
            f" keep_withdrawn_days: {self.withdrawn}, landing: {{keep_days: {self.landing}}},"
            f" plans: {{keep_days: {self.plans}}}, work: {{keep_days: {self.work}}},"
            f" trainings: {{keep_days: {self.trainings}}}}}"
        )

    @property
    def views(self) -> str:
        """The part ``retention`` of ``views``."""
        return (
            f"retention: {{keep_intervals_days: {self.views_intervals},"
            f" landing: {{keep_days: {self.views_landing}}}}}"
        )


class TwoSets:
    """Both data sets.

    Args:
        project: A project with the data set ``clicks``.
        rules: The rules of both.
    """

    def __init__(self, project: Project, rules: Rules) -> None:
        self.project, self.rules, self.env = project, rules, project.env
        self.broken = project.path / "broken"
        self._views = self.env.datasets / VIEWS

    def prepare(self, nights: int, *, with_training: bool) -> None:
        """Record a day for every night, and write both specifications."""
        rows = [row for number in range(nights) for row in day_of(number)]
        self.project.record({partition: [batch(rows)] for partition in range(PARTITIONS)})
        self.project.edit("end: 2024-03-31", f"end: {START + timedelta(days=nights - 1):%Y-%m-%d}")
        shutil.copytree(self.env.datasets / "clicks", self._views)
        training = '\ntrain: {entry: "train:main", window: 2}' if with_training else ""
        self.project.edit("seed: 7", f"seed: 7\n{self.rules.clicks}\n{GATES}{training}")
        code = _TRAIN.format(broken=str(self.broken), output_bytes=OUTPUT_BYTES)
        (self.env.datasets / "clicks" / "train.py").write_text(code)
        path = self._views / "dataset.yaml"
        text = path.read_text().replace("name: clicks", f"name: {VIEWS}", 1)
        path.write_text(text.replace("seed: 7", f"seed: 7\n{self.rules.views}"))

    @cached_property
    def specs(self) -> tuple[DatasetSpec, DatasetSpec]:
        """The specifications of ``clicks`` and ``views``."""
        return self.project.spec, load_spec(self._views)

    @property
    def views(self) -> DatasetFolder:
        """The folder of ``views``."""
        return DatasetFolder(Path(self.env.root), VIEWS)

    def build_views(self, name: str) -> dict[str, Any]:
        """Build an interval of ``views``."""
        spec = self.specs[1]
        return build(spec, spec.schedule_model().interval_named(name), self.env).to_json()
