"""Front ends: what users write, turned into expressions."""

from hesse.frontends import joining, products, reductions, structural, ufuncs
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_expression, as_node, constant
from hesse.frontends.products import einsum

__all__ = ["Expression", "as_expression", "as_node", "constant", "einsum", "joining", "products", "reductions", "structural", "ufuncs"]
