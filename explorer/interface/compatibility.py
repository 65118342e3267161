"""All that pages need and that is private to Panel, Bokeh, panel-material-ui or BokehJS; nothing else here touches it.

Each function or class says for what public behaviour it stands in. All were seen to be needed, or not, with panel 1.9.4
and 1.10.0, bokeh 3.9.2 and 3.10.2, panel-material-ui 0.16.6; where a private part is missing in another version, the
public behaviour remains: a page that is slower or holds memory for longer, never one that is wrong. For each there is a
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

    Stands in for a public debounce setting and a cheap busy indicator: Panel waits 50 ms for further events, and walks
    the whole page to set its busy indicator at each one. Without it curves follow the hand 50 to 80 ms later.
    """

    def decorate(cls):
        if hasattr(cls, "_priority_changes"):
            cls._priority_changes = (*cls._priority_changes, *names)
        if hasattr(cls, "_busy__ignore"):
            cls._busy__ignore = (*cls._busy__ignore, *names, *(f"{name}_throttled" for name in names))
        return cls

    return decorate


def one_event_at_a_time():
    """Have all events of a page wait for its document's lock, in the order in which they come.

    Stands in for Panel's own promise: widget events that it runs as coroutines (sliders `at_once`, and a button that is
    pressed within the 50 ms in which a field's change waits) go without the lock. Beside a callback in another thread,
    as Bokeh has them since 3.10, they interleave: a page whose updates are held by both can stay held for ever, and
    before too a handler can be cut off by an error.
    """
    for name in ("_change_coroutine", "_event_coroutine"):
        method = getattr(Syncable, name, None)
        if method is not None and not getattr(method, "lock", False):
            setattr(Syncable, name, pn.io.with_lock(method))


def watch_busy_from_the_loop():
    """Let Panel's watch over its busy signal start in a callback on the event loop, where this is called.

    Stands in for a watch that starts from any thread: Panel 1.10 starts it at the first event that makes it busy, and
    where that is a button's, in another thread, asks for its turn again and again, thousands of times a second.
    """
    pn.state.add_periodic_callback(lambda: None, period=100, count=1)


def never_busy(page, constant):
    """Have a pmui.Page follow a parameter that never changes, in place of the busy signal of the whole server.

    Stands in for a page whose busy_indicator=None listens to nothing: each page would be told of all others' events,
    and the server would hold every page that it ever made.
    """
    if "busy" in page.param:
        with edit_readonly(page):
            page.busy = constant


def forget_document(context):
    """Drop a closed page's notifications from Panel's table of roots, where they would hold its document for ever.

    Stands in for a server that forgets a closed page whole. For `pn.state.on_session_destroyed`.
    """
    roots, document = getattr(pn.state, "_views", {}), getattr(context, "_document", None)
    for root, entry in list(roots.items()):
        if any(part is document for part in entry):
            roots.pop(root, None)


def send_at_once():
    """Have every message of the open page sent when it is written, in that order.

    Stands in for TCP_NODELAY on Bokeh's sockets: the system would keep small messages until the browser has
    acknowledged the last (40 ms). And Bokeh waits for each frame of a message to leave, which takes some milliseconds
    of each move; meanwhile Panel before 1.10 keeps its own messages in a queue, in which the last can stay for ever.
    In JupyterLab connections are no WebSockets, and nothing is done.
    """
    session = getattr(pn.state.curdoc.session_context, "session", None) if in_session() else None
    for connection in tuple(getattr(session, "_subscribed_connections", ())):
        socket = getattr(connection, "_socket", None)
        if isinstance(socket, WebSocketHandler):
            socket.set_nodelay(True)
            socket.write_message = partial(_write, socket)


async def _write(socket, message, binary=False, locked=True):
    """Write one frame after all before it; nothing waits until it has left, so that no lock is ever held."""
    leaving = WebSocketHandler.write_message(socket, message, binary)
    leaving.add_done_callback(lambda left: left.cancelled() or left.exception())  # of a visitor who has left too


def log_no_departures():
    """Have nothing logged of messages that were on their way to a page, or from it, when it was closed.

    Stands in for servers that take it as usual that a page is closed at any moment: Bokeh and Panel log each message
    as a failure, asyncio a traceback for each that Panel did not wait for, and Bokeh's check of open connections
    detaches one that is closing, whose own end then finds no session.
    """
    for name in _LOGGERS_OF_DEPARTURES:
        logging.getLogger(name).addFilter(_is_no_departure)


_LOGGERS_OF_DEPARTURES = (
    "asyncio",
    "tornado.application",
    "bokeh.server.protocol_handler",
    "bokeh.server.views.ws",
    "bokeh.server.session",
    "panel.io.document",
)


def _is_no_departure(record):
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, WebSocketClosedError | StreamClosedError):
        return False
    if isinstance(error, AssertionError):
        return not traceback.extract_tb(error.__traceback__)[-1].filename.endswith("connection.py")
    return "Failed sending message as connection was closed" not in record.getMessage()


def patch_browser(document):
    """Let plots be added to a page that is shown, and let the server's last word be the last.

    Stands in for two faults of the libraries in the browser:
    - A change of size anywhere lays out the whole page, also a plot that has not arranged its own parts yet, and Bokeh
      throws there; the plot does so a moment later and asks for a layout itself.
    - When the server changes a property of a component twice while the browser is busy, Panel's React hook writes the
      first value back, to the page and to the server: a slider that is dragged jumps back, a job that has ended still
      runs. Such a value, which the server itself has replaced a moment ago, is not taken.
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
    const told = new WeakMap()  // by model and property, what the server said of late
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

# A promise of a Bokeh plot, as it is drawn, as a blob of SVG. Stands in for a public export from a script.
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
    """A file input that keeps no more bytes than it may, and one, whatever is sent.

    Stands in for a limit on the server's side: max_file_size is one of the browser's, which whoever writes to the
    server need not have. Where the private parts are missing, all that is sent is kept until it is read, up to the
    server's limit for a message.

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
