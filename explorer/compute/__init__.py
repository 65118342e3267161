"""Work in processes of its own: jobs in one bounded pool, of this process or of several servers together, and answers
that a page waits for in processes beside this one."""

from explorer.compute.broker import RemotePool, serve_pool
from explorer.compute.jobs import Job, JobCancelled, JobTimedOut, PoolFull, PoolLost, WorkerDied
from explorer.compute.pool import WorkerPool, prepare_processes
from explorer.compute.process import PROCESSES, ComputeProcesses, take_until
from explorer.compute.shared import share, shared_pool, shared_processes

__all__ = [
    "PROCESSES",
    "ComputeProcesses",
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
    "shared_pool",
    "shared_processes",
    "take_until",
]
