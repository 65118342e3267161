"""The proven bound on the gradient against exact rationals, and the search that ends when it holds."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from explorer.learning import (
    AMPClassifier,
    Huber,
    LogCosh,
    Logistic,
    Loss,
    NoReleaseError,
    OutputPerturbationClassifier,
    PerturbedObjective,
    Probit,
    PseudoHuber,
    PureObjectivePerturbationClassifier,
    Records,
    SmoothedHinge,
    Squared,
)
from explorer.learning import certificate as certificate_module
from explorer.learning.certificate import certified_minimum, largest_number_of_records
from explorer.learning.losses import losses
from explorer.learning.records.sources import records_of
from explorer.learning.solvers import newton

da = pytest.importorskip("dask.array")

EXACT = {
    Logistic: lambda loss, u, y: -y / (1 + mpmath.exp(y * u)),
    Probit: lambda loss, u, y: -y * mpmath.npdf(u) / mpmath.ncdf(y * u),
    SmoothedHinge: lambda loss, u, y: -y * min(max((1 - y * u + loss.width) / (2 * loss.width), 0), 1),
    Huber: lambda loss, u, y: min(max(u - y, -loss.threshold), loss.threshold),
    Squared: lambda loss, u, y: u - y,
    PseudoHuber: lambda loss, u, y: (u - y) / mpmath.sqrt(1 + ((u - y) / loss.threshold) ** 2),
    LogCosh: lambda loss, u, y: mpmath.tanh(u - y),
}


def exact_slope(loss, u, y):
    """f'(u; y), with numbers of 220 bits."""
    return EXACT[type(loss)](loss, mpmath.mpf(u), mpmath.mpf(float(y)))


def exact_norm(objective, theta):
    """The norm of the gradient over the reals: of the stored rows, scales, norms and clipping bounds, in 220 bits."""
    records = objective.records
    X = records.X.toarray() if sparse.issparse(records.X) else np.asarray(records.X, float)
    with mpmath.workprec(220):
        total = [
            mpmath.mpf(float(t)) * objective.l2_reg + float(b)
            for t, b in zip(theta, objective.linear_term, strict=True)
        ]
        for i, row in enumerate(X):
            scale = 1.0 if records.scale is None else float(records.scale[i])
            x = [mpmath.mpf(float(v)) * scale for v in row] + [mpmath.mpf(1)] * records.constant
            slope = exact_slope(objective.loss, mpmath.fdot(x, map(float, theta)), records.y[i])
            if objective.clip_norm is not None:
                bound = min(objective.clip_norm / float(records.norms[i]), 1e308) if records.norms[i] else 1e308
                slope = min(max(slope, -bound), bound)
            total = [t + slope * v for t, v in zip(total, x, strict=True)]
        return float(mpmath.sqrt(mpmath.fdot(total, total)))


