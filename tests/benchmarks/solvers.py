"""Solvers on Adult against scikit-learn's, and all of ours on several shapes, which is what 'auto' goes by.

EXPLORER_DATA_HOME=<folder with adult.data and adult.test> python -m tests.benchmarks.solvers
"""

import os
import time
import warnings
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from explorer import datasets
from explorer.accounting import calibrate_amp
from explorer.learning import AMPClassifier, Logistic, PerturbedObjective, Records
from explorer.learning.solvers import choose, lbfgs, minimise, newton, newton_cg, subsampled_newton

TAU, DELTA = 0.01, 1e-5
SETTING = {
    "lipschitz": np.sqrt(2),
    "smoothness": 0.5,
    "gradient_tol": TAU,
    "output_noise_std": 0.15,
    "monotone_loss": True,
}
THEIRS = ("lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga")
REPEATS = 7


def seconds(*runs):
    """Median wall time of each of the functions, called in turn so that a busy machine is busy for all."""
    times = []
    for _ in range(REPEATS):
        times.append([])
        for run in runs:
            start = time.perf_counter()
            run()
            times[-1].append(time.perf_counter() - start)
    return np.median(times, axis=0)


def objective_on(records, mechanism, noise):
    """The perturbed objective of Algorithm 1, with b of its standard deviation times `noise`."""
    b = noise * np.random.default_rng(0).normal(scale=mechanism.noise_std, size=records.dimension)
    return PerturbedObjective(records, loss=Logistic(), l2_reg=mechanism.l2_reg, linear_term=b)


def scikit_learn(name, X, y, l2_reg, tol):
    """A fitted LogisticRegression of the same objective with b = 0."""
    model = LogisticRegression(C=1 / l2_reg, fit_intercept=False, solver=name, tol=tol, max_iter=3000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def loosest_tol(name, X, y, objective):
    """The largest tol, to a factor 1.4, for which the gradient norm of the sum of losses is at most TAU; None if none.

    Bisects on log tol. Gives up where one fit takes more than 20 s.
    """

    def good(log_tol):
        start = time.perf_counter()
        theta = scikit_learn(name, X, y, objective.l2_reg, 10**log_tol).coef_[0]
        return np.linalg.norm(objective.gradient(theta)) <= TAU and time.perf_counter() - start < 20

    low, high = -10.0, 3.0
    if not good(low):
        return None
    while high - low > 0.15:
        middle = (low + high) / 2
        low, high = (middle, high) if good(middle) else (low, middle)
    return 10**low


def against_scikit_learn(X, y, epsilon):
    """One table: ours and theirs with b = 0, ours and our L-BFGS with b drawn, and the whole of AMPClassifier.fit."""
    mechanism = calibrate_amp(epsilon=epsilon, delta=DELTA, **SETTING).mechanism
    records = Records(X, y, data_norm=1.0, constant=True)
    plain, perturbed = (objective_on(records, mechanism, noise) for noise in (0, 1))
    print(f"\nAdult, {type(X).__name__}, epsilon {epsilon}: l2_reg {mechanism.l2_reg:.4g}, tau {TAU}")
    for name, objective in (("b = 0", plain), ("b drawn", perturbed)):
        runs = [partial(f, objective, gradient_tol=TAU, random_state=0) for f in (minimise, lbfgs)]
        ours, theirs = seconds(*runs)
        counts = [run().n_gradient_evaluations / objective.n_records for run in runs]
        print(
            f"  {name:8s} auto {1e3 * ours:8.1f} ms, {counts[0]:6.1f} passes   "
            f"our lbfgs {1e3 * theirs:8.1f} ms, {counts[1]:6.1f} passes   ratio {theirs / ours:5.2f}"
        )
    learner = AMPClassifier(epsilon=epsilon, random_state=0)
    ones = np.ones((X.shape[0], 1))
    with_ones = sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])
    for name in THEIRS:
        tol = loosest_tol(name, with_ones, y, plain)
        if tol is None:
            print(f"  {name:16s} does not reach {TAU} within 3000 iterations and 20 s")
            continue
        times = seconds(
            partial(minimise, plain, gradient_tol=TAU, random_state=0),
            partial(learner.fit, X, y),
            partial(scikit_learn, name, with_ones, y, mechanism.l2_reg, tol),
        )
        ours, whole, theirs = 1e3 * times
        print(f"  {name:16s} {theirs:8.1f} ms (tol {tol:.1e})   auto {ours:8.1f}   AMPClassifier.fit {whole:8.1f}")


def synthetic(n, d):
    """Unit rows with columns of decreasing size, and noisy labels."""
    rng, sizes = np.random.default_rng(0), np.arange(1, d + 1) ** -0.5
    X = (rng.normal(size=(n, d)) + 0.5 * rng.normal(size=d)) * sizes
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)


def shapes():
    """Times of the candidates for 'auto', the one it chooses marked; Newton's where its Hessian is affordable."""
    data = {"breast_cancer": datasets.breast_cancer, "synthetic_l": datasets.synthetic_l}
    problems = [(name, load().X_train, load().y_train) for name, load in data.items()]
    sizes = [(100_000, 20), (4000, 200), (4000, 500), (40_000, 500), (1500, 900), (200, 5000)]
    problems += [("synthetic", *synthetic(n, d)) for n, d in sizes]
    for name, X, y in problems:
        records = Records(X, np.where(y > 0, 1.0, -1.0), data_norm=1.0, constant=True)
        for epsilon in (0.1, 1, 8):
            objective = objective_on(records, calibrate_amp(epsilon=epsilon, delta=DELTA, **SETTING).mechanism, 1)
            solvers = [lbfgs, newton_cg, *([newton, subsampled_newton] if records.dimension < 1000 else [])]
            times = seconds(*(partial(f, objective, gradient_tol=TAU, random_state=0) for f in solvers))
            cells = [
                f"{solver.__name__}{'*' if solver is choose(objective) else ''} {1e3 * t:.1f}"
                for solver, t in zip(solvers, times, strict=True)
            ]
            print(f"  {name} {records.n_records} x {records.dimension}, epsilon {epsilon}: {', '.join(cells)} ms")


def main():
    """Print both."""
    if os.environ.get("EXPLORER_DATA_HOME"):
        data = datasets.adult()
        y = np.where(data.y_train > 0, 1.0, -1.0)
        for epsilon in (0.1, 1, 8):
            against_scikit_learn(data.X_train, y, epsilon)
        against_scikit_learn(data.X_train.toarray(), y, 1)
    else:
        print("Adult is left out: EXPLORER_DATA_HOME is not set")
    print("\nShapes (* is what 'auto' chooses)")
    shapes()


if __name__ == "__main__":
    main()
