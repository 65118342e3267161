"""The pool of this server process, shared by all its sessions."""

import threading

from explorer.workers.pool import WorkerPool

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
