"""The layout convention of derivatives in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hesse.errors import ShapeError
from hesse.ir import Node, Shape, Variable
from hesse.printing.notation import letter


def layout_note(node: Node, function_shape: Shape, by: Sequence[Variable]) -> str:
    """What the axes of a derivative mean: those of the function come first, then those of each variable.

    >>> from hesse.ir import variable
    >>> x = variable("x", ("n",))
    >>> layout_note(variable("g", ("n",)), (), [x])
    'Layout: the gradient has the shape of x: entry [i] is the derivative of f by x[i].'
    """
    expected = sum((variable.shape for variable in by), tuple(function_shape))
    if node.shape != expected:
        names = _listed([variable.name for variable in by])
        raise ShapeError(
            f"a derivative of a function of shape {tuple(function_shape)} by {names} has shape {expected}, "
            f"not {node.shape}; give the variables in the order of differentiation"
        )
    letters = iter(letter(label) for label in range(node.rank))
    output = _entry("f", len(function_shape), letters)
    inputs = [_entry(variable.name, variable.rank, letters) for variable in by]
    if not by:
        return "Layout: this is the function itself."
    what = f"the derivative of {output} by {_listed(inputs)}"
    if not node.rank:
        return f"Layout: {what}, a scalar."
    entry = _entry("", node.rank, iter(letter(label) for label in range(node.rank)))
    if not function_shape and len(by) == 1:
        return f"Layout: the gradient has the shape of {by[0].name}: entry {entry} is {what}."
    if function_shape:
        return f"Layout: axes of the function first, as A is the Jacobian of A*x: entry {entry} is {what}."
    return f"Layout: axes in the order of differentiation: entry {entry} is {what}."


def vec_note(function_shape: Shape, by: Sequence[Variable]) -> str:
    """What the matrix M of a derivative of order 3 or 4 means.

    >>> from hesse.ir import variable
    >>> vec_note((), [variable("U", ("m", "k")), variable("V", ("n", "k"))])
    'vec(dG) = M*vec(dV): G is the gradient by U, and vec stacks the columns of a matrix'
    """
    *before, last = by
    kind = "derivative" if function_shape or len(before) > 1 else "gradient"
    name = "G" if before else "F"
    what = f"the {kind} by {_listed([variable.name for variable in before])}" if before else "the function"
    rank = len(function_shape) + sum(variable.rank for variable in before)
    changes = [
        f"vec(d{symbol})" if axes == 2 else f"d{symbol}"
        for symbol, axes in ((name, rank), (last.name, last.rank))
    ]
    return f"{changes[0]} = M*{changes[1]}: {name} is {what}, and vec stacks the columns of a matrix"


def _entry(name: str, rank: int, letters: Iterator[str]) -> str:
    own = [next(letters) for _ in range(rank)]
    return f"{name}[{','.join(own)}]" if own else name


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
