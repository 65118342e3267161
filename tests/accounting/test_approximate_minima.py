"""Algorithm 1 by any bound on its objective: against the definition at 30 digits, certified intervals and the order."""

from functools import partial
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.accounting import (
    AMPBound,
    ApproximateMinimaPerturbation,
    BoundNotApplicable,
    CompositionBound,
    ExactBound,
    Gaussian,
    GaussianLowerBound,
    HockeyStickBound,
    KiferBound,
    ObjectivePerturbation,
    PrivacyBound,
    ProfileBound,
    RefinedBound,
    RenyiBound,
    amp_accountant,
    approximate_minima,
    hockey_stick_plds,
    profile_plds,
    refined_plds,
)
from explorer.accounting.approximate_minima import chord_log_delta, half_normal_sum_log_delta
from explorer.accounting.bounds.gaussian import half_normal_log_delta, log_delta
from tests.accounting.strategies import log_uniform

TYPICAL = {"noise_std": 7.0, "l2_reg": 4.0, "lipschitz": np.sqrt(2), "smoothness": 0.5}
OUTPUT = {"gradient_tol": 0.01, "output_noise_std": 0.15}
MECHANISM = ApproximateMinimaPerturbation(**TYPICAL, **OUTPUT)


def algorithm_1(s, kappa, t, monotone=False):
    """Algorithm 1 with s = L / sigma, kappa = beta / lambda and t = 2 tau / (lambda sigma_out)."""
    objective = {"noise_std": 1 / s, "l2_reg": 1 / kappa, "lipschitz": 1, "smoothness": 1, "monotone_loss": monotone}
    return ApproximateMinimaPerturbation(**objective, gradient_tol=t / (2 * kappa), output_noise_std=1)


def exact_gaussian(epsilon, s):
    return mp.ncdf(s / 2 - epsilon / s) - mp.exp(epsilon) * mp.ncdf(-s / 2 - epsilon / s)


def exact_half_normal(epsilon, s):
    if epsilon >= s * s / 2:
        return 2 * exact_gaussian(epsilon, s)
    return 1 - 2 * mp.exp(epsilon) * mp.ncdf(-s)


def exact_rectified(epsilon, s):
    if epsilon >= 0:
        return exact_gaussian(epsilon, s)
    return 1 - mp.exp(epsilon) * (1 - exact_gaussian(mp.mpf(0), s))


def by_definition(profile, epsilon, s, t, *, kink):
    """log E profile(epsilon - Z), Z ~ N(t^2/2, t^2), by Gauss rules on panels that follow the mode and the kink."""
    epsilon, s, t = map(mp.mpf, (epsilon, s, t))
    width = s / mp.sqrt(s * s + t * t)
    centre, kink = epsilon - t * t / 2, (epsilon - t * t / 2 - kink(s)) / t
    mode = centre * t / (s * s + t * t)
    ends = {mp.mpf(-14), mp.mpf(14), kink}
    ends |= {mode + width * j / 2 for j in range(-24, 25)} | {mp.mpf(j) for j in range(-14, 15, 2)}
    scales = min(width, 1 / (1 + abs(kink))), 1 / (1 + abs(kink))
    ends |= {kink + sign * scale * j for scale in scales for sign in (-1, 1) for j in (0.25, 0.5, *range(1, 30))}

    def integrand(y):
        return mp.npdf(y) * profile(centre - t * y, s)

    return mp.log(mp.quad(integrand, sorted(ends), method="gauss-legendre", maxdegree=4))


GRID = [
    (1e-3, 1e-8, 1e-3),
    (1e-3, 1e-3, 0.02),
    (1e-3, 0.05, 1.0),
    (1e-3, 3.0, 50.0),
    (0.05, 0.05, -0.1),
    (0.2, 0.03, -2.0),
    (0.2, 0.03, 0.0),
    (0.2, 0.03, 0.021),
    (0.2, 0.03, 1.0),
    (0.3, 3.0, -2.0),
    (0.3, 3.0, 4.0),
    (1.0, 1.0, 0.9),
    (1.0, 1.0, 1e3),
    (5.0, 0.1, 8.0),
    (5.0, 3.0, 1e3),
]


