"""docker-compose.yaml, Dockerfile and .env.example, checked as files: no engine runs here.

Everything that they name must exist: settings, commands, modules, paths, ports, hosts, variables.
Tests that need a running process are in tests/e2e/test_topology.py and tests/integration.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.configuration import retrieve_configuration_description
from airflow.executors.executor_loader import ExecutorLoader
from airflow.executors.executor_utils import ExecutorName
from ruamel.yaml import YAML

import trainfeed
from deploy.executor import WatchedLocalExecutor
from deploy.init import _pools
from deploy.settings import PARTS, RECOVERY
from operators.connections import conversion_roots, environment_from_connections
from trainfeed.core.config import KAFKA_CONNECTION, LOGS_CONNECTION, environment_from_environ
from trainfeed.specification import DatasetSpec, load_specs
from trainfeed.versions.layout import is_name

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker-compose.yaml").read_text()
EXAMPLE = (ROOT / ".env.example").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SECRETS = ["JWT_SECRET", "API_SECRET", "FERNET_KEY", "POSTGRES_PASSWORD", "ADMIN_PASSWORD"]
CODE = "/opt/trainfeed"
PLACES = ("ROOT", "LANDING", "WORK", "LOGS", "MODELS")

# `.env` as Compose reads it: single quotes keep everything between them.
VALUES = {
    name: value.strip("'") or f"secret of {name}"
    for name, value in re.findall(r"^([A-Z_]+)=(.*)$", EXAMPLE, re.MULTILINE)
}
USED = re.compile(r"\$\{([A-Z_]+)(?::([-?])([^}]*))?\}")


def test_the_file_of_secrets_is_never_committed():
    assert "/.env" in (ROOT / ".gitignore").read_text().splitlines()


def interpolated(node):
    if isinstance(node, dict):
        return {key: interpolated(value) for key, value in node.items()}
    if isinstance(node, list):
        return [interpolated(value) for value in node]
    return USED.sub(lambda found: VALUES[found[1]], node) if isinstance(node, str) else node


COMPOSE = interpolated(YAML(typ="safe").load(TEXT))
SERVICES = COMPOSE["services"]
AIRFLOW = {
    name: each
    for name, each in SERVICES.items()
    if each.get("image", "").startswith("trainfeed-airflow:")
}
INSTRUCTIONS = [
    line.split(maxsplit=1)
    for line in re.sub(r"\\\n(\s*#[^\n]*\n)*", "", DOCKERFILE).splitlines()
    if line and not line.startswith("#")
]
COPIED = dict(words.split() for name, words in INSTRUCTIONS if name == "COPY")
IMAGE_ENVIRONMENT = dict(
    word.split("=", 1)
    for name, words in INSTRUCTIONS
    if name == "ENV"
    for word in shlex.split(words, comments=True)
)
ENVIRONMENT = {**IMAGE_ENVIRONMENT, **AIRFLOW["api-server"]["environment"]}


def in_image(path):
    """The file of the repository that the image has at a path, or None."""
    for source, target in COPIED.items():
        inside = Path(target) / source if target.endswith("/") else Path(target)
        if Path(path).is_relative_to(inside):
            return ROOT / source / Path(path).relative_to(inside)
    return None


def mounts(service):
    """Source by target of a service's volumes, in both ways to write them."""
    found = {}
    for volume in service.get("volumes", []):
        if isinstance(volume, str):
            source, target, *_ = volume.split(":")
            found[target] = source
        else:
            found[volume["target"]] = volume["source"]
    return found


def validate(path):
    """Check a file against the schema of the Compose specification."""
    command = ["check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False
    )


def site():
    tree = ET.parse(ROOT / "deploy/hdfs-site.xml")
    return {each.findtext("name"): each.findtext("value") for each in tree.iter("property")}


def test_it_is_valid_by_the_schema_of_the_compose_specification():
    done = validate(ROOT / "docker-compose.yaml")
    assert done.returncode == 0, done.stdout


def test_the_schema_finds_a_misspelt_key(tmp_path):
    broken = tmp_path / "docker-compose.yaml"
    broken.write_text(TEXT.replace("healthcheck:", "healthchek:", 1))
    assert "healthchek" in validate(broken).stdout


def test_every_variable_is_in_the_example_and_none_more():
    used = {found[1] for found in USED.finditer(TEXT)} | {"COMPOSE_PROFILES"}
    assert set(VALUES) == used


def test_every_variable_of_the_example_has_a_comment():
    lines = EXAMPLE.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[A-Z_]+=", line) and not re.match(r"[A-Z_]+=", lines[number - 1]):
            assert lines[number - 1].startswith("#")
            assert not lines[number - 1].startswith("# ---")


