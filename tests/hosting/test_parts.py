"""Settings, logs and readiness, without a host."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from tornado.testing import AsyncHTTPTestCase
from tornado.web import Application

from explorer.compute.local import LocalEngine
from explorer.compute.remote import RemoteEngine
from explorer.hosting.handlers import Condition, ReadyHandler
from explorer.hosting.logs import ImpersonalFormatter
from explorer.hosting.settings import Settings, describe

ROOT = Path(__file__).parents[2]


def test_settings_are_read_from_the_environment():
    settings = Settings.from_environment(
        {
            "EXPLORER_ORIGIN": "https://Explorer.example.org, http://localhost:8080",
            "EXPLORER_SERVERS": "3",
            "EXPLORER_JOB_SECONDS": "1.5",
            "EXPLORER_DATA_HOME": "/data",
            "HOME": "/root",
        }
    )
    assert settings.origins() == {"https://explorer.example.org", "http://localhost:8080"}
    assert (settings.servers, settings.job_seconds, settings.port) == (3, 1.5, 5006)
    assert len(list(describe())) == len(Settings.__dataclass_fields__)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("ORIGIN", "*", "origin must be like https://explorer.example.org"),
        ("ORIGIN", "https://explorer.example.org/path", "without a path"),
        ("ORIGIN", "", "origin must be like"),
        ("PREFIX", "explorer", "prefix must be empty or like /explorer"),
        ("PREFIX", "/explorer/", "without a final slash"),
        ("SERVERS", "0", "servers must be an integer >= 1"),
        ("SERVERS", "two", "servers must be a number: got servers='two'"),
        ("JOB_SECONDS", "-1", "job_seconds must be a finite number > 0"),
        ("WORKERS", "-1", "workers must be an integer >= 1"),
        ("SCHEDULER", "host:8786", "scheduler must be an address like tcp://host:8786: got scheduler='host:8786'"),
        ("SESSION", "3", "EXPLORER_SESSION: no such setting; there are EXPLORER_ORIGIN"),
    ],
)
def test_a_bad_setting_is_named(name, text, reason):
    with pytest.raises(ValueError, match=r"^" + reason.replace("*", r"\*") if name == "SESSION" else reason):
        Settings.from_environment({f"EXPLORER_{name}": text})


def test_the_command_names_a_bad_setting(monkeypatch):
    monkeypatch.setenv("EXPLORER_SERVERS", "many")
    run = subprocess.run([sys.executable, "-m", "explorer", "host"], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (2, "servers must be a number: got servers='many'\n")


def test_foreign_records_are_reduced_to_their_place():
    def record(name, message, *arguments):
        try:
            try:
                raise KeyError("secret key")
            except KeyError as cause:
                raise ValueError("secret value") from cause
        except ValueError:
            return logging.LogRecord(name, logging.ERROR, __file__, 7, message, arguments, sys.exc_info())

    foreign = ImpersonalFormatter().format(record("bokeh.server", "got %r", "secret message"))
    assert "secret" not in foreign
    assert "test_parts:7" in foreign
    assert foreign.index("ValueError at") < foreign.index("KeyError at")
    own = ImpersonalFormatter().format(record("explorer.hosting", "stopping: %d sessions", 3))
    assert "stopping: 3 sessions" in own
    assert "secret" not in own


class TestReadiness(AsyncHTTPTestCase):
    def get_app(self):
        self.condition = Condition(Settings(), engine=LocalEngine(max_workers=1), max_sessions=1)
        return Application([("/readyz", ReadyHandler)], condition=self.condition)

    def test_ready_until_the_server_stops(self):
        assert self.fetch("/readyz").code == 200
        self.condition.stopping = True
        response = self.fetch("/readyz")
        assert (response.code, b'"stopping": true' in response.body) == (503, True)

    def test_not_ready_without_its_engine(self):
        self.condition.engine = RemoteEngine("/nowhere/pool", authkey=b"key")
        response = self.fetch("/readyz")
        assert (response.code, b'"pool": false' in response.body) == (503, True)


def test_the_service_starts_what_readme_says():
    service = (ROOT / "deploy/objpert-explorer.service").read_text()
    assert "-m explorer host\n" in service
    assert "MemoryMax=" in service
    stop = int(service.partition("TimeoutStopSec=")[2].partition("\n")[0])
    assert stop > Settings().stop_seconds + 2 * 5  # the servers' time, the pool's, and some


def test_systemd_accepts_the_service(tmp_path):
    service = (ROOT / "deploy/objpert-explorer.service").read_text()
    python = sys.executable
    unit = tmp_path / "objpert-explorer.service"
    unit.write_text(service.replace("/opt/objpert-explorer/.venv/bin/python", python).replace("/opt/", "/"))
    try:
        check = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("no systemd-analyze")
    assert (check.returncode, check.stderr) == (0, "")
