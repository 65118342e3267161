"""Honest tuning: no bound is ever exceeded by an exact best-of-K, and the reference noise multipliers come out."""

from dataclasses import dataclass
from functools import partial
from itertools import permutations
from math import exp, log

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import gammaln, ndtr, ndtri
from scipy.stats import kstest, norm, poisson

from explorer.accounting import (
    BestOfRuns,
    Gaussian,
    GaussianLowerBound,
    Poisson,
    PoissonSubsampledGaussian,
    PrivacyBound,
    ProfileBound,
    RenyiBound,
    ScoredRun,
    SelectionCorollaryBound,
    SelectionProfileBound,
    SelectionRenyiBound,
    TruncatedNegativeBinomial,
    calibrate,
)
from explorer.accounting.bounds.renyi import rdp_of
from explorer.accounting.pld.composition import CompositionBound
from explorer.accounting.selection import _neighbour_rank
from tests.accounting.strategies import log_uniform

RUNS = [
    Poisson(mean=0.05),
    Poisson(mean=1.0),
    Poisson(mean=15.4),
    Poisson(mean=900.0),
    TruncatedNegativeBinomial(eta=1.0, gamma=0.05),
    TruncatedNegativeBinomial(eta=0.0, gamma=0.01),
    TruncatedNegativeBinomial(eta=-0.5, gamma=0.3),
    TruncatedNegativeBinomial(eta=8.0, gamma=0.2),
]
each_runs = pytest.mark.parametrize("runs", RUNS, ids=str)
EPSILONS = np.array([-2.0, -0.3, 0.0, 0.02, 0.1, 0.5, 1.0, 3.0, 10.0])


def generating_function(runs, x):
    """F(x) = E x^K, from the definition of the distribution."""
    if isinstance(runs, Poisson):
        return np.exp(runs.mean * (x - 1))
    y = 1 - (1 - runs.gamma) * x
    if runs.eta == 0:
        return np.log(y) / np.log(runs.gamma)
    return (y**-runs.eta - 1) / (runs.gamma**-runs.eta - 1)


def best_of(runs, distribution, ranking):
    """Exact distribution of the best of K runs; outcomes ranked from worst to best, the last entry is K = 0."""
    reached = generating_function(runs, np.append(0.0, np.cumsum(distribution[list(ranking)])))
    best = np.empty(distribution.size + 1)
    best[list(ranking)], best[-1] = np.diff(reached), generating_function(runs, 0.0)
    return best


def hockey_stick(p, q, epsilon):
    return np.maximum(p - np.exp(epsilon)[..., None] * q, 0).sum(axis=-1)


def renyi(p, q, alpha):
    with np.errstate(divide="ignore"):
        loss = np.log(p) - np.log(q)
    return np.log(np.sum(p * np.exp((alpha - 1)[..., None] * loss), axis=-1)) / (alpha - 1)


@dataclass(frozen=True)
class Discrete(ProfileBound):
    """A pair of distributions on a few outcomes: a mechanism and its exact profile, the larger of both directions."""

    p: tuple
    q: tuple

    def log_delta(self, epsilon):
        p, q, epsilon = np.array(self.p), np.array(self.q), np.asarray(epsilon, float)
        finite = np.clip(epsilon, -700, 700)
        with np.errstate(divide="ignore"):
            return np.log(np.minimum(np.maximum(hockey_stick(p, q, finite), hockey_stick(q, p, finite)), 1))


@rdp_of.register
def _(mechanism: Discrete):
    p, q = np.array(mechanism.p), np.array(mechanism.q)

    def rdp(alpha):
        alpha = np.maximum(np.asarray(alpha, float), 1 + 1e-9)  # divergences grow with the order
        with np.errstate(over="ignore", invalid="ignore"):
            got = np.maximum(renyi(p, q, alpha), renyi(q, p, alpha))
        return np.where(np.isfinite(got), np.maximum(got, 1e-15), np.inf)

    return rdp


def pair_of(weights, leaks):
    p = np.array(weights)
    q = p * np.exp(leaks)
    return Discrete(tuple(p / p.sum()), tuple(q / q.sum()))


