"""The estimators' parameters, as scikit-learn, editors, help(), pickle and dask see them."""

import ast
import inspect
import pickle
import re
import textwrap
from typing import get_type_hints

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

import explorer.learning
from explorer.learning import AMPClassifier, AMPRegressor, DishonestSelection, DPSGDClassifier, HonestSelection
from explorer.learning.learners.linear import PrivateLearner

ESTIMATORS = [
    estimator
    for estimator in vars(explorer.learning).values()
    if isinstance(estimator, type) and issubclass(estimator, BaseEstimator)
]
LEARNERS = [estimator for estimator in ESTIMATORS if issubclass(estimator, PrivateLearner)]


@pytest.fixture
def data():
    X = np.random.default_rng(0).normal(size=(60, 2))
    return X, (X[:, 0] > 0).astype(int)


def documented(estimator):
    """Names in the docstring's section of parameters, of which several may share one description."""
    section = re.search(r"^Parameters\n-+\n(.*?)^Attributes$", inspect.getdoc(estimator), re.DOTALL | re.MULTILINE)[1]
    names = re.findall(r"^(\w+(?:,\s+\w+)*) : ", section, re.MULTILINE)
    return [name for line in names for name in re.split(r",\s+", line)]


def test_all_estimators_are_tested():
    assert len(LEARNERS) == 12
    assert len(ESTIMATORS) == 14


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_are_the_documented_ones_and_all_but_the_first_are_keywords(estimator):
    first, *others = inspect.signature(estimator).parameters.values()
    assert first.name == ("epsilon" if estimator in LEARNERS else "estimator")
    assert first.kind is first.POSITIONAL_OR_KEYWORD
    assert {parameter.kind for parameter in others} == {first.KEYWORD_ONLY}
    assert sorted(documented(estimator)) == sorted(parameter.name for parameter in (first, *others))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_init_is_written_out_with_types_and_defaults(estimator):
    """In the class itself, as an editor reads it without running anything; and Python evaluates what it says."""
    (init,) = (
        node
        for node in ast.parse(textwrap.dedent(inspect.getsource(estimator))).body[0].body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    written = init.args
    assert (written.vararg, written.kwarg) == (None, None)
    parameters = dict(inspect.signature(estimator).parameters)
    assert [a.arg for a in written.args[1:] + written.kwonlyargs] == list(parameters)
    types = get_type_hints(estimator.__init__)
    assert types.pop("return") is type(None)
    assert set(types) == set(parameters)
    assert estimator is HonestSelection or estimator is DishonestSelection or types["epsilon"] in (float, float | None)
    assert [name for name in parameters if parameters[name].default is inspect.Parameter.empty] == (
        [] if estimator in LEARNERS else ["estimator"]
    )


def test_signature_of_one():
    parameters = inspect.signature(AMPClassifier).parameters
    shown = {name: (parameters[name].annotation, parameters[name].default) for name in parameters}
    assert shown["epsilon"] == ("float", 1.0)
    assert shown["delta"] == ("float", 1e-5)
    assert shown["loss"] == ("str | Loss", "logistic")
    assert shown["clip_norm"] == ("float | None", None)
    assert shown["callback"] == ("Callable[[int, float], object] | None", None)
    assert "delta: 'float' = 1e-05" in str(inspect.signature(AMPClassifier))


@pytest.mark.parametrize("estimator", LEARNERS)
def test_arguments_are_kept_as_they_are(estimator):
    values = {name: object() for name in inspect.signature(estimator).parameters}
    model = estimator(**values)
    assert model.get_params(deep=False) == vars(model) == values  # objects are equal only to themselves
    assert estimator(values["epsilon"]).epsilon is values["epsilon"]


@pytest.mark.parametrize("estimator", LEARNERS)
def test_wrong_arguments_are_refused(estimator):
    with pytest.raises(TypeError, match="positional"):
        estimator(1.0, 1e-5)
    with pytest.raises(TypeError, match="lamda"):
        estimator(lamda=1.0)


@pytest.mark.parametrize("estimator", LEARNERS)
def test_defaults_of_the_two_kinds_differ_in_the_loss_alone(estimator):
    parameters = inspect.signature(estimator).parameters
    regressor = estimator.__name__.endswith("Regressor")
    assert parameters["loss"].default == ("huber" if regressor else "logistic")
    assert ("classes" in parameters) != regressor
    sibling = getattr(explorer.learning, re.sub("Regressor$", "Classifier", estimator.__name__))
    shared = inspect.signature(sibling).parameters
    assert [name for name in shared if name != "classes"] == [name for name in parameters if name != "classes"]
    assert {name for name in parameters if parameters[name].default != shared[name].default} <= {"loss"}


def test_subclasses_may_bring_an_init_or_do_without(data):
    class Strict(AMPClassifier):
        def __init__(self, delta=1e-9, *, random_state=None):
            super().__init__(0.5, delta=delta, random_state=random_state)

    class Plain(AMPRegressor):
        pass

    assert Strict(1e-8).get_params() == {"delta": 1e-8, "random_state": None}
    assert clone(Strict(1e-8, random_state=0)).fit(*data).privacy_.epsilon == 0.5
    assert Plain(2.0, f=1.5).get_params() == AMPRegressor(2.0, f=1.5).get_params()


def test_copies_are_searched_printed_and_pickled(data):
    model = DPSGDClassifier(2.0, epochs=1, random_state=0)
    assert repr(model) == "DPSGDClassifier(epochs=1, epsilon=2.0, random_state=0)"
    assert "epochs" in model._repr_html_()
    search = GridSearchCV(model, {"learning_rate": [0.1, 1.0], "epsilon": [1.0, 3.0]}, cv=2).fit(*data)
    copied = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(copied.coef_, search.best_estimator_.coef_)
    assert copied.get_params() == model.set_params(**search.best_params_).get_params()


def test_dask_distinguishes_fits_with_equal_parameters(data):
    """It names tasks by their arguments, and looks at no more of a dataclass than its fields."""
    dask = pytest.importorskip("dask")
    one, other = (AMPClassifier(random_state=seed).fit(*data).set_params(random_state=None) for seed in (0, 1))
    assert dask.base.tokenize(one) != dask.base.tokenize(other)
    computed, _ = dask.compute(one, dask.delayed(abs)(1))
    np.testing.assert_array_equal(computed.coef_, one.coef_)
