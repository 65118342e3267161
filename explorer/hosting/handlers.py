"""Request handlers of a hosted server: the page within the limit of sessions, its WebSocket, components, and health."""

import asyncio
import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from bokeh.protocol.exceptions import ProtocolError
from bokeh.util.token import get_session_id
from tornado.web import HTTPError, RequestHandler

from explorer.hosting.compatibility import ComponentResourceHandler, DocHandler, WSHandler

log = logging.getLogger("explorer.hosting")

BUILDS = 2  # pages that are built at a time

UNAVAILABLE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="20">
<meta name="viewport" content="width=device-width"><title>Objective perturbation explorer</title>
<body style="font: 18px/1.5 sans-serif; max-width: 34em; margin: 20vh auto; padding: 0 1em">
<h1 style="font-size: 1.3em">{heading}</h1><p>{text} This page reloads by itself.</p></body></html>
"""
FULL = UNAVAILABLE.format(heading="The explorer is full", text="The limit of open pages is reached at the moment.")
STOPPING = UNAVAILABLE.format(heading="The explorer is restarting", text="It is available again in a moment.")


class Condition:
    """The state of a server, shared by its handlers.

    Parameters
    ----------
    settings : Settings
    engine : Engine
    max_sessions : int, of this server

    Attributes
    ----------
    stopping : bool
    opening : int, pages that are being built
    sockets : set of the SocketHandler that are open
    builds : Semaphore, of pages that are built at a time
    health : ThreadPoolExecutor, for asking the engine whether it is ready
    """

    def __init__(self, settings, *, engine, max_sessions):
        self.settings, self.engine, self.max_sessions = settings, engine, max_sessions
        self.stopping, self.opening, self.sockets = False, 0, set()
        # Bokeh builds pages and handles their events in one small pool of threads, which a class that opens the page at
        # the same moment would fill: slider events and health checks must not wait until all pages are built.
        self.builds, self.health = (
            asyncio.Semaphore(BUILDS),
            ThreadPoolExecutor(1, thread_name_prefix="explorer-health"),
        )

    def refusal(self, context):
        """The page that a new session gets instead of the explorer, or None."""
        if self.stopping:
            return STOPPING
        # Pages that are being built count too: building one takes a while, and others can ask meanwhile.
        return FULL if len(list(context.sessions)) + self.opening >= self.max_sessions else None

    def expire(self):
        """End the sessions from which no message has come for `idle_seconds`."""
        for socket in tuple(self.sockets):
            socket.expire(self.settings.idle_seconds)


class PageHandler(DocHandler):
    """The explorer, or a page that says why it is not available now."""

    async def get(self, *arguments, **named):
        refusal = self.settings["condition"].refusal(self.application_context)
        if refusal is None:
            await super().get(*arguments, **named)
            return
        self.set_status(503)
        self.set_header("Retry-After", "20")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Set-Cookie", "explorer_server=; Path=/; Max-Age=0")  # another server may be free
        await self.finish(refusal)

    async def get_session(self):
        condition = self.settings["condition"]
        condition.opening += 1
        try:
            async with condition.builds:
                return await super().get_session()
        finally:
            condition.opening -= 1


class SocketHandler(WSHandler):
    """The connection of a page: from the allowed origins, to the session that its page was made with."""

    last_message, token = 0.0, ""

    async def prepare(self):
        # Tornado accepts any origin that equals the request's own Host header, which another site can arrange.
        origin = self.request.headers.get("Origin")
        if origin is not None and not self.check_origin(origin):
            raise HTTPError(403)
        await super().prepare()

    def check_origin(self, origin):
        return origin.lower() in self.settings["condition"].settings.origins()

    def select_subprotocol(self, subprotocols):
        self.token = subprotocols[1] if len(subprotocols) == 2 else ""
        return super().select_subprotocol(subprotocols)

    def open(self, *arguments, **named):
        # Bokeh would create a session that has ended again, outside the limit, with models that the page does not have.
        try:
            session = self.application_context.get_session(get_session_id(self.token))
            gone = session.expiration_requested
        except (ProtocolError, ValueError):
            gone = True
        if gone:
            self.close(4404, "this session has ended; reload the page")
            return
        self.last_message = time.monotonic()
        self.settings["condition"].sockets.add(self)
        super().open(*arguments, **named)

    def on_close(self):
        self.settings["condition"].sockets.discard(self)
        super().on_close()

    async def on_message(self, fragment):
        self.last_message = time.monotonic()
        if self.receiver is None:  # not opened yet, or refused
            self.close(4400, "too early")
            return
        await super().on_message(fragment)

    def expire(self, limit):
        """Close the connection, and end its session, if it has been silent for `limit` seconds."""
        if self.connection is not None and time.monotonic() - self.last_message > limit:
            self.connection.session.request_expiration()
            self.close(4408, "the page was idle; reload it")


class ComponentHandler(ComponentResourceHandler):
    """Files of the components in use; Panel would import any module that a request names."""

    def parse_url_path(self, url_path):
        if url_path.partition("/")[0] not in sys.modules:
            raise HTTPError(404)
        return super().parse_url_path(url_path)


class LiveHandler(RequestHandler):
    """Whether this process answers."""

    def get(self):
        self.set_header("Cache-Control", "no-store")
        self.finish({"live": True})


class ReadyHandler(RequestHandler):
    """Whether new sessions are accepted: not while the server stops, nor while the engine cannot be reached."""

    async def get(self):
        condition = self.settings["condition"]
        ready = asyncio.get_running_loop().run_in_executor(condition.health, condition.engine.ready)
        state = {"stopping": condition.stopping, "pool": await ready}
        ready = state["pool"] and not condition.stopping
        self.set_status(200 if ready else 503)
        self.set_header("Cache-Control", "no-store")
        await self.finish({"ready": ready, **state})


def log_request(handler):
    """Log the handler, status and time of a request; nothing about the client, and not the requested address."""
    name, status = type(handler).__name__, handler.get_status()
    log.info("%s %s %d %.0f ms", handler.request.method, name, status, 1000 * handler.request.request_time())
