"""The engine that this process uses, chosen once at start."""

import os
import threading
from typing import Any

from explorer.compute.interface import Engine

SCHEDULER_VARIABLE = "EXPLORER_SCHEDULER"


def choose(scheduler: str | None = None, **limits: Any) -> Engine:
    """The engine of a Dask cluster if there is a scheduler's address, else of local processes, else of no process.

    Parameters
    ----------
    scheduler : str such as tcp://host:8786, or None for the environment variable EXPLORER_SCHEDULER, if set
    **limits : of LocalEngine and ClusterEngine
    """
    scheduler = scheduler or os.environ.get(SCHEDULER_VARIABLE)
    if scheduler:
        from explorer.compute.cluster import ClusterEngine

        return ClusterEngine(scheduler, **limits)
    try:
        from explorer.compute.local import LocalEngine
    except ImportError:  # Python in a browser has no processes
        from explorer.compute.inline import InlineEngine

        return InlineEngine()
    return LocalEngine(**limits)


_engine: Engine | None = None
_lock = threading.Lock()


def engine() -> Engine:
    """The engine that all sessions of this process share: the one given to `use`, else `choose()` at first use."""
    global _engine
    with _lock:
        if _engine is None:
            _engine = choose()
        return _engine


def use(chosen: Engine) -> None:
    """Make `chosen` the engine of this process; to be called at start, before pages are made."""
    global _engine
    with _lock:
        _engine = chosen
