"""Private selection: the privacy of the best of a random number of runs of a mechanism, as in hyperparameter tuning.

K is drawn first, from a distribution that does not depend on the data; the base mechanism Q is run K times, each run
returns its output with a score, and the best is released (nothing if K = 0). Ties are broken by a fixed order, so
outcomes are ranked. With F the probability generating function of K, t the probability under Q of an outcome better
than y, and t' the same under the neighbour's Q', the release has the density Q(y) F'(1 - t), against Q'(y) F'(1 - t').
(An outcome of positive probability is split by an auxiliary uniform variable that is the same for both datasets;
removing it is postprocessing.) F' increases and is convex, being a power series without negative terms. Three bounds
follow, all for both directions of the neighbouring relation:

`SelectionRenyiBound`: Papernot & Steinke 2022. The moment of order alpha is at most

    Pr[K = 0] + E[K] exp((alpha - 1)(rdp(alpha) + c)),

where c bounds the ratio F'(1 - t) / F'(1 - t'). The term Pr[K = 0], missing in the printed theorem, is the outcome of
K = 0 runs; without it a Poisson mean below 1 would give a negative divergence.

`SelectionProfileBound`: by the definition of the privacy profile delta_Q, for every e >= 0,

    t' <= T(t) = min over e of min{ e^e t + delta_Q(e),  1 - e^-e (1 - t - delta_Q(e)),  1 },

so delta_best(epsilon) <= E_{y ~ Q} Psi(e^epsilon Q'(y)/Q(y)) with

    Psi(r) = sup_{0 <= t <= 1} ( F'(1 - t) - r F'(1 - T(t)) )_+,

the supremum over ranks for each outcome separately. Psi is convex, non-increasing and 0 for large r. A piecewise
linear majorant with knots rho_k is a sum of hockey sticks sum_k (a_k / rho_k) (rho_k - r)_+ with a_k > 0 that add up
to F'(1) = E[K], and E_Q (rho - e^epsilon Q'/Q)_+ = rho delta_Q(epsilon - log rho): therefore

    delta_best(epsilon) <= sum_k a_k delta_Q(epsilon - log rho_k).

Any profile that bounds delta_Q from above, at negative arguments too, can replace it: that of a dominating pair, or the
upper end of a privacy loss distribution with its infinite privacy losses.

`SelectionCorollaryBound`: one hockey stick, delta_best(epsilon) <= E[K] delta_Q(epsilon - c).

References: Papernot & Steinke 2022; Koskela, Redberg & Wang 2024 for another bound from privacy profiles.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv, logsumexp

from explorer.accounting.bounds.renyi import RenyiBound, rdp_of
from explorer.accounting.conversion import CanonneKamathSteinke, Conversion
from explorer.accounting.logspace import log1mexp
from explorer.accounting.mechanisms import Gaussian
from explorer.accounting.pld.composition import DirectedPLDs, refined_plds
from explorer.accounting.protocol import PrivacyBound, ProfileBound
from explorer.accounting.types import Divergence, FloatArray
from explorer.validation import epsilon_array, instance, natural, order_array, positive, real


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """K ~ Poisson(mean): F'(x) = mean e^(mean (x - 1)). K may be 0.

    Parameters
    ----------
    mean : float > 0

    Raises
    ------
    ValueError if the mean is not a finite number > 0.
    """

    mean: float

    def __post_init__(self) -> None:
        positive("mean", self.mean)

    @classmethod
    def with_more_than(cls, runs: int, *, probability: float) -> "Poisson":
        """The smallest mean with Pr[K > runs] >= probability; runs an int >= 1, probability inside (0, 1).

        >>> round(Poisson.with_more_than(10, probability=0.9).mean, 4)
        15.4066
        """
        real("probability", probability, rule="inside (0, 1)", valid=lambda p: (p > 0) & (p < 1))
        return cls(mean=float(gammaincinv(natural("runs", runs) + 1, probability)))

    def draw(self, rng: np.random.Generator) -> int:
        """One draw of K >= 0 from a numpy Generator."""
        return int(rng.poisson(self.mean))

    @property
    def log_none(self) -> float:
        """log Pr[K = 0]."""
        return -self.mean

    def log_derivative(self, t: ArrayLike) -> FloatArray:
        """log F'(1 - t), elementwise for t in [0, 1]."""
        return np.log(self.mean) - self.mean * np.asarray(t)

    def rank_bound(self, profile: PrivacyBound) -> float:
        """The largest log F'(1 - t) / F'(1 - t') under the profile: the mean times the total variation."""
        return self.mean * float(profile.delta(0.0))


