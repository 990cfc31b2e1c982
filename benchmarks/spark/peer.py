"""The hand-written peer twice in one process: with a cold JVM, then with a warm one.

``PYTHON benchmarks/spark/peer.py FOLDER/x10 OUT`` with the interpreter of `.venv-spark`. The second
run has the JVM, its compiled code and the imports of the first; its session is a new one.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "pipeline" / "peers"))

import pyspark_peer


def main(place: Path, out: Path) -> None:
    """Run twice, and print the seconds of both."""
    seconds = []
    for name in ("cold", "warm"):
        started = time.perf_counter()
        pyspark_peer.main(place, out / name, "records")
        seconds.append(round(time.perf_counter() - started, 2))
    print(json.dumps({"part_s": seconds[0], "warm_s": seconds[1]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
