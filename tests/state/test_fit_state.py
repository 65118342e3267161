"""One run of Algorithm 1 as the Fit page makes it."""

import pickle

import numpy as np
import pytest

from explorer import datasets
from explorer.state.fit import FitState, run_fit


def test_demo_data_has_unit_rows_and_two_classes():
    data = datasets.breast_cancer()
    assert (data.X_train.shape, data.X_test.shape) == ((455, 30), (114, 30))
    for X in (data.X_train, data.X_test):
        np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-12)
    assert set(data.y_train) == set(data.y_test) == {0, 1}
    assert "standardised" in data.unaccounted


def test_run_releases_and_compares():
    seen = []
    result = run_fit(**FitState(epsilon=4.0).arguments(), report=seen.append)
    assert result.majority_accuracy < result.accuracy
    assert result.majority_accuracy == pytest.approx(0.63, abs=0.02)
    assert result.non_private_accuracy > 0.93
    assert result.privacy.epsilon == 4.0
    assert seen == list(result.trace.itertuples(index=False, name=None))
    assert result.trace["gradient_norm"].iloc[-1] <= 0.01
    assert pickle.loads(pickle.dumps(result)).accuracy == result.accuracy


def test_refusal_releases_nothing():
    result = run_fit(**FitState(gradient_tol=1e-16).arguments())  # below what floating point can verify
    assert (result.accuracy, result.privacy) == (None, None)
    assert "nothing is released" in result.refusal
    assert result.trace["gradient_norm"].min() > 1e-16
