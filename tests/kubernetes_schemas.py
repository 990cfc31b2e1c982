"""What a Kubernetes API server accepts, without one: the published schemas, read strictly.

A server drops fields that it does not know unless it is asked to be strict, so a misspelt field is
lost in silence. Here every object whose schema names its fields has no others. A nested `metadata`
of a custom resource without fields of its own takes none, which is what the server does with it.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from services.kubernetes.schemas import read_schema

Schema = dict[str, Any]

_BUILT_IN = {
    ("batch/v1", "Job"): ("apis__batch__v1_openapi.json", "io.k8s.api.batch.v1.Job"),
    ("v1", "ConfigMap"): ("api__v1_openapi.json", "io.k8s.api.core.v1.ConfigMap"),
    ("v1", "Pod"): ("api__v1_openapi.json", "io.k8s.api.core.v1.Pod"),
    ("v1", "Secret"): ("api__v1_openapi.json", "io.k8s.api.core.v1.Secret"),
    ("v1", "Service"): ("api__v1_openapi.json", "io.k8s.api.core.v1.Service"),
}
_CUSTOM = {
    "JobSet": "jobset.x-k8s.io_jobsets.yaml",
    "PaddleJob": "kubeflow.org_paddlejobs.yaml",
    "PyTorchJob": "kubeflow.org_pytorchjobs.yaml",
    "TrainJob": "trainer.kubeflow.org_trainjobs.yaml",
}
_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def problems(manifest: dict[str, Any]) -> list[str]:
    """Say what a strict API server would refuse: ``path: reason``; nothing for a good object."""
    found = _validator(manifest.get("apiVersion", ""), manifest.get("kind", "")).iter_errors(
        manifest
    )
    return sorted(f"{error.json_path}: {error.message}" for error in found)


@functools.cache
def _validator(api_version: str, kind: str) -> Draft202012Validator:
    if (api_version, kind) in _BUILT_IN:
        file, name = _BUILT_IN[api_version, kind]
        return Draft202012Validator({"$ref": f"#/components/schemas/{name}", **_open_api(file)})
    schema = _custom(kind, api_version)
    schema["properties"]["metadata"] = {"$ref": f"#/components/schemas/{_METADATA}"}
    return Draft202012Validator({**schema, **_open_api("apis__batch__v1_openapi.json")})


@functools.cache
def _open_api(file: str) -> Schema:
    components = json.loads(read_schema(file))["components"]
    return {"components": {"schemas": {k: _strict(v) for k, v in components["schemas"].items()}}}


def _custom(kind: str, api_version: str) -> Schema:
    definition = yaml.load(read_schema(_CUSTOM[kind]), Loader=yaml.CSafeLoader)
    spec = definition["spec"]
    for version in spec["versions"]:
        if api_version == f"{spec['group']}/{version['name']}" and version["served"]:
            return _strict(version["schema"]["openAPIV3Schema"])
    raise ValueError(f"{kind} is not served as {api_version}")


def _strict(schema: Schema) -> Schema:
    """Return the schema with no room for fields that it does not name."""
    strict = {key: value for key, value in schema.items() if key not in {"format", "default"}}
    if "properties" in schema:
        strict["properties"] = {k: _strict(below) for k, below in schema["properties"].items()}
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            strict[key] = [_strict(below) for below in schema[key]]
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            strict[key] = _strict(schema[key])
    if schema.get("x-kubernetes-int-or-string"):
        strict["anyOf"] = _INT_OR_STRING
    named = "additionalProperties" in schema or "x-kubernetes-preserve-unknown-fields" in schema
    if schema.get("type") == "object" and not named:
        strict["additionalProperties"] = False
    return strict
