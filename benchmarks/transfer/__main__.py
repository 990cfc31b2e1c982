"""``python -m benchmarks.transfer STORE …``: seconds, rates and peak memory of transfers.

Each ``STORE`` is a folder that exists, as a path or URI. A folder of random files is uploaded,
adopted and downloaded. Each round has a process of its own, whose peak of memory counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from trainfeed.files.stores import Location
from trainfeed.files.stores.folder_transfer import download, upload

_MIB: Final = 1 << 20


def _folder(place: Path, mib: int, files: int) -> Path:
    place.mkdir()
    for number in range(files):
        with (place / f"part-{number}").open("wb") as file:
            for _ in range(mib // files):
                file.write(os.urandom(_MIB))
    return place


def _round(model: Path, store: str) -> dict[str, float]:
    """Return the seconds of each step, and the peak of resident memory in MiB."""
    target = Location.parse(store) / f"benchmark-{os.getpid()}"
    seconds = {}
    try:
        for step in ("upload", "adopt"):
            started = time.perf_counter()
            upload(model, target)
            seconds[step] = time.perf_counter() - started
        started = time.perf_counter()
        download(target, model.parent / f"back-{os.getpid()}")
        seconds["download"] = time.perf_counter() - started
    finally:
        target.delete(recursive=True)
    return {**seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def main() -> None:
    """Print one line for each store: least seconds of all rounds."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("stores", nargs="+")
    options.add_argument("--mib", type=int, default=256)
    options.add_argument("--files", type=int, default=4)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--model", type=Path, help="for a round in a process of its own")
    asked = options.parse_args()
    if asked.model is not None:
        print(json.dumps(_round(asked.model, asked.stores[0])))
        return
    with tempfile.TemporaryDirectory() as folder:
        model = _folder(Path(folder) / "model", asked.mib, asked.files)
        for store in asked.stores:
            command = [sys.executable, "-m", "benchmarks.transfer", store, "--model", str(model)]
            rounds = [
                json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                for _ in range(asked.rounds)
            ]
            steps = {step: min(found[step] for found in rounds) for step in rounds[0]}
            peak = max(found["peak"] for found in rounds)
            rates = ", ".join(
                f"{step} {steps[step]:.2f} s ({asked.mib / steps[step]:.0f} MiB/s)"
                for step in ("upload", "adopt", "download")
            )
            print(f"{store.partition(':')[0]}: {asked.mib} MiB: {rates}, peak {peak:.0f} MiB")


if __name__ == "__main__":
    main()
