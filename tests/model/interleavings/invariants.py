"""What holds in every state, judged from the files alone, and after the last actor.

1. A generation that can be seen is whole, and has the bytes that it had first.
2. A number is never used again: what was removed does not come back, what was published stays or
   is marked as removed.
3. A change of a tag, once written, keeps its bytes; changes are numbered without a gap.
4. What is withdrawn or removed has its action in the history before.
5. Every failure is an error of trainfeed.
6. After the last actor: no version that a tag names is gone, unless the command that tagged it said
   so; nothing was published under another number after its content was withdrawn; readers get the
   newest generation that has no mark; nothing that is marked as removed is still there.
"""

from __future__ import annotations

import hashlib
import json
import re

from trainfeed.errors import TrainFeedError

__all__ = ["Invariants"]

_GENERATION = re.compile(r"g[0-9]{4,}")


class Invariants:
    """Judges the states of runs that begin with the state of now.

    Args:
        root: The folder of the data set in the publication root.
        interval: The interval that the actors work on.
    """

    def __init__(self, root, interval):
        self._versions = root / "versions" / interval
        self._tags, self._history, self._root = root / "tags", root / "history", root
        self._known: dict[str, dict[str, str]] = {}
        self._before = self._names()
        self._first = {name for name in self._before if _GENERATION.fullmatch(name)}

    def state(self, actors):
        """Judge one state."""
        names = self._names()
        for name in names:
            if _GENERATION.fullmatch(name):
                self._judge_version(name)
        for name in self._first - names:
            assert f"{name}.removed" in names, f"{name} is gone without a mark"
        self._judge_tags()
        self._judge_history(names)
        for actor in actors:
            error = actor.outcome.error if actor.is_over else None
            assert error is None or isinstance(error, TrainFeedError), f"{actor.name}: {error!r}"

    def end(self, actors):
        """Judge the state after the last actor."""
        names = self._names()
        visible = sorted(
            name
            for name in names
            if _GENERATION.fullmatch(name) and not {f"{name}.removed", f"{name}.withdrawn"} & names
        )
        self._judge_readable(visible)
        for mark in (name for name in names if name.endswith(".removed")):
            assert mark.partition(".")[0] not in names, f"{mark} and its files are both there"
        self._judge_withdrawn(names, visible, actors[0].journal)
        failed = {a.name for a in actors if a.is_over and (a.outcome.error or a.outcome.crashed)}
        for tag, named in self._current_tags():
            for name in named:
                is_there = name in names and f"{name}.removed" not in names
                told = any(each.startswith("tag") for each in failed)
                assert is_there or told, f"tag {tag} names {name}, which is gone"

    def _names(self):
        return (
            {path.name for path in self._versions.iterdir()} if self._versions.is_dir() else set()
        )

    def _judge_version(self, name):
        folder = self._versions / name
        files = {
            str(path.relative_to(folder)): _sha256(path.read_bytes())
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "BUILT.json"
        }
        first = self._known.setdefault(name, files)
        assert files == first, f"{name} has other files than at first: {sorted(files)}"
        manifest = (folder / "MANIFEST.json").read_bytes()
        sealed = (folder / "MANIFEST.sha256").read_text().strip() == _sha256(manifest)
        assert sealed, f"{name}: its manifest has another digest"
        listed = _listed(json.loads(manifest))
        found = {path: digest for path, digest in files.items() if not path.startswith("MANIFEST")}
        assert found == listed, f"{name} is not what its manifest lists"

    def _judge_tags(self):
        for folder in self._tags.iterdir() if self._tags.is_dir() else ():
            numbers = sorted(int(path.stem) for path in folder.glob("[0-9]*.json"))
            assert numbers == list(range(1, len(numbers) + 1)), f"{folder.name}: changes {numbers}"

    def _judge_history(self, names):
        done = " ".join(path.name for path in self._history.glob("*/*.json"))
        for name in names:
            for suffix, action in ((".withdrawn", "-withdraw-"), (".removed", "-prune-")):
                assert not name.endswith(suffix) or action in done, f"{name} is in no history"

    def _judge_readable(self, visible):
        pointer = self._versions / "CURRENT"
        text = pointer.read_text().strip() if pointer.exists() else None
        # CURRENT hints only: behind a name that is gone, readers take the newest.
        read = text if text in visible else max(visible, default=None)
        assert read == max(visible, default=None), f"readers get {read} of {visible}"

    def _judge_withdrawn(self, names, visible, journal):
        manifests = {name: self._manifest(name) for name in names if _GENERATION.fullmatch(name)}
        for mark in (name for name in names if name.endswith(".withdrawn")):
            number = mark.partition(".")[0]
            content = manifests.get(number, {}).get("content_digest")
            for other in visible:
                same = content is not None and manifests[other]["content_digest"] == content
                late = self._position(journal, other) > self._position(journal, mark)
                assert not (same and late), f"{other} is what {number} was, which is withdrawn"

    def _position(self, journal, name):
        """Return the place of the change that made a name: before, in, or after the run."""
        if name in self._before:
            return -1
        made = (n for n, call in enumerate(journal) if call.paths[-1].endswith(f"/{name}"))
        return max(made, default=len(journal))

    def _manifest(self, name):
        return json.loads((self._versions / name / "MANIFEST.json").read_bytes())

    def _current_tags(self):
        for folder in self._tags.iterdir() if self._tags.is_dir() else ():
            last = max(folder.glob("[0-9]*.json"), key=lambda path: int(path.stem), default=None)
            if last is not None:
                value = json.loads(last.read_bytes())
                if value["kind"] == "tag":
                    yield folder.name, [f"g{each[1]:04d}" for each in value["versions"]]


def _sha256(data):
    return hashlib.sha256(data).hexdigest()


def _listed(manifest):
    shards = [shard for split in manifest["splits"].values() for shard in split["shards"]]
    return {entry["name"]: entry["sha256"] for entry in (*manifest["files"], *shards)}