@pytest.mark.parametrize(("s", "t", "epsilon"), GRID)
def test_the_hockey_stick_bound_by_its_definition(s, t, epsilon):
    kappa = 0.2
    with mp.workdps(40):
        shifted = epsilon + mp.log1p(-mp.mpf(kappa))
        exact = by_definition(exact_half_normal, shifted, s, t, kink=lambda s: s * s / 2)
        mechanism = algorithm_1(s, kappa, t)
        slope = 2 + abs(float(exact)) / max(s, t)  # epsilon, s and t are rounded to floats
        got = AMPBound(mechanism).log_delta(epsilon)
        excess = float(got - exact)
    rounding = 1e-15 * abs(got) + 3e-16 * slope
    assert -rounding <= excess <= 1e-11 + 20 * rounding


@pytest.mark.parametrize(("s", "t", "epsilon"), GRID[::2])
def test_the_refined_bound_by_its_definition(s, t, epsilon):
    with mp.workdps(40):
        add = by_definition(exact_rectified, epsilon, s, t, kink=lambda s: 0)
        r = mp.sqrt(mp.mpf(s) ** 2 + mp.mpf(t) ** 2)
        for kappa in (1e-9, 0.2, 3.0):
            remove = mp.log(exact_gaussian(epsilon - mp.log1p(kappa), r))
            exact = max(add, remove)
            got = AMPBound(algorithm_1(s, kappa, t, monotone=True), bound=RefinedBound).log_delta(epsilon)
            assert -1e-12 * (1 + abs(got)) <= float(got - exact) <= 1e-6 + 1e-12 * abs(got)


@settings(max_examples=40)
@given(s=log_uniform(1e-3, 5), t=log_uniform(1e-4, 3), z=st.floats(-3, 8))
def test_chords_agree_with_the_closed_form(s, t, z):
    """The same mean twice, once from the profile's values only."""
    epsilon = np.array([np.hypot(s, t) * z])
    closed = half_normal_sum_log_delta(epsilon, sensitivity_ratio=s, output_ratio=t)
    profile = partial(half_normal_log_delta, sensitivity_ratio=s)
    chords = chord_log_delta(profile, epsilon, output_ratio=t, accuracy=1e-5)
    assert -2e-12 - 1e-12 * abs(closed) <= chords - closed <= 2e-5


@settings(max_examples=40)
@given(s=log_uniform(1e-3, 5), t=log_uniform(1e-8, 3), epsilon=st.floats(-2, 1e3))
def test_chords_of_a_gaussian_profile_are_never_below_the_gaussian_sum(s, t, epsilon):
    """Whatever their number, also where far too few can be afforded."""
    profile = partial(log_delta, sensitivity_ratio=s)
    chords = chord_log_delta(profile, np.array([epsilon]), output_ratio=t, accuracy=0.01)
    exact = log_delta(epsilon, sensitivity_ratio=np.hypot(s, t))
    assert exact <= chords + 1e-12 * (1 + abs(exact))
    assert chords <= exact + 0.011 + 0.01 * abs(exact)


class Staircase(ProfileBound):
    """A bound that no profile can equal: the hockey-stick bound rounded up to steps, constant between them."""

    def __init__(self, mechanism):
        self.inner = HockeyStickBound(mechanism)

    def log_delta(self, epsilon):
        return self.inner.log_delta(np.floor(np.asarray(epsilon) * 4) / 4)


@pytest.mark.parametrize("bound", [Staircase, KiferBound])
def test_a_bound_that_is_not_convex_still_covers_the_truth(bound):
    epsilon = np.linspace(0, 3, 25)
    got = AMPBound(MECHANISM, bound=bound, accuracy=1e-3).log_delta(epsilon)
    assert (got >= GaussianLowerBound(Gaussian(noise_std=1 / np.hypot(*ratios(MECHANISM)))).log_delta(epsilon)).all()
    assert np.isfinite(got).all()
    if bound is Staircase:
        assert (got >= AMPBound(MECHANISM).log_delta(epsilon) - 1e-12).all()


def ratios(mechanism):
    return mechanism.sensitivity_ratio, mechanism.output_step.sensitivity_ratio


@pytest.mark.parametrize(
    ("bound", "losses"),
    [
        (HockeyStickBound, hockey_stick_plds),
        (RefinedBound, refined_plds),
        (ExactBound, partial(profile_plds, bound=ExactBound)),
    ],
)
@pytest.mark.parametrize("monotone", [False, True])
def test_within_the_certified_interval(bound, losses, monotone):
    noisy = {**OUTPUT, "output_noise_std": 0.03}
    mechanism = ApproximateMinimaPerturbation(**TYPICAL, **noisy, monotone_loss=monotone)
    epsilon = np.array([-0.5, 0.0, 0.1, 0.6, 1.0])
    low, high = CompositionBound(mechanism, plds=losses).log_delta_interval(epsilon)
    got = AMPBound(mechanism, bound=bound, accuracy=1e-4).log_delta(epsilon)
    assert (low <= got).all()
    assert (got <= high + 1e-4).all()


