"""DP-SGD for generalised linear models, as scikit-learn estimators.

Real Poisson sampling: a coin of its own decides for every record and step whether the record takes part, which is what
the accounting is about; a sample may be empty. A record's gradient is f'(x.theta; y) x, of rank one, so clipping it is
clipping the number f' at C / |x|: no gradient of a single record is ever formed.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil

import numpy as np
from scipy import sparse

from explorer.accounting import CompositionBound, PoissonSubsampledGaussian, RenyiBound
from explorer.learning.learners.descent import NoisyDescent, clipped_gradient
from explorer.learning.learners.linear import PrivateLinearClassifier, PrivateLinearRegressor, estimator
from explorer.validation import natural, positive

# Integer orders are finite sums: calibration takes a twentieth of a second, for at most 1% more noise than all orders.
ORDERS = range(2, 257)

_ACCOUNTANTS = {"renyi": partial(RenyiBound, orders=ORDERS), "profile": CompositionBound}


class _PoissonSampledDescent(NoisyDescent):
    """DP-SGD on one problem; the parameters are those of DPSGDClassifier."""

    batch_size: float = 256
    epochs: int = 60
    learning_rate: float = 1.0
    optimizer: object = "sgd"
    l2_reg: float = 0.0
    accountant: object = "renyi"

    _accountants = _ACCOUNTANTS
    _picks_records = True
    _assumptions = (
        "the number of records is public: the sampling rate and the number of steps follow from it",
        "the class labels and the number of features are public",
        "every step takes a Poisson sample of its own; theta may be watched at every step, the samples may not",
    )

    def _expected_batch(self, problem):
        return min(positive("batch_size", self.batch_size), problem.n_records)

    def _n_steps(self, problem):
        return natural("epochs", self.epochs) * ceil(problem.n_records / self._expected_batch(problem))

    def _mechanism(self, problem, noise_multiplier):
        return PoissonSubsampledGaussian(
            noise_multiplier=noise_multiplier,
            sampling_rate=self._expected_batch(problem) / problem.n_records,
            steps=self._n_steps(problem),
        )

    def _noise_std(self, problem, mechanism):
        return mechanism.noise_multiplier * problem.sensitivity(self.clip_norm)[0]

    def _gradients(self, records, problem, steps, rng):
        rate = self._expected_batch(problem) / problem.n_records
        samples = poisson_samples(rng, n_records=problem.n_records, sampling_rate=rate, steps=steps)
        _, clip_norm = problem.sensitivity(self.clip_norm)
        for block in (_sparse_blocks if sparse.issparse(records.X) else _dense_blocks)(records, samples):
            yield len(block.y), partial(_gradient, block, problem.loss, clip_norm)


def poisson_samples(rng, *, n_records, sampling_rate, steps):
    """A list with the sample of each step: increasing ndarrays of record numbers, each there with probability q.

    All n_records * steps coins are independent; the gaps between heads in the row of them all are geometric, and only
    those are drawn.

    Parameters
    ----------
    rng : numpy Generator
    n_records, steps : int >= 1
    sampling_rate : float in (0, 1], q
    """
    coins = n_records * steps
    expected = coins * sampling_rate
    parts, last = [], -1
    while last < coins:
        gaps = rng.geometric(sampling_rate, size=int(expected + 5 * np.sqrt(expected)) + 8)
        parts.append(last + np.cumsum(np.minimum(gaps, coins + 1)))  # a gap beyond the end may be huge
        last = parts[-1][-1]
    heads = np.concatenate(parts)
    ends = np.searchsorted(heads, n_records * np.arange(steps + 1))
    rows = heads % n_records
    return [rows[start:end] for start, end in pairwise(ends.tolist())]


def _gradient(block, loss, clip_norm, theta):
    return clipped_gradient(block, theta, loss, clip_norm)[0]


def _dense_blocks(records, samples):
    return map(records.take, samples)


def _sparse_blocks(records, samples):
    """One block for each sample. Their rows are taken together: indexing a sparse matrix costs more than its rows."""
    block = records.take(np.concatenate(samples))
    starts = block.X.indptr
    counts = np.diff(starts)
    values = block.X.data if block.scale is None else block.X.data * np.repeat(block.scale, counts)
    columns = block.X.indices.astype(np.intp)
    ends = np.cumsum([0] + [len(sample) for sample in samples]).tolist()
    for start, end in pairwise(ends):
        entries = slice(starts[start], starts[end])
        yield _SparseBlock(
            values=values[entries],
            columns=columns[entries],
            rows=np.repeat(np.arange(end - start), counts[start:end]),
            y=block.y[start:end],
            norms=block.norms[start:end],
            dimension=records.dimension,
            constant=block.constant,
        )


@dataclass(frozen=True, kw_only=True)
class _SparseBlock:
    """What `Block` is, from the entries of scaled sparse rows; both products at a tenth of scipy's overhead."""

    values: np.ndarray
    columns: np.ndarray
    rows: np.ndarray
    y: np.ndarray
    norms: np.ndarray
    dimension: int
    constant: bool

    def dot(self, theta):
        """Margins x_i.theta, ndarray (m,)."""
        u = np.bincount(self.rows, weights=self.values * theta[self.columns], minlength=len(self.y))
        return u + theta[-1] if self.constant else u

    def transposed_dot(self, weights):
        """sum_i weights_i x_i, ndarray (d,)."""
        total = np.bincount(self.columns, weights=self.values * weights[self.rows], minlength=self.dimension)
        if self.constant:
            total[-1] = weights.sum()
        return total