def test_a_default_says_the_same_as_the_example():
    for name, mark, default in USED.findall(TEXT):
        if mark == "-":
            assert VALUES[name] == default


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_have_no_defaults(name):
    assert f"${{{name}:?" in TEXT
    assert f"\n{name}=\n" in EXAMPLE


def test_all_parts_of_airflow_are_there_as_plain_processes_have_them():
    assert set(AIRFLOW) == {"init", *PARTS}
    for part in PARTS:
        preloaded = ["python", "-m", f"deploy.{part}"]
        assert AIRFLOW[part]["command"] in (["airflow", part], preloaded)


def test_they_share_one_environment_and_one_view_of_the_world():
    for name, service in AIRFLOW.items():
        assert service["volumes"] == AIRFLOW["init"]["volumes"]
        own = {"ADMIN_PASSWORD", "POOLS"} if name == "init" else set()
        assert service["environment"].keys() - AIRFLOW["scheduler"]["environment"].keys() == own


def test_every_setting_is_one_of_this_airflow():
    known = retrieve_configuration_description(include_providers=False)
    settings = [name for name in ENVIRONMENT if name.startswith("AIRFLOW__")]
    assert len(settings) > 10
    for name in settings:
        _, section, option = name.lower().split("__", 2)
        assert option in known[section]["options"], name


def test_parts_recover_as_they_do_in_the_tests():
    settings = {
        f"AIRFLOW__{section}__{name}".upper(): str(value)
        for section, options in RECOVERY.items()
        for name, value in options.items()
    }
    assert {name: ENVIRONMENT.get(name) for name in settings} == settings


def test_the_executor_is_there_and_airflow_takes_it():
    path = ENVIRONMENT["AIRFLOW__CORE__EXECUTOR"]
    executor, _ = ExecutorLoader.import_executor_cls(ExecutorName(path))
    assert executor is WatchedLocalExecutor
    assert in_image(f"{CODE}/deploy/executor.py").is_file()


def test_a_task_may_wait_for_the_api_server_as_long_as_its_token_is_valid():
    workers, scheduler = RECOVERY["workers"], RECOVERY["scheduler"]
    options = retrieve_configuration_description(include_providers=False)["scheduler"]["options"]
    token_s = float(options["task_queued_timeout"]["default"])
    shortest_s = (workers["execution_api_retries"] - 1) * workers["execution_api_retry_wait_min"]
    mean_s = (workers["execution_api_retry_wait_min"] + workers["execution_api_retry_wait_max"]) / 2
    assert shortest_s >= 180
    assert workers["execution_api_retries"] * mean_s <= token_s
    assert 180 < scheduler["task_instance_heartbeat_timeout"] < token_s


