"""Operations that move entries about by index, accumulate or order them, and views built from affine axes.

Gathering and cumulative sums are linear: their records hold the transpose, and they carry trailing axes
along. Sorting and extrema are a locally constant index (an integer tensor) and a gather.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hesse.errors import ArgumentError, ShapeError
from hesse.ir import (
    Add,
    Apply,
    Constant,
    Einsum,
    Node,
    Shape,
    Size,
    Variable,
    broadcast,
    combine,
    concatenate,
    constant,
    einsum,
    label_axis,
    multiply,
    pairwise,
    plain_axes,
    reshape,
    select,
    total,
    uniform,
    view,
)
from hesse.ops.behaviour import Behaviour
from hesse.ops.ranges import Range
from hesse.ops.registry import General, Linear, elementwise, operation, register

WHOLE = slice(None)


def gather(x: Node, index: Node) -> Node:
    """`x[index]` along axis 0, shape `index.shape + x.shape[1:]`; negative positions count from the end."""
    _check_index("gather", index)
    return operation("gather", x, index)


def scatter(u: Node, index: Node, size: int) -> Node:
    """The transpose of `gather`: add `u[k]` to entry `index[k]` of zeros with a first axis of `size`."""
    _check_index("scatter", index)
    return operation("scatter", u, index, params=(size,))


def take_along(x: Node, index: Node) -> Node:
    """Entries of the last axis of `x`, chosen for each row by `index`.

    `index` has the axes of `x` before the last one, and then one more (several entries of each row, as
    `numpy.take_along_axis`) or none (one entry).
    """
    _check_index("take_along", index)
    rows = x.shape[:-1]
    if not x.shape or index.shape[: len(rows)] != rows or index.rank > x.rank:
        raise ShapeError(
            f"take_along from {x.shape} needs an index of shape {rows} or {(*rows, 'm')}, not {index.shape}"
        )
    if not rows:
        return gather(x, index)
    flat = reshape(x, (math.prod(_concrete("take_along", size) for size in x.shape),))
    return gather(flat, operation("flat_index", index, params=(x.shape[-1], len(rows))))


def cumulative_sum(x: Node) -> Node:
    """Running sums along axis 0."""
    return operation("cumulative_sum", x)


def cumulative_product(x: Node) -> Node:
    """Running products along axis 0. Derivatives are exact where entries are zero."""
    return operation("cumulative_product", x)


def product(x: Node) -> Node:
    """The product along axis 0. Derivatives are exact where entries are zero."""
    if x.shape[:1] == (0,):
        return uniform(1.0, x.shape[1:])
    return operation("product", x)


def argmax(x: Node) -> Node:
    """The position of the first maximum of the last axis (of the first NaN, if there is one)."""
    return operation("argmax", x)


def argmin(x: Node) -> Node:
    """The position of the first minimum of the last axis (of the first NaN, if there is one)."""
    return operation("argmin", x)


def argsort(x: Node) -> Node:
    """The stable order that sorts the last axis, NaN last."""
    return operation("argsort", x)


def sort(x: Node) -> Node:
    """The last axis in ascending order, NaN last."""
    return take_along(x, argsort(x))


def maximum_along(x: Node) -> Node:
    """The maximum of the last axis; among equal ones the first gets the derivative."""
    return take_along(x, argmax(x))


def shared_maximum(x: Node) -> Node:
    """The maximum of the last axis; equal ones share the derivative, as in JAX and in `torch.amax`."""
    largest = broadcast(maximum_along(x), x.shape, range(x.rank - 1))
    is_largest = elementwise("equal", x, largest)  # nowhere if there is a nan, which makes the quotient nan
    return total(elementwise("where", is_largest, x, 0.0), [x.rank - 1]) / total(is_largest, [x.rank - 1])


def minimum_along(x: Node) -> Node:
    """The minimum of the last axis; among equal ones the first gets the derivative."""
    return take_along(x, argmin(x))


def unfold(x: Node, axis: int, window: int, step: int = 1) -> Node:
    """Sliding windows `x[step*i + k]`: `i` takes the place of the axis, `k` is a new last axis."""
    if not -x.rank <= axis < x.rank:
        raise ShapeError(f"unfold along axis {axis} of a tensor with {x.rank} axes")
    axis %= x.rank
    size = _concrete("unfold", x.shape[axis])
    if not 1 <= window <= size or step < 1:
        raise ShapeError(f"unfold of an axis of size {size} with window {window} and step {step}")
    shape = (*x.shape[:axis], (size - window) // step + 1, *x.shape[axis + 1 :], window)
    labels = plain_axes(x.rank + 1)
    inner = list(labels[:-1])
    inner[axis] = combine([(step, labels[axis]), (1, labels[-1])])
    return view(x, inner, labels, shape, shape)


def tril(x: Node, k: int = 0) -> Node:
    """The last two axes with zeros above the k-th diagonal."""
    rows, columns = _matrix_sizes("tril", x)
    return _masked(x, np.tri(rows, columns, k))


def triu(x: Node, k: int = 0) -> Node:
    """The last two axes with zeros below the k-th diagonal."""
    rows, columns = _matrix_sizes("triu", x)
    return _masked(x, 1.0 - np.tri(rows, columns, k - 1))


def _masked(x: Node, mask: np.ndarray) -> Node:
    """Matrices with zeros where the mask has them.

    What is left out leaves no trace, should it be infinite or have infinite slopes. Products of variables
    have none: with the mask they are one product.
    """
    factors = x.operands if isinstance(x, Einsum | Add) else (x,)
    if all(isinstance(factor, Variable | Constant) for factor in factors):
        return pairwise("...ij,ij->...ij", x, constant(mask))
    whole = broadcast(constant(mask), x.shape, (x.rank - 2, x.rank - 1))
    return elementwise("where", whole, x, uniform(0.0, x.shape))


def _matrix_sizes(name: str, x: Node) -> tuple[int, int]:
    if x.rank < 2:
        raise ShapeError(f"{name} needs matrices, of shape (..., m, n), not {x.shape}")
    return _concrete(name, x.shape[-2]), _concrete(name, x.shape[-1])


def _concrete(name: str, size: Size) -> int:
    if isinstance(size, str):
        raise ShapeError(f"{name} needs concrete sizes, not {size}; bind the size first")
    return size


def _check_index(name: str, index: Node) -> None:
    if index.kind != "integer":
        raise ArgumentError(f"{name} needs an integer index, not a tensor of {index.kind} numbers")


def _flip(x: Node) -> Node:
    """Axis 0 reversed."""
    return select(x, [slice(None, None, -1)] + [WHOLE] * (x.rank - 1))


def _gather_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    x, index = shapes
    if not x:
        raise ShapeError("gather needs an axis to take entries from, not a scalar")
    return index + x[1:]


def _scatter_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    (u, index), (size,) = shapes, params
    if u[: len(index)] != index:
        raise ShapeError(
            f"scatter by an index of shape {index} needs values of shape {index} + (...), not {u}"
        )
    return (_concrete("scatter", size), *u[len(index) :])


def _gather_transpose(y: Apply, cotangent: Node) -> Node:
    x, index = y.operands
    return scatter(cotangent, index, _concrete("the derivative of gather", x.shape[0]))


def _scatter_transpose(y: Apply, cotangent: Node) -> Node:
    return gather(cotangent, y.operands[1])


def _same_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    if not shapes[0]:
        raise ShapeError("a cumulative operation needs an axis to run along, not a scalar")
    return shapes[0]


def _cumulative_sum_transpose(y: Apply, cotangent: Node) -> Node:
    """x[m] is in every running sum from m on: sum the cotangent from the end."""
    return _flip(cumulative_sum(_flip(cotangent)))


def _product_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    if not shapes[0]:
        raise ShapeError("product needs an axis to multiply along, not a scalar")
    return shapes[0][1:]


def _path_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    count = _concrete("the derivative of a cumulative product", shapes[0][0]) + 1
    return (count, count, *shapes[0][1:])


def _last_axis_rule(name: str, dropped: int) -> Any:
    def rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
        (shape,) = shapes
        if not shape or (dropped and shape[-1] == 0):
            raise ShapeError(
                f"{name} works on the last axis, which must not be empty: it cannot take shape {shape}"
            )
        return shape[: len(shape) - dropped]

    return rule


def _path_products(x: Node) -> Node:
    """P[i,j] = x[j] x[j+1] … x[i-1] for i >= j (1 for i = j), zero for i < j."""
    return operation("path_products", x)


def _path_partial(y: Apply) -> Node:
    """dP[i,j]/dx[m] = P[i,m+1] P[m,j]: the paths before and after step m."""
    (x,) = y.operands
    i, j, m, *rest = plain_axes(x.rank + 2)
    after = combine([(1, m)], 1)
    return einsum(
        [y, y],
        [(i, after, *rest), (m, j, *rest)],
        (i, j, *rest, m, *rest),
        y.shape + x.shape,
        (*y.shape[:2], *x.shape),
    )


def _cumulative_product_partial(y: Apply) -> Node:
    """dy[i]/dx[m] = P[i+1,m+1] P[m,0]: the path products around x[m]."""
    (x,) = y.operands
    paths = _path_products(x)
    i, m, *rest = plain_axes(x.rank + 1)
    return einsum(
        [paths, paths],
        [(combine([(1, i)], 1), combine([(1, m)], 1), *rest), (m, combine([]), *rest)],
        (i, *rest, m, *rest),
        y.shape + x.shape,
        (x.shape[0], *x.shape),
    )


def _product_partial(y: Apply) -> Node:
    """dy/dx[m] = (x[0] … x[m-1]) (x[m+1] … x[n-1]), all of them from two running products."""
    (x,) = y.operands
    others = multiply(_products_before(x), _flip(_products_before(_flip(x))))
    rest = plain_axes(x.rank - 1, 1)
    return view(others, plain_axes(x.rank), (*rest, label_axis(0), *rest), y.shape + x.shape, x.shape)


def _products_before(x: Node) -> Node:
    """The product of all entries before each, the first being an empty product."""
    size = _concrete("the derivative of product", x.shape[0])
    running = select(cumulative_product(x), [slice(0, size - 1)] + [WHOLE] * (x.rank - 1))
    return concatenate([uniform(1.0, (1, *x.shape[1:])), running], 0)


def _index_rule(shapes: tuple[Shape, ...], params: tuple[Any, ...]) -> Shape:
    return shapes[0]


register(
    Linear("gather", _gather_rule, _gather_transpose, r"{}_{{{}}}", image=lambda x, index: x),
    Linear(
        "scatter",
        _scatter_rule,
        _scatter_transpose,
        r"\operatorname{{scatter}}\left({}, {}\right)",
        image=lambda u, index: u.summed().with_zero(),
    ),
    Linear(
        "cumulative_sum",
        _same_rule,
        _cumulative_sum_transpose,
        r"\operatorname{{cumsum}}\left({}\right)",
        short="cumsum",
        image=Range.summed,
    ),
    General(
        "path_products",
        _path_rule,
        (_path_partial,),
        r"\operatorname{{paths}}\left({}\right)",
        acts_on_first=True,
    ),
    General(
        "cumulative_product",
        _same_rule,
        (_cumulative_product_partial,),
        r"\operatorname{{cumprod}}\left({}\right)",
        acts_on_first=True,
        short="cumprod",
    ),
    General(
        "product",
        _product_rule,
        (_product_partial,),
        r"\prod\left({}\right)",
        acts_on_first=True,
        behaviour=Behaviour(),
    ),
    General(
        "argmax",
        _last_axis_rule("argmax", 1),
        (None,),
        r"\operatorname{{argmax}}\left({}\right)",
        last_axes=1,
        kind="integer",
    ),
    General(
        "argmin",
        _last_axis_rule("argmin", 1),
        (None,),
        r"\operatorname{{argmin}}\left({}\right)",
        last_axes=1,
        kind="integer",
    ),
    General(
        "argsort",
        _last_axis_rule("argsort", 0),
        (None,),
        r"\operatorname{{argsort}}\left({}\right)",
        last_axes=1,
        kind="integer",
    ),
    General("flat_index", _index_rule, (None,), r"\operatorname{{flat}}\left({}\right)", kind="integer"),
)
