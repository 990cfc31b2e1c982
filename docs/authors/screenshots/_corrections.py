"""A published day is tagged, withdrawn, restored, repaired and retired by the forms of the DAGs.

Every form is first sent as a dry run, and its result is looked at. What a run says is
compared with the folder of the data set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from docs.authors.screenshots._evidence import Evidence, require
from docs.authors.screenshots._person import Person
from services.airflow_client import DagRun
from trainfeed import open_dataset
from trainfeed.errors import TrainFeedError

__all__ = ["Corrections"]

_WHY: Final = "walked through by hand"
_Fields = Mapping[str, str | bool]


class Corrections:
    """Corrections of one day.

    Args:
        person: The logged-in browser.
        evidence: Asks the API.
        started: Starts something in the browser, and returns the run of a DAG that comes of it.
        root: The publication root.
        version: The published day, ``NAME/INTERVAL``.
    """

    def __init__(
        self,
        person: Person,
        evidence: Evidence,
        started: Callable[[str, Callable[[], None]], DagRun],
        root: Path,
        version: str,
    ) -> None:
        self._person, self._evidence, self._started = person, evidence, started
        self._root, self._version = root, version
        self._name, self._day = version.split("/")

    def tag(self) -> None:
        """Give the day a tag, and open it by the tag."""
        form = {"dataset": self._name, "tag": "walked", "range": self._day, "why": _WHY}
        require(self._sent("tag", form, dry_run=True)["versions"] == 1, "expected one version")
        require(self._opened(tag="walked") is None, "the dry run made a tag")
        self._sent("tag", form)
        require(self._opened(tag="walked") is not None, f"{self._name}@walked does not open")

    def withdraw(self) -> None:
        """Withdraw the day; readers do not get it. Restore it; they do."""
        form = {"dataset": self._name, "interval": self._day, "why": _WHY}
        require(self._sent("withdraw", form, dry_run=True)["written"] is False, "it was withdrawn")
        require(self._opened() is not None, "the dry run withdrew the day")
        self._sent("withdraw", form)
        require(self._opened() is None, f"{self._version} opens, though withdrawn")
        build = f"build.{self._name}"
        failed = self._started(build, lambda: self._person.trigger(build, self._day))
        self._look(failed, "withdrawn", expects="Forms for what the message advises")
        self._sent("withdraw", {**form, "action": "restore"}, failed=failed)
        require(self._opened() is not None, f"{self._version} was not restored")

    def repair_files(self) -> None:
        """Damage a shard; the DAG finds it, and makes it what was published."""
        from trainfeed.versions import Version

        version = Version.open(self._root / self._name / "versions" / self._day / "g0001")
        shard = version.shard_paths("train")[0]
        shard.chmod(0o644)
        shard.write_bytes(b"damaged")
        form = {"dataset": self._name, "interval": self._day}
        told = self._sent("repair", form, dry_run=True)
        require(not told["is_whole"] and told["num_files"] == 1, f"expected one file, got {told}")
        require(self._sent("repair", form)["is_whole"], f"{self._version} is not whole")
        version.verify()

    def retire(self) -> None:
        """Retire the day: its tag refuses it first; it goes when the tag is gone."""
        form = {"dataset": self._name, "range": self._day, "why": _WHY}
        failed = self._run("retire", {**form, "dry_run": True})
        require(failed.state == "failed", f"expected a refusal, the run is {failed.state}")
        self._look(failed, "retire-refused", expects="Forms for what the message advises")
        untag = {"action": "untag", "dataset": self._name, "tag": "walked", "why": _WHY}
        self._sent("tag", untag, failed=failed)
        self._sent("retire", form, dry_run=True)
        require(self._opened() is not None, f"the dry run retired {self._version}")
        self._sent("retire", form)
        require(self._opened() is None, f"{self._version} is still there")

    def _opened(self, *, tag: str | None = None) -> object | None:
        """Return the day as readers get it, or what the tag names; None if they get nothing."""
        name = self._name if tag is None else f"{self._name}@{tag}"
        day = self._day if tag is None else None
        try:
            return open_dataset(name, interval=day, split="train", root=self._root)
        except TrainFeedError:
            return None

    def _sent(
        self, dag_id: str, fields: _Fields, *, dry_run: bool = False, failed: DagRun | None = None
    ) -> dict[str, Any]:
        """Send a form, look at its result, and return what its task says."""
        run = self._run(dag_id, {**fields, "dry_run": dry_run}, failed)
        require(run.state == "success", f"expected {run.run_id} to succeed, got {run.state}")
        shot = f"{fields.get('action', dag_id)}{'-dry-run' if dry_run else ''}-result"
        self._look(run, shot, expects="Result")
        return self._evidence.said(run, dag_id)

    def _run(self, dag_id: str, fields: _Fields, failed: DagRun | None = None) -> DagRun:
        kind = "dry-run" if fields["dry_run"] else str(fields.get("action", "form"))
        shot = f"{self._name}-{dag_id}-{kind}"
        views = dag_id == "retire"
        return self._started(
            dag_id,
            lambda: self._person.send(dag_id, fields, failed=failed, shot=shot, views=views),
        )

    def _look(self, run: DagRun, shot: str, *, expects: str) -> None:
        self._person.look_at_run(run, f"{self._name}-{shot}", expects=expects)
