"""Algorithm 1 (Redberg, Koskela & Wang 2023): any bound on its objective, composed with the Gaussian output step.

With delta_obj a privacy profile of the objective at every real epsilon and t = 2 tau / (lambda sigma_out),

    delta(epsilon) = E delta_obj(epsilon - Z),    Z ~ N(t^2/2, t^2),

since Z is the privacy loss of the output step. All functions compute that expectation from above, in one of two ways.

*By chords*, for any bound. In gamma = e^epsilon a privacy profile is convex and non-increasing. So between two points
at which a bound on it is known, it is below the chord through the two values of the bound (the bound itself need not be
convex) and below the value at the left point. The mean of a chord over a panel of Z consists of Gaussian and
exponentially tilted Gaussian masses; the error is of second order. Panels with the largest errors are divided.

*By the density of the sum*, for privacy losses in closed form. With X ~ N(0, s^2), r^2 = s^2 + t^2 and e = epsilon -
r^2/2, the density of s^2/2 + |X| + Z at epsilon + v is (2/r) phi((e+v)/r) Phi(s (e+v) / (t r)), a skew normal one, and
that of max(0, s^2/2 + X) + Z is (1/r) phi((e+v)/r) Phi(s (epsilon+v) / (t r)) plus Phi(-s/2) times the density of Z. So
both profiles need, at start = r^2/2 or 0, the integral over v > 0 of

    (1 - e^-v) phi((e+v)/r) / r  Phi(s (epsilon - start + v) / (t r)).

For e >= 0 the trapezoidal rule in u = log v with step 1/8 has a relative error below 6.3e-14. Proof: let cos 2a = 1/5
and |Im u| <= a, so that v = |v| e^(i b), |b| <= a. There |1 - e^-v| <= (1 - e^-|v|) / cos a; the Gaussian factor is at
most its value at c |v|, c^2 = cos 2a <= cos^2 a; and Phi's argument stays within the angle a of the positive axis,
where |Phi| <= 1 + int_0^inf e^(-x^2/10) dx / sqrt(2 pi) < 2.12, against at least 1/2 on the axis. As 1 - e^(-v/c) <=
(1 - e^-v) / c, the modulus has at most 2.12 * 2 / (c^2 cos a) < 27.4 times the integral itself, and the rule's error is
at most 2 * 27.4 / (e^(16 pi a) - 1) of it (Trefethen & Weideman 2014, Theorem 5.1).

For e < 0 the first profile is E H(epsilon - s^2/2 - |X|; t) by the same rule in log |X|, of relative error below 9e-14.
With D = r |e| and x for |X|, H is K((D + x)/t), where K(0) = 1/2 - phi(0) m(t), m the Mills ratio, and K'(z) = t
e^(t^2/2 - t z) Phi(z - t) = t phi(z) m(t - z). On the strip z stays within the angle a, so |phi(z)| <= phi(0)
e^(-|z|^2/10); |m(z)| <= m(0) for Re z >= 0, hence |K'| <= t e^(-|z|^2/10) / 2, plus t e^(t^2/2 - t Re z) for Re z > t.
If t <= 1, then K(0) >= 0.238 t and K(y) >= (1 - e^(-t y)) / 2 on the axis, and integrating K' from 0 to z gives |K(z)|
<= K(0) + e^(1/2) (1 - e^(-t |z|)) / cos a + 1.41 t <= 16.5 K(c |z|); if t > 1, |K| is at most 2.12 + 1.5 and K >=
0.238. With the Gaussian factor of x as before, the modulus has at most 16.5 / c < 37 times the integral. For e < 0 the
second profile is taken by chords.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from explorer.accounting.bounds.exact import ExactBound
from explorer.accounting.bounds.gaussian import GaussianLowerBound, log_delta
from explorer.accounting.bounds.hockey_stick import HockeyStickBound
from explorer.accounting.bounds.kifer import KiferBound
from explorer.accounting.bounds.refined import DirectionalBound, RefinedBound, monotone_log_delta
from explorer.accounting.bounds.renyi import RenyiBound
from explorer.accounting.logspace import log_normal_density
from explorer.accounting.mechanisms import ApproximateMinimaPerturbation, ObjectivePerturbation
from explorer.accounting.pld.composition import (
    CompositionBound,
    DirectedPLDs,
    directed_profiles,
    hockey_stick_plds,
    profile_plds,
    refined_plds,
)
from explorer.accounting.protocol import PrivacyBound, ProfileBound
from explorer.accounting.types import FloatArray, IntArray, LogProfile
from explorer.validation import epsilon_array, instance, natural, real

_MARGIN = 1e-12  # relative, in delta: more than the errors of all rules and sums here, with their omitted tails
_ROUNDING = 16 * np.finfo(float).eps
_STEP = 1 / 8
_SHORTEST, _LONGEST = 1e-7, 45.0  # v in units of its scale; the rest is below 1e-13 of the integral
_HALF_NORMAL = np.exp(np.arange(np.log(1e-14), np.log(10), _STEP))  # in standard deviations
_FIRST_PANELS, _MOST_PANELS = 128, 20_000  # per epsilon
_LEFT_OUT = 7.0  # minus the log of what the tails without panels weigh, as a part of the accuracy
_PIECES, _ROUNDS = 16, 40
_NARROW = 1.5
_RULE_ERROR = 2e-12  # relative, of the six-point rule on a narrow panel, at most
_NODES, _WEIGHTS = (x / 2 for x in np.polynomial.legendre.leggauss(6))
_NODES = _NODES + 0.5

_Composed: TypeAlias = Callable[[Any, FloatArray, float, float], FloatArray]  # of bound, epsilon, t, accuracy


def half_normal_sum_log_delta(epsilon: ArrayLike, *, sensitivity_ratio: float, output_ratio: float) -> FloatArray:
    """Log of the profile of s^2/2 + |N(0, s^2)| + N(t^2/2, t^2), from above, at every real epsilon.

    Parameters
    ----------
    epsilon : array_like, any shape, finite, nats
    sensitivity_ratio, output_ratio : floats > 0, s and t

    Returns
    -------
    ndarray of epsilon's shape, natural log of delta: above the exact value, by at most 1e-12 and rounding errors
    """
    s, t, epsilon = sensitivity_ratio, output_ratio, np.asarray(epsilon, float)
    r = np.hypot(s, t)
    far, value = epsilon >= r * r / 2, np.empty(epsilon.shape)
    value[far] = np.log(2) + _log_weighted_tail(epsilon[far], s, t, r * r / 2)
    if not far.all():
        value[~far] = _log_half_normal_mean(epsilon[~far] - s * s / 2, s, t)
    return value[()]


def _log_half_normal_mean(epsilon: FloatArray, s: float, t: float) -> FloatArray:
    """Log of E H(epsilon - |X|; t), X ~ N(0, s^2), from above, for epsilon <= t^2/2, by the rule in log |X|."""
    x = _HALF_NORMAL
    log_h = log_delta(epsilon[..., None] - s * x, sensitivity_ratio=t)
    weight = x * np.exp(-np.square(x) / 2) * _STEP * np.sqrt(2 / np.pi)
    peak = log_h[..., -1]  # H is non-increasing in epsilon
    return np.minimum(peak + np.log((np.exp(log_h - peak[..., None]) * weight).sum(axis=-1)) + _MARGIN, 0)


def rectified_normal_sum_log_delta(epsilon: ArrayLike, *, sensitivity_ratio: float, output_ratio: float) -> FloatArray:
    """Log of the profile of max(0, N(s^2/2, s^2)) + N(t^2/2, t^2), from above, for epsilon >= (s^2 + t^2) / 2.

    Parameters and returns as for `half_normal_sum_log_delta`.
    """
    alone = log_ndtr(-sensitivity_ratio / 2) + log_delta(epsilon, sensitivity_ratio=output_ratio)
    return np.logaddexp(alone, _log_weighted_tail(epsilon, sensitivity_ratio, output_ratio, 0.0))


def _log_weighted_tail(epsilon: ArrayLike, s: float, t: float, start: float) -> FloatArray:
    """Log of the integral of the module's docstring, from above; v is in units of the scale r / max(1, e/r)."""
    r = np.hypot(s, t)
    with np.errstate(over="ignore"):
        e = np.asarray(epsilon, float)[..., None] / r - r / 2
    fall = np.clip(e, 1, 1e300)
    scale = np.maximum(r / fall, 1e-200)  # (1 - e^-x)/x is constant below 1e-200
    first = np.log(_SHORTEST) - np.log(max(1, r)) / 2  # where v is large, 1 - e^-v is linear below 1 only
    v = np.exp(np.arange(first, np.log(_LONGEST), _STEP))
    with np.errstate(over="ignore", under="ignore"):
        gain = -np.expm1(-scale * v) / scale * np.exp(-v * (np.minimum(e, fall) / fall) - np.square(v / fall) / 2)
        mass = ndtr(s / t * (np.maximum(e + (r / 2 - start / r), 0) + v / fall))
        total = np.log(_STEP * (v * gain * mass).sum(axis=-1))
    peak = log_normal_density(e) * (1 - _ROUNDING)  # e has a few rounding errors
    return (peak + np.log(r) - 2 * np.log(fall))[..., 0] + total + _MARGIN


