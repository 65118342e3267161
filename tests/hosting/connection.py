"""A page's WebSocket, spoken by hand."""

import asyncio
import json
import re

from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import websocket_connect

from tests.hosting.conftest import PATIENCE


class Page:
    """A page that was fetched: its token, and the cookie that leads to its server."""

    def __init__(self, address, token, cookie):
        self.address, self.token, self.cookie = address, token, cookie

    @classmethod
    async def fetch(cls, address, query="", **headers):
        response = await AsyncHTTPClient().fetch(
            f"{address}/{query}", headers=headers, request_timeout=PATIENCE, connect_timeout=PATIENCE
        )
        token = re.search(r'"token":"([^"]+)"', response.body.decode())[1]
        return cls(address, token, response.headers.get("Set-Cookie", "").partition(";")[0])

    async def connect(self, *, origin, token=None):
        """The open connection, after the server's greeting."""
        request = HTTPRequest(
            f"{self.address}/ws".replace("http", "ws", 1),
            headers={"Origin": origin, "Cookie": self.cookie},
            connect_timeout=PATIENCE,
            request_timeout=PATIENCE,
        )
        socket = await websocket_connect(request, subprotocols=["bokeh", token or self.token])
        socket.protocol.set_nodelay(True)  # as browsers do
        socket.greeting = await receive(socket)  # None if the server closed it
        closing = asyncio.ensure_future(_close_at_the_end(socket))
        _closing.add(closing)  # the event loop refers to its tasks weakly: this one would be collected before the end
        closing.add_done_callback(_closing.discard)
        return socket


_closing = set()


async def _close_at_the_end(socket):
    """Wait until the test's loop ends, which cancels this, and close what is still open."""
    try:
        await asyncio.Event().wait()
    finally:
        socket.close()
        if socket.protocol is not None:
            socket.protocol.stream.close()  # the loop does not wait for the server to close its end


class Document:
    """What the server made of a page: its models, how to change one as a browser does, and what comes back.

    Attributes
    ----------
    models : list of dict of each model's attributes, and its "id"
    """

    def __init__(self, socket):
        self.socket, self.models, self._inbox = socket, [], asyncio.Queue()
        self._listening = asyncio.ensure_future(self._listen())

    @classmethod
    async def visit(cls, address, query):
        """Of a page that was opened and drawn."""
        page = await Page.fetch(address, query)
        document = await cls.pull(await page.connect(origin=address))
        await document.loaded()
        return document

    @classmethod
    async def pull(cls, socket):
        document = cls(socket)
        await document._send("PULL-DOC-REQ")
        _collect(json.loads(await document.answer("PULL-DOC-REPLY")), document.models)
        return document

    def model(self, **attributes):
        """The one model that has these attributes."""
        found = [m for m in self.models if attributes.items() <= m.items()]
        assert len(found) == 1, (attributes, len(found))
        return found[0]

    def component(self, **data):
        """The one Material component that has these parameters, and its model of them."""
        found = [m for m in self.models if isinstance(m.get("data"), dict) and "attributes" in m["data"]]
        found = [m for m in found if all(m["data"]["attributes"].get(k) == v for k, v in data.items())]
        assert len(found) == 1, (data, len(found))
        return found[0], {**found[0]["data"]["attributes"], "id": found[0]["data"]["id"]}

    async def change(self, model, attribute, value):
        """Set an attribute of a model, or of anything with its id."""
        await self.patch({"kind": "ModelChanged", "model": {"id": model["id"]}, "attr": attribute, "new": value})

    async def loaded(self):
        """Tell what a browser tells when it has drawn the page."""
        await self._happen("document_ready", [])

    async def click(self, component):
        data = {"type": "map", "entries": []}
        await self._happen("dom_event", [["model", {"id": component["id"]}], ["node", "click"], ["data", data]])

    async def answer(self, kind="PATCH-DOC", *, seconds=PATIENCE):
        """The content of the next message of this kind, text; its buffers are passed over."""
        while True:
            found, content = await asyncio.wait_for(self._inbox.get(), seconds)
            assert found is not None, "the server closed the connection"
            if found == kind:
                return content

    def close(self):
        self._listening.cancel()
        self.socket.close()

    async def patch(self, event):
        await self._send("PATCH-DOC", {"events": [event]})

    async def _happen(self, name, entries):
        data = {"type": "event", "name": name, "values": {"type": "map", "entries": entries}}
        await self.patch({"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": data})

    async def _send(self, kind, content=None):
        for fragment in ({"msgid": "1", "msgtype": kind}, {}, content or {}):
            await self.socket.write_message(json.dumps(fragment))

    async def _listen(self):
        try:
            for _ in range(2):  # what follows the header of the greeting
                await self.socket.read_message()
            while (header := await self.socket.read_message()) is not None:
                header, _, content = json.loads(header), *[await self.socket.read_message() for _ in range(2)]
                for _ in range(2 * header.get("num_buffers", 0)):
                    await self.socket.read_message()
                self._inbox.put_nowait((header["msgtype"], content))
        finally:
            self._inbox.put_nowait((None, None))


def _collect(value, models):
    if isinstance(value, dict):
        if value.get("type") == "object" and "id" in value:
            models.append({**value.get("attributes", {}), "id": value["id"]})
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _collect(each, models)


async def receive(socket):
    return await asyncio.wait_for(socket.read_message(), PATIENCE)


def announce(socket, size):
    """Send no more of a text message than the head of its frame, which says how long it will be, in bytes."""
    text, masked = 0x81, 0x80
    socket.protocol.stream.write(bytes([text, masked | 127]) + size.to_bytes(8, "big") + bytes(4))


async def close_code(socket):
    """Read until the server closes the connection, and say why it did."""
    while await receive(socket) is not None:
        pass
    return socket.close_code
