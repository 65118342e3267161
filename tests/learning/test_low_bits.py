"""An attack on the low bits of a release: it tells neighbours apart on sums of doubles, and not on what is released.

Someone who knows all records but one, and so both possible minima, looks for a coordinate of the release that no double
w leads to: fl(theta' + w) != y for all w. Over the reals every release is possible under both datasets; in doubles one
such coordinate excludes theta'. The claimed (1, 1e-5) allows the event a probability of 1e-5 where it is impossible
under the neighbour.
"""

from functools import cache

import numpy as np
import pytest

from explorer.learning import Logistic, OutputPerturbationClassifier, PerturbedObjective, Records
from explorer.learning.certificate import certified_minimum
from explorer.learning.grid import release_on_grid
from explorer.learning.noise import draw_noise
from explorer.learning.sampling.bits import bits_of

N, D, L2_REG, RELEASES = 2000, 100, 20.0, 300


def excluded(theta, released):
    """Whether no vector of doubles w gives fl(theta + w) = released: of one coordinate, for each row of `released`.

    The w near released - theta are all that can: the sum is monotone in w.
    """
    w = released - theta
    candidates = [w, *(np.nextafter(w, way) for way in (-np.inf, np.inf))]
    for _ in range(6):
        candidates += [np.nextafter(candidates[-2], -np.inf), np.nextafter(candidates[-1], np.inf)]
    return ~np.logical_or.reduce([theta + candidate == released for candidate in candidates])


@pytest.fixture(scope="module")
def neighbours():
    """The plan, and the minima of ordinary dense data with and without one random record."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, D)) / np.sqrt(D)
    X /= np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
    y = np.where(X @ rng.normal(size=D) + rng.logistic(size=N) > 0, 1.0, -1.0)
    learner = OutputPerturbationClassifier(epsilon=1.0, delta=1e-5, l2_reg=L2_REG, fit_intercept=False)
    plan = learner.plan(X, y)
    tau, step = plan.mechanism.gradient_tol, plan.mechanism.output_step

    @cache
    def minimum(first, grid=None):
        rows = slice(first, None)
        objective = PerturbedObjective(
            Records(X[rows], y[rows], data_norm=1.0), loss=Logistic(), l2_reg=L2_REG, linear_term=np.zeros(D)
        )
        return certified_minimum(objective, gradient_tol=tau, grid=grid).x

    return step, minimum, (0, 1)


def test_sums_of_doubles_tell_neighbours_apart(neighbours):
    """The minimum plus Generator.normal, as releases once were: with either dataset, nearly every one shows which."""
    step, minimum, (all_, others) = neighbours
    rng = np.random.default_rng(0)
    for given, neighbour in ((all_, others), (others, all_)):
        true, other = minimum(given), minimum(neighbour)
        releases = true + rng.normal(scale=step.noise_std, size=(RELEASES, D))
        shown = excluded(other, releases).any(axis=1).mean()
        assert shown > 0.95
        assert not excluded(true, releases).any()  # never under the true dataset


def test_releases_on_the_grid_exclude_no_neighbour(neighbours):
    """Every release is possible under both datasets, by one vector of integers, and its low bits are uniform."""
    step, minimum, (all_, others) = neighbours
    bits, low = bits_of(0), []
    for given, neighbour in ((all_, others), (others, all_)):
        for _ in range(RELEASES):
            noise = draw_noise(step, dimension=D, bits=bits)
            true, other = minimum(given, noise.grid), minimum(neighbour, noise.grid)
            released = release_on_grid(true, noise)
            whole = released / noise.grid
            assert (whole == np.rint(whole)).all()
            shift = whole - other / noise.grid  # the noise that gives this release under the neighbour
            assert (shift == np.rint(shift)).all() and np.abs(shift).max() < 2**45
            low.append(whole.astype(np.int64) & 15)
    counts = np.bincount(np.concatenate(low), minlength=16)
    assert np.sum((counts - counts.mean()) ** 2) / counts.mean() < 50  # chi-square, 15 degrees of freedom
