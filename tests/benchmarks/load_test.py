"""A class on one machine: the latency of fifty sliders moved at once while fits run, and the memory after 200 pages.

python -m tests.benchmarks.load_test [--seconds 60] [--sessions 50] [--fits 4] [--visitors 200] [--direct]

On this machine alone: the host as `make host` starts it, nginx in front of it where there is one (two servers; with
--direct or without nginx one, which is visited itself), and clients that speak the pages' protocol. Each moves σ on
the Bounds page twice a second, at its own moments and over its own path; the time is from its event to the curves. A
browser's own drawing is not in it; tests.benchmarks.latency measures that.
"""

import argparse
import asyncio
import random
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tests.hosting.conftest import Host, Proxy
from tests.hosting.connection import Document

PERIOD = 0.5  # seconds between two moves of a slider
AT_ONCE = 8  # visitors who open a page at the same moment
POSITIONS = 200  # of a slider
STEPS = (-3, -2, -1, 1, 2, 3)
SERVERS = 2
FIRST = 80  # visitors: what is loaded once, first caches, and room for as many pages as are ever there at a time
UNUSED_SECONDS = 15  # a page of a crowd takes some to connect


@contextmanager
def hosted(direct):
    """A host, behind nginx if there is one and not `direct`; gives the address, the host and how many servers."""
    nginx = None if direct else shutil.which("nginx", path="/usr/sbin:/usr/bin")
    with tempfile.TemporaryDirectory() as name:
        folder, proxy = Path(name), None
        if nginx is not None:
            proxy = Proxy(nginx, folder)
        # Without nginx only one server is visited: hence the one.
        servers = 1 if proxy is None else SERVERS
        host = Host(
            folder,
            servers=servers,
            unused_seconds=UNUSED_SECONDS,
            **({} if proxy is None else {"origin": proxy.address}),
        )
        try:
            if proxy is not None:
                proxy.start(host)
            yield host.address if proxy is None else proxy.address, host, servers
        finally:
            if proxy is not None:
                proxy.stop()
            host.stop()


async def visits(address, queries):
    """Documents of all queries, opened a few at a time."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(query):
        async with turn:
            return await Document.visit(address, query)

    return await asyncio.gather(*map(one, queries))


async def move(document, seconds, rng):
    """Move σ until the time is over; list of seconds from event to answer."""
    slider, source = document.component(label="σ  noise")[1], document.model(name="bounds_curves")
    places = (np.arange(POSITIONS + 1) * slider["step"] + slider["start"]).tolist()
    # A position that is no move gets no answer, so that the first is to be away from where the slider stands.
    place = rng.choice([i for i, value in enumerate(places) if abs(value - slider["value"]) > 4 * slider["step"]])
    times, end = [], time.monotonic() + seconds
    await asyncio.sleep(rng.random() * PERIOD)
    while time.monotonic() < end:
        place += rng.choice([step for step in STEPS if 0 <= place + step <= POSITIONS])
        start, drawn, told = time.monotonic(), False, False
        await document.change(slider, "value", places[place])
        while not (drawn and told):
            content = await document.answer(seconds=60)
            drawn, told = drawn or f'"{source["id"]}"' in content, told or '"value_label"' in content
        times.append(time.monotonic() - start)
        await asyncio.sleep(max(0, start + PERIOD - time.monotonic()))
    return times


async def train(document, seconds):
    """Press Train again and again; how many fits ended."""
    button, ended, end = document.component(label="Train")[0], 0, time.monotonic() + seconds
    while (rest := end - time.monotonic()) > 0:
        await document.click(button)
        try:
            while "in the median of" not in await document.answer(seconds=rest):
                rest = max(end - time.monotonic(), 0.01)
            ended += 1
        except TimeoutError:
            break
    return ended


async def crowd(address, *, sessions, fits, seconds):
    """Print the latencies of many sliders while fits run."""
    movers = await visits(address, ["?page=bounds"] * sessions)
    learners = await visits(address, ["?page=fit&draws=200"] * fits)
    moving = [move(mover, seconds, random.Random(seed)) for seed, mover in enumerate(movers)]
    working = [train(learner, seconds) for learner in learners]
    times, ended = await asyncio.gather(asyncio.gather(*moving), asyncio.gather(*working))
    for document in (*movers, *learners):
        document.close()
    times = 1000 * np.concatenate(times)
    median, high = np.percentile(times, [50, 95])
    print(
        f"{sessions} sliders, {len(times)} moves in {seconds:g} s, {fits} fits at a time ({sum(ended)} ended): "
        f"median {median:.0f} ms, p95 {high:.0f} ms, largest {times.max():.0f} ms  (p95 at most 250 ms)"
    )


async def come_and_go(address, visitors):
    """Open pages and close them, a few at a time."""
    for start in range(0, visitors, AT_ONCE):
        for document in await visits(address, ["?page=bounds"] * min(AT_ONCE, visitors - start)):
            document.close()


def memory(host, servers):
    """Resident memory of the servers in MB, when closed sessions have been forgotten."""
    time.sleep(2 * UNUSED_SECONDS)
    total = 0
    for index in range(servers):
        status = Path(f"/proc/{host.pid(f'server {index} listens')}/status").read_text()
        total += int(status.split("VmRSS:")[1].split()[0])
    return total / 1024


def main():
    """Print the memory that closed pages leave, and the latencies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("sessions", 50), ("fits", 4), ("seconds", 60), ("visitors", 200)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--direct", action="store_true")
    given = parser.parse_args()
    with hosted(given.direct) as (address, host, servers):
        if given.visitors:
            asyncio.run(come_and_go(address, FIRST))
            before = memory(host, servers)
            asyncio.run(come_and_go(address, given.visitors))
            after = memory(host, servers)
            change = f"{before:.0f} MB before, {after:.0f} MB after ({after / before - 1:+.1%}; at most +10 %)"
            print(f"{given.visitors} pages opened and closed: {change}")
        if given.seconds:
            asyncio.run(crowd(address, sessions=given.sessions, fits=given.fits, seconds=given.seconds))
        errors = [line for line in host.log().splitlines() if "ERROR" in line or "Traceback" in line]
        print(f"{len(errors)} errors in the log", *errors[:5], sep="\n")


if __name__ == "__main__":
    main()
