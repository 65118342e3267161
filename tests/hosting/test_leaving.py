"""Visitors who leave at any moment: the server forgets them, and has nothing to say of it, however it was started."""

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.hosting.conftest import free_ports, get, until
from tests.hosting.connection import Document, Page

ROOT = Path(__file__).parents[2]
KEPT_SECONDS = 5  # a session without a page
WARM, COUNTED = 12, 24  # pages opened and closed before and while the memory is watched
LEAK = 1.5e6  # bytes a page; one that is kept holds three megabytes
ROUNDS = 3  # a page that is kept shows in each; a process for slow curves starts once, when it is first needed
AT_A_TIME = 3


def start(command, log, port):
    """The server as a process, and where it has its page; by panel serve, `python -m explorer` or as a host."""
    quick = {"EXPLORER_PORT": port, "EXPLORER_UNUSED_SECONDS": KEPT_SECONDS, "EXPLORER_SERVERS": 1}
    quick |= {"EXPLORER_ORIGIN": f"http://localhost:{port}"}
    milliseconds = str(1000 * KEPT_SECONDS)
    panel = ["panel", "serve", "explorer/app.py", "--unused-session-lifetime", milliseconds]
    arguments = {
        "panel serve": [*panel, "--check-unused-sessions", milliseconds, "--port", str(port)],
        "local": ["explorer", "--port", str(port)],
        "host": ["explorer", "host"],
    }[command]
    environment = os.environ | (dict(zip(quick, map(str, quick.values()), strict=True)) if command == "host" else {})
    environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT
    )
    address = f"http://localhost:{port}"
    page = f"{address}/app" if command == "panel serve" else address
    until(lambda: get(page)[0] == 200 or process.poll() is not None, f"{command} answers")
    assert process.poll() is None
    return process, page


async def visit(address, number):
    """Open a page, move its sliders, and leave: before it is connected, drawn or answered, or after."""
    page = await Page.fetch(address, f"?page={('bounds', 'calibrate', 'renyi', 'solvers')[number % 4]}")
    if number % 5 == 0:
        return
    document = await Document.pull(await page.connect(origin="http://" + address.split("/")[2]))
    if number % 5 > 1:
        await document.loaded()
        sliders = [m for m in document.models if isinstance(m.get("data"), dict) and "attributes" in m["data"]]
        sliders = [m for m in sliders if {"start", "end"} <= m["data"]["attributes"].keys()]
        for slider in random.Random(number).choices(sliders, k=4):
            attributes = slider["data"]["attributes"]
            await document.change({"id": slider["data"]["id"]}, "value", (attributes["start"] + attributes["end"]) / 2)
    if number % 2:
        document.socket.protocol.stream.close()  # without a word, as a laptop that is shut
    document.close()


async def crowd(address, numbers):
    numbers = list(numbers)
    for i in range(0, len(numbers), AT_A_TIME):
        await asyncio.gather(*(visit(address, number) for number in numbers[i : i + AT_A_TIME]))


def memory(pid):
    """Of a process and its children, without the shared part: bytes."""
    total, children = 0, Path(f"/proc/{pid}/task/{pid}/children")
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Dirty:", "Private_Clean:")):
            total += 1024 * int(line.split()[1])
    return total + sum(memory(child) for child in children.read_text().split())


def freed(process, address):
    """Whether the memory is what it was, a while after a crowd has come and gone."""
    limit = memory(process.pid) + COUNTED * LEAK
    asyncio.run(crowd(address, range(COUNTED)))
    deadline = time.monotonic() + 4 * KEPT_SECONDS
    while memory(process.pid) >= limit:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def of_own_making(line):
    """Whether a line of the log tells of a fault; libraries warn of their own affairs."""
    if "Warning" in line:
        return f"{ROOT}/explorer" in line and "button_style" not in line
    return any(word in line for word in ("Traceback", "Error", "failed", "Failed", "never retrieved", "destroyed"))


@pytest.mark.parametrize("command", ["panel serve", "local", "host"])
def test_nothing_is_kept_of_those_who_left_and_nothing_logged(command, tmp_path):
    path = tmp_path / "log"
    with path.open("w") as log:
        process, address = start(command, log, free_ports(1))
        try:
            asyncio.run(crowd(address, range(WARM)))
            watched = command != "local" and Path(f"/proc/{process.pid}/smaps_rollup").exists()
            if watched:  # a page of `python -m explorer` is kept for two minutes
                time.sleep(2 * KEPT_SECONDS)
                assert any(freed(process, address) for _ in range(ROUNDS)), "closed pages stay in memory"
            told = path.read_text()  # a stop is another test's
        finally:
            process.terminate()
            process.wait(60)
    assert not any(map(of_own_making, told.splitlines())), told
