"""The cost of parsing the DAG files with many data sets: processor seconds, file by file.

``python -m benchmarks.dags.parse FOLDER [--sets 500]`` writes the specifications into FOLDER, a new
one, and times every DAG file in a process of its own, as Airflow's DAG processor runs them. Imports
are counted apart: Airflow's processor has made them before it forks. With ``--serialise``
Airflow's serialisation of the DAGs for its database counts too.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FILES: Final = [
    f"dags.{kind}_{share}" for kind in ("datasets", "spec_errors") for share in range(8)
]
SPEC: Final = """\
name: {name}
description: A data set among many
schedule: "@daily"
start: 2024-01-01
source: {{kafka: {{connection: kafka_default, topic: {name}}}}}
preprocess: {{function: "preprocess:make"}}
schema:
  visitor: {{dtype: int64}}
  features: {{dtype: float32, shape: [3]}}
  label: {{dtype: int64}}
split: {{train: 0.9, eval: 0.1}}
output: {{codec: zstd, samples_per_shard: 100000}}
quality:
  - {{check: count, min: 1}}
train: {{entry: "train:main", window: 1}}
"""


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", type=int, default=500)
    parser.add_argument("--serialise", action="store_true")
    parser.add_argument("--file", help="only this file, in this process; for internal use")
    options = parser.parse_args()
    if options.file:
        print(json.dumps(timed(options.file, serialise=options.serialise)))
        return
    write(options.folder, options.sets)
    seconds = {file: in_process(file, options.folder, options.serialise) for file in FILES}
    for file, (cpu, num_dags) in seconds.items():
        print(f"{file:24} {cpu:6.2f} CPU s  {num_dags:4} DAGs")
    print(f"all {sum(cpu for cpu, _ in seconds.values()):.2f} CPU s, {options.sets} data sets")


def write(folder: Path, num_sets: int) -> None:
    """Write the specifications."""
    for number in range(num_sets):
        name = f"set_{number:05d}"
        (folder / name).mkdir(parents=True)
        (folder / name / "dataset.yaml").write_text(SPEC.format(name=name))
        for module in ("preprocess.py", "train.py"):
            (folder / name / module).write_text("def make(record, lookups): ...\n")


def in_process(file: str, folder: Path, serialise: bool) -> tuple[float, int]:
    """Return processor seconds of a file, and how many DAGs it has."""
    environ = {
        **os.environ,
        "AIRFLOW_HOME": str(folder.absolute() / ".airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "TRAINFEED_DATASETS": str(folder.absolute()),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "include")]),
    }
    command = [sys.executable, "-m", "benchmarks.dags.parse", str(folder), "--file", file]
    command += ["--serialise"] * serialise
    done = subprocess.run(
        command, env=environ, cwd=ROOT, capture_output=True, text=True, check=True
    )
    cpu, num_dags = json.loads(done.stdout.splitlines()[-1])
    return cpu, num_dags


def timed(file: str, *, serialise: bool) -> tuple[float, int]:
    """Import a DAG file, with everything that it imports already there."""
    from airflow.sdk.definitions._internal.contextmanager import DagContext
    from airflow.serialization.serialized_objects import DagSerialization

    importlib.import_module("dags._datasets")
    DagContext.autoregistered_dags.clear()
    DagContext.current_autoregister_module_name = file
    began = time.process_time()
    importlib.import_module(file)
    dags = [dag for dag, _ in DagContext.autoregistered_dags]
    if serialise:
        for dag in dags:
            DagSerialization.to_dict(dag)
    return time.process_time() - began, len(dags)


if __name__ == "__main__":
    main()
