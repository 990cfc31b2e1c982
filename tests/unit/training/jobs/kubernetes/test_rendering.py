"""What is made on a cluster: whole objects of every kind, which no text can change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.kubernetes_schemas import problems
from tests.unit.training.jobs.kubernetes.cluster import IMAGE, plain
from trainfeed.errors import JobRejectedError
from trainfeed.training.jobs.kubernetes.objects import object_name

GOLDEN = Path(__file__).parent / "golden"
KINDS = ("indexed-job", "pytorch-job", "paddle-job", "train-job", "job-set")
EVERYTHING = {
    "cpu": 1.5,
    "memory_bytes": 4 << 30,
    "gpu_type": "nvidia.com/gpu",
    "gpu_number": 2,
    "shared_memory_bytes": 1 << 30,
    "volumes": ["scratch", "vocabulary"],
    "node_selector": {"zone": "a"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "queue": "nightly",
}
NOT_OF_TRAIN_JOBS = {
    "image_pull_secret": "registry",
    "priority": "low",
    "time_limit_s": 3600,
    "retries": 2,
}


def whole(ground, kind):
    placement = EVERYTHING if kind == "train-job" else {**EVERYTHING, **NOT_OF_TRAIN_JOBS}
    return ground.job(kind, placement=placement, environment={"EPOCHS": "3"})


def rendered(ground, job):
    return ground.launcher(job.placement.launcher).render(job, ground.home(job))


@pytest.mark.parametrize("kind", KINDS)
def test_the_objects_of_a_kind_are_those_of_the_golden_file(ground, kind):
    found = plain(list(rendered(ground, whole(ground, kind))))
    path = GOLDEN / f"{kind}.yaml"
    assert found == list(yaml.safe_load_all(path.read_text()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_strict_api_server_accepts_every_object(ground, kind, ranks):
    plainest = ground.job(kind, ranks=ranks)
    for manifest in [*rendered(ground, plainest), *rendered(ground, whole(ground, kind))]:
        assert problems(plain(manifest)) == []


def containers(value):
    if isinstance(value, dict):
        yield from value.get("containers", ())
        yield from ([value["trainer"]] if "trainer" in value else ())
        value = list(value.values())
    for below in value if isinstance(value, list) else ():
        if isinstance(below, dict | list):
            yield from containers(below)


@pytest.mark.parametrize("kind", KINDS)
def test_no_rank_gets_credentials_of_the_cluster(ground, kind):
    manifest = rendered(ground, whole(ground, kind))[-1]
    text = yaml.safe_dump(plain(manifest))
    assert kind == "train-job" or "automountServiceAccountToken: false" in text
    assert "secretKeyRef" not in text
    assert "hostPath" in text  # of the installation's volume, which the job named


def expanded(text):
    """What the kubelet makes of a value: ``$$`` is a dollar, ``$(NAME)`` would be a variable."""
    assert re.search(r"(?<!\$)(\$\$)*\$\(", text) is None
    return text.replace("$$", "$")


HOSTILE = st.text(max_size=40) | st.sampled_from(
    [
        "x; rm -rf /",
        "a\nb: c",
        "{{ dag }}",
        "&a *a",
        "$(TRAINFEED_JOB)",
        "$$(A)",
        "!!python/x",
        "\x1b",
    ]
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(kind=st.sampled_from(KINDS), value=HOSTILE, argument=HOSTILE)
@example(kind="indexed-job", value="$", argument="$(PATH)$")
def test_a_hostile_text_stays_the_value_that_it_was(ground, kind, value, argument):
    value, argument = (t.encode(errors="ignore").decode() for t in (value, argument))
    calm = ground.job(kind, entry=None, command=["run", "calm"], environment={"TEXT": "calm"})
    job = ground.job(kind, entry=None, command=["run", argument], environment={"TEXT": value})
    manifest, model = (plain(rendered(ground, each)[-1]) for each in (job, calm))
    found, expected = (
        next(c for c in containers(each) if "command" in c) for each in (manifest, model)
    )
    assert expanded(found["command"][1]) == argument
    env = {each["name"]: each for each in found["env"]}
    assert expanded(env["TEXT"]["value"]) == value
    assert env.keys() == {each["name"] for each in expected["env"]}
    assert len(found["command"]) == 2


@given(
    dataset=st.from_regex(r"[a-z][a-z0-9_]{0,62}", fullmatch=True),
    interval=st.from_regex(r"[0-9]{4}-[0-9]{2}(-[0-9]{2}(T[0-9]{2})?)?", fullmatch=True),
    attempt=st.integers(1, 9999),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_names_fit_a_pod_of_any_index_and_differ_where_jobs_do(ground, dataset, interval, attempt):
    job = ground.job(dataset=dataset, interval=interval).model_copy(update={"attempt": attempt})
    name = object_name(job)
    assert len(name) <= 57
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name)
    assert name != object_name(job.model_copy(update={"attempt": attempt + 1}))
    assert name != object_name(job.model_copy(update={"name": job.name.replace("-", "_")}))


def test_a_volume_or_an_image_that_the_installation_does_not_list_is_refused(ground):
    for wrong, message in (
        ({"placement": {"volumes": ["etc"]}}, r"allows \(scratch, vocabulary\), got 'etc'"),
        ({"image": "evil.example/x@sha256:" + "1" * 64}, "an image that the installation allows"),
        ({"image": "registry.example/trainers@sha256:" + "1" * 64}, "nothing was started"),
    ):
        with pytest.raises(JobRejectedError, match=message):
            rendered(ground, ground.job(**wrong))


def test_only_the_job_itself_is_queued(ground):
    manifests = rendered(ground, whole(ground, "indexed-job"))
    queued = ["queue-name" in str(each["metadata"]) for each in manifests]
    assert queued == [False, False, True]
    assert "queue-name" not in str(manifests[-1]["spec"]["template"])


def test_a_tag_is_shown_to_be_unproven(ground):
    tagged = ground.job(image=IMAGE.partition("@")[0] + ":nightly")
    manifest = rendered(ground, tagged)[-1]
    assert manifest["metadata"]["annotations"]["trainfeed/unproven-image"] == tagged.image
    assert "trainfeed/unproven-image" not in str(rendered(ground, ground.job())[-1])


def test_code_that_a_config_map_cannot_hold_is_copied_beside_the_versions_once(ground):
    (ground.code / "layers").mkdir()
    (ground.code / "layers" / "dense.py").write_text("width = 3\n")
    job = ground.job()
    ground.start(job)
    kinds = sorted(each["kind"] for each in ground.cluster.objects.values())
    assert kinds == ["Job", "Service"]
    copy = ground.root / "flights" / "code" / f"training-{job.code}"
    assert sorted(p.relative_to(copy).as_posix() for p in copy.rglob("*.py")) == [
        "layers/dense.py",
        "train.py",
    ]
    env = {
        e["name"]: e.get("value") for c in containers(ground.cluster.jobs()[0]) for e in c["env"]
    }
    assert env["TRAINFEED_JOB_CODE"] == f"/pfs/dataset/flights/code/training-{job.code}"
    before = copy.stat().st_ino
    ground.start(ground.job(seed=8))
    assert copy.stat().st_ino == before
    assert list(copy.parent.glob("*.tmp")) == []


def test_code_of_a_megabyte_is_copied_too(ground):
    (ground.code / "table.py").write_text("# " + "x" * (900 << 10))
    job = ground.job()
    ground.start(job)
    assert "ConfigMap" not in {each["kind"] for each in ground.cluster.objects.values()}


def values(tree):
    """All mappings of a tree."""
    if isinstance(tree, dict):
        yield tree
    for below in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(below, dict | list):
            yield from values(below)


@pytest.mark.parametrize("kind", KINDS)
def test_every_rank_may_read_the_public_folder_and_none_may_write_it(ground, kind):
    public = {"path": "/pfs/dc1/public", "claim": "public"}
    job = ground.job(kind)
    manifest = plain(ground.launcher(kind, public=public).render(job, ground.home(job))[-1])
    assert problems(manifest) == []
    found = list(values(manifest))
    mounts = [each for each in found if each.get("mountPath") == "/pfs/dc1/public"]
    assert mounts
    assert all(each["readOnly"] is True for each in mounts)
    variables = [each for each in found if each.get("name") == "TRAINFEED_PUBLIC"]
    assert len(variables) == len(mounts)
    assert {each["value"] for each in variables} == {"/pfs/dc1/public"}
    assert {"persistentVolumeClaim": {"claimName": "public"}, "name": "trainfeed-public"} in found
    without = list(values(plain(rendered(ground, job)[-1])))
    assert [each for each in without if each.get("name") == "TRAINFEED_PUBLIC"] == []
