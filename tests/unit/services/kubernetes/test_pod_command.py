"""What the node makes of a pod: variables as Kubernetes expands them, mounts by their folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.kubernetes._pod_command import UnsupportedPodError, command_of, mounts_of

HOME = Path("/pods/1")


def _nothing(kind, name):
    raise AssertionError(f"{kind} {name} was read")


def _pod(command=("true",), **container):
    metadata = {"name": "job-0", "labels": {"a/b.c": "7"}, "uid": "1"}
    own = {"name": "trainer", "command": list(command), **container}
    return {"metadata": metadata, "spec": {"containers": [own], "nodeName": "tests"}}


def _made(pod, mounts=None, read=_nothing, services=()):
    return command_of(pod, mounts or {}, read, services, HOME)


@pytest.mark.parametrize(
    ("word", "expanded"),
    [
        ("$(RANK)/$(SIZE)", "1/2"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(RANK)", "$(RANK)"),
        ("$RANK", "$RANK"),
        ("$$$$", "$$"),
        ("$(PATH)", "$(PATH)"),
    ],
)
def test_words_name_the_variables_of_the_pod_and_no_others(word, expanded):
    env = [{"name": "RANK", "value": "1"}, {"name": "SIZE", "value": "2"}]
    assert _made(_pod([word], env=env)).argv == [expanded]


def test_a_variable_may_name_those_before_it():
    env = [{"name": "A", "value": "x"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C"}]
    assert _made(_pod(env=env)).environ["B"] == "x$(C)"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.labels['a/b.c']", "7"),
        ("metadata.annotations['none']", ""),
        ("metadata.name", "job-0"),
        ("spec.nodeName", "tests"),
        ("status.podIP", "127.0.0.1"),
    ],
)
def test_a_variable_takes_a_field_of_the_pod(path, value):
    env = [{"name": "F", "valueFrom": {"fieldRef": {"fieldPath": path}}}]
    assert _made(_pod(env=env)).environ["F"] == value


def test_mounts_are_named_by_their_folders_and_only_whole_paths_are_mounts():
    mounts = {"/data": Path("/real"), "/data/code": Path("/code")}
    words = ["/data/x", "--from=/data/code", "/database", "/my/data", "/data:/data/code/a"]
    expected = ["/real/x", "--from=/code", "/database", "/my/data", "/real:/code/a"]
    assert _made(_pod(words), mounts).argv == expected


def test_names_of_services_are_the_address_of_every_pod():
    words = ["job-0.job", "job-0.job.ns.svc.cluster.local:29500", "job", "jobs", "my-job/x"]
    found = _made(_pod(words), services=["job"]).argv
    assert found == ["127.0.0.1", "127.0.0.1:29500", "127.0.0.1", "jobs", "my-job/x"]


def test_a_container_without_a_command_needs_an_image_that_the_node_has_not():
    with pytest.raises(UnsupportedPodError, match="must have a command"):
        _made(_pod([]))


def test_a_variable_of_an_unknown_kind_is_refused():
    env = [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]
    with pytest.raises(UnsupportedPodError, match="resourceFieldRef"):
        _made(_pod(env=env))


def test_the_keys_of_a_config_map_are_files_under_the_paths_that_the_volume_gives(tmp_path):
    items = [{"key": "a.py", "path": "code/a.py"}]
    pod = _pod(volumeMounts=[{"name": "code", "mountPath": "/code/"}])
    pod["spec"]["volumes"] = [{"name": "code", "configMap": {"name": "c", "items": items}}]
    mounts = mounts_of(pod, {}, lambda *_: {"a.py": b"1", "b.py": b"2"}, tmp_path)
    (folder,) = mounts.values()
    assert [path.relative_to(folder) for path in folder.rglob("*.py")] == [Path("code/a.py")]
    assert list(mounts) == ["/code"]


def test_an_unknown_claim_and_an_unknown_kind_of_volume_are_refused(tmp_path):
    for volume in ({"persistentVolumeClaim": {"claimName": "no"}}, {"nfs": {"server": "a"}}):
        pod = _pod(volumeMounts=[{"name": "v", "mountPath": "/v"}])
        pod["spec"]["volumes"] = [{"name": "v", **volume}]
        with pytest.raises(UnsupportedPodError, match=r"'no' not found|kind that the node has not"):
            mounts_of(pod, {"other": tmp_path}, _nothing, tmp_path)
