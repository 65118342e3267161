"""One gradient of the objective at 10^6 x 100 against the time to read X once, and small data against plain numpy.

The limit is the number of bytes of X over the bandwidth of the better of two streaming reads of the same array, a dot
product with itself and a maximum, each by one thread and by one thread per core; the best of all repeats. Everything
is measured in turns, since other work on the machine slows all of it. Aim: gradient <= 2 limits.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from explorer.learning import Logistic, PerturbedObjective, Records

ROWS, COLUMNS, REPEATS = 10**6, 100, 25


def best_times(tasks, repeats):
    """Shortest seconds of each task of a dict, taken in turns."""
    times = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            times[name].append(time.perf_counter() - start)
    return {name: min(values) for name, values in times.items()}


def objective(X, y, **options):
    records = Records(X, y, **options)
    return PerturbedObjective(records, loss=Logistic(), l2_reg=1.0, linear_term=np.zeros(records.dimension))


def against_bandwidth(rng):
    X = rng.random((ROWS, COLUMNS))
    X -= 0.5
    y = rng.choice([-1.0, 1.0], ROWS)
    plain, folded = objective(X, y), objective(X, y, data_norm=2.9, constant=True)
    theta = rng.normal(size=COLUMNS + 1)
    flat, cores = X.ravel(), joblib.cpu_count()
    parts = np.array_split(flat, cores)

    def one_thread(task):
        with threadpool_limits(1):
            return task()

    with ThreadPoolExecutor(cores) as pool:
        reads = {
            "read, dot": lambda: one_thread(lambda: flat @ flat),
            "read, max": lambda: flat.max(),
            f"read, dot, {cores} threads": lambda: one_thread(lambda: list(pool.map(lambda part: part @ part, parts))),
            f"read, max, {cores} threads": lambda: list(pool.map(np.max, parts)),
        }
        gradients = {
            "gradient": lambda: plain.gradient(theta[:-1]),
            "gradient, one thread": lambda: one_thread(lambda: plain.gradient(theta[:-1])),
            "value and gradient": lambda: plain.value_and_gradient(theta[:-1]),
            "gradient, rows scaled, constant": lambda: folded.gradient(theta),
        }
        times = best_times(reads | gradients, REPEATS)
    limit = min(times[name] for name in reads)
    print(f"{ROWS} x {COLUMNS}: bandwidth {X.nbytes / limit / 1e9:.1f} GB/s")
    for name, seconds in times.items():
        print(f"  {name:32s} {1e3 * seconds:8.1f} ms  {seconds / limit:5.2f} limits")


def against_numpy(rng, n, p, nonzeros=None):
    """Gradient and Gram matrix beside X.T @ slopes and (X * w[:, None]).T @ X of the dense matrix."""
    X = rng.normal(size=(n, p))
    if nonzeros is not None:
        X[rng.random((n, p)) > nonzeros / p] = 0.0
    y, weights, theta = rng.choice([-1.0, 1.0], n), rng.random(n), rng.normal(size=p)
    ours = objective(X if nonzeros is None else sparse.csr_array(X), y)
    tasks = {
        "gradient": lambda: ours.gradient(theta),
        "numpy's, dense": lambda: X.T @ Logistic().derivative(X @ theta, y),
        "Hessian": lambda: ours.hessian(theta),
        "numpy's Gram matrix, dense": lambda: (X * weights[:, None]).T @ X,
    }
    times = best_times(tasks, 20 if n > 10_000 else 500)
    print(f"{n} x {p}, {'dense' if nonzeros is None else f'CSR with {nonzeros} of them nonzero'}")
    for name, seconds in times.items():
        print(f"  {name:32s} {1e3 * seconds:8.3f} ms")


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    against_bandwidth(rng)
    against_numpy(rng, 569, 31)
    against_numpy(rng, 36_177, 105)
    against_numpy(rng, 36_177, 105, nonzeros=14)
