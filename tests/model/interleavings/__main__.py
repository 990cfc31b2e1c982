"""All scenarios of interleavings, each with its bound; what was explored by this code is kept.

python -m tests.model.interleavings                             # one file for each scenario
python -m tests.model.interleavings --only "tag, retention" --preemptions 3 --schedules 20000
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.model.interleavings.explore import Violation, explore
from tests.model.interleavings.roots import ground
from tests.model.interleavings.scenarios import SCENARIOS, Scenario

ROOT = Path(__file__).parents[3]


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.model.interleavings")
    parser.add_argument("--only", choices=SCENARIOS)
    parser.add_argument("--preemptions", type=int)
    parser.add_argument("--crashes", type=int)
    parser.add_argument("--schedules", type=int)
    state = ROOT / "data" / "nightly" / "interleavings"
    parser.add_argument("--state", type=Path, default=state)
    options = parser.parse_args()
    options.state.mkdir(parents=True, exist_ok=True)
    code, total, wrong = _code_digest(), 0, 0
    with ground() as made:
        for name in [options.only] if options.only else SCENARIOS:
            found = _explored(name, made, options, code)
            total += found.get("states", 0)
            wrong += "violation" in found
            sys.stdout.write(f"{name}: {json.dumps(found)}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{total} states, {wrong} violations\n")
    sys.exit(1 if wrong else 0)


def _explored(name, made, options, code):
    """Return the counts of a scenario, from its file when this code has explored it so."""
    bound = _bound(name, options)
    path = options.state / f"{name.replace(', ', '-').replace(' ', '-')}.json"
    asked = {"code": code, **vars(bound)}
    if path.exists() and (found := json.loads(path.read_text()))["asked"] == asked:
        return found["counts"]
    started = time.perf_counter()
    try:
        count = explore(Scenario(SCENARIOS[name], made), bound)
        found = {**vars(count), "ends": len(count.ends)}
    except Violation as violation:
        return {"violation": str(violation)}
    found["seconds"] = round(time.perf_counter() - started, 1)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps({"asked": asked, "counts": found}, indent=1))
    unfinished.replace(path)
    return found


def _bound(name, options):
    asked = {key: getattr(options, key) for key in ("preemptions", "crashes", "schedules")}
    given = {key: value for key, value in asked.items() if value is not None}
    return replace(SCENARIOS[name].bound, **given)


def _code_digest():
    """Return a digest of everything that the counts depend on."""
    folders = (ROOT / "include" / "trainfeed", Path(__file__).parent)
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


if __name__ == "__main__":
    main()
