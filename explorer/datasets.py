"""Demo data: features scaled to unit row norm, labels of two classes, a fixed split into train and test."""

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split


@dataclass(frozen=True)
class Dataset:
    """A training and a test set.

    Attributes
    ----------
    name : str
    X_train, X_test : ndarray (n, d), rows of norm at most 1
    y_train, y_test : ndarray (n,)
    unaccounted : str, what was taken from the data without being paid for in privacy; empty if nothing
    """

    name: str
    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    unaccounted: str


def breast_cancer(*, split_seed=0):
    """Wisconsin diagnostic breast cancer, as shipped with scikit-learn: 569 tumours, 30 features, benign or malignant.

    Columns are standardised by their mean and deviation over all rows, since their units differ by a factor of a
    thousand; that statistic of the data is not covered by any (epsilon, delta) shown. Rows are then divided by their
    norm, which costs nothing. The split is 80/20, drawn by `split_seed`.
    """
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=split_seed, stratify=y)
    return Dataset(
        name="Breast cancer",
        X_train=X_train,
        X_test=X_test,
        y_train=y_train,
        y_test=y_test,
        unaccounted="columns are standardised with the data's own mean and deviation",
    )