pairs = st.integers(2, 4).flatmap(
    lambda n: st.builds(
        pair_of,
        st.lists(log_uniform(1e-3, 1), min_size=n, max_size=n),
        st.one_of(st.just(0.01), st.just(0.3), st.just(3.0)).flatmap(
            lambda scale: st.lists(st.floats(-scale, scale), min_size=n, max_size=n)
        ),
    )
)


def exact_best_delta(runs, mechanism, epsilon):
    """The largest delta over all rankings and both directions."""
    p, q = np.array(mechanism.p), np.array(mechanism.q)
    worst = np.zeros(np.shape(epsilon))
    for ranking in permutations(range(p.size)):
        a, b = best_of(runs, p, ranking), best_of(runs, q, ranking)
        worst = np.maximum(worst, np.maximum(hockey_stick(a, b, epsilon), hockey_stick(b, a, epsilon)))
    return worst


@each_runs
@settings(max_examples=12)
@given(mechanism=pairs)
def test_no_bound_is_exceeded(runs, mechanism):
    exact = exact_best_delta(runs, mechanism, EPSILONS)
    slack = 1 + 1e-9  # rounding of the exact distributions' differences
    for bound in (SelectionProfileBound, SelectionCorollaryBound):
        assert (bound(mechanism, runs=runs).delta(EPSILONS) * slack + 1e-13 >= exact).all(), bound
    at = EPSILONS[2:]
    for profile in (None, mechanism):
        granted = SelectionRenyiBound(mechanism, runs=runs, profile=profile, orders=np.geomspace(1.05, 200, 60))
        assert (granted.delta(at) * slack + 1e-13 >= exact[2:]).all(), profile


@each_runs
@settings(max_examples=12)
@given(mechanism=pairs)
def test_no_divergence_is_exceeded(runs, mechanism):
    p, q = np.array(mechanism.p), np.array(mechanism.q)
    alpha = np.array([1.1, 1.5, 2, 5, 30])
    for profile in (None, mechanism):
        granted = SelectionRenyiBound(mechanism, runs=runs, profile=profile).rdp(alpha)
        for ranking in permutations(range(p.size)):
            a, b = best_of(runs, p, ranking), best_of(runs, q, ranking)
            keep = (a > 1e-12) & (b > 1e-12)  # the others are rounding of the differences
            a, b = a[keep], b[keep]
            assert (granted + 1e-9 >= np.maximum(renyi(a, b, alpha), renyi(b, a, alpha))).all()


@each_runs
@settings(max_examples=12)
@given(mechanism=pairs, seed=st.integers(0, 2**32 - 1))
def test_the_majorant_lies_above_every_rank(runs, mechanism, seed):
    """sum_k (a_k / rho_k) (rho_k - r)_+ >= F'(1 - t) - r F'(1 - T(t)), at ranks between those of any grid."""
    rng = np.random.default_rng(seed)
    t = np.sort(np.concatenate([rng.uniform(size=1000), np.exp(-40 * rng.uniform(size=1000)), [0, 1]]))
    gain = np.exp(runs.log_derivative(t))
    loss = np.exp(runs.log_derivative(_neighbour_rank(t, mechanism)))
    bound = SelectionProfileBound(mechanism, runs=runs)
    weight, knot = np.exp(bound._log_weight), np.exp(bound._log_ratio)
    for r in np.exp(np.append(rng.uniform(-3, 3, size=20), rng.uniform(-0.05, 0.05, size=20))):
        majorant = np.sum(weight * np.maximum(1 - r / knot, 0))
        assert majorant >= np.max(gain - r * loss) - 1e-10 * runs.mean
    assert weight.sum() == pytest.approx(runs.mean, rel=1e-12)


