"""The orders in which some actors can act on a root in a bucket, each with a folder of its own.

All that they share is the bucket, so an actor stops before each request, and nowhere else. Of all
schedules, those are run that make an actor stand at most so many times before a request that
another one may notice, and let one crash before or after a change.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
import shutil
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.model.interleavings.memory_bucket import MemoryBucket
from tests.model.interleavings.roots import INTERVAL, _checked, _made
from trainfeed.core.accounts import Decision
from trainfeed.errors import ConflictError, NotFoundError, TrainFeedError, WithdrawnError
from trainfeed.files.stores import Location
from trainfeed.files.stores import s3 as _s3
from trainfeed.pipeline.publish import publish
from trainfeed.upkeep.retention import Context, prune
from trainfeed.upkeep.withdrawal import Maker, restore, withdraw
from trainfeed.versions import bucket_root as _bucket_root
from trainfeed.versions import decision_log as _decision_log
from trainfeed.versions import state_folder as _state_folder
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.bucket_root import init_bucket_root
from trainfeed.versions.decision_files import decision_files, read_decision
from trainfeed.versions.layout import DatasetFolder
from trainfeed.versions.lease import hold_versions
from trainfeed.versions.state_folder import follow, make_state
from trainfeed.versions.tag import apply_change, propose_tag

__all__ = ["PLOTS", "BucketGround", "Plot", "Violation", "bucket_ground", "explore"]

ROOT = "s3://bucket/root"
SEED = 7
_HOME = "root/clicks"
_VERSIONS = f"{_HOME}/versions/{INTERVAL}"
# Nobody changes the content of these while they are shared.
_UNSHARED = ("/+files/", "root/TRAINFEED.json", ".trainfeed-folder")
# The folder of each actor; that of the builder has the staged version.
PLACES = ("first", "second", "third", "fourth", "fifth")
FOLLOWERS = (*PLACES, "before", "builder")
_REFUSALS = (ConflictError, NotFoundError, WithdrawnError)


class Violation(Exception):  # noqa: N818 - as of the explorer for folders
    """An invariant does not hold; the message has the schedule."""


class Crashed(BaseException):
    """Unwinds an actor that crashed."""


class _OneByOne:
    """In place of a pool of threads: an actor is one thread."""

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    map = staticmethod(map)


@dataclass(frozen=True)
class BucketGround:
    """A data set in a bucket before the actors begin: two generations, and a third to publish.

    Attributes:
        project: The data set; its folder has the staged third generation.
        same: What ``publish`` takes for it: the content of generation 2.
        folder: The folder of all state folders, which each run begins with.
        kept: A copy of it.
        bucket: The bucket.
        objects: What it holds at the beginning.
    """

    project: object
    same: object
    folder: Path
    kept: Path
    bucket: MemoryBucket
    objects: dict

    def put(self):
        """Bring all back to the beginning."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder, symlinks=True)
        self.bucket.objects = dict(self.objects)
        self.bucket.journal = []

    def env(self, actor):
        """The environment of an actor, whose folder follows the bucket."""
        return replace(self.project.env, root=str(self.folder / actor))


