"""Kills a command at one of its calls, and looks at what is there then and after a repetition.

What must hold, for a kill as for a refused call:

* at once: every version that a reader can open is whole; every interval, tag and alias leads to
  what it led to before, or to what it leads to afterwards; nothing published has other bytes;
* after the same command again: the trees are those of a run that nobody disturbed. What is there
  besides is removed by ``trainfeed gc``, and then the trees are equal without exception.

What the comparison forgives is in ``tests.kills.tree``.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.kills.forked import TRACEBACK, fork_programs, forked
from tests.kills.look import look
from tests.kills.observer import Observer
from tests.kills.preload import Call, Strike, arm, read_record
from tests.kills.prepared import COMMANDS, STORE, Places, prepare
from tests.kills.tree import Tree, differences, tree_of
from trainfeed.cli import main

__all__ = ["Arena", "Case", "Undisturbed", "full_strikes", "kills"]

GC = ("gc", "--older-than", "0")
PR_SET_CHILD_SUBREAPER = 36
KILLED = -9


@dataclass(frozen=True)
class End:
    """How a command ended: its status, what it printed, and which calls it made."""

    status: int
    output: str
    calls: list[Call]


@dataclass(frozen=True)
class Undisturbed:
    """A run that nobody disturbed.

    Attributes:
        calls: Its calls.
        before: What a reader saw before.
        after: What a reader sees afterwards.
        left: The tree afterwards.
        swept: The tree after leftovers were removed.
    """

    calls: list[Call]
    before: dict[str, str]
    after: dict[str, str]
    left: Tree
    swept: Tree


@dataclass
class Case:
    """A command that was struck at one call, and given again.

    Attributes:
        strike: Where and how.
        call: The call at which it was struck; None if this run did not come to it.
        status: How the struck command ended.
        is_done: Whether a reader saw the new state at once.
        leftovers: Number of files and folders that only ``gc`` removes.
        looks: How often a reader has looked meanwhile.
        faults: What must not be.
    """

    strike: Strike
    call: Call | None = None
    status: int = 0
    is_done: bool = False
    leftovers: int = 0
    looks: int = 0
    faults: list[str] = field(default_factory=list)


class Arena:
    """One command, its folder, and a warm process whose forks run it.

    Args:
        built: The library, with which this process was started.
        scratch: A folder of nobody else, on a local disk.
        root: Folder for publication roots; by default they lie in the scratch folder.
        other: The same folder through another mount.
        observer: Looks there all the time.
    """

    def __init__(
        self,
        built: Path,
        scratch: Path,
        root: Path | None = None,
        other: Path | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._built, self._scratch = built, scratch.resolve()
        self._roots, self._other, self._observer = root, other, observer
        self._number = 0
        here = self._scratch / "here"
        self.places = Places(here, here / "root" if root is None else root.resolve() / "0" / "root")
        self._is_observed = False
        self._name, self._command = "build", COMMANDS["build"]
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        fork_programs()

    def take(self, name: str) -> Undisturbed:
        """Prepare a command, run it, and return what that run was like."""
        self._name, self._command = name, COMMANDS[name]
        self._remove(self._scratch / "prepared", self._scratch / "prepared-root")
        self._clear()
        self._fork(lambda: prepare(self._command, self.places))
        self._copy(self.places.path, self._scratch / "prepared")
        if not self._is_inside:
            self._copy(self.places.root, self._scratch / "prepared-root")
        self._warm()
        self.reset()
        before = self.seen()
        end = self.run()
        assert end.status == self._command.status, end.output
        after, left = self.seen(), self.tree()
        assert not any(key.startswith("fault") for key in after), after
        self._let_leases_end()
        assert self.run(GC).status == 0
        return Undisturbed(end.calls, before, after, left, self.tree())

    def case(self, plain: Undisturbed, strike: Strike) -> Case:
        """Strike the command, look, give it again, and compare."""
        self.reset()
        self._begin(plain)
        case = Case(strike)
        end = self.run(strike=strike)
        case.status, case.call = end.status, _struck(end.calls, strike)
        seen = self.seen()
        case.is_done = seen == plain.after
        case.faults += self._faults_of_the_struck(end, case, seen, plain)
        again = self.run()
        allowed = {self._command.status, *(self._command.done_again if case.is_done else ())}
        if again.status not in allowed or "Traceback" in again.output:
            case.faults.append(f"again: status {again.status}: {again.output[-2000:]}")
        seen = self.seen()
        if seen != plain.after:
            case.faults.append(f"afterwards a reader sees {_changes(plain.after, seen)}")
        self._end(case)
        left = self.tree()
        case.leftovers = len(left.keys() - plain.left.keys())
        case.faults += [
            f"after the repetition: {text}"
            for text in differences(plain.left, left)
            if not text.startswith("also")
        ]
        self._let_leases_end()
        swept = self.run(GC)
        if swept.status:
            case.faults.append(f"gc: status {swept.status}: {swept.output[-1000:]}")
        case.faults += [f"after gc: {text}" for text in differences(plain.swept, self.tree())]
        return case

    def _faults_of_the_struck(
        self, end: End, case: Case, seen: dict[str, str], plain: Undisturbed
    ) -> Iterator[str]:
        if case.strike.errno or case.strike.process:
            if "Traceback" in end.output or not 0 <= end.status < TRACEBACK:
                yield f"status {end.status}: {end.output[-2000:]}"
            if end.status == self._command.status and not case.is_done:
                yield f"status {end.status}, but it is not done: {_changes(plain.after, seen)}"
        elif case.call is not None and end.status != KILLED:
            yield f"not killed but ended with {end.status}: {end.output[-1000:]}"
        for key, value in seen.items():
            if value not in (plain.before.get(key), plain.after.get(key)):
                yield f"at once a reader sees {key}: {value}"
        for key in plain.before.keys() & plain.after.keys():
            if key not in seen:
                yield f"at once a reader does not see {key}"

    def calls_of(self, plain: Undisturbed) -> list[Call]:
        """Return the calls to strike: all of them, or those on the shared file system."""
        if self._roots is None:
            return plain.calls
        shared = str(self._roots.resolve())
        return [call for call in plain.calls if call.path.startswith(shared)]

    def reset(self) -> None:
        """Lay out what the command acts on; on a shared file system in a folder of its own."""
        self._clear()
        self._copy(self._scratch / "prepared", self.places.path)
        if not self._is_inside:
            self._copy(self._scratch / "prepared-root", self.places.root)
            # A time that the client gave a folder, and did not send yet, would win over later ones.
            self._settle()

    def run(self, arguments: tuple[str, ...] = (), strike: Strike | None = None) -> End:
        """Run a command of trainfeed in a fork of this process."""
        record, output = self._scratch / "record", self._scratch / "output"
        record.unlink(missing_ok=True)

        def act() -> None:
            os.environ.update(self.places.environ)
            sys.argv = ["trainfeed", *(arguments or self._command.arguments)]
            arm(self._built, self.places.watched, record, strike or Strike())
            main()

        status = forked(act, output)
        return End(status, output.read_text(errors="replace"), read_record(record))

    def _begin(self, plain: Undisturbed) -> None:
        if self._observer is not None and self._roots is not None:
            root = self._other / self.places.root.relative_to(self._roots.resolve())
            self._observer.begin(root, self._name, plain.before, plain.after)
            self._is_observed = True

    def _end(self, case: Case) -> None:
        if self._is_observed:
            case.looks, wrong = self._observer.end()
            case.faults += [f"the reader on the other mount: {each}" for each in wrong]
            self._is_observed = False

    def _settle(self) -> None:
        """Let the client write its journal now; the other one would wait for its turn."""
        for folder, _, _ in os.walk(self.places.root):
            fd = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def seen(self) -> dict[str, str]:
        """Return what a reader of the publication root finds; that on the other mount, if any."""
        if self._is_observed:
            self._settle()
            return self._observer.seen()
        answer = self._scratch / "seen.json"
        self._fork(lambda: answer.write_text(json.dumps(dict(look(self.places, self._command)))))
        return json.loads(answer.read_text())

    def tree(self) -> Tree:
        """Return everything in the watched folders."""
        return tree_of(self.places.watched, self.places.root)

    def _let_leases_end(self) -> None:
        """Let the time pass for which a killed build keeps its versions."""
        for path in self.places.root.glob("*/_leases/*"):
            os.utime(path, (0, 0))

    @property
    def _is_inside(self) -> bool:
        return self.places.root.is_relative_to(self.places.path)

    def _warm(self) -> None:
        """Import what the command imports, so that its next forks need not."""
        names = self._scratch / "modules.json"

        def act() -> None:
            os.environ.update(self.places.environ)
            sys.argv = ["trainfeed", *self._command.arguments]
            try:
                main()
            except SystemExit:
                pass
            finally:
                loaded = [
                    name for name in sys.modules if name.startswith(("trainfeed.", "pyarrow."))
                ]
                names.write_text(json.dumps(loaded))

        forked(act, self._scratch / "output")
        for name in json.loads(names.read_text()):
            importlib.import_module(name)
        importlib.import_module("trainfeed.pipeline.functions.jobs")
        importlib.import_module("trainfeed.pipeline.workers._worker_main")
        importlib.import_module("trainfeed.cli.served_commands")

    def _fork(self, act) -> None:
        output = self._scratch / "look"
        status = forked(act, output)
        assert status == 0, output.read_text(errors="replace")

    def _clear(self) -> None:
        self._remove(self.places.path, self.places.root)
        if self._roots is not None:
            self._remove(self.places.root.parent)
            self._number += 1
            root = self._roots.resolve() / str(self._number) / "root"
            root.parent.mkdir()
            self.places = Places(self.places.path, root)

    @staticmethod
    def _remove(*folders: Path) -> None:
        for folder in folders:
            if folder.exists():
                shutil.rmtree(folder)

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target, symlinks=True, copy_function=_copied)


def _copied(source: str, target: str) -> None:
    """Copy a file with its times; a log file is the same file again, as its number is in plans."""
    if STORE in Path(source).parts:
        os.link(source, target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def kills(calls: list[Call]) -> list[Strike]:
    """Return SIGKILL at every call."""
    return [Strike(call.process, call.number) for call in calls]


def full_strikes(calls: list[Call]) -> list[Strike]:
    """Return a disk that is full from every tenth call on, and a quota met once between them."""
    full = [Strike(call.process, call.number, errno.ENOSPC, True) for call in calls[::10]]
    return full + [Strike(call.process, call.number, errno.EDQUOT) for call in calls[5::10]]


def _struck(calls: list[Call], strike: Strike) -> Call | None:
    for call in calls:
        if call.process != strike.process or call.number < strike.number:
            continue
        if not strike.errno or call.name == "refused":
            return call
    return None


def _changes(expected: dict[str, str], found: dict[str, str]) -> str:
    keys = sorted(expected.keys() | found.keys())
    return "; ".join(
        f"{key}: {expected.get(key)} is {found.get(key)}"
        for key in keys
        if expected.get(key) != found.get(key)
    )
