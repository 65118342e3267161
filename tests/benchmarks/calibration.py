"""Calibrate Algorithm 1 by the paper's rule, by each accountant, and ours against autodp's Renyi accountant inside a
scipy root, in one run.

python -m tests.benchmarks.calibration
"""

import timeit
import warnings
from functools import partial

import numpy as np
from autodp.autodp_core import Mechanism
from scipy.optimize import brentq
from scipy.stats import norm

from explorer.accounting import RenyiBound, calibrate_amp, calibrate_gaussian

EPSILON, DELTA = 1.0, 1e-5
SETTING = {"lipschitz": np.sqrt(2), "smoothness": 0.5, "gradient_tol": 0.01, "output_noise_std": 0.15}


def with_autodp(epsilon=EPSILON):
    """The same l2_reg with autodp: its best order and conversion, one root for sigma_G (ours) and one for l2_reg."""
    noise_std = 1.3 * calibrate_gaussian(epsilon=epsilon, delta=DELTA, sensitivity=SETTING["lipschitz"]).value
    s = SETTING["lipschitz"] / noise_std

    def rdp(alpha, l2_reg):
        t = max(alpha - 1, 1e-9)
        moment = t * t * s * s / 2 + np.log(2) + norm.logcdf(t * s)
        output = 2 * SETTING["gradient_tol"] ** 2 * alpha / (SETTING["output_noise_std"] * l2_reg) ** 2
        return -np.log1p(-SETTING["smoothness"] / l2_reg) + s * s / 2 + moment / t + output

    def achieved(l2_reg):
        mechanism = Mechanism()
        mechanism.propagate_updates(lambda alpha: rdp(alpha, l2_reg), "RDP", BBGHS_conversion=True)
        return mechanism.get_approxDP(DELTA)

    return brentq(lambda l2_reg: achieved(l2_reg) - epsilon, 0.6, 1e3, rtol=1e-9)


def fastest(call, *, repeat=20):
    """Milliseconds of the fastest of some calls."""
    return 1e3 * min(timeit.repeat(call, repeat=repeat, number=1))


def against_autodp():
    """Both by the Renyi bound: print times, their ratio and what each achieves."""
    ask = partial(calibrate_amp, epsilon=EPSILON, delta=DELTA, **SETTING, bound="renyi")
    ours, peer = fastest(ask), fastest(with_autodp)
    got, theirs = ask(), with_autodp()
    print(f"ours    {ours:8.2f} ms, l2_reg {got.value:.9f}, delta achieved / target {got.delta / DELTA:.12f}")
    family = type(got.mechanism)
    fields = {**vars(got.mechanism), "l2_reg": theirs}
    achieved = RenyiBound(family(**fields)).delta(EPSILON) / DELTA
    print(f"autodp  {peer:8.2f} ms, l2_reg {theirs:.9f}, delta achieved / target {achieved:.12f}")
    print(f"ratio   {peer / ours:8.2f} (target for ours: 10 ms)")


def by_accountant():
    """Print what each accountant of Algorithm 1 takes and asks for; the exact bound is the learners' default."""
    print("accountant    epsilon        ms         l2_reg   (target for hockey_stick: 10 ms, for exact: 40 ms)")
    for name, repeat in (("renyi", 20), ("hockey_stick", 20), ("refined", 20), ("exact", 10)):
        for epsilon in (0.025, 0.1, 1.0, 8.0):
            ask = partial(calibrate_amp, epsilon=epsilon, delta=DELTA, **SETTING, bound=name)
            print(f"{name:12} {epsilon:8.3f} {fastest(ask, repeat=repeat):9.2f} {ask().value:14.6f}")


def main():
    """Run both."""
    by_accountant()
    warnings.simplefilter("ignore")  # autodp's scipy calls at the edge of its search
    against_autodp()


if __name__ == "__main__":
    main()
