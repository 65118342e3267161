"""A page's WebSocket, spoken by hand."""

import asyncio
import re

from conftest import PATIENCE
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.websocket import websocket_connect


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
        socket.greeting = await receive(socket)  # None if the server closed it
        return socket


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