@dataclass(frozen=True, kw_only=True)
class TruncatedNegativeBinomial:
    """K >= 1 with Pr[K = k] proportional to (1 - gamma)^k times the product of (l + eta)/(l + 1) over l < k.

    F'(x) = E[K] (gamma / (1 - (1 - gamma) x))^(eta + 1). eta = 1 is the geometric distribution, eta = 0 (where the
    product starts at l = 1) the logarithmic one.

    Parameters
    ----------
    eta : float > -1
    gamma : float in (0, 1); the smaller, the more runs

    Raises
    ------
    ValueError if a parameter is out of range.

    References: Papernot & Steinke 2022, Definition 1.
    """

    eta: float
    gamma: float

    def __post_init__(self) -> None:
        real("eta", self.eta, rule="a finite number > -1", valid=lambda x: np.isfinite(x) & (x > -1))
        real("gamma", self.gamma, rule="inside (0, 1)", valid=lambda x: (x > 0) & (x < 1))

    @property
    def mean(self) -> float:
        """E[K] = eta (1 - gamma) / (gamma (1 - gamma^eta)), and (1/gamma - 1) / log(1/gamma) at eta = 0."""
        log_gamma = np.log(self.gamma)
        slope = -1 / log_gamma if self.eta == 0 else -self.eta / np.expm1(self.eta * log_gamma)
        return float((1 - self.gamma) / self.gamma * slope)

    def draw(self, rng: np.random.Generator) -> int:
        """One draw of K >= 1 from a numpy Generator, by inversion, in about K steps."""
        k, probability, rest = 1, float(np.exp(self.log_derivative(1.0))), rng.random()  # Pr[K = 1] = F'(0)
        while rest >= probability > 0:
            rest -= probability
            probability *= (1 - self.gamma) * (k + self.eta) / (k + 1)
            k += 1
        return k

    @property
    def log_none(self) -> float:
        """log Pr[K = 0], minus infinity."""
        return -np.inf

    def log_derivative(self, t: ArrayLike) -> FloatArray:
        """log F'(1 - t), elementwise for t in [0, 1]."""
        return np.log(self.mean) - (self.eta + 1) * np.log1p((1 - self.gamma) / self.gamma * np.asarray(t))

    def rank_bound(self, profile: PrivacyBound) -> float:
        """A bound, usually close, on log F'(1 - t) / F'(1 - t') under the profile:

        (eta + 1) log of (g + t') / (g + t) with g = gamma / (1 - gamma). As t' <= e^e t + d, that quotient is at most
        the larger of its ends 1 + d / g and e^e, for every e; nor does it exceed (g + 1) / g = 1 / gamma.
        """
        e = _thresholds(profile)
        ends = np.maximum(e, np.log1p(profile.delta(e) * (1 - self.gamma) / self.gamma))
        return (self.eta + 1) * min(float(np.min(ends)), -np.log(self.gamma))


@dataclass(frozen=True, kw_only=True)
class ScoredRun:
    """One run Q of a selection: a fit, which is `uses` runs of `mechanism` on the same data, and its score.

    Attributes
    ----------
    mechanism : any with a Renyi analysis, and with a privacy loss distribution for bounds by profile
    uses : int >= 1
    score : Gaussian, the mechanism that releases the score, or None if the score is a function of the fit and public
    data
    """

    mechanism: object
    uses: int = 1
    score: Gaussian | None = None

    def __post_init__(self) -> None:
        natural("uses", self.uses)
        if self.score is not None:
            instance("score", self.score, Gaussian)


@rdp_of.register
def _(mechanism: ScoredRun) -> Divergence:
    fit = rdp_of(mechanism.mechanism)
    if mechanism.score is None:
        return lambda alpha: mechanism.uses * fit(alpha)
    score = rdp_of(mechanism.score)
    return lambda alpha: mechanism.uses * fit(alpha) + score(alpha)


