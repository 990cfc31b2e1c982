import os
import signal
import subprocess
import sys

import pytest

from services import _process
from services._process import Daemon, ServiceError, run_tool, stop_daemons, wait_until
from tests.unit.processes import LIMIT_S, is_running, until

SLEEPER = ["sleep", "60"]


@pytest.fixture
def daemon(tmp_path):
    daemon = Daemon("sleeper", tmp_path)
    yield daemon
    daemon.sweep()


def script(text):
    return [sys.executable, "-c", text]


def test_a_daemon_leads_its_own_session_and_another_object_finds_it(daemon):
    pid = daemon.spawn(SLEEPER)

    assert os.getsid(pid) == pid
    assert Daemon("sleeper", daemon.home).pid() == pid


def test_a_daemon_that_never_started_is_not_running_and_can_be_stopped(daemon):
    assert daemon.pid() is None
    assert daemon.started_at() is None
    stop_daemons([daemon])


def test_a_recycled_pid_is_not_ours_and_is_left_alone(daemon):
    stranger = subprocess.Popen(SLEEPER, start_new_session=True)
    try:
        daemon.record(stranger.pid)
        pid_file = daemon.home / "run" / "sleeper.pid"
        pid, started_ticks = pid_file.read_text().split()
        pid_file.write_text(f"{pid} {int(started_ticks) - 1}\n")

        assert daemon.pid() is None
        stop_daemons([daemon])
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_two_threads_may_notice_the_death_of_a_daemon(daemon, monkeypatch):
    daemon.spawn(["true"])
    daemon.kill()
    pid = daemon._recorded()[0]

    class Dead:
        def poll(self):
            del _process._CHILDREN[pid]  # by the other thread
            return 0

    monkeypatch.setitem(_process._CHILDREN, pid, Dead())
    assert daemon.pid() is None


def test_a_zombie_does_not_run(daemon):
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    daemon.record(child.pid)

    assert daemon.pid() is None
    child.wait()


def test_a_daemon_that_died_is_reported_with_the_end_of_its_log(daemon):
    daemon.spawn(script("raise SystemExit('the disk is full')"))

    with pytest.raises(ServiceError, match=r"sleeper is not running(.|\n)*the disk is full"):
        wait_until(lambda: False, [daemon], what="the service", timeout_s=LIMIT_S)


def test_waiting_too_long_is_reported_with_the_end_of_the_log(daemon):
    daemon.spawn(["sh", "-c", "echo still busy; exec sleep 60"])
    until(daemon.log_file.read_bytes)

    with pytest.raises(ServiceError, match=r"not usable after 0.1 s(.|\n)*still busy"):
        wait_until(lambda: False, [daemon], what="the service", timeout_s=0.1)


def test_one_that_ends_once_its_work_is_done_is_no_failure(daemon):
    done = daemon.home / "done"
    daemon.spawn(["touch", str(done)])

    wait_until(done.exists, [daemon], what="the service", timeout_s=LIMIT_S)


def test_the_log_of_the_start_before_is_kept(daemon):
    daemon.spawn(["echo", "first"])
    until(lambda: daemon.pid() is None)
    daemon.spawn(["echo", "second"])
    until(lambda: daemon.pid() is None)

    assert daemon.log_file.read_text() == "second\n"
    assert daemon.log_file.with_suffix(".log.1").read_text() == "first\n"
    assert daemon.log_file.stat().st_mode & 0o077 == 0


def test_a_killed_daemon_leaves_children_and_a_sweep_ends_them(daemon):
    daemon.spawn(["sh", "-c", "sleep 60 & echo $!; wait"])
    until(daemon.log_file.read_bytes)
    child = int(daemon.log_file.read_text())

    daemon.kill()
    assert daemon.pid() is None
    os.kill(child, 0)
    daemon.sweep()

    until(lambda: not is_running(child))


def test_one_that_ignores_its_signal_is_killed(daemon):
    ignore = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    daemon.spawn(script(f"{ignore}; time.sleep(60)"))
    until(daemon.log_file.read_bytes)

    stop_daemons([daemon], grace_s=0.1)

    assert daemon.pid() is None


def test_one_that_wants_to_be_asked_twice_is_asked_twice(daemon):
    patient = Patient("patient", daemon.home)
    patient.spawn(asked_for("SIGTERM", times=2))
    until(patient.log_file.read_bytes)

    stop_daemons([patient], grace_s=LIMIT_S, insist_s=0)

    assert patient.log_file.read_text().split() == ["ready", "asked", "asked"]


def test_the_signal_of_a_daemon_is_its_own(tmp_path):
    daemon = Daemon("careful", tmp_path, signal.SIGINT)
    daemon.spawn(asked_for("SIGINT", times=1))
    until(daemon.log_file.read_bytes)

    stop_daemons([daemon], grace_s=LIMIT_S)

    assert daemon.log_file.read_text().split() == ["ready", "asked"]


class Patient(Daemon):
    """Sends a signal and waits until it was taken: a second one before that would be lost."""

    def signal(self, number):
        if self.pid() is not None:
            told = self.log_file.read_bytes()
            super().signal(number)
            until(lambda: self.pid() is None or self.log_file.read_bytes() != told)


def asked_for(name, times):
    """A program that ends once a signal came so many times, however early."""
    block = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.{name}])"
    ask = f"signal.sigwait([signal.{name}]); print('asked', flush=True)"
    return script(f"{block}; print('ready', flush=True)\nfor _ in range({times}): {ask}")


def test_a_tool_that_fails_says_what_it_printed():
    with pytest.raises(ServiceError, match=r"making keys: sh ended with 3\nno room"):
        run_tool(["sh", "-c", "echo no room >&2; exit 3"], what="making keys")
    assert run_tool(["echo", "made"], what="making keys") == "made\n"
