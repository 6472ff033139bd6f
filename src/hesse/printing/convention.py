"""The layout convention of derivatives in one line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

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


class VecNote(NamedTuple):
    """A name for the matrix of a derivative, and what it means."""

    name: str
    text: str


def vec_note(matrix: str, function_shape: Shape, by: Sequence[Variable], taken: Collection[str]) -> VecNote:
    """What the matrix of a derivative of order 3 or 4 means; `taken` are names that it may not use.

    >>> from hesse.ir import variable
    >>> vec_note("kron(B', A)", ("m", "p"), [variable("X", ("n", "k"))], "ABX").text
    'vec(dF) = M*vec(dX), where F is the function and vec stacks the columns of a matrix'
    """
    *before, last = by
    kind = "derivative" if function_shape or len(before) > 1 else "gradient"
    what = f"the {kind} by {_listed([variable.name for variable in before])}" if before else "the function"
    names = [name for name in ("GFRSYQ" if before else "FGRSYQ") if name not in taken]
    value = names[0] if names else "value"
    name = next((name for name in "MJDNZW" if name not in taken and name != value), "matrix")
    rank = len(function_shape) + sum(variable.rank for variable in before)
    left, right = (
        f"vec(d{symbol})" if axes == 2 else f"d{symbol}"
        for symbol, axes in ((value, rank), (last.name, last.rank))
    )
    words = f"{left} = {name}*{right}, where {value} is {what} and vec stacks the columns of a matrix"
    more = "; the commutation matrix takes vec(X) to vec(X')" if "commutation(" in matrix else ""
    return VecNote(name, words + more)


def _entry(name: str, rank: int, letters: Iterator[str]) -> str:
    own = [next(letters) for _ in range(rank)]
    return f"{name}[{','.join(own)}]" if own else name


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
