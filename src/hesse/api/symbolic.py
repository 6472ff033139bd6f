"""The symbolic route: variables with sizes that may be names, and einsum on them."""

from __future__ import annotations

from collections.abc import Iterable

from hesse.errors import ArgumentError, ShapeError
from hesse.frontends.expression import Expression
from hesse.frontends.products import einsum
from hesse.ir import Size
from hesse.ir import variable as variable_node

__all__ = ["einsum", "variable"]


def variable(name: str, shape: Iterable[Size] = (), symmetric: bool = False) -> Expression:
    """A named variable. Sizes are numbers or names; `symmetric` is a fact the derivatives use.

    >>> import hesse
    >>> hesse.variable("A", ("n", "n"), symmetric=True).shape
    ('n', 'n')
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ArgumentError(f"the name of a variable must be an identifier, not {name!r}")
    if not isinstance(shape, Iterable | int):
        raise ShapeError(f"a shape is a tuple of sizes, not {shape!r}")
    sizes = (shape,) if isinstance(shape, str | int) else tuple(shape)
    for size in sizes:
        valid = size.isidentifier() if isinstance(size, str) else isinstance(size, int) and size >= 0
        if isinstance(size, bool) or not valid:
            raise ShapeError(f"a size must be a number or a name, not {size!r}")
    if symmetric and (len(sizes) != 2 or sizes[0] != sizes[1]):
        raise ShapeError(f"a symmetric variable must be a square matrix, not of shape {sizes}")
    return Expression(variable_node(name, sizes, ["symmetric"] if symmetric else []))
