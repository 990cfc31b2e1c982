"""Random logs against the oracle, in blocks that can be resumed.

python -m tests.model seeds 0 400                     # prints counts, and broken promises by seed
python -m tests.model nightly --blocks 20 --size 5000 # one file per block, done ones are kept
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from pathlib import Path

from tests.model.promises import allowed, broken
from tests.model.runs import run, shown

ROOT = Path(__file__).parents[2]


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.model")
    commands = parser.add_subparsers(required=True)
    seeds = commands.add_parser("seeds", help="run the logs of seeds FIRST to END - 1")
    seeds.add_argument("first", type=int)
    seeds.add_argument("end", type=int)
    seeds.set_defaults(call=_seeds)
    show = commands.add_parser("show", help="print one log and what became of it")
    show.add_argument("seed", type=int)
    show.set_defaults(call=_show)
    nightly = commands.add_parser("nightly", help="run blocks of seeds that are not done yet")
    nightly.add_argument("--blocks", type=int, default=20)
    nightly.add_argument("--size", type=int, default=5000)
    nightly.add_argument("--state", type=Path, default=ROOT / "data" / "nightly" / "model")
    nightly.set_defaults(call=_nightly)
    options = parser.parse_args()
    sys.exit(options.call(options))


def _seeds(options):
    started = time.perf_counter()
    report = run(range(options.first, options.end))
    found = {"seconds": round(time.perf_counter() - started, 1), **report.to_json()}
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0


def _show(options):
    sys.stdout.write("\n".join(shown(options.seed)) + "\n")
    return 0


def _nightly(options):
    """Run what is missing; then say what all blocks gave together, and which promises broke."""
    options.state.mkdir(parents=True, exist_ok=True)
    code = _code_digest()
    done = [_block(options, number, code) for number in range(options.blocks)]
    total = sum((Counter(block["counts"]) for block in done), Counter())
    needless = sum(block["needless_nightly"] for block in done)
    seconds = sum(block["seconds"] for block in done)
    lines = broken(total, needless=needless, most_needless=allowed(options.blocks * options.size))
    summary = {"seconds": seconds, "counts": dict(sorted(total.items())),
               "needless_nightly": needless, "broken": lines}  # fmt: skip
    sys.stdout.write(json.dumps(summary, indent=1) + "\n")
    return 1 if lines else 0


def _block(options, number, code):
    """Return the result of a block, from its file when the same code has run it."""
    first = number * options.size
    path = options.state / f"{first:08d}-{first + options.size:08d}.json"
    if path.exists() and (found := json.loads(path.read_text()))["code"] == code:
        return found
    started = time.perf_counter()
    report = run(range(first, first + options.size))
    seconds = round(time.perf_counter() - started, 1)
    found = {"code": code, "seconds": seconds, **report.to_json()}
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(found, indent=1))
    unfinished.replace(path)
    sys.stderr.write(f"{path.name}: {seconds} s\n")
    return found


def _code_digest():
    """Return a digest of everything that a block's result depends on."""
    folders = (ROOT / "include" / "trainfeed", Path(__file__).parent)
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


if __name__ == "__main__":
    main()
