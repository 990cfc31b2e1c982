"""Micro-batching, its bounds, the exchange of models, and the watch over an alias; no process."""

import asyncio
import threading
from dataclasses import replace

import pytest

from trainfeed.errors import NotFoundError, PredictionError
from trainfeed.prediction import ModelFacts, Outcome, OutcomeKind
from trainfeed.prediction.batcher import AliasWatch, BatchBounds, Batcher
from trainfeed.serving.server import Metrics, Refusal

FACTS = ModelFacts("m", "v0001", "", "clicks", (), (), "", {}, "", "", (), ())


class Doubling:
    """An engine that doubles, after its gate is open; odd numbers of records are kept."""

    def __init__(self, number=1):
        self.facts = replace(FACTS, version=f"v{number:04d}")
        self.is_able = True
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()
        self.closed = False
        self.at_work = threading.Event()

    def predict(self, records):
        assert not self.closed
        self.batches.append(list(records))
        self.at_work.set()
        assert self.gate.wait(60)
        if 13 in records:
            raise PredictionError("unlucky")
        if 14 in records:
            raise RuntimeError("an error of no class of ours")
        return [Outcome(OutcomeKind.PREDICTED, ({"double": 2 * each},)) for each in records]

    def revive(self):
        self.is_able = True

    def close(self):
        self.closed = True


def ran(engine, use, **bounds):
    """Run ``use(batcher, metrics)`` beside a batcher."""

    async def main():
        metrics = Metrics()
        batcher = Batcher(engine, BatchBounds(**{"delay_s": 0, **bounds}), metrics)
        task = asyncio.create_task(batcher.run())
        try:
            return await use(batcher, metrics)
        finally:
            engine.gate.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return asyncio.run(main())


def doubles(answer):
    return [outcome.predictions[0]["double"] for outcome in answer.outcomes]


async def until_at_work(engine):
    assert await asyncio.to_thread(engine.at_work.wait, 60)


def test_requests_that_wait_together_are_predicted_together_each_with_its_own_outcomes():
    engine = Doubling()
    engine.gate.clear()

    async def use(batcher, metrics):
        first = asyncio.create_task(batcher.predict([1], "anna"))
        await until_at_work(engine)
        others = [asyncio.create_task(batcher.predict([n, n + 1], "anna")) for n in (2, 4, 6)]
        await asyncio.sleep(0)
        engine.gate.set()
        answers = await asyncio.gather(first, *others)
        assert metrics.value("predictions_total") == 7
        return [doubles(answer) for answer in answers]

    assert ran(engine, use, records=4) == [[2], [4, 6], [8, 10], [12, 14]]
    assert engine.batches == [[1], [2, 3, 4, 5], [6, 7]]
    assert engine.closed


def test_a_full_queue_refuses_at_once_and_loses_nothing_that_waits():
    engine = Doubling()
    engine.gate.clear()

    async def use(batcher, metrics):
        waiting = [asyncio.create_task(batcher.predict([0], "anna"))]
        await until_at_work(engine)
        waiting += [asyncio.create_task(batcher.predict([n], f"caller {n}")) for n in range(1, 5)]
        await asyncio.sleep(0)
        refusals = []
        for n in range(40):
            with pytest.raises(Refusal) as caught:
                await batcher.predict([n], "another")
            refusals.append(caught.value)
        engine.gate.set()
        answers = await asyncio.gather(*waiting)
        assert metrics.value("prediction_refused_total") == 40
        assert {(each.status_code, each.error) for each in refusals} == {(503, "QueueFull")}
        assert int(refusals[0].headers["retry-after"]) >= 1
        return [doubles(answer) for answer in answers]

    assert ran(engine, use, records=2, queue=4) == [[0], [2], [4], [6], [8]]


@pytest.mark.parametrize(("bad", "error"), [(13, PredictionError), (14, RuntimeError)])
def test_one_request_that_fails_does_not_fail_the_others_of_its_batch(bad, error):
    engine = Doubling()
    engine.gate.clear()

    async def use(batcher, _):
        first = asyncio.create_task(batcher.predict([1], "anna"))
        await until_at_work(engine)
        others = [asyncio.create_task(batcher.predict([n], "anna")) for n in (2, bad, 4)]
        await asyncio.sleep(0)
        engine.gate.set()
        return await asyncio.gather(first, *others, return_exceptions=True)

    one, two, failed, four = ran(engine, use)
    assert [doubles(each) for each in (one, two, four)] == [[2], [4], [8]]
    assert isinstance(failed, error)
    assert engine.batches == [[1], [2, bad, 4], [2], [bad], [4]]


