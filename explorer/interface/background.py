"""Work beside the event loop, of some tens of milliseconds or in pieces: only what was asked for last is shown."""

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

import panel as pn

from explorer.compute import PROCESSES, WorkerDied, shared_processes, take_until
from explorer.interface.document import in_session, on_document

QUIET_SECONDS = 0.04  # a key that is held down asks again sooner than that


@cache
def _threads():
    """For the work of all sessions together, each to wait for a process beside this one."""
    return ThreadPoolExecutor(PROCESSES, thread_name_prefix="explorer-background")


@cache
def prepare():
    """Start the processes beside this one, which takes a second or two, before anyone waits for them."""
    _threads().submit(shared_processes().run, pickle.dumps(bool))


class NextTick:
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


class LatestOnly:
    """Computes beside the loop, one piece of work at a time, and drops whatever a newer request has overtaken.

    On a served page, work that can be pickled, a `partial` or a method of a state's copy, is done in a process beside
    this one, and its answer remembered for all sessions; what a visitor brought is to be in a closure, which stays in
    a thread here. Without an event loop, as in a script, work is done at once. On a served page it begins when the
    browser has the page: what finishes before can be lost on the way there (panel 1.9).
    """

    def __init__(self):
        self._wanted = None
        self._running, self._loaded = False, not in_session()
        if in_session():
            pn.state.onload(self._begin)
            pn.state.on_session_destroyed(lambda _: self.forget())

    def request(self, work, show):
        """Call show(work()) on the document: now if the answer is known, or else soon.

        `work` touches no Bokeh model.

        Returns
        -------
        bool, whether it has been shown
        """
        self.forget()
        packed = _packed(work)
        try:
            answer = shared_processes().recall(packed)
        except KeyError:
            if _is_live():
                self._wanted = (work, packed, show)
                if self._loaded:
                    pn.state.execute(self._run)
                return False
            answer = work()
        show(answer)
        return True

    def _begin(self):
        """Start with what was asked for before the browser had the page."""
        self._loaded = True
        if self._wanted is not None:
            pn.state.execute(self._run)

    def forget(self):
        """Drop what was asked for, also what is being computed."""
        self._wanted = None

    async def _run(self):
        """Answer until nothing is wanted; each request starts one of these, on the event loop, and one at a time works.

        A request comes in another thread, so it cannot know whether the last one is about to end.
        """
        if self._running:
            return
        self._running, done = True, None
        try:
            while (wanted := self._wanted) is not None and wanted is not done:
                await asyncio.sleep(QUIET_SECONDS)
                if self._wanted is not wanted:
                    continue
                done, answer = await asyncio.get_running_loop().run_in_executor(_threads(), self._compute)
                if done is not None and self._wanted is done:
                    on_document(lambda wanted=done, answer=answer: self._show(wanted, answer))
        finally:
            self._running = False

    def _compute(self):
        """What is wanted when a thread is free, and its answer."""
        wanted = self._wanted
        return wanted, None if wanted is None else _answer(*wanted[:2])

    def _show(self, wanted, answer):
        if self._wanted is wanted:  # a newer request can come while the document's turn is awaited
            self._wanted = None  # what it holds, as the bytes of a file, is of no use any more
            wanted[2](answer)


def _is_live():
    """Whether there is an event loop on which something can be shown later: of a server, or of a notebook's kernel."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return in_session()  # a server's loop runs in another thread than the events of its pages
    return True


def _packed(work):
    """The work as bytes for a process beside this one, or None if it is to be done, or can only be done, here."""
    if not in_session():
        return None
    try:
        return pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError):  # all three mean that it cannot
        return None


def _answer(work, packed):
    """Of the work, from the processes beside this one where that is possible."""
    if packed is None:
        return work()
    beside = shared_processes()
    try:
        return beside.recall(packed)  # another session may have asked meanwhile
    except KeyError:
        pass
    try:
        try:
            answer = beside.run(packed)
        except WorkerDied:
            answer = beside.run(packed)
    except (OSError, ImportError, AttributeError):  # no process can be had, or none that has somebody's own bound
        return work()
    beside.remember(packed, answer)
    return answer


class IncrementalResults:
    """Computes the many pieces of a picture in turns, and has it shown after each.

    Parameters
    ----------
    show : callable without arguments; draws what is known
    queues : int, how many lists of pieces are computed beside each other

    Attributes
    ----------
    known : dict of the pieces that are there, all of them of the current parameters
    """

    def __init__(self, show, *, queues):
        self.known, self._show = {}, show
        self._queues = [LatestOnly() for _ in range(queues)]

    def restart(self, known=None):
        """Compute no more than what is being computed, which is not shown either, and forget all but `known`."""
        self.known = {} if known is None else known
        for queue in self._queues:
            queue.forget()

    def compute(self, piece, *pending):
        """Compute piece(*key) for the keys in each of the lists `pending`, one for each queue, until `restart`."""
        for queue, keys in zip(self._queues, pending, strict=True):
            self._take_turns(queue, piece, keys, self.known)

    def _take_turns(self, queue, piece, pending, known):
        if not pending:
            return

        def show(pieces):
            if self.known is not known:  # the parameters moved between the computation and the document's lock
                return
            known.update(pieces)
            count = len(known)
            self._take_turns(queue, piece, pending[len(pieces) :], known)
            if len(known) == count:  # or else the next came at once, and were shown with these
                self._show()

        queue.request(partial(take_until, piece, pending), show)
