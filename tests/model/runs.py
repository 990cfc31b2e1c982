"""Runs ranges of seeds and adds up what came out."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.model.builds import Project, build_history
from tests.model.histories import draw_history
from tests.model.oracle import judge

__all__ = ["Report", "run", "run_one"]

# What is also counted once per log in which it happens.
_PER_LOG = ("lost", "doubled", "silent", "unnamed", "miscounted", "errors", "gone_silent")
# Some hundred thousand small files are written; where they can be, they stay in memory.
_MEMORY = Path("/dev/shm")


@dataclass
class Report:
    """Counts of many logs, and for each log in which something should not be, the lines."""

    counts: Counter = field(default_factory=Counter)
    orders: dict[str, Counter] = field(default_factory=dict)
    lines: dict[int, list[str]] = field(default_factory=dict)

    @property
    def needless(self):
        """Needless stops in nightly order."""
        return self.orders.get("nightly", Counter())["needless"]

    def add(self, history, counts, lines):
        """Take in one log."""
        counts = counts + Counter({f"logs_{n}": 1 for n in _PER_LOG if counts[n]}) + Counter(logs=1)
        self.counts += counts
        self.orders.setdefault(history.order, Counter()).update(counts)
        if lines:
            self.lines[history.seed] = lines

    def to_json(self):
        return {
            "counts": dict(sorted(self.counts.items())),
            "needless_nightly": self.needless,
            "orders": {name: dict(sorted(c.items())) for name, c in sorted(self.orders.items())},
            "lines": {str(seed): lines[:5] for seed, lines in self.lines.items()},
        }


def run(seeds):
    """Return the report of these seeds."""
    report = Report()
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        project = Project(Path(folder))
        for seed in seeds:
            report.add(*run_one(project, seed))
    return report


def run_one(project, seed, order=None):
    """Return the history of a seed, its counts and its lines."""
    history = draw_history(seed, order)
    root = project.folder / f"root-{seed}"
    root.mkdir()
    try:
        outcome = build_history(project, history, root)
    finally:
        shutil.rmtree(root)
    counts, lines = judge(history, outcome)
    return history, counts + Counter({f"asked_{k}": v for k, v in outcome.work.items()}), lines
