"""Random histories with people and retention at work, and with damaged boundary files.

Between two builds of a history, windows are retired, withdrawn, or built again; windows without a
record are skipped or refused. Or a boundary file is changed, and sealed again, so that no digest
shows it: the next build from it has to be refused, or to be right.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime

import numpy as np

from tests.model.builds import Builds
from trainfeed.core import canonical_json
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    SourceMissingError,
    WindowOpenError,
)
from trainfeed.pipeline.inputs.topics import TopicAbsence, TopicInputs

__all__ = ["Damaged", "Disturbed"]


class Disturbed(Builds):
    """Builds between which windows are retired, withdrawn and built again.

    Attributes:
        counts: What was done, and ``refused``: plans that were refused for their neighbours.
    """

    def __init__(self, project, history, *more):
        super().__init__(project, history, *more)
        self.counts = Counter()
        self._rng = np.random.default_rng([7, history.seed])
        self._withdrawn = {}
        self._is_over = False

    def attempt(self, window, now, *, allow_gap=None):
        """Build a window, and then do something to another one now and then."""
        super().attempt(window, now, allow_gap=allow_gap)
        if self._outcome.built and not self._is_over and self._rng.random() < 0.5:
            deed = self._rng.choice(["retire", "withdraw", "rebuild"])
            window = int(self._rng.choice(sorted(self._outcome.built)))
            getattr(self, f"_{deed}")(window, now)
            self.counts[str(deed)] += 1

    def close(self, window, now):
        """Build what has no version, with nothing in between."""
        self._is_over = True
        super().close(window, now)

    def _look(self, windows, interval, now):
        """Skip or refuse a window without a record if the specification says so."""
        if self._is_over:
            return
        spec, at = self._project.spec, datetime.fromtimestamp(now / 1000, UTC)
        source = TopicInputs(spec, self._env, windows, TopicAbsence(spec, interval, at))
        if source.skip() is not None:
            self._compare(interval, source.inputs(None), [])
            self.counts["skipped"] += 1
            raise WindowOpenError("skipped")

    def _retire(self, window, _):
        """Remove a window's version, and boundaries between windows without any version."""
        del self._outcome.built[window]
        self._withdrawn.pop(window, None)
        kept = {*self._outcome.built, *self._withdrawn}
        times = {time for each in kept for time in self._history.interval(each)}
        for path in self._files():
            at = datetime.strptime(path.stem, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            if int(at.timestamp()) * 1000 not in times:
                path.unlink()
                self.counts["files removed"] += 1

    def _withdraw(self, window, _):
        """Hide a window's version; what it recorded stays."""
        self._withdrawn[window] = self._outcome.built.pop(window)

    def _rebuild(self, window, now):
        """Build a window again if the topic still is the one that it was built from."""
        before = self._outcome.built[window]
        if self._history.incarnation(now).uuid == before.uuid:
            self._withdraw(window, now)
            super().attempt(window, now)
            self._outcome.built.setdefault(window, before)
            self._withdrawn.pop(window, None)

    def published(self):
        """Return the versions whose manifests are there; withdrawn ones are."""
        return self._withdrawn | self._outcome.built

    def _keep(self, window, published, built):
        super()._keep(window, published, built)
        self._withdrawn.pop(window, None)

    def _fail(self, window, now, error, *, closing):
        self.counts["refused"] += isinstance(error, ConflictError)
        if isinstance(error, SourceMissingError):
            self.counts["missing"] += 1
        else:
            super()._fail(window, now, error, closing=closing)

    def _files(self):
        return sorted((self._folder.path / "boundaries").rglob("*Z.json"))


class Damaged(Builds):
    """Builds between which one boundary file is changed, once, and comes back when it is noticed.

    Attributes:
        counts: ``damaged``, and how many of these were ``refused``.
    """

    def __init__(self, project, history, *more):
        super().__init__(project, history, *more)
        self.counts = Counter()
        self._rng = np.random.default_rng([8, history.seed])
        self._right, self._before = None, set()

    def attempt(self, window, now, *, allow_gap=None):
        """Change a file at some time, then build a window."""
        # The start of all time has no earlier window: nobody else knows where it was.
        places = (self._folder.path / "boundaries").rglob("*Z.json")
        files = sorted(path for path in places if path.stem[:4] != "1970")
        if files and not self.counts["damaged"] and self._rng.random() < 0.3:
            self._damage(files)
        super().attempt(window, now, allow_gap=allow_gap)
        if self._right is not None and self._noticed:
            self._noticed = False
            path, data = self._right
            path.unlink()
            # Without a published interval beside it the boundary is found again.
            if self._is_recorded(self._before):
                path.write_bytes(data)
            self._right = None
            self.counts["refused"] += 1
            super().attempt(window, now, allow_gap=allow_gap)

    def _damage(self, files):
        path = files[int(self._rng.integers(len(files)))]
        data = path.read_bytes()
        value = json.loads(data)
        del value["digest"]
        kind = str(self._rng.choice(["offset", "evidence", "partition", "other"]))
        if not self._changed(value, kind, files):
            return
        self._right, self._noticed = (path, data), False
        self._before = set(self._outcome.built)
        path.unlink()
        path.write_bytes(canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}")))
        self.counts["damaged"] += 1
        self.counts[kind] += 1

    def _changed(self, value, kind, files):
        """Change the content of a file; return whether another one came of it."""
        before = json.dumps(value["partitions"], sort_keys=True)
        if kind == "partition":
            del value["partitions"][max(value["partitions"], key=int)]
        elif kind == "other":
            other = json.loads(files[int(self._rng.integers(len(files)))].read_bytes())
            value["partitions"] = other["partitions"]
        else:
            number = str(self._rng.choice(sorted(value["partitions"])))
            found = value["partitions"][number]
            by = int(self._rng.choice([-20, -3, -1, 1, 3, 20]))
            found["offset"] = max(found["offset"] + by, 0)
            self._agree(found, keeps=kind == "evidence")
        return json.dumps(value["partitions"], sort_keys=True) != before

    @staticmethod
    def _agree(found, *, keeps):
        """Let the evidence of an offset agree with it, or take it away."""
        if not keeps:
            del found["evidence"]
            found["method"] = "scan"
            return
        offset = found["offset"]
        found["log_end"] = max(found["log_end"], offset + 1)
        found["method"] = found["evidence"]["method"] = "index"
        sides = {"left": offset - 1, "right": offset}
        for side, place in sides.items():
            pair = [place, 0] if place >= 0 else None
            found["evidence"][side] |= {"first": pair, "last": pair}

    def _is_recorded(self, windows):
        """Return whether one of some windows was built from the changed file."""
        at = datetime.strptime(self._right[0].stem, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        time = int(at.timestamp()) * 1000
        return any(time in self._history.interval(each) for each in windows)

    def _fail(self, window, now, error, *, closing):
        # What was built from the changed file makes it the right one.
        fresh = self._outcome.built.keys() - self._before
        is_refused = isinstance(error, ConfigError | ConflictError | FormatError)
        if self._right is None or self._is_recorded(fresh) or not is_refused:
            super()._fail(window, now, error, closing=closing)
        else:
            self._noticed = True
