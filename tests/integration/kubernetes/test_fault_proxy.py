"""The proxy does what it says: otherwise every test through it would show nothing."""

from __future__ import annotations

import uuid

import pytest
import urllib3
from kubernetes import client, watch

from services.kubernetes import NAMESPACE, USER
from tests.integration.kubernetes.cluster import Account, indexed_job
from tests.integration.kubernetes.fault_proxy import Answer, DropReply, Hang, Reset, ServeEvents


@pytest.fixture
def user(proxy):
    """The account of the documented role, through the proxy and without tries of its own."""
    account = Account(proxy.kubeconfig(USER))
    account.api.rest_client.pool_manager.connection_pool_kw["retries"] = False
    return account


@pytest.fixture
def name():
    return f"test-{uuid.uuid4().hex[:10]}"


def _count(lab, name):
    selector = f"metadata.name={name}"
    return len(lab.admin.batch.list_namespaced_job(NAMESPACE, field_selector=selector).items)


def _create(user, name, **options):
    return user.batch.create_namespaced_job(NAMESPACE, indexed_job(name, ["true"]), **options)


def test_without_faults_calls_reach_the_server_and_are_remembered(lab, proxy, user, name):
    assert _create(user, name).metadata.name == name
    assert _count(lab, name) == 1
    (call,) = proxy.calls
    assert (call.method, call.met) == ("POST", "forwarded")


@pytest.mark.parametrize("status", [429, 500, 410])
def test_an_answer_is_given_once_and_the_server_is_not_asked(lab, proxy, user, name, status):
    proxy.inject("POST", "/jobs", Answer(status, {"Retry-After": "1"}))
    with pytest.raises(client.ApiException) as error:
        _create(user, name)
    assert (error.value.status, error.value.headers["Retry-After"]) == (status, "1")
    assert _count(lab, name) == 0
    assert proxy.unused == 0
    _create(user, name)
    assert _count(lab, name) == 1


def test_a_reset_call_never_reaches_the_server(lab, proxy, user, name):
    proxy.inject("POST", "/jobs", Reset())
    with pytest.raises(urllib3.exceptions.HTTPError):
        _create(user, name)
    assert _count(lab, name) == 0


def test_a_call_that_hangs_ends_with_the_patience_of_the_client(lab, proxy, user, name):
    proxy.inject("POST", "/jobs", Hang())
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        _create(user, name, _request_timeout=0.5)
    assert _count(lab, name) == 0


def test_a_dropped_reply_leaves_what_the_server_made(lab, proxy, user, name):
    proxy.inject("POST", "/jobs", DropReply())
    with pytest.raises(urllib3.exceptions.HTTPError):
        _create(user, name)
    assert _count(lab, name) == 1


def test_a_watch_is_relayed_event_by_event_or_served_from_a_list(lab, proxy, user, name):
    _create(user, name)
    selector = {"field_selector": f"metadata.name={name}", "timeout_seconds": 20}
    seen = watch.Watch()
    for event in seen.stream(user.batch.list_namespaced_job, NAMESPACE, **selector):
        found = event["object"]
        assert found.metadata.name == name
        if found.status.succeeded:
            seen.stop()
    proxy.inject("GET", "watch=", ServeEvents(({"type": "BOOKMARK", "object": {}},)))
    stream = watch.Watch().stream(user.batch.list_namespaced_job, NAMESPACE, **selector)
    assert next(stream)["type"] == "BOOKMARK"
