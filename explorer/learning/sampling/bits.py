"""Sources of uniform random bits, from which all secret randomness of a learner is made.

`random_state=None` reads the operating system's generator for each request and keeps nothing, so that processes that a
fork creates never share bits. An int or a Generator gives reproducible bits, for demonstrations: whoever knows the seed
can compute the noise.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from explorer.learning.types import RandomState

Words = NDArray[np.uint64]
"""Independent uniform 64-bit words."""

_T = TypeVar("_T", np.random.Generator, np.random.RandomState)


class Bits(Protocol):
    """A source of independent uniform bits."""

    def words(self, count: int) -> Words:
        """`count` uniform words of 64 bits, ndarray (count,)."""
        ...


class SystemBits:
    """The operating system's cryptographic generator, read for each request; nothing is kept between requests."""

    def words(self, count: int) -> Words:
        """`count` uniform words of 64 bits, ndarray (count,)."""
        return np.frombuffer(os.urandom(8 * count), np.uint64)


class SeededBits:
    """The words of a numpy Generator: reproducible, and no secret to whoever knows its seed."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def words(self, count: int) -> Words:
        """`count` uniform words of 64 bits, ndarray (count,)."""
        return self._rng.integers(2**64, size=count, dtype=np.uint64)


def bits_of(random_state: RandomState) -> Bits:
    """The source of bits that `random_state` stands for; a Generator or RandomState is consumed, not copied."""
    if random_state is None:
        return SystemBits()
    if isinstance(random_state, np.random.RandomState):
        return SeededBits(independent(random_state, np.random.Generator))
    return SeededBits(np.random.default_rng(random_state))


def independent(random_state: np.random.Generator | np.random.RandomState, kind: type[_T]) -> _T:
    """A new generator of type `kind`, seeded by a hash of words that `random_state` draws.

    Two calls give different generators, and the state of the new one reveals nothing about the old one's outputs: not
    those before the call, nor those after it, as long as SHA-3 is hard to invert.
    """
    if isinstance(random_state, np.random.RandomState):
        words = random_state.randint(2**64, size=8, dtype=np.uint64)
    else:
        words = random_state.integers(2**64, size=8, dtype=np.uint64)
    seed = np.random.SeedSequence(int.from_bytes(hashlib.sha3_256(words.tobytes()).digest()))
    if kind is np.random.RandomState:
        return kind(np.random.MT19937(seed))
    return kind(np.random.PCG64(seed))


class FreshStreams:
    """For estimators with a `random_state`: a clone, a copy and a pickle each get a generator of their own.

    scikit-learn's `clone` copies a numpy Generator with its state: two clones would draw the same noise, and the
    difference of their releases would be free of it. A pickle of a fitted model with its Generator would let the noise
    be computed from the state. Each time, `independent` gives a new generator instead. None and ints are kept.
    """

    random_state: Any

    def __sklearn_clone__(self) -> Self:
        twin = super().__sklearn_clone__()  # pyright: ignore[reportAttributeAccessIssue] (of BaseEstimator)
        twin.random_state = _renewed(self.random_state)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())  # pyright: ignore
        if "random_state" in state:
            state["random_state"] = _renewed(state["random_state"])
        return state


def _renewed(random_state: Any) -> Any:
    if isinstance(random_state, np.random.RandomState):
        return independent(random_state, np.random.RandomState)
    if isinstance(random_state, np.random.Generator):
        return independent(random_state, np.random.Generator)
    return random_state
