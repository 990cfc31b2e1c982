"""The pool of worker processes: reused, replaced, gone with their parent, harmless to a fork."""

import errno
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from tests.unit.pipeline.test_kill import ROOT
from tests.unit.processes import LIMIT_S, is_running, until
from trainfeed.errors import EngineError, MemoryLimitError, PreprocessError
from trainfeed.pipeline.workers import pool as _engine

SLOW = """
import os
from pathlib import Path


def clicks(record, lookups):
    Path("MARK", str(os.getpid())).touch()
    while True:
        pass
"""

LEAVES = """
import subprocess
from pathlib import Path

START


def clicks(record, lookups):
    END
    return {"value": 1, "label": 1}
"""

pytestmark = pytest.mark.usefixtures("no_worker")


def workers():
    return {worker.pid for worker in _engine._idle}


def test_a_worker_serves_one_build_after_the_other(project):
    project.build()
    (pid,) = workers()
    project.build("2024-03-02")
    project.elsewhere("other").build()
    assert workers() == {pid}


def test_an_idle_worker_that_died_is_replaced(project):
    project.build()
    (pid,) = workers()
    os.kill(pid, signal.SIGKILL)
    # Until all of its threads have ended; the first may be a zombie before.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    project.build("2024-03-02")
    assert pid not in workers()


CHILD = """child = subprocess.Popen(["sleep", "600"])
Path("MARK", str(child.pid)).touch()"""
# A new session, and a parent that ends at once: nothing but the worker adopts what is left.
DAEMON = """shell = 'sleep 600 & touch "MARK/$!"'
subprocess.run(["sh", "-c", shell], start_new_session=True, check=True)"""
ENDS = ["pass", "1 / 0", "import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)"]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        *[(CHILD, end) for end in ENDS],
        *[(DAEMON, end) for end in ENDS],
        *[(DAEMON.replace("check=True", "check=True, env={}"), end) for end in ENDS[:2]],
    ],
)
def test_what_a_function_has_started_ends_with_its_worker(project, tmp_path, start, end):
    (marks := tmp_path / "marks").mkdir()
    code = LEAVES.replace("START", start).replace("MARK", str(marks)).replace("END", end)
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    with nullcontext() if end == "pass" else pytest.raises((EngineError, PreprocessError)):
        project.build()
    _engine.stop_workers()
    pids = [int(mark.name) for mark in marks.iterdir()]
    assert pids
    assert until(lambda: not any(map(is_running, pids)))


FEEDS = """
import subprocess
import sys

code = "kept = b'x' * (300 << 20); print(len(kept), flush=True); input()"
child = subprocess.Popen(
    [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
child.stdout.readline()


def clicks(record, lookups):
    while True:
        pass
"""


def test_memory_of_what_a_function_has_started_counts(project):
    project.edit("seed: 7", "seed: 7\nresources: {worker_memory_bytes: 300MiB}")
    (project.env.datasets / "clicks" / "preprocess.py").write_text(FEEDS)
    with pytest.raises(MemoryLimitError, match=r"above resources.worker_memory_bytes = 314572800"):
        project.build()


def test_results_do_not_depend_on_the_number_of_processes(project):
    project.build()
    for number in (2, 3):
        other = project.elsewhere(f"with-{number}")
        other.edit("seed: 7", f"seed: 7\nresources: {{processes: {number}}}")
        other.build()
        assert other.version().manifest.content_digest == project.version().manifest.content_digest
        assert other.version().manifest.ledger == project.version().manifest.ledger
        other.edit(f"\nresources: {{processes: {number}}}", "")


def test_tasks_at_the_same_time_give_equal_bytes(project):
    project.build()
    other = project.elsewhere("many")
    other.edit("seed: 7", "seed: 7\nresources: {processes: 2, records_per_task: 9}")
    other.build()
    assert other.version().manifest.content_digest == project.version().manifest.content_digest
    assert len(workers()) == 2


