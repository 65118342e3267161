"""Long work in processes of its own, in one bounded pool: of this process, or of several servers together."""

from explorer.workers.broker import RemotePool, serve_pool
from explorer.workers.jobs import Job, JobCancelled, JobTimedOut, PoolFull, PoolLost, WorkerDied
from explorer.workers.pool import WorkerPool
from explorer.workers.shared import share, shared_pool

__all__ = [
    "Job",
    "JobCancelled",
    "JobTimedOut",
    "PoolFull",
    "PoolLost",
    "RemotePool",
    "WorkerDied",
    "WorkerPool",
    "serve_pool",
    "share",
    "shared_pool",
]