@each_runs
def test_outcomes_that_only_one_side_has(runs):
    """Infinite losses: delta stays above E[K] times their mass to the first order, and no bound is exceeded."""
    mechanism = Discrete((0.6, 0.4 - 1e-6, 1e-6), (0.5, 0.5, 0.0))
    epsilon = np.array([0.0, 0.1, 1.0, 5.0, 50.0])
    exact = exact_best_delta(runs, mechanism, epsilon)
    for bound in (SelectionProfileBound, SelectionCorollaryBound):
        got = bound(mechanism, runs=runs)
        assert (got.delta(epsilon) * (1 + 1e-9) >= exact).all()
        assert got.delta(np.inf) == pytest.approx(runs.mean * 1e-6, rel=1e-6)
        assert got.delta(300.0) == pytest.approx(runs.mean * 1e-6, rel=1e-6)


@each_runs
def test_distribution_of_runs(runs):
    x = np.array([0.0, 0.2, 0.9, 1.0])
    k = np.arange(1, 20000.0)
    if isinstance(runs, Poisson):
        mass = poisson.pmf(k, runs.mean)
    else:
        # the product of (l + eta)/(l + 1) as gamma functions, with its first factor eta cancelled by the constant
        mass = np.exp(k * np.log1p(-runs.gamma) + gammaln(k + runs.eta) - gammaln(k + 1))
        mass /= mass.sum()
    derivative = [np.sum(mass * k * value ** (k - 1)) for value in x]
    np.testing.assert_allclose(np.exp(runs.log_derivative(1 - x)), derivative, rtol=1e-9)
    assert runs.mean == pytest.approx(np.sum(mass * k), rel=1e-9)
    assert exp(runs.log_none) == pytest.approx(generating_function(runs, 0.0), rel=1e-12, abs=1e-300)


def test_mean_of_the_logarithmic_distribution_is_the_limit():
    logarithmic = TruncatedNegativeBinomial(eta=0.0, gamma=0.1).mean
    assert logarithmic == pytest.approx(9 / log(10), rel=1e-14)
    assert TruncatedNegativeBinomial(eta=1e-12, gamma=0.1).mean == pytest.approx(logarithmic, rel=1e-10)
    assert TruncatedNegativeBinomial(eta=1.0, gamma=0.1).mean == pytest.approx(10, rel=1e-14)


def test_mean_from_a_tail_probability(experiments_reference):
    runs = Poisson.with_more_than(10, probability=0.9)
    assert runs.mean == pytest.approx(experiments_reference["mu_poisson_Pr_K_gt_10_is_0.9"], rel=1e-12)
    assert poisson.sf(10, runs.mean) == pytest.approx(0.9, rel=1e-12)


# The Gaussian base mechanism: quadrature of the definition, what a real selection attains, the reference figures.

HONEST = Poisson.with_more_than(10, probability=0.9)


def gaussian_profile(s):
    return GaussianLowerBound(Gaussian(noise_std=1 / s))


@pytest.mark.parametrize("s", [0.01, 0.3, 2.0])
def test_rank_of_the_neighbour_is_close_to_the_exact_one(s):
    t = np.concatenate([[0], np.geomspace(1e-9, 0.1, 50), np.linspace(0.1, 1, 100)])
    got, exact = _neighbour_rank(t, gaussian_profile(s)), ndtr(ndtri(t) + s)
    assert (got >= exact * (1 - 1e-12)).all()
    assert (got - exact <= 1e-3 * (exact - t) + 1e-11).all()


@pytest.mark.parametrize("runs", [HONEST, RUNS[4], RUNS[5], RUNS[7]], ids=str)
@pytest.mark.parametrize(("s", "epsilon"), [(0.0129, 0.1), (0.3, 0.0), (0.3, 2.0), (2.0, 5.0), (2.0, -1.0)])
def test_supremum_is_certified_and_tight(runs, s, epsilon):
    """Against the expectation, over the exact loss, of a maximum over a fine grid: from above, and by little."""
    t = np.concatenate([[0], np.geomspace(1e-8, 1e-2, 1500), np.linspace(1e-2, 1, 4000)])
    gain = np.exp(runs.log_derivative(t))
    loss = np.exp(runs.log_derivative(ndtr(ndtri(t) + s)))
    z = np.linspace(-9, 9, 1801)
    ratio = np.exp(epsilon - (s * s / 2 + s * z))
    psi = np.array([np.max(gain - r * loss) for r in ratio])
    below = np.sum(np.maximum(psi, 0) * norm.pdf(z)) * (z[1] - z[0])
    if epsilon < 0:
        below += exp(runs.log_none) * -np.expm1(epsilon)
    got = SelectionProfileBound(gaussian_profile(s), runs=runs).delta(epsilon)
    assert min(below, 1) * (1 - 1e-4) <= got <= min(below, 1) * 1.01


