"""Work beside the event loop, of some tens of milliseconds or in pieces: only what was asked for last is shown."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import panel as pn

from explorer.views.plotting import in_session, on_document

QUIET_SECONDS = 0.05  # a hand that moves a slider asks again sooner than that
TURN_SECONDS = 0.2  # pieces that are known are shown this often while the rest is computed


@lru_cache(maxsize=1)
def _threads():
    """For the work of all sessions together: more threads would only slow down the loop that answers the hands."""
    return ThreadPoolExecutor(max_workers=2, thread_name_prefix="explorer-background")


class Soon:
    """Runs what was asked for last in the document's next turn: after what a hand is waiting for has been sent.

    Without an event loop, as in a script, it runs at once.
    """

    def __init__(self):
        self._wanted = None

    def request(self, update):
        """Call update() soon, and no earlier request that has not run yet."""
        waiting, self._wanted = self._wanted is not None, update
        if not in_session():
            self._run()
        elif not waiting:
            on_document(self._run)

    def _run(self):
        update, self._wanted = self._wanted, None
        update()


class Latest:
    """Runs work in a thread, one piece at a time, and drops whatever a newer request has overtaken.

    Without an event loop, as in a script, work is done at once. On a served page it begins when the browser has the
    page: what finishes before can be lost on the way there (panel 1.9).
    """

    def __init__(self):
        self._wanted, self._latest, self._task = None, None, None
        self._loaded = asyncio.Event()
        if in_session():
            pn.state.onload(self._loaded.set)
        else:
            self._loaded.set()

    def request(self, work, show):
        """Call show(work()) soon: work, which touches no Bokeh model, in a thread, and show on the document."""
        self._wanted = self._latest = work, show
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._wanted = self._latest = None
            show(work())
            return
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())

    def forget(self):
        """Drop what was asked for, also what is being computed."""
        self._wanted = self._latest = None

    async def _run(self):
        await self._loaded.wait()
        while (wanted := self._wanted) is not None:
            await asyncio.sleep(QUIET_SECONDS)
            if self._wanted is not wanted:
                continue
            result = await asyncio.get_running_loop().run_in_executor(_threads(), self._unless_overtaken, wanted)
            if self._wanted is wanted:
                self._wanted = None
                on_document(lambda wanted=wanted, result=result: self._show(wanted, result))

    def _unless_overtaken(self, wanted):
        return wanted[0]() if self._wanted is wanted else None

    def _show(self, wanted, result):
        if self._latest is wanted:  # a newer request can come while the document's turn is awaited
            self._latest = None  # what it holds, as the bytes of a file, is of no use any more
            wanted[1](result)


class Pieces:
    """Computes the many pieces of a picture in turns, and has it shown after each.

    Parameters
    ----------
    show : callable without arguments; draws what is known
    lines : int, how many lists of pieces are computed beside each other

    Attributes
    ----------
    known : dict of the pieces that are there, all of them of the current parameters
    """

    def __init__(self, show, *, lines):
        self.known, self._show = {}, show
        self._lines = [Latest() for _ in range(lines)]
        if in_session():
            pn.state.on_session_destroyed(lambda _: self.restart())

    def restart(self, known=None):
        """Compute no more than what is being computed, which is not shown either, and forget all but `known`."""
        self.known = {} if known is None else known
        for line in self._lines:
            line.forget()

    def compute(self, piece, *pending):
        """Compute piece(*key) for the keys in each of the lists `pending`, one for each line, until `restart`."""
        for line, keys in zip(self._lines, pending, strict=True):
            self._take_turns(line, piece, keys, self.known)

    def _take_turns(self, line, piece, pending, known):
        if not pending:
            return

        def show(pieces):
            if self.known is not known:  # the parameters moved between the computation and the document's lock
                return
            known.update(pieces)
            self._show()
            self._take_turns(line, piece, pending[len(pieces) :], known)

        line.request(lambda: _some(piece, pending), show)


def _some(piece, pending):
    """The first of the pending pieces, as many as there is time for, dict by key; at least one."""
    end, pieces = time.monotonic() + TURN_SECONDS, {}
    for key in pending:
        pieces[key] = piece(*key)
        if time.monotonic() > end:
            break
    return pieces
