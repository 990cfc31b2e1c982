"""Runs the model over ranges of seeds and prints what came out; see CONTRIBUTING.md."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.model.builds import Project, build_history
from tests.model.histories import draw_history
from tests.model.oracle import judge


def run(seeds, *, order=None, each=lambda seed, counts, lines: None):
    """Return the counts of all seeds together, in total and by order."""
    total, by_order = Counter(), {}
    with tempfile.TemporaryDirectory(dir=_fast()) as folder:
        project = Project(Path(folder))
        for seed in seeds:
            history = draw_history(seed, order)
            root = Path(folder) / f"root-{seed}"
            root.mkdir()
            outcome = build_history(project, history, root)
            shutil.rmtree(root)
            counts, lines = judge(history, outcome)
            counts += Counter({f"{k}_asked": v for k, v in outcome.work.items()})
            counts["logs"] += 1
            for name in ("lost", "doubled", "silent", "miscounted", "errors", "front"):
                counts[f"logs_{name}"] += counts[name] > 0
            total += counts
            by_order.setdefault(history.order, Counter()).update(counts)
            each(seed, counts, lines)
    return total, by_order


def _fast():
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    started = time.perf_counter()

    def each(seed, counts, lines):
        if options.verbose and lines:
            print(seed, *lines[:6], sep="\n  ", flush=True)

    total, by_order = run(range(options.first, options.end), each=each)
    seconds = time.perf_counter() - started
    found = {
        "seeds": [options.first, options.end],
        "seconds": round(seconds, 1),
        **dict(sorted(total.items())),
    }
    found["needless_nightly"] = by_order.get("nightly", Counter())["needless"]
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