@refined_plds.register
def _(mechanism: ScoredRun) -> DirectedPLDs:
    fit = refined_plds(mechanism.mechanism).self_compose(mechanism.uses)
    return fit if mechanism.score is None else fit.compose(refined_plds(mechanism.score))


@dataclass(frozen=True, kw_only=True)
class BestOfRuns:
    """A selection: the best of K runs.

    Attributes
    ----------
    run : ScoredRun
    runs : Poisson or TruncatedNegativeBinomial, the distribution of K
    """

    run: ScoredRun
    runs: Poisson | TruncatedNegativeBinomial

    def __post_init__(self) -> None:
        instance("run", self.run, ScoredRun)
        instance("runs", self.runs, _RUNS)


_THRESHOLDS = 600  # number of values of epsilon in the minimum T

# Orders for the delta of the base mechanism when the search for the best order is continuous; any choice is valid.
_BASE_ORDERS = np.union1d(1 + np.geomspace(1e-2, 1e5, 800), np.arange(2, 257))

_RUNS = (Poisson, TruncatedNegativeBinomial)


class SelectionRenyiBound(RenyiBound):
    """A bound on the best of K runs by Renyi divergence:

        rdp_best(alpha) = log( Pr[K = 0] + E[K] exp((alpha - 1)(rdp(alpha) + c)) ) / (alpha - 1)

    Poisson: c = mean d where the base mechanism is (log(1 + 1/(alpha - 1)), d)-DP, for then
    (alpha - 1) t' - alpha t <= (alpha - 1) d, and the left side times the mean is the exponent due to the ranks.
    Truncated negative binomial: c = (1 + eta) min over orders b of ((1 - 1/b) rdp(b) + log(1/gamma) / b), because
    y' <= y^(1 - 1/b) e^((1 - 1/b) rdp(b)) for y = gamma + (1 - gamma) t >= gamma, the probability of an event too.

    Parameters
    ----------
    mechanism : the base mechanism, anything with a Renyi analysis
    runs : Poisson or TruncatedNegativeBinomial, the distribution of K
    profile : PrivacyBound on the same base mechanism, or None. Without it d is the smallest one that follows from the
        divergences of the base mechanism at `orders` (for None, at a fixed fine set of orders). With it d is that
        profile's delta, and for the truncated negative binomial c = (1 + eta) min over e >= 0 of max(e, log(1 +
        (1/gamma - 1) delta(e))).
    orders, conversion : as in `RenyiBound`, also for d

    Raises
    ------
    As `RenyiBound`; TypeError for `runs` or `profile` of another kind.

    References: Papernot & Steinke 2022, Theorems 2 and 6.
    """

    def __init__(
        self,
        mechanism: object,
        *,
        runs: Poisson | TruncatedNegativeBinomial,
        profile: PrivacyBound | None = None,
        orders: Iterable[float] | None = None,
        conversion: Conversion = CanonneKamathSteinke,
    ) -> None:
        super().__init__(mechanism, orders=orders, conversion=conversion)
        base_orders = _BASE_ORDERS if orders is None else self.orders
        self.base = RenyiBound(mechanism, orders=base_orders, conversion=conversion)
        self.runs = instance("runs", runs, _RUNS)
        self.profile = profile if profile is None else instance("profile", profile, PrivacyBound)
        self._rdp = self._selected_rdp
        self._constant_cost: float | None = None  # computed once, when it is needed

    def _selected_rdp(self, alpha: ArrayLike) -> FloatArray:
        alpha = order_array(alpha)
        excess = alpha - 1
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_moment = np.log(self.runs.mean) + excess * (self.base.rdp(alpha) + self._rank_cost(alpha))
            rdp = np.logaddexp(self.runs.log_none, log_moment) / excess
        return np.where((excess > 0) & np.isfinite(alpha), rdp, np.inf)

    def _rank_cost(self, alpha: FloatArray) -> FloatArray | float:
        if isinstance(self.runs, Poisson):
            source = self.base if self.profile is None else self.profile
            with np.errstate(divide="ignore"):
                return self.runs.mean * source.delta(np.log1p(1 / (alpha - 1)))
        if self._constant_cost is None:
            self._constant_cost = self._cost_of_all_orders(self.runs)
        return self._constant_cost

    def _cost_of_all_orders(self, runs: TruncatedNegativeBinomial) -> float:
        if self.profile is not None:
            return runs.rank_bound(self.profile)
        trivial = -float(np.log(runs.gamma))
        best = self.base._search(lambda b, rdp: np.atleast_2d((1 - 1 / b) * rdp + trivial / b), 1).value[0]
        return (1 + runs.eta) * min(float(best), trivial)


