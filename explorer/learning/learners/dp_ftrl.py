"""DP-FTRL: prefix sums of clipped gradients by tree aggregation, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from explorer.accounting import Gaussian, GaussianLowerBound, TreeAggregation, calibrate_gaussian
from explorer.learning.grid import added, doubles
from explorer.learning.learners.descent import INTEGER_SUMS, LARGEST_SQUARE, integer_gradients
from explorer.learning.learners.linear import (
    PrivateLearner,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    Problem,
    Release,
)
from explorer.learning.losses import Loss
from explorer.learning.privacy import ARITHMETIC, NEIGHBOURS, RANDOMNESS, PrivacyStatement
from explorer.learning.sampling.bits import Bits
from explorer.learning.sampling.coins import below
from explorer.learning.sampling.rounded_normal import rounded_normal
from explorer.learning.types import Array, RandomState
from explorer.validation import natural, positive

_ASSUMPTIONS = (
    f"{NEIGHBOURS}; the number of records is not used",
    "each record's batch is drawn independently of the other records; no privacy amplification is claimed for it",
    "the class labels and the number of features are public",
    *RANDOMNESS,
    *INTEGER_SUMS,
    *ARITHMETIC[1:],
)


def prefix_noise(steps: int, draw: Callable[[], Any]) -> Iterator[Any]:
    """The noise of the prefix sums S_1, ..., S_steps of a stream, from independent noise in the nodes of a binary tree.

    Every complete node over 2^k leaves carries independent noise on the sum of its leaves. A prefix is a sum of at most
    log2(steps) + 1 nodes, one for each 1 in the binary digits of its length. A node's two children, whose estimates
    have variance v each, give a second estimate of its sum; weighting both by inverse variances leaves noise of
    variance 1 / (1 + 1 / (2v)), which tends to 1/2. It only post-processes the noisy nodes, so it costs no privacy.

    Parameters
    ----------
    steps : int >= 1
    draw : callable, () to the noise of one node, scalar or ndarray: independent, of variance 1

    Yields
    ------
    The noise of each prefix sum in turn, of the type that `draw` returns.

    References: Dwork et al. 2010; Honaker 2015 (the estimate from below); Kairouz et al. 2021.
    """
    nodes = []  # estimates of the nodes whose sum is the prefix
    for step in range(1, steps + 1):
        node, variance = draw(), 1.0
        for _ in range(_trailing_zeros(step)):  # the node is a right child: merge it with its sibling into their parent
            children = nodes.pop() + node
            variance = _combined(variance)
            node = variance * draw() + (1 - variance) * children
        nodes.append(node)
        yield sum(nodes)


def prefix_variance(step: int) -> float:
    """Variance of the noise in the prefix sum S_step, in units of a node's: float."""
    total, variance = 0.0, 1.0
    for level in range(step.bit_length()):
        total += variance * (step >> level & 1)
        variance = _combined(variance)
    return total


def tree_noise_covariance(steps: int) -> Array:
    """Covariance, over steps, of the noise that tree aggregation adds to each step's gradient.

    Step t's noise is that of S_t minus that of S_(t-1). For comparison: the covariance is the identity for DP-SGD,
    whose noise is independent in each step, and all ones for objective perturbation, whose noise is one linear term.
    The covariance of the prefix sums is the cumulative sum over both axes.

    Parameters
    ----------
    steps : int >= 1

    Returns
    -------
    ndarray (steps, steps), in units of the variance of a node's noise
    """
    steps = natural("steps", steps)
    count = sum(steps >> level for level in range(steps.bit_length()))  # of complete nodes
    unit = iter(np.eye(count))
    prefixes = np.array(list(prefix_noise(steps, lambda: next(unit))))
    increments = np.diff(prefixes, axis=0, prepend=0)
    return increments @ increments.T


def _trailing_zeros(step: int) -> int:
    return (step & -step).bit_length() - 1


def _combined(variance: float) -> float:
    """Variance of the inverse-variance average of a node's noise (1) and its two children's sum (2 variance)."""
    return 2 * variance / (1 + 2 * variance)


class _NoisyNodes:
    """The published values of a tree's nodes: exact sums of their leaves in integers, plus rounded Gaussian noise.

    Noise is added to every node before anything is computed from the nodes, so that what is computed, in doubles, is
    post-processing. Called for the noise of a node by `prefix_noise`, which is linear, it returns the node's value;
    what `prefix_noise` yields are then estimates of the prefix sums themselves.
    """

    def __init__(self, noise_std: float, grid: float, dimension: int, bits: Bits) -> None:
        self._scale, self._grid = Fraction(noise_std) / Fraction(grid), grid
        self._dimension, self._bits = dimension, bits
        self._sums: list[np.ndarray] = []
        self._complete = False

    def start(self) -> Callable[[], Array]:
        """Begin a new tree; return the function that gives the value of the next node."""
        self._sums = []
        return self._next_value

    def add_leaf(self, total: np.ndarray) -> None:
        """The sum of integers of the next leaf."""
        self._sums.append(total)
        self._complete = False

    def _next_value(self) -> Array:
        if self._complete:  # the leaf's own node has its value: this is the parent of the last two
            right = self._sums.pop()
            self._sums[-1] = added(self._sums[-1], right)
        self._complete = True
        noise = rounded_normal(self._scale, self._dimension, self._bits)
        return doubles(added(self._sums[-1], noise)) * self._grid


