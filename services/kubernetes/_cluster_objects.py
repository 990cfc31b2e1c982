"""The objects that every test cluster starts with: namespace, role, kinds of other projects.

The role is the one in docs/operations/kubernetes.md, so the tests show that it is sufficient.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client, config

from services.kubernetes._cluster import CONFIG, NAMESPACE, USER
from services.kubernetes.schemas import names, read_schema

_CONFLICT: Final = 409


def api_of(kubeconfig: Path) -> client.ApiClient:
    """Return a client for the account of a kubeconfig."""
    return config.new_client_from_config(str(kubeconfig))


def make_objects(api: client.ApiClient) -> None:
    """Create missing objects; existing ones stay as they are.

    Args:
        api: Client of an account with all rights.
    """
    core, rights = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
    role = yaml.safe_load((CONFIG / "role.yaml").read_text())
    make_once(lambda: core.create_namespace({"metadata": {"name": NAMESPACE}}))
    make_once(lambda: rights.create_namespaced_role(NAMESPACE, role))
    make_once(lambda: rights.create_namespaced_role_binding(NAMESPACE, _binding(role)))
    kinds = client.ApiextensionsV1Api(api)
    for name in names():
        if name.endswith(".yaml"):
            _make_kind(kinds, yaml.load(read_schema(name), Loader=yaml.CSafeLoader))


def _make_kind(kinds: client.ApiextensionsV1Api, definition: dict[str, Any]) -> None:
    make_once(lambda: kinds.create_custom_resource_definition(definition, _preload_content=False))


def _binding(role: dict[str, Any]) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
    }


def make_once(create: Callable[[], object]) -> None:
    """Call ``create``; fine if the object exists already."""
    try:
        create()
    except client.ApiException as error:
        if error.status != _CONFLICT:
            raise
