"""Processes beside this one: answers, errors, a process that is killed, and what is remembered."""

import os
import pickle
import signal
import time
from functools import partial

import pytest
from work import PATIENCE

from explorer.compute import ComputeProcesses, WorkerDied, take_until
from explorer.compute.process import NICENESS


@pytest.fixture(scope="module")
def beside():
    return ComputeProcesses(processes=1, remembered_bytes=1000)


def asked(beside, work):
    return beside.run(pickle.dumps(work))


def test_an_answer_is_computed_in_another_process_that_goes_behind_this_one(beside):
    pid = asked(beside, os.getpid)
    assert pid != os.getpid()
    assert asked(beside, os.getpid) == pid  # it stays
    assert asked(beside, partial(os.getpriority, os.PRIO_PROCESS, 0)) >= min(NICENESS, 19)


def test_an_error_of_the_work_is_raised_here_and_the_process_stays(beside):
    pid = asked(beside, os.getpid)
    with pytest.raises(ValueError, match="invalid literal"):
        asked(beside, partial(int, "seven"))
    with pytest.raises(FileNotFoundError):
        asked(beside, partial(os.stat, "/nowhere"))
    assert asked(beside, os.getpid) == pid


def test_a_killed_process_is_an_error_and_the_next_call_has_another(beside):
    pid = asked(beside, os.getpid)
    with pytest.raises(WorkerDied, match="ask again"):
        asked(beside, partial(os.kill, pid, signal.SIGKILL))
    assert asked(beside, os.getpid) not in (pid, os.getpid())


def test_what_was_not_asked_for_longest_is_forgotten(beside):
    for key in range(5):
        beside.remember(key, b"x" * 300)  # three fit
    for forgotten in (0, 1):
        with pytest.raises(KeyError):
            beside.recall(forgotten)
    assert beside.recall(2) == b"x" * 300
    beside.remember(5, b"y")
    beside.remember(6, b"x" * 300)
    assert beside.recall(2) == b"x" * 300
    with pytest.raises(KeyError):
        beside.recall(3)
    beside.remember(7, b"x" * 2000)  # larger than all that is kept
    with pytest.raises(KeyError):
        beside.recall(7)


def test_answers_are_nobody_elses_objects(beside):
    answer = [1]
    beside.remember("mine", answer)
    answer.append(2)
    beside.recall("mine").append(3)
    assert beside.recall("mine") == [1]


def test_some_pieces_are_given_when_their_time_is_over():
    def piece(seconds):
        time.sleep(seconds)
        return -seconds

    assert take_until(piece, [(0.0,), (0.3,), (PATIENCE,)]) == {(0.0,): 0.0, (0.3,): -0.3}
