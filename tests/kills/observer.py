"""A reader on another mount of the publication root, which looks all the time.

It is a process of its own, so that the kills do not wait for it, and asks and answers go through
two pipes. What it finds must be what was there before the command, or what is there afterwards.
"""

from __future__ import annotations

import json
import os
import select
import traceback
from pathlib import Path
from typing import Any

from tests.kills.look import look
from tests.kills.prepared import COMMANDS, Places

__all__ = ["Observer"]

PAUSE_S = 0.02


class Observer:
    """The reader; it ends with the process that made it."""

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._answers, told = os.pipe()
        # Its parent ends at once: it is nobody's child, and nobody waits for it.
        pid = os.fork()
        if not pid:
            if os.fork():
                os._exit(0)
            os.close(self._ask)
            os.close(self._answers)
            try:
                _serve(os.fdopen(asked), os.fdopen(told, "w"))
            except BaseException:  # noqa: BLE001 (it must not return into the harness)
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.waitpid(pid, 0)
        os.close(asked)
        os.close(told)
        self._told = os.fdopen(self._answers)

    def begin(self, root: Path, command: str, before: dict, after: dict) -> None:
        """Look at a root from now on."""
        self._asked({"root": str(root), "command": command, "expected": [before, after]})

    def seen(self) -> dict[str, str]:
        """Return what the reader sees now."""
        return self._asked("seen")

    def end(self) -> tuple[int, list[str]]:
        """Look no more; return the number of looks, and what was wrong."""
        looks, wrong = self._asked("end")
        return looks, wrong

    def _asked(self, question: Any) -> Any:
        os.write(self._ask, f"{json.dumps(question)}\n".encode())
        answer = self._told.readline()
        assert answer, "the reader has died"
        return json.loads(answer)


class _Watch:
    def __init__(self, question: dict[str, Any]) -> None:
        root = Path(question["root"])
        self._places, self._command = Places(root, root), COMMANDS[question["command"]]
        self._expected = question["expected"]
        self.looks, self.wrong = 0, set()

    def seen(self) -> dict[str, str]:
        return dict(look(self._places, self._command))

    def look(self) -> None:
        try:
            found = self.seen()
        except Exception:  # noqa: BLE001 (whatever a reader meets is a finding)
            self.wrong.add(traceback.format_exc()[-1500:])
            return
        self.looks += 1
        self.wrong |= {
            f"{key}: {value}"
            for key, value in found.items()
            if value not in [each.get(key) for each in self._expected]
        }
        before, after = self._expected
        self.wrong |= {f"not there: {key}" for key in before.keys() & after.keys() - found.keys()}


def _serve(asked, told) -> None:
    watch = None
    while True:
        if watch is not None and not select.select([asked], [], [], PAUSE_S)[0]:
            watch.look()
            continue
        line = asked.readline()
        if not line:
            return
        question = json.loads(line)
        answer: Any = None
        if question == "seen":
            answer = watch.seen()
        elif question == "end":
            watch.look()
            answer, watch = [watch.looks, sorted(watch.wrong)], None
        else:
            watch = _Watch(question)
        told.write(f"{json.dumps(answer)}\n")
        told.flush()
