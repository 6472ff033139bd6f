"""The symbolic route: variables with sizes that may be names, and einsum on them."""

from __future__ import annotations

from collections.abc import Iterable

from hesse.errors import ArgumentError, ShapeError
from hesse.frontends.expression import Expression
from hesse.frontends.memory import protect
from hesse.frontends.products import einsum
from hesse.ir import Size
from hesse.ir import variable as variable_node
from hesse.ir.attributes import ATTRIBUTES, STRUCTURES, with_implied

__all__ = ["einsum", "variable"]


def variable(
    name: str, shape: Iterable[Size] = (), symmetric: bool = False, attributes: Iterable[str] = ()
) -> Expression:
    """A named variable. Sizes are numbers or names; `symmetric` is a fact the derivatives use.

    `attributes` names more facts: "symmetric", "antisymmetric", "diagonal" and "psd" (positive definite
    where it must be inverted) of a square matrix, "positive" of all entries.

    >>> import hesse
    >>> hesse.variable("A", ("n", "n"), symmetric=True).shape
    ('n', 'n')
    >>> x, A = hesse.variable("x", ("n",)), hesse.variable("A", ("n", "n"), attributes=["antisymmetric"])
    >>> print(x @ A @ x)
    0
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
    facts = _facts(name, [attributes] if isinstance(attributes, str) else list(attributes), symmetric)
    for fact in facts:
        if fact in STRUCTURES and (len(sizes) != 2 or sizes[0] != sizes[1]):
            raise ShapeError(f"a {fact} variable must be a square matrix, not of shape {sizes}")
    found = Expression(variable_node(name, sizes, with_implied(facts)))
    protect(found, f"the variable {name}")
    return found


def _facts(name: str, attributes: list[str], symmetric: bool) -> list[str]:
    for fact in attributes:
        if fact not in ATTRIBUTES:
            raise ArgumentError(f"{name} cannot be declared {fact!r}; attributes are {', '.join(ATTRIBUTES)}")
    facts = [*attributes, *(["symmetric"] if symmetric and "symmetric" not in attributes else [])]
    if "antisymmetric" in facts and len(facts) > 1:
        others = " and ".join(fact for fact in facts if fact != "antisymmetric")
        raise ArgumentError(f"{name} is declared antisymmetric and {others}: only zero would be; drop one")
    return facts
