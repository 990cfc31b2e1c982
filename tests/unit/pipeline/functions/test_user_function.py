"""Faults of a preprocessing function: one error that names the function, the place and a remedy."""

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from trainfeed.errors import ConfigError, EngineError, MemoryLimitError, PreprocessError
from trainfeed.pipeline.workers import pool as _engine

FIFTH = "    if record.offset == 5:\n        "
GOOD = '\n    return {"value": 1, "label": 1}\n'


@pytest.fixture
def misbehave(project):
    """Build with a function that does ``what`` at the record of offset 5."""
    project.record({0: [batch([event(i, START_MS + i) for i in range(20)])]})

    def misbehave(what, *, resources="", head=""):
        if resources:
            project.edit("seed: 7", f"seed: 7\nresources: {{{resources}}}")
        code = (
            f"import os, signal, sys\n{head}\n\ndef clicks(record, lookups):\n{FIFTH}{what}{GOOD}"
        )
        (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
        return project.build()

    yield misbehave
    assert not project.folder.interval("2024-03-01").exists()
    assert len(list(Path(project.env.landing).rglob("*.arrow"))) == 1
    assert _engine._busy == set()


def told(caught, *words):
    text = str(caught.value)
    for word in ("preprocess:clicks of data set 'clicks'", "nothing was published", *words):
        assert word in text
    assert "landing files are kept" in text


AT = "kafka:clicks/0 offset 5"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("raise ValueError('odd')", "raised ValueError: odd"),
        ("1 / 0", "raised ZeroDivisionError"),
        ("sys.exit(3)", "raised SystemExit: 3"),
        ("raise KeyboardInterrupt", "raised KeyboardInterrupt: "),
        ("import asyncio; raise asyncio.CancelledError('late')", "raised CancelledError: late"),
        ("return 7", "returned a int"),
        ("return [1]", "returned a list"),
        ("return {'value': 1}", "'label'"),
        ("return {'value': [1, 2], 'label': 1}", "'value'"),
        ("return {'value': 1, 'label': 'x'}", "'label'"),
        ("return {'value': 1, 'label': 2**80}", "outside"),
        ("return {'value': 1, 'label': 1, 'more': 1}", "'more'"),
        ("clicks(record, lookups)", "RecursionError"),
    ],
)
def test_what_it_raises_or_returns_is_told_with_the_record(misbehave, what, words):
    with pytest.raises(PreprocessError) as caught:
        misbehave(what)
    told(caught, words, AT)


UNPRINTABLE = """
class Unprintable(Exception):
    def __str__(self):
        raise KeyError("no text")
"""


def test_an_exception_that_cannot_be_printed_is_told_with_the_record(misbehave):
    with pytest.raises(PreprocessError) as caught:
        misbehave("raise Unprintable", head=UNPRINTABLE)
    told(caught, "raised Unprintable: (its text cannot be shown: __str__ raised KeyError)", AT)


def test_a_forked_child_that_returns_is_told_with_the_record(misbehave):
    with pytest.raises(PreprocessError) as caught:
        misbehave("child = os.fork()\n        child and os.waitpid(child, 0)")
    told(caught, "forked, and the child returned from it", AT, "os._exit")


def test_a_child_that_c_code_forks_is_told_at_the_end_of_its_batch(misbehave):
    """Python does not notice such a fork, and the child goes on with the next records."""
    fork = "child = ctypes.CDLL(None).fork()\n        child and os.waitpid(child, 0)"
    with pytest.raises(PreprocessError) as caught:
        misbehave(fork, head="import ctypes")
    told(caught, "forked, and the child returned from it", "kafka:clicks/0 offset 19", "os._exit")


def test_a_forked_child_that_raises_is_told_with_the_record(misbehave):
    what = "child = os.fork()\n        if not child: 1 / 0\n        os.waitpid(child, 0)"
    with pytest.raises(PreprocessError) as caught:
        misbehave(what)
    told(caught, "raised ZeroDivisionError", AT)


def test_a_forked_child_that_ends_in_the_function_is_no_fault(project):
    project.record({0: [batch([event(i, START_MS + i) for i in range(20)])]})
    fork = "child = os.fork()\n        child or os._exit(0)\n        os.waitpid(child, 0)"
    code = f"import os\n\n\ndef clicks(record, lookups):\n{FIFTH}{fork}{GOOD}"
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    assert project.build()["samples"] == 20


