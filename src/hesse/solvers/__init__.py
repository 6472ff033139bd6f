"""Solvers on manifolds: minima of functions of tensor trains and matrices of fixed rank."""

from hesse.solvers.minimize import METHODS, minimize
from hesse.solvers.result import Result, Step

__all__ = ["METHODS", "Result", "Step", "minimize"]
