"""Recompute what a slider moves on the Bounds page, and compare one bound with a public accountant, in one run.

python -m tests.benchmarks.bounds_page
"""

import timeit

import numpy as np
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

from explorer.accounting import GaussianLowerBound
from explorer.pages.bounds.computation import BOUNDS, POINTS
from explorer.pages.bounds.state import BoundsState


def milliseconds(function, *, repeat=7, number=20):
    """Best of `repeat` means over `number` calls: the machine's noise only ever adds."""
    return 1e3 * min(timeit.repeat(function, repeat=repeat, number=number)) / number


def main():
    """Print the table."""
    state = BoundsState()
    epsilon = np.linspace(0, state.epsilon_max, POINTS)
    mechanism = state.mechanism
    total = 0.0
    for name, bound in BOUNDS.items():
        time = milliseconds(lambda bound=bound: bound(mechanism).log_delta(epsilon))
        total += time
        print(f"{name:24s} {time:8.3f} ms for {POINTS} points")
    print(f"{'all bounds':24s} {total:8.3f} ms (target: 3)")

    def move():  # to where nothing has been computed before
        state.noise_std *= 1.0001
        state.summary()

    print(f"{'readouts':24s} {milliseconds(move):8.3f} ms")
    theirs = GaussianPrivacyLoss(standard_deviation=1 / mechanism.sensitivity_ratio)
    ours = milliseconds(lambda: GaussianLowerBound(mechanism).delta(epsilon))
    peer = milliseconds(lambda: theirs.get_delta_for_epsilon(epsilon))
    print(f"{'Gaussian, ours':24s} {ours:8.3f} ms, dp_accounting {peer:.3f} ms, ratio {peer / ours:.2f}")


if __name__ == "__main__":
    main()