@settings(max_examples=25)
@given(
    s=log_uniform(1e-2, 2),
    kappa=log_uniform(1e-3, 0.9),
    t=log_uniform(1e-4, 1),
    monotone=st.booleans(),
    epsilon=st.floats(0, 10),
)
def test_order_of_the_bounds(s, kappa, t, monotone, epsilon):
    mechanism = algorithm_1(s, kappa, t, monotone)
    chain = [GaussianLowerBound(Gaussian(noise_std=1 / np.hypot(s, t)))]
    chain += [AMPBound(mechanism, bound=bound, accuracy=1e-2) for bound in (ExactBound, RefinedBound, HockeyStickBound)]
    values = [bound.log_delta(epsilon) for bound in [*chain, RenyiBound(mechanism)]]
    for lower, higher in pairwise(values):
        assert lower <= higher + 1e-11 * (1 + abs(higher))


@given(s=log_uniform(1e-3, 5), kappa=log_uniform(1e-4, 0.9), t=log_uniform(1e-8, 3), epsilon=st.floats(-2, 100))
@pytest.mark.parametrize("bound", [HockeyStickBound, RefinedBound])
def test_monotone_in_everything(bound, s, kappa, t, epsilon):
    def log_delta(*parameters, at=epsilon):
        return AMPBound(algorithm_1(*parameters), bound=bound).log_delta(at)

    here = log_delta(s, kappa, t)
    slack = 1e-11 * (1 + abs(here))
    assert log_delta(s, kappa, t, at=epsilon + 0.01) <= here + slack
    assert log_delta(s / 1.1, kappa, t) <= here + slack  # sigma
    assert log_delta(s, kappa, t / 1.1) <= here + slack  # output noise, gradient_tol
    assert log_delta(s, kappa / 1.1, t / 1.1) <= here + slack  # lambda
    assert bound(algorithm_1(s, kappa, t).objective).log_delta(epsilon) <= here + slack


@pytest.mark.parametrize("bound", [HockeyStickBound, RefinedBound, ExactBound, KiferBound])
def test_without_an_output_step_the_objectives_own_bound_is_left(bound):
    mechanism = ApproximateMinimaPerturbation(**TYPICAL, gradient_tol=1e-200, output_noise_std=1.0)
    epsilon = np.array([0.3, 1.0, 3.0])
    own = bound(mechanism.objective).log_delta(epsilon)
    got = AMPBound(mechanism, bound=bound).log_delta(epsilon)
    np.testing.assert_allclose(got, own, rtol=1e-12, atol=1e-11 if bound in (HockeyStickBound, RefinedBound) else 1e-6)


@pytest.mark.parametrize("bound", [HockeyStickBound, RefinedBound])
def test_deep_in_the_tail(bound):
    for epsilon in (1e3, 1e6, 1e12):
        got = AMPBound(algorithm_1(1e-3, 0.1, 1e-4), bound=bound).log_delta(epsilon)
        assert got == pytest.approx(-(epsilon**2) / 2 / 1.01e-6, rel=1e-3)


def test_it_is_a_bound():
    bound = AMPBound(MECHANISM)
    assert isinstance(bound, PrivacyBound)
    for shape in [(), (0,), (3,), (2, 3)]:
        assert np.shape(bound.log_delta(np.full(shape, 0.5))) == shape
        assert np.shape(bound.epsilon(np.full(shape, 1e-5))) == shape
    epsilon = bound.epsilon(1e-5)
    assert bound.delta(epsilon) <= 1e-5 < bound.delta(epsilon * (1 - 1e-6))
    assert (bound.log_delta(np.inf), bound.log_delta(-np.inf)) == (-np.inf, 0)
    values = np.array([-0.5, 0.0, 0.3, 1.0, 30.0])
    for kind in (HockeyStickBound, RefinedBound, KiferBound):
        bound = AMPBound(MECHANISM, bound=kind)
        np.testing.assert_allclose(bound.log_delta(values), [bound.log_delta(x) for x in values], rtol=1e-12)


