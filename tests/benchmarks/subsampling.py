"""Time to epsilon of DP-SGD over orders 2..256, ours against dp_accounting's RdpAccountant, in one run.

    python -m tests.benchmarks.subsampling

Prints the best of several repetitions of each and their ratio; the mechanism changes a little at every repetition,
so that nothing can be reused.
"""

from time import perf_counter

from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.rdp import RdpAccountant

from explorer.accounting import PoissonSubsampledGaussian, RenyiBound

ORDERS = range(2, 257)
RATE, STEPS, DELTA = 0.032, 1875, 1e-5


def ours(noise_multiplier):
    mechanism = PoissonSubsampledGaussian(noise_multiplier=noise_multiplier, sampling_rate=RATE, steps=STEPS)
    return RenyiBound(mechanism, orders=ORDERS).epsilon(DELTA)


def theirs(noise_multiplier):
    step = PoissonSampledDpEvent(RATE, GaussianDpEvent(noise_multiplier))
    return RdpAccountant(orders=list(ORDERS)).compose(SelfComposedDpEvent(step, STEPS)).get_epsilon(DELTA)


def best_time(function, repetitions):
    times = []
    for i in range(repetitions):
        start = perf_counter()
        function(1.2 + i / 1000)
        times.append(perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    fast, slow = best_time(ours, 20), best_time(theirs, 5)
    print(f"epsilon: ours {ours(1.2):.12f}, dp_accounting {theirs(1.2):.12f}")
    print(f"time: ours {fast * 1e3:.2f} ms, dp_accounting {slow * 1e3:.1f} ms, ratio {slow / fast:.1f}")