@settings(max_examples=150)
@given(
    loss=st.sampled_from(losses),
    n=st.integers(1, 40),
    d=st.integers(1, 6),
    seed=st.integers(0, 10**6),
    clip_norm=st.sampled_from([None, 0.3]),
    size=st.sampled_from([1e-3, 1.0, 30.0]),
    constant=st.booleans(),
    layout=st.sampled_from([np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)]),
    cancelling=st.booleans(),
)
def test_the_bound_is_one(loss, n, d, seed, clip_norm, size, constant, layout, cancelling):
    """Never below the true norm, and not far above it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-2, 2)
    y = rng.choice([-1.0, 1.0], n) if loss.labels == "signs" else rng.normal(size=n) * 10
    if cancelling:  # a gradient near 0 of large terms
        X, y = np.vstack([X, -X]), np.append(y, y)
    records = Records(layout(X), y, data_norm=1.0, constant=constant, block_bytes=200)
    theta = size * rng.normal(size=records.dimension)
    b = rng.normal(size=records.dimension)
    objective = PerturbedObjective(records, loss=loss, l2_reg=0.7, linear_term=b, clip_norm=clip_norm)
    if cancelling:
        objective.linear_term = b - objective.gradient(theta)
    bound, true = objective.gradient_bound(theta), exact_norm(objective, theta)
    assert true <= bound
    assert bound <= true + 1e-9 * (1 + n * (1 + size))


@pytest.mark.parametrize("loss", losses, ids=repr)
def test_slopes_are_within_their_stated_errors(loss):
    rng = np.random.default_rng(0)
    margins = np.concatenate([rng.uniform(-40, 40, 300), rng.normal(size=100), 10.0 ** rng.uniform(-20, 2, 50)])
    targets = rng.choice([-1.0, 1.0], 450) if loss.labels == "signs" else rng.normal(size=450) * 20
    with mpmath.workprec(220):
        for u, y, found in zip(margins, targets, loss.derivative(margins, targets), strict=True):
            error = abs(found - exact_slope(loss, float(u), y))
            assert error <= 2**-5 * (loss.relative_error * abs(found) + loss.absolute_error)  # far within


def test_the_bound_is_the_same_for_all_layouts_and_infinite_where_nothing_is_proved():
    rng = np.random.default_rng(0)
    X, y, theta = rng.normal(size=(300, 4)), rng.choice([-1.0, 1.0], 300), rng.normal(size=5)
    setting = {"loss": Logistic(), "l2_reg": 1.0, "linear_term": np.ones(5)}

    def bound(X, theta=theta, y=y):
        records = records_of(X, y, data_norm=1.0, constant=True)
        return PerturbedObjective(records, **setting).gradient_bound(theta)

    dense = bound(X)
    assert bound(sparse.csr_array(X)) == pytest.approx(dense, rel=1e-12)
    chunks = da.from_array(X, chunks=(70, 4))
    assert bound(chunks, y=da.from_array(y, chunks=70)) == pytest.approx(dense, rel=1e-12)
    for broken in (np.full(5, np.nan), np.full(5, 1e120), np.array([np.inf, 0, 0, 0, 0])):
        assert not bound(X, broken) < np.inf


def problem(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)) / 3, rng.choice([-1.0, 1.0], n)
    records = Records(X, y, data_norm=1.0)
    return PerturbedObjective(records, loss=Logistic(), l2_reg=1.0, linear_term=rng.normal(size=d))


@pytest.mark.parametrize("grid", [2.0**-10, 2.0**-43])
def test_the_certified_point_is_on_the_grid(grid):
    objective = problem()
    solution = certified_minimum(objective, gradient_tol=0.5, grid=grid, linear_error=0.01)
    assert (solution.x / grid == np.rint(solution.x / grid)).all()
    assert exact_norm(objective, solution.x) + 0.01 <= solution.gradient_norm <= 0.5


def test_solvers_leave_room_for_what_the_bound_adds(monkeypatch):
    """A gradient bound with 0.6 tau added: the first point, below 0.99 tau, may fail; a closer one is found."""
    objective, tol = problem(), 1e-3
    plain, seen = PerturbedObjective.gradient_bound, []

    def wider(self, theta):
        seen.append(plain(self, theta) + 0.6 * tol)
        return seen[-1]

    monkeypatch.setattr(PerturbedObjective, "gradient_bound", wider)
    solution = certified_minimum(objective, gradient_tol=tol, grid=2.0**-43, solver="gradient_descent")
    assert seen[0] > tol >= seen[-1] and len(seen) > 1
    assert solution.gradient_norm == pytest.approx(seen[-1])


def useless(objective, *, gradient_tol, start=None, **options):
    """A solver that stops where it starts, at a point that others would not choose."""
    result = newton(objective, gradient_tol=gradient_tol, start=start, max_passes=1)
    result.x, result.success, result.message = np.full(objective.dimension, 1e9), False, "useless"
    return result


def test_gradient_descent_goes_on_until_the_bound_holds(monkeypatch):
    monkeypatch.setattr(
        certificate_module, "minimise", lambda objective, *, solver, **options: useless(objective, **options)
    )
    objective, counts = problem(), []
    with pytest.raises(NoReleaseError, match=r"nothing is released: .*proven bound is .*useless"):
        certified_minimum(objective, gradient_tol=1e-6, grid=2.0**-43, n_max=399)
    solution = certified_minimum(
        objective, gradient_tol=1e-6, grid=2.0**-43, n_max=400, callback=lambda count, _: counts.append(count)
    )
    assert exact_norm(objective, solution.x) <= solution.gradient_norm <= 1e-6
    assert len(counts) > 3 and (np.diff(counts) >= 400).all()
    assert solution.n_gradient_evaluations >= counts[-1]


def test_records_of_overflowing_gradients_are_refused():
    records = Records(np.full((2, 1), 1e200), np.ones(2))
    objective = PerturbedObjective(records, loss=Squared(), l2_reg=1.0, linear_term=np.zeros(1))
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(NoReleaseError):
        certified_minimum(objective, gradient_tol=1.0, grid=2.0**-43)


def test_number_of_records_without_refusal():
    """The formula at the published defaults: 4e5 for 105 features and more for a larger tolerance."""
    setting = dict(
        loss=Logistic(),
        lipschitz=np.sqrt(2),
        smoothness=0.5,
        row_norm=np.sqrt(2),
        l2_reg=2.85,
        grid=2.0**-43,
        linear_norm=5.3 * (np.sqrt(105) + 8),
        linear_error=2e-11,
    )
    n = largest_number_of_records(dimension=105, gradient_tol=0.01, **setting)
    assert 3e5 < n < 5e5
    assert n * 2.9 < largest_number_of_records(dimension=105, gradient_tol=0.1, **setting) < 4e6
    assert n > largest_number_of_records(dimension=1000, gradient_tol=0.01, **setting) > 1e5
    assert largest_number_of_records(dimension=105, gradient_tol=1e-10, **setting) == 0


@pytest.mark.parametrize(
    "kind", [AMPClassifier, OutputPerturbationClassifier, PureObjectivePerturbationClassifier], ids=lambda k: k.__name__
)
def test_statement_has_the_number_and_coefficients_are_on_the_grid(kind):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 6)) / 4, rng.integers(3, size=500)
    fit = kind(epsilon=5.0, random_state=1).fit(X, y)
    assert fit.privacy_.n_max > 10_000
    assert "no refusal for any records up to n_max" in str(fit.privacy_)
    assert fit.privacy_.n_max == kind(epsilon=5.0).plan(X, y).n_max
    assert kind(epsilon=5.0, gradient_tol=1e-13).plan(X, y).n_max == 0
    coefficients = np.column_stack([fit.coef_, fit.intercept_]) / fit.grid_
    np.testing.assert_array_equal(coefficients, np.rint(coefficients))
    assert np.log2(fit.grid_) == round(np.log2(fit.grid_))
    assert len(set((coefficients.astype(np.int64) & 0xFFFF).ravel().tolist())) > 15  # the low bits are in use


def test_a_loss_that_does_not_state_its_accuracy_is_refused():
    class Unknown(Loss):
        lipschitz, smoothness, monotone, labels = 1.0, 0.25, True, "signs"

    with pytest.raises(ValueError, match="loss must state relative_error and absolute_error"):
        AMPClassifier(loss=Unknown()).plan(np.eye(4), [0, 1, 0, 1])
