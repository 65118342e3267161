"""The objective against its definition, on every kind of array and block; its bounds and its rounding."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime

from explorer.learning import ClippedLoss, Logistic, PerturbedObjective, Records

N, P = 57, 6


def as_memmap(X):
    with tempfile.TemporaryDirectory() as folder:
        file = np.memmap(Path(folder) / "X", dtype=X.dtype, mode="w+", shape=X.shape)
        file[:] = X
        return file  # the mapping outlives the name of the file


ARRAYS = {
    "dense": np.array,
    "fortran": np.asfortranarray,
    "csr": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "memmap": as_memmap,
    "float32": lambda X: as_memmap(X.astype(np.float32)),
    "float32_csr": lambda X: sparse.csr_array(X.astype(np.float32)),
}


def numbers(n=N, p=P, seed=0):
    """Rows of norms from 0 to 4, many entries zero, exact in single precision; labels; theta and a direction."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * rng.integers(0, 2, size=(n, p)) * rng.uniform(0.1, 2, size=(n, 1))
    X[n // 2] = 0.0
    return X.astype(np.float32).astype(float), rng.choice([-1.0, 1.0], n), rng.normal(size=(2, p + 1))


def by_definition(X, y, *, theta, direction, b, clip_norm, l2_reg=0.7, weight=1.0):
    """Value, gradient, Hessian and its product with direction, from the whole design matrix."""
    loss = Logistic()
    if clip_norm is not None:
        loss = ClippedLoss(loss, clip_norm=clip_norm, row_norms=np.linalg.norm(X, axis=1))
    u = X @ theta
    hessian = weight * (X.T * loss.second_derivative(u, y)) @ X + l2_reg * np.eye(len(theta))
    value = weight * loss.value(u, y).sum() + l2_reg / 2 * theta @ theta + b @ theta
    return value, weight * X.T @ loss.derivative(u, y) + l2_reg * theta + b, hessian, hessian @ direction


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("clip_norm", [None, 0.3])
@pytest.mark.parametrize(("data_norm", "constant"), [(None, False), (1.0, True)])
@pytest.mark.parametrize("block_bytes", [1, 8 * P * 10, 2**20])  # one row in a block, a ragged last one, one block
def test_equals_its_definition(kind, clip_norm, data_norm, constant, block_bytes):
    X, y, (theta, direction) = numbers()
    norms = np.linalg.norm(X, axis=1)
    design = X if data_norm is None else X * np.minimum(1, data_norm / np.maximum(norms, 1e-300))[:, None]
    design = np.hstack([design, np.ones((N, 1))]) if constant else design
    theta, direction = theta[: design.shape[1]], direction[: design.shape[1]]
    b = np.linspace(-1, 2, len(theta))
    records = Records(ARRAYS[kind](X), y, data_norm=data_norm, constant=constant, block_bytes=block_bytes)
    objective = PerturbedObjective(records, loss=Logistic(), l2_reg=0.7, linear_term=b, clip_norm=clip_norm, weight=1.5)
    value, gradient, hessian, product = by_definition(
        design, y, theta=theta, direction=direction, b=b, clip_norm=clip_norm, weight=1.5
    )
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(objective.value(theta), value, **close)
    np.testing.assert_allclose(objective.gradient(theta), gradient, **close)
    np.testing.assert_allclose(objective.value_and_gradient(theta)[1], gradient, **close)
    np.testing.assert_allclose(objective.hessian(theta), hessian, **close)
    np.testing.assert_allclose(objective.hessian_product(theta, direction), product, **close)


@pytest.mark.parametrize("clip_norm", [0.3, None])
def test_gradient_of_the_objective(clip_norm):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), rng.choice([-1.0, 1.0], 40)
    X[7] = 0.0  # a record without features has a constant loss
    objective = PerturbedObjective(
        Records(X, y), loss=Logistic(), l2_reg=0.7, linear_term=rng.normal(size=5), clip_norm=clip_norm
    )
    theta = rng.normal(size=5)
    _, gradient = objective.value_and_gradient(theta)
    numeric = approx_fprime(theta, lambda t: objective.value_and_gradient(t)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=1e-4)
    np.testing.assert_array_equal(gradient, objective.gradient(theta))
    per_record = Logistic().derivative(X @ theta, y)[:, None] * X
    if clip_norm is not None:
        per_record *= np.minimum(1, clip_norm / np.maximum(np.linalg.norm(per_record, axis=1), 1e-300))[:, None]
    np.testing.assert_allclose(gradient, per_record.sum(0) + 0.7 * theta + objective.linear_term, rtol=1e-10)


