"""Private parts of Panel, Bokeh, panel-material-ui and BokehJS that pages need; no other module uses any.

Each function or class names the public behaviour that it replaces. All were tested with panel 1.9.4 and 1.10.0, bokeh
3.9.2 and 3.10.2, panel-material-ui 0.16.6; where a private part is missing in another version, the public behaviour
remains: a page that is slower or holds memory for longer, never one that is wrong. For each there is a
test in tests/interface/test_compatibility.py or tests/ui/test_browser_patches.py that fails when it is no longer
needed.
"""

import logging
import traceback
from functools import partial

import panel as pn
import panel_material_ui as pmui
from bokeh.models import CustomJS
from panel.reactive import Syncable
from panel.util import edit_readonly
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from explorer.interface.document import in_session


def at_once(*names):
    """Class decorator for a widget: its events of these properties reach Python at once.

    Replaces a public debounce setting and a cheap busy indicator: Panel waits 50 ms for further events, and walks
    the whole page to set its busy indicator at each one. Without it curves are updated 50 to 80 ms later.
    """

    def decorate(cls):
        if hasattr(cls, "_priority_changes"):
            cls._priority_changes = (*cls._priority_changes, *names)
        if hasattr(cls, "_busy__ignore"):
            cls._busy__ignore = (*cls._busy__ignore, *names, *(f"{name}_throttled" for name in names))
        return cls

    return decorate


def one_event_at_a_time():
    """Make all events of a page wait for its document's lock, in order of arrival.

    Replaces a lock that Panel documents but does not always take: widget events that it runs as coroutines (of sliders
    `at_once`, of a button pressed within the 50 ms in which a field's change waits) run without it. They interleave
    with callbacks in other threads, which Bokeh has since 3.10: a page whose updates both hold can stay held for ever,
    and in older versions a handler can be interrupted by an error.
    """
    for name in ("_change_coroutine", "_event_coroutine"):
        method = getattr(Syncable, name, None)
        if method is not None and not getattr(method, "lock", False):
            setattr(Syncable, name, pn.io.with_lock(method))


def watch_busy_from_the_loop():
    """Start Panel's polling of its busy signal in a callback on the event loop, where this is called.

    Replaces a poll that can start in any thread: Panel 1.10 starts it at the first event that makes it busy, and if
    that is a button's event in another thread, it polls thousands of times a second.
    """
    pn.state.add_periodic_callback(lambda: None, period=100, count=1)


def never_busy(page, constant):
    """Bind a pmui.Page to a parameter that never changes instead of the busy signal of the whole server.

    Replaces a page whose busy_indicator=None listens to nothing: each page would receive all other pages' events,
    and the server would keep every page that it ever made.
    """
    if "busy" in page.param:
        with edit_readonly(page):
            page.busy = constant


def forget_document(context):
    """Drop a closed page's notifications from Panel's table of roots, which would keep its document for ever.

    Replaces a server that releases closed pages completely. For `pn.state.on_session_destroyed`.
    """
    roots, document = getattr(pn.state, "_views", {}), getattr(context, "_document", None)
    for root, entry in list(roots.items()):
        if any(part is document for part in entry):
            roots.pop(root, None)


def send_at_once():
    """Send every message of the open page when it is written, in that order.

    Replaces TCP_NODELAY on Bokeh's sockets: the system would delay small messages until the browser has
    acknowledged the last (40 ms). And Bokeh waits until each frame of a message is sent, some milliseconds of each
    move; meanwhile Panel before 1.10 queues its own messages, and the last of them can stay queued for ever.
    In JupyterLab connections are no WebSockets, and nothing is done.
    """
    session = getattr(pn.state.curdoc.session_context, "session", None) if in_session() else None
    for connection in tuple(getattr(session, "_subscribed_connections", ())):
        socket = getattr(connection, "_socket", None)
        if isinstance(socket, WebSocketHandler):
            socket.set_nodelay(True)
            socket.write_message = partial(_write, socket)


async def _write(socket, message, binary=False, locked=True):
    """Write one frame after all earlier ones without waiting until it is sent, so that no lock is held."""
    leaving = WebSocketHandler.write_message(socket, message, binary)
    leaving.add_done_callback(lambda left: left.cancelled() or left.exception())  # also after the page was closed


