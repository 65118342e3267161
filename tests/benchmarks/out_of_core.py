"""AMPClassifier on 10^7 x 50 numbers in a memory-mapped file of 4 GB: time, and memory that is not the file's.

The file is made in a temporary directory and removed whatever happens. RssAnon, from Linux's /proc/self/status, is the
resident memory that belongs to no file; aim: below 2 GiB. A quarter of it holds the labels in their various forms.
"""

import shutil
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from explorer.learning import AMPClassifier

ROWS, COLUMNS, CHUNK = 10**7, 50, 10**5
LIMIT = 2 * 2**30


def anonymous_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@contextmanager
def peak_memory():
    """A list whose entry is the largest RssAnon so far, sampled every 10 ms."""
    peak, done = [0], threading.Event()

    def sample():
        while not done.wait(0.01):
            peak[0] = max(peak[0], anonymous_bytes())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def write(path, rng):
    """Uniform rows of norm about 1, labelled by a noisy plane; float32 draws, which are cheap."""
    X = np.memmap(path, dtype=np.float64, mode="w+", shape=(ROWS, COLUMNS))
    y = np.empty(ROWS, np.int8)
    plane = rng.normal(size=COLUMNS)
    for start in range(0, ROWS, CHUNK):
        rows = (rng.random((CHUNK, COLUMNS), dtype=np.float32) - 0.5) / 2
        X[start : start + CHUNK] = rows
        y[start : start + CHUNK] = rows @ plane + 0.5 * (rng.random(CHUNK, dtype=np.float32) - 0.5) > 0
    X.flush()
    return y


def main():
    if not Path("/proc/self/status").exists():
        print("needs Linux's /proc")
        return
    size = 8 * ROWS * COLUMNS
    with tempfile.TemporaryDirectory(prefix="out_of_core") as folder:
        if (free := shutil.disk_usage(folder).free) < 1.2 * size:
            print(f"needs {1.2 * size / 1e9:.1f} GB of disk in {folder}: {free / 1e9:.1f} GB are free")
            return
        start = time.perf_counter()
        y = write(Path(folder) / "X", np.random.default_rng(0))
        print(f"file of {size / 1e9:.1f} GB written in {time.perf_counter() - start:.0f} s")
        X = np.memmap(Path(folder) / "X", dtype=np.float64, mode="r", shape=(ROWS, COLUMNS))
        start, before = time.perf_counter(), anonymous_bytes()
        with peak_memory() as peak:
            fit = AMPClassifier(epsilon=1.0, random_state=0).fit(X, y)
        print(
            f"fitted in {time.perf_counter() - start:.0f} s, {fit.n_gradient_evaluations_ / ROWS:.0f} gradients of all"
        )
        print(f"accuracy on the first 10^5 rows {fit.score(X[:CHUNK], y[:CHUNK]):.3f}")
        print(
            f"RssAnon {before / 2**20:.0f} MiB before, at most {peak[0] / 2**20:.0f} MiB: {peak[0] / LIMIT:.2f} limits"
        )
    sys.exit(peak[0] >= LIMIT)


if __name__ == "__main__":
    main()