def test_an_error_in_one_of_many_tasks_ends_them_all(project):
    project.edit("seed: 7", "seed: 7\nresources: {processes: 2, records_per_task: 20}")
    code = "import os, signal\n\n\ndef clicks(record, lookups):\n    if record.source[-1] == '2':\n"
    code += "        os.kill(os.getpid(), signal.SIGKILL)\n    while True:\n        pass\n"
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    rows = [event(1, START_MS + i) for i in range(20)]
    project.record({p: [batch(rows if p in {0, 2} else [])] for p in range(3)})
    with pytest.raises(EngineError, match="SIGKILL at kafka:clicks/2"):
        project.build()
    assert _engine._busy == set()
    assert workers() == set()


def test_a_function_that_closes_its_output_keeps_nobody_busy(project, monkeypatch):
    silence = "if record.offset % 50 == 0:\n        with open(os.devnull, 'w') as nothing:\n"
    silence += "            [os.dup2(nothing.fileno(), number) for number in (1, 2)]\n"
    silence += "        time.sleep(0.02)"
    project.edit("from trainfeed", "import os\nimport time\n\nfrom trainfeed", "preprocess.py")
    project.edit("row = record.json()", f"{silence}\n    row = record.json()", "preprocess.py")
    looks, read_output = [], _engine.WorkerProcess.read_output

    def noted(worker):
        looks.append(worker)
        return read_output(worker)

    monkeypatch.setattr(_engine.WorkerProcess, "read_output", noted)
    project.build()
    project.build("2024-03-02")
    # About one for each report of a worker, and one for each time that it has no output any more.
    assert len(looks) < 30


def test_workers_that_were_started_before_one_could_not_be_are_not_lost(monkeypatch):
    new_worker, started = _engine.new_worker, []

    def scarce(**how):
        if started:
            raise OSError(errno.EAGAIN, "no more processes")
        started.append(new_worker(**how))
        return started[0]

    monkeypatch.setattr(_engine, "new_worker", scarce)
    with pytest.raises(OSError, match="no more processes"), _engine._leased(2):
        pass
    assert _engine._busy == set()
    assert _engine._idle == started
    _engine.stop_workers()
    started.clear()
    with pytest.raises(OSError, match="no more processes"):
        _engine.start_workers(2)
    assert _engine._idle == started


def open_files():
    return sorted(Path("/proc/self/fd").iterdir())


def test_a_worker_that_could_not_be_started_leaves_no_file_open(monkeypatch):
    def refused(*_, **__):
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr("subprocess.Popen", refused)
    before = open_files()
    with pytest.raises(OSError, match="no more processes"):
        _engine.WorkerProcess()
    assert open_files() == before


def build_in_a_process(project, tmp_path):
    mark = tmp_path / "mark"
    mark.mkdir()
    code = SLOW.replace("MARK", str(mark))
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    process = subprocess.Popen(
        [sys.executable, "-m", "trainfeed", "build", "clicks", "--interval", "2024-03-01"],
        env={
            "PYTHONPATH": str(ROOT / "include"),
            "TRAINFEED_ROOT": project.env.root,
            "TRAINFEED_LANDING": project.env.landing,
            "TRAINFEED_WORK": project.env.work,
            "TRAINFEED_KAFKA": f"recorded:{project.path / 'recorded'}",
            "TRAINFEED_DATASETS": str(project.env.datasets),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: list(mark.iterdir()) or process.poll() is not None)
    (path,) = mark.iterdir()
    return process, int(path.name)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_no_worker_outlives_its_parent(project, tmp_path, name):
    process, worker = build_in_a_process(project, tmp_path)
    assert is_running(worker)
    process.send_signal(getattr(signal, name))
    assert process.wait(LIMIT_S) != 0
    until(lambda: not is_running(worker))


def test_a_forked_child_leaves_the_workers_of_its_parent_alone(project):
    project.build()
    (pid,) = workers()
    child = os.fork()
    if not child:
        os._exit(len(_engine._idle))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    project.build("2024-03-02")
    assert workers() == {pid}
