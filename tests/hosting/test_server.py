"""One server with a small page in this process: its limit, idle sessions, its path, and its graceful end."""

import asyncio
import gc
import signal
import weakref

import bokeh.server.urls
import panel as pn
import pytest

from explorer import app
from explorer.compute.remote import RemoteEngine
from explorer.hosting import server as hosting
from explorer.hosting.settings import Settings
from explorer.pages.fit.view import FitView
from explorer.uploads import read_csv
from tests.hosting.conftest import PATIENCE, free_ports, get
from tests.hosting.connection import Document, Page, close_code, receive
from tests.pages.test_fit_view import CSV, send

ORIGIN = "http://explorer.example:8080"


class IdleEngine(RemoteEngine):
    """An engine of another process that is not asked for anything."""

    def __init__(self, *, running=0):
        super().__init__("/nowhere/pool", authkey=b"key")
        self.running = running

    def unfinished(self):
        return self.running


@pytest.fixture
def serve(monkeypatch):
    """Run a coroutine function with a server, its condition and its address, in the loop that serves."""
    monkeypatch.setattr(app, "build", lambda: pn.pane.Markdown("a small page"))
    patterns, interrupt = list(bokeh.server.urls.per_app_patterns), signal.getsignal(signal.SIGINT)

    def run(act, engine=None, **settings):
        async def both():
            port = free_ports(1)
            settings_ = Settings(port=port, servers=1, prefix="/explorer", origin=ORIGIN, **settings)
            server, condition = hosting.build_server(
                settings_, index=0, engine=engine or IdleEngine(), secret="a secret"
            )
            server.start()
            try:
                await act(server, condition, f"http://127.0.0.1:{port}/explorer")
            finally:
                if not server._stopped:
                    server.stop(wait=False)

        asyncio.run(both())

    yield run
    bokeh.server.urls.per_app_patterns[:] = patterns
    signal.signal(signal.SIGINT, interrupt)
    pn.state.kill_all_servers()


async def ask(address):
    return await asyncio.to_thread(get, address)


def test_a_full_server_says_so_and_has_room_when_a_page_is_gone(serve):
    async def act(server, condition, address):
        page = await Page.fetch(address)
        socket = await page.connect(origin=ORIGIN)
        status, headers, text = await ask(f"{address}/")
        assert (status, headers["Retry-After"]) == (503, "20")
        assert "The explorer is full" in text
        assert headers["Set-Cookie"] == "explorer_server=; Path=/; Max-Age=0"
        socket.close()
        while server.get_sessions()[0].connection_count:
            await asyncio.sleep(0.01)
        await server._tornado.applications["/"]._cleanup_sessions(-1)
        assert (await ask(f"{address}/"))[0] == 200

    serve(act, sessions=1)


def test_a_session_outlives_a_short_loss_of_its_connection(serve):
    async def act(server, condition, address):
        page = await Page.fetch(address)
        for _ in range(2):
            socket = await page.connect(origin=ORIGIN)
            assert '"ACK"' in socket.greeting
            socket.close()
            await server._tornado._cleanup_sessions()
        assert len(server.get_sessions()) == 1

    serve(act)


def test_an_idle_session_is_ended(serve):
    async def act(server, condition, address):
        page = await Page.fetch(address)
        socket = await page.connect(origin=ORIGIN)
        condition.expire()
        assert server.get_sessions()[0].connection_count == 1
        for handler in condition.sockets:
            handler.last_message -= 7201
        condition.expire()
        assert await close_code(socket) == 4408
        again = await page.connect(origin=ORIGIN)  # its session cannot be resumed
        assert (again.greeting, again.close_code) == (None, 4404)
        await server._tornado._cleanup_sessions()
        assert server.get_sessions() == []

    serve(act)


