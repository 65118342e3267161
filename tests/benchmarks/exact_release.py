"""What releases on a grid cost: exact noise, a fit by Algorithm 1 and an epoch of DP-SGD against the same in doubles.

    python -m tests.benchmarks.exact_release

The doubles are kept here in a few lines, without any guarantee: Generator.normal, a solver to gradient_tol without the
proof of a bound, and steps on gradients that are summed in doubles. Everything is measured in turns on Adult's 36 177
dense rows. Aims: 1000 coefficients under 2 ms, a fit within 1.3 times, an epoch within 1.5 times.
"""

from fractions import Fraction
from itertools import pairwise
from time import perf_counter, process_time

import numpy as np

from explorer.datasets import adult
from explorer.learning import AMPClassifier, DPSGDClassifier, Logistic, PerturbedObjective, Records
from explorer.learning.sampling.bits import bits_of
from explorer.learning.sampling.gamma_norm import rounded_gamma_norm
from explorer.learning.sampling.rounded_normal import rounded_normal
from explorer.learning.solvers import minimise

REPEATS, EPOCHS, BATCH = 7, 3, 256


def best(tasks, clock=process_time, repeats=REPEATS):
    """Shortest seconds of each task of a dict, taken in turns."""
    times = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            start = clock()
            task()
            times[name].append(clock() - start)
    return {name: min(values) for name, values in times.items()}


def amp_in_doubles(X, y, rng):
    """Algorithm 1 with the default parameters as doubles compute it."""
    mechanism = AMPClassifier().plan(X, y).mechanism
    records = Records(X, np.where(y == 1, 1.0, -1.0), data_norm=1.0, constant=True)
    b = rng.normal(scale=mechanism.noise_std, size=records.dimension)
    objective = PerturbedObjective(records, loss=Logistic(), l2_reg=mechanism.l2_reg, linear_term=b)
    theta = minimise(objective, gradient_tol=mechanism.gradient_tol, random_state=0).x
    assert np.linalg.norm(objective.gradient(theta)) <= mechanism.gradient_tol
    return theta + rng.normal(scale=mechanism.output_noise_std, size=len(theta))


def dp_sgd_in_doubles(X, y, rng):
    """EPOCHS of DP-SGD with the default parameters as doubles compute them."""
    plan = DPSGDClassifier(epochs=EPOCHS).plan(X, y)
    records, loss = Records(X, np.where(y == 1, 1.0, -1.0), data_norm=1.0, constant=True), Logistic()
    n, steps, theta = len(X), plan.mechanism.steps, np.zeros(X.shape[1] + 1)
    noise = rng.normal(scale=plan.mechanism.noise_multiplier * np.sqrt(2), size=(steps, len(theta)))
    gaps = rng.geometric(BATCH / n, size=int(1.2 * BATCH * steps))
    successes = np.cumsum(gaps)
    ends = np.searchsorted(successes, n * np.arange(steps + 1)).tolist()
    for (start, end), draw in zip(pairwise(ends), noise, strict=True):
        block = records.take((successes[start:end] - 1) % n)
        theta = theta - (block.transposed_dot(loss.derivative(block.dot(theta), block.y)) + draw) / BATCH
    return theta


def main():
    """Print times and ratios."""
    data = adult()
    X, y, rng = np.ascontiguousarray(data.X_train.toarray()), data.y_train, np.random.default_rng(0)
    scale = Fraction(0.15) * 2**43
    noise = best(
        {
            "Generator.normal": lambda: rng.normal(scale=0.15, size=1000),
            "exact, system's bits": lambda: rounded_normal(scale, 1000, bits_of(None)),
            "exact, seeded": lambda: rounded_normal(scale, 1000, bits_of(rng)),
            "exact, Gamma norm": lambda: rounded_gamma_norm(scale, 1000, bits_of(None)),
        },
        clock=perf_counter,
        repeats=50,
    )
    for name, seconds in noise.items():
        print(f"1000 coefficients of noise, {name:22s} {1e3 * seconds:7.3f} ms")
    for title, tasks in {
        "fit by Algorithm 1": {
            "doubles": lambda: amp_in_doubles(X, y, rng),
            "on a grid": lambda: AMPClassifier().fit(X, y),
        },
        f"{EPOCHS} epochs of DP-SGD": {
            "doubles": lambda: dp_sgd_in_doubles(X, y, rng),
            "in integers": lambda: DPSGDClassifier(epochs=EPOCHS).fit(X, y),
        },
    }.items():
        times = best(tasks)
        before, after = times.values()
        print(f"{title}: " + ", ".join(f"{name} {1e3 * t:.1f} ms" for name, t in times.items()), end="")
        print(f", ratio {after / before:.2f} (processor)")


if __name__ == "__main__":
    main()
