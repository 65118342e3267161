"""Behind the real proxy, without a browser: who is let in, what may be sent, and what is written down."""

import asyncio
import json

import pytest
from tornado.httpclient import HTTPClientError

from tests.hosting.conftest import get, until
from tests.hosting.connection import Page, announce, close_code, receive

SECRET_VALUE = "7.0625"  # in a query, which no log may hold


@pytest.fixture
def address(proxied):
    return proxied[0].address


@pytest.fixture(scope="module")
def page(proxied):
    return asyncio.run(
        Page.fetch(proxied[0].address, f"?page=bounds&noise_std={SECRET_VALUE}", **{"User-Agent": "Telltale/1"})
    )


def test_health_and_headers(address):
    status, headers, text = get(f"{address}/healthz")
    assert (status, json.loads(text)) == (200, {"live": True})
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    status, _, text = get(f"{address}/readyz")
    assert (status, json.loads(text)) == (200, {"ready": True, "stopping": False, "pool": True})


def test_a_browser_is_led_to_one_server(proxied):
    proxy, host = proxied
    _, headers, _ = get(f"{proxy.address}/healthz")
    cookie = headers["Set-Cookie"]
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax")
    served = {i: host.log().count(f"[{host.pid(f'server {i} listens')}] GET LiveHandler") for i in range(2)}
    for _ in range(8):
        assert get(f"{proxy.address}/healthz", Cookie=cookie.partition(";")[0])[1]["Set-Cookie"] is None

    def increases():
        counts = [host.log().count(f"[{host.pid(f'server {i} listens')}] GET LiveHandler") for i in range(2)]
        return sorted(counts[i] - served[i] for i in range(2))

    # A line is written after its answer is sent, so that of the first request, of the same server, can come this late.
    until(lambda: sum(increases()) >= 8, "eight requests are logged")
    assert increases()[0] == 0


def test_the_page_connects_from_its_own_origin_alone(address, page):
    async def run():
        for origin in ("http://evil.example", "null", address.replace("http", "https"), f"{address}.evil.example"):
            with pytest.raises(HTTPClientError, match="403"):
                await page.connect(origin=origin)
        socket = await page.connect(origin=address)
        assert '"ACK"' in socket.greeting
        socket.close()

    asyncio.run(run())


def test_sessions_cannot_be_named_or_made_by_others(address, page):
    async def run():
        for query in ("?bokeh-session-id=mine", "?bokeh-token=mine"):
            with pytest.raises(HTTPClientError, match=r"40[03]|500"):
                await Page.fetch(address, query)
        payload, _, signature = page.token.rpartition(".")
        forged = f"{payload}.{signature[:-4]}AAAA"
        socket = await page.connect(origin=address, token=forged)
        assert socket.greeting is None

    asyncio.run(run())


def test_a_message_too_large_is_refused(address, page):
    async def run():
        socket = await page.connect(origin=address)
        announce(socket, 200_001)
        assert await close_code(socket) in (1009, None)  # at once; the end may overtake the code that says why
        socket = await page.connect(origin=address)
        announce(socket, 199_999)
        with pytest.raises(TimeoutError):  # the server waits for the rest
            await asyncio.wait_for(close_code(socket), 1)
        socket.close()

    asyncio.run(run())


HEADER = '{"msgid": "1", "msgtype": "PATCH-DOC"}'
MALFORMED = {
    "text": ["hello"],
    "binary": [b"\x00\xff\xfe"],
    "not an object": ["[]", "{}", "{}"],
    "no such type": ['{"msgid": "1", "msgtype": "EVAL"}', "{}", "{}"],
    "no content": [HEADER, "{}", "null"],
    "wrong content": [HEADER, "{}", '{"events": 3}'],
    "no such model": [
        HEADER,
        "{}",
        '{"events": [{"kind": "ModelChanged", "model": {"id": "nothing"}, "attr": "value", "new": 1}]}',
    ],
    "no such event": [HEADER, "{}", '{"events": [{"kind": "Exec"}]}'],
    "nested": [HEADER, "{}", "[" * 20_000],
    "more buffers than sent": ['{"msgid": "1", "msgtype": "PATCH-DOC", "num_buffers": 1000000000}', "{}", "{}"],
}


def test_malformed_messages_end_their_own_connection_at_most(address, page):
    async def run():
        bystander = await page.connect(origin=address)
        for name, fragments in MALFORMED.items():
            socket = await page.connect(origin=address)
            assert socket.greeting is not None, name
            for fragment in fragments:
                await socket.write_message(fragment, binary=isinstance(fragment, bytes))
            if name != "more buffers than sent":  # the server waits for those
                await receive(socket)  # an error, or the end
            socket.close()
        await bystander.write_message('{"msgid": "2", "msgtype": "SERVER-INFO-REQ"}')
        await bystander.write_message("{}")
        await bystander.write_message("{}")
        while '"SERVER-INFO-REPLY"' not in await receive(bystander):
            pass

    asyncio.run(run())
    assert get(f"{address}/readyz")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "static/..%2f..%2f..%2f..%2fetc/passwd",
        "static/%2e%2e/%2e%2e/server.py",
        "static//etc/passwd",
        "static/extensions/panel/..%2f..%2fconfig.py",
        "static/extensions/nothing/x.js",
        "components/antigravity/x/css/y",
        "components/explorer.compute.job/Path/css/etc/passwd",
        "components/..%2f..%2f/x/css/y",
        "autoload.js?bokeh-autoload-element=x",
        "metadata",
        "static/js/%00bokeh.min.js",
    ],
)
def test_there_is_nothing_beside_the_page_and_its_files(proxied, path):
    for address in (proxied[0].address, proxied[1].address):
        status, _, text = get(f"{address}/{path}")
        assert status >= 400, path
        assert "root:" not in text


def test_logs_hold_nothing_about_people(proxied, page):
    proxy, host = proxied

    async def run():
        socket = await page.connect(origin=proxy.address)
        for _ in range(3):
            await socket.write_message(f"secret {SECRET_VALUE}")
        await close_code(socket)
        with pytest.raises(HTTPClientError, match="403"):
            await page.connect(origin="http://telltale.example")

    asyncio.run(run())
    get(f"{host.address}/no/such/{SECRET_VALUE}?q={SECRET_VALUE}", **{"X-Forwarded-For": "192.0.2.7"})
    access = proxy.folder / "access.log"
    until(lambda: "GET PageHandler 200" in host.log() and " GET / 200 " in access.read_text(), "requests are logged")
    written = host.log() + "".join(path.read_text() for path in proxy.folder.glob("*.log"))
    for secret in (SECRET_VALUE, "noise_std", "elltale", "127.0.0.1", "192.0.2.7", page.token[:40], page.token[-40:]):
        assert secret not in written
