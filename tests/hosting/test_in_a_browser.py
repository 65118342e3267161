"""The page in Chromium through nginx: under its security policy, on one of two servers, with one engine for both."""

import os
import signal

import numpy as np
import pytest

from explorer.pages.bounds.state import BoundsState
from tests.hosting.conftest import PATIENCE, get, until
from tests.ui.conftest import Explorer


@pytest.fixture
def explorer(chromium, proxied):
    page = chromium.new_page(viewport={"width": 1280, "height": 950})
    page.set_default_timeout(1000 * PATIENCE)
    sockets = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    explorer = Explorer(page, proxied[0].address)
    explorer.sockets = sockets
    yield explorer
    page.close()


def test_slider_fit_and_nothing_from_elsewhere(explorer, proxied):
    proxy, _ = proxied
    page = explorer.page
    explorer.open("Bounds")
    explorer.slider("σ").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    explorer.until(lambda: explorer.field("σ") > 5)

    def curve_is_of_the_slider():
        expected = BoundsState(noise_std=explorer.field("σ")).curves()["Hockey-stick"]
        return np.allclose(explorer.data("bounds_curves", "Hockey-stick"), expected, rtol=1e-12)

    explorer.until(curve_is_of_the_slider)
    page.get_by_role("tab", name="Fit", exact=True).click()
    page.get_by_role("button", name="Train").click()
    page.get_by_text("in the median of 20 draws").wait_for(timeout=60_000)
    assert [url.partition("?")[0] for url in explorer.sockets] == [f"ws{proxy.address.removeprefix('http')}/ws"]
    assert explorer.errors == []  # what the policy forbids would be among them
    assert [url for url in explorer.requests if not url.startswith((proxy.address, "data:", "blob:"))] == []


def test_a_server_or_the_engine_that_dies_is_replaced(proxied):
    proxy, host = proxied
    for name, line in (("server 0", "server 0 listens"), ("engine", "the engine runs")):
        before = host.pid(line)
        os.kill(before, signal.SIGKILL)
        until(lambda name=name: f"{name} ended with exit code -9" in host.log(), "the host has seen it")
        assert get(f"{proxy.address}/healthz")[0] == 200  # by the other server
        until(lambda line=line, before=before: host.pid(line) != before, f"a new {name}")
    until(host.ready, "all is well again")


def test_the_host_ends_when_it_is_told_to(proxied):
    proxy, host = proxied
    assert host.stop() == 0
    assert "did not stop in time" not in host.log()
    assert host.log().rstrip().endswith("stopped")
    assert get(f"{proxy.address}/healthz")[0] == 502
