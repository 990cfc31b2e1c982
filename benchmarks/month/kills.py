"""``python -m benchmarks.month.kills``: a month of flights while all parts of Airflow are killed.

Question: does an unattended backfill end with the same bytes as a build by the command line, with
one job per interval, no run that stands still, and nothing to clear by hand, although SIGKILL ends
tasks, workers, parts and the database all the time?

Method: the processes of docker-compose.yaml with its settings for recovery; a process that ends is
started again within two seconds, as a container engine does. A seeded list of kinds of processes is
killed one after the other, at random distances, each time one process by random choice. All runs
are looked at every two seconds. In the end every manifest is compared with one that the pipeline
made without Airflow. docs/authors/measured.md has the results.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from benchmarks.month._kill_report import Kill, Outcome, is_right, show
from benchmarks.month._victims import KINDS, kill, victims
from benchmarks.month._watch import Watch
from examples.daily import places
from services._process import ServiceError
from services.airflow import AirflowOptions, AirflowStack
from trainfeed.core.config import environment_from_environ
from trainfeed.pipeline.local import build
from trainfeed.specification import load_spec
from trainfeed.versions import init_root
from trainfeed.versions.layout import MANIFEST_DIGEST

_FIRST: Final = datetime(2013, 1, 1, tzinfo=UTC)
_BUILD: Final = f"build.{places.DATASET}"
_TRAIN: Final = f"train.{places.DATASET}"
_START_S: Final = 300.0
_LOOK_S: Final = 2.0
_LIMIT_S: Final = 3600.0
_VICTIM_S: Final = 20.0  # a kind that has no process for so long gives way to the next one

console = Console(width=150, highlight=False)


def main(
    *,
    days: Annotated[int, typer.Option(min=1, help="How many, from 2013-01-01 on.")] = 31,
    kills: Annotated[int, typer.Option(min=0, help="How many processes.")] = 30,
    seed: Annotated[int, typer.Option(help="Of kinds, distances and choices.")] = 1,
    apart: Annotated[float, typer.Option(min=0, help="Mean distance of kills, in seconds.")] = 7.0,
    active: Annotated[int, typer.Option(min=1, help="Runs at once.")] = 4,
    out: Annotated[Path | None, typer.Option(help="JSON file of all figures.")] = None,
) -> None:
    """Backfill in a place of its own under kills, and compare; status 1 where anything failed."""
    home = Path(tempfile.mkdtemp(prefix="trainfeed-kills-"))
    home.chmod(0o711)  # the database server runs as another account
    try:
        outcome = _measure(home, days, active, _Plan(kills, seed, apart))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    show(outcome, days, console)
    if out is not None:
        out.write_text(json.dumps(asdict(outcome), indent=1))
    if not is_right(outcome, days):
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Plan:
    """How many processes are killed, and the seed and mean distance of the kills."""

    kills: int
    seed: int
    apart_s: float

    def __iter__(self) -> Iterator[tuple[str, float]]:
        """Kinds and the seconds before each: every kind comes up, then again in another order."""
        chance = random.Random(self.seed)  # noqa: S311 - no secret
        while True:
            for kind in chance.sample(KINDS, len(KINDS)):
                yield kind, chance.uniform(0.3, 1.7) * self.apart_s


def _measure(
    home: Path,
    days: int,
    active: int,
    plan: _Plan,
) -> Outcome:
    places.make_lookups()
    place = places.embedded(home)
    expected = _reference(home, days)
    options = AirflowOptions(database="server", paused=False)
    stack = AirflowStack(place.home, environ=place.environ, options=options)
    try:
        stack.start()
        stack.wait(_START_S)
        stack.wait_for_dags([_BUILD, _TRAIN], _START_S)
        last = _FIRST + timedelta(days=days - 1)
        stack.client.backfill(_BUILD, _FIRST, last, max_active_runs=active)
        return _under_kills(stack, place.root, plan, expected)
    finally:
        stack.stop()


def _reference(home: Path, days: int) -> dict[str, str]:
    """The digest of each interval's manifest as the pipeline makes it without Airflow."""
    spec = load_spec(Path("include/datasets") / places.DATASET)
    own = home / "reference"
    env = environment_from_environ(
        root=str(own / "root"),
        landing=str(own / "landing"),
        work=str(own / "work"),
        kafka=f"recorded:{home / 'recorded'}",
    )
    init_root(own / "root")
    last = _FIRST + timedelta(days=days - 1)
    for interval in spec.schedule_model().intervals(_FIRST, last):
        build(spec, interval, env)
    return _digests(own / "root")


