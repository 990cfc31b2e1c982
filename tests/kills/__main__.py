"""Kills every command at every call, in blocks; a finished block is a file that is not done again.

``python -m tests.kills`` kills on a local disk, and with ``--cephfs`` on the CephFS of
``TEST_CEPHFS_PATH``, where a reader on another mount looks all the time. There only calls below
the publication root are taken: landing area and work folder are on the local disk there, too, and
between two calls below the root the reader has the same files. A block has at most ``BLOCK``
strikes of one command. No block begins after ``--minutes``; status 75 says that blocks
are left, and the same call goes on. After a change of the code all blocks are done again.
``--only NAME`` takes some commands, ``--every N`` every N-th strike of each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.kills.preload import Call, Strike, begin_anew, is_loaded, library
from tests.kills.prepared import COMMANDS
from tests.kills.sweep import Arena, Undisturbed, full_strikes, kills

ROOT = Path(__file__).parents[2]
BLOCK = 60
PARTS_LEFT = 75
MEMORY = Path("/dev/shm")


def main() -> int:
    """Do the blocks that are left; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills", allow_abbrev=False)
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--every", type=int, default=1, help="take every N-th strike (default: 1)")
    parser.add_argument("--cephfs", action="store_true", help="on TEST_CEPHFS_PATH")
    parser.add_argument("--minutes", type=float, default=55.0, help="longest part (default: 55)")
    parser.add_argument("--state", type=Path, default=ROOT / "data" / "nightly" / "kills")
    asked = parser.parse_args()
    built = library(asked.state)
    if not is_loaded(built):
        begin_anew(built, "tests.kills")
    state = asked.state / ("cephfs" if asked.cephfs else "local")
    state.mkdir(parents=True, exist_ok=True)
    # A kill takes nothing away that is written, so syncs need not wait for a disk.
    memory = MEMORY if MEMORY.is_dir() else None
    scratch = Path(tempfile.mkdtemp(prefix="trainfeed-kills-", dir=memory))
    deadline_s = time.monotonic() + 60 * asked.minutes
    with_root = _on_cephfs(scratch) if asked.cephfs else {}
    try:
        arena = Arena(built, scratch, **with_root)
        blocks = _Blocks(arena, state, deadline_s)
        for name in asked.only:
            blocks.do(name, asked.every)
        blocks.tell()
        return 1 if blocks.is_wrong else PARTS_LEFT if blocks.is_late else 0
    finally:
        shutil.rmtree(scratch)
        if asked.cephfs:
            shutil.rmtree(with_root["root"], ignore_errors=True)


def _on_cephfs(scratch: Path) -> dict[str, object]:
    from services.cephfs import CephFS
    from tests.kills.observer import Observer

    first = Path(os.environ["TEST_CEPHFS_PATH"])
    second = first.parent / "second"
    # By a child, so that the client is not a child of ours, for whose end the cases would wait.
    if not (pid := os.fork()):
        CephFS(first.parents[1]).mount(second)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, f"{second} is not mounted"
    name = f"trainfeed-kills-{uuid.uuid4()}"
    (first / name).mkdir()
    return {"root": first / name, "other": second / name, "observer": Observer()}


class _Blocks:
    def __init__(self, arena: Arena, state: Path, deadline_s: float) -> None:
        self._arena, self._state, self._deadline_s = arena, state, deadline_s
        self._code = _code_digest()
        self._found: dict[str, dict[str, object]] = {}
        self.is_wrong = self.is_late = False

    def do(self, name: str, every: int) -> None:
        """Do the blocks of a command; its undisturbed run is made again for those that are left."""
        path = self._state / f"{name}.json"
        whole = self._kept(path)
        if whole is not None and whole["every"] <= every:
            self._found[name] = whole["counts"]
            return
        if self._is_over():
            return
        began_s = time.monotonic()
        plain = self._arena.take(name)
        counts: Counter[str] = Counter()
        for number, strikes in enumerate(_blocks(self._arena.calls_of(plain), every)):
            block = self._state / f"{name}-{every}-{number:03d}.json"
            kept = self._kept(block)
            if kept is None:
                if self._is_over():
                    return
                kept = {"counts": dict(self._block(name, plain, strikes))}
                self._keep(block, kept)
            counts.update(kept["counts"])
        calls = len(self._arena.calls_of(plain))
        told = {**counts, "calls": calls, "seconds": round(time.monotonic() - began_s)}
        if not counts["faults"]:
            self._keep(path, {"every": every, "counts": told})
        self._found[name] = told

    def tell(self) -> None:
        """Print the counts of all commands."""
        for name, counts in self._found.items():
            sys.stdout.write(f"{name}: {json.dumps(counts)}\n")
        total: Counter[str] = Counter()
        for counts in self._found.values():
            total.update(counts)
        sys.stdout.write(f"{len(self._found)} commands: {json.dumps(total)}\n")
        self.is_wrong = total["faults"] > 0

    def _block(self, name: str, plain: Undisturbed, strikes: list[Strike]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for strike in strikes:
            case = self._arena.case(plain, strike)
            counts["refused" if strike.errno else "killed"] += case.call is not None
            counts["needed no space" if strike.errno else "not reached"] += case.call is None
            counts["done at once"] += case.is_done
            counts["with leftovers"] += case.leftovers > 0
            counts["looks"] += case.looks
            counts["faults"] += bool(case.faults)
            for fault in case.faults:
                sys.stdout.write(f"{name} {strike} {case.call}: {fault}\n")
                sys.stdout.flush()
        return counts

    def _is_over(self) -> bool:
        self.is_late = time.monotonic() > self._deadline_s
        return self.is_late

    def _kept(self, path: Path) -> dict | None:
        if not path.exists():
            return None
        found = json.loads(path.read_text())
        # What has found a fault is done again.
        return found if found["code"] == self._code and not found["counts"]["faults"] else None

    def _keep(self, path: Path, found: dict) -> None:
        unfinished = path.with_suffix(".tmp")
        unfinished.write_text(json.dumps({"code": self._code, **found}, indent=1))
        unfinished.replace(path)


def _blocks(calls: list[Call], every: int) -> Iterator[list[Strike]]:
    strikes = [*kills(calls), *full_strikes(calls)][::every]
    for first in range(0, len(strikes), BLOCK):
        yield strikes[first : first + BLOCK]


def _code_digest() -> str:
    """Return a digest of everything that the counts depend on."""
    folders = (ROOT / "include" / "trainfeed", Path(__file__).parent)
    files = sorted(path for folder in folders for path in folder.rglob("*.[pc]*") if path.is_file())
    sources = [path for path in files if path.suffix in {".py", ".c"}]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
