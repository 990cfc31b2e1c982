"""What a command did: its end, what it printed, the fault points it passed, what it wrote."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname
from typing import Any, Final
from unittest import mock

from tests.sweep.project import Ended, Project
from tests.sweep.root import files_of
from trainfeed.core import faults

__all__ = ["Recorded", "Script", "recording"]

Step = dict[str, Any]

# An index that any command may write again, with the inodes of what it has seen for long enough.
_PASSED_OVER: Final = "STATUS.jsonl"
_LONGEST_TEXT: Final = 200_000
# Names of jobs, plans, actions and temporary files have digests and times of today in them.
_NAMED: Final = re.compile(
    r"20(?:2[5-9]|[3-9][0-9])-?[01][0-9](?:-?[0-3][0-9](?:T[0-9:.]+Z)?)?"
    r"|(?<![0-9A-Za-z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?<![0-9A-Za-z])[0-9a-f]{8,}(?![0-9A-Za-z])"
)


@dataclass
class Script:
    """The steps of a life in their order.

    Attributes:
        steps: One for each command, and for what was done without a command between two of them.
        part: What the steps belong to, as part of their names.
    """

    steps: list[Step] = field(default_factory=list)
    part: str = ""
    _files: dict[str, str] = field(default_factory=dict)

    def begin(self, part: str, project: Project) -> None:
        """Begin a part of the life, with the files that are there now."""
        self.part, self._files = part, dict(_files(project))

    def note(
        self, project: Project, name: str, ended: Ended | None = None, points: tuple[str, ...] = ()
    ) -> None:
        """Add a step, with the files that have another content since the last one."""
        now = dict(_files(project))
        changed = {key: text for key, text in now.items() if self._files.get(key) != text}
        gone = dict.fromkeys(self._files.keys() - now.keys())
        self._files = now
        if ended is None and not changed and not gone:
            return
        named = _NAMED.sub("#", _of_any_place(name, project))
        step: Step = {"step": f"{self.part}: {named}", "files": {**changed, **gone}}
        if ended is not None:
            step["status"] = ended.status
            step["out"] = _of_any_place(ended.out, project)
            step["messages"] = _of_any_place(ended.messages, project)
            step["points"] = list(points)
        self.steps.append(step)


_SCRIPTS: list[Script] = []


@contextmanager
def recording() -> Iterator[Script]:
    """Note what commands of ``Recorded`` projects do meanwhile."""
    _SCRIPTS.append(Script())
    try:
        yield _SCRIPTS[-1]
    finally:
        _SCRIPTS.pop()


class Recorded(Project):
    """A project each of whose commands is a step."""

    def run(self, *arguments: str) -> Ended:
        """Run a command in this process, and note what it did."""
        script = _SCRIPTS[-1]
        script.note(self, "without a command")
        points: list[str] = []
        with mock.patch.object(faults, "point", points.append):
            ended = super().run(*arguments)
        script.note(self, " ".join(arguments), ended, tuple(points))
        return ended


def _files(project: Project) -> Iterator[tuple[str, str]]:
    """Yield a name and the text, or the digest, of each file."""
    found: dict[str, list[Path]] = {}
    for name, path in files_of(project):
        if path.name == _PASSED_OVER:
            continue
        found.setdefault(_NAMED.sub("#", name), []).append(path)
    for name, paths in found.items():
        # Files whose names differ in their digests alone, in the order of their writing.
        paths.sort(key=lambda path: (path.stat().st_mtime_ns, path))
        for number, path in enumerate(paths):
            yield (f"{name} ({number})" if number else name), _content(path, project)


def _content(path: Path, project: Project) -> str:
    data = path.read_bytes()
    if len(data) <= _LONGEST_TEXT and b"\0" not in data:
        try:
            return _of_any_place(data.decode(), project)
        except UnicodeDecodeError:
            pass
    return f"sha256 {hashlib.sha256(data).hexdigest()}"


def _of_any_place(text: str, project: Project) -> str:
    """Return a text as another machine and another folder would have it."""
    return text.replace(str(project.path), "<home>").replace(f'"{gethostname()}"', '"<host>"')
