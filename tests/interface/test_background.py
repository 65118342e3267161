"""Work beside the event loop: what was asked for last, in turns, and nothing of parameters that have moved since."""

import asyncio
import os
import pickle
import signal
import threading
from functools import partial

import numpy as np

from explorer.compute import process as beside
from explorer.interface import background
from explorer.interface.background import IncrementalResults, LatestOnly, NextTick
from explorer.pages.bounds.view import BoundsView
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
    monkeypatch.setattr(beside, "TURN_SECONDS", 0)  # a piece a turn
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


def test_soon_runs_in_the_next_turn_only_what_was_asked_for_last(monkeypatch):
    turns, ran = [], []
    monkeypatch.setattr(background, "in_session", lambda: True)
    monkeypatch.setattr(background, "on_document", turns.append)
    soon = NextTick()
    for number in (1, 2):
        soon.request(lambda number=number: ran.append(number))
    assert (ran, len(turns)) == ([], 1)
    turns.pop()()
    soon.request(lambda: ran.append(3))
    turns.pop()()
    assert ran == [2, 3]


def test_slow_curves_of_other_parameters_are_never_shown():
    async def work():
        view = BoundsView()
        await until(lambda: np.isfinite(view.source.data["Tight"]).all())
        shown = []
        view.source.on_change("data", lambda _, old, new: shown.append((view.state.noise_std, new["Tight"])))
        view.state.noise_std = 6.0
        await asyncio.sleep(2 * background.QUIET_SECONDS)  # the slow curves of these begin
        view.state.noise_std = 7.0
        await until(lambda: np.isfinite(view.source.data["Tight"]).all())
        tight = view.state.curves(["Tight"])["Tight"]
        np.testing.assert_array_equal(shown[-1][1], tight)
        assert all(np.isnan(curve).all() for _, curve in shown[:-1])
        assert [noise_std for noise_std, _ in shown] == [6, 7, 7]

    run_concurrently(work(), lambda: asyncio.sleep(0), seconds=60)


def test_work_that_can_be_pickled_is_done_beside_and_known_the_next_time(monkeypatch):
    monkeypatch.setattr(background, "_packed", pickle.dumps)  # as on a served page
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


def test_a_closure_stays_here_and_so_does_everything_where_no_page_is_served(monkeypatch):
    assert background._packed(os.getpid) is None
    monkeypatch.setattr(background, "in_session", lambda: True)
    assert pickle.loads(background._packed(partial(divmod, 7, 2)))() == (3, 1)
    brought = b"a visitor's file"
    assert background._packed(lambda: brought) is None
