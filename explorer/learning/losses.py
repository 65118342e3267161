"""Convex losses of generalised linear models, f(u; y) at the margin u = x.theta, and their constants.

Every loss has, for unit row norm, `lipschitz` (bound on |f'|, infinity where there is none) and `smoothness` (bound on
f''). For a row of norm B, the constants of the loss in theta are B lipschitz and B^2 smoothness. `monotone` tells
whether f' never changes sign, and `labels` the kind of y: "signs", y in {-1, +1} and f a function of y u, or "real",
any y and f a function of u - y. All methods are elementwise over arrays that broadcast.

A loss also states how accurate its derivative is in doubles: the computed f' is within relative_error |computed f'| +
absolute_error of f' at the same doubles u and y. For the smoothed hinge, Huber's, the squared and the pseudo-Huber loss
that follows from IEEE arithmetic; for the others it assumes that exp, tanh and erfcx are accurate to some hundred units
in the last place. The largest error found is 60 times smaller.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import erfcx

from explorer.learning.types import Array
from explorer.validation import positive

Labels: TypeAlias = Literal["signs", "real"]

SLOPE_ERROR = 2.0**-44
"""Bound on the relative and on the absolute error of the slopes of all losses here."""

_LOG_MAX = 709.0  # e^709 is finite
_SQUARABLE = 1e150  # its square is finite
_SQRT_HALF = np.sqrt(0.5)
_NORMAL_PEAK = 1 / np.sqrt(2 * np.pi)


class Loss:
    """Base class of losses: the constants described above, and f and its derivatives as methods.

    A user-defined loss defines `lipschitz`, `smoothness`, `monotone`, `labels`, `relative_error`, `absolute_error`, and
    `value`, `derivative`, `second_derivative` (f, f', f'', each of (u, y)) and `inverse_derivative` of (slope, y):
    sup { u : f'(u; y) < slope }, which is -inf or +inf where the slope is outside the range of f'.
    """

    lipschitz: float
    smoothness: float
    monotone: bool
    labels: Labels
    relative_error: float
    absolute_error: float

    def value(self, u: Any, y: Any) -> Array:
        """f(u; y)."""
        raise NotImplementedError

    def derivative(self, u: Any, y: Any) -> Array:
        """f'(u; y)."""
        raise NotImplementedError

    def second_derivative(self, u: Any, y: Any) -> Array:
        """f''(u; y)."""
        raise NotImplementedError

    def inverse_derivative(self, slope: Any, y: Any) -> Array:
        """sup { u : f'(u; y) < slope }; -inf or +inf where the slope is outside the range of f'."""
        raise NotImplementedError

    def value_and_derivative(self, u: Any, y: Any) -> tuple[Array, Array]:
        """f(u; y) and f'(u; y); overridden where the two share work."""
        return self.value(u, y), self.derivative(u, y)


@dataclass(frozen=True)
class Logistic(Loss):
    """f(u; y) = log(1 + e^(-y u)) for labels y in {-1, +1}; |f'| < 1, f'' <= 1/4, monotone."""

    lipschitz = 1.0
    smoothness = 0.25
    monotone = True
    labels = "signs"
    relative_error = absolute_error = SLOPE_ERROR

    def value(self, u: Any, y: Any) -> Array:
        """f(u; y), stable at any margin."""
        log_odds = -y * u
        return _softplus(log_odds, _odds(log_odds))

    def derivative(self, u: Any, y: Any) -> Array:
        """f'(u; y) = -y / (1 + e^(y u))."""
        share = _odds(-y * u)
        share /= 1 + share
        share *= -y
        return share[()]

    def value_and_derivative(self, u: Any, y: Any) -> tuple[Array, Array]:
        """f(u; y) and f'(u; y) from one exponential."""
        away = -y
        log_odds = away * u
        odds = _odds(log_odds)
        value = _softplus(log_odds, odds)
        odds /= 1 + odds
        odds *= away
        return value, odds[()]

    def second_derivative(self, u: Any, y: Any) -> Array:
        """f''(u; y), between 0 and 1/4."""
        return _logistic_density(y * u)

    def inverse_derivative(self, slope: Any, y: Any) -> Array:
        """sup { u : f'(u; y) < slope }; -inf or +inf where the slope is outside the range of f'."""
        share = np.clip(-y * slope, 0, 1)
        with np.errstate(divide="ignore"):
            return -y * (np.log(share) - np.log1p(-share))


@dataclass(frozen=True)
class Probit(Loss):
    """f(u; y) = -log Phi(y u) for labels y in {-1, +1}; f' has no bound, f'' < 1, monotone.

    With the hazard h(z) = phi(z) / Phi(-z) of the normal law at z = -y u: f' = -y h and f'' = h (h - z).
    """

    lipschitz = np.inf
    smoothness = 1.0
    monotone = True
    labels = "signs"
    relative_error = absolute_error = SLOPE_ERROR

    def value(self, u: Any, y: Any) -> Array:
        """f(u; y), stable at any margin."""
        return _minus_log_cdf(*_normal_tail(-y * u))

    def derivative(self, u: Any, y: Any) -> Array:
        """f'(u; y) = -y h(-y u)."""
        return -y * _hazard(*_normal_tail(-y * u))

    def value_and_derivative(self, u: Any, y: Any) -> tuple[Array, Array]:
        """f(u; y) and f'(u; y) from one scaled complementary error function."""
        tail = _normal_tail(-y * u)
        return _minus_log_cdf(*tail), -y * _hazard(*tail)

    def second_derivative(self, u: Any, y: Any) -> Array:
        """f''(u; y), between 0 and 1."""
        hazard, excess = _hazard_and_excess(-y * u)
        return hazard * excess

    def inverse_derivative(self, slope: Any, y: Any) -> Array:
        """sup { u : f'(u; y) < slope }; -inf or +inf where the slope is outside the range of f'."""
        size = np.asarray(-y * slope)
        return -y * np.where(size > 0, _inverse_hazard(size), -np.inf)


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """The hinge max(0, 1 - y u) with its corner replaced by (1 + h - y u)^2 / (4 h) on |1 - y u| <= h = width.

    Labels y in {-1, +1}; |f'| <= 1, f'' <= 1 / (2 h), monotone. Raises ValueError unless width is a finite number > 0.

    References: Chaudhuri, Monteleoni & Sarwate 2011, the Huber support vector machine.
    """

    width: float = 0.5
    smoothness: float = field(init=False, repr=False, compare=False)

    lipschitz = 1.0
    monotone = True
    labels = "signs"
    relative_error = absolute_error = SLOPE_ERROR

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", positive("width", self.width))
        object.__setattr__(self, "smoothness", 1 / (2 * self.width))

    def value(self, u: Any, y: Any) -> Array:
        """f(u; y)."""
        return self._value(*self._gap_and_size(u, y))

    def derivative(self, u: Any, y: Any) -> Array:
        """f'(u; y), between -y and 0."""
        return -y * self._gap_and_size(u, y)[1]

    def value_and_derivative(self, u: Any, y: Any) -> tuple[Array, Array]:
        """f(u; y) and f'(u; y)."""
        gap, size = self._gap_and_size(u, y)
        return self._value(gap, size), -y * size

    def second_derivative(self, u: Any, y: Any) -> Array:
        """f''(u; y), 1 / (2 h) on the quadratic piece and 0 on the flat ones."""
        return np.where(np.abs(1 - y * u) <= self.width, self.smoothness, 0.0)

    def inverse_derivative(self, slope: Any, y: Any) -> Array:
        """sup { u : f'(u; y) < slope }; -inf or +inf where the slope is outside the range of f'."""
        lowest = -(1 + y) / 2  # f' runs through [lowest, lowest + 1]
        return _inside(slope, lowest, lowest + 1, y * (1 + self.width) + 2 * self.width * slope)

    def _gap_and_size(self, u: Any, y: Any) -> tuple[Array, Array]:
        """1 + h - y u and |f'|."""
        gap = (1 - y * u) + self.width  # in this order: exact where f is nearly 0
        return gap, np.clip(gap / (2 * self.width), 0, 1)

    def _value(self, gap: Array, size: Array) -> Array:
        return size * (gap - self.width * size)


@dataclass(frozen=True)
class Huber(Loss):
    """f(u; y) = r^2 / 2 for |r| <= t, t |r| - t^2 / 2 beyond, at the residual r = u - y and with t = threshold.

    Real y; |f'| <= t, f'' <= 1. Raises ValueError unless threshold is a finite number > 0.

    References: Huber 1964.
    """

    threshold: float = 1.0
    lipschitz: float = field(init=False, repr=False, compare=False)

    smoothness = 1.0
    monotone = False
    labels = "real"
    relative_error = absolute_error = SLOPE_ERROR

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))
        object.__setattr__(self, "lipschitz", self.threshold)

    def value(self, u: Any, y: Any) -> Array:
        """f(u; y)."""
        return self.value_and_derivative(u, y)[0]

    def derivative(self, u: Any, y: Any) -> Array:
        """f'(u; y): the residual clipped to [-t, t]."""
        return np.clip(u - y, -self.threshold, self.threshold)

    def value_and_derivative(self, u: Any, y: Any) -> tuple[Array, Array]:
        """f(u; y) and f'(u; y)."""
        residual = u - y
        clipped = np.clip(residual, -self.threshold, self.threshold)
        return clipped * (residual - clipped / 2), clipped

    def second_derivative(self, u: Any, y: Any) -> Array:
        """f''(u; y), 1 on the quadratic piece and 0 on the linear ones."""
        return np.where(np.abs(u - y) <= self.threshold, 1.0, 0.0)

    def inverse_derivative(self, slope: Any, y: Any) -> Array:
        """sup { u : f'(u; y) < slope }; -inf or +inf where the slope is outside the range of f'."""
        return _inside(slope, -self.threshold, self.threshold, y + slope)


