"""The routes of a master, asked without a socket, and its look at the queue every second."""

import asyncio

import pytest

from tests.unit.serving.dispatch.queues import DIGEST, Master, Trainer
from tests.unit.serving.server.guarded import ask
from trainfeed.serving.dispatch import master as _master
from trainfeed.serving.dispatch.master import _Watch, make_master
from trainfeed.serving.server import ServerSettings, new_token

BEYOND = 2**63
ASKED = {"data": DIGEST, "pass_number": 0, "trainer": "0" * 32, "number": 1}


@pytest.fixture
def master(tmp_path):
    master = Master(tmp_path / "state.sqlite", passes=1)
    yield master
    master.queue.close()


@pytest.fixture
def asked(master, tmp_path):
    """Ask the master, and return status and JSON."""
    token = new_token(tmp_path / "tokens.txt", "anna", scopes="*")
    settings = ServerSettings(tmp_path / "tokens.txt", audit_log=tmp_path / "audit")
    app = make_master(master.queue, settings, _Watch(master.queue, 0.0))

    def ask_it(**fields):
        answer = ask(app, token, "POST", "/ask", json={**ASKED, **fields})
        return answer.status_code, answer.json()

    return ask_it


@pytest.mark.parametrize(
    "fields",
    [
        {"number": BEYOND},
        {"pass_number": BEYOND},
        {"finished": [{"task": BEYOND, "epoch": 1}]},
        {"held": [{"task": 0, "epoch": BEYOND}]},
        {"failed": [{"task": BEYOND, "epoch": 1, "reason": "torn"}]},
    ],
)
def test_a_number_that_the_state_cannot_hold_is_refused(asked, fields):
    status, found = asked(want=1, **fields)
    assert (status, found["error"]) == (422, "InvalidRequest")
    assert asked(want=1, number=BEYOND - 1)[0] == 200


def test_a_request_for_the_pass_after_the_last_is_answered_with_the_end(master, asked):
    trainer = Trainer(master)
    trainer.ask(finished=trainer.lease(4))
    for number, want in enumerate((1, 0), start=1):
        status, found = asked(pass_number=1, want=want, number=number)
        assert (status, found["state"], found["leases"]) == (200, "ended", [])
        assert (found["report"]["pass_number"], found["report"]["done"]) == (0, 4)


class Commits:
    """Operations without a thread; the first one fails."""

    def __init__(self, queue, error):
        self.queue = queue
        self.error = error

    async def run(self, operation):
        error, self.error = self.error, None
        if error is not None:
            raise error
        with self.queue.transaction():
            return operation()


def test_a_look_that_fails_is_logged_and_the_next_one_sees_the_end(master, monkeypatch, caplog):
    monkeypatch.setattr(_master, "_LOOK_SECONDS", 0)
    watch = _Watch(master.queue, 0.0)
    trainer = Trainer(master)
    trainer.ask(finished=trainer.lease(4))

    async def look():
        looking = asyncio.create_task(watch.look(Commits(master.queue, OverflowError("odd"))))
        for _ in range(10):
            await asyncio.sleep(0)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)

    asyncio.run(look())
    assert watch.is_over()
    assert watch.seen.current.done == 4
    assert "OverflowError: odd" in caplog.text
