"""Work in processes of its own: jobs in one bounded pool, of this process or of several servers together, and answers
that a page waits for in processes beside this one."""

from explorer.workers.beside import PROCESSES, Beside, some_of
from explorer.workers.broker import RemotePool, serve_pool
from explorer.workers.jobs import Job, JobCancelled, JobTimedOut, PoolFull, PoolLost, WorkerDied
from explorer.workers.pool import WorkerPool, prepare_processes
from explorer.workers.shared import share, shared_beside, shared_pool

__all__ = [
    "PROCESSES",
    "Beside",
    "Job",
    "JobCancelled",
    "JobTimedOut",
    "PoolFull",
    "PoolLost",
    "RemotePool",
    "WorkerDied",
    "WorkerPool",
    "prepare_processes",
    "serve_pool",
    "share",
    "shared_beside",
    "shared_pool",
    "some_of",
]
