"""Walk through the pages of a real Airflow: ``walk.py FOLDER [NAME …]``.

For each of four data sets a browser looks at a dry run, triggers a day by the form, backfills two
days, meets a gate that refuses a day, repairs it, and pauses and unpauses the training; then it
tags, withdraws, restores, repairs and retires a day, and lets a failed gate of another one pass.
The forms that the message of a failed run advises are opened by the links of its page.
What a page shows is compared with what the API says, and corrections with the data set's folder.
Screenshots of every step go to FOLDER, and the seconds of each form and step to the output; the
exit status is 1 when a step did not do what it should have.
With `python -m services run kafka -- python docs/authors/screenshots/walk.py FOLDER`, one topic is
on a broker.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
REPOSITORY: Final = HERE.parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "include")]

from docs.authors.screenshots._corrections import Corrections  # noqa: E402
from docs.authors.screenshots._evidence import Evidence, require  # noqa: E402
from docs.authors.screenshots._person import Person  # noqa: E402
from docs.authors.screenshots._sets import SETS, WalkedSet, make_places  # noqa: E402
from docs.authors.screenshots.browser import Browser  # noqa: E402
from examples.daily import places  # noqa: E402
from services.airflow import AirflowOptions, AirflowStack  # noqa: E402
from services.airflow_client import DagRun  # noqa: E402

RUN_S: Final = 600.0
START_S: Final = 600.0
POLL_S: Final = 0.5


class Walk:
    """The walk through one data set.

    Args:
        person: The logged-in browser.
        stack: The Airflow.
        walked: The data set.
        datasets: The folder of the data sets, whose files are edited.
        root: The publication root.
    """

    def __init__(
        self,
        person: Person,
        stack: AirflowStack,
        walked: WalkedSet,
        datasets: Path,
        root: Path,
    ) -> None:
        self._person, self._stack = person, stack
        self._set, self._folder = walked, datasets / walked.name
        self._build, self._train = f"build.{walked.name}", f"train.{walked.name}"
        self._evidence = Evidence(stack.client)
        day = f"{walked.name}/{walked.days[3]}"  # of the code as it is then
        self._corrections = Corrections(person, self._evidence, self._started, root, day)

    @property
    def name(self) -> str:
        """The data set."""
        return self._set.name

    def steps(self) -> list[Callable[[], None]]:
        """Everything that is done, in order."""
        put_right = self._corrections
        return [
            *(self.dry_run, self.trigger, self.backfill, self.refuse, self.repair, self.pause),
            *(put_right.tag, put_right.withdraw, put_right.repair_files, put_right.retire),
            self.waive,
        ]

    def dry_run(self) -> None:
        """Look at a dry run; nothing is published."""
        day = self._set.days[0]
        run = self._run(lambda: self._person.trigger(self._build, day, dry_run=True))
        self._look(run, "dry-run", expects="Nothing was written")
        self._evidence.triggered_by_the_form(run, day)
        self._evidence.only_planned(run, day)

    def trigger(self) -> None:
        """Build one day by the form, and look at its version and its training."""
        day, shot = self._set.days[0], f"{self._set.name}-trigger-form"
        run = self._run(lambda: self._person.trigger(self._build, day, shot=shot))
        self._trained(day)
        self._look(run, "published", expects="g0001 is published")
        self._person.look_at_links(run, f"{self._set.name}-links")
        self._evidence.triggered_by_the_form(run, day)
        self._evidence.published(run, day)

    def backfill(self) -> None:
        """Build two days by the form."""
        _, first, last, *_ = self._set.days
        shot = f"{self._set.name}-backfill-form"
        runs = self._runs(lambda: self._person.backfill(self._build, first, last, shot=shot), 2)
        self._person.look_at_dag(self._build, f"{self._set.name}-backfill")
        for run, day in zip(sorted(runs, key=lambda run: run.run_id), (first, last), strict=True):
            require(run.run_type == "backfill", f"expected a backfill, got {run.run_type}")
            self._evidence.published(run, day)
        for day in (first, last):
            self._trained(day)

    def refuse(self) -> None:
        """Meet a gate: the page says why, and the log begins with it."""
        if self._set.spoil is not None:
            self._edit(*self._set.spoil)
        run = self._run(lambda: self._person.trigger(self._build, self._set.days[3]))
        self._evidence.refused(run)
        self._look(run, "refused", expects="trainfeed quarantine show")
        self._person.look_at_log(run, "check", f"{self._set.name}-refused-log")

    def repair(self) -> None:
        """Repair the fault that the message names, and build the day."""
        self._edit(*self._set.repair)
        run = self._run(lambda: self._person.trigger(self._build, self._set.days[3]))
        self._look(run, "repaired", expects="g0001 is published")
        self._evidence.published(run, self._set.days[3])
        self._trained(self._set.days[3])

    def pause(self) -> None:
        """Build while the training is paused; once it goes on, the training is caught up on."""
        before, day = self._set.days[3:]
        self._switch(paused=True)
        run = self._run(lambda: self._person.trigger(self._build, day))
        self._look(run, "training-paused", expects=f"{self._train} is paused")
        report = self._evidence.published(run, day)["training"]
        require(report["state"] == "paused", f"expected a paused training, got {report}")
        self._switch(paused=False)
        run = self._run(lambda: self._person.trigger(self._build, before))
        self._trained(day)
        self._look(run, "identical", expects=f"were started as well: {day}")
        report = self._evidence.published(run, before, "identical")["training"]
        require(report["caught_up"] == [day], f"expected {day} to be caught up, got {report}")
        self._person.look_at_dag(self._train, f"{self._set.name}-training-caught-up")

    def waive(self) -> None:
        """Build a day again, meet a gate, and let it pass by the form that the page links."""
        day, limit = self._set.days[0], self._set.limit
        self._edit("dataset.yaml", f"ratio, max: {limit}", "ratio, max: 0.0001")
        again = "the gate is narrower"
        failed = self._run(lambda: self._person.trigger(self._build, day, rebuild=again))
        self._evidence.refused(failed)
        self._look(failed, "gate-failed", expects="Forms for what the message advises")
        dag_id, shot = f"waive.{self._set.name}", f"{self._set.name}-waive-form"
        until = f"{datetime.now(UTC).date() + timedelta(days=7)}"
        form = {"interval": day, "why": "looked at: the records are broken", "until": until}

        def send() -> None:
            self._person.send(dag_id, form, failed=failed, shot=shot, views=True)

        waivers: list[DagRun] = []
        run = self._run(lambda: waivers.append(self._started(dag_id, send)))
        self._look(waivers[0], "waived", expects="waived: ")
        self._look(run, "published-by-a-waiver", expects="failed, waived")
        self._evidence.published(run, day, generation="g0002")
        self._edit("dataset.yaml", "ratio, max: 0.0001", f"ratio, max: {limit}")

    def _run(self, start: Callable[[], None]) -> DagRun:
        return self._started(self._build, start)

    def _runs(self, start: Callable[[], None], count: int) -> list[DagRun]:
        return self._all_started(self._build, start, count)

    def _started(self, dag_id: str, start: Callable[[], None]) -> DagRun:
        return self._all_started(dag_id, start, 1)[0]

    def _all_started(self, dag_id: str, start: Callable[[], None], count: int) -> list[DagRun]:
        client = self._stack.client
        before = {run.run_id for run in client.dag_runs(dag_id)}
        began_s = time.monotonic()
        start()

        def new() -> list[DagRun]:
            return [run for run in client.dag_runs(dag_id) if run.run_id not in before]

        self._wait(lambda: len(new()) >= count, f"the form made no {count} runs of {dag_id}")
        ended = client.wait_for(new(), RUN_S)
        print(
            f"  {dag_id}: {time.monotonic() - began_s:.0f} s from the form to its end", flush=True
        )
        return ended

    def _switch(self, *, paused: bool) -> None:
        self._person.toggle(self._train)
        otherwise = f"expected {self._train} to be {'paused' if paused else 'on'}"
        self._wait(lambda: self._stack.client.dags()[self._train] is paused, otherwise)

    def _trained(self, day: str) -> None:
        otherwise = f"no training of {self._set.name}/{day} has ended"
        self._wait(lambda: self._evidence.trained(self._train, day), otherwise)

    def _look(self, run: DagRun, name: str, *, expects: str) -> None:
        self._person.look_at_run(run, f"{self._set.name}-{name}", expects=expects)

    def _edit(self, file: str, old: str, new: str) -> None:
        path = self._folder / file
        text = path.read_text()
        require(old in text, f"{path} has no {old!r}")
        path.write_text(text.replace(old, new))

    def _wait(self, holds: Callable[[], bool], otherwise: str) -> None:
        deadline_s = time.monotonic() + RUN_S
        while not holds():
            require(time.monotonic() < deadline_s, otherwise)
            threading.Event().wait(POLL_S)


def main(folder: Path, names: Sequence[str]) -> int:
    """Walk; returns how many steps did not do what they should have."""
    walked = _chosen(names)
    folder.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="trainfeed-walk-"))
    home.chmod(0o711)  # the database runs as another account
    try:
        return _walk(folder, walked, home)
    finally:
        shutil.rmtree(home)


def _chosen(names: Sequence[str]) -> list[WalkedSet]:
    """Return the data sets of the names, in their order; all when there is none."""
    known = {each.name: each for each in SETS}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"expected some of {', '.join(known)}, got {', '.join(unknown)}")
    return [known[name] for name in names or known]


def _walk(folder: Path, walked: Sequence[WalkedSet], home: Path) -> int:
    places.make_lookups()
    place, environ = make_places(home)
    stack = AirflowStack(place.home, environ=environ, options=AirflowOptions(paused=False))
    try:
        stack.start()
        stack.wait(START_S)
        dags = [f"{kind}.{each.name}" for each in walked for kind in ("build", "train")]
        stack.wait_for_dags(dags, START_S)
        with Browser() as browser:
            person = Person(browser, stack, folder)
            person.log_in(dags[0])
            walks = [Walk(person, stack, each, home / "datasets", place.root) for each in walked]
            return sum(_failures(walk, person) for walk in walks)
    finally:
        stack.stop()


def _failures(walk: Walk, person: Person) -> int:
    failed = 0
    for step in walk.steps():
        name = f"{walk.name}: {step.__name__}"
        started = time.monotonic()
        try:
            step()
            print(f"{name}: done in {time.monotonic() - started:.0f} s", flush=True)
        except Exception:  # noqa: BLE001 - the other steps are looked at all the same
            failed += 1
            print(f"{name}: FAILED\n{traceback.format_exc()}", flush=True)
            person.shoot(f"{walk.name}-{step.__name__.replace('_', '-')}-failed")
    return failed


def _leave(number: int, _: object) -> None:
    """End in good order: Airflow and the browsers are stopped on the way."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    raise SystemExit(1 if main(Path(sys.argv[1]), sys.argv[2:]) else 0)
