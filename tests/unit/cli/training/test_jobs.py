"""``trainfeed jobs``, and the options of ``trainfeed train`` about launchers."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import yaml

from tests.kubernetes_schemas import problems
from tests.unit.cli.conftest import cli
from tests.unit.training.jobs.kubernetes.cluster import IMAGE, SETTINGS, Cluster
from trainfeed.errors import AccessDeniedError
from trainfeed.training.jobs import JobRecord, JobResult, KubernetesLauncher
from trainfeed.training.jobs.kubernetes.api import ApiError
from trainfeed.training.jobs.kubernetes.objects import object_name

__all__ = ["cli"]

DAY = "clicks/2024-03-01"
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "PodFailurePolicy"}]}


@pytest.fixture
def cluster(monkeypatch, project, tmp_path):
    """A cluster in memory, whose jobs run ``clicks``; jobs end as soon as they are made."""
    found = Cluster()
    monkeypatch.setattr(
        "trainfeed.training.jobs.kubernetes.launcher.KubernetesApi", lambda _: found
    )
    (tmp_path / "clusters.yaml").write_text(yaml.safe_dump({"kubernetes_default": SETTINGS}))
    monkeypatch.setenv("TRAINFEED_CLUSTERS", str(tmp_path / "clusters.yaml"))
    (project.env.datasets / "clicks" / "train.py").write_text("def main(job):\n    return {'a': 1}")
    train = f'train: {{entry: "train:main", launcher: indexed-job, ranks: 2, image: "{IMAGE}"}}'
    project.edit("seed: 7", f"seed: 7\n{train}")
    project.build("2024-03-01")
    return found


def end(cluster, project, *, well=True):
    """Have the jobs that are made from now on ended at once, as their ranks would."""
    done = cluster._done

    def ends(method, path, body):
        answer = done(method, path, body)
        if method == "POST" and body["kind"] == "Job":
            cluster.set_status(**(COMPLETE if well else FAILED))
            (home,) = project.folder.path.glob("training/2024-03-01/clicks-*")
            if well:
                job = JobRecord(home).job()
                (home / "output").mkdir(exist_ok=True)
                (home / "output" / "model.npz").write_bytes(b"weights")
                result = JobResult.of_output(job.name, job.identity, {"a": 1.0}, home / "output")
                result.write(home)
        return answer

    cluster._done = ends


def of(answer):
    status, out, _ = answer
    return status, json.loads(out)


def test_a_dry_run_prints_what_a_strict_server_accepts_and_makes_nothing(cli, cluster, project):
    status, out, _ = cli("train", DAY, "--dry-run")
    kinds = [each["kind"] for each in yaml.safe_load_all(out)]
    assert (status, kinds) == (0, ["ConfigMap", "Service", "Job"])
    assert [problem for each in yaml.safe_load_all(out) for problem in problems(each)] == []
    assert cluster.calls == []
    assert list(project.folder.path.glob("training/[!_]*")) == []


@pytest.mark.parametrize("kind", ["pytorch-job", "paddle-job", "train-job", "job-set"])
def test_another_launcher_than_that_of_the_specification_is_rendered(cli, cluster, kind):
    status, found = of(cli("train", DAY, "--dry-run", "--launcher", kind, "--json"))
    assert status == 0
    assert found[-1]["kind"].lower() == kind.replace("-", "")


def test_a_launcher_that_the_training_does_not_fit_is_refused(cli, cluster):
    status, _, message = cli("train", DAY, "--launcher", "local")
    assert status == 2
    assert "--launcher local: train.image: expected no image beside launcher local" in message


def test_a_dry_run_of_a_local_training_prints_its_job(cli, cluster, project):
    project.edit(f'launcher: indexed-job, ranks: 2, image: "{IMAGE}"', "launcher: local")
    status, out, _ = cli("train", DAY, "--dry-run")
    (job,) = yaml.safe_load_all(out)
    assert (status, job["entry"], job["dataset"]) == (0, "train:main", "clicks")


def test_a_training_on_a_cluster_is_launched_collected_and_adopted(cli, cluster, project):
    end(cluster, project)
    first = of(cli("train", DAY, "--json"))
    again = of(cli("train", DAY, "--json"))
    assert (first[0], first[1]["verdict"], first[1]["metrics"]) == (0, "ran", {"a": 1.0})
    assert (again[0], again[1]["verdict"]) == (0, "adopted")
    assert len(cluster.jobs()) == 1
    status, rows = of(cli("jobs", "ls", "--json"))
    assert (status, [row["state"] for row in rows]) == (0, ["succeeded"])
    status, shown = of(cli("jobs", "show", rows[0]["job"], "--json"))
    assert (shown["metrics"], shown["image_proven"], shown["launcher"]) == (
        {"a": 1.0},
        True,
        "indexed-job",
    )


def test_a_failed_job_stays_so_until_a_reason_is_given(cli, cluster, project):
    end(cluster, project, well=False)
    for _ in range(2):
        status, _, message = cli("train", DAY)
        assert status == 1
        assert "failed: PodFailurePolicy" in message
        assert "--again WHY" in message
    assert len(cluster.jobs()) == 1
    cluster.objects.clear()
    end(cluster, project)
    status, report = of(cli("train", DAY, "--again", "disk replaced", "--json"))
    assert (status, report["verdict"]) == (0, "ran")
    status, rows = of(cli("jobs", "ls", "clicks", "--json"))
    assert [(row["state"], row["attempt"]) for row in rows] == [("succeeded", 2)]


def launched(cluster, project, cli, monkeypatch):
    """The name of a job that goes on."""
    monkeypatch.setattr("trainfeed.training.launch.wait_for", lambda _: None)
    status, _, message = cli("train", DAY)
    assert status == 1
    assert "is waiting" in message
    return json.loads(cli("jobs", "ls", "--json")[1])[0]["job"]


def test_a_job_that_goes_on_is_listed_and_cancelled(cli, cluster, project, monkeypatch):
    name = launched(cluster, project, cli, monkeypatch)
    status, report = of(cli("jobs", "cancel", name, "--json"))
    assert (status, report["state"]) == (0, "cancelled")
    assert cluster.jobs() == []
    assert of(cli("jobs", "cancel", name, "--json"))[1]["state"] == "cancelled"


def abandon(cluster, project, cli, monkeypatch):
    """A launch that the cluster refused after its code and service were made."""
    done = cluster._done

    def refuses(method, path, body):
        if method == "POST" and body["kind"] == "Job":
            raise ApiError("exceeded quota: gpus", status=403)
        return done(method, path, body)

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "_done", refuses)
        status, _, message = cli("train", DAY)
    assert (status, "exceeded quota" in message) == (1, True)


def kinds(cluster):
    return sorted(each.get("kind", "") for each in cluster.objects.values())


def swept(cli, *more):
    status, rows = of(cli("gc", "--older-than", "0", "--json", *more))
    assert status == 0
    return sorted(each["place"].partition("/")[0] for each in rows)


LEFT = ["kubernetes_default: configmaps", "kubernetes_default: services"]


def test_code_and_service_of_an_abandoned_launch_are_removed_once_it_is_old(
    cli, cluster, project, monkeypatch
):
    abandon(cluster, project, cli, monkeypatch)
    assert kinds(cluster) == ["ConfigMap", "Service"]
    assert of(cli("gc", "--json")) == (0, [])
    assert swept(cli, "--dry-run") == LEFT
    assert kinds(cluster) == ["ConfigMap", "Service"]
    assert swept(cli) == LEFT
    assert kinds(cluster) == []
    assert swept(cli) == []
    # The attempt is still open: a later launch makes everything again.
    end(cluster, project)
    assert of(cli("train", DAY, "--json"))[1]["metrics"] == {"a": 1.0}


def test_a_launch_whose_job_waits_or_runs_keeps_everything(cli, cluster, project, monkeypatch):
    launched(cluster, project, cli, monkeypatch)
    before = kinds(cluster)
    assert swept(cli) == []
    # Nor does a launch that was killed before it wrote down that the job is made.
    (mark,) = project.folder.path.glob("training/*/*/attempts/0001.created.json")
    mark.unlink()
    assert swept(cli) == []
    assert kinds(cluster) == before == ["ConfigMap", "Job", "Service"]


def test_a_job_that_ended_while_nothing_asked_for_it_is_settled(cli, cluster, project, monkeypatch):
    launched(cluster, project, cli, monkeypatch)
    cluster.set_status(**FAILED)
    assert swept(cli) == LEFT
    assert kinds(cluster) == ["Job"]
    assert list(project.folder.path.glob("training/*/*/attempts/0001.ended.json"))
    assert swept(cli) == []


def test_a_cluster_that_cannot_be_asked_keeps_no_other_leftover(
    cli, cluster, project, monkeypatch, caplog
):
    abandon(cluster, project, cli, monkeypatch)
    monkeypatch.delenv("TRAINFEED_CLUSTERS")
    assert swept(cli) == []
    assert "was not swept: expected settings of the cluster 'kubernetes_default'" in caplog.text


def test_a_launch_that_continues_an_old_attempt_makes_it_young(cli, cluster, project, monkeypatch):
    abandon(cluster, project, cli, monkeypatch)
    (attempt,) = project.folder.path.glob("training/*/*/attempts/0001.json")
    os.utime(attempt, (0, 0))
    assert len(of(cli("gc", "--dry-run", "--json"))[1]) == 2
    abandon(cluster, project, cli, monkeypatch)
    assert of(cli("gc", "--dry-run", "--json")) == (0, [])


@pytest.mark.parametrize("made", ["ConfigMap", "Job"])
def test_a_launch_that_continues_during_the_sweep_keeps_its_code(
    cli, cluster, project, monkeypatch, made
):
    abandon(cluster, project, cli, monkeypatch)
    (attempt,) = project.folder.path.glob("training/*/*/attempts/0001.json")
    leftovers = KubernetesLauncher.leftovers

    def meanwhile(launcher, old):
        found = leftovers(launcher, old)
        if made == "Job":
            name = object_name(old.job)
            (code,) = (path for path in cluster.objects if "/configmaps/" in path)
            space = code.partition("/namespaces/")[2].partition("/")[0]
            cluster.objects[f"/apis/batch/v1/namespaces/{space}/jobs/{name}"] = {}
        else:
            os.utime(attempt)
        return found

    monkeypatch.setattr(KubernetesLauncher, "leftovers", meanwhile)
    assert swept(cli) == []
    assert [each for each in kinds(cluster) if each] == ["ConfigMap", "Service"]


def test_a_damaged_job_keeps_no_leftover_of_another(cli, cluster, project, monkeypatch, caplog):
    abandon(cluster, project, cli, monkeypatch)
    damaged = project.folder.path / "training" / "2024-03-01" / "clicks-2024-03-01-0"
    damaged.mkdir()
    (damaged / "job.json").write_text("{")
    assert swept(cli) == LEFT
    assert kinds(cluster) == []
    assert f"the job in {damaged} was not looked at" in caplog.text


def test_the_log_of_a_rank_is_printed_without_secrets(cli, cluster, project, monkeypatch):
    name = launched(cluster, project, cli, monkeypatch)
    cluster.pods = [{"metadata": {"name": "pod-0"}, "status": {"phase": "Running"}}]
    cluster.log = "epoch 1\ntoken: hunter2\n"
    assert cli("jobs", "logs", name)[1] == "epoch 1\ntoken: ***\n"
    status, _, message = cli("jobs", "logs", name, "--rank", "2")
    assert (status, "expected a rank from 0 to 1, got 2" in message) == (2, True)


def test_a_job_whose_cluster_has_no_settings_is_unknown_and_says_why(
    cli, cluster, project, monkeypatch
):
    launched(cluster, project, cli, monkeypatch)
    monkeypatch.delenv("TRAINFEED_CLUSTERS")
    _, rows = of(cli("jobs", "ls", "--json"))
    assert rows[0]["state"] == "unknown"
    assert "expected settings of the cluster 'kubernetes_default', got none" in rows[0]["reason"]


def test_a_name_that_no_job_has_is_answered_with_where_they_are_listed(cli, cluster):
    for name in ("clicks-x", "../x", ""):
        status, _, message = cli("jobs", "show", name)
        assert (status, "jobs ls" in message) == (1, True)


def test_local_jobs_are_listed_too_and_not_cancelled(cli, cluster, project):
    project.edit(f'launcher: indexed-job, ranks: 2, image: "{IMAGE}"', "launcher: local")
    name = of(cli("train", DAY, "--json"))[1]["job"]
    _, rows = of(cli("jobs", "ls", "--json"))
    assert [(row["job"], row["state"], row["launcher"]) for row in rows] == [
        (name, "succeeded", "local")
    ]
    status, _, message = cli("jobs", "cancel", name)
    assert (status, "nothing was changed" in message) == (2, True)
    assert "trained" not in cli("jobs", "logs", name)[1]
    status, _, message = cli("train", DAY, "--again", "why not")
    assert (status, "runs again by itself" in message) == (2, True)


@pytest.mark.parametrize("broken", ["job.json", "attempts/0001.json"])
def test_a_damaged_job_is_named_in_the_list_and_hides_no_other(cli, cluster, project, broken):
    end(cluster, project)
    name = of(cli("train", DAY, "--json"))[1]["job"]
    damaged = project.folder.path / "training" / "2024-03-01" / "clicks-2024-03-01-0"
    shutil.copytree(damaged.parent / name, damaged)
    if broken == "job.json":
        shutil.rmtree(damaged / "attempts")
    (damaged / broken).write_text("{")
    for target in ((), ("clicks",)):
        status, rows = of(cli("jobs", "ls", *target, "--json"))
        found = {row["job"]: row["state"] for row in rows}
        assert (status, found) == (3, {damaged.name: "damaged", name: "succeeded"})
        assert broken in rows[0]["damaged"]
    status, output, message = cli("jobs", "ls")
    assert status == 3
    assert name in output
    assert f"job {damaged.name} is damaged: " in message


def test_a_local_job_with_a_damaged_result_is_named_in_the_list(cli, cluster, project):
    project.edit(f'launcher: indexed-job, ranks: 2, image: "{IMAGE}"', "launcher: local")
    name = of(cli("train", DAY, "--json"))[1]["job"]
    result = project.folder.path / "training" / "2024-03-01" / name / "result.json"
    result.chmod(0o644)
    result.write_text("{")
    status, rows = of(cli("jobs", "ls", "--json"))
    assert (status, rows[0]["job"], rows[0]["state"]) == (3, name, "damaged")
    assert str(result) in rows[0]["damaged"]


def test_a_job_that_this_account_cannot_read_is_unknown(cli, cluster, project, monkeypatch):
    end(cluster, project)
    cli("train", DAY)

    def refused(_):
        raise AccessDeniedError("attempts/0001.json: permission denied")

    monkeypatch.setattr(JobRecord, "newest_attempt", refused)
    status, rows = of(cli("jobs", "ls", "--json"))
    assert (status, rows[0]["state"], "permission denied" in rows[0]["reason"]) == (
        0,
        "unknown",
        True,
    )


def test_no_jobs_are_said_to_be_none(cli, project):
    status, out, message = cli("jobs", "ls")
    assert (status, out) == (0, "")
    assert "no training has been launched yet" in message


def test_a_job_whose_job_file_is_gone_is_listed_as_damaged(cli, cluster, project):
    project.edit(f'launcher: indexed-job, ranks: 2, image: "{IMAGE}"', "launcher: local")
    name = of(cli("train", DAY, "--json"))[1]["job"]
    home = project.folder.path / "training" / "2024-03-01" / name
    (home / "job.json").unlink()
    status, rows = of(cli("jobs", "ls", "--json"))
    assert (status, rows[0]["job"], rows[0]["state"]) == (3, name, "damaged")
    assert "job.json" in rows[0]["damaged"]
    status, _, message = cli("jobs", "show", name)
    assert (status, "job.json" in message) == (1, True)


def test_a_launch_that_was_killed_before_its_job_file_is_no_job(cli, cluster, project):
    home = project.folder.path / "training" / "2024-03-01" / "clicks-2024-03-01-0"
    home.mkdir(parents=True)
    (home / ".lock").touch()
    (home / f"job.json.{'0' * 32}.tmp").touch()
    assert of(cli("jobs", "ls", "--json")) == (0, [])
