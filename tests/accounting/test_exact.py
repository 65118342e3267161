"""The exact profile and Renyi divergence: values of 40 digits, the bracket of the bounds before, and random ramps."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.accounting import AttainedLowerBound, RefinedBound, TightBound
from explorer.accounting.bounds.exact import ExactBound
from tests.accounting.strategies import log_uniform, mechanism

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "exact.json").read_text())
extreme = {"s": log_uniform(1e-5, 300), "kappa": log_uniform(1e-6, 1e6), "monotone": st.booleans()}


def bound_of(row, monotone):
    return ExactBound(mechanism(row["sensitivity_ratio"], row["curvature_ratio"], monotone))


@pytest.mark.parametrize("row", REFERENCE["remove"])
def test_remove_has_its_reference_values(row):
    value = bound_of(row, row["monotone"]).log_delta_remove(row["epsilon"])
    assert value == pytest.approx(float(row["log_delta_remove"]), rel=1e-9)


@pytest.mark.parametrize("row", REFERENCE["rdp"])
def test_renyi_has_its_reference_values(row):
    bound = bound_of(row, row["monotone"])
    value = (bound.rdp_add if row["direction"] == "add" else bound.rdp_remove)(row["alpha"])
    assert value == pytest.approx(float(row["rdp"]), rel=1e-9)


@pytest.mark.parametrize("row", REFERENCE["kl"])
@pytest.mark.parametrize("monotone", [False, True])
def test_kullback_leibler_has_its_reference_values(row, monotone):
    bound, suffix = bound_of(row, monotone), "_monotone" if monotone else ""
    assert bound.rdp_add(1.0) == pytest.approx(row["add" + suffix], rel=1e-9)
    assert bound.rdp_remove(1.0) == pytest.approx(row["remove" + suffix], rel=1e-9)


@given(**extreme)
@settings(max_examples=60, deadline=None)
def test_profile_lies_between_what_is_attained_and_what_was_proved(s, kappa, monotone):
    m = mechanism(s, kappa, monotone)
    turn = np.log1p(kappa)
    epsilon = np.concatenate([turn * np.linspace(0, 1, 9), turn * (1 + np.geomspace(1e-12, 10, 9)), [1e-4, 1.0, 1e5]])
    value = ExactBound(m).log_delta_remove(epsilon)
    slack = 1e-9 * np.maximum(np.abs(value), 1)
    assert np.isfinite(value).all()
    assert (value <= TightBound(m).log_delta_remove(epsilon) + slack).all()
    assert (value >= AttainedLowerBound(m).log_delta_remove(epsilon) - slack).all()


@given(**extreme, direction=st.sampled_from(["add", "remove"]))
@settings(max_examples=60, deadline=None)
def test_divergence_lies_between_the_gaussians_and_the_refined_one(s, kappa, monotone, direction):
    m, alpha = mechanism(s, kappa, monotone), np.concatenate([[1.0], 1 + np.geomspace(1e-9, 1e6, 40)])
    exact, refined = (getattr(bound(m), f"rdp_{direction}")(alpha) for bound in (ExactBound, RefinedBound))
    assert np.isfinite(exact).all()
    assert (exact >= alpha * s**2 / 2 * (1 - 1e-12)).all()
    assert (exact <= refined * (1 + 1e-9)).all()
    assert (np.diff(exact) >= -1e-9 * exact[1:]).all()
