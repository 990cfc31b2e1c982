"""The garbage collector rests in blocks, and is what it was before behind them."""

import gc
import os
import threading

import pytest

from trainfeed.core.garbage import collector_at_rest


@pytest.fixture(autouse=True)
def collects():
    gc.enable()
    yield
    gc.enable()


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_collector_is_behind_a_block_what_it_was_before(was_enabled):
    (gc.enable if was_enabled else gc.disable)()
    with collector_at_rest():
        assert not gc.isenabled()
        with collector_at_rest():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() is was_enabled


def test_it_goes_on_after_an_error():
    with pytest.raises(KeyError), collector_at_rest():
        raise KeyError
    assert gc.isenabled()


def test_it_goes_on_when_the_last_of_the_threads_is_done():
    inside, go_on = threading.Event(), threading.Event()
    seen = []

    def other():
        with collector_at_rest():
            inside.set()
            assert go_on.wait(30)
            seen.append(gc.isenabled())

    with collector_at_rest():
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(30)
    assert not gc.isenabled()
    go_on.set()
    thread.join()
    assert seen == [False]
    assert gc.isenabled()


@pytest.mark.parametrize("of_thread", [True, False])
def test_it_works_in_a_process_that_was_forked_meanwhile(of_thread):
    """Whether the block is that of a thread that the child does not have, or goes on there."""
    inside, go_on = threading.Event(), threading.Event()

    def other():
        with collector_at_rest():
            inside.set()
            assert go_on.wait(30)

    def fork():
        with collector_at_rest():
            if of_thread:
                return os.fork()
            child = os.fork()
            if not child and not gc.isenabled():
                os._exit(2)
            return child

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(30)
    child = fork()
    if not child:
        with collector_at_rest():
            is_resting = not gc.isenabled()
        os._exit(0 if is_resting and gc.isenabled() else 1)
    _, status = os.waitpid(child, 0)
    go_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert gc.isenabled()