def chord_log_delta(
    profile: LogProfile,
    epsilon: FloatArray,
    *,
    output_ratio: float,
    accuracy: float,
    enough: ArrayLike = -np.inf,
    least: FloatArray | None = None,
) -> FloatArray:
    """Log of E delta_obj(epsilon - Z), Z ~ N(t^2/2, t^2), from above, by chords (module docstring).

    Any panels give a valid bound; their number decides how tight it is. They are divided until the estimated relative
    error, for each panel the square of the change in log delta over twelve, is at most `accuracy` in total, or there
    are 20 000 of them.

    Parameters
    ----------
    profile : callable, elementwise on float arrays, log of an upper bound on a privacy profile at every real epsilon
    epsilon : ndarray (n,), finite, nats
    output_ratio : float > 0, t
    accuracy : float > 0, relative, in delta
    enough : array_like that broadcasts to epsilon; values of log delta at most this are not refined
    least : ndarray (n,), a bound from below on the result, from which the panels' extent follows; None: the profile is
        evaluated once more

    Returns
    -------
    ndarray (n,), natural log of delta
    """
    t, enough = output_ratio, np.asarray(enough, float)
    centre, small = epsilon - t * t / 2, _LEFT_OUT - np.log(accuracy)
    # the mean is at least delta_obj(centre) / 2; a normal variable is beyond x with probability at most e^(-x^2/2)
    least = profile(centre) - np.log(2) if least is None else least
    ends = np.stack([np.full(epsilon.shape, -np.sqrt(2 * small)), np.sqrt(2 * (small - np.clip(least, -1e12, 0)))])
    left, right = np.arcsinh(ends / 2)
    nodes = 2 * np.sinh(np.linspace(left, right, _FIRST_PANELS + 1))  # densest at 0
    values = profile(centre - t * nodes)
    # right of all panels delta is at most 1; left of them it is at most its value at their left end
    tails = np.logaddexp(log_ndtr(nodes[0]) + values[0], log_ndtr(-nodes[-1]))
    new = np.stack([each.ravel() for each in (nodes[:-1], nodes[1:], values[:-1], values[1:])])
    owner = np.tile(np.arange(epsilon.size), _FIRST_PANELS)
    done, owners, total = np.empty((6, 0)), np.empty(0, int), tails
    for _ in range(_ROUNDS):
        done, owners = np.concatenate([done, _with_mean(new, t)], axis=1), np.concatenate([owners, owner])
        total = _log_sum_by(owners, done[4], tails)
        count = np.bincount(owners, minlength=epsilon.size)
        short = _log_sum_by(owners, done[5], np.full_like(total, -np.inf)) > total + np.log(accuracy)
        short &= (total + _MARGIN > enough) & (count < _MOST_PANELS)
        share = (total + np.log(accuracy / np.maximum(count, _FIRST_PANELS)))[owners]
        chosen = short[owners] & (done[5] > share) & (done[1] - done[0] > 1e-14 * np.abs(done[1]))
        if not chosen.any():
            break
        split, owner = done[:, chosen], owners[chosen]
        # n parts together have 1/n^2 of the error
        pieces = np.exp(np.minimum((split[5] - share[chosen]) / 3, 9))
        pieces = np.clip(pieces, 2, np.clip(_MOST_PANELS / count, 2, _PIECES)[owner])
        done, owners = done[:, ~chosen], owners[~chosen]
        new, owner = _divide(split[:4], owner, pieces, lambda y, k: profile(centre[k] - t * y))
    return np.minimum(total * (1 - _ROUNDING) + _MARGIN + _RULE_ERROR, 0)


