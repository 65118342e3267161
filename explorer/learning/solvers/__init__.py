"""Solvers: plain functions of one signature, each stopped by the verified gradient norm."""

from explorer.learning.solvers.lbfgs import lbfgs

__all__ = ["lbfgs"]