class _Selection(ProfileBound):
    """delta_best(epsilon) <= sum_k a_k delta_Q(epsilon - log rho_k), plus Pr[K = 0] (1 - e^epsilon) for epsilon < 0."""

    def __init__(self, profile: PrivacyBound, *, runs: Poisson | TruncatedNegativeBinomial) -> None:
        self.profile = instance("profile", profile, PrivacyBound)
        self.runs = instance("runs", runs, _RUNS)
        self._log_weight, self._log_ratio = self._hockey_sticks()

    def _hockey_sticks(self) -> tuple[FloatArray, FloatArray]:
        """log a_k and log rho_k."""
        raise NotImplementedError

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Log of the bound above, of epsilon's shape; epsilon array_like in nats, any real number."""
        epsilon = epsilon_array(epsilon)
        finite = np.where(np.isfinite(epsilon), epsilon, 0.0)[..., None]
        terms = self._log_weight + self.profile.log_delta(finite - self._log_ratio)
        none = self.runs.log_none + log1mexp(np.minimum(finite, 0))
        total = np.minimum(logsumexp(np.concatenate([terms, none], axis=-1), axis=-1), 0.0)
        total = np.where(epsilon == np.inf, self._at_infinity(), total)
        return np.where(epsilon == -np.inf, 0.0, total)[()]

    def _at_infinity(self) -> float:
        return min(float(np.log(self.runs.mean) + self.profile.log_delta(np.inf)), 0.0)


class SelectionCorollaryBound(_Selection):
    """A simpler bound by privacy profile: delta_best(epsilon) <= E[K] delta_Q(epsilon - c).

    With c the largest log F'(1 - t) / F'(1 - t'), F'(1 - t) - r F'(1 - t') is at most F'(1)(1 - r e^-c)_+. For Poisson
    runs c = mean delta_Q(0); for the truncated negative binomial see `SelectionRenyiBound`.

    Parameters and errors as for `SelectionProfileBound`, which is never larger.
    """

    def _hockey_sticks(self) -> tuple[FloatArray, FloatArray]:
        return np.log([self.runs.mean]), np.array([self.runs.rank_bound(self.profile)])


class SelectionProfileBound(_Selection):
    """A bound on the best of K runs by privacy profile: delta_best(epsilon) <= sum_k a_k delta_Q(epsilon - log rho_k).

    The weights and ratios are those of a piecewise linear majorant of Psi (module docstring): over each interval of a
    grid of t the convex F'(1 - t) is at most its chord, and the convex F'(1 - T(t)) at least the extension of the
    chords of both neighbouring intervals. So the supremum is attained at the ends of the intervals or at the points
    where the two extensions cross; its error is of second order in the grid. Where the effect of the ranks is below
    that error, `SelectionCorollaryBound` is smaller, and its value is returned.

    Parameters
    ----------
    profile : PrivacyBound on the base mechanism whose log_delta holds for both directions at every real epsilon, such
    as
        GaussianLowerBound(Gaussian(...)) (which is exact) or CompositionBound
    runs : Poisson or TruncatedNegativeBinomial, the distribution of K

    Raises
    ------
    TypeError for arguments of another kind.
    """

    def _hockey_sticks(self) -> tuple[FloatArray, FloatArray]:
        # An error of (1 / density)^2 / 8 in log F' must be small against the whole effect of the ranks.
        density = np.clip(np.sqrt(200 / max(self.runs.rank_bound(self.profile), 1e-9)), 200, 1000)
        t = _rank_grid(self.runs, density)
        own = np.exp(self.runs.log_derivative(t))
        other = np.exp(self.runs.log_derivative(_neighbour_rank(t, self.profile)))
        other, own = _upper_hull(*_extreme_points(t, other, own))
        with np.errstate(divide="ignore", over="ignore"):
            return np.log(np.diff(own)), np.log(np.diff(own) / np.diff(other))

    @cached_property
    def _corollary(self) -> SelectionCorollaryBound:
        return SelectionCorollaryBound(self.profile, runs=self.runs)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Log of the bound above, of epsilon's shape; epsilon array_like in nats, any real number."""
        return np.minimum(super().log_delta(epsilon), self._corollary.log_delta(epsilon))


