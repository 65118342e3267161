"""A hosted explorer as `python -m explorer host` starts it, and nginx in front of it with the repository's file."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.ui.conftest import chromium  # noqa: F401

SITE = Path(__file__).parents[2] / "deploy/nginx.conf"
PATIENCE = 400  # seconds; generous, since starting processes on a very busy machine takes minutes

NGINX = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/start.log;
worker_processes 1;
{user}
events {{ worker_connections 256; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


def free_ports(count):
    """That many consecutive ports nobody listens on."""
    for _ in range(100):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        if first + count < 65_536 and all(not listening(first + i) for i in range(count)):
            return first
    raise AssertionError("no free ports")


def listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return value


def get(address, **headers):
    """Status, headers and text of a GET, also of one that is refused; status 0 if nobody answers."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=PATIENCE) as response:
            return response.status, response.headers, response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode(errors="replace")
    except OSError:
        return 0, {}, ""


class Host:
    """`python -m explorer host` with the settings given; `address` is that of its first server."""

    def __init__(self, folder, **settings):
        self.port = free_ports(settings.get("servers", 1))
        self.address = f"http://127.0.0.1:{self.port}{settings.get('prefix', '')}"
        self.log_file = folder / "host.log"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("EXPLORER_")}
        settings = {"port": self.port, "workers": 2, "origin": f"http://127.0.0.1:{self.port}", **settings}
        environment |= {f"EXPLORER_{name.upper()}": str(value) for name, value in settings.items()}
        with open(self.log_file, "w") as log:
            command = [sys.executable, "-m", "explorer", "host"]
            self.process = subprocess.Popen(command, stderr=log, stdout=log, env=environment)
        try:
            for index in range(settings.get("servers", 1)):
                self.pid(f"server {index} listens")
            self.pid("the engine runs")
        except BaseException:
            self.stop()
            raise

    def log(self):
        return self.log_file.read_text()

    def pid(self, text):
        """The process that wrote the last line with `text`; waits for it."""

        def found():
            assert self.process.poll() is None, self.log()
            return re.findall(rf"\[(\d+)\] {text}", self.log())

        return int(until(found, f"{text} in {self.log()}")[-1])

    def ready(self):
        status, _, text = get(f"{self.address}/readyz")
        return status == 200 and json.loads(text)["ready"]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


class Proxy:
    """nginx with deploy/nginx.conf, in which only ports and the folder of the logs are replaced."""

    def __init__(self, nginx, folder):
        self.nginx, self.folder, self.port, self.process = nginx, folder, free_ports(1), None
        self.address = f"http://localhost:{self.port}"

    def start(self, host):
        site = SITE.read_text()
        changes = {
            "listen 8080;": f"listen 127.0.0.1:{self.port};",
            "127.0.0.1:5006": f"127.0.0.1:{host.port}",
            "127.0.0.1:5007": f"127.0.0.1:{host.port + 1}",
            "/var/log/nginx/objpert-explorer.log": f"{self.folder}/access.log",
            "/var/log/nginx/objpert-explorer-error.log": f"{self.folder}/error.log",
        }
        for old in changes:
            assert site.count(old) == 1, old
        # In one pass: a port such as 50065 contains what a later change would look for.
        site = re.sub("|".join(map(re.escape, changes)), lambda found: changes[found.group()], site)
        (self.folder / "site.conf").write_text(site)
        user = "user root;" if os.geteuid() == 0 else ""  # else root's nginx gives its workers to nobody
        configuration = self.folder / "nginx.conf"
        configuration.write_text(NGINX.format(folder=self.folder, user=user))
        self.process = subprocess.Popen(
            [self.nginx, "-p", self.folder, "-c", configuration, "-e", self.folder / "e.log"]
        )
        until(lambda: listening(self.port), "nginx listens")

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(PATIENCE)


@pytest.fixture(scope="package")
def nginx():
    """The path of nginx."""
    path = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if path is None:
        reason = "no nginx; install Debian's package"
        if os.environ.get("REQUIRE_NGINX") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(scope="package")
def proxied(nginx, tmp_path_factory):
    """Two servers behind nginx; yields the proxy and the host."""
    folder = tmp_path_factory.mktemp("hosted")
    proxy = Proxy(nginx, folder)
    host = Host(folder, servers=2, origin=proxy.address, message_bytes=200_000)
    try:
        proxy.start(host)
        yield proxy, host
    finally:
        proxy.stop()
        host.stop()
