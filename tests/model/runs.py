"""Runs ranges of seeds and adds up their counts."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.model.builds import Project, build_history
from tests.model.histories import describe, draw_history
from tests.model.oracle import judge

__all__ = ["Report", "run", "shown"]

# What is also counted once per log in which it happens.
_PER_LOG = ("lost", "doubled", "silent", "unnamed", "miscounted", "errors", "gone_silent")
# Some hundred thousand small files are written; where they can be, they stay in memory.
_MEMORY = Path("/dev/shm")


@dataclass
class Report:
    """Counts of many logs, and for each log in which something should not be, the lines.

    Versions of harsh histories are counted apart.
    """

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
        if history.harsh:
            names = {name: f"harsh_{name}" for name in ("versions", "empty_wrong")}
            counts = Counter({names.get(name, name): n for name, n in counts.items()})
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
    with _project() as project:
        for seed in seeds:
            history, outcome = _built(project, seed)
            counts, lines = judge(history, outcome)
            work = Counter({f"asked_{name}": number for name, number in outcome.work.items()})
            report.add(history, counts + work, lines)
    return report


def shown(seed):
    """Yield lines that tell a person what a seed's log is, and what was built from it."""
    with _project() as project:
        history, outcome = _built(project, seed)
    yield json.dumps(describe(history))
    for window, built in sorted(outcome.built.items()):
        gaps = [(gap["source"], gap["start"], gap["end"]) for gap in built.gaps]
        yield f"window {window}, built at {history.days(built.now):.3f} from {built.uuid}:"
        yield f"    {built.ranges}, gaps {gaps}, empty because {built.empty_because}"
    for stop in outcome.stops:
        yield f"window {stop.window}, stopped at {history.days(stop.now):.3f}: {stop.message}"
    yield from judge(history, outcome)[1]


@contextmanager
def _project():
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        yield Project(Path(folder))


def _built(project, seed):
    history = draw_history(seed)
    root = project.folder / f"root-{seed}"
    root.mkdir()
    try:
        return history, build_history(project, history, root)
    finally:
        shutil.rmtree(root)
