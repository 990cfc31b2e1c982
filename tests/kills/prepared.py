"""The commands that are killed, and the small data sets on which they act.

Every command of trainfeed that publishes or corrects is here once. It acts on a folder that was
prepared for it, and the same command, given again after a kill, ends as if nothing had happened.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.unit.pipeline.clicks import CODE, SPEC, Project, batch, day
from tests.unit.pipeline.log_project import LogProject, make_log_project
from tests.unit.pipeline.test_kill import command as killed_build
from tests.unit.upkeep.repair.conftest import flip
from tests.unit.uploads.labelled import CODE as LABELLED_CODE
from tests.unit.uploads.labelled import SPEC as LABELLED_SPEC
from tests.unit.uploads.labelled import Labelled, clicks, csv_of
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.errors import GateError
from trainfeed.training.models import (
    PROD,
    Candidate,
    ModelData,
    ModelJob,
    ModelsFolder,
    promote,
    register,
)
from trainfeed.versions import init_root

__all__ = ["COMMANDS", "DAY", "IDLE", "NEXT", "STORE", "Command", "Places", "prepare"]

# Folder of log files.
STORE = "store"
DAY, NEXT, IDLE = "2024-03-01", "2024-03-02", "2024-03-04"
HOLE = f"clicks/{NEXT}T00/{NEXT}T05"
# Older than all that waits for its time: leases, leftovers, what retention keeps for a day.
AGE_S = 5 * 86_400
GATES = "quality: [{check: quarantine_ratio, max: 0.05}]"
RETENTION = (
    "retention: {keep_generations: 1, landing: {keep: 1}, plans: {keep: 1}, work: {keep_days: 1}}"
)
WHY = ("--why", "the values are wrong")
UNTIL = (datetime.now(UTC) + timedelta(days=30)).date().isoformat()
FIRST, SECOND = f"clicks/{DAY}/g0001", f"clicks/{DAY}/g0002"


@dataclass(frozen=True)
class Places:
    """Where a command acts.

    Attributes:
        path: Folder of the data set, its source, landing and work files.
        root: The publication root, which may be on another file system.
    """

    path: Path
    root: Path

    @property
    def watched(self) -> list[Path]:
        """The folders in which calls are counted."""
        return [self.root, self.path / "landing", self.path / "work"]

    @property
    def env(self) -> Environment:
        """Where a project below the folder has its parts."""
        return Environment(
            root=str(self.root),
            landing=str(self.path / "landing"),
            work=str(self.path / "work"),
            kafka={"kafka_default": KafkaSettings(recorded=str(self.path / "recorded"))},
            datasets=self.path / "datasets",
            logs={"hdfs_default": str(self.path / STORE)},
        )

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables by which a command finds them."""
        return {
            "TRAINFEED_ROOT": str(self.root),
            "TRAINFEED_LANDING": str(self.path / "landing"),
            "TRAINFEED_WORK": str(self.path / "work"),
            "TRAINFEED_KAFKA": f"recorded:{self.path / 'recorded'}",
            "TRAINFEED_LOGS": str(self.path / STORE),
            "TRAINFEED_DATASETS": str(self.path / "datasets"),
        }


@dataclass(frozen=True)
class Command:
    """A command that is killed.

    Attributes:
        arguments: Those of ``trainfeed``.
        prepared: Makes what it acts on.
        status: Exit status of the command.
        done_again: Another exit status that it may have when it is given again after it was done.
        damaged: Versions that are damaged before it, as ``DAY/gNNNN``.
    """

    arguments: tuple[str, ...]
    prepared: Callable[[Places], object]
    status: int = 0
    done_again: tuple[int, ...] = ()
    damaged: tuple[str, ...] = ()


def topic(places: Places, *, spec: str = SPEC, code: str = CODE) -> Project:
    """Two partitions with some records of two days."""
    folder = places.path / "datasets" / "clicks"
    folder.mkdir(parents=True)
    small = spec.replace("samples_per_shard: 50", "samples_per_shard: 5")
    (folder / "dataset.yaml").write_text(small)
    (folder / "preprocess.py").write_text(code)
    init_root(places.root)
    project = Project(places.path, places.env)
    project.record({p: [batch(day(0, 12 - p) + day(1, 10))] for p in range(2)})
    return project


def published(places: Places) -> Project:
    """One generation."""
    project = topic(places)
    project.build()
    return project


