"""What worker processes are given to do: run a function over ranges, or a whole task of a stage."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from trainfeed.errors import StorageError
from trainfeed.pipeline._ref import Build
from trainfeed.pipeline._stage_reports import StageReport
from trainfeed.pipeline.functions._deaths import where
from trainfeed.pipeline.functions._group import Group
from trainfeed.pipeline.functions._prepared_part import PreparedPart
from trainfeed.pipeline.functions._user_function import UserFunction
from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.stage import Stage
from trainfeed.pipeline.workers import Desk, WorkerPlace
from trainfeed.storage import Location, posix

__all__ = ["FunctionJob", "StageJob"]

_Run = Callable[[Build, int], StageReport]


@dataclass(frozen=True)
class FunctionJob:
    """Run the preprocessing function over ranges of a plan.

    Attributes:
        build: The build.
        ranges: Indices into the plan's ranges.
        limit_bytes: Memory that the samples of a run may take.
        target: URI that the names of the files it writes begin with.
    """

    build: Build
    ranges: list[int]
    limit_bytes: int
    target: str

    @property
    def label(self) -> str:
        """The function."""
        return self.build.spec.preprocess.function

    def run(self, desk: Desk) -> PreparedPart:
        """Return what was made of the ranges, as ``Group.finish`` does."""
        stage = Stage.open(self.build)
        stage.check_code()
        with posix.map_errors(stage.folder.path):
            group = Group(
                stage,
                _function(stage, desk.functions),
                self.limit_bytes,
                target=Location.parse(self.target),
                progress=desk.place,
            )
            for index in self.ranges:
                desk.place.begin(index)
                with _told(stage.plan, desk.place), posix.map_errors(stage.folder.path):
                    group.process(stage.plan.ranges[index])
                desk.on_piece(index)
            return group.finish(self.ranges)


@dataclass(frozen=True)
class StageJob:
    """Run one task of a stage that calls no function of the user.

    Attributes:
        stage: The stage, a function of a module.
        build: The build.
        unit: The task.
    """

    stage: _Run
    build: Build
    unit: int

    @property
    def label(self) -> str:
        """Stage and task."""
        return f"{self.stage.__name__} {self.unit}"

    def run(self, desk: Desk) -> StageReport:  # noqa: ARG002 - a job's signature
        """Return what the stage reports."""
        return self.stage(self.build, self.unit)


@contextmanager
def _told(plan: Plan, place: WorkerPlace) -> Iterator[None]:
    """Let an error of a file say which records were at work: those before are not to blame."""
    try:
        yield
    except StorageError as error:
        message, *others = error.args
        error.args = (f"{message}; it happened {where(plan, place.read())}", *others)
        raise


def _function(stage: Stage, functions: dict[Hashable, object]) -> UserFunction:
    """Return the function, the one of the last job when code and lookups are the same."""
    plan = stage.plan
    lookups = tuple(sorted(plan.lookups.items()))
    key = (str(stage.spec.folder), plan.code["digest"], stage.spec.preprocess.function, lookups)
    function = functions.get(key)
    if not isinstance(function, UserFunction):
        functions.clear()
        function = functions[key] = UserFunction(stage.spec, plan.lookups)
    return function
