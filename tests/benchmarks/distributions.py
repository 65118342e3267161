"""Privacy loss distributions: time and width, side by side with dp_accounting's PLDAccountant in one run.

    python -m tests.benchmarks.distributions

Both sides are asked for the epsilon of the same DP-SGD at delta = 1e-5. The error of each is its distance from a
reference interval that is computed once with a fine grid; ours also reports its own certified interval.
"""

import time

from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant

from explorer.accounting import (
    CompositionBound,
    ObjectivePerturbation,
    PoissonSubsampledGaussian,
    hockey_stick_plds,
)

RATE, MULTIPLIER, STEPS, DELTA = 0.032, 1.2, 1875, 1e-5
REPETITIONS = 3


def timed(function):
    """(best seconds of a few runs, result)."""
    best = float("inf")
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def theirs(interval):
    accountant = PLDAccountant(value_discretization_interval=interval)
    accountant.compose(PoissonSampledDpEvent(RATE, GaussianDpEvent(MULTIPLIER)), STEPS)
    return accountant.get_epsilon(DELTA)


def dp_sgd():
    mechanism = PoissonSubsampledGaussian(noise_multiplier=MULTIPLIER, sampling_rate=RATE, steps=STEPS)
    reference = CompositionBound(mechanism, step=2e-5).epsilon_interval(DELTA)
    truth = (reference.low + reference.high) / 2
    print(f"DP-SGD, rate {RATE}, multiplier {MULTIPLIER}, {STEPS} steps, delta {DELTA}")
    print(f"  reference epsilon {truth:.8f} +- {(reference.high - reference.low) / 2:.1e}")
    print(f"  {'':28}{'step':>8}{'seconds':>10}{'epsilon':>12}{'error':>10}")
    for their_step, our_step in ((1e-4, 1e-4), (1e-3, 1e-3)):
        their_time, their_epsilon = timed(lambda step=their_step: theirs(step))
        our_time, our_epsilon = timed(lambda step=our_step: CompositionBound(mechanism, step=step).epsilon(DELTA))
        both_time, both = timed(lambda step=our_step: CompositionBound(mechanism, step=step).epsilon_interval(DELTA))
        for name, step, seconds, epsilon in (
            ("PLDAccountant", their_step, their_time, their_epsilon),
            ("CompositionBound", our_step, our_time, our_epsilon),
        ):
            print(f"  {name:28}{step:8g}{seconds:10.3f}{epsilon:12.7f}{epsilon - truth:10.1e}")
        print(f"  {'  with its interval':28}{our_step:8g}{both_time:10.3f}{'width':>12}{both.high - both.low:10.1e}")
        print(f"  time ratio {their_time / our_time:.1f} (with its interval {their_time / both_time:.1f})")
    seconds, (low, high) = timed(lambda: CompositionBound(mechanism).epsilon_interval(DELTA))
    print(f"  automatic step: {seconds:.3f} s, epsilon in [{low:.7f}, {high:.7f}]")


def objective_perturbation():
    mechanism = ObjectivePerturbation(noise_std=8, l2_reg=10, lipschitz=1, smoothness=1)
    print("objective perturbation, sigma 8, beta 1, lambda 10, L 1, half-normal loss, 1000 uses")
    for delta in (1e-3, 1e-5, 1e-10):
        epsilon = CompositionBound(mechanism, uses=1000, plds=hockey_stick_plds).epsilon(delta)
        seconds, (low, high) = timed(
            lambda e=epsilon: CompositionBound(mechanism, uses=1000, plds=hockey_stick_plds).delta_interval(e)
        )
        print(
            f"  {seconds:.3f} s: epsilon {epsilon:.5f}, delta <= {high:.3e}, relative width {(high - low) / high:.1e}"
        )


if __name__ == "__main__":
    dp_sgd()
    objective_perturbation()
