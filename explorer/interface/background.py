"""Work of a page that the event loop must not wait for, from tens of milliseconds to seconds, and how it is shown."""

import asyncio
from functools import partial

import panel as pn

from explorer import compute
from explorer.compute import take_until
from explorer.interface.document import in_session, on_document

QUIET_SECONDS = 0.04  # a key that is held down asks again sooner than that


class NextTick:
    """Runs the last requested update in the document's next turn: after the pending slider update has been sent.

    Without an event loop, as in a script, it runs at once.
    """

    def __init__(self):
        self._wanted = None

    def request(self, update):
        """Call update() in the next turn, in place of an earlier request that has not run yet."""
        waiting, self._wanted = self._wanted is not None, update
        if not in_session():
            self._run()
        elif not waiting:
            on_document(self._run)

    def _run(self):
        update, self._wanted = self._wanted, None
        update()


class LatestOnly:
    """Computes outside the event loop, one piece of work at a time, and drops whatever a newer request has overtaken.

    On a served page, work that can be pickled, as a `partial` or a method of a state's copy, is answered by the engine
    of this process, which remembers it for all sessions. Uploaded data must be in a closure, which cannot be pickled
    and is therefore computed in a thread of this process. Without an event loop, as in a script, work is done at once.
    On a served page it begins when the browser has the page: a change that is sent before can be lost (panel 1.9).
    """

    def __init__(self):
        self._wanted = self._asked = self._answer = None  # a request, the one that is being answered, and its Future
        self._running, self._loaded = False, not in_session()
        if in_session():
            pn.state.onload(self._begin)
            pn.state.on_session_destroyed(lambda _: self.forget())

    def request(self, work, show):
        """Call show(work()) on the document: now if the value is known, or else when it has been computed.

        `work` touches no Bokeh model.

        Returns
        -------
        bool, whether it has been shown
        """
        self._wanted, here = None, not in_session()
        try:
            if here:
                raise KeyError(work)
            value = compute.engine().recall(work)
        except KeyError:
            if _is_live():
                self._wanted = _Request(work, show, here)
                if self._loaded:
                    pn.state.execute(self._run)
                return False
            value = work()
        show(value)
        return True

    def forget(self):
        """Drop what was requested; what has begun is computed to its end and not shown."""
        self._wanted, answer = None, self._answer
        if answer is not None:
            answer.cancel()

    def _begin(self):
        """Start with what was requested before the browser had the page."""
        self._loaded = True
        if self._wanted is not None:
            pn.state.execute(self._run)

    async def _run(self):
        """Answer until nothing is wanted; each request starts one of these, on the event loop, and one at a time works.

        A request comes in another thread, so it cannot know whether the last one is about to end.
        """
        if self._running:
            self._replace()
            return
        self._running, done = True, None
        try:
            while (wanted := self._wanted) is not None and wanted is not done:
                await asyncio.sleep(QUIET_SECONDS)
                if self._wanted is wanted:
                    done = await self._compute(wanted)
        finally:
            self._running = False

    def _replace(self):
        """Give a newer request the place of one in the engine's queue: a slider that moves does not go to its end."""
        wanted, answer = self._wanted, self._answer
        if wanted is not None and answer is not None and not (answer.running() or answer.done()):
            self._asked, self._answer = wanted, wanted.ask(replaces=answer)

    async def _compute(self, wanted):
        """Have this request answered, or the one that replaces it in the queue, and shown; returns which it was."""
        self._asked, self._answer = wanted, wanted.ask()
        while True:
            answer = self._answer
            settled = asyncio.wrap_future(answer)
            await asyncio.wait({settled})
            if answer is self._answer:
                break
        wanted, self._asked, self._answer = self._asked, None, None
        if not settled.cancelled():
            value = settled.result()
            if self._wanted is wanted:  # or else the session may have ended, and its document with it
                on_document(lambda: self._show(wanted, value))
        return wanted

    def _show(self, wanted, value):
        if self._wanted is wanted:  # a newer request can come while the document's turn is awaited
            self._wanted = None  # which may hold data, as the bytes of a file
            wanted.show(value)


class _Request:
    """Work, how its value is shown, and whether it has to be computed in this process."""

    def __init__(self, work, show, here):
        self.work, self.show, self.here = work, show, here

    def ask(self, *, replaces=None):
        return compute.engine().answer(self.work, here=self.here, replaces=replaces)


def _is_live():
    """Whether there is an event loop on which something can be shown later: of a server, or of a notebook's kernel."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return in_session()  # a server's loop runs in another thread than the events of its pages
    return True


class IncrementalResults:
    """Computes a picture that consists of many pieces, and shows it whenever some are there.

    Parameters
    ----------
    show : callable without arguments; draws what is known
    queues : int, how many lists of pieces are computed at the same time

    Attributes
    ----------
    known : dict of the pieces that are there, all of them of the current parameters
    """

    def __init__(self, show, *, queues):
        self.known, self._show = {}, show
        self._queues = [LatestOnly() for _ in range(queues)]

    def restart(self, known=None):
        """Start no further computation, do not show the one that runs, and forget all pieces but `known`."""
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
            if len(known) == count:  # else the next ones were known already, and have been shown together with these
                self._show()

        queue.request(partial(take_until, piece, pending), show)