@estimator
class DPSGDClassifier(PrivateLinearClassifier, _PoissonSampledDescent):
    """Differentially private linear classification by DP-SGD.

    From theta = 0, epochs * ceil(n / batch_size) times: every record enters the sample with probability q =
    batch_size / n on its own; with per-record gradients clipped to C,

        theta <- theta - step( (sum of the sample's gradients + N(0, noise_multiplier^2 C^2 I)) / batch_size
                               + (l2_reg / n) theta ).

    The last theta is released. With m > 2 classes this is done once for each class against the rest, and the m-fold
    composition is what is granted.

    Parameters
    ----------
    epsilon : float > 0, nats; None where noise_multiplier is given
    delta : float inside (0, 1)
    loss : name or object of `explorer.learning.losses` for labels -1, +1: "logistic", "smoothed_hinge", "probit"
    clip_norm : float > 0, C, or None for the loss's own bound L on the gradient (with the constant column counted);
        needed where that is infinite
    data_norm : float > 0; longer rows are scaled down to it, never trusted. "max" takes the data's largest norm, which
        is not private, and says so with a PrivacyWarning
    noise_multiplier : float > 0, noise relative to C, or None for the smallest that grants (epsilon, delta); when it is
        given, epsilon must be None and `privacy_` says what it comes to
    batch_size : float > 0, expected number of records in a sample; n and more for all of them
    epochs : int >= 1
    learning_rate : float > 0
    optimizer : "sgd", "momentum", "adam" or an object of `explorer.learning.learners.optimizers` such as
    Momentum(decay=0.8) l2_reg : float >= 0, weight of the regulariser (l2_reg / 2) |theta|^2 for the *sum* of losses
    accountant : what must grant (epsilon, delta): "renyi" (integer orders 2 to 256, what the literature uses; fast),
        "profile" (`CompositionBound`: 5 to 10% less noise, seconds to calibrate) or a callable from
        PoissonSubsampledGaussian to a PrivacyBound, which is also given uses=m
    fit_intercept : bool; the constant column counts in the row norm, is regularised and perturbed like the rest
    classes : array of the labels, or None to take those in y for public
    random_state : None (seeded by the operating system), int or numpy Generator. A seed that others know voids privacy.
    callback : callable (step, theta) or None; an exception it raises aborts the fit. What it sees is covered by the
        guarantee.
    watch : callable (theta, noise) or None, after each step: the iterate, and the noise that was in the step's sum of
        gradients, both ndarray (d,). For demonstrations only: whoever knows the noise knows the data.

    Attributes
    ----------
    coef_ : ndarray (1, p) or (m, p), intercept_ : ndarray (1,) or (m,), classes_ : ndarray, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    ValueError for parameters out of range. FloatingPointError if |theta| exceeds 1e100, which takes an absurd learning
    rate or learning_rate * l2_reg above 2 n: clipped gradients alone cannot diverge. All iterates being private, this
    error tells nothing that the guarantee does not cover.

    Notes
    -----
    The number of records is taken for public. Batches cut from a shuffled pass over the data, as in most software, are
    not Poisson samples, and the numbers computed for those do not hold for them. The noise is drawn in floating point:
    `explorer.learning.noise` says what its low bits can reveal.

    References: Abadi et al. 2016; Mironov, Talwar, Zhang 2019.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> DPSGDClassifier(epsilon=1.0, epochs=10, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """


@estimator
class DPSGDRegressor(PrivateLinearRegressor, _PoissonSampledDescent):
    """Differentially private linear regression by DP-SGD: `DPSGDClassifier` for real targets.

    Targets need no bound: one record's gradient is bounded by the loss's slope or by clip_norm.

    Parameters
    ----------
    loss : name or object of `explorer.learning.losses` for real targets: "huber", "pseudo_huber", "log_cosh", "squared"
        (whose slope is unbounded: clip_norm must be given)
    epsilon, delta, clip_norm, data_norm, noise_multiplier, batch_size, epochs, learning_rate, optimizer, l2_reg,
    accountant, fit_intercept, random_state, callback, watch : as in `DPSGDClassifier`

    Attributes
    ----------
    coef_ : ndarray (p,), intercept_ : float, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `DPSGDClassifier`.

    References: Abadi et al. 2016.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 5000)[:, None]
    >>> DPSGDRegressor(epsilon=1.0, epochs=10, random_state=0).fit(X, 0.5 * X[:, 0]).score(X, 0.5 * X[:, 0]) > 0.9
    True
    """
