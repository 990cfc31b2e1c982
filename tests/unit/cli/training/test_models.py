"""``trainfeed models``: judged, promoted, shown and rolled back from the command line."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.roots import reseal
from tests.unit.cli.conftest import cli
from tests.unit.pipeline.conftest import project
from tests.unit.training.models.test_registration import damage
from tests.unit.training.promotion.test_promotion import clicks, make, trained
from trainfeed.training.models import Model, ModelsFolder

__all__ = ["cli", "clicks", "project", "trained"]

TARGET = "clicks/2024-03-01"


@pytest.fixture
def models(cli, clicks):
    """Two versions of a model; none of them is promoted."""
    for score in (1, 2):
        make(clicks, score)
        status, output, message = cli("models", "evaluate", TARGET)
        assert status == 0
        assert "not compared: there is no promoted model" in output
        assert "models promote click_model@candidate" in message
    return cli


def test_a_root_without_models_says_so(cli, project):
    project.prebuilt()
    assert cli("models", "ls")[::2] == (
        0,
        f"no training has made a model in {project.env.root}/models yet\n",
    )
    assert json.loads(cli("models", "ls", "--json")[1]) == []


def test_models_are_listed_shown_promoted_and_rolled_back(models):
    (row,) = json.loads(models("models", "ls", "--json")[1])
    assert row == {"model": "click_model", "versions": 2, "candidate": "v0002", "prod": None}
    status, _, message = models("models", "show", "click_model")
    assert (status, "prod points to, there is none; name one: v0001, v0002" in message) == (1, True)
    for target in ("click_model/v0001", "click_model@candidate"):
        assert models("models", "promote", target, "--why", "good")[0] == 0
    shown = json.loads(models("models", "show", "click_model@prod", "--json")[1])
    assert (shown["version"], shown["alias"]) == ("v0002", ["candidate", "prod"])
    assert shown["manifest"]["job"]["code"]
    status, output, _ = models(
        "models", "rollback", "click_model/v0002", "--why", "worse", "--json"
    )
    assert (status, json.loads(output)["prod"]) == (0, "v0001")
    status, output, _ = models("models", "show", "click_model")
    assert "rollback" in output
    assert "worse" in output
    rows = json.loads(models("models", "ls", "click_model", "--json")[1])
    assert [(each["version"], each["alias"]) for each in rows] == [
        ("v0002", ["candidate"]),
        ("v0001", ["prod"]),
    ]


def test_a_removed_version_is_listed_shown_and_traced_and_its_job_makes_no_other(models, clicks):
    path = clicks.env.datasets / "clicks" / "dataset.yaml"
    path.write_text(path.read_text() + "retention: {models: {keep: 1}}\n")
    status, output, _ = models("prune", "clicks", "--kind", "models", "--dry-run")
    assert (status, "click_model/v0001" in output) == (0, True)
    assert "would remove 1 models" in output
    assert models("prune", "clicks", "--kind", "models")[0] == 0
    status, output, message = models("models", "ls", "click_model", "--json")
    assert [row["version"] for row in json.loads(output)] == ["v0002"]
    assert "1 more were removed: trainfeed models ls click_model --removed" in message
    (row,) = json.loads(models("models", "ls", "click_model", "--removed", "--json")[1])
    assert (row["version"], row["why"], row["metrics"]["score"]) == ("v0001", "keep: 1", 1)
    shown = json.loads(models("models", "show", "click_model/v0001", "--json")[1])
    assert (shown["removed"]["why"], len(shown["manifest"]["files"])) == ("keep: 1", 1)
    for arguments in (
        ("models", "promote", "click_model/v0001", "--why", "x"),
        ("models", "upload", "click_model/v0001", str(clicks.path)),
        ("predict", "click_model/v0001", str(path)),
    ):
        found = models(*arguments)
        assert (found[0], "v0001 was removed at" in found[2]) == (1, True), found
    make(clicks, 1)
    status, _, message = models("models", "evaluate", TARGET)
    assert (status, "(keep: 1); nothing was made" in message) == (1, True)
    for target in ("click_model/v0001", "clicks/2024-03-01/g0001"):
        status, output, _ = models("lineage", target)
        assert (status, "model click_model/v0001: samples" in output) == (0, True), output
        assert "removed at" in output
    assert models("models", "ls", "--removed")[0] == 2


def test_a_damaged_version_is_named_and_hides_no_other(models, clicks):
    models("models", "promote", "click_model/v0001", "--why", "good")
    damage(Model.open(ModelsFolder(Path(clicks.env.root)).known("click_model"), 1))
    status, output, _ = models("models", "ls", "--json")
    (row,) = json.loads(output)
    assert (status, row["versions"], row["prod"]) == (0, 2, "v0001")
    status, output, message = models("models", "ls", "click_model")
    assert (status, "click_model/v0001 is damaged: expected a manifest" in message) == (3, True)
    assert "v0002" in output
    rows = json.loads(models("models", "ls", "click_model", "--json")[1])
    assert [each["version"] for each in rows] == ["v0002", "v0001"]
    assert "expected a manifest" in rows[1]["damaged"]
    assert models("models", "show", "click_model/v0002")[0] == 0


def test_a_damaged_history_is_named_and_hides_no_model_and_no_version(models, clicks):
    models("models", "promote", "click_model/v0001", "--why", "good")
    folder = ModelsFolder(Path(clicks.env.root)).known("click_model")
    change = folder.path / "aliases" / "prod" / "0001.json"
    change.chmod(0o644)
    change.write_text("{")
    shutil.copytree(folder.path, folder.path.with_name("other"))
    for path in folder.path.with_name("other").glob("aliases/candidate/0*.json"):
        reseal(path, alias="other/candidate")
    for name in ("click_model", "other"):
        status, output, message = models("models", "ls", name, "--json")
        rows = [(each["version"], each["alias"]) for each in json.loads(output)]
        assert (status, rows) == (3, [("v0002", ["candidate"]), ("v0001", [])])
        assert message.count(f"{name}@prod is damaged: ") == 1
    status, output, message = models("models", "ls", "--json")
    rows = json.loads(output)
    assert (status, [row["model"] for row in rows]) == (3, ["click_model", "other"])
    assert (rows[0]["candidate"], rows[0]["prod"]) == ("v0002", None)
    assert str(change) in rows[0]["damaged"]


def test_what_cannot_be_done_changes_nothing_and_says_what_to_do(models):
    models("models", "promote", "click_model/v0001", "--why", "good")
    for arguments, status, message in (
        (("rollback", "click_model/v0002", "--why", "x"), 1, "it points to v0001; nothing was"),
        (("rollback", "click_model", "--why", "x"), 1, "no version that prod pointed to before"),
        (("promote", "click_model/v0009", "--why", "x"), 1, "is not a model"),
        (("promote", "click_model/v1", "--why", "x"), 2, "expected the version of a model like"),
        (("promote", "klick_model/v0001", "--why", "x"), 1, "did you mean 'click_model'?"),
        (("promote", "../clicks/v0001", "--why", "x"), 1, "expected a model of"),
        (("promote", "click_model/v0001", "--why", " "), 2, "got a blank one; nothing was"),
        (("evaluate", "clicks"), 2, "expected NAME/INTERVAL of one interval"),
    ):
        found = models("models", *arguments)
        assert (found[0], message in found[2]) == (status, True), found
    assert json.loads(models("models", "ls", "--json")[1])[0]["prod"] == "v0001"


def test_a_closed_gate_is_status_1_and_names_the_metric(cli, clicks):
    make(clicks, 0)
    status, _, message = cli("models", "evaluate", TARGET)
    assert (status, "score is 0, below min 1" in message) == (1, True)
    assert json.loads(cli("models", "ls", "--json")[1]) == []


def test_a_model_goes_to_a_store_and_back_by_command(models, tmp_path):
    (tmp_path / "store").mkdir()
    target = ("click_model/v0001", str(tmp_path / "store"))
    reports = [json.loads(models("models", "upload", *target, "--json")[1]) for _ in range(2)]
    assert [report["verdict"] for report in reports] == ["copied", "adopted"]
    there = f"{tmp_path}/store/click_model/v0001"
    status, output, _ = models("models", "download", there, str(tmp_path / "back"))
    assert (status, "copied" in output) == (0, True)
    assert (tmp_path / "back" / "model.txt").read_text() == "1"
    (tmp_path / "back" / "model.txt").write_text("2")
    status, _, message = models("models", "download", there, str(tmp_path / "back"))
    assert (status, "SHA-256" in message) == (3, True)


def test_a_change_by_hand_says_that_nothing_is_uploaded_and_how_to_do_it(models, clicks):
    told = json.loads(models("models", "promote", "click_model/v0001", "--why", "x", "--json")[1])
    assert "upload" not in told
    clicks.edit("{name: click_model,", "{name: click_model, upload: {path: /models},")
    models("models", "promote", "click_model/v0002", "--why", "x")
    told = json.loads(models("models", "rollback", "click_model", "--why", "x", "--json")[1])
    assert "not uploaded" in told["upload"]
    assert "/models of connection hdfs_default (train.model.upload)" in told["upload"]
    assert told["upload"].endswith("trainfeed models upload click_model/v0001 TO")


def test_a_store_with_a_password_in_its_uri_is_refused_and_not_shown(models, tmp_path):
    uri = "webhdfs://hdfs:canary-1@namenode:9870/models"
    for arguments in (
        ("upload", "click_model/v0001", uri),
        ("download", uri, str(tmp_path / "back")),
    ):
        status, output, message = models("models", *arguments)
        assert status == 2
        assert "expected file:///" in message
        assert "canary-1" not in output + message


def test_a_version_that_is_gone_without_a_record_is_told(models, project):
    folder = ModelsFolder(Path(project.env.root)).model("click_model")
    assert folder.lost_versions() == []
    shutil.rmtree(folder.version(1))
    status, output, message = models("models", "ls", "click_model", "--json")
    rows = {each["version"]: "damaged" in each for each in json.loads(output)}
    assert (status, rows) == (3, {"v0002": False, "v0001": True})
    assert str(folder.removal(1)) in message
    assert folder.lost_versions() == [1]
