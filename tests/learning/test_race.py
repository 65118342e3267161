"""A race returns what each solver returns alone, and calls the callback in the order of evaluations."""

import threading

import numpy as np
import pytest

from explorer import datasets
from explorer.learning import Logistic, PerturbedObjective, Records
from explorer.learning.solvers import SOLVERS, race


class OneAtATime(PerturbedObjective):
    """Refuses to be asked by two threads at once."""

    lock = threading.Lock()

    def value_and_gradient(self, theta):
        assert self.lock.acquire(blocking=False)
        try:
            return super().value_and_gradient(theta)
        finally:
            self.lock.release()

    def gradient(self, theta):
        return self.value_and_gradient(theta)[1]


def problem(kind=PerturbedObjective):
    X, y = datasets.elongated(300, dimension=5, elongation=10, seed=0)
    return kind(Records(X, y), loss=Logistic(), l2_reg=0.5, linear_term=np.arange(5.0))


@pytest.fixture(scope="module")
def objective():
    return problem()


def test_results_are_those_of_each_solver_alone(objective):
    results = race(objective, gradient_tol=1e-3, max_passes=100, random_state=3)
    assert list(results) == list(SOLVERS)
    assert not results["gradient_descent"].success  # one that does not get there stops no other
    for name, solver in SOLVERS.items():
        alone = solver(objective, gradient_tol=1e-3, max_passes=100, random_state=3)
        np.testing.assert_array_equal(results[name].trace, alone.trace)
        np.testing.assert_array_equal(results[name].x, alone.x)


def test_reports_come_in_the_order_of_evaluations_and_one_at_a_time():
    seen = []
    solvers = {name: SOLVERS[name] for name in ("lbfgs", "sag", "accelerated")}
    results = race(
        problem(OneAtATime),
        solvers=solvers,
        gradient_tol=1e-3,
        random_state=0,
        callback=lambda *step: seen.append(step),
    )
    counts = [evaluations for _, evaluations, _ in seen]
    assert counts == sorted(counts)
    assert len({name for name, _, _ in seen[:6]}) == 3
    for name, result in results.items():
        np.testing.assert_array_equal([step[1:] for step in seen if step[0] == name], result.trace)


def test_an_exception_of_the_callback_ends_its_solver_and_propagates(objective):
    seen = []

    def follow(name, evaluations, norm):
        seen.append(name)
        if name == "sag":
            raise KeyError("sag")

    with pytest.raises(KeyError, match="sag"):
        race(objective, gradient_tol=1e-3, random_state=0, callback=follow)
    assert seen.count("sag") == 1
    assert seen.count("lbfgs") > 5


def test_bad_parameters_are_refused_and_a_race_may_have_one_solver_or_none(objective):
    with pytest.raises(ValueError, match="gradient_tol"):
        race(objective, gradient_tol=0.0)
    assert race(objective, solvers={}, gradient_tol=1e-3) == {}
    assert race(objective, solvers={"n": SOLVERS["newton"]}, gradient_tol=1e-3)["n"].success
