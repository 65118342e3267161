"""Long work: one interface, and engines beside each other that implement it.

`engine()` is the one of this process, chosen once at start: local processes (`explorer.compute.local`), a Dask cluster
(`explorer.compute.cluster`), the engine of another process on this machine (`explorer.compute.remote`), or no process
at all (`explorer.compute.inline`). Importing this package loads none of them, and not `multiprocessing`.
"""

from explorer.compute.chosen import choose, engine, use
from explorer.compute.interface import Engine, Priority, take_until
from explorer.compute.job import Job, JobCancelled, JobTimedOut, PoolFull, PoolLost, WorkerDied

__all__ = [
    "Engine",
    "Job",
    "JobCancelled",
    "JobTimedOut",
    "PoolFull",
    "PoolLost",
    "Priority",
    "WorkerDied",
    "choose",
    "engine",
    "take_until",
    "use",
]
