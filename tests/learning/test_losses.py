"""Each loss and its derivatives: against 60-digit values, their definitions, and the declared constants."""

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from explorer.learning import (
    LOSSES,
    Huber,
    LogCosh,
    Logistic,
    Loss,
    Probit,
    PseudoHuber,
    SmoothedHinge,
    Squared,
    resolve_loss,
)
from explorer.learning.losses import losses

EPS, TINY = np.finfo(float).eps, np.finfo(float).tiny
ALL = (*losses, SmoothedHinge(width=0.1), SmoothedHinge(width=3), Huber(threshold=0.3), PseudoHuber(threshold=2.5))
METHODS = ("value", "derivative", "second_derivative")
SIZES = [1e-9, 1e-3, 0.4, 0.5, 0.99, 1, 1.01, 1.1 - 1e-9, 1.5, 2, 4, 7.9, 8.1, 10, 20, 30, 37, 38, 700, 1e4]
MARGINS = np.array([0.0, *SIZES, *(-size for size in SIZES)])
every_loss = pytest.mark.parametrize("loss", ALL, ids=repr)
any_loss = st.sampled_from(ALL)
margins = st.floats(-1e4, 1e4)


def targets(loss):
    return np.array([-1.0, 1.0]) if loss.labels == "signs" else np.array([-2.0, 0.0, 0.3])


def targets_strategy(loss):
    return st.sampled_from([-1.0, 1.0]) if loss.labels == "signs" else st.floats(-10, 10)


def exact(loss, u):
    """f, f' and f'' at y = 1 (signs) or y = 0 (real), from their textbook formulas at 60 digits."""
    one, u = mpmath.mpf(1), mpmath.mpf(float(u))
    match loss:
        case Logistic():
            power = mpmath.exp(-u)
            return mpmath.log1p(power), -power / (1 + power), power / (1 + power) ** 2
        case Probit():
            right, left = mpmath.erfc(-u / mpmath.sqrt(2)) / 2, mpmath.erfc(u / mpmath.sqrt(2)) / 2
            ratio = mpmath.npdf(u) / right
            return -mpmath.log1p(-left) if u > 0 else -mpmath.log(right), -ratio, ratio * (ratio + u)
        case SmoothedHinge(width=h):
            gap = 1 + mpmath.mpf(h) - u
            if 0 < gap <= 2 * h:
                return gap**2 / (4 * h), -gap / (2 * h), one / (2 * h)
            return (1 - u, -1, 0) if gap > 0 else (0, 0, 0)
        case Huber(threshold=t):
            sign, inside = mpmath.sign(u), abs(u) <= t
            return (u**2 / 2, u, 1) if inside else (t * abs(u) - mpmath.mpf(t) ** 2 / 2, sign * t, 0)
        case Squared():
            return u**2 / 2, u, 1
        case PseudoHuber(threshold=t):
            stretch = mpmath.sqrt(1 + (u / t) ** 2)
            return mpmath.mpf(t) ** 2 * (stretch - 1), u / stretch, stretch**-3
        case LogCosh():
            return mpmath.log(mpmath.cosh(u)), mpmath.tanh(u), mpmath.sech(u) ** 2


@every_loss
def test_sixty_digits_at_any_margin(loss):
    y = 1.0 if loss.labels == "signs" else 0.0
    with mpmath.workdps(60):
        expected = np.array([[float(number) for number in exact(loss, u)] for u in MARGINS]).T
    edge = y + np.array([-1.0, 1.0]) * getattr(loss, "width", getattr(loss, "threshold", np.inf))
    inner = ~np.isin(MARGINS, edge)  # f'' jumps at the edges of a quadratic piece
    with np.errstate(all="raise", under="ignore"):
        computed = np.array([getattr(loss, method)(MARGINS, y) for method in METHODS])
        mirrored = np.array([getattr(loss, method)(-MARGINS, -y) for method in METHODS])
    np.testing.assert_allclose(computed[:2], expected[:2], rtol=1e-14, atol=TINY)
    np.testing.assert_allclose(computed[2, inner], expected[2, inner], rtol=2e-13, atol=TINY)
    np.testing.assert_array_equal(mirrored, computed * [[1], [-1], [1]])


@every_loss
def test_declared_constants_hold_and_are_attained(loss):
    u = np.concatenate([-np.logspace(-9, 4, 2000), [0.0], np.logspace(-9, 4, 2000)])[:, None]
    slopes, bends = loss.derivative(u, targets(loss)), loss.second_derivative(u, targets(loss))
    assert (loss.value(u, targets(loss)) >= 0).all()
    assert (np.abs(slopes) <= loss.lipschitz).all()
    assert (bends >= 0).all()
    assert (bends <= loss.smoothness * (1 + 2 * EPS)).all()
    if np.isinf(loss.lipschitz):
        assert np.abs(slopes).max() > 9999  # f' grows as fast as u
    else:
        assert np.abs(slopes).max() >= loss.lipschitz * (1 - 1e-6)
    assert bends.max() >= loss.smoothness * (1 - 1e-6)
    assert loss.monotone == ((slopes <= 0).all(axis=0) | (slopes >= 0).all(axis=0)).all()
    assert loss.monotone or ((slopes < 0).any(axis=0) & (slopes > 0).any(axis=0)).all()


