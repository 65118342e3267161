"""The one-dimensional problem as one of optimal control, solved on a grid from above and from below.

In units sigma = 1 a map T = id + h leaks the f-divergence int phi(u) G(loss) du, where G is `hockey_stick` or `moment`,

- "add": shift h, growing with u at a speed v = h' in [0, kappa], loss = u h + h^2/2 - log(1 + v);
- "remove": shift r = T^-1 - id, falling at a speed v = -r' in [0, kappa/(1+kappa)], loss = u r + r^2/2 - log(1 - v).

Let x be h or -r, which does not fall along a plan, and z = u - x/speed, which does not fall either. With sign = 1 or -1
and c = 1/kappa + 1/2 the loss at rest is sign x (z + c x), and at full speed it is less by log(1 + sign speed). The
integrand phi G is convex in v, so at most its chord over [0, speed]: a plan leaks at most the line integral, along its
curve (z, x), of P dz + Q dx,

    P = phi(u) G(loss at rest),    Q = phi(u) G(loss at full speed) / speed,

and exactly that if it only rests and moves at full speed, along lines of constant x and of constant z.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr


def hockey_stick(epsilon):
    """G of the privacy profile."""
    return lambda loss: -np.expm1(np.minimum(epsilon - loss, 0))


def moment(alpha):
    """G of e^((alpha-1) D) - 1, nowhere negative; its mean is that of e^((alpha-1) loss) - 1, since e^-loss has 1."""
    a = alpha - 1
    return lambda loss: np.expm1(a * loss) + a * np.expm1(-loss)


def hockey_stick_beyond(reach):
    """No plan leaks more than this at |u| > reach, since G <= 1."""
    return 2 * ndtr(-reach)


def moment_beyond(reach, *, alpha, s, kappa):
    """No plan leaks more than this at |u| > reach: there |loss| <= s |u| + s^2/2 + log(1+kappa), G is at most
    e^((alpha-1) loss) + (alpha-1) e^-loss, and int_reach^inf phi(u) e^(k u) du = e^(k^2/2) Phi(k - reach)."""

    def tail(k):
        return 2 * np.exp(k * np.log1p(kappa) + (k + k * k) * s * s / 2) * ndtr(k * s - reach)

    return tail(alpha - 1) + (alpha - 1) * tail(1)


@dataclass
class Plans:
    """All plans of a direction, on a grid of cells, in z no longer than `step`; they shrink with it in x too."""

    s: float
    kappa: float
    direction: str
    monotone: bool
    step: float
    reach: float  # the grid has all u of at most this size

    def __post_init__(self):
        self.sign, self.speed = (1, self.kappa) if self.direction == "add" else (-1, self.kappa / (1 + self.kappa))
        low, high = -self.s, self.s
        if self.monotone:  # shifts >= 0, which is no restriction: the mirror image of a map leaks as much
            low, high = (0, high) if self.direction == "add" else (low, 0)
        # An even number of levels, so that no cell has 0 inside: at full speed a level takes 3 steps at most.
        self.levels = 2 * int(np.ceil(max(0.3, self.s / self.speed / 3) / self.step))
        self.x = np.linspace(low, high, self.levels + 1)
        first, last = -self.reach - high / self.speed, self.reach - low / self.speed
        self.z = np.linspace(first, last, 1 + int(np.ceil((last - first) / self.step)))

    def from_above(self, gain):
        """At least what any plan leaks at |u| <= reach; first order in the size of the cells.

        P and Q are replaced by their largest values in each cell. For a curve that passes given cells the integral is
        then linear in the places where it crosses from one cell to the next, so it is largest when these are corners of
        cells: when the curve runs along sides of cells, of which each counts with the larger of its two cells.
        """
        rests, ramps = zip(*(self._largest(gain, j) for j in range(self.levels)), strict=True)
        nothing, dz, dx = np.zeros(self.z.size - 1), np.diff(self.z), np.diff(self.x)
        rests = [np.maximum(*sides) * dz for sides in zip([nothing, *rests], [*rests, nothing], strict=True)]
        ramps = [np.maximum(np.append(0, q), np.append(q, 0)) * d for q, d in zip(ramps, dx, strict=True)]
        return self._best(rests, ramps, np.zeros(self.levels + 1), np.zeros(self.levels + 1))

    def from_below(self, gain):
        """At most what the best plan leaks that rests and moves along the lines of the grid; second order.

        By Jensen's inequality a step leaks at least p G(log p/q), p and q its masses under both laws.
        """

        def leak(u0, u1, h0, h1):
            p, q = _mass(u0, u1), _mass(u0 + h0, u1 + h1)
            safe = (p > 0) & (q > 0)
            return np.where(safe, p * gain(np.log(np.where(safe, p, 1) / np.where(safe, q, 1))), 0)

        z, h = self.z, self.sign * self.x
        u = [z + x / self.speed for x in self.x]
        rests = [leak(v[:-1], v[1:], shift, shift) for v, shift in zip(u, h, strict=True)]
        ramps = [leak(u[j], u[j + 1], h[j], h[j + 1]) for j in range(self.levels)]
        ends = self.x / self.speed
        return self._best(rests, ramps, leak(-np.inf, z[0] + ends, h, h), leak(z[-1] + ends, np.inf, h, h))

    def _largest(self, gain, j):
        """Upper bounds of P and Q in the cells between x_j and x_j+1."""
        x0, x1 = self.x[j : j + 2]
        low, high = self.z[:-1], self.z[1:]
        if x0 < 0:  # by symmetry: x (z + c x) is the same at (-x, -z)
            x0, x1, low, high = -x1, -x0, -high, -low
        c = 1 / self.kappa + 0.5
        lowest = np.clip(-low / (2 * c), x0, x1)
        losses = lowest * (low + c * lowest), np.maximum(x0 * (high + c * x0), x1 * (high + c * x1))
        u0, u1 = low + x0 / self.speed, high + x1 / self.speed
        nearest = np.maximum(np.maximum(u0, -u1), 0)
        density = np.exp(-nearest * nearest / 2) / np.sqrt(2 * np.pi)
        # G is convex or monotone, so it is largest at one end of the cell's losses.
        at_rest = [self.sign * loss for loss in losses]
        at_speed = [loss - np.log1p(self.sign * self.speed) for loss in at_rest]
        p, q = (density * np.maximum(*(gain(loss) for loss in ends)) for ends in (at_rest, at_speed))
        return p, q / self.speed

    def _best(self, rests, ramps, before, after):
        """The largest sum of sides over all curves: rests[j] along x_j, ramps[j] from x_j to x_j+1, and both ends."""
        best, above = -np.inf, None
        for j in reversed(range(self.levels + 1)):
            arrived = np.full(self.z.size, -np.inf) if above is None else above + ramps[j]
            arrived[-1] = max(arrived[-1], after[j])
            along = np.append(0, np.cumsum(rests[j]))
            above = np.maximum.accumulate((arrived + along)[::-1])[::-1] - along
            best = max(best, before[j] + above[0])
        return best


def _mass(low, high):
    """Phi(high) - Phi(low), from the nearer tail."""
    left = low + high < 0
    return np.where(left, ndtr(high) - ndtr(low), ndtr(-low) - ndtr(-high))
