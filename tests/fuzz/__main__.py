"""Fuzzing of everything that reads files, in stretches that are not repeated.

python -m tests.fuzz run --stretches 2 --seconds 60              # every target
python -m tests.fuzz run --stretches 2 --seconds 60 --only spec  # of one
python -m tests.fuzz table                                       # what all finished stretches gave

A stretch is a process of ``fuzz.py`` with a seed of its own: its number, plus one. Stretches of a
target share a corpus, so each goes on where the one before has ended. A finding ends its stretch;
the input is kept in ``findings`` of the folder of the results.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
_DONE: Final = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_SECONDS: Final = re.compile(r"Done \d+ runs in (\d+) second")
_PEAK: Final = re.compile(r"stat::peak_rss_mb:\s+(\d+)")
_COVERED: Final = re.compile(r"cov: (\d+) ft: (\d+)")
_WRITTEN: Final = re.compile(r"Test unit written to (.*)")
_RAISED: Final = re.compile(r"=== Uncaught Python exception: ===\n(.*)")


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--state", type=Path, default=ROOT / "data" / "nightly" / "fuzz")
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="run the stretches that are not done yet")
    run.add_argument("--stretches", type=int, default=2)
    run.add_argument("--seconds", type=int, default=60)
    run.add_argument("--only", nargs="*", default=[])
    run.set_defaults(call=_run)
    table = commands.add_parser("table", help="print what all finished stretches gave")
    table.set_defaults(call=_table)
    options = parser.parse_args()
    sys.exit(options.call(options))


def _run(options: argparse.Namespace) -> int:
    """Run what is missing; the status is 1 when anything was found."""
    from tests.fuzz.catalogue import ALL_TARGETS

    code = _code_digest()
    found = [
        _stretch(options, name, number, code)
        for number in range(options.stretches)
        for name in options.only or ALL_TARGETS
    ]
    findings = [each for each in found if each["finding"]]
    sys.stdout.write(json.dumps(findings, indent=1) + "\n")
    return 1 if findings else 0


def _stretch(options: argparse.Namespace, name: str, number: int, code: str) -> dict[str, Any]:
    """Return the result of a stretch, from its file when the same code has run it."""
    path: Path = options.state / f"{name}-{number:03d}.json"
    if path.exists() and (known := json.loads(path.read_text()))["code"] == code:
        return dict(known)
    findings = options.state / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    said = _fuzz(options, name, number, findings)
    result = {
        "target": name,
        "seed": number + 1,
        "code": code,
        "wall_seconds": round(time.perf_counter() - started, 1),
        **_result(said),
    }
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(result, indent=1))
    unfinished.replace(path)
    sys.stderr.write(f"{path.name}: {result}\n")
    return result


def _fuzz(options: argparse.Namespace, name: str, number: int, findings: Path) -> str:
    command = [
        sys.executable,
        str(Path(__file__).with_name("fuzz.py")),
        name,
        str(options.state / "corpus" / name),
        f"-seed={number + 1}",
        f"-max_total_time={options.seconds}",
        f"-artifact_prefix={findings / name}-",
        "-print_final_stats=1",
    ]
    # A stretch that neither libFuzzer nor its limit per input ends does not end by itself.
    limit_s = 2 * options.seconds + 120
    ended = subprocess.run(command, capture_output=True, timeout=limit_s, check=False)
    said = (ended.stdout + ended.stderr).decode(errors="replace")
    if not _DONE.search(said):
        raise SystemExit(f"{name}: fuzzing ended with status {ended.returncode}: {said[-2000:]}")
    return said


def _result(said: str) -> dict[str, Any]:
    executions, peak = _DONE.findall(said)[-1], _PEAK.findall(said)[-1]
    covered, features = (_COVERED.findall(said) or [(0, 0)])[-1]
    written, raised = _WRITTEN.search(said), _RAISED.search(said)
    finding = Path(written[1]).name if written else None
    ended = _SECONDS.search(said)
    return {
        # Without the time that it takes to start; None where a finding ended the stretch.
        "seconds": int(ended[1]) if ended else None,
        "executions": int(executions),
        "edges": int(covered),
        "features": int(features),
        "peak_mb": int(peak),
        "finding": finding,
        "error": raised[1][:300] if raised else None,
    }


def _table(options: argparse.Namespace) -> int:
    """Print a row per target: stretches, seconds, executions, what was covered and found."""
    results = [json.loads(path.read_text()) for path in sorted(options.state.glob("*-*.json"))]
    for name in dict.fromkeys(each["target"] for each in results):
        mine = [each for each in results if each["target"] == name]
        seeds = ", ".join(str(each["seed"]) for each in mine)
        seconds, executions = (
            sum(each[key] or 0 for each in mine) for key in ("seconds", "executions")
        )
        edges, features, peak = (
            max(each[key] for each in mine) for key in ("edges", "features", "peak_mb")
        )
        found = sum(each["finding"] is not None for each in mine)
        sys.stdout.write(
            f"| {name} | {seeds} | {seconds:,.0f} | {executions:,} | {edges:,} | {features:,} |"
            f" {peak} | {found} |\n"
        )
    return 0


def _code_digest() -> str:
    """Return a digest of everything that a stretch depends on."""
    folders = (ROOT / "include" / "trainfeed", Path(__file__).parent)
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


if __name__ == "__main__":
    main()