@dataclass(frozen=True)
class Squared(Loss):
    """f(u; y) = (u - y)^2 / 2 for real y; f' has no bound, f'' = 1."""

    lipschitz = np.inf
    smoothness = 1.0
    monotone = False
    labels = "real"
    relative_error = absolute_error = SLOPE_ERROR

    def value(self, u: Any, y: Any) -> Array:
        """f(u; y)."""
        return self.value_and_derivative(u, y)[0]

    def derivative(self, u: Any, y: Any) -> Array:
        """f'(u; y): the residual u - y."""
        return u - y

    def value_and_derivative(self, u: Any, y: Any) -> tuple[Array, Array]:
        """f(u; y) and f'(u; y)."""
        residual = u - y
        return residual * residual / 2, residual

    def second_derivative(self, u: Any, y: Any) -> Array:
        """f''(u; y) = 1."""
        return np.ones(np.broadcast_shapes(np.shape(u), np.shape(y)))

    def inverse_derivative(self, slope: Any, y: Any) -> Array:
        """The u with f'(u; y) = slope."""
        return y + slope


@dataclass(frozen=True)
class PseudoHuber(Loss):
    """f(u; y) = t^2 (sqrt(1 + (r / t)^2) - 1) at the residual r = u - y, with t = threshold.

    Real y; |f'| < t, f'' <= 1. Raises ValueError unless threshold is a finite number > 0.
    """

    threshold: float = 1.0
    lipschitz: float = field(init=False, repr=False, compare=False)

    smoothness = 1.0
    monotone = False
    labels = "real"
    relative_error = absolute_error = SLOPE_ERROR

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))
        object.__setattr__(self, "lipschitz", self.threshold)

    def value(self, u: Any, y: Any) -> Array:
        """f(u; y) = r^2 / (1 + q) with q = sqrt(1 + (r / t)^2): no cancellation at small residuals."""
        return self.value_and_derivative(u, y)[0]

    def derivative(self, u: Any, y: Any) -> Array:
        """f'(u; y) = r / q, which is t (r / t) / q."""
        scaled = self._scaled(u, y)
        return self.threshold * (scaled / _stretch(scaled))

    def value_and_derivative(self, u: Any, y: Any) -> tuple[Array, Array]:
        """f(u; y) and f'(u; y) from one square root."""
        residual, scaled = u - y, self._scaled(u, y)
        stretch = _stretch(scaled)
        return residual * (self.threshold * (scaled / (1 + stretch))), self.threshold * (scaled / stretch)

    def second_derivative(self, u: Any, y: Any) -> Array:
        """f''(u; y) = 1 / q^3."""
        stretch = _stretch(self._scaled(u, y))
        return 1 / stretch / (stretch * stretch)

    def inverse_derivative(self, slope: Any, y: Any) -> Array:
        """sup { u : f'(u; y) < slope }; -inf or +inf where the slope is outside the range of f'."""
        share = np.clip(slope / self.threshold, -1, 1)
        with np.errstate(divide="ignore"):
            return y + self.threshold * share / np.sqrt((1 - share) * (1 + share))

    def _scaled(self, u: Any, y: Any) -> Array:
        """r / t, limited so that its square does not overflow; q equals |r / t| in doubles well below the limit."""
        return np.clip((u - y) / self.threshold, -_SQUARABLE, _SQUARABLE)


