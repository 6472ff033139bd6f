"""The public functions of functions; those of formulas are in `hesse.api.formula`."""

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
from hesse.api.symbolic import einsum, variable

__all__ = [
    "check",
    "compile",
    "derivative",
    "diagonal",
    "einsum",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "laplacian",
    "value_and_grad",
    "variable",
    "vjp",
]
