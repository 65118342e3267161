"""A served app and a browser page on it; without a Chromium the tests are skipped, or fail under REQUIRE_BROWSER=1."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest
from playwright.sync_api import sync_playwright

from explorer.app import slug

PATIENCE = 60_000  # milliseconds; generous, since other tests keep the machine busy meanwhile
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def chromium_path():
    """Of the Chromium that $CHROMIUM names, or the system's."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"


@pytest.fixture(scope="module")  # while Playwright is open, no other test can run an event loop
def chromium():
    path = chromium_path()
    if not os.access(path, os.X_OK):
        reason = f"no Chromium at {path}; set CHROMIUM to one, or install Debian's package"
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server():
    """The address of a served app."""
    with serve() as address:
        yield address


@contextmanager
def serve():
    """`python -m explorer` on a free port, as a user starts it; gives its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "explorer", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    address = f"http://localhost:{port}"
    try:
        assert address in process.stdout.readline()  # the address is printed before anything else
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{address}/favicon.ico", timeout=5).close()  # the page itself takes longer
                break
            except OSError:
                assert process.poll() is None, process.stdout.read()
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def open_page(page, address, name, **query):
    """Open the explorer's page of that name by a link that holds these parameters."""
    page.goto(f"{address}/?{urlencode({'page': slug(name), **query})}")
    page.get_by_role("tab", name=name, exact=True, selected=True).wait_for(timeout=PATIENCE)


class Explorer:
    """A browser page on the app, and what it has drawn."""

    def __init__(self, page, address):
        self.page, self.address, self.requests, self.errors = page, address, [], []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)

    def open(self, name, **query):
        """Open the named page by a link that holds these parameters."""
        open_page(self.page, self.address, name, **query)
        self.wait_for_controls()

    def wait_for_controls(self):
        """Wait until the open page is made, which it is when it is first opened."""
        self.page.locator("[role=slider]:visible, input[type=range]:visible").first.wait_for(timeout=PATIENCE)

    def slider(self, symbol):
        """The slider on the open page whose label starts with the parameter's symbol."""
        return self.page.get_by_role("slider", name=re.compile(rf"^{symbol}\s")).first

    def data(self, source, column):
        """A column of the named Bokeh source as the browser has it."""
        script = """([source, column]) => Array.from(
            Bokeh.documents[0].get_model_by_name(source).data[column] ?? [], Number)"""
        return self.page.evaluate(script, [source, column])

    def visible(self, curve):
        """Whether the named curve is drawn."""
        return self.page.evaluate("name => Bokeh.documents[0].get_model_by_name(name).visible", curve)

    def until(self, condition):
        """Wait until condition() is true; the browser keeps running meanwhile."""
        for _ in range(PATIENCE // 50):
            if condition():
                return
            self.page.wait_for_timeout(50)
        fields = [box.input_value() for box in self.page.get_by_role("textbox").all() if box.is_visible()]
        raise AssertionError(f"not reached in {PATIENCE / 1000:g} s at {self.page.url}, where the fields say {fields}")

    def settle(self):
        """Wait until no field has changed for a second: what a busy server has still to say of the keys."""
        values, calm = None, 0
        for _ in range(600):
            boxes = [box.input_value() for box in self.page.get_by_role("textbox").all() if box.is_visible()]
            values, calm = boxes, calm + 1 if boxes == values else 0
            if calm == 5:
                return
            self.page.wait_for_timeout(200)
        raise AssertionError("the fields do not come to rest")

    def field(self, name):
        """The exact value in the field labelled `name`, a parameter's symbol."""
        return float(self.page.get_by_role("textbox", name=name, exact=True).first.input_value())


@pytest.fixture
def explorer(chromium, server):
    page = chromium.new_page(viewport={"width": 1280, "height": 950})
    page.set_default_timeout(PATIENCE)
    explorer = Explorer(page, server)
    yield explorer
    page.close()
    assert explorer.errors == []
    assert [url for url in explorer.requests if not url.startswith((server, "data:", "blob:"))] == []