def _divide(
    panels: FloatArray, owner: IntArray, pieces: ArrayLike, value: Callable[[FloatArray, IntArray], FloatArray]
) -> tuple[FloatArray, IntArray]:
    """Panels (rows left, right, log delta at either end) in `pieces` equal parts each, and the owner of each part."""
    pieces = np.broadcast_to(np.ceil(pieces).astype(int), owner.shape)
    last = np.cumsum(pieces) - 1
    left, right, low, _ = np.repeat(panels, pieces, axis=1)
    owner, number = np.repeat(owner, pieces), np.arange(left.size) - np.repeat(last + 1 - pieces, pieces)
    inner = number > 0
    left = left + (right - left) * number / np.repeat(pieces, pieces)
    low[inner] = value(left[inner], owner[inner])
    ends = [np.append(x[1:], 0.0) for x in (left, low)]
    for end, of_panel in zip(ends, panels[[1, 3]], strict=True):
        end[last] = of_panel
    return np.stack([left, ends[0], low, ends[1]]), owner


def _with_mean(panels: FloatArray, t: float) -> FloatArray:
    """The rows of `panels` (left, right, log delta at either), then the log of the mean, and of its estimated error.

    On a narrow panel the Gaussian times the chord is integrated by a six-point Gauss rule, whose error is below 2e-12:
    the integrand is entire and varies little there. On a wide one delta is replaced by its larger value.
    """
    left, right, low, high = panels
    low, width = np.minimum(low, high), right - left
    far = np.maximum(left, -right)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        drop = np.where(low < high, high - low, 0.0)
        y = width * _NODES[:, None]
        tilt = max(t, 1e-200)
        share = np.expm1(-tilt * y) / np.expm1(-tilt * width)  # weight of the right end, linear in e^(-t y)
        chord = share + np.exp(-drop) * (1 - share)
        mean = _WEIGHTS @ (chord * np.exp(-y * (left + y / 2)))
        log_mean = log_normal_density(left) + np.log(width * mean)
        narrow = width * (1 + np.maximum(np.abs(left), np.abs(right)) + t) <= _NARROW
        log_mean = high + np.where(narrow, log_mean, log_ndtr(-far))
        excess = log_mean + np.where(narrow, np.minimum(2 * np.log(drop) - np.log(12), 0), 0)
    return np.stack([left, right, low, high, log_mean, excess])