@dataclass(frozen=True)
class LogCosh(Loss):
    """f(u; y) = log cosh(u - y) for real y; |f'| < 1, f'' <= 1."""

    lipschitz = 1.0
    smoothness = 1.0
    monotone = False
    labels = "real"
    relative_error = absolute_error = SLOPE_ERROR

    def value(self, u: Any, y: Any) -> Array:
        """f(u; y), with full relative accuracy at all residuals; it is about r^2 / 2 at small ones."""
        size = np.abs(u - y)
        half_sinh = np.sinh(np.minimum(size, 1) / 2)  # cosh r = 1 + 2 sinh(r/2)^2
        return np.where(size < 1, np.log1p(2 * half_sinh * half_sinh), size + (np.log1p(np.exp(-2 * size)) - np.log(2)))

    def derivative(self, u: Any, y: Any) -> Array:
        """f'(u; y) = tanh(u - y)."""
        return np.tanh(u - y)

    def second_derivative(self, u: Any, y: Any) -> Array:
        """f''(u; y) = 1 / cosh(u - y)^2."""
        return 4 * _logistic_density(2 * (u - y))

    def inverse_derivative(self, slope: Any, y: Any) -> Array:
        """sup { u : f'(u; y) < slope }; -inf or +inf where the slope is outside the range of f'."""
        with np.errstate(divide="ignore"):
            return y + np.arctanh(np.clip(slope, -1, 1))


