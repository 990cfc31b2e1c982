"""``python -m tests.mutation``: thirty lines are changed, one at a time; which test fails?

The program works in a copy of the tracked files. First all tests of ``make unit`` run once, with a
call at each drawn line that writes down the test which gets there. Then each line is changed once,
and the tests that get there run until one fails: first those of ``make test``, then the slow ones,
which ``make ci`` runs. Both go on where they were interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from tests.mutation.mutants import Mutant, draw
from tests.slow_cases import slow_cases

ROOT = Path(__file__).resolve().parents[2]
LINKED = (".venv", "data")
_MOST_FILE_BYTES = 4 << 30
_SUMMARY = "short test summary info"
PROBE = """
import os
_SEEN = set()
def at(number):
    line = f"{{number}}\\t{{os.environ.get('PYTEST_CURRENT_TEST', '').rpartition(' ')[0]}}\\n"
    if line not in _SEEN:
        _SEEN.add(line)
        file = os.open({file!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, line.encode())
        os.close(file)
"""
PYTEST = [
    *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile"),
    *("-m", "not control_group", "--disable-socket", "--allow-unix-socket"),
]


def main() -> None:
    """Draw, look which tests get there, run them on each change, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=10, help="limit of one change")
    parser.add_argument("--home", type=Path, default=ROOT / "data/mutation")
    parser.add_argument(
        "tests", nargs="*", help="by default tests/dags and the rooms of tests/unit"
    )
    options = parser.parse_args()
    home = (options.home / f"seed-{options.seed}").resolve()
    home.mkdir(parents=True, exist_ok=True)
    copy = _copy(home / "copy")
    mutants = draw(ROOT, options.seed, options.lines)
    tests = options.tests or [
        "tests/dags",
        *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tests/unit").glob("[!_]*/")),
        *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tests/unit").glob("test_*.py")),
    ]
    reached = _reached(home, copy, mutants, tests)
    results = home / "results.jsonl"
    done = _lines(results)
    for number, mutant in enumerate(mutants):
        if all(each["number"] != number for each in done):
            outcome = _outcome(copy, mutant, reached[number], options.minutes * 60)
            done.append({"number": number, "tests": len(reached[number]), "outcome": outcome})
            with results.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
    _tell(mutants, done)


def _copy(copy: Path) -> Path:
    """Make a copy of the tracked files, unless one is there, with the environment of this one."""
    if not (copy / ".made").exists():
        shutil.rmtree(copy, ignore_errors=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
        for name in LINKED:
            (copy / name).symlink_to((ROOT / name).resolve())
        # Tests ask git for the files of the repository.
        for command in (["init", "--quiet"], ["add", "--all"]):
            subprocess.run(["git", *command], cwd=copy, check=True)
        (copy / ".made").touch()
    return copy


def _reached(
    home: Path, copy: Path, mutants: list[Mutant], tests: list[str]
) -> dict[int, list[str]]:
    """Return the tests that get to each line, by its number; those of its own room come first."""
    found, finished = home / "reached.tsv", home / "looked.txt"
    (copy / "include/mutation_probe.py").write_text(PROBE.format(file=str(found)))
    probes: dict[str, list[tuple[Mutant, int]]] = defaultdict(list)
    for number, mutant in enumerate(mutants):
        probes[mutant.path].append((mutant, number))
    for path, pairs in probes.items():
        data = (ROOT / path).read_bytes()
        for mutant, number in sorted(pairs, key=lambda pair: -pair[0].start):
            data = mutant.probed(data, number)
        (copy / path).write_bytes(data)
    finished.touch()
    try:
        for each in tests:
            if each not in finished.read_text().splitlines():
                lines = [each, *_failed(_pytest(copy, [each], limit_s=None))]
                with finished.open("a") as file:
                    file.writelines(f"{line}\n" for line in lines)
    finally:
        (copy / "include/mutation_probe.py").unlink()
        for path in probes:
            shutil.copy2(ROOT / path, copy / path)
    # A test that fails without a change, as those that do not bear the calls, finds none.
    useless = {"", *finished.read_text().splitlines()}
    reached: dict[int, list[str]] = defaultdict(list)
    for line in found.read_text().splitlines() if found.exists() else ():
        number, _, test = line.partition("\t")
        reached[int(number)].append(test)
    return defaultdict(
        list,
        {
            number: sorted(
                {*names} - useless, key=lambda name: (mutants[number].room not in name, name)
            )
            for number, names in reached.items()
        },
    )


def _outcome(copy: Path, mutant: Mutant, tests: list[str], limit_s: float) -> str:
    """Run the tests on a change; return what came of it."""
    if not tests:
        return "no test of make unit gets there"
    path = copy / mutant.path
    path.write_bytes(mutant.applied((ROOT / mutant.path).read_bytes()))
    slow = slow_cases()
    parts = {
        "make test": [test for test in tests if test not in slow],
        "make ci": [test for test in tests if test in slow],
    }
    outcome = "not found"
    try:
        for command, part in parts.items():
            if part and (failed := _failing(copy, part, limit_s)):
                return f"{command}: {failed}"
    except subprocess.TimeoutExpired:
        outcome = "not found within the limit"
    finally:
        shutil.copy2(ROOT / mutant.path, path)
    return outcome


def _failing(copy: Path, tests: list[str], limit_s: float) -> str | None:
    """Run tests until one fails; return its name."""
    chosen = copy / "chosen.txt"
    chosen.write_text("".join(f"{test}\n" for test in tests))
    return next(iter(_failed(_pytest(copy, ["-x", f"@{chosen}"], limit_s=limit_s))), None)


def _failed(output: str) -> list[str]:
    """Return the tests that failed, by the summary of pytest; lines of logs come before it."""
    _, header, summary = output.rpartition(_SUMMARY)
    told = summary.splitlines() if header else ()
    lines = [line for line in told if line.startswith(("FAILED ", "ERROR "))]
    return [line.partition(" - ")[0].partition(" ")[2] for line in lines]


def _pytest(copy: Path, arguments: list[str], *, limit_s: float | None) -> str:
    """Run pytest, and return what it printed; on a disk, as a changed line may write for ever."""
    scratch = copy.with_name("scratch")
    scratch.mkdir(exist_ok=True)
    environ = {**os.environ, "PYTHONPATH": f"{copy}:{copy / 'include'}", "PYTHONNOUSERSITE": "1"}
    environ |= {"PYTEST_DEBUG_TEMPROOT": str(scratch)}
    environ.pop("AIRFLOW_HOME", None)
    limited = ["nice", "-n", "10", "prlimit", f"--fsize={_MOST_FILE_BYTES}"]
    process = subprocess.Popen(
        [*limited, sys.executable, *PYTEST, *arguments],
        cwd=copy, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        printed, _ = process.communicate(timeout=limit_s)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(scratch, ignore_errors=True)
    if process.returncode not in {0, 1, 2}:
        raise RuntimeError(f"pytest ended with {process.returncode}: {printed[-2000:]}")
    return printed


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _tell(mutants: list[Mutant], done: list[dict[str, object]]) -> None:
    write = sys.stdout.write
    write("| room | line | change | tests | outcome |\n|---|---|---|---|---|\n")
    for each in done:
        mutant = mutants[each["number"]]
        change = f"`{mutant.before}` → `{mutant.after}`".replace("\n", " ").replace("|", "\\|")
        place = f"{mutant.path}:{mutant.line}"
        write(f"| {mutant.room} | {place} | {change} | {each['tests']} | {each['outcome']} |\n")


if __name__ == "__main__":
    main()
