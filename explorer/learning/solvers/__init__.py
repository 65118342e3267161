"""Solvers: functions of one signature, `Solver`, each stopped by the verified gradient norm.

    solver(objective, *, gradient_tol, start=None, max_passes=10_000, random_state=None, callback=None)

Parameters
----------
objective : PerturbedObjective
gradient_tol : float > 0, tau
start : ndarray (d,) or None for zeros
max_passes : number >= 1 or infinity; once max_passes times n single-record gradients are spent, the next gradient of
    the whole objective is the last
random_state : None, int or numpy Generator
callback : callable (n_gradient_evaluations, gradient_norm) or None, called after each gradient of the whole objective;
    an exception it raises ends the solver and propagates

Returns
-------
scipy's OptimizeResult: x (d,), the evaluated point of smallest gradient norm; jac (d,), the gradient computed there,
and gradient_norm; success, whether gradient_norm <= gradient_tol; message; n_gradient_evaluations, in the unit of
`explorer.learning.solvers.tracing`; trace, ndarray (k, 2), of the count and the gradient norm at each gradient of the
whole objective. Every solver also ends where the norm is at the floating-point floor and no longer decreases.

Raises
------
ValueError for parameters out of range.
"""

from explorer.learning.solvers.accelerated import accelerated
from explorer.learning.solvers.dispatch import SOLVERS, Solver, choose, minimise
from explorer.learning.solvers.gradient_descent import gradient_descent
from explorer.learning.solvers.lbfgs import lbfgs
from explorer.learning.solvers.newton import newton
from explorer.learning.solvers.newton_cg import newton_cg
from explorer.learning.solvers.race import race
from explorer.learning.solvers.sag import sag
from explorer.learning.solvers.subsampled_newton import subsampled_newton
from explorer.learning.solvers.svrg import svrg

__all__ = [
    "SOLVERS",
    "Solver",
    "accelerated",
    "choose",
    "gradient_descent",
    "lbfgs",
    "minimise",
    "newton",
    "newton_cg",
    "race",
    "sag",
    "subsampled_newton",
    "svrg",
]
