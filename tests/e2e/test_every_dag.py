"""Every DAG that ``make ui`` shows runs there: triggered now, without a date, and by a backfill.

The places are those of ``make run`` and ``make ui`` themselves, in a folder of this test.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from examples.ctr.writer import DAYS as CTR_DAYS
from examples.ctr.writer import write_days as write_ctr
from examples.daily import places
from examples.digits.images import read_digits
from examples.digits.writer import write_days
from services._home import REPOSITORY
from services.airflow import AirflowStack
from tests.e2e.predicting import predicted, service
from tests.e2e.ways import until
from tests.unit.training.models.conftest import finished
from trainfeed.cli.scaffold import new_dataset
from trainfeed.conversion import ShardManifest
from trainfeed.errors import TrainFeedError
from trainfeed.files.stores import Location
from trainfeed.readers import DatasetReader
from trainfeed.training.models import PROD, ModelsFolder, current, register
from trainfeed.versions import DatasetFolder, Version
from trainfeed.versions.history import actions
from trainfeed.versions.tag_files import require_tag

__all__ = ["finished"]

RUN_S = 300.0
# Data set, and three of its days: for a trigger now, a trigger without a date, a backfill.
DAYS = {
    "flights": ("2013-01-05", "2013-01-06", "2013-01-07"),
    "digits": ("2024-01-01", "2024-01-02", "2024-01-03"),
    "clicks": ("2026-01-01", "2026-01-02", "2026-01-03"),
    "ctr": ("2019-11-24", "2019-11-25", "2019-11-26"),
}
# TensorFlow trains on ctr, outside of Airflow.
TRAINED = tuple(name for name in DAYS if name != "ctr")
# The data set that `trainfeed new` makes here; all others are copied from include/datasets.
NEW_DATASET = "clicks"
CLICKS_DAY = DAYS[NEW_DATASET][0]
# DAGs of all data sets. Those of one data set are `build`, `train` and `waive`: an Airflow with
# gates that fail is that of test_asked_gates.py.
OF_ONE = ("build", "train", "waive")
OF_ALL = {
    "convert",
    "housekeeping",
    "models",
    "outdated",
    "repair",
    "retention",
    "retire",
    "tag",
    "withdraw",
}
# Days of flights that no other test builds.
NEW = [f"2013-02-0{day}" for day in range(1, 6)]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """What ``make ui`` gives its Airflow, and beside the shipped data sets one of ``new``."""
    data = tmp_path_factory.mktemp("every") / "data"
    places.make_lookups()
    made = places.embedded(data)
    digits = read_digits(REPOSITORY / "data" / "scikit-learn")
    write_days(digits, Location.parse(str(data / "logs" / "digits")), data / "digits.sqlite")
    ctr_logs = Location.parse(str(data / "logs" / "ctr"))
    days = CTR_DAYS[: len(DAYS["ctr"])]
    write_ctr(REPOSITORY / "data" / "obp", ctr_logs, data / "ctr.json", days=days, copies=1)
    datasets = data / "datasets"
    new_dataset(datasets, NEW_DATASET)
    for name in DAYS.keys() - {NEW_DATASET}:
        shutil.copytree(REPOSITORY / "include/datasets" / name, datasets / name)
    return replace(made, environ={**made.environ, "TRAINFEED_DATASETS": str(datasets)})


@pytest.fixture(scope="module")
def client(place):
    # Not below pytest's folder: PostgreSQL runs as another account, which may not pass there.
    home = Path(tempfile.mkdtemp(prefix="trainfeed-e2e-"))
    stack = AirflowStack(home, environ=place.environ)
    try:
        stack.start()
        stack.wait()
        stack.wait_for_dags([f"build.{name}" for name in DAYS])
        for dag_id in stack.client.dags():
            stack.client.unpause(dag_id)
        yield stack.client
    finally:
        stack.stop()
        shutil.rmtree(home, ignore_errors=True)


def succeed(client, runs, *, skipped=frozenset()):
    """Wait for the runs; every task of them has done its work, but those that had none."""
    done = client.wait_for(runs, RUN_S)
    for run in done:
        tasks = client.task_instances(run.dag_id, run.run_id)
        failed = [task for task in tasks if task.state == "failed"]
        logs = "\n".join(client.log(run.dag_id, run.run_id, task)[-3000:] for task in failed)
        assert run.state == "success", (run.run_id, logs)
        # A run that has no task is green as well.
        states = {task.state for task in tasks if task.task_id not in skipped}
        assert states == {"success"}, run.run_id
        passed_over = {task.task_id for task in tasks if task.state == "skipped"}
        assert passed_over == skipped, run.run_id
    return done


def version(place, name, day):
    found = Version.resolve(DatasetFolder(place.root, name), day)
    assert list(found.problems()) == []
    return found


def clicks(client, place):
    """The version of a day of clicks, which is built if no test before has done so."""
    if not (place.root / "clicks" / "versions" / CLICKS_DAY / "g0001").exists():
        succeed(client, [client.trigger("build.clicks", {"window_start": CLICKS_DAY})])
    return version(place, "clicks", CLICKS_DAY)


def report(client, dag_id, task, form):
    """Run a DAG with a form; return what its task reports."""
    run = client.trigger(dag_id, form)
    succeed(client, [run])
    return client.xcom(run, task)


def test_no_dag_is_shown_that_is_not_tried_here(client):
    assert client.import_errors() == {}
    shown = set(client.dags())
    of_one = {f"{kind}.{name}" for name in DAYS for kind in OF_ONE}
    assert shown == OF_ALL | of_one - {f"train.{name}" for name in DAYS if name not in TRAINED}


@pytest.mark.parametrize("name", DAYS)
@pytest.mark.parametrize("when", ["now", "null"])
def test_a_trigger_builds_the_interval_that_the_form_names(client, place, name, when):
    day = DAYS[name][0 if when == "now" else 1]
    # The form fills in the time of the click.
    logical_date = datetime.now(UTC) if when == "now" else None
    run = client.trigger(f"build.{name}", {"window_start": day}, logical_date=logical_date)
    succeed(client, [run])
    assert version(place, name, day).manifest.num_samples() > 50


def backfill(client, place, name):
    """Build the third day of a data set; return the day."""
    day = DAYS[name][2]
    start = datetime.fromisoformat(day).replace(tzinfo=UTC)
    client.backfill(f"build.{name}", start, start)
    runs = [run for run in client.dag_runs(f"build.{name}") if run.run_type == "backfill"]
    assert len(runs) == 1
    succeed(client, runs)
    assert version(place, name, day).manifest.num_samples() > 50
    return day


def test_a_backfill_builds_the_interval_of_a_data_set_without_training(client, place):
    backfill(client, place, "ctr")


@pytest.mark.parametrize("name", TRAINED)
def test_a_backfill_builds_the_interval_and_its_training_runs(client, place, name):
    day = backfill(client, place, name)
    train = f"train.{name}"
    until(lambda: day in {run.partition_key for run in client.dag_runs(train)}, "the training")
    wanted = [run for run in client.dag_runs(train) if run.partition_key == day]
    succeed(client, wanted)
    assert client.xcom(wanted[0], "train")["intervals"][-1] == day


def test_the_digits_that_a_dag_promoted_are_predicted_as_it_has_evaluated_them(place, tmp_path):
    model = current(ModelsFolder(place.root).known("digits"), PROD)
    right = total = 0
    for data in model.manifest.data:
        day = f"digits/{data.interval}/{data.generation}"
        rows = predicted(place, "digits@prod", "--version", day, "--split", "eval")
        blocks = DatasetReader([version(place, "digits", data.interval)], "eval").iter_arrays()
        labels = [int(label) for block in blocks for label in block["label"]]
        digits = [row["predictions"][0]["digit"] for row in rows]
        right += sum(a == b for a, b in zip(digits, labels, strict=True))
        total += len(labels)
    assert right / total == model.manifest.metrics["accuracy"]
    log = place.root.parent / "logs/digits/dt=2024-01-01/part-00000.txt"
    # Without the label, which is unknown when a prediction is made.
    lines = [line.partition(b"\t")[0] for line in log.read_bytes().splitlines()[:40]]
    (tmp_path / "lines.txt").write_bytes(b"\n".join(lines))
    rows = predicted(place, "digits@prod", str(tmp_path / "lines.txt"), "--skip-bad")
    assert sum("predictions" in row for row in rows) > 30
    with service(place, "digits@prod", tmp_path) as ask:
        records = [line.decode("ascii", "replace") for line in lines]
        answer = ask({"records": records, "skip_bad": True})
    assert answer["model"] == model.name
    assert [{**row, "model": model.name} for row in answer["results"]] == rows


@pytest.mark.parametrize("when", ["now", "null"])
def test_convert_converts_published_shards_below_the_folders_of_its_connection(client, place, when):
    shards = ",".join(map(str, clicks(client, place).shard_paths("train")))
    form = {"input": shards, "output": when, "shards": 2, "prefix": "clicks", "seed": 3}
    logical_date = datetime.now(UTC) if when == "now" else None
    succeed(client, [client.trigger("convert", form, logical_date=logical_date)])
    manifest = ShardManifest.load(place.root.parent / "files" / when, "clicks")
    assert manifest.num_samples > 50


@pytest.mark.parametrize("when", ["now", "null", "backfill"])
def test_housekeeping_sweeps(client, when):
    if when == "backfill":
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        day = today - timedelta(days=2)
        client.backfill("housekeeping", day, day)
        (run,) = [r for r in client.dag_runs("housekeeping") if r.run_type == "backfill"]
    else:
        logical_date = datetime.now(UTC) if when == "now" else None
        run = client.trigger("housekeeping", {}, logical_date=logical_date)
    # No shared storage is mounted here.
    succeed(client, [run], skipped={"shared_storage"})
    assert client.xcom(run, "sweep") == {"leftovers": 0, "bytes": 0}


def test_a_backfill_of_five_days_with_training_last_trains_on_the_newest_alone(client):
    days = [datetime.fromisoformat(name).replace(tzinfo=UTC) for name in NEW]
    before = {run.run_id for name in ("build", "train") for run in runs_of(client, name)}
    # That of one day has ended, but may count as active for half a minute.
    until(lambda: not client.has_active_backfill("build.flights"), "the end of the backfill before")
    client.backfill("build.flights", days[0], days[-1], conf={"training": "last"})
    runs = [run for run in runs_of(client, "build") if run.run_id not in before]
    reports = [client.xcom(run, "publish") for run in succeed(client, runs)]
    told = {report["interval"]: report["training"]["state"] for report in reports}
    assert told == dict.fromkeys(NEW[:-1], "declined") | {NEW[-1]: "listens"}
    trained = f"the training of {NEW[-1]}"
    until(lambda: any(run.run_id not in before for run in runs_of(client, "train")), trained)
    trainings = [run for run in runs_of(client, "train") if run.run_id not in before]
    succeed(client, trainings)
    assert [run.partition_key for run in trainings] == NEW[-1:]


def runs_of(client, kind):
    return client.dag_runs(f"{kind}.flights")


def test_models_promotes_and_rolls_back_what_trainings_have_made(client, place, finished):
    folder = ModelsFolder(place.root).known("flights")
    promoted = current(folder, PROD)
    promoted.verify()
    made = version(place, "flights", NEW[-1]).manifest
    assert promoted.manifest.data[-1].fingerprint == made.fingerprint
    other, _ = register(folder, finished())
    form = {"model": "flights", "why": "to see", "version": other.path.name}
    for action, leads_to in (("promote", other), ("rollback", promoted)):
        run = client.trigger("models", {**form, "action": action})
        succeed(client, [run])
        assert client.xcom(run, "change")["prod"] == leads_to.path.name
        assert current(folder, PROD).path == leads_to.path


def test_withdraw_hides_a_version_and_gives_it_back(client, place):
    folder, hidden = DatasetFolder(place.root, "clicks"), clicks(client, place)
    form = {"dataset": "clicks", "interval": CLICKS_DAY, "why": "doubled events"}
    told = report(client, "withdraw", "withdraw", {**form, "dry_run": True})
    assert (told["readers_get"], told["written"]) == (None, False)
    assert version(place, "clicks", CLICKS_DAY).path == hidden.path
    told = report(client, "withdraw", "withdraw", form)
    assert (told["readers_get"], told["written"]) == (None, True)
    with pytest.raises(TrainFeedError, match="doubled events"):
        Version.resolve(folder, CLICKS_DAY)
    told = report(client, "withdraw", "withdraw", {**form, "action": "restore"})
    assert (told["readers_get"], told["written"]) == ("g0001", True)
    assert version(place, "clicks", CLICKS_DAY).manifest_sha256 == hidden.manifest_sha256
    done = [action for action in actions(folder) if action.target.endswith(f"{CLICKS_DAY}/g0001")]
    assert [action.action for action in done] == ["withdraw", "restore"]


def test_tag_names_a_version_for_readers_until_it_is_removed(client, place):
    folder, named = DatasetFolder(place.root, "clicks"), clicks(client, place)
    form = {"dataset": "clicks", "tag": "prod", "range": CLICKS_DAY, "why": "for the demo"}
    assert report(client, "tag", "tag", form)["versions"] == 1
    (tagged,) = require_tag(folder, "prod").versions
    assert (tagged.interval, tagged.manifest_sha256) == (CLICKS_DAY, named.manifest_sha256)
    told = report(client, "tag", "tag", {**form, "range": None, "action": "untag"})
    assert (told["number"], told["written"]) == (2, True)
    with pytest.raises(TrainFeedError, match="prod"):
        require_tag(folder, "prod")


def test_repair_makes_a_damaged_shard_what_was_published(client, place):
    damaged = clicks(client, place)
    shard = damaged.shard_paths("train")[0]
    published = shard.read_bytes()
    shard.chmod(0o644)
    shard.write_bytes(bytes([published[0] ^ 1]) + published[1:])
    form = {"dataset": "clicks", "interval": CLICKS_DAY, "why": "a flipped bit"}
    assert not report(client, "repair", "repair", {**form, "dry_run": True})["is_whole"]
    assert shard.read_bytes() != published
    assert report(client, "repair", "repair", form)["is_whole"]
    assert shard.read_bytes() == published
    assert version(place, "clicks", CLICKS_DAY).manifest_sha256 == damaged.manifest_sha256


def test_outdated_compares_the_versions_with_code_and_source(client, place):
    clicks(client, place)
    assert report(client, "outdated", "compare", {})["clicks"]["in_order"]


def test_retention_keeps_what_has_no_rule(client, place):
    kept = clicks(client, place)
    told = report(client, "retention", "prune", {"dataset": "clicks"})
    assert set(told) == {"clicks"}
    assert version(place, "clicks", CLICKS_DAY).path == kept.path


def test_retire_removes_a_day_for_good(client, place):
    # No training of ctr can be on its way and keep it.
    folder, (_, *days) = DatasetFolder(place.root, "ctr"), DAYS["ctr"]
    missing = [each for each in days if not folder.generations(each)]
    succeed(client, [client.trigger("build.ctr", {"window_start": each}) for each in missing])
    day = days[0]
    form = {"dataset": "ctr", "range": day, "why": "a person asked for it"}
    told = report(client, "retire", "retire", {**form, "dry_run": True})
    assert (told["intervals"], told["already"], told["dry_run"]) == (1, 0, True)
    assert version(place, "ctr", day)
    told = report(client, "retire", "retire", {**form, "dry_run": False})
    assert (told["intervals"], told["already"], told["dry_run"]) == (1, 0, False)
    with pytest.raises(TrainFeedError, match="a person asked for it"):
        Version.resolve(folder, day)
    assert report(client, "retire", "retire", {**form, "dry_run": False})["already"] == 1
