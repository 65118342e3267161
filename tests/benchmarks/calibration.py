"""Calibrate Algorithm 1 by the paper's rule, ours against autodp's Renyi accountant inside a scipy root, in one run.

python -m tests.benchmarks.calibration
"""

import timeit
import warnings

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


def main():
    """Print times, their ratio and what each achieves."""
    warnings.simplefilter("ignore")  # autodp's scipy calls at the edge of its search
    ours = min(timeit.repeat(lambda: calibrate_amp(epsilon=EPSILON, delta=DELTA, **SETTING), repeat=20, number=1))
    peer = min(timeit.repeat(with_autodp, repeat=20, number=1))
    got, theirs = calibrate_amp(epsilon=EPSILON, delta=DELTA, **SETTING), with_autodp()
    print(f"ours    {1e3 * ours:8.2f} ms, l2_reg {got.value:.9f}, delta achieved / target {got.delta / DELTA:.12f}")
    family = type(got.mechanism)
    fields = {**vars(got.mechanism), "l2_reg": theirs}
    achieved = RenyiBound(family(**fields)).delta(EPSILON) / DELTA
    print(f"autodp  {1e3 * peer:8.2f} ms, l2_reg {theirs:.9f}, delta achieved / target {achieved:.12f}")
    print(f"ratio   {peer / ours:8.2f} (target for ours: 10 ms)")


if __name__ == "__main__":
    main()