LOSSES: dict[str, type[Loss]] = {
    "logistic": Logistic,
    "probit": Probit,
    "smoothed_hinge": SmoothedHinge,
    "huber": Huber,
    "squared": Squared,
    "pseudo_huber": PseudoHuber,
    "log_cosh": LogCosh,
}
losses = tuple(loss() for loss in LOSSES.values())


def resolve_loss(loss: str | Loss, *, labels: Labels | None = None) -> Loss:
    """The loss called `loss` (a key of `LOSSES`, with default parameters), or `loss` itself if it is a Loss.

    Raises ValueError for anything else, and for losses of other labels than `labels`: "signs", "real", or None for any.
    """
    names = [name for name, known in LOSSES.items() if labels in (None, known.labels)]
    if isinstance(loss, Loss) and labels in (None, loss.labels):
        return loss
    if isinstance(loss, str) and loss in names:
        return LOSSES[loss]()
    kind = "Loss" if labels is None else f"Loss with labels={labels!r}"
    raise ValueError(f"loss must be one of {', '.join(map(repr, names))} or a {kind}: got loss={loss!r}")


def _odds(log_odds: Any) -> Array:
    """e^log_odds, limited to finite values, as a new array, also for a number."""
    capped = np.asarray(np.minimum(log_odds, _LOG_MAX))
    return np.exp(capped, out=capped)


def _stretch(scaled: Array) -> Array:
    """sqrt(1 + scaled^2)."""
    return np.sqrt(1 + scaled * scaled)  # np.hypot is eight times slower


def _softplus(log_odds: Any, odds: Array) -> Array:
    """log(1 + e^log_odds); equal to log_odds in doubles where `odds` was limited."""
    return np.maximum(np.log1p(odds), log_odds)


def _logistic_density(x: Any) -> Array:
    """e^x / (1 + e^x)^2, even in x."""
    power = np.exp(-np.abs(x))
    total = 1 + power
    return power / (total * total)


def _normal_tail(z: Any) -> tuple[Array, Array, Array, Array]:
    """z, z^2/2, the unnormalised density e^(-z^2/2), and R >= 0 with Phi(-|z|) = density R / 2."""
    square = z * z / 2
    return z, square, np.exp(-square), erfcx(np.abs(z) * _SQRT_HALF)


def _minus_log_cdf(z: Array, square: Array, density: Array, ratio: Array) -> Array:
    """-log Phi(-z), in the form that neither cancels nor overflows for the sign of z."""
    return np.where(z > 0, square - np.log(ratio / 2), -np.log1p(-density * ratio / 2))


def _hazard(z: Array, square: Array, density: Array, ratio: Array) -> Array:
    """h(z) = phi(z) / Phi(-z)."""
    return np.where(z > 0, 2 / ratio, density / (1 - density * ratio / 2)) * _NORMAL_PEAK


def _hazard_and_excess(z: Any) -> tuple[Array, Array]:
    """h(z) and h(z) - z > 0, the latter by Laplace's continued fraction 1/(z + 2/(z + 3/(z + ...))) for large z."""
    hazard = _hazard(*_normal_tail(z))
    far = np.maximum(z, 8)
    fraction = (far + np.sqrt(far * far + 4 * 13)) / 2  # approximates the levels from 13 on
    for level in range(12, 1, -1):
        fraction = far + level / fraction
    return hazard, np.where(z > 8, 1 / fraction, hazard - z)


def _inverse_hazard(size: Array) -> Array:
    """The z with h(z) = size > 0, by Halley's method on log h, whose derivatives are h - z and h (h - z) - 1."""
    target = np.clip(size, np.finfo(float).tiny, 1e8)
    tail = -np.sqrt(np.maximum(-2 * np.log(target / _NORMAL_PEAK), 0))  # far to the left h is the density
    z = np.where(target < 0.25, tail, np.where(target < 1.5, (target - 0.798) / 0.637, target - 1 / target))
    for _ in range(3):
        hazard, excess = _hazard_and_excess(z)
        newton = np.log(hazard / target) / excess
        z = z - newton / (1 - newton * (hazard * excess - 1) / (2 * excess))
    return np.where(size < 1e8, z, size)  # beyond, h(z) - z = 1/z is below the last digit of z


def _inside(slope: Any, lowest: Any, highest: Any, u: Any) -> Array:
    """`u` where the slope is in (lowest, highest], the range of f'; -inf below and +inf above."""
    return np.where(slope <= lowest, -np.inf, np.where(slope > highest, np.inf, u))
