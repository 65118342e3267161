"""Work outside the event loop: only the latest request, in turns, and nothing of parameters that have moved since."""

import asyncio
import multiprocessing
import os
import signal
import threading
from functools import partial

import numpy as np
import panel as pn
import pytest

from explorer import compute
from explorer.compute import interface
from explorer.compute.local import LocalEngine
from explorer.interface import background
from explorer.interface.background import IncrementalResults, LatestOnly, NextTick
from explorer.pages.worst_case.computation import WORST
from explorer.pages.worst_case.state import WorstCaseState
from explorer.pages.worst_case.view import WorstCaseView
from tests.interface.event_loop import run_concurrently


def square(number):
    return number**2


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def test_without_an_event_loop_all_pieces_are_there_at_once():
    shown = []
    pieces = IncrementalResults(lambda: shown.append(dict(pieces.known)), queues=2)
    pieces.compute(square, [(2,), (3,)], [(4,)])
    assert pieces.known == {(2,): 4, (3,): 9, (4,): 16}
    assert shown[-1] == pieces.known


def test_pieces_are_shown_after_every_turn(monkeypatch):
    monkeypatch.setattr(interface, "TURN_SECONDS", 0)  # a piece a turn
    shown = []
    pieces = IncrementalResults(lambda: shown.append(len(pieces.known)), queues=1)

    async def work():
        pieces.compute(square, [(i,) for i in range(4)])
        await until(lambda: len(pieces.known) == 4)

    run_concurrently(work(), lambda: asyncio.sleep(0), seconds=30)
    assert shown == [1, 2, 3, 4]
    assert pieces.known == {(i,): i**2 for i in range(4)}


def test_a_piece_of_parameters_that_moved_is_dropped_and_what_still_holds_is_kept():
    began, may_end = threading.Event(), threading.Event()

    def slow(number):
        began.set()
        may_end.wait(30)
        return -number

    pieces = IncrementalResults(lambda: None, queues=1)

    async def work():
        pieces.compute(slow, [(1,)])
        await until(began.is_set)
        pieces.restart({(5,): 25})
        pieces.compute(square, [(2,)])
        may_end.set()
        await until(lambda: len(pieces.known) == 2)

    run_concurrently(work(), lambda: asyncio.sleep(0), seconds=60)
    assert pieces.known == {(5,): 25, (2,): 4}


def test_only_the_last_request_runs_in_the_next_turn(monkeypatch):
    turns, ran = [], []
    monkeypatch.setattr(background, "in_session", lambda: True)
    monkeypatch.setattr(background, "on_document", turns.append)
    next_tick = NextTick()
    for number in (1, 2):
        next_tick.request(lambda number=number: ran.append(number))
    assert (ran, len(turns)) == ([], 1)
    turns.pop()()
    next_tick.request(lambda: ran.append(3))
    turns.pop()()
    assert ran == [2, 3]


def test_slow_curves_of_other_parameters_are_never_shown():
    async def work():
        view = WorstCaseView()
        source = view.sources["map"]
        await until(lambda: np.isfinite(source.data[WORST]).all())
        shown = []
        source.on_change("data", lambda _, old, new: shown.append((view.state.noise_std, new[WORST])))
        view.state.noise_std = 6.0
        await asyncio.sleep(2 * background.QUIET_SECONDS)  # the slow curves of these begin
        view.state.noise_std = 7.0
        await until(lambda: np.isfinite(source.data[WORST]).all())
        for noise_std, curve in shown:
            if np.isfinite(curve).all():
                np.testing.assert_array_equal(curve, WorstCaseState(noise_std=noise_std).curves()["map"][WORST])
        assert shown[-1][0] == 7.0 and np.isfinite(shown[-1][1]).all()

    run_concurrently(work(), lambda: asyncio.sleep(0), seconds=60)


@pytest.fixture
def served(monkeypatch):
    """As on a served page, whose parts know their session, but on this test's loop."""
    monkeypatch.setattr(background, "in_session", lambda: True)
    monkeypatch.setattr(background, "on_document", lambda update: update())
    monkeypatch.setattr(pn.state, "onload", lambda begin: begin())
    monkeypatch.setattr(pn.state, "on_session_destroyed", lambda end: None)


def test_work_that_can_be_pickled_is_done_in_another_process_and_known_the_next_time(served):
    shown = []

    async def work():
        assert not LatestOnly().request(os.getpid, shown.append)
        await until(lambda: shown)
        (pid,) = shown
        assert pid != os.getpid()
        os.kill(pid, signal.SIGKILL)
        LatestOnly().request(partial(divmod, 7, 2), shown.append)  # answered all the same
        await until(lambda: len(shown) == 2)
        assert LatestOnly().request(os.getpid, shown.append)
        assert shown == [pid, (3, 1), pid]

    run_concurrently(work(), lambda: asyncio.sleep(0), seconds=60)


def test_a_closure_is_computed_in_this_process(served):
    uploaded, shown = b"data of a user", []

    async def work():
        LatestOnly().request(lambda: (uploaded, os.getpid()), shown.append)
        await until(lambda: shown)

    run_concurrently(work(), lambda: asyncio.sleep(0), seconds=60)
    assert shown == [(uploaded, os.getpid())]


def test_where_no_page_is_served_everything_is_computed_in_this_process():
    shown = []

    async def work():
        LatestOnly().request(process_name, shown.append)  # could be pickled
        await until(lambda: shown)

    run_concurrently(work(), lambda: asyncio.sleep(0), seconds=60)
    assert shown == [multiprocessing.current_process().name]


def process_name():
    return multiprocessing.current_process().name


def test_a_request_that_waits_in_the_engine_is_replaced_in_its_place(served, monkeypatch):
    engine = LocalEngine(answer_processes=1)
    monkeypatch.setattr(compute, "engine", lambda: engine)
    may_end, shown = threading.Event(), []

    async def work():
        blocker = engine.answer(lambda: may_end.wait(30))
        latest = LatestOnly()
        latest.request(lambda: "overtaken", shown.append)
        await until(lambda: latest._answer is not None)
        other = engine.answer(lambda: shown.append("another session"))
        latest.request(lambda: "newer", lambda value: shown.append(value))
        await asyncio.sleep(2 * background.QUIET_SECONDS)
        may_end.set()
        await until(lambda: len(shown) == 2)
        assert blocker.done() and other.done()

    run_concurrently(work(), lambda: asyncio.sleep(0), seconds=60)
    assert "overtaken" not in shown and "newer" in shown


def test_an_answer_for_a_session_that_has_ended_does_not_touch_its_document(served, monkeypatch):
    touched, may_end, began = [], threading.Event(), threading.Event()
    monkeypatch.setattr(background, "on_document", touched.append)

    def slow():
        began.set()
        may_end.wait(30)

    async def work():
        latest = LatestOnly()
        latest.request(slow, lambda value: None)
        await until(began.is_set)
        latest.forget()  # as the end of a session does
        may_end.set()
        await until(lambda: not latest._running)

    run_concurrently(work(), lambda: asyncio.sleep(0), seconds=60)
    assert touched == []