def silence_closed_connections():
    """Log nothing about messages that were in flight to or from a page when it was closed.

    Replaces servers that treat closing a page at any moment as normal: Bokeh and Panel log each message as a
    failure, asyncio a traceback for each that Panel did not await, Bokeh's check of open connections detaches one that
    is closing, whose own handler then finds no session, and Bokeh from 3.10 on may remove a closed page's callback in
    one thread while the event loop is about to run it.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_not_about_closing)


_LOGGERS = (
    "asyncio",
    "tornado.application",
    "bokeh.server.protocol_handler",
    "bokeh.server.views.ws",
    "bokeh.server.session",
    "panel.io.document",
)
_REMOVERS = ("remove_next_tick_callback", "remove_timeout_callback")  # of bokeh.util.asyncio


def _is_not_about_closing(record):
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, WebSocketClosedError | StreamClosedError):
        return False
    if isinstance(error, AssertionError):
        return not traceback.extract_tb(error.__traceback__)[-1].filename.endswith("connection.py")
    if isinstance(error, ValueError):
        *_, caller, remover, last = ["", "", *(frame.name for frame in traceback.extract_tb(error.__traceback__))]
        removed = caller == "wrapper" and remover in _REMOVERS and last == "_execute_remover"
        return not removed
    return "Failed sending message as connection was closed" not in record.getMessage()


def patch_browser(document):
    """Let plots be added to a visible page, and let the server's last update win.

    Replaces two faults of the libraries in the browser:
    - A change of size anywhere lays out the whole page, including plots that have no layout of their own yet,
      where Bokeh throws; such a plot builds its layout a moment later and requests a layout of the page itself.
    - When the server changes a property of a component twice while the browser is busy, Panel's React hook writes the
      first value back, to the page and to the server: a dragged slider jumps back, a finished job looks as if it
      ran. A value that the server itself has just replaced is ignored.
    """
    for code in BROWSER_PATCHES.values():
        document.js_on_event("document_ready", CustomJS(code=code))


BROWSER_PATCHES = {
    "wait for parts": """
    const view = Bokeh.Models.get("Plot")?.prototype.default_view?.prototype
    for (const name of ["_measure_layout", "_after_layout"]) {
        const method = view?.[name]
        if (method) view[name] = function () { if (this.layout != null) method.call(this) }
    }
""",
    "last word": """
    let prototype = Bokeh.Models.get("Plot")?.prototype
    while (prototype && !Object.hasOwn(prototype, "setv")) prototype = Object.getPrototypeOf(prototype)
    const setv = prototype?.setv
    const told = new WeakMap()  // by model and property, recent values from the server
    const when_idle = window.requestIdleCallback ?? ((then) => setTimeout(then, 500))

    function remember(model, name, value) {
        if (!told.has(model)) told.set(model, {})
        const values = told.get(model)[name] ??= []
        const count = values.push(value)
        when_idle(() => setTimeout(() => { if (values.length == count) values.length = 0 }, 200))
    }

    if (setv) prototype.setv = function (changes, options) {
        for (const [name, value] of Object.entries(changes)) {
            if (options?.sync === false) {
                remember(this, name, value)
            } else {
                const values = told.get(this)?.[name] ?? []
                if (values.slice(0, -1).includes(value) && value !== values.at(-1)) return
            }
        }
        setv.call(this, changes, options)
    }
""",
}

# A promise of a Bokeh plot as an SVG blob, as it is drawn. Replaces a public export from a script.
DRAWN_AS_SVG = """
const svg_of = async (plot) => {
  const view = Bokeh.index?.find_one?.(plot)
  if (typeof view?.export != 'function') {
    window.alert('Pictures cannot be saved from here with this version of Bokeh: use the button beside the plot.')
    throw new Error('no export')
  }
  return view.export('svg', true).to_blob()
}
"""


class BoundedFileInput(pmui.FileInput):
    """A file input that keeps at most `most_bytes` + 1 bytes, whatever is sent.

    Replaces a limit on the server's side: max_file_size is checked in the browser, which a client can bypass. If the
    private parts are missing, everything sent is kept until it is read, up to the server's limit for a message.

    Attributes
    ----------
    most_bytes : int
    """

    most_bytes = 0

    def _process_chunk(self, msg):
        held = sum(len(chunk) for file in self._file_buffer.values() for chunk in file["chunks"].values())
        held += sum(len(file["value"]) for file in self._buffer)
        super()._process_chunk({**msg, "data": bytes(msg["data"])[: max(self.most_bytes + 1 - held, 0)]})

    def _handle_msg(self, msg):
        if msg["status"] == "error":  # the browser did not send the file
            self._file_buffer.clear()
            self.unsent()
        else:
            super()._handle_msg(msg)

    def unsent(self):
        """Called when the browser refuses a file for its size."""