def test_a_function_that_leaves_its_process_is_told_with_status_and_record(misbehave):
    with pytest.raises(PreprocessError) as caught:
        misbehave("print('last words', flush=True); os._exit(7)")
    told(caught, "ended its process with status 7", AT, "last words", "[0, 20)")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_a_process_that_is_killed_is_told_with_signal_and_record(misbehave, name):
    with pytest.raises(EngineError) as caught:
        misbehave(f"os.kill(os.getpid(), signal.{name})")
    told(caught, f"was ended by {name}", AT)


@pytest.mark.parametrize("loop", ["while True: pass", "sum(iter(int, 1))"])
def test_a_loop_ends_with_the_time_limit_and_shows_where_it_was(
    misbehave, tmp_path, monkeypatch, loop
):
    mark = tmp_path / "looping"
    # An hour has passed once the function is in its loop, and no sooner.
    clock = SimpleNamespace(monotonic=lambda: 3600.0 * mark.exists())
    monkeypatch.setattr(_engine, "time", clock)
    what = f"open({str(mark)!r}, 'w').close()\n        {loop}"
    with pytest.raises(PreprocessError) as caught:
        misbehave(what, resources="time_limit: 30m")
    told(caught, "resources.time_limit = 1800 s", AT, "preprocess.py", "in clicks")


def test_a_function_that_eats_memory_is_ended(misbehave):
    hog = "hog = []\n        while True: hog.append(b'x' * (8 << 20) + os.urandom(1))"
    with pytest.raises(MemoryLimitError) as caught:
        misbehave(hog, resources="worker_memory_bytes: 256MiB")
    told(caught, "resources.worker_memory_bytes = 268435456", AT)


def test_what_it_prints_is_logged_up_to_a_bound_and_breaks_nothing(project, caplog):
    code = "import sys\n\n\ndef clicks(record, lookups):\n    print('x' * 9_999)\n"
    code += "    sys.stderr.write('y' * 9_999)" + GOOD
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    with caplog.at_level(logging.INFO):
        assert project.build()["samples"] == 183
    printed = [r.getMessage() for r in caplog.records if "printed" in r.getMessage()]
    assert printed[0].startswith("preprocess:clicks printed: xxx")
    assert 60_000 < sum(map(len, printed)) < 80_000
    assert any("prints too much" in r.getMessage() for r in caplog.records)


def test_a_missing_function_is_refused(project):
    (project.env.datasets / "clicks" / "preprocess.py").write_text("x = 1\n")
    with pytest.raises(ConfigError, match="expected a function 'clicks'"):
        project.build()


def test_a_module_that_ends_its_process_is_told_as_one(project):
    (project.env.datasets / "clicks" / "preprocess.py").write_text(
        "import os\nos._exit(4)\n\n\ndef clicks(record, lookups):\n    pass\n"
    )
    with pytest.raises(
        PreprocessError, match="ended its process with status 4 while it was loaded"
    ):
        project.build()


def test_a_build_goes_on_after_all_that(misbehave, project):
    with pytest.raises(PreprocessError):
        misbehave("os._exit(1)")
    other = project.elsewhere("other")
    code = "def clicks(record, lookups):" + GOOD
    (other.env.datasets / "clicks" / "preprocess.py").write_text(code)
    assert other.build()["samples"] == 20


@pytest.mark.parametrize("what", ["raise ValueError('odd')", "os._exit(1)"])
def test_a_mended_function_builds_from_what_has_landed(project, what):
    code = f"import os\n\n\ndef clicks(record, lookups):\n{FIFTH}"
    module = project.env.datasets / "clicks" / "preprocess.py"
    module.write_text(f"{code}{what}{GOOD}")
    with pytest.raises(PreprocessError):
        project.build()
    module.write_text(f"{code}pass{GOOD}")
    report = project.build()
    assert (report["verdict"], report["source_reads"], report["samples"]) == ("built", 0, 183)


def test_batches_are_told_with_their_offsets(project):
    project.edit("input: record", "input: batch")
    code = "import os\n\n\ndef clicks(batch, lookups):\n    os._exit(2)\n"
    (project.env.datasets / "clicks" / "preprocess.py").write_text(code)
    project.record({0: [batch([event(i, START_MS + i) for i in range(20)], first=7)]})
    with pytest.raises(
        PreprocessError, match=r"status 2 in the batch of kafka:clicks/0 offsets 7 to 26"
    ):
        project.build(allow_gap="starts at 7")
