"""How long the exact profile and Rényi divergence take for 200 points, beside a scalar quadrature of the profile.

The quadrature follows the curve of largest gain down from the whole shift, which is the exact "remove" where the curve
needs no ramp, and otherwise a bound on it.

Run it from the repository's root: python -m tests.benchmarks.exact_bound
"""

import time

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from explorer.accounting import ExactBound, ObjectivePerturbation, RefinedBound

MECHANISMS = {
    "sigma=10 lambda=5": {"noise_std": 10, "l2_reg": 5},
    "sigma=5 lambda=20": {"noise_std": 5, "l2_reg": 20},
    "sigma=1 lambda=1.5": {"noise_std": 1, "l2_reg": 1.5},
    "sigma=10 lambda=1": {"noise_std": 10, "l2_reg": 1},
    "sigma=48 lambda=17": {"noise_std": 48, "l2_reg": 17},
}
EPSILON = np.linspace(0, 2, 200)
ORDERS = 1 + np.geomspace(1e-2, 1e3, 200)


def best_of(call, *, repeats=7):
    """Smallest wall time of `call`, in seconds: what the machine needs when nobody else does."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def integral_by_quadrature(epsilon, s, kappa):
    """The integral of G* by adaptive quadrature over r, with y*(r) from a root finder, one epsilon at a time."""
    scale = np.exp(epsilon) / (1 + kappa)

    def density(x):
        return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)

    def best_gain(r):
        low = max(np.log(scale) / r - r / 2, 0.0)
        y = brentq(lambda y: y * r + r * r / 2 - np.log(scale) - np.log1p(r / y), low + 1e-12, low + 2 / r + 40)
        return density(y) - scale * density(y + r)

    end = min(s, np.sqrt(2 * kappa * epsilon / (2 + kappa)))
    return (1 + kappa) / kappa * quad(best_gain, 0, end, limit=200)[0]


def main():
    """Print milliseconds per profile of 200 epsilons, construction included, and the ratio to the quadrature."""
    print(f"{'':20} {'refined':>9} {'exact':>9} {'Rényi':>9} {'quad':>9} {'quad / exact':>13}   (ms for 200 points)")
    for name, constants in MECHANISMS.items():
        mechanism = ObjectivePerturbation(**constants, lipschitz=1, smoothness=1)
        refined, exact = (
            1e3 * best_of(lambda bound=bound, m=mechanism: bound(m).log_delta(EPSILON))
            for bound in (RefinedBound, ExactBound)
        )
        renyi = 1e3 * best_of(lambda m=mechanism: ExactBound(m).rdp(ORDERS))
        s, kappa = mechanism.sensitivity_ratio, mechanism.curvature_ratio
        slow = EPSILON[np.log1p(kappa) < EPSILON][::20]
        per_epsilon = best_of(lambda: [integral_by_quadrature(e, s, kappa) for e in slow], repeats=1) / slow.size  # noqa: B023
        quadrature = 1e3 * per_epsilon * EPSILON.size
        times = f"{refined:9.2f} {exact:9.2f} {renyi:9.2f} {quadrature:9.0f} {quadrature / exact:13.0f}"
        print(f"{name:20} {times}", flush=True)


if __name__ == "__main__":
    main()
