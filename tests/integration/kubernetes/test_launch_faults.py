"""Whatever fails on the way to the API server, there is one live job, and one clear error if any.

Every test counts the jobs that the real server has with the identity of the launched one.
"""

from __future__ import annotations

import pytest

from services.kubernetes import IMAGE, USER
from tests.integration.kubernetes.cluster import until
from tests.integration.kubernetes.fault_proxy import Answer, DropReply, Hang, Reset
from trainfeed.errors import LaunchError
from trainfeed.training.jobs import JobState
from trainfeed.training.jobs.kubernetes import api as _api_calls
from trainfeed.training.jobs.kubernetes import api as _client

LATER = {"Retry-After": "1"}
FAULTS = {
    "500": Answer(500),
    "503": Answer(503),
    "429": Answer(429, LATER),
    "410": Answer(410),
    "timeout": Hang(),
    "reset": Reset(),
    "reply lost": DropReply(),
}
CALLS = {
    "create code": ("POST", "/configmaps"),
    "create service": ("POST", "/services"),
    "create job": ("POST", "/jobs"),
    "read job": ("GET", "/jobs/"),
    "list pods": ("GET", "/pods"),
}


@pytest.fixture(autouse=True)
def little_patience(monkeypatch):
    """A client that waits a second for an answer, so that a call that hangs costs no more."""
    monkeypatch.setattr(_client, "_TIMEOUT_S", (1.0, 1.0))


@pytest.fixture
def by_proxy(training, proxy):
    """Make a training whose launcher calls through the proxy."""
    return lambda **options: training(**options).set(kubeconfig=str(proxy.kubeconfig(USER)))


# The ranks do nothing: what counts is that they are started once, and what is said of them.
NOTHING = {"entry": None, "image": IMAGE, "command": ["true"]}


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_twice_is_repeated_and_the_job_is_made_once(by_proxy, proxy, call, fault):
    own = by_proxy(**NOTHING)
    proxy.inject(*CALLS[call], FAULTS[fault], times=2)
    now = own.finished(own.launch())
    assert (now.state, now.reason[:30]) == (JobState.FAILED, "all ranks ended well, and rank")
    assert proxy.unused == 0
    assert len(own.jobs()) == 1
    assert len(own.lab.pods(own.name)) == 2


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
def test_a_cancellation_that_fails_twice_is_repeated(by_proxy, proxy, fault):
    own = by_proxy(**{**NOTHING, "command": ["sleep", "1000"]})
    launched = own.launch()
    proxy.inject("DELETE", "/jobs/", FAULTS[fault], times=2)
    launched.launcher.cancel(launched.record)
    assert proxy.unused == 0
    assert own.finished(launched).state is JobState.CANCELLED
    until(lambda: not own.jobs() and not own.lab.pods(own.name))


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_stays_away_fails_the_launch_and_the_next_one_adopts(
    by_proxy, proxy, fault, monkeypatch
):
    own = by_proxy(**NOTHING)
    monkeypatch.setattr(_api_calls, "_CALLS", 2)
    proxy.inject("POST", "/jobs", FAULTS[fault], times=2)
    with pytest.raises(LaunchError, match="run the training again"):
        own.launch()
    assert len(own.jobs()) <= 1
    launched = own.launch()
    assert launched.verdict == "adopted"
    assert own.finished(launched).state is JobState.FAILED
    assert len(own.jobs()) == 1
    assert len(own.lab.pods(own.name)) == 2


@pytest.mark.parametrize("fault", ["429", "reply lost"])
def test_a_creation_that_fails_once_is_repeated_and_the_job_runs_once(by_proxy, proxy, fault):
    own = by_proxy(ranks=1)
    proxy.inject("POST", "/jobs", FAULTS[fault])
    assert own.train()["metrics"]["ranks"] == 1
    assert proxy.unused == 0
    assert len(own.jobs()) == 1
