"""Pieces of a picture beside the event loop: in turns, each shown, and none of parameters that have moved since."""

import asyncio
import threading

from explorer.views import background
from explorer.views.background import Pieces
from tests.views.beside import run_beside


def square(number):
    return number**2


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def test_without_an_event_loop_all_pieces_are_there_at_once():
    shown = []
    pieces = Pieces(lambda: shown.append(dict(pieces.known)), lines=2)
    pieces.compute(square, [(2,), (3,)], [(4,)])
    assert pieces.known == {(2,): 4, (3,): 9, (4,): 16}
    assert shown[-1] == pieces.known


def test_pieces_are_shown_after_every_turn(monkeypatch):
    monkeypatch.setattr(background, "TURN_SECONDS", 0)  # a piece a turn
    shown = []
    pieces = Pieces(lambda: shown.append(len(pieces.known)), lines=1)

    async def work():
        pieces.compute(square, [(i,) for i in range(4)])
        await until(lambda: len(pieces.known) == 4)

    run_beside(work(), lambda: asyncio.sleep(0), seconds=30)
    assert shown == [1, 2, 3, 4]
    assert pieces.known == {(i,): i**2 for i in range(4)}


def test_a_piece_of_parameters_that_moved_is_dropped_and_what_still_holds_is_kept():
    began, may_end = threading.Event(), threading.Event()

    def slow(number):
        began.set()
        may_end.wait(30)
        return -number

    pieces = Pieces(lambda: None, lines=1)

    async def work():
        pieces.compute(slow, [(1,)])
        await until(began.is_set)
        pieces.restart({(5,): 25})
        pieces.compute(square, [(2,)])
        may_end.set()
        await until(lambda: len(pieces.known) == 2)

    run_beside(work(), lambda: asyncio.sleep(0), seconds=60)
    assert pieces.known == {(5,): 25, (2,): 4}