@pytest.mark.parametrize(("bound", "losses"), [(HockeyStickBound, hockey_stick_plds), (RefinedBound, refined_plds)])
def test_several_uses_are_composed(bound, losses):
    several, composed = AMPBound(MECHANISM, bound=bound, uses=3), CompositionBound(MECHANISM, uses=3, plds=losses)
    assert several.log_delta(1.0) == composed.log_delta(1.0)
    assert several.epsilon(1e-5) == composed.epsilon(1e-5) > AMPBound(MECHANISM, bound=bound).epsilon(1e-5)


def test_refusals():
    with pytest.raises(TypeError, match="mechanism must be ApproximateMinimaPerturbation"):
        AMPBound(MECHANISM.objective)
    with pytest.raises(BoundNotApplicable, match="l2_reg must exceed smoothness"):
        AMPBound(ApproximateMinimaPerturbation(**{**TYPICAL, "l2_reg": 0.4}, **OUTPUT))
    with pytest.raises(ValueError, match="uses must be an integer >= 1: got uses=0"):
        AMPBound(MECHANISM, uses=0)
    with pytest.raises(ValueError, match=r"accuracy must be inside \(0, 1\): got accuracy=0"):
        AMPBound(MECHANISM, accuracy=0)
    with pytest.raises(ValueError, match="bound must be an upper bound: got bound=GaussianLowerBound"):
        AMPBound(MECHANISM, bound=GaussianLowerBound)


@pytest.mark.parametrize(
    ("name", "bound"),
    [("hockey_stick", HockeyStickBound), ("refined", RefinedBound), ("exact", ExactBound), ("kifer", KiferBound)],
)
def test_accountants_by_name_and_by_class(name, bound):
    epsilon = 0.8
    expected = AMPBound(MECHANISM, bound=bound).log_delta(epsilon)
    for accountant in (name, bound):
        got = amp_accountant(accountant)(MECHANISM)
        assert isinstance(got.objective_bound, bound)
        assert got.log_delta(epsilon) == pytest.approx(expected, abs=1e-4)


def test_accountants_that_pass_through_and_that_do_not():
    assert amp_accountant("renyi") is RenyiBound
    own = partial(CompositionBound, plds=hockey_stick_plds)
    for accountant in (RenyiBound, CompositionBound, AMPBound, own):
        assert amp_accountant(accountant) is accountant
    with pytest.raises(ValueError, match=r"accountant must be .*'exact'.*'hockey_stick'.*: got accountant='gaussian'"):
        amp_accountant("gaussian")
    for lower in (GaussianLowerBound,):
        with pytest.raises(
            ValueError, match="must be an upper bound: got accountant=GaussianLowerBound, which is no guarantee"
        ):
            amp_accountant(lower)
    with pytest.raises(TypeError, match="accountant must be a name or callable: got accountant=3"):
        amp_accountant(3)


def test_a_users_bound_on_the_objective():
    class Halved(HockeyStickBound):
        """A subclass with another profile must not be taken for the bound that it extends."""

        def log_delta(self, epsilon):
            return super().log_delta(epsilon) + np.log(0.5)

    halved = AMPBound(MECHANISM, bound=Halved).log_delta(1.0)
    assert halved == pytest.approx(AMPBound(MECHANISM).log_delta(1.0) + np.log(0.5), abs=1e-5)
    objective = ObjectivePerturbation(**TYPICAL)
    assert AMPBound(MECHANISM, bound=Halved).objective_bound.mechanism == objective


@pytest.mark.parametrize("left", [-12.0, -2.0, -0.5, -0.3, 0.0, 0.3, 3.0, 20.0])
def test_the_rule_on_the_widest_narrow_panel_is_as_exact_as_its_margin_says(left):
    """A panel over which delta is constant has the Gaussian's mass."""
    t, widths = 0.5, np.linspace(1e-3, 1.5, 4000)
    right = left + widths[widths * (1 + np.maximum(abs(left), np.abs(left + widths)) + t) <= approximate_minima._NARROW]
    panel = np.array([[left], [right[-1]], [-2.0], [-2.0]])
    with mp.workdps(150):  # the tail at 20 is 1e-89
        mass = mp.ncdf(right[-1]) - mp.ncdf(left)
    log_mean = approximate_minima._with_mean(panel, t)[4, 0]
    assert log_mean == pytest.approx(-2 + float(mp.log(mass)), abs=approximate_minima._RULE_ERROR)
