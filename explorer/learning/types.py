"""Type aliases of arguments that many modules share."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
"""An array of doubles; docstrings give its shape."""

FeatureMatrix: TypeAlias = Any
"""Feature rows (n, p): an array, nested sequence, DataFrame, scipy sparse matrix or Dask array.

`Any`, since they have no common type: Dask and pandas are optional for a fit, and scipy's sparse classes are not
annotated. `explorer.learning.records` checks them when a learner is fitted.
"""

Scalar: TypeAlias = float | np.floating
"""A Python or NumPy floating-point number."""

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
"""A source of randomness as scikit-learn takes it; None takes entropy from the operating system."""