def attained_log_delta(runs, s, epsilon):
    """log delta of the best of K Gaussian scores, the larger the better; the larger of both directions."""
    y = np.linspace(-10, 10 + s, 40001)
    with_record, without = (norm.logpdf(y - m) + runs.log_derivative(norm.sf(y - m)) for m in (s, 0.0))
    deltas = [
        np.sum(np.maximum(np.exp(a) - np.exp(epsilon + b), 0)) * (y[1] - y[0])
        for a, b in ((with_record, without), (without, with_record))
    ]
    return np.log(max(*deltas, 1e-300))


@each_runs
@pytest.mark.parametrize("s", [0.05, 1.0])
def test_a_gaussian_score_attains_less_than_every_bound(runs, s):
    for epsilon in (0.0, s, 3 * s):
        attained = attained_log_delta(runs, s, epsilon)
        profile = gaussian_profile(s)
        for bound in (
            SelectionProfileBound(profile, runs=runs),
            SelectionCorollaryBound(profile, runs=runs),
            SelectionRenyiBound(profile.mechanism, runs=runs),
            SelectionRenyiBound(profile.mechanism, runs=runs, profile=profile),
        ):
            assert bound.log_delta(epsilon) >= attained - 1e-6


def test_figures_of_the_gaussian_limit():
    """DP-SGD with sampling rate 0.032 and 1920 steps as one Gaussian: what each accountant asks for at (0.1, 1e-5)."""
    scale = 0.032 * np.sqrt(1920)

    def noise_multiplier(bound):
        got = calibrate(bound, Gaussian, parameter="noise_std", epsilon=0.1, delta=1e-5)
        assert got.delta <= 1e-5
        return scale * got.value

    assert noise_multiplier(lambda m: SelectionCorollaryBound(GaussianLowerBound(m), runs=HONEST)) == pytest.approx(
        135.1, abs=0.1
    )
    assert noise_multiplier(lambda m: SelectionProfileBound(GaussianLowerBound(m), runs=HONEST)) == pytest.approx(
        109.1, abs=0.1
    )
    mixture = noise_multiplier(lambda m: SelectionRenyiBound(m, runs=HONEST, profile=GaussianLowerBound(m)))
    assert mixture == pytest.approx(112.1, abs=0.1)
    assert noise_multiplier(lambda m: SelectionRenyiBound(m, runs=HONEST)) == pytest.approx(144.17, abs=0.02)
    attained = brentq(lambda s: attained_log_delta(HONEST, s, 0.1) - np.log(1e-5), 0.01, 0.03)
    assert scale / attained == pytest.approx(80, abs=1)


def test_dp_sgd_itself_by_its_privacy_loss_distribution():
    """The same selection without the Gaussian limit needs a noise multiplier close to the limit's 109.05."""
    granted = [
        SelectionProfileBound(
            CompositionBound(PoissonSubsampledGaussian(noise_multiplier=sigma, sampling_rate=0.032, steps=1920)),
            runs=HONEST,
        ).delta(0.1)
        for sigma in (109.0, 109.2)
    ]
    assert granted[1] < 1e-5 < granted[0]


@pytest.mark.parametrize("kind", ["synthetic_l", "adult"])
def test_calibrated_noise_multiplier(kind, experiments_reference):
    row = experiments_reference["dp_sgd_noise_multiplier_integer_orders_2_256"][kind]
    family = partial(PoissonSubsampledGaussian, sampling_rate=row["sampling_rate"], steps=row["steps"])
    bound = partial(SelectionRenyiBound, runs=HONEST, orders=range(2, 257))
    for epsilon, expected in row["honest"].items():
        got = calibrate(bound, family, parameter="noise_multiplier", epsilon=float(epsilon), delta=1e-5)
        assert got.value == pytest.approx(expected, rel=1e-5)
        assert got.delta <= 1e-5
    continuous = SelectionRenyiBound(got.mechanism, runs=HONEST).epsilon(1e-5)
    assert float(epsilon) * 0.95 <= continuous <= float(epsilon) * (1 + 1e-12)


