import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from services import _run
from services._process import Daemon, InstallError, ServiceError, stop_daemons
from tests.unit.processes import LIMIT_S, until


class Sleeper:
    """A service whose one daemon sleeps."""

    def __init__(self, home, *, reason=None, install_error=None):
        self.name = home.name
        self.daemon = Daemon(self.name, home)
        self.reason = reason
        self.install_error = install_error

    def unavailable(self):
        return self.reason

    def install(self):
        if self.install_error:
            raise InstallError(self.install_error)

    def start(self, *, fresh=False):  # noqa: ARG002
        if self.daemon.pid() is None:
            self.daemon.spawn(["sleep", "60"])

    def wait(self, timeout_s=60.0):  # noqa: ARG002
        assert self.daemon.pid()

    def status(self):
        return {self.name: self.daemon.pid()}

    def stop(self):
        stop_daemons([self.daemon])

    def kill(self, daemon):  # noqa: ARG002
        self.daemon.kill()

    def exports(self):
        return {f"TEST_{self.name.upper()}": "here"}


class Broken(Sleeper):
    """A service that dies while it starts."""

    def wait(self, timeout_s=60.0):  # noqa: ARG002
        raise ServiceError("it died")


@pytest.fixture
def services(tmp_path):
    services = Sleeper(tmp_path / "ran"), Sleeper(tmp_path / "idle")
    yield services
    for service in services:
        service.stop()


@pytest.fixture
def told():
    return []


def run(services, told, *command):
    return _run.run(services, command, fresh=False, tell=told.append)


def test_run_stops_what_it_started_and_leaves_what_ran(services, told):
    ran, idle = services
    ran.start()
    pid = ran.daemon.pid()

    assert run(services, told, "sh", "-c", "exit 7") == 7

    assert ran.daemon.pid() == pid
    assert idle.daemon.pid() is None
    assert len(told) == 1


def test_the_command_finds_the_services_by_variables(services, told, tmp_path):
    script = f'test "$TEST_RAN$TEST_IDLE" = herehere && touch {tmp_path}/seen'

    assert run(services, told, "sh", "-c", script) == 0
    assert (tmp_path / "seen").exists()


def test_a_command_that_a_signal_ended_has_the_status_of_a_shell(services, told):
    assert run(services, told, "sh", "-c", "kill -KILL $$") == 128 + signal.SIGKILL


def test_services_are_stopped_when_the_command_cannot_be_run(services, told):
    with pytest.raises(ServiceError, match="cannot be run"):
        run(services, told, "/nowhere/to/be/found")
    assert not any(service.daemon.pid() for service in services)


def test_services_are_stopped_when_one_of_them_does_not_start(services, told, tmp_path):
    broken = Broken(tmp_path / "broken")

    with pytest.raises(ServiceError, match="it died"):
        run([*services, broken], told, "true")
    assert not any(service.daemon.pid() for service in [*services, broken])


def test_signals_have_their_old_meaning_afterwards(services, told):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]

    run(services, told, "true")

    assert [signal.getsignal(number) for number in numbers] == before


def test_sigterm_ends_the_command_and_what_was_started(tmp_path):
    program = f"""
        from pathlib import Path
        from services import _run
        from {Sleeper.__module__.rpartition(".")[2]} import Sleeper
        _run.run([Sleeper(Path({str(tmp_path)!r}) / "idle")],
                 ["sh", "-c", "touch {tmp_path}/up; exec sleep 60"], fresh=False, tell=print)
    """
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], env={**os.environ, "PYTHONPATH": path}
    )
    until((tmp_path / "up").exists)
    process.terminate()

    assert process.wait(LIMIT_S) == 128 + signal.SIGTERM
    assert Sleeper(tmp_path / "idle").daemon.pid() is None


@pytest.mark.parametrize(
    "trouble", [{"reason": "no java"}, {"install_error": "no java"}], ids=["missing", "refused"]
)
def test_a_service_that_cannot_run_is_named_and_left_out_unless_required(trouble, told, tmp_path):
    services = [Sleeper(tmp_path / "lame", **trouble), Sleeper(tmp_path / "fine")]

    assert _run.available(services, require=False, tell=told.append) == services[1:]
    assert told == ["lame cannot run here, going on without: no java"]
    with pytest.raises(ServiceError, match="lame is required and cannot run here: no java"):
        _run.available(services, require=True, tell=told.append)
