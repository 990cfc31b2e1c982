"""The small data set of explorations: two generations, and a third that is ready to publish."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.model.interleavings.trees import Tree
from tests.unit.pipeline.clicks import SPEC, START_MS, Project, batch, event
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.pipeline import Build
from trainfeed.pipeline.check import check
from trainfeed.pipeline.convert import convert
from trainfeed.pipeline.ingest import ingest
from trainfeed.pipeline.plan import plan
from trainfeed.pipeline.preprocess import preprocess
from trainfeed.versions import init_root

__all__ = ["INTERVAL", "Ground", "ground"]

INTERVAL = "2024-03-01"
# Many thousand small files are written; where they can be, they stay in memory.
_MEMORY = Path("/dev/shm")
_CODE = """
def clicks(record, lookups):
    return [{"value": record.json()["value"], "label": 1}]
"""


@dataclass(frozen=True)
class Ground:
    """A data set before the actors begin.

    Attributes:
        project: The data set; generation 1 and 2 of ``INTERVAL`` are published, from different
            functions.
        same: What ``publish`` takes for generation 3, with the content of generation 2.
        tree: All of its files.
    """

    project: Project
    same: Build
    tree: Tree

    @property
    def folder(self):
        """The folder with everything: root, landing, work, the data set's own."""
        return self.project.path


@contextmanager
def ground():
    """Make the data set, in a folder that is removed at the end."""
    place = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="interleavings-", dir=place) as folder:
        project = _made(Path(folder) / "run")
        project.build()
        project.edit('"label": 1', '"label": 2', "preprocess.py")
        project.build(rebuild="the label was wrong")
        same = _checked(project, rebuild="once more, for a colleague")
        yield Ground(project, same, Tree(project.path))


def _made(folder):
    datasets = folder / "datasets"
    (datasets / "clicks").mkdir(parents=True)
    text = f"{SPEC}\nretention: {{keep_generations: 1}}\n"
    (datasets / "clicks" / "dataset.yaml").write_text(text)
    (datasets / "clicks" / "preprocess.py").write_text(_CODE)
    init_root(folder / "root")
    env = Environment(
        root=str(folder / "root"),
        landing=str(folder / "landing"),
        work=str(folder / "work"),
        kafka={"kafka_default": KafkaSettings(recorded=str(folder / "recorded"))},
        datasets=datasets,
    )
    project = Project(folder, env)
    stamps = [START_MS + number * 28_800_000 + 1 for number in range(9)]
    project.record({0: [batch([event(n, stamp) for n, stamp in enumerate(stamps)])]})
    return project


def _checked(project, **request):
    """Run all stages before ``publish``; return what ``publish`` takes."""
    spec = project.spec
    ref = plan(spec, project.interval(INTERVAL), project.env, **request).ref
    build = Build(spec, project.env, ref)
    for stage in (ingest, preprocess, convert):
        stage(build, 0)
    check(build)
    return build
