"""A job behind two buttons: a long computation that reports its progress and can be cancelled."""

import asyncio
import time
from functools import partial
from html import escape

import panel as pn
import panel_material_ui as pmui

from explorer import compute
from explorer.compute import JobCancelled, Priority
from explorer.interface.controls import alert
from explorer.interface.document import in_session, on_document, session_name

POLL_SECONDS = 0.1
PATIENCE_SECONDS = 1.0  # before the remaining time is estimated


class JobRunner:
    """Runs one job at a time for a page; what a cancelled job reports or returns is never shown.

    A page arranges `buttons`, `progress` and `status`, calls `run` when its run button is pressed, and `cancel` when a
    parameter moves. The end of the session cancels too.

    Everything but the waiting is done under the document's lock: events of one page come one after the other, but on a
    served page possibly in another thread than the one that waits. So a job starts with parameters that belong
    together, and any parameter that moves later cancels it.

    Parameters
    ----------
    start : callable of one argument, which it may ignore; called by the run button
    label : str, of the run button
    doing : str, what the page does meanwhile, as "Fitting"
    cancelled, failed : str, what the page says of a job that was cancelled, or that failed: then the reason follows
    explain : callable of the exception, the reason in words
    ended : callable without arguments, called last when a job has ended, however that was
    priority : Priority of the jobs
    engine : Engine or None for the one that all sessions of this process share

    Attributes
    ----------
    buttons, progress, status : what a page arranges
    run_button, cancel_button : the two of `buttons`
    job : the running Job or None
    """

    def __init__(
        self,
        start,
        *,
        label="Run",
        doing="Computing",
        cancelled="Cancelled.",
        failed="The computation failed:",
        explain=str,
        ended=lambda: None,
        priority=Priority.NORMAL,
        engine=None,
    ):
        self.doing, self.cancelled, self.failed, self.explain, self.ended = doing, cancelled, failed, explain, ended
        self.priority, self.engine = priority, engine
        self.job = self._wanted = None
        self.run_button = pmui.Button(label=label, variant="contained", on_click=start)
        self.cancel_button = pmui.Button(
            label="Cancel", variant="outlined", disabled=True, on_click=lambda _: self.cancel()
        )
        self.buttons = pmui.Row(self.run_button, self.cancel_button)
        self.progress = pmui.LinearProgress(value=0, variant="determinate", visible=False, sizing_mode="stretch_width")
        self.status = alert()
        if in_session():
            pn.state.on_session_destroyed(lambda _: self.cancel())

    def engine_in_use(self):
        """The Engine that runs the jobs."""
        return self.engine or compute.engine()

    def cancel(self):
        """Stop the running job, if any, and show nothing more of it."""
        self._wanted = None
        if self.job is not None:
            self.job.cancel()

    def say(self, severity, text):
        """Show a sentence of plain text, or hide the alert if it is empty; `severity` as in pmui.Alert."""
        self.status.param.update(severity=severity, object=escape(text, quote=False), visible=bool(text))

    def run(self, function, arguments, *, show, follow=lambda messages: None):
        """Submit function(report=..., **arguments) to the engine; do nothing while a job is running.

        Parameters
        ----------
        function, arguments : picklable; a module-level function and a dict
        show : callable of the function's value; draws it
        follow : callable of the list of all messages reported so far, whenever there are new ones; draws them and
            returns the part of the work that is done, in 0..1, or None if that is not known
        """
        if self.job is not None:
            return
        self._busy(True)
        try:
            self.job = self._wanted = self._submit(function, arguments)
        except Exception as error:  # arguments that cannot be pickled
            self._fail(error)
            return
        pn.state.execute(partial(self._wait, self.job, show, follow))

    async def _wait(self, job, show, follow):
        end = partial(self._end, "info", "")
        try:
            await self._listen(job, follow)
            end = partial(self._finish, show, job.result())
        except JobCancelled:
            end = partial(self._end, "warning", self.cancelled)
        except Exception as error:
            end = partial(self._fail, error)
        finally:
            on_document(lambda: (end(), self.ended()))

    def _submit(self, function, arguments):
        return self.engine_in_use().submit(function, session=session_name(), priority=self.priority, **arguments)

    async def _listen(self, job, follow):
        messages, began, part = [], None, None

        def draw(new):
            nonlocal part
            if self._wanted is job:  # a parameter can move while the document's turn is awaited
                part = follow(list(messages)) if new else part
                self._tell(job, part, began)

        while not job.done():
            await asyncio.sleep(POLL_SECONDS)
            began = began or (time.monotonic() if job.started else None)
            new = [job.messages.popleft() for _ in range(len(job.messages))]
            messages += new
            on_document(partial(draw, new))

    def _tell(self, job, part, began):
        """Show the progress, and the remaining time by the pace so far."""
        if began is None:
            before = f" {job.ahead} before this one." if job.ahead else ""
            self.say("info", f"Waiting until other computations on this server are done …{before}")
            return
        self.progress.value = int(100 * min(max(part or 0, 0), 1))
        elapsed, left = time.monotonic() - began, ""
        if part and elapsed > PATIENCE_SECONDS:
            left = f" about {max(round(elapsed * (1 - part) / part), 1)} s left"
        self.say("info", f"{self.doing} …{left}")

    def _busy(self, on):
        self.run_button.disabled = self.progress.visible = on
        self.cancel_button.disabled = not on
        if on:
            self.progress.value = 0
            self.say("info", f"{self.doing} …")

    def _finish(self, show, result):
        if self._wanted is not self.job:
            self._end("warning", self.cancelled)
            return
        self._end("info", "")
        show(result)

    def _fail(self, error):
        self._end("error", f"{self.failed} {self.explain(error)}")

    def _end(self, severity, text):
        self.job = self._wanted = None
        self._busy(False)
        self.say(severity, text)