def _log_sum_by(owner: IntArray, log_value: FloatArray, start: FloatArray) -> FloatArray:
    """Log of start plus the sum of each owner's values, from the logarithms of all."""
    peak = start.copy()
    np.maximum.at(peak, owner, log_value)
    peak = np.where(np.isfinite(peak), peak, 0)
    with np.errstate(under="ignore", divide="ignore"):
        weight = np.bincount(owner, np.exp(log_value - peak[owner]), minlength=start.size)
        return peak + np.log(weight + np.exp(start - peak))


def _hockey_stick(bound: HockeyStickBound, epsilon: FloatArray, t: float, accuracy: float) -> FloatArray:
    s, shift = bound.mechanism.sensitivity_ratio, np.log1p(-bound.mechanism.curvature_ratio)
    return half_normal_sum_log_delta(epsilon + shift, sensitivity_ratio=s, output_ratio=t)


def _refined(bound: DirectionalBound, epsilon: FloatArray, t: float, accuracy: float) -> FloatArray:
    remove = _refined_remove(bound, epsilon, t)
    return np.maximum(remove, _refined_add(bound, epsilon, t, accuracy, enough=remove))


def _refined_remove(bound: DirectionalBound, epsilon: FloatArray, t: float) -> FloatArray:
    r = float(np.hypot(bound.mechanism.sensitivity_ratio, t))
    return log_delta(epsilon - np.log1p(bound.mechanism.curvature_ratio), sensitivity_ratio=r)


