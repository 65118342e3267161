"""What stands in for the libraries' own: each fails here when it is no longer needed, and does what it is for."""

import asyncio
import gc
import logging
import socket
import sys
import threading
import time
import weakref
from contextlib import asynccontextmanager

import bokeh
import panel as pn
import panel_material_ui as pmui
import pytest
from bokeh.document import Document as BokehDocument
from panel.reactive import Syncable
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from explorer.app import Session
from explorer.interface import compatibility
from explorer.interface.compatibility import BoundedFileInput
from explorer.interface.controls import LiveSlider
from tests.hosting.conftest import free_ports
from tests.hosting.connection import Document

BEFORE_1_10 = tuple(map(int, pn.__version__.split(".")[:2])) < (1, 10)
BEFORE_3_10 = tuple(map(int, bokeh.__version__.split(".")[:2])) < (3, 10)

write_at_once = WebSocketHandler.write_message


@asynccontextmanager
async def served(build):
    """A page that was opened and drawn, a Document, and the server's own document of it."""
    port = free_ports(1)
    server = pn.serve(build, port=port, start=False, show=False, verbose=False)
    server.start()
    try:
        page = await Document.visit(f"http://localhost:{port}", "")
        await asyncio.sleep(0.5)
        yield page, server.get_sessions()[0].document
        page.close()
    finally:
        server.stop(wait=False)


class Line:
    """A slow network: frames go out in order, and are said to have left when the test says so."""

    def __init__(self):
        self.free = asyncio.Event()
        self.free.set()

    def write(self, socket, message, binary=False):
        written = write_at_once(socket, message, binary)

        async def left():
            await self.free.wait()
            await written

        return asyncio.ensure_future(left())

    async def rest(self):
        """Let what waits for the line go on, and hold up what it writes next."""
        self.free.set()
        await asyncio.sleep(0)
        self.free.clear()
        await asyncio.sleep(0.05)


async def say_last(monkeypatch):
    """Whether the last of two changes reaches the page, however slowly the server's messages leave."""
    line, sessions = Line(), []
    monkeypatch.setattr(WebSocketHandler, "write_message", lambda *message, **kind: line.write(*message, **kind))

    def build():
        sessions.append(Session())
        return sessions[-1].page()

    async with served(build) as (page, document):
        projector = sessions[0].projector
        _, switch = page.component(label="Projector")

        def say(text):
            document.add_next_tick_callback(lambda: projector.param.update(label=text))

        async def answer():
            """Have the server answer a message of the page."""
            await page.change(switch, "label", "Projector")
            await asyncio.sleep(0.05)

        line.free.clear()
        await answer()
        say("first")
        for _ in range(3):  # the frames of the answer, one after the other; what it held up follows, and waits
            await line.rest()
        await answer()
        say("last")
        await asyncio.sleep(0.05)
        line.free.set()
        try:
            while '"last"' not in await page.answer(seconds=5):
                pass
            return True
        except TimeoutError:
            return False


def test_the_last_change_does_not_stay_behind(monkeypatch):
    assert asyncio.run(say_last(monkeypatch))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of what stayed behind
def test_it_would_in_panel_before_1_10(monkeypatch):
    if BEFORE_1_10 and pn.__version__ != "1.9.4":
        pytest.skip("it was seen with Panel 1.9.4; whether it shows depends on what sends and when")

    async def as_bokeh(socket, *message, **options):
        await type(socket).write_message(socket, *message, **options)

    monkeypatch.setattr(compatibility, "_write", as_bokeh)
    assert asyncio.run(say_last(monkeypatch)) is not BEFORE_1_10


def test_sockets_would_wait_for_more_to_send(monkeypatch):
    delays = []

    def delay(connection):
        tcp = connection._socket.ws_connection.stream.socket
        return tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    async def look():
        async with served(lambda: Session().page()) as (_, document):
            (connection,) = document.session_context.session._subscribed_connections
            delays.append(delay(connection))

    asyncio.run(look())
    monkeypatch.setattr("explorer.app.send_at_once", lambda: None)
    asyncio.run(look())
    assert [bool(each) for each in delays] == [True, False]


@pytest.mark.parametrize("slider", [LiveSlider, pmui.FloatSlider])
def test_panel_waits_before_it_tells_of_an_event(slider, monkeypatch):
    waits, values = [], []
    original = BokehDocument.add_timeout_callback

    def add(document, callback, milliseconds):
        waits.append(milliseconds)
        return original(document, callback, milliseconds)

    monkeypatch.setattr(BokehDocument, "add_timeout_callback", add)

    async def move():
        def build():
            moved = slider(label="here", value=0.0, start=0.0, end=1.0)
            moved.param.watch(lambda event: values.append(event.new), "value")
            return moved

        async with served(build) as (page, _):
            _, model = page.component(label="here")
            waits.clear()
            await page.change(model, "value", 0.5)
            while not values:
                await asyncio.sleep(0.01)

    asyncio.run(move())
    assert values == [0.5]
    assert (waits == []) == (slider is LiveSlider)


