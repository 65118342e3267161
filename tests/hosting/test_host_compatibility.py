"""What a host needs that is private: each fails here when it is no longer needed."""

import asyncio
import weakref

import panel as pn
import pytest

from explorer import app
from tests.hosting.conftest import free_ports
from tests.hosting.connection import Document, Page
from tests.hosting.test_server import ORIGIN, ask, forgotten, leave, serve  # noqa: F401


def test_bokeh_would_let_pages_be_embedded_elsewhere(serve):  # noqa: F811
    async def act(server, condition, address):
        for path in ("/autoload.js?bokeh-autoload-element=a", "/metadata"):
            assert (await ask(address + path))[0] == 404, path

    async def plain():
        port = free_ports(1)
        server = pn.serve(lambda: pn.pane.Markdown("a page"), port=port, start=False, show=False, verbose=False)
        server.start()
        try:
            address = f"http://localhost:{port}"
            assert (await ask(f"{address}/autoload.js?bokeh-autoload-element=a"))[0] == 200
        finally:
            server.stop(wait=False)

    asyncio.run(plain())
    serve(act)


@pytest.mark.parametrize("part", ["forget_document", "never_busy"])
def test_a_closed_page_would_stay(serve, monkeypatch, part):  # noqa: F811
    seen = {}

    def build():
        session = app.Session()
        seen["session"] = weakref.ref(session)
        return session.page()

    monkeypatch.setattr(app, "build", build)
    monkeypatch.setattr(app, part, lambda *_: None)

    async def act(server, condition, address):
        page = await Page.fetch(address)
        document = await Document.pull(await page.connect(origin=ORIGIN))
        await document.loaded()
        seen["document"] = weakref.ref(server.get_sessions()[0].document)
        await leave(server, document)
        with pytest.raises(AssertionError):
            await forgotten(seen, patience=5)

    serve(act)