def _refined_add(
    bound: DirectionalBound, epsilon: FloatArray, t: float, accuracy: float, *, enough: FloatArray
) -> FloatArray:
    s = bound.mechanism.sensitivity_ratio
    r = float(np.hypot(s, t))
    add = half_normal_sum_log_delta(epsilon, sensitivity_ratio=s, output_ratio=t)
    if not bound.mechanism.monotone_loss:
        return add
    far = epsilon >= r * r / 2
    add[far] = rectified_normal_sum_log_delta(epsilon[far], sensitivity_ratio=s, output_ratio=t)
    if not far.all():
        near = {"output_ratio": t, "accuracy": accuracy, "enough": enough[~far]}
        chords = chord_log_delta(partial(monotone_log_delta, sensitivity_ratio=s), epsilon[~far], **near)
        add[~far] = np.minimum(add[~far], chords)
    return add


def _exact(bound: ExactBound, epsilon: FloatArray, t: float, accuracy: float) -> FloatArray:
    # The closed forms of the refined bound are never below the exact profile, but have no error of chords, which is
    # large far out in the tail; and where that of "add" is below "remove", "add" need not be computed.
    gaussian = log_delta(epsilon, sensitivity_ratio=float(np.hypot(bound.mechanism.sensitivity_ratio, t)))
    chords = partial(chord_log_delta, output_ratio=t, accuracy=accuracy)
    value = np.minimum(chords(bound.log_delta_remove, epsilon, least=gaussian), _refined_remove(bound, epsilon, t))
    add = _refined_add(bound, epsilon, t, accuracy, enough=value)
    larger = add > value
    if larger.any():
        exact = chords(bound.log_delta_add, epsilon[larger], enough=value[larger], least=gaussian[larger])
        value[larger] = np.maximum(value[larger], np.minimum(add[larger], exact))
    return value


def _any_bound(bound: PrivacyBound, epsilon: FloatArray, t: float, accuracy: float) -> FloatArray:
    add, remove = directed_profiles(bound)
    composed = partial(chord_log_delta, epsilon=epsilon, output_ratio=t, accuracy=accuracy)
    larger = composed(remove)  # with few exceptions, since only "remove" has the curvature term
    return larger if remove is add else np.maximum(composed(add, enough=larger), larger)


# by exact type: a subclass may have another profile
_COMPOSED: dict[type, _Composed] = {HockeyStickBound: _hockey_stick, RefinedBound: _refined, ExactBound: _exact}
_PLDS: dict[type, Callable[[object], DirectedPLDs]] = {
    HockeyStickBound: hockey_stick_plds,
    RefinedBound: refined_plds,
}


