"""Builds intervals at the time of the night, also such as gates refuse, and such as stop."""

from __future__ import annotations

from pathlib import Path

from tests.retention.clock import Clock
from tests.retention.days import EVENTS, PARTITIONS
from tests.retention.expected import Expected, Newest
from tests.retention.measured import size_of_version
from tests.retention.two_sets import TwoSets
from trainfeed.errors import GateError
from trainfeed.files.stores import Location
from trainfeed.pipeline import Build, PlanRef
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.landed_ranges import landing_name_of
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.versions import DatasetFolder, Version


class Builders:
    """Builds both data sets.

    Args:
        sets: The data sets.
        expected: The model.
        clock: The time.

    Attributes:
        sizes: Every landing file that was ever written → bytes.
        published_bytes: Bytes of all versions that were ever published.
    """

    def __init__(self, sets: TwoSets, expected: Expected, clock: Clock) -> None:
        self._sets, self._expected, self._clock = sets, expected, clock
        self._folder, self._landing = sets.project.folder, Location.parse(sets.env.landing)
        self.sizes: dict[str, int] = {}
        self.published_bytes = 0

    def build(self, name: str, **request: str) -> None:
        """Build an interval of ``clicks``; every record of the day must be accounted for."""
        report = self._sets.project.build(name, **request)
        version = self._sets.project.version(name)
        total = sum(leaf["read"]["records"] for leaf in version.manifest.ledger.values())
        assert total == EVENTS * PARTITIONS, (name, total)
        assert report["verdict"] == "built", (name, report["verdict"])
        self._expected.published[name] = Newest(version.manifest.generation, self._clock.now)
        self._expected.waiting.pop(name, None)
        self._expected.refused.pop(name, None)
        self._expected.compared.pop(name, None)
        self.published_bytes += size_of_version(version)
        self._landed(self._folder, name, version.manifest.plan)

    def be_refused(self, name: str) -> None:
        """Build an interval that the gate of ``clicks`` refuses."""
        try:
            self._sets.project.build(name)
        except GateError:
            self._expected.refused[name] = self._clock.now
            self._waits(name, self._folder.plan_ids(name)[-1])
        else:
            raise AssertionError(f"the gate let {name} pass")

    def build_views(self, name: str) -> None:
        """Build an interval of ``views``."""
        report = self._sets.build_views(name)
        assert report["verdict"] == "built", (name, report["verdict"])
        self._expected.views[name] = self._clock.now
        views = self._sets.views
        self.published_bytes += size_of_version(Version.resolve(views, name, 1))
        self._landed(views, name, views.plan_ids(name)[-1])

    def stop_a_build(self, name: str, **request: str) -> None:
        """Land an interval and preprocess it, and go no further."""
        spec, env = self._sets.specs[0], self._sets.env
        planned = plan(spec, self._sets.project.interval(name), env, **request)
        begun = Build(spec, env, planned.ref)
        for stage in (ingest, preprocess):
            for unit in range(planned.tasks[stage.__name__]):
                stage(begun, unit)
        self._waits(name, planned.ref.plan_id)

    def _waits(self, name: str, plan_id: str) -> None:
        planned = self._landed(self._folder, name, plan_id)
        versions = [(each.interval, each.generation) for each in planned.references]
        self._expected.compared.setdefault(name, []).extend(versions)

    def _landed(self, folder: DatasetFolder, name: str, plan_id: str) -> Plan:
        """Give the files of a build the time of the night, and note its landing files."""
        work = Path(self._sets.env.work)
        self._clock.stamp([folder.interval(name), folder.plans(name), folder.staging, work])
        self._expected.landed.add(name)
        planned = load_plan(folder, PlanRef(folder.name, name, plan_id))
        for piece in planned.ranges:
            file = landing_name_of(planned.inputs[piece.source], piece)
            self.sizes[file] = (self._landing / file).stat().size_bytes
        return planned
