"""Privacy loss distributions: the interval contains every closed form, and is as narrow as asked."""

from functools import partial

import numpy as np
import pytest

from explorer.accounting import PrivacyLossDistribution
from explorer.accounting.gaussian import log_delta


@pytest.mark.parametrize("uses", [1, 2, 10, 100, 1000, 10_000])
@pytest.mark.parametrize("s", [1e-3, 0.125, 1])
def test_composed_gaussians_are_a_gaussian(s, uses):
    composed = PrivacyLossDistribution.from_profile(partial(log_delta, sensitivity_ratio=s)).self_compose(uses)
    ratio = s * np.sqrt(uses)
    epsilon = ratio**2 / 2 + ratio * np.linspace(-7, 12, 77)
    low, high = composed.log_delta_interval(epsilon)
    exact = log_delta(epsilon, sensitivity_ratio=ratio)
    assert (low <= exact).all()
    assert (exact <= high).all()
    assert (-np.expm1(low - high)[high >= np.log(1e-10)] <= 1e-3).all()