class AMPBound(ProfileBound):
    """A bound on Algorithm 1 from any bound on its objective: delta(epsilon) = E delta_obj(epsilon - Z).

    Z ~ N(t^2/2, t^2) is the privacy loss of the output step, t = 2 tau / (lambda sigma_out). The result is never below
    that expectation: for `HockeyStickBound` and `RefinedBound` it exceeds it by a relative 1e-12 in delta (where
    epsilon, without the curvature term, is below (s^2 + t^2)/2, by `accuracy`), for other bounds by `accuracy`. See
    this module's docstring.

    Parameters
    ----------
    mechanism : ApproximateMinimaPerturbation
    bound : callable, ObjectivePerturbation to PrivacyBound: a bound at epsilon >= 0 on both directions, or, where it
        has `log_delta_add` and `log_delta_remove`, one on each direction at every real epsilon
    uses : int >= 1, number of runs of Algorithm 1 on the same data, such as one per class in one-vs-rest; from 2 on
        this is `CompositionBound` with the privacy loss distributions of `bound`
    accuracy : float inside (0, 1), relative, in delta; the target of the chords, which may miss it (by a looser bound)
        at 20 000 panels

    Raises
    ------
    What `bound` raises, such as BoundNotApplicable (a ValueError); TypeError for another mechanism; ValueError for a
    lower bound, uses or accuracy out of range.

    Examples
    --------
    >>> from explorer.accounting import AMPBound, ApproximateMinimaPerturbation, RefinedBound
    >>> mechanism = ApproximateMinimaPerturbation(
    ...     noise_std=5, l2_reg=20, lipschitz=1, smoothness=1, gradient_tol=1e-4, output_noise_std=1e-3
    ... )
    >>> round(float(AMPBound(mechanism, bound=RefinedBound).epsilon(1e-5)), 4)
    0.7753

    References: Redberg, Koskela & Wang 2023, Algorithm 1; Zhu, Dong & Wang 2022, Theorem 10.
    """

    def __init__(
        self,
        mechanism: ApproximateMinimaPerturbation,
        *,
        bound: Callable[[ObjectivePerturbation], PrivacyBound] = HockeyStickBound,
        uses: int = 1,
        accuracy: float = 1e-6,
    ) -> None:
        self.mechanism = instance("mechanism", mechanism, ApproximateMinimaPerturbation)
        self.uses = natural("uses", uses)
        self.accuracy = real("accuracy", accuracy, rule="inside (0, 1)", valid=lambda x: (x > 0) & (x < 1))
        self.objective_bound = _upper_bound("bound", bound)(mechanism.objective)
        self._output_ratio = mechanism.output_step.sensitivity_ratio
        kind = type(self.objective_bound)
        self._single = _COMPOSED.get(kind, _any_bound)
        plds = _PLDS[kind] if bound is kind and kind in _PLDS else partial(profile_plds, bound=bound)
        self._several = None if self.uses == 1 else CompositionBound(mechanism, uses=self.uses, plds=plds)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Log of delta(epsilon), from above, of epsilon's shape; epsilon array_like in nats, any real number."""
        if self._several is not None:
            return self._several.log_delta(epsilon)
        epsilon = epsilon_array(epsilon)
        value = np.where(epsilon > 0, -np.inf, 0.0)
        finite = np.isfinite(epsilon)
        if finite.any():
            composed = self._single(self.objective_bound, epsilon[finite], self._output_ratio, self.accuracy)
            value[finite] = np.minimum(composed, 0)
        return value[()]

    def epsilon(self, delta: ArrayLike) -> FloatArray:
        """Smallest epsilon >= 0 (nats) at which the bound guarantees delta, of delta's shape."""
        return super().epsilon(delta) if self._several is None else self._several.epsilon(delta)


def _upper_bound(name: str, bound: Callable) -> Callable:
    """`bound`; ValueError if it is the lower bound."""
    if bound is GaussianLowerBound:
        raise ValueError(f"{name} must be an upper bound: got {name}=GaussianLowerBound, which is no guarantee")
    return bound


_ON_OBJECTIVE: dict[str, Callable[[ObjectivePerturbation], PrivacyBound]] = {
    "hockey_stick": HockeyStickBound,
    "refined": RefinedBound,
    "exact": ExactBound,
    "kifer": KiferBound,
}


def amp_accountant(
    accountant: str | Callable[..., PrivacyBound], *, name: str = "accountant"
) -> Callable[..., PrivacyBound]:
    """The callable, ApproximateMinimaPerturbation to PrivacyBound, for a name or a class of bounds.

    Parameters
    ----------
    accountant : "renyi" (the paper's choice), "hockey_stick", "refined", "exact" or "kifer"; or the class of one of
        these bounds, which for all but RenyiBound is wrapped in `AMPBound`; or any other callable, which is returned
        unchanged. For a bound of your own on ObjectivePerturbation: functools.partial(AMPBound, bound=...)
    name : str, the parameter's name in error messages

    Raises
    ------
    ValueError for another name, and for a lower bound; TypeError for a value that is neither a string nor callable.

    Examples
    --------
    >>> from explorer.accounting import amp_accountant
    >>> amp_accountant("renyi").__name__
    'RenyiBound'
    """
    if isinstance(accountant, str):
        names = {"renyi": RenyiBound, **_ON_OBJECTIVE}
        if accountant not in names:
            raise ValueError(f"{name} must be a bound or one of {sorted(names)}: got {name}={accountant!r}")
        accountant = names[accountant]
    if not callable(accountant):
        raise TypeError(f"{name} must be a name or callable: got {name}={accountant!r}")
    for bound in _ON_OBJECTIVE.values():
        if accountant is bound:
            accuracy = {"accuracy": 1e-3} if bound is ExactBound else {}  # that of the first panels; less takes longer
            return partial(AMPBound, bound=bound, **accuracy)
    return _upper_bound(name, accountant)