def test_every_other_variable_is_known_to_somebody(monkeypatch):
    others = {name for name in ENVIRONMENT if not name.startswith("AIRFLOW_")}
    of_python = {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONWARNINGS"}
    of_trainfeed = {f"TRAINFEED_{name}" for name in (*PLACES, "KAFKA", "DATASETS")}
    assert others == of_python | of_trainfeed
    monkeypatch.setenv("TRAINFEED_DATASETS", ENVIRONMENT["TRAINFEED_DATASETS"])
    assert str(environment_from_environ().datasets) == ENVIRONMENT["TRAINFEED_DATASETS"]
    source = (ROOT / "deploy/init.py").read_text()
    for name in ("ADMIN_PASSWORD", "POOLS"):
        assert f'_variable("{name}")' in source


def test_every_command_is_one_of_this_airflow_or_a_module_of_ours():
    parser = get_parser()
    for name, service in AIRFLOW.items():
        for command in (service["command"], service.get("healthcheck", {}).get("test", [])[1:]):
            if command[:1] == ["airflow"]:
                assert parser.parse_args(command[1:]).func, name
            elif command[:2] == ["python", "-m"]:
                spec = importlib.util.find_spec(command[2])
                assert in_image(f"{CODE}/{command[2].replace('.', '/')}.py") == Path(spec.origin)


def test_every_part_that_goes_on_has_a_health_check():
    assert [name for name, each in SERVICES.items() if "healthcheck" not in each] == ["init"]


def test_code_is_found_by_every_part():
    assert in_image(ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"] + "/dags/datasets_0.py").is_file()
    assert in_image(ENVIRONMENT["AIRFLOW__CORE__DAGS_FOLDER"] + "/.airflowignore").is_file()
    assert in_image(ENVIRONMENT["AIRFLOW__CORE__PLUGINS_FOLDER"]) == ROOT / "plugins"
    code, include = ENVIRONMENT["PYTHONPATH"].split(":")
    assert (code, include) == (CODE, f"{CODE}/include")
    for package in ("operators", "deploy", "dags"):
        assert in_image(f"{code}/{package}/__init__.py").is_file()
    assert in_image(f"{include}/trainfeed/__init__.py").is_file()
    assert mounts(AIRFLOW["scheduler"])[ENVIRONMENT["TRAINFEED_DATASETS"]] == "./include/datasets"


def test_every_copied_or_mounted_path_is_in_the_repository_and_not_ignored():
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    assert allowed[1] == "*"
    for source in COPIED:
        assert (ROOT / source).exists()
        assert f"!/{source}" in allowed
    declared = set(COMPOSE["volumes"])
    for service in SERVICES.values():
        for source in mounts(service).values():
            if source != VALUES["PUBLICATION_PATH"]:
                assert source in declared or (source[:2] == "./" and (ROOT / source).exists())


def test_a_publication_folder_that_is_missing_is_not_made():
    (volume,) = [
        each for each in AIRFLOW["scheduler"]["volumes"]
        if isinstance(each, dict) and each["target"] == "/publication"
    ]  # fmt: skip
    assert volume["type"] == "bind"
    assert volume["bind"] == {"create_host_path": False}


def test_airflow_runs_as_nobody_special_from_hashed_packages():
    names = [name for name, _ in INSTRUCTIONS]
    assert ("USER", "airflow") in [tuple(each) for each in INSTRUCTIONS]
    assert "RUN" not in names[names.index("USER") :]
    assert "--require-hashes" in DOCKERFILE
    assert not any("user" in service for service in AIRFLOW.values())
    pinned = re.findall(r"^\S+==\S+.*$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert len(pinned) > 100
    assert all(line.endswith("\\") for line in pinned)  # a hash follows


def test_folders_that_are_written_belong_to_the_account():
    (line,) = [words for name, words in INSTRUCTIONS if "install --directory" in words]
    for folder in ("/publication", "/var/lib/airflow"):
        assert folder in line.split()
        assert folder in mounts(AIRFLOW["scheduler"])
    assert ENVIRONMENT["AIRFLOW_HOME"] == "/var/lib/airflow"
    passwords = ENVIRONMENT["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]
    assert Path(passwords).parent == Path("/var/lib/airflow")


def test_images_have_plain_names_and_the_versions_that_are_tested():
    images = {name: each["image"] for name, each in SERVICES.items() if name not in AIRFLOW}
    for image in images.values():
        assert re.fullmatch(r"(apache/)?[a-z]+:[0-9.]+", image)
    pom = (ROOT / "services/config/kafka/pom.xml").read_text()
    assert f"<version>{images['kafka'].partition(':')[2]}</version>" in pom
    assert "FROM python:3.11-slim-bookworm" in DOCKERFILE


def test_what_waits_for_what_is_there():
    for service in SERVICES.values():
        for name, wanted in service.get("depends_on", {}).items():
            healthy = wanted["condition"] == "service_healthy"
            assert ("healthcheck" in SERVICES[name]) == healthy


def test_hosts_in_addresses_are_services():
    addresses = [
        ENVIRONMENT["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"],
        ENVIRONMENT["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"],
        ENVIRONMENT["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"],
    ]
    found = [re.search(r"[/@]([a-z-]+):(\d+)/", address).groups() for address in addresses]
    assert found == [("api-server", "8080"), ("postgres", "5432"), ("postgres", "5432")]


def test_published_ports_are_listened_on_and_stay_on_this_machine():
    default = retrieve_configuration_description(include_providers=False)["api"]["options"]["port"]
    listened = {
        "api-server": [default["default"]],
        "kafka": re.findall(r":(\d+)", SERVICES["kafka"]["environment"]["KAFKA_LISTENERS"]),
        "namenode": re.findall(r":(\d+)", site()["dfs.namenode.http-address"]),
    }
    published = {name: each["ports"] for name, each in SERVICES.items() if each.get("ports")}
    assert set(published) == set(listened)
    for name, ports in published.items():
        for port in ports:
            host, _, inside = port.split(":")
            assert host == "127.0.0.1"
            assert inside in listened[name]


def test_health_checks_ask_ports_that_are_listened_on():
    scheduler = retrieve_configuration_description(include_providers=False)["scheduler"]["options"]
    ports = {
        name: re.findall(r"localhost:(\d+)", " ".join(each["healthcheck"]["test"]))
        for name, each in SERVICES.items()
        if "healthcheck" in each
    }
    assert ports == {
        "postgres": [],
        "api-server": ["8080"],
        "scheduler": [scheduler["scheduler_health_check_server_port"]["default"]],
        "dag-processor": [],
        "triggerer": [],
        "kafka": ["9092"],
        "namenode": ["9870"],
        "datanode": [site()["dfs.datanode.http.address"].partition(":")[2]],
    }


def test_the_connections_of_the_example_are_complete_and_name_its_services(monkeypatch):
    names = [name for name in ENVIRONMENT if name.startswith("AIRFLOW_CONN_")]
    for name in names:
        monkeypatch.setenv(name, ENVIRONMENT[name])
    monkeypatch.setenv("TRAINFEED_DATASETS", str(ROOT / "include/datasets"))
    env = environment_from_connections([KAFKA_CONNECTION])
    assert env.root == "/publication"
    for place in (env.landing, env.work):
        assert place.startswith("webhdfs://hdfs@namenode:9870/trainfeed/")
    kafka = SERVICES["kafka"]["environment"]
    servers = env.kafka[KAFKA_CONNECTION].client["bootstrap.servers"]
    assert f"PLAINTEXT://{servers}," in kafka["KAFKA_ADVERTISED_LISTENERS"]
    assert len(names) == 4
    roots = conversion_roots()
    assert all(path.is_relative_to("/publication") for path in (*roots.inputs, *roots.outputs))
    # Nothing that a conversion writes can be taken for a data set.
    assert not any(is_name(path.name) for path in (*roots.outputs, roots.work))


def test_the_command_line_of_a_container_has_the_places_of_the_tasks(monkeypatch):
    for name, value in ENVIRONMENT.items():
        if name.startswith(("AIRFLOW_CONN_", "TRAINFEED_")):
            monkeypatch.setenv(name, value)
    ours = environment_from_environ()
    theirs = environment_from_connections(
        [KAFKA_CONNECTION], [LOGS_CONNECTION], stores=[LOGS_CONNECTION]
    )
    assert ours == theirs


def test_the_image_has_the_command_trainfeed(tmp_path):
    link = r"ln -s /opt/trainfeed/(\S+) /usr/local/bin/trainfeed"
    (target,) = re.findall(link, DOCKERFILE)
    command = ROOT / target
    assert os.access(command, os.X_OK)
    assert command.read_text().startswith("#!/usr/local/bin/python\n")
    done = subprocess.run(
        [sys.executable, command, "--version"],
        env={"PYTHONPATH": str(ROOT / "include")}, cwd=tmp_path,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == trainfeed.__version__


def test_the_image_is_tagged_with_the_version_of_its_code():
    assert {each["image"] for each in AIRFLOW.values()} == {
        f"trainfeed-airflow:{trainfeed.__version__}"
    }


def test_no_part_makes_the_publication_root_but_the_command_that_a_person_gives():
    assert "docker compose run --rm --no-deps init trainfeed init " in TEXT
    commands = [" ".join(each["command"]) for each in AIRFLOW.values()]
    assert not [command for command in commands if "trainfeed init" in command]


def test_packages_of_functions_are_hashed_and_get_into_image_and_environment():
    assert "--require-hashes --requirement /tmp/functions.txt" in DOCKERFILE
    pinned = (ROOT / "requirements/functions.txt").read_text()
    names = re.findall(r"^[^\s#].*$", pinned, re.MULTILINE)
    assert all(line.endswith("\\") for line in names)  # a hash follows
    makefile = (ROOT / "Makefile").read_text()
    for target in ("run", "dev"):
        (packages,) = re.findall(rf"^\.venv/\.{target}: .*$", makefile, re.MULTILINE)
        assert "requirements/functions.txt" in packages


def test_the_connections_are_all_that_the_data_sets_ask_for():
    asked = {
        connection
        for spec in load_specs(ROOT / "include/datasets")
        if isinstance(spec, DatasetSpec)
        for connection in spec.source.kind.clusters
    }
    have = {name.removeprefix("AIRFLOW_CONN_").lower() for name in ENVIRONMENT}
    assert asked <= have


def test_the_pools_of_the_example_are_all_that_the_data_sets_name():
    pools = _pools(VALUES["POOLS"])
    named = {
        spec.resources.pool
        for spec in load_specs(ROOT / "include/datasets")
        if isinstance(spec, DatasetSpec) and spec.resources.pool
    }
    assert named <= set(pools)
    assert all(pool["slots"] > 0 for pool in pools.values())
    assert json.loads(VALUES["POOLS"]).keys() == pools.keys()


def test_hdfs_keeps_its_data_on_its_volumes():
    for node, option in (("namenode", "name.dir"), ("datanode", "data.dir")):
        folder = site()[f"dfs.{node}.{option}"].removeprefix("file://")
        assert mounts(SERVICES[node])[folder] == node
        target = mounts(SERVICES[node])["/etc/trainfeed/hdfs-site.xml"]
        assert target == "./deploy/hdfs-site.xml"
        assert "-conf /etc/trainfeed/hdfs-site.xml" in " ".join(SERVICES[node]["command"])


def test_kafka_keeps_its_log_on_its_volume():
    assert mounts(SERVICES["kafka"])[SERVICES["kafka"]["environment"]["KAFKA_LOG_DIRS"]] == "kafka"
