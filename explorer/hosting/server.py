"""One server process of a hosted explorer."""

import asyncio
import gc
import logging
import math
import multiprocessing
import os
import signal
import time

from explorer import compute
from explorer.compute.processes import exit_with_parent
from explorer.compute.remote import RemoteEngine
from explorer.hosting.logs import configure_logging

log = logging.getLogger("explorer.hosting")

CHECK_MILLISECONDS = 5_000
GARBAGE_MILLISECONDS = 10_000
BODY_BYTES = 64 * 2**10  # of HTTP requests, none of which needs one
TOKEN_SECONDS = 12 * 3600  # within these a page may connect again; the session it names must still be there
NOTICE_SECONDS = 1  # for answers to what was just requested, and for a proxy to see that the server is not ready
STOPPING_TEXT = "The explorer is restarting: reload the page in a moment. Its address keeps what you see."


def run_server(settings, *, index, jobs_address, secret):
    """Serve until SIGTERM or the end of the parent process, then stop gracefully.

    Parameters
    ----------
    settings : Settings
    index : int, which of the servers this is
    jobs_address : str, the socket of the process that runs all servers' jobs
    secret : str, which signs sessions; the same for all servers
    """
    configure_logging()
    answers = compute.choose(settings.scheduler)
    key = bytes(multiprocessing.current_process().authkey)
    engine = RemoteEngine(jobs_address, authkey=key, answers=answers, on_cluster=answers.on_cluster)
    compute.use(engine)
    asyncio.run(_serve(settings, index=index, engine=engine, secret=secret))


async def _serve(settings, *, index, engine, secret):
    server, condition = build_server(settings, index=index, engine=engine, secret=secret)
    configure_logging()  # again: the libraries are loaded now, and some have set up handlers
    prepare(server)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def stop():
        if not condition.stopping:
            condition.stopping = True  # at once, so that a second signal has no effect
            ending = condition.ending = loop.create_task(end_gracefully(server, condition))
            ending.add_done_callback(lambda _: ended.set())

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets Ctrl-C too, and asks by SIGTERM
    loop.add_signal_handler(signal.SIGTERM, stop)
    exit_with_parent(lambda: loop.call_soon_threadsafe(stop))
    server.start()
    log.info("server %d listens on port %d", index, server.port)
    await ended.wait()
    os._exit(0)  # threads of sessions must not hold up the end


async def run_until_stopped(server):
    """Start a server and serve until Ctrl-C or SIGTERM; for a coroutine that is all that its event loop runs."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(name, stopped.set)
        except NotImplementedError:  # Windows, where Ctrl-C then raises KeyboardInterrupt in `asyncio.run`
            signal.signal(name, signal.default_int_handler)
    server.start()
    try:
        await stopped.wait()
    finally:
        server.stop(wait=False)


def prepare(server):
    """What any server does before it starts: see `collect_rarely`, `watch_busy_from_the_loop`, Engine.prepare."""
    from explorer.interface import compatibility

    compute.engine().prepare()
    server.io_loop.add_callback(compatibility.watch_busy_from_the_loop)
    collect_rarely(server)


def collect_rarely(server):
    """Collect cyclic garbage after pages were closed, and otherwise less often than Python does; never among the
    objects that exist at the start.

    An answer to a slider makes thousands of objects that live for milliseconds, and a collection with the pages of a
    class open takes 200 to 600 ms, in which no session is answered. But a closed page is megabytes of cyclic garbage,
    and Panel (1.9) collects it only after a time in which no page was closed.
    """
    from tornado.ioloop import PeriodicCallback

    known = set()

    def collect():
        here = {session.id for session in server.get_sessions()}
        if not known <= here:
            gc.collect()
        known.clear()
        known.update(here)

    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    server.io_loop.add_callback(PeriodicCallback(collect, GARBAGE_MILLISECONDS).start)


def build_server(settings, *, index, engine, secret):
    """A Bokeh server with this package's handlers and limits, not yet started, and its Condition."""
    import panel as pn
    from tornado.ioloop import PeriodicCallback
    from tornado.web import RedirectHandler

    from explorer import app
    from explorer.hosting import compatibility, handlers

    condition = handlers.Condition(
        settings, engine=engine, max_sessions=math.ceil(settings.sessions / settings.servers)
    )
    compatibility.serve_only(handlers.PageHandler, handlers.SocketHandler)
    # Bokeh has its icon at the root alone; Panel has it among its files too.
    icon = f"{settings.prefix}/static/extensions/panel/images/favicon.ico"
    server = pn.serve(
        {"/": app.build},
        port=settings.port + index,
        address=settings.address,
        prefix=settings.prefix,
        title="Objective perturbation explorer",
        show=False,
        start=False,
        verbose=False,
        extra_patterns=[
            (r"/healthz", handlers.LiveHandler),
            (r"/readyz", handlers.ReadyHandler),
            (r"/components/(.*)", handlers.ComponentHandler),
            *([(r"/favicon.ico", RedirectHandler, {"url": icon})] if settings.prefix else []),
        ],
        websocket_origin=["localhost"],  # SocketHandler compares whole origins instead
        websocket_max_message_size=settings.message_bytes,
        http_server_kwargs={"max_body_size": BODY_BYTES},
        unused_session_lifetime_milliseconds=int(1000 * settings.unused_seconds),
        check_unused_sessions_milliseconds=int(1000 * min(settings.unused_seconds, CHECK_MILLISECONDS / 1000)),
        secret_key=secret.encode(),
        sign_sessions=True,  # nobody can name a session that a server has not made
        session_token_expiration=TOKEN_SECONDS,
        include_headers=[],
        include_cookies=[],
        log_function=handlers.log_request,
        condition=condition,
    )
    condition.expiry = PeriodicCallback(condition.expire, min(CHECK_MILLISECONDS, 1000 * settings.idle_seconds))
    server.io_loop.add_callback(condition.expiry.start)
    return server, condition


async def end_gracefully(server, condition):
    """Refuse new sessions, tell the open ones, let their jobs finish within `stop_seconds`, and stop serving."""
    condition.stopping = True
    log.info("stopping: %d sessions, %d computations", len(server.get_sessions()), condition.engine.unfinished())
    condition.engine.close("the server is restarting")
    for session in server.get_sessions():
        session.document.add_next_tick_callback(_tell)
    deadline = time.monotonic() + condition.settings.stop_seconds
    await asyncio.sleep(NOTICE_SECONDS)
    while condition.engine.unfinished() and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    server.stop(wait=False)


def _tell():
    import panel as pn

    if pn.state.notifications is not None:
        pn.state.notifications.warning(STOPPING_TEXT, duration=0)
