"""The settings of a hosted explorer, which are environment variables."""

import os
import re
from dataclasses import dataclass, field, fields

from explorer.compute.interface import scheduler_address
from explorer.validation import natural, positive

PREFIX = "EXPLORER_"
ELSEWHERE = {"EXPLORER_DATA_HOME"}  # settings of other parts of the package

_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:\d+)?|https?://\[[0-9a-f:]+\](:\d+)?")
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")


def _setting(default, help, *, may_be_zero=False):
    return field(default=default, metadata={"help": help, "may_be_zero": may_be_zero})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a hosted explorer; `Settings.from_environment()` reads EXPLORER_ORIGIN and so on.

    Raises
    ------
    ValueError naming the parameter, its value and the rule
    """

    origin: str = _setting(
        "http://localhost:8080",
        "start of the address that browsers show, as https://explorer.example.org; or several, with commas",
    )
    prefix: str = _setting("", "path at which the proxy serves the explorer, as /explorer")
    address: str = _setting("127.0.0.1", "address to listen on, for the proxy")
    port: int = _setting(5006, "port of the first server; the others have the next ones")
    servers: int = _setting(os.cpu_count() or 1, "server processes")
    sessions: int = _setting(200, "open pages of all servers together")
    unused_seconds: float = _setting(60, "how long a session is kept after its page was closed or lost its connection")
    idle_seconds: float = _setting(7200, "how long a page without any message stays connected")
    message_bytes: int = _setting(
        8 * 2**20, "largest message that a browser may send; an uploaded file takes a third more than its size"
    )
    scheduler: str = _setting("", "Dask scheduler whose workers run the jobs, as tcp://host:8786; empty: this machine")
    workers: int = _setting(
        0, "jobs that run at a time; 0: one for each core, or for each thread of the Dask workers", may_be_zero=True
    )
    queued: int = _setting(32, "jobs that wait")
    queued_per_session: int = _setting(4, "jobs of one session that run or wait")
    job_seconds: float = _setting(600, "how long one job may run")
    stop_seconds: float = _setting(20, "how long running jobs may take to finish when the host is stopped")

    def __post_init__(self):
        for each in fields(self):
            value = getattr(self, each.name)
            if each.metadata["may_be_zero"] and value == 0:
                continue
            if each.type is int:
                natural(each.name, value)
            elif each.type is float:
                positive(each.name, value)
        if not self.origins() or not all(_ORIGIN.fullmatch(origin) for origin in self.origins()):
            raise ValueError(f"origin must be like https://explorer.example.org, without a path: got {self.origin!r}")
        if self.scheduler:
            scheduler_address(self.scheduler)
        if not _PATH.fullmatch(self.prefix):
            raise ValueError(f"prefix must be empty or like /explorer, without a final slash: got {self.prefix!r}")

    @classmethod
    def from_environment(cls, environment=os.environ):
        """The settings that variables named EXPLORER_ and the setting give, the others at their defaults."""
        known = {PREFIX + each.name.upper(): each for each in fields(cls)}
        given = {name: text for name, text in environment.items() if name.startswith(PREFIX)}
        if unknown := sorted(given.keys() - known.keys() - ELSEWHERE):
            raise ValueError(f"{', '.join(unknown)}: no such setting; there are {', '.join(known)}")
        return cls(**{each.name: _read(each, given[name]) for name, each in known.items() if name in given})

    def origins(self):
        """The allowed origins as a set of str."""
        return {origin.strip().lower() for origin in self.origin.split(",") if origin.strip()}


def _read(each, text):
    try:
        return each.type(text)
    except ValueError:
        raise ValueError(f"{each.name} must be a number: got {each.name}={text[:40]!r}") from None


def describe():
    """The settings, their defaults and meanings, a line each."""
    for each in fields(Settings):
        yield f"{PREFIX + each.name.upper():28}{each.metadata['help']} (default: {each.default})"
