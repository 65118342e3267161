"""The local engine's answers: values, errors, a process that is killed, what is remembered, and places in the queue."""

import os
import pickle
import signal
import threading
import time
from functools import partial

import pytest
from work import PATIENCE

from explorer.compute import WorkerDied, take_until
from explorer.compute.interface import AnswerCache
from explorer.compute.local import ANSWER_NICENESS, LocalEngine


@pytest.fixture(scope="module")
def engine():
    return LocalEngine(answer_processes=1)


def compute(engine, work):
    return engine._compute(pickle.dumps(work))


def test_an_answer_is_computed_in_another_process_at_lower_priority(engine):
    pid = compute(engine, os.getpid)
    assert pid != os.getpid()
    assert compute(engine, os.getpid) == pid  # it stays
    assert compute(engine, partial(os.getpriority, os.PRIO_PROCESS, 0)) >= min(ANSWER_NICENESS, 19)


def test_an_error_of_the_work_is_raised_here_and_the_process_stays(engine):
    pid = compute(engine, os.getpid)
    with pytest.raises(ValueError, match="invalid literal"):
        engine.answer(partial(int, "seven")).result(PATIENCE)
    with pytest.raises(FileNotFoundError):
        engine.answer(partial(os.stat, "/nowhere")).result(PATIENCE)
    assert compute(engine, os.getpid) == pid


def test_a_killed_process_is_an_error_and_the_next_call_has_another(engine):
    pid = compute(engine, os.getpid)
    with pytest.raises(WorkerDied, match="ask again"):
        compute(engine, partial(os.kill, pid, signal.SIGKILL))
    assert compute(engine, os.getpid) not in (pid, os.getpid())


def test_an_answer_is_asked_for_again_when_its_process_was_killed(engine):
    pid = engine.answer(partial(compute_here, "first")).result(PATIENCE)
    os.kill(pid, signal.SIGKILL)
    assert engine.answer(partial(compute_here, "second")).result(PATIENCE) not in (pid, os.getpid())


def compute_here(_):
    return os.getpid()


def test_an_answer_is_remembered_and_a_copy(engine):
    work = partial(list, (1, 2))
    with pytest.raises(KeyError):
        engine.recall(work)
    engine.answer(work).result(PATIENCE).append(3)
    engine.recall(work).append(4)
    assert engine.answer(work).result(0) == [1, 2]  # done at once


def test_what_cannot_be_pickled_or_must_stay_is_computed_here_and_not_remembered(engine):
    uploaded = b"data of a user"
    assert engine.answer(lambda: (uploaded, os.getpid())).result(PATIENCE) == (uploaded, os.getpid())
    with pytest.raises(KeyError):
        engine.recall(lambda: uploaded)
    assert engine.answer(os.getppid, here=True).result(PATIENCE) == os.getppid()
    with pytest.raises(KeyError):
        engine.recall(os.getppid)


def test_a_newer_request_takes_the_place_of_one_that_waits(engine):
    may_end, began, order = threading.Event(), threading.Event(), []

    def block():
        began.set()
        may_end.wait(PATIENCE)

    blocker = engine.answer(block)
    began.wait(PATIENCE)
    mine = engine.answer(lambda: order.append("overtaken"))
    other = engine.answer(lambda: order.append("other"))
    newer = engine.answer(lambda: order.append("newer"), replaces=mine)
    assert mine.cancelled()
    assert not blocker.cancel()  # it runs
    may_end.set()
    other.result(PATIENCE)
    newer.result(PATIENCE)
    assert order == ["newer", "other"]
    late = engine.answer(lambda: order.append("late"), replaces=newer)  # of one that is done: a place of its own
    late.result(PATIENCE)
    assert order == ["newer", "other", "late"]


def test_the_least_recently_used_answers_are_dropped():
    cache = AnswerCache(1000)
    for key in range(5):
        cache.remember(key, b"x" * 300)  # three fit
    for dropped in (0, 1):
        with pytest.raises(KeyError):
            cache.recall(dropped)
    assert cache.recall(2) == b"x" * 300
    cache.remember(5, b"y")
    cache.remember(6, b"x" * 300)
    assert cache.recall(2) == b"x" * 300
    with pytest.raises(KeyError):
        cache.recall(3)
    cache.remember(7, b"x" * 2000)  # larger than all that is kept
    with pytest.raises(KeyError):
        cache.recall(7)


def test_remembered_answers_are_copies():
    cache, answer = AnswerCache(1000), [1]
    cache.remember("mine", answer)
    answer.append(2)
    cache.recall("mine").append(3)
    assert cache.recall("mine") == [1]


def test_some_pieces_are_returned_when_their_time_is_over():
    def piece(seconds):
        time.sleep(seconds)
        return -seconds

    assert take_until(piece, [(0.0,), (0.3,), (PATIENCE,)]) == {(0.0,): 0.0, (0.3,): -0.3}
