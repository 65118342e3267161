"""What a page's event loop does: a job, and beside it what its visitor does meanwhile."""

import asyncio


async def job(runner, run):
    """Press the button that calls `run`, and wait until the JobRunner's job has ended."""
    run()
    while runner.job is not None:
        await asyncio.sleep(0.01)


def run_concurrently(work, act, *, seconds):
    """Run the coroutine `work` as a task and the coroutine function `act` beside it; fail if it takes too long."""

    async def both():
        running = asyncio.ensure_future(work)
        await act()
        await asyncio.wait_for(running, seconds)

    asyncio.run(both())
