"""What all sessions of this server process share: its pool, and the processes beside it."""

import threading
from functools import cache

from explorer.compute.pool import WorkerPool
from explorer.compute.process import ComputeProcesses

_shared = None
_lock = threading.Lock()


def shared_pool():
    """The pool that was given to `share`; without one a WorkerPool, made at first use."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = WorkerPool()
        return _shared


def share(pool):
    """Make `pool` the one that all sessions of this process use."""
    global _shared
    with _lock:
        _shared = pool


@cache
def shared_processes():
    """The processes beside this one; they start when there is something to compute."""
    return ComputeProcesses()
