"""A build that two gates refused, made once; every test gets a copy of its folders."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import make_project
from trainfeed.errors import GateError
from trainfeed.pipeline import Build, PlanRef
from trainfeed.pipeline.waivers import WaiverWish, waivable, waive

GATES = "quality: [{check: quarantine_ratio, max: 0.05}, {check: range, field: value, max: 20}]"
DAY = "2024-03-01"
PLACES = ("root", "landing", "work")


@pytest.fixture(scope="session")
def refused_once(tmp_path_factory):
    project = make_project(tmp_path_factory.mktemp("refused"))
    project.edit("seed: 7", f"seed: 7\n{GATES}")
    with pytest.raises(GateError) as caught:
        project.build()
    return project, str(caught.value), caught.value


@pytest.fixture
def refused(refused_once, tmp_path):
    """A project whose build was refused, in folders of its own."""
    return Refused.of(refused_once[0], tmp_path)


class Refused(Project):
    """A project with a refused plan, and the steps of tests on it."""

    @classmethod
    def of(cls, made, path):
        for place in ("datasets", "recorded", *PLACES):
            shutil.copytree(made.path / place, path / place)
        places = {place: str(path / place) for place in PLACES}
        topic = replace(made.env.kafka["kafka_default"], recorded=str(path / "recorded"))
        more = {"kafka": {"kafka_default": topic}, "datasets": path / "datasets"}
        return cls(path, replace(made.env, **places, **more))

    @property
    def plan_id(self):
        return self.folder.plan_ids(DAY)[0]

    @property
    def ref(self):
        return PlanRef("clicks", DAY, self.plan_id)

    @property
    def stages(self):
        return Build(self.spec, self.env, self.ref)

    def found(self):
        return waivable(self.folder, DAY)

    def waive(self, found=None, *, now=None, **changes):
        now = now or datetime.now(UTC)
        wish = WaiverWish(**{**wished(now), **changes})
        return waive(self.env, found or self.found(), wish, now)

    def manifest(self):
        return (self.version().path / "MANIFEST.json").read_bytes()


def wished(now):
    return {"who": "ana", "account": "builder", "why": "a storm", "until": now + timedelta(days=1)}