def twice(places: Places) -> Project:
    """Two generations of other content."""
    project = published(places)
    project.edit('"value": row["value"]', '"value": row["value"] + 1', "preprocess.py")
    project.build(rebuild="the values are others")
    return project


def with_tag(generation: int) -> Callable[[Places], Project]:
    """Two generations, and a tag at one."""

    def prepared(places: Places) -> Project:
        from trainfeed.cli._app import app

        project = twice(places)
        name = f"{DAY}/g{generation:04d}"
        _run(app, places, "tag", "clicks", name, "prod", "--why", "for production")
        return project

    return prepared


def _run(app, places, *arguments):
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, arguments, env=dict(places.environ))
    assert done.exit_code == 0, done.output


def withdrawn(places: Places) -> None:
    """Two generations, of which the newer is withdrawn."""
    from trainfeed.cli._app import app

    twice(places)
    _run(app, places, "withdraw", SECOND, *WHY)


def refused(places: Places) -> Project:
    """A build that a gate refused."""
    project = topic(places)
    project.edit("seed: 7", f"seed: 7\n{GATES}")
    with suppress(GateError):
        project.build()
    return project


def waived(places: Places) -> None:
    """The same, and a person waives the failed gate."""
    from trainfeed.cli._app import app

    refused(places)
    _run(app, places, "waive", f"clicks/{DAY}", *WHY, "--until", UNTIL)


def idle(places: Places) -> None:
    """No record of the day, which may be skipped."""
    topic(places).edit("settle: 0s", "settle: 0s, missing: skip")


def superseded(places: Places) -> None:
    """Two generations of which one is kept, a plan without a version, and old landing files."""
    project = twice(places)
    project.edit("seed: 7", f"seed: 7\n{RETENTION}")
    project.build(NEXT)
    killed_build(project, "publish.before_rename")


def two_days(places: Places) -> None:
    """Two generations of a day, and one of the next."""
    twice(places).build(NEXT)


def hole(places: Places) -> None:
    """The day begins six hours later from the second version on: no interval fits between both."""
    project = published(places)
    project.edit('schedule: "@daily"', 'schedule: "0 6 * * *"')
    for name, value in {"start": "2024-03-01", "end": "2024-03-31"}.items():
        project.edit(f"{name}: {value}", f"{name}: {value}T06:00:00Z")
    project.build(NEXT)


def accepted(places: Places) -> None:
    """The same, and a person accepts the hole."""
    from trainfeed.cli._app import app

    hole(places)
    _run(app, places, "accept-hole", HOLE, *WHY)


def without_boundaries(places: Places) -> None:
    """Two days, of whose three boundary files one is gone and another is damaged."""
    project = published(places)
    project.build(NEXT)
    first, second, _ = sorted((project.folder.path / "boundaries").rglob("*.json"))
    first.unlink()
    flip(second)


def left_over(places: Places) -> None:
    """What builds left that were killed."""
    project = topic(places)
    for point in ("ingest.before_rename", "convert.before_sync", "publish.before_rename"):
        assert killed_build(project, point).returncode == -9


def damaged(places: Places) -> None:
    """A flipped bit in a shard, and another in the index."""
    project = published(places)
    flip(next(project.version().path.glob("clicks-train-00000-of-*")))
    flip(project.version().path / "CHUNKS.arrow")


def fixed(places: Places) -> None:
    """Quarantined records that a function of today accepts."""
    project = published(places)
    project.edit(
        "row = record.json()",
        'row = record.json() if record.value != b"not json" else {"value": 0.5}',
        "preprocess.py",
    )


def outdated(places: Places) -> None:
    """A day that today's seed would build otherwise.

    Of two days the second is built also if the build of the first is killed; its plan then names
    the version of the day before that was there.
    """
    published(places).edit("seed: 7", "seed: 8")


def models(places: Places) -> ModelsFolder:
    """Two versions of a model, of which the first is in production."""
    topic(places)
    output = places.path / "output"
    output.mkdir()
    (output / "model.npz").write_bytes(b"weights")
    digests = {"model.npz": (7, hashlib.sha256(b"weights").hexdigest())}
    data = ModelData(
        interval=DAY,
        generation="g0001",
        content_digest="a" * 64,
        manifest_sha256="b" * 64,
        fingerprint="f" * 64,
    )
    folder = ModelsFolder(places.root)
    for number in (1, 2):
        job = ModelJob(
            dataset="clicks",
            interval=DAY,
            name=f"clicks-{DAY}-{number:012x}",
            identity=f"{number:064x}",
            entry="train:main",
            code="c" * 64,
            seed=7,
            ranks=1,
        )
        register(folder.model("clicks"), Candidate(job, [data], {"auc": 0.7}, output, digests))
    promote(folder.model("clicks"), PROD, 1, "the first")
    return folder


