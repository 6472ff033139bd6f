"""The public functions."""

from hesse.api.check import check
from hesse.api.derivatives import (
    compile,
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
from hesse.api.symbolic import einsum, variable

__all__ = [
    "Formula",
    "check",
    "compile",
    "derivative",
    "diagonal",
    "diff",
    "einsum",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "laplacian",
    "parse",
    "value_and_grad",
    "variable",
    "vjp",
]
