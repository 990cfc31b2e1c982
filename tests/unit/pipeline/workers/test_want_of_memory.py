"""A process that the kernel ends for want of memory: the message names the setting that helps."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.unit.pipeline.test_kill import ROOT
from tests.unit.pipeline.test_kill import warm_command as command
from trainfeed.core import memory_group
from trainfeed.core.faults import VARIABLE
from trainfeed.errors import EngineError
from trainfeed.pipeline.workers import pool as _engine

# An interpreter with pyarrow and a worker beside it need less, the function below takes more.
LIMIT_BYTES = 600 << 20
SETTINGS = ("resources.processes or resources.memory_bytes in dataset.yaml",)
HEAD = "import os, signal\n\n\ndef clicks(record, lookups):\n"
KILLED = "    os.kill(os.getpid(), signal.SIGKILL)\n"
HOARD = """    if record.offset == 5:
        hoard = [bytearray(b"x" * (1 << 20)) for _ in range(1500)]
    return {"value": 1, "label": 1}
"""
MANY = "seed: 7\nresources: {processes: 2, records_per_task: 9}"

pytestmark = pytest.mark.usefixtures("no_worker")


@pytest.fixture
def counter(tmp_path, monkeypatch):
    """The file in which a kernel of the second version counts, with what it counts."""
    (tmp_path / "self").write_text("0::/\n")
    (tmp_path / "memory.max").write_text("max\n")
    monkeypatch.setattr(memory_group, "_GROUPS", tmp_path / "self")
    monkeypatch.setattr(memory_group, "_ROOT", tmp_path)
    return tmp_path / "memory.events"


def function(project, code):
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)


def counting(counter):
    """Code that counts a kill as the kernel does, before the process has ended."""
    return f"    open({str(counter)!r}, 'w').write('oom_kill 8\\n')\n"


def test_a_worker_ended_for_want_of_memory_says_so_with_record_and_setting(project, counter):
    counter.write_text("oom_kill 7\n")
    function(project, HEAD + counting(counter) + KILLED)
    with pytest.raises(EngineError) as caught:
        project.build()
    text = str(caught.value)
    assert "was ended by SIGKILL, by the kernel for want of memory at kafka:clicks/" in text
    assert all(word in text for word in (*SETTINGS, "nothing was published"))


def test_where_nobody_counts_a_kill_is_probably_for_want_of_memory(project, counter):
    function(project, HEAD + KILLED)
    with pytest.raises(EngineError, match="SIGKILL, probably by the kernel for want of memory"):
        project.build()


def test_a_kill_that_the_kernel_did_not_count_is_another_ones(project, counter):
    counter.write_text("oom_kill 7\n")
    function(project, HEAD + KILLED)
    with pytest.raises(EngineError) as caught:
        project.build()
    assert "was ended by SIGKILL at kafka:clicks/" in str(caught.value)
    assert "want of memory" not in str(caught.value)


def test_another_signal_is_not_for_want_of_memory(project, counter):
    counter.write_text("oom_kill 7\n")
    function(project, HEAD + counting(counter) + KILLED.replace("SIGKILL", "SIGTERM"))
    with pytest.raises(EngineError) as caught:
        project.build()
    assert "want of memory" not in str(caught.value)


@pytest.mark.parametrize("stage", ["ingest", "convert"])
def test_a_stage_whose_worker_had_no_memory_names_the_setting(
    project, tmp_path, monkeypatch, counter, stage
):
    point = {"ingest": "ingest.after_batch", "convert": "convert.after_block"}[stage]
    project.edit("seed: 7", MANY)
    monkeypatch.setenv(VARIABLE, f"{point}:kill:{tmp_path}")
    with pytest.raises(EngineError) as caught:
        project.build()
    text = str(caught.value)
    assert f"of stage {stage} of data set 'clicks' was ended by SIGKILL, probably" in text
    assert all(word in text for word in SETTINGS)
    assert "landing files are kept" in text


def test_a_worker_that_we_have_ended_is_not_said_to_lack_memory(counter):
    counter.write_text("oom_kill 7\n")
    with _engine._leased(1) as (worker,):
        worker.kills = memory_group.KillCount()
        counter.write_text("oom_kill 8\n")
        worker.interrupt()
        assert worker.death().for_want_of_memory is False


@pytest.fixture
def small_group():
    """A memory control group below that of this process, with little memory."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    groups = {c: path for _, c, path in (line.split(":", 2) for line in lines)}
    base = Path("/sys/fs/cgroup/memory") / groups.get("memory", "/").lstrip("/")
    group = base / f"trainfeed-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError:
        pytest.fail("this account may make no memory control group of version 1 here")
    try:
        (group / "memory.limit_in_bytes").write_text(str(LIMIT_BYTES))
        yield group
    finally:
        group.rmdir()


def test_a_build_whose_main_process_was_killed_is_told_of_by_the_next(project):
    assert command(project, "check.start").returncode == -9
    said = command(project).stderr
    assert "WARNING the last attempt at build of clicks/2024-03-01, begun at" in said
    assert ", was killed: " in said
    assert command(project).stderr == ""


def build_in(group, project, before="pass"):
    """Build in a process of a control group; ``before`` is done in it first."""
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'include'}:{ROOT}",
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_LANDING": project.env.landing,
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_DATASETS": str(project.env.datasets),
        "TRAINFEED_KAFKA": f"recorded:{project.path / 'recorded'}",
    }
    join = f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')"
    code = f"import runpy; {join}; {before}; runpy.run_module('trainfeed', run_name='__main__')"
    command = [sys.executable, "-c", code, "build", "clicks", "--interval", "2024-03-01"]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.control_group
def test_a_real_kernel_out_of_memory_is_told_with_the_setting(project, small_group):
    function(project, HEAD + HOARD)
    ended = build_in(small_group, project)
    said = ended.stdout + ended.stderr
    assert ended.returncode not in (0, -9), said
    assert "was ended by SIGKILL, by the kernel for want of memory at kafka:clicks/" in said
    assert all(word in said for word in SETTINGS)


@pytest.mark.control_group
def test_a_main_process_that_a_real_kernel_killed_is_told_of_by_the_next(project, small_group):
    hoard = "check.check = lambda *_: [bytearray(b'x' * (1 << 20)) for _ in range(1500)]"
    ended = build_in(small_group, project, f"from trainfeed.pipeline import check; {hoard}")
    assert ended.returncode == -9, ended.stderr
    ended = build_in(small_group, project)
    assert ended.returncode == 0, ended.stderr
    assert "since then the kernel has ended a process of this control group" in ended.stderr
    assert all(word in ended.stderr for word in SETTINGS)