@each_runs
@settings(max_examples=10)
@given(s=log_uniform(1e-3, 5))
def test_profile_of_the_selection_is_a_profile(runs, s):
    """Non-increasing, at most 0, finite far out, above the base mechanism's, and the corollary is not better."""
    profile = gaussian_profile(s)
    epsilon = s * np.array([-20.0, -3, -0.1, 0, 0.1, 0.5, 1, 2, 4, 8, 30])
    got = SelectionProfileBound(profile, runs=runs).log_delta(epsilon)
    assert np.isfinite(got).all() and (got <= 0).all()
    assert (np.diff(got) <= 1e-12 * np.abs(got[1:])).all()
    simple = SelectionCorollaryBound(profile, runs=runs).log_delta(epsilon)
    assert (got <= simple).all()
    if runs.mean >= 1 and runs.log_none == -np.inf:
        assert (got >= profile.log_delta(epsilon) * (1 + 1e-9) - 1e-9).all()


def test_a_mean_below_one_never_gives_a_negative_divergence():
    """The printed theorem would: log(mean) / (alpha - 1) alone."""
    rdp = SelectionRenyiBound(Gaussian(noise_std=1e3), runs=Poisson(mean=0.01)).rdp(np.array([1.5, 2, 10, 100]))
    assert (rdp > 0).all()


def test_shapes_and_limits():
    mechanism = Gaussian(noise_std=5.0)
    profile = GaussianLowerBound(mechanism)
    for bound in (
        SelectionRenyiBound(mechanism, runs=HONEST),
        SelectionRenyiBound(mechanism, runs=HONEST, orders=[1, 2, 30, np.inf]),
        SelectionRenyiBound(mechanism, runs=RUNS[4], orders=[1]),
        SelectionProfileBound(profile, runs=HONEST),
        SelectionCorollaryBound(profile, runs=RUNS[4]),
    ):
        assert isinstance(bound, PrivacyBound)
        for shape in [(), (0,), (3,), (2, 3)]:
            assert np.shape(bound.log_delta(np.full(shape, 0.5))) == shape
            assert np.shape(bound.epsilon(np.full(shape, 1e-5))) == shape
        assert bound.log_delta(np.inf) == -np.inf
        assert bound.log_delta(-np.inf) == 0
        with pytest.raises(ValueError, match="epsilon must be a real number"):
            bound.log_delta(np.nan)
        with pytest.raises(ValueError, match=r"delta must be inside \(0, 1\)"):
            bound.epsilon(0)
    rdp = SelectionRenyiBound(mechanism, runs=HONEST).rdp(np.array([1, 2, 1e6, np.inf]))
    assert rdp[0] == np.inf and rdp[3] == np.inf and np.isfinite(rdp[1:3]).all()
    assert RenyiBound(mechanism).epsilon(1e-5) < SelectionRenyiBound(mechanism, runs=HONEST).epsilon(1e-5)


@each_runs
def test_draws_have_the_law_of_the_generating_function(runs):
    """F at the corners of the unit circle gives Pr[K = k] by a Fourier sum; a spread-out distribution function of K is
    uniform."""
    rng = np.random.default_rng(0)
    draws = np.array([runs.draw(rng) for _ in range(4000)])
    probability = np.fft.fft(generating_function(runs, np.exp(2j * np.pi * np.arange(4096) / 4096))).real / 4096
    below = np.cumsum(probability) - probability
    assert kstest(below[draws] + rng.random(len(draws)) * probability[draws], "uniform").pvalue > 1e-3
    assert draws.mean() == pytest.approx(runs.mean, abs=5 * draws.std() / np.sqrt(len(draws)))


SCORED = ScoredRun(
    mechanism=PoissonSubsampledGaussian(noise_multiplier=4.0, sampling_rate=0.03, steps=50),
    uses=3,
    score=Gaussian(noise_std=20.0),
)