class _TreeAggregationLearner(PrivateLearner):
    """DP-FTRL on one problem; the parameters are those of DPFTRLClassifier."""

    epsilon: float
    delta: float
    loss: str | Loss
    clip_norm: float | None
    steps: int
    epochs: int
    learning_rate: float | None
    output_noise_std: float
    callback: Callable[[int, float], object] | None
    watch: Callable[[Array, Array], object] | None

    _reads_single_records = True

    def _plan(self, problem: Problem) -> PrivacyStatement:
        epsilon = positive("epsilon", self.epsilon)
        mechanism = TreeAggregation(
            noise_std=1.0,
            lipschitz=problem.sensitivity(self.clip_norm)[0],
            steps=self.steps,
            epochs=self.epochs,
        )
        sensitivity = np.sqrt(problem.uses) * mechanism.gaussian.sensitivity  # of the trees of all classes
        noise_std = calibrate_gaussian(epsilon=epsilon, delta=self.delta, sensitivity=sensitivity).value
        together = Gaussian(noise_std=noise_std, sensitivity=sensitivity)
        return PrivacyStatement(
            epsilon=epsilon,
            delta=float(GaussianLowerBound(together).delta(epsilon)),
            bound="the analytic Gaussian mechanism",
            mechanism=TreeAggregation(
                noise_std=noise_std, lipschitz=mechanism.lipschitz, steps=mechanism.steps, epochs=mechanism.epochs
            ),
            uses=problem.uses,
            assumptions=_ASSUMPTIONS,
        )

    def _release(self, records: Any, problem: Problem, plan: PrivacyStatement, draws: Bits) -> Release:
        mechanism, bits = plan.mechanism, draws
        sums = integer_gradients(problem, self.clip_norm)
        rate = self._learning_rate(mechanism)
        batches = independent_batches(records.n_records, steps=mechanism.steps, bits=bits)
        nodes = _NoisyNodes(mechanism.noise_std, sums.grid, problem.dimension, bits)
        theta, evaluations = np.zeros(problem.dimension), 0
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(mechanism.epochs):
                start, total, before = theta, np.zeros(problem.dimension), np.zeros(problem.dimension)
                estimates = prefix_noise(mechanism.steps, nodes.start())
                for rows in batches:
                    (gradient,) = sums.of_block(records.take(rows), theta)
                    nodes.add_leaf(gradient)
                    estimate = next(estimates)
                    theta = start - rate * estimate
                    if not theta @ theta <= LARGEST_SQUARE:
                        raise FloatingPointError(
                            "theta overflowed: nothing is released; learning_rate or output_noise_std must be smaller: "
                            f"got a learning rate of {rate:.6g}"
                        )
                    evaluations += len(rows)
                    if self.callback is not None:
                        self.callback(evaluations, float(np.linalg.norm(doubles(gradient)) * sums.grid))
                    if self.watch is not None:
                        total += doubles(gradient) * sums.grid
                        self.watch(theta.copy(), (estimate - total) - before)
                        before = estimate - total
        return Release(theta, evaluations)

    def _learning_rate(self, mechanism: TreeAggregation) -> float:
        if self.learning_rate is not None:
            return positive("learning_rate", self.learning_rate)
        noise = mechanism.noise_std * np.sqrt(mechanism.epochs * prefix_variance(mechanism.steps))
        return positive("output_noise_std", self.output_noise_std) / noise


def independent_batches(n_records: int, *, steps: int, bits: Bits) -> list[np.ndarray]:
    """A batch for each record, uniform and independent of the others': list of `steps` ascending index arrays.

    Not a shuffle into batches of fixed size, in which adding a record would move others to another batch. Here an
    added record joins one batch and leaves the others unchanged.
    """
    batch = below(steps, n_records, bits)
    order = np.argsort(batch, kind="stable")
    ends = np.searchsorted(batch[order], np.arange(steps + 1))
    return [order[low:high] for low, high in pairwise(ends)]


