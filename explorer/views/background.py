"""Work of some tens of milliseconds beside the event loop: only what was asked for last is shown."""

import asyncio

from explorer.views.plotting import on_document

QUIET_SECONDS = 0.05  # a hand that moves a slider asks again sooner than that


class Latest:
    """Runs work in a thread, one piece at a time, and drops whatever a newer request has overtaken.

    Without an event loop, as in a script, work is done at once.
    """

    def __init__(self):
        self._wanted, self._latest, self._task = None, None, None

    def request(self, work, show):
        """Call show(work()) soon: work, which touches no Bokeh model, in a thread, and show on the document."""
        self._wanted = self._latest = work, show
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._wanted = None
            show(work())
            return
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())

    def forget(self):
        """Drop what was asked for, also what is being computed."""
        self._wanted = self._latest = None

    async def _run(self):
        while (wanted := self._wanted) is not None:
            await asyncio.sleep(QUIET_SECONDS)
            if self._wanted is not wanted:
                continue
            result = await asyncio.to_thread(wanted[0])
            if self._wanted is wanted:
                self._wanted = None
                on_document(lambda wanted=wanted, result=result: self._show(wanted, result))

    def _show(self, wanted, result):
        if self._latest is wanted:  # a newer request can come while the document's turn is awaited
            wanted[1](result)