def _digests(root: Path) -> dict[str, str]:
    found = (root / places.DATASET / "versions").glob(f"*/g*/{MANIFEST_DIGEST}")
    return {f"{file.parent.parent.name}/{file.parent.name}": file.read_text() for file in found}


def _under_kills(
    stack: AirflowStack,
    root: Path,
    plan: _Plan,
    expected: dict[str, str],
) -> Outcome:
    watch, done, unanswered = Watch(stack.client, (_BUILD, _TRAIN)), list[Kill](), 0
    started_s = time.monotonic()
    with _restarted(stack), _killed(stack, plan, done):
        while not _over(watch, root, expected):
            if time.monotonic() - started_s > _LIMIT_S:
                console.print("the time is over; runs that have not ended are in the table")
                break
            threading.Event().wait(_LOOK_S)
            unanswered += not watch.look()
        wall_s = time.monotonic() - started_s
    found = _digests(root)
    longest = sorted(watch.still_s.items(), key=lambda item: item[1], reverse=True)[:5]
    return Outcome(
        wall_s=wall_s,
        kills=done,
        builds=dict(watch.states(_BUILD)),
        trainings=dict(watch.states(_TRAIN)),
        equal=sum(found.get(name) == digest for name, digest in expected.items()),
        generations=len(found),
        jobs=_jobs(root),
        still_s={" ".join(key): round(seconds, 1) for key, seconds in longest},
        unanswered=unanswered,
    )


def _over(watch: Watch, root: Path, expected: dict[str, str]) -> bool:
    """Whether every build has ended, and a training of every interval that was published."""
    runs = list(watch.runs.values())
    builds = [run for run in runs if run.dag_id == _BUILD]
    if len(builds) < len(expected) or not all(run.ended for run in runs):
        return False
    trained = {run.partition_key for run in runs if run.dag_id == _TRAIN}
    return trained >= {name.partition("/")[0] for name in _digests(root)}


def _jobs(root: Path) -> dict[str, int]:
    results = (root / places.DATASET / "training").glob("*/*/result.json")
    return dict(Counter(result.parent.parent.name for result in results))


@contextmanager
def _restarted(stack: AirflowStack) -> Iterator[None]:
    """Start again what ends, as `restart: unless-stopped` does."""
    over = threading.Event()

    def supervise() -> None:
        while not over.is_set():
            try:
                stack.supervise(over)
            except (ServiceError, OSError) as error:
                console.print(f"not started: {error}"[:300])

    with _thread(supervise, over):
        yield


@contextmanager
def _killed(stack: AirflowStack, plan: _Plan, done: list[Kill]) -> Iterator[None]:
    """Kill by the plan, until it is carried out; ``done`` gets what was killed."""
    over, chance, started_s = threading.Event(), random.Random(plan.seed), time.monotonic()  # noqa: S311

    def carry_out() -> None:
        for kind, after_s in plan:
            over.wait(after_s)
            pids = _wait_for(stack, kind, over)
            if over.is_set() or len(done) == plan.kills:
                return
            if pids:
                pid = chance.choice(pids)
                kill(pid)
                done.append(Kill(round(time.monotonic() - started_s, 1), kind, pid))
                console.print(f"{done[-1].at_s:6.1f} s: killed {kind}, process {pid}")

    with _thread(carry_out, over):
        yield


def _wait_for(stack: AirflowStack, kind: str, over: threading.Event) -> list[int]:
    deadline_s = time.monotonic() + _VICTIM_S
    while not (pids := victims(stack.status()).get(kind, [])):
        if time.monotonic() > deadline_s or over.wait(0.05):
            return []
    return pids


@contextmanager
def _thread(work: Callable[[], None], over: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    typer.run(main)
