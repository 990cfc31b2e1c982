"""Damages a root in every way that is listed, in blocks that can be resumed.

python -m tests.sweep cases 0 50                     # cases of seeds, and what became of them
python -m tests.sweep flips --step 7                 # every seventh byte through the readers
python -m tests.sweep nightly --cases 2000 --jobs 2  # all of both; done blocks are kept
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.sweep.cases import Sweep
from tests.sweep.flips import flip_file, swept_files
from tests.sweep.kinds import kind_of
from tests.sweep.project import without_syncs
from tests.sweep.root import Life

_ROOT = Path(__file__).parents[2]
_MEMORY = Path("/dev/shm")
# Outcomes that fail the sweep.
_FAULTS = ("silent", "published", "crash")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.sweep", allow_abbrev=False)
    commands = parser.add_subparsers(required=True)
    cases = commands.add_parser("cases", help="play the cases of seeds FIRST to END - 1")
    cases.add_argument("first", type=int)
    cases.add_argument("end", type=int)
    cases.set_defaults(call=_cases)
    flips = commands.add_parser("flips", help="flip bytes of every file through its readers")
    flips.add_argument("--step", type=int, default=1)
    flips.set_defaults(call=_flips)
    nightly = commands.add_parser("nightly", help="do the blocks that are not done yet")
    nightly.add_argument("--cases", type=int, default=2000)
    nightly.add_argument("--size", type=int, default=50)
    nightly.add_argument("--step", type=int, default=1)
    nightly.add_argument("--jobs", type=int, default=2)
    nightly.add_argument("--state", type=Path, default=_ROOT / "data" / "nightly" / "sweep")
    nightly.set_defaults(call=_nightly)
    options = parser.parse_args()
    sys.exit(options.call(options))


def _cases(options: argparse.Namespace) -> int:
    return _print(_with_life(lambda life: _played(life, range(options.first, options.end))))


def _flips(options: argparse.Namespace) -> int:
    return _print(_with_life(lambda life: _flipped(life, 0, 1, options.step)))


def _print(found: dict[str, Any]) -> int:
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 1 if any(found["counts"].get(fault) for fault in _FAULTS) else 0


def _with_life(act: Callable[[Life], dict[str, Any]]) -> dict[str, Any]:
    folder = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=folder, prefix="sweep-") as path, without_syncs():
        return act(Life.lived(Path(path)))


def _played(life: Life, seeds: range) -> dict[str, Any]:
    sweep, counts, lines = Sweep(life), Counter(), {}
    by_kind: dict[str, Counter[str]] = {}
    for seed in seeds:
        case, outcome = sweep.play(seed)
        counts[outcome.result] += 1
        by_kind.setdefault(case.damage, Counter())[outcome.result] += 1
        if outcome.result in {*_FAULTS, "noticed", "excepted"}:
            lines[f"{outcome.result}: {case}"] = outcome.lines[:8]
    return {"counts": dict(counts), "by damage": by_kind, "lines": lines}


def _flipped(life: Life, part: int, parts: int, step: int) -> dict[str, Any]:
    """Flip the files of one of ``parts`` parts; files of two stages, which have all kinds."""
    counts: Counter[str] = Counter()
    by_kind: dict[str, Counter[str]] = {}
    lines: list[str] = []
    later = swept_files(life, "later")
    known = {kind for _, kind in later}
    checked = [each for each in swept_files(life, "check") if each[1] not in known]
    files = [("later", name) for name, _ in later] + [("check", name) for name, _ in checked]
    for stage, name in files[part::parts]:
        found, faults = flip_file(life, stage, name, step)
        counts += found
        by_kind.setdefault(kind_of(name), Counter()).update(found)
        lines += faults[:20]
    return {
        "counts": dict(counts),
        "by kind": by_kind,
        "files": len(files[part::parts]),
        "lines": lines,
    }


def _nightly(options: argparse.Namespace) -> int:
    """Do what is missing; then say what all blocks gave together."""
    options.state.mkdir(parents=True, exist_ok=True)
    code = _code_digest()
    blocks = [("cases", first, options.size) for first in range(0, options.cases, options.size)]
    blocks += [("flips", part, options.step) for part in range(8)]
    missing = [each for each in blocks if _done(options.state, each, code) is None]
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_work, args=(missing[n :: options.jobs], options.state, code))
        for n in range(options.jobs)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = [(block, _done(options.state, block, code)) for block in blocks]
    if any(result is None for _, result in found):
        sys.stderr.write("blocks are missing; the same command does them\n")
        return 75
    total: dict[str, Any] = {}
    for what in ("cases", "flips"):
        parts = [result for block, result in found if block[0] == what and result]
        total[what] = {
            "counts": dict(sum((Counter(part["counts"]) for part in parts), Counter())),
            "seconds": round(sum(part["seconds"] for part in parts)),
            "lines": [line for part in parts for line in part["lines"]],
        }
    sys.stdout.write(json.dumps(total, indent=1) + "\n")
    return (
        1 if any(part["counts"].get(fault) for part in total.values() for fault in _FAULTS) else 0
    )


def _work(blocks: list[tuple[str, int, int]], state: Path, code: str) -> None:
    """Do blocks in this process, on one life."""

    def act(life: Life) -> dict[str, Any]:
        for what, first, size in blocks:
            started = time.perf_counter()
            if what == "cases":
                found = _played(life, range(first, first + size))
            else:
                found = _flipped(life, first, 8, size)
            found |= {"code": code, "seconds": round(time.perf_counter() - started, 1)}
            path = _path(state, (what, first, size))
            unfinished = path.with_suffix(".tmp")
            unfinished.write_text(json.dumps(found, indent=1))
            unfinished.replace(path)
            sys.stderr.write(f"{path.name}: {found['seconds']} s {found['counts']}\n")
        return {}

    if blocks:
        _with_life(act)


def _path(state: Path, block: tuple[str, int, int]) -> Path:
    what, first, size = block
    return state / f"{what}-{first:05d}-{size}.json"


def _done(state: Path, block: tuple[str, int, int], code: str) -> dict[str, Any] | None:
    """Return the result of a block that this code has done."""
    path = _path(state, block)
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found if found["code"] == code else None


def _code_digest() -> str:
    """Return a digest of everything that a block's result depends on."""
    folders = (_ROOT / "include" / "trainfeed", Path(__file__).parent)
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


if __name__ == "__main__":
    main()
