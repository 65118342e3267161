"""Hypothesis strategies for mechanisms over the whole range that a user can reach."""

from hypothesis import strategies as st

from explorer.accounting import ObjectivePerturbation


def log_uniform(low, high):
    """Floats whose logarithm is spread evenly over [log low, log high]."""
    from math import exp, log

    return st.floats(log(low), log(high)).map(exp)


def mechanism(s, kappa, monotone=False):
    """ObjectivePerturbation with s = L / sigma and kappa = beta / lambda."""
    return ObjectivePerturbation(noise_std=1 / s, l2_reg=1 / kappa, lipschitz=1, smoothness=1, monotone_loss=monotone)


def mechanisms(*, max_curvature=0.999):
    """ObjectivePerturbation with s = L / sigma in [1e-4, 30] and kappa = beta / lambda in [1e-6, max_curvature]."""
    return st.builds(
        lambda s, kappa, lipschitz, smoothness: ObjectivePerturbation(
            noise_std=lipschitz / s, l2_reg=smoothness / kappa, lipschitz=lipschitz, smoothness=smoothness
        ),
        log_uniform(1e-4, 30),
        log_uniform(1e-6, max_curvature),
        log_uniform(0.1, 10),
        log_uniform(0.1, 10),
    )


epsilons = st.one_of(st.just(0.0), log_uniform(1e-4, 1e3))
deltas = log_uniform(1e-12, 0.9)
