"""docker-compose.yaml, checked as a file: what it needs is documented and the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker-compose.yaml").read_text()
COMPOSE = YAML(typ="safe").load(TEXT)
AIRFLOW = {
    name: service
    for name, service in COMPOSE["services"].items()
    if service.get("image") == "trainfeed-airflow"
}


def test_every_variable_is_in_the_example_and_none_more():
    used = set(re.findall(r"\$\{([A-Z_]+)", TEXT))
    example = (ROOT / ".env.example").read_text()
    assert set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE)) == used


def test_all_components_of_airflow_are_there():
    assert set(AIRFLOW) == {"init", "api-server", "scheduler", "dag-processor", "triggerer"}


def test_they_share_one_environment_and_one_view_of_the_repository():
    for key in ("environment", "volumes"):
        assert all(service[key] == AIRFLOW["init"][key] for service in AIRFLOW.values())


def test_code_is_found_by_every_component():
    environment = AIRFLOW["triggerer"]["environment"]
    folder = environment["AIRFLOW__CORE__DAGS_FOLDER"]
    assert environment["PYTHONPATH"] == f"{folder}:{folder}/include"
    assert f".:{folder}:ro" in AIRFLOW["triggerer"]["volumes"]


@pytest.mark.parametrize("name", ["JWT_SECRET", "FERNET_KEY", "POSTGRES_PASSWORD"])
def test_secrets_have_no_defaults(name):
    assert f"${{{name}:?" in TEXT
    assert f"\n{name}=\n" in (ROOT / ".env.example").read_text()


def test_nothing_listens_beyond_this_machine():
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
