"""The commands that look at a root and change it, and how their answers are compared."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any, Final

from tests.sweep.project import CLICKS, MODEL, VIEWS, Ended, Project, day
from tests.sweep.root import BUILT, NEXT
from trainfeed.errors import TrainFeedError
from trainfeed.readers import open_dataset

__all__ = ["COMMANDS", "Answers", "answers_of", "area_of", "published_in"]

_RANGE: Final = f"{day(2)}/{day(4)}"
# What a command depends on: c, v: files of a data set; m: trainings and models.
_READ: Final = ("read",)
COMMANDS: Final = (
    ("cvm", ("status", "--json")),
    ("cvm", ("ls", "--json")),
    ("c", ("show", f"{CLICKS}/{day(2)}", "--json")),
    ("c", ("head", f"{CLICKS}/{day(3)}", "-n", "2", "--json")),
    ("c", ("stats", f"{CLICKS}/{day(4)}", "--json")),
    ("c", ("quarantine", "ls", f"{CLICKS}/{_RANGE}", "--json")),
    ("c", ("tags", CLICKS, "--json")),
    ("c", ("tags", CLICKS, "base", "--history", "--json")),
    ("c", ("outdated", CLICKS, "--json")),
    ("v", ("outdated", VIEWS, "--json")),
    ("c", ("waivers", "ls", CLICKS, "--json")),
    ("c", ("leases", CLICKS, "--json")),
    ("c", ("history", CLICKS, "--json")),
    ("v", ("history", VIEWS, "--json")),
    ("v", ("uploads", "ls", VIEWS, "--json")),
    ("m", ("models", "ls", MODEL, "--json")),
    ("m", ("models", "ls", MODEL, "--removed", "--json")),
    ("m", ("models", "show", f"{MODEL}@prod", "--json")),
    ("m", ("models", "show", f"{MODEL}@candidate", "--json")),
    ("m", ("jobs", "ls", "--json")),
    ("cm", ("lineage", f"{MODEL}@prod", "--json")),
    ("c", ("withdraw", f"{CLICKS}/{day(3)}", "--why", "a doubt", "--dry-run", "--json")),
    ("cm", ("retire", f"{CLICKS}/{day(3)}", "--why", "old", "--dry-run", "--json")),
    ("cm", ("prune", CLICKS, "--dry-run", "--json")),
    ("v", ("prune", VIEWS, "--dry-run", "--json")),
    ("cv", ("gc", "--older-than", "0", "--dry-run")),
    ("cvm", _READ),
    ("v", ("uploads", "check", VIEWS, "--json")),
    ("c", ("build", f"{CLICKS}/{BUILT}", "--json")),
    ("c", ("build", f"{CLICKS}/{NEXT}", "--json")),
    ("c", ("build", f"{CLICKS}/{day(4)}", "--json")),
    ("c", ("build", f"{CLICKS}/{day(7)}", "--json")),
    ("v", ("build", f"{VIEWS}/{day(4)}", "--rebuild", "once more", "--json")),
    ("v", ("build", f"{VIEWS}/{day(5)}", "--json")),
    ("cm", ("train", CLICKS, "--interval", day(3), "--json")),
    ("m", ("models", "evaluate", f"{CLICKS}/{day(4)}", "--json")),
    ("m", ("models", "rollback", MODEL, "--why", "slowest", "--json")),
    ("m", ("models", "promote", f"{MODEL}/v0003", "--why", "better", "--json")),
    ("cv", ("status", "--json")),
    ("c", ("verify", CLICKS, "--json")),
    ("v", ("verify", VIEWS, "--json")),
    ("c", ("verify", f"{CLICKS}@base", "--json")),
    ("c", ("boundaries", "check", CLICKS, "--json")),
    ("m", ("models", "show", f"{MODEL}@prod", "--json")),
    ("cv", _READ),
)
_READINGS: Final = (
    (CLICKS, f"{day(2)}/{NEXT}"),
    (CLICKS, _RANGE),
    (f"{CLICKS}@base", None),
    (VIEWS, day(1)),
    (VIEWS, day(4)),
)
_AREAS: Final = (
    ("root/TRAINFEED", "cvm"),
    ("root/models", "m"),
    ("root/clicks/training", "m"),
    ("root/views", "v"),
    ("landing/_logs", "v"),
)
# Alike in no two runs: durations, identities and places of temporary files.
_UNLIKE: Final = re.compile(
    r'"(seconds|inode|modified_ns)": (\{[^}]*\}|[0-9.]+)'
    r"|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|process [0-9]+|[0-9.]+ (s|ms)\b|/tmp/[^ \"]+"
)
_BYTES: Final = re.compile(r'"bytes": [0-9]+,?')
_TIME: Final = re.compile(r"20[0-9]{2}-?[01][0-9]-?[0-3][0-9]T[0-9:.]+(Z|\+00:00)")
_CONTENT: Final = ("content_digest", "ledger", "inputs", "splits", "uploads", "gates")
Answers = dict[str, Ended]


def area_of(name: str) -> str:
    """Return what commands depend on a file, as letters."""
    return next((area for begin, area in _AREAS if name.startswith(begin)), "c")


def answers_of(project: Project, ended: datetime, area: str) -> Answers:
    """Return the answers of the commands of an area, without what differs between two runs.

    Args:
        project: The project, which the later ones of the commands change.
        ended: When the root was made; later times are of the commands.
        area: Letters of what the commands depend on.
    """
    found = {}
    for number, (letters, command) in enumerate(COMMANDS):
        if set(letters) & set(area):
            answer = _read(project) if command == _READ else project.run(*command)
            if command[0] == "gc":
                # The sizes of leftovers, damaged or not, are no answer.
                answer = Ended(answer.status, "", answer.messages)
            elif "--dry-run" in command:
                # Nor are those of what would be removed.
                answer = Ended(answer.status, _BYTES.sub("", answer.out), answer.messages)
            found[f"{number:02d} {' '.join(command)}"] = Ended(
                answer.status, _alike(answer.out, ended), _alike(answer.messages, ended)
            )
    return found


def published_in(project: Project) -> dict[str, Any]:
    """Return what is published of each interval, read by no reader of the library."""
    found = {}
    for interval in sorted(project.root.glob("*/versions/*")):
        for version in sorted(interval.glob("g[0-9][0-9][0-9][0-9]")):
            try:
                data = (version / "MANIFEST.json").read_bytes()
                digest = (version / "MANIFEST.sha256").read_text().strip()
            except (OSError, UnicodeDecodeError):
                continue
            # A damaged one is an error of readers, and not what a build has published.
            if hashlib.sha256(data).hexdigest() == digest:
                manifest = json.loads(data)
                found[f"{interval.parent.parent.name}/{interval.name}"] = {
                    name: manifest.get(name) for name in _CONTENT
                }
    return found


def _read(project: Project) -> Ended:
    """Read samples of both data sets as trainings do."""
    out = []
    for name, interval in _READINGS:
        try:
            opened = open_dataset(name, interval=interval, split="train", root=project.root)
            samples = [sorted((k, repr(v)) for k, v in each.items()) for each in opened.reader()()]
            digest = hashlib.sha256(repr(samples).encode()).hexdigest()
            out.append(f"{name} {opened.version} {opened.skipped} {digest}")
        except TrainFeedError as error:
            out.append(f"{name} expected otherwise: {type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - what no reader may raise is what is looked for
            return Ended(None, "", f"{type(error).__name__}: {error}")
    return Ended(0, "\n".join(out), "")


def _alike(text: str, ended: datetime) -> str:
    def shown(match: re.Match[str]) -> str:
        return "<now>" if _is_later(match[0], ended) else match[0]

    return _UNLIKE.sub("<unlike>", _TIME.sub(shown, text))


def _is_later(text: str, ended: datetime) -> bool:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return False
    return ended.replace(microsecond=0) <= time.astimezone(UTC) < datetime.now(UTC)