def test_panel_runs_some_events_without_the_documents_lock(monkeypatch):
    held = []

    def build():
        slider = LiveSlider(label="here", value=0.0, start=0.0, end=1.0)
        slider.param.watch(lambda _: held.append(locked(pn.state.curdoc.session_context.session)), "value")
        return slider

    async def move():
        async with served(build) as (page, _):
            _, model = page.component(label="here")
            await page.change(model, "value", 0.5)
            for _ in range(500):
                if held:
                    return held.pop()
                await asyncio.sleep(0.01)
        raise AssertionError("the slider did not move")

    compatibility.one_event_at_a_time()
    assert all(asyncio.run(move()) for _ in range(3))
    for name in ("_change_coroutine", "_event_coroutine"):
        monkeypatch.setattr(Syncable, name, getattr(Syncable, name).__wrapped__)
    # without the change, another of the document's callbacks may hold the lock at that moment
    assert not all(asyncio.run(move()) for _ in range(10))


def locked(session):
    lock = session._lock
    return lock.locked() if hasattr(lock, "locked") else lock._block._value == 0  # asyncio's, or tornado's


@pytest.mark.skipif(BEFORE_1_10, reason="Panel before 1.10 has no such watch")
@pytest.mark.parametrize("prepared", [True, False])
def test_panels_watch_over_its_busy_signal_asks_for_its_turn_again_and_again(prepared, monkeypatch):
    monkeypatch.setattr(type(pn.state), "_busy_cleanup_scheduled", None, raising=False)
    turns, clicked = [], []
    original = BokehDocument.add_next_tick_callback

    def add(document, callback):
        turns.append(callback)
        return original(document, callback)

    async def click():
        if prepared:
            compatibility.watch_busy_from_the_loop()
            await asyncio.sleep(0.5)
        async with served(lambda: pmui.Button(label="here", on_click=clicked.append)) as (page, _):
            button, _ = page.component(label="here")
            monkeypatch.setattr(BokehDocument, "add_next_tick_callback", add)
            await page.click(button)
            await asyncio.sleep(1)

    asyncio.run(click())
    assert clicked
    assert (len(turns) < 20) == prepared


def test_a_page_of_materials_is_held_by_the_servers_busy_signal():
    for needed in (True, False):
        page = pmui.Page(busy_indicator=None)
        if not needed:
            compatibility.never_busy(
                page, page.param.disabled if "disabled" in page.param else pmui.Switch().param.disabled
            )
        held = weakref.ref(page)
        del page
        gc.collect()
        assert (held() is not None) == needed


@pytest.mark.parametrize("kind", [BoundedFileInput, pmui.FileInput])
def test_a_file_input_keeps_whatever_is_sent(kind):
    upload = kind(max_file_size=10)
    upload.most_bytes = 10
    chunk = {
        "name": "a.csv",
        "data": b"x" * 1000,
        "mime_type": "text/csv",
        "chunk": 1,
        "total_chunks": 2,
        "type": "chunk",
    }
    upload._process_chunk({"status": "in_progress", **chunk})
    kept = sum(len(part) for file in upload._file_buffer.values() for part in file["chunks"].values())
    assert kept == (11 if kind is BoundedFileInput else 1000)


@pytest.mark.parametrize("error", [WebSocketClosedError(), StreamClosedError(), ValueError("a fault")])
def test_departures_are_not_logged_and_faults_are(error, caplog):
    compatibility.silence_closed_connections()
    log = logging.getLogger("asyncio")
    try:
        raise error
    except Exception:
        log.error("Task exception was never retrieved", exc_info=sys.exc_info())
    assert len(caplog.records) == isinstance(error, ValueError)
    logging.getLogger("bokeh.server.views.ws").warning("Failed sending message as connection was closed")
    assert len(caplog.records) == isinstance(error, ValueError)


def run_and_remove():
    """A callback is due, and another thread removes it just before the event loop gets to it, as when a page closes."""
    from bokeh.util.asyncio import _CallbackGroup

    async def run():
        loop = asyncio.get_running_loop()
        group = _CallbackGroup(loop)

        def close():
            thread = threading.Thread(target=group.remove_all_callbacks)
            thread.start()
            thread.join()

        def callback():
            pass

        loop.call_later(0, close)
        group.add_timeout_callback(callback, 0, "a callback")
        time.sleep(0.1)  # both are due, in this order
        await asyncio.sleep(0.1)

    asyncio.run(run())


@pytest.mark.skipif(BEFORE_3_10, reason="Bokeh before 3.10 has its callbacks in the event loop's thread alone")
def test_bokeh_would_log_a_callback_that_a_closing_page_has_removed(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("asyncio"), "filters", [])
    run_and_remove()
    assert [record.name for record in caplog.records] == ["asyncio"]
    caplog.clear()
    compatibility.silence_closed_connections()
    run_and_remove()
    assert not caplog.records