@pytest.mark.parametrize("n", [1, 10, 10_000])
def test_noise_and_regulariser_are_added_once_for_any_number_of_records(n):
    X, y, (theta, _) = numbers(n)
    theta, b = theta[:P], np.arange(1.0, P + 1)
    noisy, plain = (
        PerturbedObjective(Records(X, y), loss=Logistic(), l2_reg=l2_reg, linear_term=term)
        for l2_reg, term in ((20.0, b), (0.0, 0 * b))
    )
    np.testing.assert_allclose(
        noisy.gradient(theta) - plain.gradient(theta), b + 20 * theta, rtol=0, atol=4 * noisy.gradient_floor(theta)
    )


def test_records_twice_double_the_losses_and_nothing_else():
    X, y, (theta, _) = numbers()
    theta, b = theta[:P], np.arange(1.0, P + 1)
    blocks = {"block_bytes": 8 * X.size}
    once, twice, plain = (
        PerturbedObjective(Records(rows, labels, **blocks), loss=Logistic(), l2_reg=l2_reg, linear_term=term)
        for rows, labels, l2_reg, term in (
            (X, y, 3.0, b),
            (np.vstack([X, X]), np.append(y, y), 3.0, b),
            (X, y, 0.0, 0 * b),
        )
    )
    for more, less, losses in zip(*(o.value_and_gradient(theta) for o in (twice, once, plain)), strict=True):
        np.testing.assert_allclose(more - less, losses, rtol=1e-13)
    np.testing.assert_allclose(twice.hessian(theta) - once.hessian(theta), plain.hessian(theta), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("p", [6, 1200])  # the exact eigenvalue, and a cheap bound beyond 1000 columns
def test_no_hessian_exceeds_the_lipschitz_bound(kind, p):
    rng = np.random.default_rng(p)
    X = rng.normal(size=(40, p)) + 0.3
    objective = PerturbedObjective(
        Records(ARRAYS[kind](X), np.ones(40), constant=True),
        loss=Logistic(),
        l2_reg=0.5,
        linear_term=np.zeros(p + 1),
        weight=3.0,
    )
    bound = objective.gradient_lipschitz()
    largest = np.linalg.norm(np.hstack([X, np.ones((40, 1))]), 2) ** 2
    assert bound >= 0.5 + 3 * Logistic.smoothness * largest
    if p < 1000:
        assert bound == pytest.approx(0.5 + 3 * Logistic.smoothness * largest, rel=1e-8)
        top = np.linalg.eigvalsh(objective.hessian(np.zeros(p + 1)))[-1]  # f'' is largest at 0
        assert top == pytest.approx(bound, rel=1e-8)
    else:
        assert bound <= 0.5 + 3 * Logistic.smoothness * np.sum(X**2 + 1 / p) * (1 + 1e-8)  # the trace


@pytest.mark.parametrize("n", [300, 20_000])
@pytest.mark.parametrize("size", [0.1, 30.0])
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_gradient_floor_is_the_size_of_the_rounding_error(n, size, order):
    """Against the gradient in extended precision: an upper estimate, by less than a factor of 1000."""
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("no extended precision on this platform")
    X, y, (theta, _) = numbers(n, 8)
    if order == "sorted":
        y = np.sort(y)
    theta = size * theta[:8]
    b = 20 * np.cos(np.arange(8.0))
    objective = PerturbedObjective(Records(X, y), loss=Logistic(), l2_reg=2.0, linear_term=b)
    rows = X.astype(np.longdouble)
    slopes = -y / (1 + np.exp(y * (rows @ theta)))
    exact = rows.T @ slopes + 2 * theta.astype(np.longdouble) + b
    error = np.linalg.norm((objective.gradient(theta) - exact).astype(float))
    assert error <= objective.gradient_floor(theta) <= max(1000 * error, 1e-13)


def test_a_subsample_estimates_the_objective():
    X, y, (theta, _) = numbers(4000)
    X[:, 0] = np.linspace(-1, 1, 4000)
    theta, b = theta[:P], np.arange(1.0, P + 1)
    objective = PerturbedObjective(Records(X, y), loss=Logistic(), l2_reg=2.0, linear_term=b, clip_norm=0.4)
    part = objective.subsample(1000, rng=np.random.default_rng(1))
    assert (part.n_records, part.weight, part.clip_norm) == (1000, 4.0, 0.4)
    assert len(np.unique(part.records.X[:, 0])) == 1000  # without replacement
    np.testing.assert_array_equal(part.records.X, objective.subsample(1000, rng=np.random.default_rng(1)).records.X)
    losses, estimate = (o.gradient(theta) - 2 * theta - b for o in (objective, part))
    assert np.linalg.norm(losses - estimate) <= 6 * 0.4 * 4000 / np.sqrt(1000)  # six standard errors at most
    assert objective.subsample(4000, rng=None) is objective
    again = part.subsample(500, rng=np.random.default_rng(2))
    assert again.weight == 8.0