def promoted(places: Places) -> None:
    """The second of two versions of a model is in production."""
    promote(models(places).model("clicks"), PROD, 2, "the second")


def uploaded(places: Places) -> None:
    """Two files with labels, of which one corrects the other, and one that is refused."""
    project = topic(places, spec=LABELLED_SPEC, code=LABELLED_CODE)
    project.record({0: [batch(clicks({"id": number} for number in range(20)))]})
    labelled = Labelled(project.path, project.env)
    labelled.put("a.csv", csv_of([(n, 0, None) for n in range(0, 20, 2)]))
    labelled.put("b.csv", csv_of([(2, 1, "")]))


def with_a_refused_upload(places: Places) -> None:
    """The same, and a file that is refused."""
    uploaded(places)
    labelled = Labelled(places.path, places.env)
    labelled.put("c.csv", csv_of([("x", 1, "")]))


def logs(places: Places) -> None:
    """Log files of a day."""
    made = make_log_project(places.path)
    if Path(made.env.root) != places.root:
        shutil.rmtree(made.env.root)
        init_root(places.root)
    project = LogProject(made.path, replace(made.env, root=str(places.root)))
    project.edit("samples_per_shard: 50", "samples_per_shard: 20")


def _build(*more: str) -> tuple[str, ...]:
    return ("build", "clicks", "--interval", DAY, *more)


# The names are those of the files in which the nightly run keeps its counts.
COMMANDS = {
    "build": Command(_build(), topic),
    "build-logs": Command(_build(), logs),
    "build-uploads": Command(_build(), uploaded),
    "build-waived": Command(_build(), waived),
    "rebuild": Command(_build("--rebuild", "again"), twice),
    "skip": Command(("build", "clicks", "--interval", IDLE), idle),
    "withdraw": Command(("withdraw", SECOND, *WHY), twice),
    "withdraw-tagged": Command(("withdraw", SECOND, *WHY, "--move-tags"), with_tag(2)),
    "restore": Command(("restore", SECOND, *WHY), withdrawn),
    "tag": Command(("tag", "clicks", SECOND.partition("/")[2], "prod", *WHY), with_tag(1)),
    "untag": Command(("untag", "clicks", "prod", *WHY), with_tag(1)),
    "waive": Command(("waive", f"clicks/{DAY}", *WHY, "--until", UNTIL), refused),
    "retire": Command(("retire", f"clicks/{DAY}", *WHY), two_days),
    "prune": Command(("prune", "clicks"), superseded),
    "gc": Command(("gc", "--older-than", "72"), left_over),
    "repair": Command(("repair", FIRST, *WHY), damaged, damaged=(f"{DAY}/g0001",)),
    "replay": Command(("quarantine", "replay", "clicks", "--interval", DAY), fixed),
    "bring-forward": Command(("bring-forward", "clicks/2024-03"), outdated),
    "accept-hole": Command(("accept-hole", HOLE, *WHY), hole),
    "revoke-hole": Command(("accept-hole", HOLE, "--revoke", *WHY), accepted, done_again=(1,)),
    "boundaries": Command(("boundaries", "restore", "clicks"), without_boundaries),
    "promote": Command(("models", "promote", "clicks/v0002", "--why", "better"), models),
    "rollback": Command(
        ("models", "rollback", "clicks/v0002", "--why", "worse"), promoted, done_again=(1,)
    ),
    "uploads-check": Command(("uploads", "check", "clicks"), with_a_refused_upload, status=3),
    "index": Command(("index",), two_days),
}


def prepare(command: Command, places: Places) -> None:
    """Make what a command acts on, as if it had been there for days."""
    places.path.mkdir(parents=True)
    command.prepared(places)
    then = time.time() - AGE_S
    for folder in places.watched:
        for path in folder.rglob("*"):
            os.utime(path, (then, then), follow_symlinks=False)
