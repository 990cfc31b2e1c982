"""The real API server is as strict as the schemas that the unit tests read."""

from __future__ import annotations

import copy
import json

import pytest
from kubernetes import client

from services.kubernetes import NAMESPACE, USER
from tests.kubernetes_objects import OBJECTS
from tests.kubernetes_schemas import problems


def _post(lab, made):
    """Let the server check an object, and make nothing."""
    user, strictly = lab.account(USER), {"field_validation": "Strict", "dry_run": "All"}
    if made["kind"] == "Service":
        user.core.create_namespaced_service(NAMESPACE, made, **strictly)
    else:
        place = (*made["apiVersion"].split("/"), NAMESPACE, f"{made['kind'].lower()}s")
        user.custom.create_namespaced_custom_object(*place, made, **strictly)


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_without_problems_is_accepted_from_the_documented_role(lab, kind):
    assert problems(OBJECTS[kind]) == []
    _post(lab, OBJECTS[kind])


# The client itself refuses a misspelt Service: its models know the kinds of Kubernetes.
@pytest.mark.parametrize("kind", sorted(OBJECTS.keys() - {"Service"}))
def test_a_misspelt_field_is_refused_by_the_server_as_by_the_schema(lab, kind):
    broken = copy.deepcopy(OBJECTS[kind])
    broken["spec"]["misspelt"] = 1
    assert problems(broken)
    with pytest.raises(client.ApiException) as error:
        _post(lab, broken)
    assert error.value.status == 400
    assert "spec.misspelt" in json.loads(error.value.body)["message"]
