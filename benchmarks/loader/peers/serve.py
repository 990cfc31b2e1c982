# ruff: noqa: PLC0415 - systems that cannot live in one process
"""Makes passes when told to: ``python serve.py FOLDER CASE NAME``, a line on stdin per pass.

Every system has a process of its own, which starts, imports and opens before the first pass, and
sleeps while the others are measured.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path


def main() -> None:
    """Serve passes until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries print
    warnings.simplefilter("ignore")
    folder, case, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if name.startswith(("trainfeed", "multiprocessing")):
        from ours import CASES

        make = CASES[case][name]
        run = make(folder / "trainfeed")
    else:
        import peers

        home, peer = {"A shuffled": peers.A_SHUFFLED, "B shuffled": peers.B_SHUFFLED}[case][name]
        run = peer(folder / home)
    answers.write("ready\n")
    for _ in sys.stdin:
        start, cpu_start = time.perf_counter(), time.process_time()
        count = run()
        used = time.perf_counter() - start, time.process_time() - cpu_start
        answers.write(json.dumps([count, *used]) + "\n")


if __name__ == "__main__":
    main()
