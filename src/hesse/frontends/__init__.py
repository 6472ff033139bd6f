"""Front ends: what users write, turned into expressions."""

from hesse.frontends import (
    choosing,
    comparing,
    complex_functions,
    complex_writes,
    complexes,
    decompositions,
    fourier,
    joining,
    linear_algebra,
    products,
    reductions,
    sampling,
    scipy_functions,
    special,
    statistics,
    structural,
    taking,
    ufuncs,
    writing,
)
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_expression, as_node, constant
from hesse.frontends.products import einsum

__all__ = [
    "Expression",
    "as_expression",
    "as_node",
    "choosing",
    "comparing",
    "complex_functions",
    "complex_writes",
    "complexes",
    "constant",
    "decompositions",
    "einsum",
    "fourier",
    "joining",
    "linear_algebra",
    "products",
    "reductions",
    "sampling",
    "scipy_functions",
    "special",
    "statistics",
    "structural",
    "taking",
    "ufuncs",
    "writing",
]
