"""A host with room for one, under a path: full, again free, idle, and its graceful end."""

import asyncio
import signal

import pytest
from conftest import Host, get, until
from connection import Page, close_code, receive

ORIGIN = "http://explorer.example:8080"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    host = Host(folder, servers=1, sessions=1, unused_seconds=1, idle_seconds=3, prefix="/explorer", origin=ORIGIN)
    yield host
    if host.process.poll() is None:
        host.process.send_signal(signal.SIGTERM)
        host.process.wait(60)


def test_a_full_host_says_so_and_has_room_again_later(host):
    async def run():
        page = await Page.fetch(host.address)
        socket = await page.connect(origin=ORIGIN)
        status, headers, text = await asyncio.to_thread(get, f"{host.address}/")
        assert (status, headers["Retry-After"]) == (503, "20")
        assert "The explorer is full" in text
        assert headers["Set-Cookie"] == "explorer_server=; Path=/; Max-Age=0"
        assert await close_code(socket) == 4408  # nobody touched the page
        again = await page.connect(origin=ORIGIN)  # and its session is not to be had again
        assert (again.greeting, again.close_code) == (None, 4404)

    asyncio.run(run())
    until(lambda: get(f"{host.address}/")[0] == 200, "there is room again")


def test_files_are_under_the_path(host):
    until(lambda: (page := get(f"{host.address}/"))[0] == 200 and page, "a page")
    assert get(f"{host.address}/healthz")[0] == 200
    assert get(f"{host.address}/favicon.ico")[0] == 200
    assert get(f"{host.address}/static/js/bokeh.min.js")[0] == 200
    assert get(f"{host.address.removesuffix('/explorer')}/healthz")[0] == 404


def test_a_stop_is_told_to_those_who_are_there(host):
    async def run():
        for _ in range(60):
            try:
                page = await Page.fetch(host.address)
                break
            except Exception:  # the session before has a second to go
                await asyncio.sleep(0.5)
        socket = await page.connect(origin=ORIGIN)
        await socket.write_message('{"msgid": "1", "msgtype": "PULL-DOC-REQ"}')
        await socket.write_message("{}")
        await socket.write_message("{}")
        while '"PULL-DOC-REPLY"' not in await receive(socket):
            pass
        host.process.send_signal(signal.SIGTERM)
        told = ""
        while (message := await receive(socket)) is not None:
            told += message if isinstance(message, str) else ""
        assert "The explorer is restarting" in told

    asyncio.run(run())
    assert host.process.wait(60) == 0
    assert "did not stop in time" not in host.log()
    assert host.log().rstrip().endswith("stopped")
