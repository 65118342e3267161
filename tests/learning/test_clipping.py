"""The clipped loss of every loss: its derivative is the clipped derivative, and its value the integral of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.learning import ClippedLoss, Huber, Logistic, PseudoHuber, SmoothedHinge
from explorer.learning.losses import losses

ALL = (*losses, SmoothedHinge(width=0.1), Huber(threshold=0.3), PseudoHuber(threshold=2.5))
every_loss = pytest.mark.parametrize("loss", ALL, ids=repr)
any_loss = st.sampled_from(ALL)
clip_norms = st.floats(-7, 3).map(np.exp)
norms = st.one_of(st.just(0.0), st.floats(0.01, 100))


def targets_strategy(loss):
    return st.sampled_from([-1.0, 1.0]) if loss.labels == "signs" else st.floats(-10, 10)


def kinks(loss, slope, y):
    """u_L and u_H where they are finite; for every loss here sup { f' < c } is u_H or f has slope c from there on."""
    ends = np.array([loss.inverse_derivative(-slope, y), loss.inverse_derivative(slope, y)])
    return ends[np.isfinite(ends)]


@given(data=st.data(), loss=any_loss, clip_norm=clip_norms, n=st.integers(1, 4))
def test_gradient_is_the_clipped_gradient(data, loss, clip_norm, n):
    y = np.array([data.draw(targets_strategy(loss)) for _ in range(n)])
    u = np.array([data.draw(st.floats(-1e4, 1e4)) for _ in range(n)])
    norm = np.array([data.draw(norms) for _ in range(n)])
    x = norm[:, None] * [0.6, -0.8]
    gradient = loss.derivative(u, y)[:, None] * x
    length = np.linalg.norm(gradient, axis=1, keepdims=True)
    clipped = ClippedLoss(loss, clip_norm=clip_norm, row_norms=norm)
    expected = gradient * np.minimum(1, clip_norm / np.maximum(length, 1e-300))
    np.testing.assert_allclose(clipped.derivative(u, y)[:, None] * x, expected, rtol=1e-13)
    np.testing.assert_array_equal(clipped.derivative(u, y), clipped.value_and_derivative(u, y)[1])
    np.testing.assert_array_equal(clipped.value(u, y), clipped.value_and_derivative(u, y)[0])
    assert (np.abs(clipped.derivative(u, y)) <= clipped.lipschitz).all()
    far = norm > 0
    assert (clipped.lipschitz[far] * norm[far] <= clip_norm * (1 + 1e-15)).all()


@given(data=st.data(), loss=any_loss, clip_norm=clip_norms, norm=norms)
def test_value_is_the_integral_of_the_derivative(data, loss, clip_norm, norm):
    """Between any two margins, the kinks among them: so it is continuous there, and has the right pieces."""
    y = data.draw(targets_strategy(loss))
    clipped = ClippedLoss(loss, clip_norm=clip_norm, row_norms=np.array([norm]))
    special = [kink for kink in kinks(loss, clipped.slope[0], y) if abs(kink) < 1e100]  # a row of zeros has none
    near = st.one_of(st.floats(-30, 30), *(st.just(kink) for kink in special))
    start, step = data.draw(near), data.draw(st.floats(-3, 3))
    flat = [y - loss.threshold, y + loss.threshold] if isinstance(loss, Huber) else []
    flat = [y * (1 - loss.width), y * (1 + loss.width)] if isinstance(loss, SmoothedHinge) else flat
    ends = np.sort([start, start + step])
    pieces = np.unique(np.clip([*ends, *special, *flat], *ends))
    nodes, weights = np.polynomial.legendre.leggauss(30)
    middle, half = (pieces[1:] + pieces[:-1]) / 2, np.diff(pieces) / 2
    integral = half @ (clipped.derivative(middle[:, None] + half[:, None] * nodes, y) @ weights)
    low, high = clipped.value(ends, y)
    assert high - low == pytest.approx(integral, rel=1e-10, abs=1e-12 * (1 + abs(low) + abs(high)))


@given(data=st.data(), loss=any_loss, clip_norm=clip_norms, norm=norms)
def test_convex_and_as_smooth_as_the_loss(data, loss, clip_norm, norm):
    y = data.draw(targets_strategy(loss))
    clipped = ClippedLoss(loss, clip_norm=clip_norm, row_norms=np.array([norm]))
    kink = data.draw(st.sampled_from([0.0, *kinks(loss, clipped.slope[0], y)]))
    u = kink + np.array([data.draw(st.floats(-30, 30)), data.draw(st.floats(-1e-3, 1e-3)), 0.0])
    value, slope, bend = clipped.value(u, y), clipped.derivative(u, y), clipped.second_derivative(u, y)
    rise = np.diff(np.sort(u)), np.diff(slope[np.argsort(u)])
    tolerance = 1e-13 * (1 + np.abs(slope).max() + loss.smoothness * np.abs(u).max())
    assert (rise[1] >= -tolerance).all()
    assert (rise[1] <= loss.smoothness * rise[0] + tolerance).all()
    middle = clipped.value((u[:1] + u) / 2, y)
    assert (middle <= (value[0] + value) / 2 + 1e-12 * (1 + value.max())).all()
    assert ((bend >= 0) & (bend <= loss.smoothness * (1 + 1e-15))).all()
    assert clipped.smoothness == loss.smoothness


@every_loss
def test_a_generous_clip_changes_nothing(loss):
    u, y = np.linspace(-30, 30, 201), 1.0
    reach = min(loss.lipschitz, np.abs(loss.derivative(u, y)).max())
    for clip_norm, norm in ((reach, 1.0), (reach * 3, 2.0), (1e-3, 0.0)):
        clipped = ClippedLoss(loss, clip_norm=clip_norm, row_norms=np.full(201, norm))
        for method in ("value", "derivative", "second_derivative"):
            np.testing.assert_array_equal(getattr(clipped, method)(u, y), getattr(loss, method)(u, y))


@every_loss
@pytest.mark.parametrize("clip_norm", [1e-200, 1e-3, 0.2, 0.9999])
def test_no_warning_at_any_margin(loss, clip_norm):
    u = np.array([-1e4, -700, -40, -3, 0, 1e-9, 0.7, 40, 1e4])[:, None]
    norm = np.array([0.0, 1e-3, 1.0, 1e4])
    with np.errstate(all="raise", under="ignore"):
        clipped = ClippedLoss(loss, clip_norm=clip_norm, row_norms=norm)
        for y in (-1.0, 1.0):
            results = clipped.value(u, y), clipped.derivative(u, y), clipped.second_derivative(u, y)
            assert np.isfinite(results).all()


@every_loss
def test_rows_are_independent(loss):
    """A block of rows gives the block of the values: also in two dimensions and Fortran order."""
    rng = np.random.default_rng(0)
    u, norm = 4 * rng.normal(size=(6, 8)), rng.uniform(0.5, 2, size=8)
    y = rng.choice([-1.0, 1.0], size=8)
    whole = ClippedLoss(loss, clip_norm=0.3, row_norms=norm)
    for method in ("value", "derivative", "second_derivative"):
        table = getattr(whole, method)(u, y)
        assert table.shape == u.shape
        np.testing.assert_array_equal(getattr(whole, method)(np.asfortranarray(u), y), table)
        for rows in (slice(0, 3), slice(3, 8)):
            block = ClippedLoss(loss, clip_norm=0.3, row_norms=norm[rows])
            np.testing.assert_array_equal(getattr(block, method)(u[:, rows], y[rows]), table[:, rows])


class _Steep(Logistic):
    """log(1 + e^u) + 2 u: its slope lies in (2, 3)."""

    def value(self, u, y):
        return np.logaddexp(0, u) + 2 * u

    def derivative(self, u, y):
        return Logistic().derivative(u, -1.0) + 2 + 0 * y

    def value_and_derivative(self, u, y):
        return self.value(u, y), self.derivative(u, y)

    def inverse_derivative(self, slope, y):
        return Logistic().inverse_derivative(slope - 2, -1.0) + 0 * y


def test_linear_where_the_slope_lies_beyond_the_clip_everywhere():
    u = np.linspace(-5, 5, 11)
    clipped = ClippedLoss(_Steep(), clip_norm=0.5, row_norms=np.ones(11))
    np.testing.assert_allclose(np.diff(clipped.value(u, 1.0)), 0.5)
    np.testing.assert_array_equal(clipped.derivative(u, 1.0), 0.5)
    np.testing.assert_array_equal(clipped.second_derivative(u, 1.0), 0.0)


@every_loss
def test_constants_are_readable(loss):
    clipped = ClippedLoss(loss, clip_norm=0.5, row_norms=np.array([0.0, 0.5, 10.0]))
    np.testing.assert_array_equal(clipped.lipschitz, np.minimum(loss.lipschitz, [np.finfo(float).max, 1.0, 0.05]))
    assert (clipped.smoothness, clipped.monotone, clipped.labels) == (loss.smoothness, loss.monotone, loss.labels)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, np.inf, np.nan, None])
def test_clip_norm_is_validated(clip_norm):
    with pytest.raises(ValueError, match="clip_norm must be a finite number > 0: got clip_norm="):
        ClippedLoss(Logistic(), clip_norm=clip_norm, row_norms=np.ones(1))