class DPFTRLClassifier(PrivateLinearClassifier, _TreeAggregationLearner):
    """Differentially private linear classification by DP-FTRL (follow the regularised leader, tree aggregation).

    Every record is assigned to one of `steps` batches at random, independently of the others. An epoch passes over the
    batches in a fixed order; with S_t the sum of the first t batches' gradients, clipped per record to C and each taken
    at the iterate of its step,

        theta_t = theta_0 - learning_rate (S_t + noise),

    the minimiser of (S_t + noise).theta + |theta - theta_0|^2 / (2 learning_rate). The noise comes from a binary tree
    over the steps (`prefix_noise`): it is correlated, and in S_t grows with log t, not with t. The next epoch has a new
    tree and starts at the last theta; the last theta of the last epoch is released. One record is in one leaf, hence in
    at most height = floor(log2 steps) + 1 nodes of each tree: the whole fit is a Gaussian mechanism of sensitivity
    C sqrt(epochs height), and sqrt(m) times as much with one tree for each of m > 2 classes.

    Parameters
    ----------
    epsilon : float > 0, nats
    delta : float inside (0, 1)
    loss : name or object of `explorer.learning.losses` for labels -1, +1: "logistic", "smoothed_hinge", "probit"
    clip_norm : float > 0, C, or None for the loss's bound L on the gradient (including the constant column); required
        where that is infinite
    steps : int >= 1, batches in an epoch; a public number, not derived from the number of records. A power of 2 minus
        one is the worst choice, since its prefix is a sum of the most nodes. The iterates overshoot where
        learning_rate times the curvature of a batch's sum exceeds 2: use more steps for many records
    epochs : int >= 1
    learning_rate : float > 0, for *sums* of gradients, or None for the one at which the accumulated noise of all
        epochs has standard deviation output_noise_std in each released coefficient (ignoring curvature)
    output_noise_std : float > 0, for this rule; not used when learning_rate is given
    data_norm : float > 0, B; longer rows are scaled down to it. "max" takes the largest row norm of the data, which is
        not private and raises a PrivacyWarning
    fit_intercept : bool; the constant column counts in the row norm and is learned like the others
    classes : array of the labels, or None to treat the labels found in y as public
    random_state : None (seeded by the operating system), int or numpy Generator. A seed known to others voids privacy.
    callback : callable (n_gradient_evaluations, norm of the batch's gradient) or None, after each step; an exception
        it raises aborts the fit. Its arguments are not private.
    watch : callable (theta, noise) or None, after each step: the iterate, and the change of the noise in the prefix sum
        since the previous step, both ndarray (d,). For demonstrations only: the noise is secret.

    Attributes
    ----------
    coef_ : ndarray (1, p) or (m, p), intercept_ : ndarray (1,) or (m,), classes_ : ndarray, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    ValueError for parameters out of range. FloatingPointError if |theta| exceeds 1e100, which takes an extreme
    learning rate. All iterates are private, so this error reveals nothing that the guarantee does not cover.

    Notes
    -----
    Gradients are summed in integers and the noise of every node is exact, so the guarantee holds for the bits of all
    iterates: docs/mathematics/floating_point.md, Theorem 5.

    References: Kairouz et al. 2021, Algorithm 1 with tree restarts (there one record is replaced by a zero gradient);
    Honaker 2015; Smith & Thakurta 2013.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, centers=[[-0.5, 0], [0.5, 0]], cluster_std=0.2, random_state=0)
    >>> DPFTRLClassifier(epsilon=1.0, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        loss: str | Loss = "logistic",
        clip_norm: float | None = None,
        steps: int = 64,
        epochs: int = 4,
        learning_rate: float | None = None,
        output_noise_std: float = 0.15,
        data_norm: float | Literal["max"] = 1.0,
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        random_state: RandomState = None,
        callback: Callable[[int, float], object] | None = None,
        watch: Callable[[Array, Array], object] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.clip_norm = clip_norm
        self.steps = steps
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.output_noise_std = output_noise_std
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.random_state = random_state
        self.callback = callback
        self.watch = watch


class DPFTRLRegressor(PrivateLinearRegressor, _TreeAggregationLearner):
    """Differentially private linear regression by DP-FTRL: `DPFTRLClassifier` for real targets.

    Targets need no bound: one record's gradient is bounded through the loss's derivative or by clip_norm.

    Parameters
    ----------
    loss : name or object of `explorer.learning.losses` for real targets: "huber", "pseudo_huber", "log_cosh", "squared"
        (whose derivative is unbounded: clip_norm is required)
    epsilon, delta, clip_norm, steps, epochs, learning_rate, output_noise_std, data_norm, fit_intercept, random_state,
    callback, watch : as in `DPFTRLClassifier`

    Attributes
    ----------
    coef_ : ndarray (p,), intercept_ : float, n_features_in_ : int
    privacy_ : PrivacyStatement
    n_gradient_evaluations_ : int, of single records

    Raises
    ------
    As `DPFTRLClassifier`.

    References: Kairouz et al. 2021.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        loss: str | Loss = "huber",
        clip_norm: float | None = None,
        steps: int = 64,
        epochs: int = 4,
        learning_rate: float | None = None,
        output_noise_std: float = 0.15,
        data_norm: float | Literal["max"] = 1.0,
        fit_intercept: bool = True,
        random_state: RandomState = None,
        callback: Callable[[int, float], object] | None = None,
        watch: Callable[[Array, Array], object] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.clip_norm = clip_norm
        self.steps = steps
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.output_noise_std = output_noise_std
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.callback = callback
        self.watch = watch