@given(data=st.data(), loss=any_loss, u=margins, step=st.floats(1e-3, 10))
def test_derivatives_are_derivatives(data, loss, u, step):
    """By the fundamental theorem of calculus on [u, u + step], and convex: f' is f's slope, f'' that of f'."""
    y = data.draw(targets_strategy(loss))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    inner = u + step * (nodes + 1) / 2
    ends = np.array([u, u + step])
    rise = step / 2 * weights @ loss.derivative(inner, y)
    turn = step / 2 * weights @ loss.second_derivative(inner, y)
    corners = 0.05 * step * loss.smoothness * np.isin(type(loss), (Huber, SmoothedHinge))  # a jump of f'' in the rule
    size = 1 + np.abs(loss.value(ends, y)).max()
    assert rise == pytest.approx(np.diff(loss.value(ends, y))[0], abs=1e-12 * size + corners * step / 10)
    assert turn == pytest.approx(np.diff(loss.derivative(ends, y))[0], abs=1e-12 * size + corners)


@given(data=st.data(), loss=any_loss, log_share=st.floats(-600, 0) | st.floats(-36, 0), near_the_end=st.booleans())
def test_inverse_derivative_inverts(data, loss, log_share, near_the_end):
    y, share = data.draw(targets_strategy(loss)), np.exp(log_share)
    unbounded = np.isinf(loss.lipschitz)
    size = 1e4 * share if unbounded else loss.lipschitz * ((1 - share) if near_the_end else share)
    sign = -y if loss.labels == "signs" else data.draw(st.sampled_from([-1.0, 1.0]))
    assume(size > 0 and (unbounded or size < loss.lipschitz))
    u = loss.inverse_derivative(sign * size, y)
    rounding = 4 * EPS * (1 + abs(u) + abs(y))
    seen = rounding * loss.second_derivative(u + np.array([-rounding, 0, rounding]), y).max()  # that of u by f'
    assert loss.derivative(u, y) == pytest.approx(sign * size, rel=4 * EPS, abs=seen)


@given(size=st.floats(TINY, 1e9), y=st.sampled_from([-1.0, 1.0]))
def test_the_inverse_of_the_hazard_is_exact(size, y):
    """Against a root of log h at 60 digits: |log h / size| divided by its slope h - z is the error of z."""
    z = -y * Probit().inverse_derivative(-y * size, y)
    with mpmath.workdps(60):
        hazard = -exact(Probit(), -z)[1]
        error = abs(mpmath.log(hazard / size)) / (hazard - z)
    assert error <= 4 * EPS * max(1, abs(z))


@every_loss
def test_inverse_derivative_beyond_the_range(loss):
    """sup of { u : f'(u) < slope }: empty up to the smallest slope, everything above the largest."""
    attained = isinstance(loss, Huber | SmoothedHinge)
    reach = loss.threshold if isinstance(loss, Huber) else getattr(loss, "width", np.inf)
    for y in targets(loss):
        low, high = loss.derivative(np.array([-1e9, 1e9]), y)
        if low > -1e8:
            np.testing.assert_array_equal(loss.inverse_derivative(np.array([-np.inf, low - 1, low]), y), -np.inf)
        if high < 1e8:
            np.testing.assert_array_equal(loss.inverse_derivative(np.array([high + 1, np.inf]), y), np.inf)
            assert loss.inverse_derivative(high, y) == pytest.approx(y + reach if attained else np.inf, rel=4 * EPS)


@every_loss
def test_value_and_derivative_are_the_two(loss):
    u = np.linspace(-20, 20, 101)[:, None]
    value, derivative = loss.value_and_derivative(u, targets(loss))
    np.testing.assert_array_equal(value, loss.value(u, targets(loss)))
    np.testing.assert_array_equal(derivative, loss.derivative(u, targets(loss)))


@every_loss
def test_arguments_broadcast(loss):
    y = targets(loss)
    for u in (0.4, 2, np.arange(4)[:, None]):
        shape = np.broadcast_shapes(np.shape(u), y.shape)
        for method in (*METHODS, "inverse_derivative"):
            table = getattr(loss, method)(u, y)
            rows = np.broadcast_to(u, shape).ravel(), np.broadcast_to(y, shape).ravel()
            assert table.shape == shape
            np.testing.assert_array_equal(
                table.ravel(), [getattr(loss, method)(*pair) for pair in zip(*rows, strict=True)]
            )


def test_small_width_is_the_hinge():
    u = np.linspace(-3, 3, 61)
    np.testing.assert_allclose(SmoothedHinge(width=1e-9).value(u, 1.0), np.maximum(0, 1 - u), atol=1e-9)


@pytest.mark.parametrize("make", [lambda t: SmoothedHinge(width=t), lambda t: Huber(threshold=t), PseudoHuber])
@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, "1", None])
def test_parameters_are_validated(make, value):
    with pytest.raises(ValueError, match=r"(width|threshold) must be a finite number > 0: got"):
        make(value)


def test_losses_have_names():
    assert [type(loss) for loss in losses] == list(LOSSES.values())
    for name, kind in LOSSES.items():
        assert resolve_loss(name) == kind()
    own = Huber(threshold=7)
    assert resolve_loss(own) is own
    assert isinstance(own, Loss)


@pytest.mark.parametrize("loss", ["hinge", Huber, None, 3.0])
def test_unknown_losses_are_refused(loss):
    with pytest.raises(ValueError, match=r"loss must be one of 'logistic', .*'log_cosh' or a Loss: got loss="):
        resolve_loss(loss)


@pytest.mark.parametrize("loss", ["huber", Huber()])
def test_losses_of_the_other_labels_are_refused(loss):
    assert resolve_loss(loss, labels="real") == Huber()
    rule = "loss must be one of 'logistic', 'probit', 'smoothed_hinge' or a Loss with labels='signs': got loss="
    with pytest.raises(ValueError, match=rule):
        resolve_loss(loss, labels="signs")