def test_an_upload_is_gone_with_its_session(serve, monkeypatch):
    seen = {}

    def build():
        view = FitView(engine=IdleEngine())
        seen["view"] = weakref.ref(view)
        send(view, CSV)
        return view

    monkeypatch.setattr(app, "build", build)

    async def act(server, condition, address):
        page = await Page.fetch(address)
        document = await Document.pull(await page.connect(origin=ORIGIN))
        await document.loaded()
        while "mine.csv: 80 records" not in await document.answer():
            pass
        seen["table"] = weakref.ref(seen["view"]().state.upload)
        assert seen["table"]() == read_csv(CSV, name="mine.csv")
        await leave(server, document)
        await forgotten(seen)

    serve(act)


def test_closed_pages_are_freed(serve, monkeypatch):
    """Of every kind, each with its session and its document."""
    built, seen = [], {}

    def build():
        session = app.Session()
        built.append(weakref.ref(session))
        return session.page()

    monkeypatch.setattr(app, "build", build)

    async def act(server, condition, address):
        for name in (app.START, *app.PAGES):
            page = await Page.fetch(address, f"?page={app.slug(name)}")
            document = await Document.pull(await page.connect(origin=ORIGIN))
            await document.loaded()
            seen[name, "session"] = built.pop()
            seen[name, "document"] = weakref.ref(server.get_sessions()[0].document)
            await leave(server, document)
        await forgotten(seen)

    serve(act)


async def leave(server, document):
    """Close a page's connection and have its session ended."""
    document.close()
    async with asyncio.timeout(PATIENCE):
        while server.get_sessions():  # a session stays while a thread still does something for it
            await asyncio.sleep(0.01)
            await server._tornado.applications["/"]._cleanup_sessions(-1)


async def forgotten(seen, *, patience=200):
    """Wait until nothing holds what a dict of weak references leads to."""
    for _ in range(patience):  # the last callbacks of the session hold it for some turns of the loop
        gc.collect()
        if all(reference() is None for reference in seen.values()):
            return
        await asyncio.sleep(0.1)
    raise AssertionError([name for name, reference in seen.items() if reference() is not None])


def test_everything_is_under_the_path(serve):
    async def act(server, condition, address):
        for path in ("/", "/healthz", "/favicon.ico", "/static/js/bokeh.min.js"):
            assert (await ask(address + path))[0] == 200, path
        assert (await ask(f"{address.removesuffix('/explorer')}/healthz"))[0] == 404

    serve(act)


def test_tokens_hold_nothing_but_the_session_and_its_query(serve):
    async def act(server, condition, address):
        page = await Page.fetch(address, "?page=fit", **{"User-Agent": "Telltale/1", "Cookie": "a=b"})
        session = server.get_sessions()[0]
        payload = session.document.session_context.token_payload
        assert (payload["headers"], payload["cookies"]) == ({}, {})
        assert payload["arguments"] == {"page": [b"fit"]}
        assert page.token == session.token

    serve(act)


def test_a_stop_is_told_and_waits_for_what_runs(serve):
    engine = IdleEngine(running=1)

    async def act(server, condition, address):
        socket = await (await Page.fetch(address)).connect(origin=ORIGIN)
        await socket.write_message('{"msgid": "1", "msgtype": "PULL-DOC-REQ"}')
        for _ in range(2):
            await socket.write_message("{}")
        while "a small page" not in await receive(socket):
            pass
        ending = asyncio.create_task(hosting.end_gracefully(server, condition))
        while "The explorer is restarting" not in await receive(socket):
            pass
        status, _, text = await ask(f"{address}/")
        assert (status, "The explorer is restarting" in text) == (503, True)
        assert (await ask(f"{address}/readyz"))[0] == 503
        assert not ending.done()  # a computation is running
        engine.running = 0
        await ending
        assert server._stopped

    serve(act, engine=engine)


def test_a_stop_does_not_wait_for_ever(serve):
    async def act(server, condition, address):
        await hosting.end_gracefully(server, condition)
        assert server._stopped

    serve(act, engine=IdleEngine(running=1), stop_seconds=0.1)
