"""Random histories: no right plan is refused for its neighbours, and no damaged boundary is used.

Some logs here, as many as TEST_MODEL_ROUNDS says every night.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.model.builds import Project, build_history
from tests.model.disturbed import Damaged, Disturbed
from tests.model.histories import draw_history
from tests.model.oracle import judge

ROUNDS = int(os.environ.get("TEST_MODEL_ROUNDS", "40"))
FIRST = int(os.environ.get("TEST_MODEL_FIRST", "0"))


def played(project, seed, kind):
    made = []

    def make(*args):
        made.append(kind(*args))
        return made[0]

    root = project.folder / f"root-{kind.__name__}-{seed}"
    root.mkdir()
    history = draw_history(seed)
    outcome = build_history(project, history, root, kind=make)
    counts, lines = judge(history, outcome)
    return counts, lines, made[0].counts


@pytest.mark.parametrize("kind", [pytest.param(Disturbed, marks=pytest.mark.ci), Damaged])
def test_plans_agree_with_their_neighbours_or_a_boundary_was_changed(kind, tmp_path):
    rules = ("empty", "skip", "fail")
    projects = [Project(tmp_path / rule, missing=rule) for rule in rules]
    total, wrong = Counter(), {}
    for seed in range(FIRST, FIRST + ROUNDS):
        counts, lines, done = played(projects[seed % 3], seed, kind)
        total += counts + Counter({f"did {name}": number for name, number in done.items()})
        names = {"lost", "doubled", "torn", "errors", "unbuilt"}
        if kind is Damaged and counts["errors"] + counts["unbuilt"]:
            # Some builds stay refused: a person has to see to boundaries that no version has.
            total["logs_refused"] += 1
            names = {"doubled", "torn"}
        if any(counts[name] for name in names):
            wrong[seed] = lines
    print(kind.__name__, dict(sorted(total.items())))  # noqa: T201 - the report of a long run
    assert wrong == {}
    if kind is Disturbed:
        assert total["did refused"] == 0