def test_a_request_that_was_given_up_is_not_predicted():
    engine = Doubling()
    engine.gate.clear()

    async def use(batcher, _):
        first = asyncio.create_task(batcher.predict([1], "anna"))
        await until_at_work(engine)
        gone = asyncio.create_task(batcher.predict([2], "anna"))
        last = asyncio.create_task(batcher.predict([3], "anna"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        engine.gate.set()
        return [doubles(await each) for each in (first, last)]

    assert ran(engine, use) == [[2], [6]]
    assert engine.batches == [[1], [3]]


def test_after_a_failed_batch_a_request_that_was_given_up_meanwhile_is_not_predicted_alone():
    engine = Doubling()

    async def use(batcher, _):
        engine.gate.clear()
        requests = [asyncio.create_task(batcher.predict([n], "anna")) for n in (2, 13, 4)]
        await until_at_work(engine)
        requests[0].cancel()
        await asyncio.sleep(0)
        engine.gate.set()
        return await asyncio.gather(*requests, return_exceptions=True)

    gone, failed, four = ran(engine, use)
    assert isinstance(gone, asyncio.CancelledError)
    assert isinstance(failed, PredictionError)
    assert doubles(four) == [8]
    assert engine.batches == [[2, 13, 4], [13], [4]]


def test_models_are_exchanged_between_batches_and_every_answer_names_its_own():
    before, after = Doubling(1), Doubling(2)
    before.gate.clear()

    async def use(batcher, _):
        first = asyncio.create_task(batcher.predict([1], "anna"))
        await until_at_work(before)
        second = asyncio.create_task(batcher.predict([2], "anna"))
        exchange = asyncio.create_task(batcher.exchange(after))
        await asyncio.sleep(0)
        assert not before.closed
        before.gate.set()
        answers = [await first, await second]
        await exchange
        answers.append(await batcher.predict([3], "anna"))
        return [each.facts.version for each in answers]

    versions = ran(before, use)
    assert versions[0] == "v0001"
    assert versions[-1] == "v0002"
    assert before.closed
    assert sorted(versions) == versions


def test_an_engine_whose_exchange_is_cancelled_is_closed_and_the_one_in_use_stays():
    before, after = Doubling(1), Doubling(2)
    before.gate.clear()

    async def use(batcher, _):
        first = asyncio.create_task(batcher.predict([1], "anna"))
        await until_at_work(before)
        exchange = asyncio.create_task(batcher.exchange(after))
        await asyncio.sleep(0)
        exchange.cancel()
        await asyncio.gather(exchange, return_exceptions=True)
        assert (after.closed, before.closed, exchange.cancelled()) == (True, False, True)
        before.gate.set()
        return doubles(await first)

    assert ran(before, use) == [2]


class Alias:
    """An alias whose version a test sets."""

    alias = "prod"

    def __init__(self):
        self.number = 1

    def resolve(self):
        if self.number is None:
            raise NotFoundError("the alias is damaged")
        return self.number


def test_the_alias_is_followed_and_a_version_that_cannot_be_opened_keeps_the_one_in_use():
    engine, alias = Doubling(1), Alias()
    opened = []

    async def load(number):
        opened.append(number)
        if number == 2:
            raise PredictionError("cannot be opened")
        return Doubling(number)

    async def use(batcher, metrics):
        watch = AliasWatch(alias, load, batcher, metrics, every_s=1)
        told = []
        for number in (1, 2, 2, 3, None, 1):
            alias.number = number
            await watch.look()
            refused = watch.to_json()["refused"]
            told.append((batcher.facts.version, refused and (refused["version"], refused["error"])))
        assert metrics.value("model_exchanges_total") == 2
        return told

    assert ran(engine, use) == [
        ("v0001", None),
        ("v0001", ("v0002", "PredictionError")),
        ("v0001", ("v0002", "PredictionError")),
        ("v0003", None),
        ("v0003", (None, "NotFoundError")),
        ("v0001", None),
    ]
    # The second look at the same version does not open it again at once.
    assert opened == [2, 3, 1]
    assert engine.closed


def test_one_caller_gets_half_of_the_queue_and_the_next_one_is_served():
    engine = Doubling()
    engine.gate.clear()

    async def use(batcher, metrics):
        first = asyncio.create_task(batcher.predict([0], "anna"))
        await until_at_work(engine)
        waiting = [asyncio.create_task(batcher.predict([n], "anna")) for n in (1, 2, 3, 4)]
        await asyncio.sleep(0)
        with pytest.raises(Refusal, match="QueueFull"):
            await batcher.predict([5], "anna")
        other = asyncio.create_task(batcher.predict([6], "bert"))
        await asyncio.sleep(0)
        engine.gate.set()
        return [doubles(each) for each in await asyncio.gather(first, *waiting, other)]

    assert ran(engine, use, records=2, queue=8) == [[0], [2], [4], [6], [8], [12]]


def test_a_batcher_that_has_ended_refuses_at_once_and_leaves_nobody_waiting():
    engine = Doubling()

    async def main():
        batcher = Batcher(engine, BatchBounds(delay_s=0), Metrics())
        task = asyncio.create_task(batcher.run())
        waiting = asyncio.create_task(batcher.predict([1], "anna"))
        batcher._next_batch = None
        await asyncio.gather(task, return_exceptions=True)
        for each in (waiting, batcher.predict([2], "anna")):
            with pytest.raises(Refusal, match="NoPredictions"):
                await each

    asyncio.run(main())


def test_an_engine_that_died_is_replaced_while_nobody_asks():
    engine = Doubling()
    engine.is_able = False

    async def use(batcher, metrics):
        await batcher.revive()
        return batcher.is_able

    assert ran(engine, use)
