"""What the server changes reaches the page, however slowly its messages leave."""

import asyncio

import panel as pn
from tornado.websocket import WebSocketHandler

from explorer.app import Session
from tests.hosting.conftest import free_ports
from tests.hosting.connection import Document

write_at_once = WebSocketHandler.write_message


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


def test_the_last_change_does_not_stay_behind(monkeypatch):
    async def deliver():
        line, sessions, port = Line(), [], free_ports(1)
        monkeypatch.setattr(WebSocketHandler, "write_message", lambda *message, **kind: line.write(*message, **kind))

        def build():
            sessions.append(Session())
            return sessions[-1].page()

        server = pn.serve(build, port=port, start=False, show=False, verbose=False)
        server.start()
        page = await Document.visit(f"http://localhost:{port}", "")
        await asyncio.sleep(0.5)
        projector = sessions[0].projector
        document = server.get_sessions()[0].document
        _, switch = page.component(label="Projector")

        def say(text):
            def change():
                projector.label = text

            document.add_next_tick_callback(change)

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
        while '"last"' not in await page.answer(seconds=5):
            pass
        page.close()
        server.stop()

    asyncio.run(deliver())