def _rank_grid(runs: Poisson | TruncatedNegativeBinomial, density: float) -> FloatArray:
    """Increasing t from 0 to 1, equally spaced in a mix of log F'(1 - t), t and log t (T is steep at 0).

    There are `density` points per unit of log F', fewer where F' is below e^-30 of its maximum and none on its account
    below e^-700.
    """
    t = np.concatenate([[0.0], np.geomspace(1e-12, 1e-3, 2000), np.linspace(1e-3, 1, 20001)[1:]])
    log_gain = runs.log_derivative(t)
    fall = log_gain[0] - log_gain
    place = density * np.minimum(fall, 30) + 10 * np.minimum(fall, 700)
    place += 200 * t + 12 * np.log(np.maximum(t, 0.5e-12) / 0.5e-12)
    grid = np.interp(np.linspace(0, place[-1], int(place[-1]) + 4), place, t)
    return np.concatenate([[0.0], grid[1:-1], [1.0]])


def _thresholds(profile: PrivacyBound) -> FloatArray:
    """Values of epsilon >= 0, including 0, that cover the range of the profile; any choice gives a valid bound."""
    last = float(profile.epsilon(min(1e-12 + 1.5 * float(profile.delta(np.inf)), 0.99)))
    return (last if last < np.inf else 50.0) * np.linspace(0, 1, _THRESHOLDS) ** 2


def _neighbour_rank(t: FloatArray, profile: PrivacyBound) -> FloatArray:
    """T(t): an upper bound on the neighbour's probability of a better outcome; concave, as a minimum of lines in t."""
    thresholds = _thresholds(profile)
    rank = np.ones_like(t)
    for e, delta in zip(np.minimum(thresholds, 700), profile.delta(thresholds), strict=True):
        np.minimum(rank, np.exp(e) * t + delta, out=rank)
        np.minimum(rank, np.exp(-e) * (t + delta) - np.expm1(-e), out=rank)
    return rank


def _extreme_points(t: FloatArray, other: FloatArray, own: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Points (F'(1 - T), F'(1 - t)) such that the largest own - r other over them bounds Psi(r), for every r >= 0."""
    slope = np.diff(other) / np.diff(t)
    before, after = slope[:-2], slope[2:]  # neighbours of the intervals from t_1 to t_(n-1)
    at, end = t[1:-2], t[2:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        cross = at + (other[2:-1] - after * (end - at) - other[1:-2]) / (before - after)
    cross = np.clip(np.where(np.isfinite(cross), cross, at), at, end)
    low = np.minimum(other[1:-2] + before * (cross - at), other[2:-1] - after * (end - cross))
    chord = own[1:-2] + (own[2:-1] - own[1:-2]) * (cross - at) / (end - at)
    first = other[1] - slope[1] * (t[1] - t[0])
    last = other[-2] + slope[-2] * (t[-1] - t[-2])
    others = np.concatenate([other, low, [first, last]])
    return np.maximum(others * (1 - 1e-12), 0.0), np.concatenate([own, chord, [own[0], own[-1]]])


def _upper_hull(other: FloatArray, own: FloatArray) -> FloatArray:
    """Vertices of the concave majorant of the points and (0, 0), from there to the largest `own`, as two rows."""
    hull = [(0.0, 0.0)]
    for x, y in sorted(zip(other.tolist(), own.tolist(), strict=True), key=lambda point: (point[0], -point[1])):
        if y <= hull[-1][1]:
            continue
        while len(hull) > 1:
            (a, b), (c, d) = hull[-2:]
            if (d - b) * (x - a) > (y - b) * (c - a):
                break
            hull.pop()
        hull.append((x, y))
    return np.array(hull).T
