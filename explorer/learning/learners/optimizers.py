"""Optimisers for noisy gradients: the step subtracted from theta, given the gradients so far.

An optimiser is a frozen dataclass with `start`, which begins a fit. It only post-processes private gradients, so it
costs no privacy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from explorer.learning.types import Array
from explorer.validation import positive, real


class Optimizer(Protocol):
    """What DP-GD and DP-SGD require of an optimiser."""

    def start(self, *, learning_rate: float, dimension: int) -> Callable[[Array], Array]:
        """A function from the next gradient, ndarray (d,), to the step that is subtracted from theta."""
        ...


@dataclass(frozen=True)
class SGD:
    """step = learning_rate gradient."""

    def start(self, *, learning_rate: float, dimension: int) -> Callable[[Array], Array]:
        """A function from the next gradient, ndarray (d,), to the step that is subtracted from theta."""
        return lambda gradient: learning_rate * gradient


@dataclass(frozen=True, kw_only=True)
class Momentum:
    """velocity <- decay velocity + gradient, step = learning_rate velocity; decay in [0, 1).

    References: Polyak 1964.
    """

    decay: float = 0.9

    def __post_init__(self) -> None:
        _fraction("decay", self.decay)

    def start(self, *, learning_rate: float, dimension: int) -> Callable[[Array], Array]:
        """As `SGD.start`, from velocity 0."""
        velocity = np.zeros(dimension)

        def step(gradient: Array) -> Array:
            np.multiply(velocity, self.decay, out=velocity)
            np.add(velocity, gradient, out=velocity)
            return learning_rate * velocity

        return step


@dataclass(frozen=True, kw_only=True)
class Adam:
    """m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  step = learning_rate m' / (sqrt(v') + stabiliser),

    with m' = m / (1 - b1^t) and v' = v / (1 - b2^t), for the decays b1, b2 in [0, 1) of the mean and of the square.

    References: Kingma & Ba 2015, Algorithm 1.
    """

    decay: float = 0.9
    square_decay: float = 0.999
    stabiliser: float = 1e-8

    def __post_init__(self) -> None:
        _fraction("decay", self.decay)
        _fraction("square_decay", self.square_decay)
        positive("stabiliser", self.stabiliser)

    def start(self, *, learning_rate: float, dimension: int) -> Callable[[Array], Array]:
        """As `SGD.start`, from m = v = 0."""
        mean, square, steps = np.zeros(dimension), np.zeros(dimension), 0

        def step(gradient: Array) -> Array:
            nonlocal mean, square, steps
            steps += 1
            mean = self.decay * mean + (1 - self.decay) * gradient
            square = self.square_decay * square + (1 - self.square_decay) * gradient**2
            root = np.sqrt(square / (1 - self.square_decay**steps))
            return learning_rate / (1 - self.decay**steps) * mean / (root + self.stabiliser)

        return step


def _fraction(name: str, value: float) -> None:
    real(name, value, rule="inside [0, 1)", valid=lambda x: (x >= 0) & (x < 1))


optimizers: dict[str, Optimizer] = {"sgd": SGD(), "momentum": Momentum(), "adam": Adam()}


def optimizer_of(optimizer: str | Optimizer) -> Optimizer:
    """The optimiser called `optimizer`, or that object itself. Raises ValueError if it is neither."""
    if isinstance(optimizer, str) and optimizer in optimizers:
        return optimizers[optimizer]
    if not isinstance(optimizer, str) and hasattr(optimizer, "start"):
        return optimizer
    raise ValueError(f"optimizer must be one of {sorted(optimizers)} or have start(): got optimizer={optimizer!r}")
