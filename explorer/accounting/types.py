"""Types in the signatures of this package."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]  # functions that take a scalar return a numpy.float64, which behaves as one
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.int64]

LogProfile: TypeAlias = Callable[[FloatArray], FloatArray]
"""Elementwise: epsilon (nats, any real number or infinity) to the natural log of delta."""

Divergence: TypeAlias = Callable[[ArrayLike], FloatArray]
"""Elementwise: order alpha >= 1 to the Renyi divergence, nats."""