def test_a_scored_run_is_a_composition():
    orders = range(2, 257)
    step = dp_accounting.PoissonSampledDpEvent(0.03, dp_accounting.GaussianDpEvent(4.0))
    public = RdpAccountant(orders).compose(step, 150).compose(dp_accounting.GaussianDpEvent(20.0))
    assert RenyiBound(SCORED, orders=orders).epsilon(1e-5) == pytest.approx(public.get_epsilon(1e-5), rel=1e-9)
    unscored = ScoredRun(mechanism=SCORED.mechanism, uses=3)
    plain = PoissonSubsampledGaussian(noise_multiplier=4.0, sampling_rate=0.03, steps=150)
    assert RenyiBound(unscored).epsilon(1e-5) == pytest.approx(RenyiBound(plain).epsilon(1e-5), rel=1e-9)
    low, high = CompositionBound(unscored).epsilon_interval(1e-5)
    assert low <= CompositionBound(plain).epsilon(1e-5) * 1.001
    assert CompositionBound(plain).epsilon_interval(1e-5).low <= high
    assert high < CompositionBound(SCORED).epsilon_interval(1e-5).low < RenyiBound(SCORED).epsilon(1e-5)


def test_a_selection_of_scored_runs_for_another_accountant():
    run = dp_accounting.ComposedDpEvent(
        [
            dp_accounting.SelfComposedDpEvent(
                dp_accounting.PoissonSampledDpEvent(0.03, dp_accounting.GaussianDpEvent(4.0)), 150
            ),
            dp_accounting.GaussianDpEvent(20.0),
        ]
    )
    orders = range(2, 257)
    for runs, shape in ((Poisson(mean=5.0), np.inf), (TruncatedNegativeBinomial(eta=1.0, gamma=0.2), 1.0)):
        event = dp_accounting.dp_event.RepeatAndSelectDpEvent(run, runs.mean, shape)
        public = RdpAccountant(orders).compose(event).get_epsilon(1e-5)
        assert SelectionRenyiBound(SCORED, runs=runs, orders=orders).epsilon(1e-5) == pytest.approx(public, rel=0.02)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Poisson(mean=0), ValueError, "mean must be a finite number > 0: got mean=0"),
        (lambda: Poisson(mean=np.inf), ValueError, "mean must be a finite number > 0: got mean=inf"),
        (lambda: Poisson.with_more_than(0, probability=0.5), ValueError, "runs must be an integer >= 1: got runs=0"),
        (lambda: Poisson.with_more_than(3, probability=1), ValueError, r"probability must be inside \(0, 1\)"),
        (lambda: TruncatedNegativeBinomial(eta=-1, gamma=0.1), ValueError, "eta must be a finite number > -1: got"),
        (lambda: TruncatedNegativeBinomial(eta=1, gamma=1), ValueError, r"gamma must be inside \(0, 1\): got gamma=1"),
        (lambda: SelectionRenyiBound(Gaussian(noise_std=1), runs=15.4), TypeError, "runs must be Poisson or Truncated"),
        (lambda: ScoredRun(mechanism=Gaussian(noise_std=1), uses=0), ValueError, "uses must be an integer >= 1: got"),
        (
            lambda: ScoredRun(mechanism=Gaussian(noise_std=1), score=1.0),
            TypeError,
            "score must be Gaussian: got sco",
        ),
        (lambda: BestOfRuns(run=Gaussian(noise_std=1), runs=HONEST), TypeError, "run must be ScoredRun: got run=Gau"),
        (lambda: BestOfRuns(run=SCORED, runs=15), TypeError, "runs must be Poisson or Truncated"),
        (lambda: SelectionRenyiBound("SGD", runs=HONEST), TypeError, "mechanism has no Renyi analysis"),
        (lambda: SelectionProfileBound(Gaussian(noise_std=1), runs=HONEST), TypeError, "profile must be PrivacyBound"),
        (lambda: SelectionProfileBound(gaussian_profile(1), runs=None), TypeError, "runs must be Poisson or Truncated"),
    ],
)
def test_bad_arguments(build, error, message):
    with pytest.raises(error, match=message):
        build()
