"""What a page's event loop does: a job, and beside it what its visitor does meanwhile."""

import asyncio


def run_beside(work, act, *, seconds):
    """Run the coroutine `work` as a task and the coroutine function `act` beside it; fail if it takes too long."""

    async def both():
        running = asyncio.ensure_future(work)
        await act()
        await asyncio.wait_for(running, seconds)

    asyncio.run(both())
