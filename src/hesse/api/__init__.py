"""The public functions of functions; those of formulas are in `hesse.api.formula`."""

from hesse.api import scipy_calls, scipy_refusals
from hesse.api.check import check
from hesse.api.custom import custom_derivative
from hesse.api.derivatives import (
    compile,
    derivative,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    value_and_grad,
    vjp,
)
from hesse.api.implicit import fixed_point, root
from hesse.api.matrix_functions import logm, sqrtm
from hesse.api.minimum import argmin
from hesse.api.operators import biharmonic, diagonal, laplacian, partial, taylor
from hesse.api.paths import branching
from hesse.api.recurrence import scan
from hesse.api.symbolic import einsum, variable

__all__ = [
    "argmin",
    "biharmonic",
    "branching",
    "check",
    "compile",
    "custom_derivative",
    "derivative",
    "diagonal",
    "einsum",
    "fixed_point",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "laplacian",
    "logm",
    "partial",
    "root",
    "scan",
    "scipy_calls",
    "scipy_refusals",
    "sqrtm",
    "taylor",
    "value_and_grad",
    "variable",
    "vjp",
]
