"""Jobs for the tests of the engines, and how to wait for them."""

import os
import time

import numpy as np

from explorer.compute import JobCancelled
from explorer.learning import AMPClassifier

PATIENCE = 60  # seconds; generous, since starting a process on a busy machine can take a few


def square(*, report, x):
    report("squaring")
    report(x)
    return x * x


def fail(*, report):
    raise ValueError("x must be positive: got x=-1")


class Unreadable(Exception):
    """An exception that pickle can write and not read."""

    def __init__(self, first, second):
        super().__init__(first)


def fail_unreadably(*, report):
    raise Unreadable("no third way", 2)


def sleep(*, report):
    report(os.getpid())
    time.sleep(PATIENCE)


def count_slowly(*, report, upto):
    for number in range(upto):
        report(number)
        time.sleep(0.05)
    return upto


def fit(*, report):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    report("data")
    model = AMPClassifier(epsilon=1.0, delta=1e-5, random_state=0).fit(X, np.where(X[:, 0] > 0, 1, -1))
    return os.getpid(), model.coef_.ravel().shape, round(model.privacy_.epsilon, 6)


def stamp(*, report):
    return time.monotonic()


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "not reached"
        time.sleep(0.02)


def first_message(job):
    until(lambda: job.messages or job.done())
    return job.messages.popleft()


def stop(*jobs):
    """Cancel the jobs, and wait until each has ended."""
    for job in jobs:
        job.cancel()
    for job in jobs:
        try:
            raise AssertionError(f"finished with {job.result(PATIENCE)!r}")
        except JobCancelled:
            pass


def gone(pid):
    """Whether the process has ended; a zombie counts as ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
