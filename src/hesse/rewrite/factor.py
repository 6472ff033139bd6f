"""Factoring common operands out of a sum: `X'·D1·X + X'·D2·X = X'·(D1+D2)·X`, one product, not two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hesse.ir import Axis, Einsum, Node, Shape, Size, add, einsum, is_sparse, label_axis, without_sign

LARGEST_SUM = 24
"""Sums with more terms than this are not searched for common factors (the search is quadratic)."""


def factor(terms: Sequence[Node], shape: Shape) -> list[Node]:
    """Law: a·b + a·c = a·(b + c), for terms with the same plain output.

    The remainders b and c must depend on the same labels, so that their sum is a tensor of its own. They
    must be no larger than the sum or have no more axes than a, so that adding them costs less than it saves.
    """
    remaining = list(terms)
    if len(remaining) > LARGEST_SUM:
        return remaining
    k = 0
    while k < len(remaining):
        for j in range(k + 1, len(remaining)):
            both = _factored_pair(remaining[k], remaining[j], shape)
            if both is not None:
                remaining[k] = both
                del remaining[j]
                break
        else:
            k += 1
    return remaining


class _Factors(NamedTuple):
    """Some operands of a product with their axes."""

    operands: list[Node]
    axes: list[tuple[Axis, ...]]

    def labels(self) -> set[int]:
        return _labels(self.axes)


def _labels(axes: Iterable[Iterable[Axis]]) -> set[int]:
    return {label for row in axes for axis in row for label in axis.labels()}


def _factored_pair(first: Node, second: Node, shape: Shape) -> Node | None:
    if not (isinstance(first, Einsum) and isinstance(second, Einsum)) or first.output != second.output:
        return None
    if is_sparse(first) or is_sparse(second) or not set(first.operands) & set(second.operands):
        return None
    common, one, two, ranges = _matched(first, second)
    output = _labels([first.output])
    interface = _interface(common, one, two, output)
    if interface is None:  # a∘b + a∘c with b a vector, c a matrix: only what stands apart is shared
        common, one, two = _standing_apart(common, one, two)
        interface = _interface(common, one, two, output)
    if interface is None or not common.operands or not one.operands or not two.operands:
        return None
    is_outer = output.issuperset(interface)
    if not is_outer and len(interface) > max(len(_labels([axes])) for axes in common.axes):
        return None  # summing large tensors to share a small factor: A·x + A'·x is cheaper than (A + A')·x
    inner = tuple(map(label_axis, interface))
    inner_shape = tuple(ranges[label] for label in interface)
    remainders = [_product(one, inner, inner_shape, ranges, first.scale)]
    remainders.append(_product(two, inner, inner_shape, ranges, second.scale))
    total, sign = without_sign(add(remainders, inner_shape))
    return _product(
        _Factors([*common.operands, total], [*common.axes, inner]), first.output, shape, ranges, sign
    )


def _interface(common: _Factors, one: _Factors, two: _Factors, output: set[int]) -> list[int] | None:
    """The labels by which the remainders meet the rest, if they are the same for both."""
    outside = common.labels() | output
    interface = sorted(one.labels() & outside)
    return interface if interface == sorted(two.labels() & outside) else None


def _standing_apart(common: _Factors, one: _Factors, two: _Factors) -> tuple[_Factors, _Factors, _Factors]:
    """Common factors that share a label with a remainder become parts of both remainders."""
    apart = [k for k, axes in enumerate(common.axes) if not _labels([axes]) & (one.labels() | two.labels())]
    tied = [k for k in range(len(common.axes)) if k not in apart]
    moved = [common.operands[k] for k in tied], [common.axes[k] for k in tied]
    return (
        _Factors([common.operands[k] for k in apart], [common.axes[k] for k in apart]),
        _Factors(one.operands + moved[0], one.axes + moved[1]),
        _Factors(two.operands + moved[0], two.axes + moved[1]),
    )


def _product(
    factors: _Factors, output: tuple[Axis, ...], shape: Shape, ranges: dict[int, Size], scale: float
) -> Node:
    """The einsum of some factors, over the labels that they use."""
    used = sorted(factors.labels() | _labels([output]))
    number = {label: k for k, label in enumerate(used)}
    *axes, output = (
        tuple(axis.rename(number.__getitem__) for axis in row) for row in [*factors.axes, output]
    )
    return einsum(factors.operands, axes, output, shape, [ranges[label] for label in used], scale)


def _matched(first: Einsum, second: Einsum) -> tuple[_Factors, _Factors, _Factors, dict[int, Size]]:
    """The common factors, the other factors of both, and the ranges, all in the labels of the first."""
    names = {label: label for axis in first.output for label in axis.labels()}
    common, rest = [], []
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
            rest.append(k)
    names = {label: names.get(label, len(first.ranges) + label) for label in range(len(second.ranges))}
    ranges = dict(enumerate(first.ranges)) | {names[label]: size for label, size in enumerate(second.ranges)}
    other = [tuple(axis.rename(names.__getitem__) for axis in second.axes[j]) for j in free]
    return (
        _Factors([first.operands[k] for k in common], [first.axes[k] for k in common]),
        _Factors([first.operands[k] for k in rest], [first.axes[k] for k in rest]),
        _Factors([second.operands[j] for j in free], other),
        ranges,
    )


def _same_axes(first: Einsum, k: int, second: Einsum, j: int, names: dict[int, int]) -> dict[int, int] | None:
    """The names of labels, extended so that operand j of the second is operand k of the first, or None."""
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
