"""The public functions."""

from hesse.api.check import check
from hesse.api.custom import custom_derivative
from hesse.api.derivatives import (
    derivative,
    diagonal,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    laplacian,
    value_and_grad,
    vjp,
)
from hesse.api.formula import Formula, diff, parse
from hesse.api.implicit import fixed_point, root
from hesse.api.symbolic import einsum, variable

__all__ = [
    "Formula",
    "check",
    "custom_derivative",
    "derivative",
    "diagonal",
    "diff",
    "einsum",
    "fixed_point",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "laplacian",
    "parse",
    "root",
    "value_and_grad",
    "variable",
    "vjp",
]