@contextmanager
def bucket_ground(path, monkeypatch):
    """Make the data set; the client of object stores is a bucket in memory meanwhile."""
    bucket = MemoryBucket()
    monkeypatch.setattr(_s3, "_package", lambda: bucket)
    monkeypatch.setattr(_s3, "_connect", lambda _: bucket)
    monkeypatch.setattr(_s3, "_PAUSES_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(_bucket_root, "probe_bucket", lambda _: None)
    for module in (_decision_log, _state_folder):
        monkeypatch.setattr(module, "ThreadPoolExecutor", _OneByOne)
    folder = path / "states"
    made = _made(folder / "run")
    init_bucket_root(Location.parse(ROOT))
    for name in FOLLOWERS:
        make_state(folder / name, Location.parse(ROOT), is_private=False)
    project = replace(made, env=replace(made.env, root=str(folder / "builder"), bucket=ROOT))
    project.build()
    project.edit('"label": 1', '"label": 2', "preprocess.py")
    project.build(rebuild="the label was wrong")
    same = _checked(project, rebuild="once more, for a colleague")
    for name in FOLLOWERS:
        follow(DatasetFolder(folder / name, "clicks"))
    shutil.copytree(folder, path / "kept", symlinks=True)
    yield BucketGround(project, same, folder, path / "kept", bucket, dict(bucket.objects))


# --- what people and tasks do


class Actors:
    """The calls; each is made in the folder of its actor."""

    def __init__(self, ground):
        self._ground = ground

    def publish(self, _env):
        # The third generation is staged in the folder of the builder.
        return publish(self._ground.same)

    def withdraw(self, env, who="ada", generation=2):
        maker = Maker(who, f"account of {who}", "the label is wrong")
        return withdraw(env, "clicks", INTERVAL, generation, maker)

    def withdraw_too(self, env):
        return self.withdraw(env, who="grace")

    def restore(self, env):
        maker = Maker("grace", "account of grace", "the label is right after all")
        return restore(env, "clicks", INTERVAL, 2, maker)

    def tag(self, env, generation=2):
        folder = DatasetFolder(Path(env.root), "clicks")
        follow(folder)
        asked, decision = f"{INTERVAL}/g{generation:04d}", Decision.now("for production")
        return apply_change(folder, propose_tag(folder, asked, "prod", decision))

    def tag_first(self, env):
        return self.tag(env, generation=1)

    def prune(self, env):
        return prune(Context.of(self._ground.project.spec, env, who="housekeeping"))

    def read_leased(self, env):
        """Once the lease is taken, all files can be read until it is released."""
        folder = DatasetFolder(Path(env.root), "clicks")
        with hold_versions(folder, [(INTERVAL, 1)], "to read"):
            place = BucketVersion.at(Location.parse(ROOT), "clicks", INTERVAL, 1)
            try:
                problems = list(place.problems())
            except TrainFeedError as error:
                problems = [error]
            assert not problems, f"a leased version cannot be read: {problems[0]}"


@dataclass(frozen=True)
class Plot:
    """Who acts at once, and what was done before."""

    acts: tuple[str, ...]
    before: tuple[str, ...] = ()


PLOTS = {
    "publisher, withdrawal": Plot(("publish", "withdraw")),
    "two withdrawals": Plot(("withdraw", "withdraw_too")),
    "withdrawal, restoration": Plot(("restore", "withdraw"), before=("withdraw",)),
    "publisher, restoration": Plot(("publish", "restore"), before=("withdraw",)),
    "two tags": Plot(("tag", "tag_first")),
    "tag, withdrawal": Plot(("tag", "withdraw")),
    "tag, retention": Plot(("tag_first", "prune")),
    "lease, retention": Plot(("read_leased", "prune")),
    "publisher, retention": Plot(("publish", "prune")),
    "two retentions": Plot(("prune", "prune")),
    "all at once": Plot(("publish", "withdraw", "tag_first", "prune", "read_leased")),
}


# --- one run: of all actors, only the one whose turn it is makes a request


@dataclass
class _Actor:
    name: str
    function: Callable
    at: object = None
    is_over: bool = False
    is_crashed: bool = False
    error: Exception | None = None
    dies: str = ""
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    back: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def start(self):
        self.thread = threading.Thread(target=self._run, daemon=True)
        _acting[self.thread] = self
        self.thread.start()
        self.back.acquire()

    def turn(self, dies=""):
        """Let it make its request, or crash before or after it."""
        self.dies = dies
        self.go.release()
        self.back.acquire()

    def stop(self, request, *, is_made):
        if is_made:
            if self.dies == "after":
                raise Crashed
            return
        if self.dies:
            raise Crashed  # what it does while it unwinds is not done
        self.at = request
        self.back.release()
        self.go.acquire()
        if self.dies == "before":
            raise Crashed

    def _run(self):
        try:
            self.function()
        except Crashed:
            self.is_crashed = True
        except Exception as error:  # noqa: BLE001 - judged by the invariants
            self.error = error
        self.is_over = True
        del _acting[self.thread]
        self.back.release()


_acting: dict[threading.Thread, _Actor] = {}


def _stop(request, *, is_made):
    actor = _acting.get(threading.current_thread())
    if actor is not None:
        actor.stop(request, is_made=is_made)


# --- the search


@dataclass
class Count:
    """What an exploration did."""

    schedules: int = 0
    turns: int = 0
    crashes: int = 0
    whole: bool = False


def explore(ground, plot, *, preemptions=1, crashes=1, schedules=None):
    """Run the schedules of a plot within bounds.

    Returns:
        The counts.

    Raises:
        Violation: An invariant does not hold.
    """
    logging.disable(logging.CRITICAL)
    count, left = Count(), [((), preemptions, crashes)]
    # Of many schedules, some of each kind: the same ones in each run.
    chance = random.Random(SEED)
    ground.bucket.stop = None
    try:
        while left:
            if count.schedules == schedules:
                return count
            count.schedules += 1
            _play(ground, plot, left.pop(chance.randrange(len(left))), left, count)
        count.whole = True
        return count
    finally:
        ground.bucket.stop = None
        logging.disable(logging.NOTSET)


def _play(ground, plot, task, left, count):
    """Run one schedule: choices of an actor and whether it crashes, then whoever can go on."""
    ground.put()
    calls = Actors(ground)
    for name in plot.before:
        getattr(calls, name)(ground.env("before"))
    judge = _Judge(ground)
    ground.bucket.journal = []
    actors = [_actor(calls, name, ground.env(PLACES[n])) for n, name in enumerate(plot.acts)]
    ground.bucket.stop, told = _stop, []
    try:
        for actor in actors:
            actor.start()
        for number, dies in _choices(actors, task, left):
            told.append(f"{actors[number].name}: {actors[number].at}{' ' + dies if dies else ''}")
            actors[number].turn(dies)
            count.turns += 1
            _told(told, judge.state, actors)
        ground.bucket.stop = None
        count.crashes += any(each.is_crashed for each in actors)
        for actor in actors:
            if actor.is_crashed:
                with suppress(*_REFUSALS):
                    actor.function()
        for name in FOLLOWERS:
            follow(DatasetFolder(ground.folder / name, "clicks"))
        _told(told, judge.end, actors)
    finally:
        ground.bucket.stop = None


def _actor(calls, name, env):
    return _Actor(name, lambda: getattr(calls, name)(env))


def _choices(actors, task, left):
    """Yield whose turn it is; the other turns that are possible there begin further schedules."""
    given, preemptions, crashes = task
    taken, current = [], None
    while able := [number for number, each in enumerate(actors) if not each.is_over]:
        ahead = current if current in able else able[0]
        choice = (ahead, "")
        if len(taken) < len(given):
            choice = given[len(taken)]
            assert choice[0] in able, "an actor made other requests than before"
        else:
            at, cost = actors[ahead].at, int(current in able)
            is_shared = not any(part in at.key for part in _UNSHARED)
            if preemptions >= cost and (is_shared or not cost):
                others = ((other, "") for other in able if other != ahead)
                left += [((*taken, other), preemptions - cost, crashes) for other in others]
            if crashes and at.changes:
                ends = ((ahead, dies) for dies in ("before", "after"))
                left += [((*taken, end), preemptions, crashes - 1) for end in ends]
        taken.append(choice)
        current = choice[0]
        yield choice


def _told(told, judge, actors):
    try:
        judge(actors)
    except AssertionError as error:
        raise Violation(f"{error}\n" + "\n".join(told)) from error


# --- what holds in every state of the bucket, and at the end


class _Judge:
    def __init__(self, ground):
        self._bucket = ground.bucket
        self._ground = ground
        self._entries: dict[str, bytes] = {}
        self._published: set[str] = set()

    def state(self, actors):
        """The log only grows; what can be seen is whole; what was published stays or is marked."""
        objects = self._bucket.objects
        log = {key: objects[key][0] for key in objects if key.startswith(f"{_HOME}/+decisions/")}
        assert self._entries.items() <= log.items(), "an entry of the log was changed, or is gone"
        self._entries = log
        numbers = sorted(int(Path(key).stem) for key in log if ".state." not in key)
        assert numbers == list(range(1, len(numbers) + 1)), f"the log has a gap: {numbers}"
        files, _ = self._log()
        there = {key.split("/")[-2] for key in objects if key.endswith("/MANIFEST.json")}
        for name in there:
            if f"versions/{INTERVAL}/{name}.removed" not in files:
                self._judge_whole(name)
        for name in self._published - there:
            assert f"versions/{INTERVAL}/{name}.removed" in files, f"{name} is gone without a mark"
        self._published |= there
        for actor in actors:
            error = actor.error
            assert error is None or isinstance(error, TrainFeedError), f"{actor.name}: {error!r}"

    def end(self, actors):
        self.state(actors)
        files, announced = self._log()
        told = {each.name for each in actors if each.error or each.is_crashed}
        names = {key.split("/")[-2] for key in self._bucket.objects if "MANIFEST.json" in key}
        for path, text in files.items():
            if path.startswith("tags/") and not path.endswith("LAST.json"):
                for _, generation, *_ in json.loads(text)["versions"]:
                    name = f"g{generation:04d}"
                    gone = f"versions/{INTERVAL}/{name}.removed" in files
                    is_told = any(each.startswith("tag") for each in told)
                    assert not gone or is_told, f"a tag names {name}, which is gone"
        done = " ".join(path for path in files if path.startswith("history/"))
        for path in files:
            for suffix, action in ((".withdrawn", "-withdraw-"), (".removed", "-prune-")):
                assert not path.endswith(suffix) or action in done, f"{path} is in no history"
        self._judge_withdrawn(files, announced, names, is_crashed=any(a.is_crashed for a in actors))
        for name in FOLLOWERS:
            folder = DatasetFolder(self._ground.folder / name, "clicks")
            mine = {path: read_decision(folder, path) for path in decision_files(folder)}
            assert mine == files, f"{name} does not have what the log has"

    def _judge_withdrawn(self, files, announced, names, *, is_crashed):
        """Nothing with the content of what is withdrawn was published after the withdrawal."""
        mark = files.get(f"versions/{INTERVAL}/g0002.withdrawn")
        is_visible = "g0003" in names and not any(
            f"versions/{INTERVAL}/g0003.{kind}" in files for kind in ("withdrawn", "removed")
        )
        if mark is None or not is_visible:
            return
        withdrawn_at = self._number_of(f"versions/{INTERVAL}/g0002.withdrawn")
        assert announced[f"{INTERVAL}/g0003"] < withdrawn_at, "g0003 was announced after it"
        if not is_crashed:
            puts = [key for what, key in self._bucket.journal if what == "put"]
            entry = f"{_HOME}/+decisions/{withdrawn_at:08d}.json"
            came = puts.index(f"{_VERSIONS}/g0003/MANIFEST.json")
            assert entry not in puts or came < puts.index(entry), (
                "g0003 is what g0002 was, which was withdrawn before its manifest"
            )

    def _number_of(self, path):
        return max(
            number for number, entry in enumerate(self._all_entries(), 1) if path in entry["files"]
        )

    def _all_entries(self):
        keys = sorted(key for key in self._entries if ".state." not in key)
        return [json.loads(self._entries[key]) for key in keys]

    def _log(self):
        files, announced = {}, {}
        for number, entry in enumerate(self._all_entries(), 1):
            files |= entry["files"]
            announced |= {name: number for name in entry["versions"] if name not in announced}
        return {path: text for path, text in files.items() if text is not None}, announced

    def _judge_whole(self, name):
        manifest = json.loads(self._bucket.objects[f"{_VERSIONS}/{name}/MANIFEST.json"][0])
        shards = [each for split in manifest["splits"].values() for each in split["shards"]]
        for entry in (*manifest["files"], *shards):
            key = f"{_VERSIONS}/{name}/+files/{entry['sha256']}/{entry['name']}"
            found = self._bucket.objects.get(key)
            assert found is not None, f"{name} lacks {entry['name']}"
            assert hashlib.sha256(found[0]).hexdigest() == entry["sha256"], f"{key} has other bytes"
