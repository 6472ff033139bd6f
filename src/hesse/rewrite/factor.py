"""Factoring common operands out of a sum: `X'·D1·X + X'·D2·X = X'·(D1+D2)·X`, one product, not two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hesse.ir import Axis, Einsum, Node, Shape, add, einsum, is_sparse, label_axis

LARGEST_SUM = 24
"""Sums with more terms than this are not searched for common factors (the search is quadratic)."""


def factor(terms: Sequence[Node], shape: Shape) -> list[Node]:
    """Law: a·b + a·c = a·(b + c), for terms with the same plain output.

    The remainders b and c must depend on the same labels, so that their sum is a tensor of its own.
    """
    remaining = list(terms)
    if len(remaining) > LARGEST_SUM:
        return remaining
    k = 0
    while k < len(remaining):
        merged = next(
            ((j, both) for j in range(k + 1, len(remaining)) if (both := _pair(remaining[k], remaining[j], shape))), None
        )
        if merged is None:
            k += 1
        else:
            other, both = merged
            remaining[k] = both
            del remaining[other]
    return remaining


class _Match(NamedTuple):
    common: list[int]
    first_rest: list[int]
    second_rest: list[int]
    names: dict[int, int]


def _pair(first: Node, second: Node, shape: Shape) -> Node | None:
    if not (isinstance(first, Einsum) and isinstance(second, Einsum)) or first.output != second.output:
        return None
    if is_sparse(first) or not set(first.operands) & set(second.operands):
        return None
    match = _match(first, second)
    if not match.common or not match.first_rest or not match.second_rest:
        return None
    placed = {label for axis in first.output for label in axis.labels()}
    outside = placed | _labels(first.axes[k] for k in match.common)
    fresh = len(first.ranges)
    names = {label: match.names.get(label, fresh + label) for label in range(len(second.ranges))}
    ranges = {**dict(enumerate(first.ranges)), **{names[k]: size for k, size in enumerate(second.ranges)}}
    second_axes = [tuple(axis.rename(names.__getitem__) for axis in second.axes[k]) for k in match.second_rest]
    first_axes = [first.axes[k] for k in match.first_rest]
    interface = sorted(_labels(first_axes) & outside)
    if interface != sorted(_labels(second_axes) & outside) or (_labels(second_axes) - outside) & set(first.ranges):
        return None
    table = [ranges.get(label, 1) for label in range(fresh + len(second.ranges))]
    inner_shape = tuple(table[label] for label in interface)
    inner = [label_axis(label) for label in interface]

    def rest(operands: list[Node], axes: Sequence[tuple[Axis, ...]], scale: float) -> Node:
        kept = _compact([*axes, inner], table)
        return einsum(operands, kept[0][:-1], kept[0][-1], inner_shape, kept[1], scale)

    total = add(
        [
            rest([first.operands[k] for k in match.first_rest], first_axes, first.scale),
            rest([second.operands[k] for k in match.second_rest], second_axes, second.scale),
        ],
        inner_shape,
    )
    operands = [*(first.operands[k] for k in match.common), total]
    kept, kept_ranges = _compact([*(first.axes[k] for k in match.common), inner, first.output], table)
    return einsum(operands, kept[:-1], kept[-1], shape, kept_ranges)


def _compact(axes: Sequence[Sequence[Axis]], table: Sequence[int | str]) -> tuple[list[list[Axis]], list[int | str]]:
    """The axes with only the labels they use, renumbered."""
    used = sorted(_labels(axes))
    number = {label: k for k, label in enumerate(used)}
    return [[axis.rename(number.__getitem__) for axis in row] for row in axes], [table[label] for label in used]


def _labels(axes: object) -> set[int]:
    return {label for row in axes for axis in row for label in axis.labels()}  # type: ignore[attr-defined]


def _match(first: Einsum, second: Einsum) -> _Match:
    """Operands that occur in both with the same axes, and how the labels of the second are called in the first."""
    names = {label: label for axis in first.output for label in axis.labels()}
    common, first_rest = [], []
    free = list(range(len(second.operands)))
    for k, operand in enumerate(first.operands):
        for j in free:
            trial = _same_axes(first, k, second, j, names) if second.operands[j] is operand else None
            if trial is not None:
                names = trial
                common.append(k)
                free.remove(j)
                break
        else:
            first_rest.append(k)
    return _Match(common, first_rest, free, names)


def _same_axes(first: Einsum, k: int, second: Einsum, j: int, names: dict[int, int]) -> dict[int, int] | None:
    names = dict(names)
    for one, two in zip(first.axes[k], second.axes[j], strict=True):
        if one.offset != two.offset or len(one.terms) != len(two.terms):
            return None
        for (label, stride), (other, other_stride) in zip(one.terms, two.terms, strict=True):
            if stride != other_stride or first.ranges[label] != second.ranges[other]:
                return None
            if names.setdefault(other, label) != label or list(names.values()).count(label) > 1:
                return None
    return names
