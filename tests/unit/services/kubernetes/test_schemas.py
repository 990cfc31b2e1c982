"""The published schemas are those of the table, and read strictly they refuse what is misspelt."""

from __future__ import annotations

import copy
import hashlib
import re

import pytest

from tests.kubernetes_objects import CONTAINER, OBJECTS
from tests.kubernetes_schemas import THIRD_PARTY, problems

_ROW = re.compile(r"^\| `(?P<file>[^`]+)` \|.*\| `(?P<digest>[0-9a-f]{64})` \|$", re.MULTILINE)


def _folders_of(found, path=()):
    """Every object below ``found``, by the keys that lead to it."""
    items = found.items() if isinstance(found, dict) else enumerate(found)
    if isinstance(found, dict):
        yield path
    for key, below in items:
        if isinstance(below, dict | list):
            yield from _folders_of(below, (*path, key))


def test_every_file_of_others_has_the_digest_of_the_table():
    table = dict(_ROW.findall((THIRD_PARTY / "README.md").read_text()))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in THIRD_PARTY.iterdir()
        if path.name != "README.md"
    }
    assert found == table


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_plain_object_of_each_kind_has_no_problem(kind):
    assert problems(OBJECTS[kind]) == []


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_field_that_a_kind_does_not_know_is_refused_wherever_it_stands(kind):
    free = {"selector", "pytorchReplicaSpecs", "paddleReplicaSpecs"}
    for path in _folders_of(OBJECTS[kind]):
        if path and path[-1] in free:
            continue  # maps with keys of the user
        broken = copy.deepcopy(OBJECTS[kind])
        place = broken
        for key in path:
            place = place[key]
        place["misspelt"] = 1
        assert any("misspelt" in problem for problem in problems(broken)), path


@pytest.mark.parametrize("kind", ["Job", "PyTorchJob", "PaddleJob", "JobSet"])
def test_an_environment_variable_that_is_a_number_is_refused(kind):
    broken = copy.deepcopy(OBJECTS[kind])
    pods = [broken]
    while not (isinstance(pods[0], dict) and "containers" in pods[0]):
        found = pods.pop(0)
        below = found.values() if isinstance(found, dict) else found
        pods.extend(each for each in below if isinstance(each, dict | list))
    pods[0]["containers"] = [{**CONTAINER, "env": [{"name": "RANK", "value": 0}]}]
    assert any("0 is not of type 'string'" in problem for problem in problems(broken))
