"""Solvers: plain functions of one signature, each stopped by the verified gradient norm."""

from explorer.learning.solvers.lbfgs import lbfgs

__all__ = ["lbfgs", "minimise"]


def minimise(objective, *, solver="auto", gradient_tol, max_passes=10_000, callback=None):
    return lbfgs(objective, gradient_tol=gradient_tol, max_passes=max_passes, callback=callback)
