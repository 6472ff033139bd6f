"""Factoring common operands out of a sum: `X'·D1·X + X'·D2·X = X'·(D1+D2)·X`, one product, not two."""

from __future__ import annotations

from collections.abc import Sequence

from hesse.ir import (
    Einsum,
    Node,
    Product,
    Shape,
    add,
    einsum_of,
    is_sparse,
    label_axis,
    labels_of,
    without_sign,
)

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


def _factored_pair(first: Node, second: Node, shape: Shape) -> Node | None:
    if not (isinstance(first, Einsum) and isinstance(second, Einsum)) or first.output != second.output:
        return None
    if is_sparse(first) or is_sparse(second) or not set(first.operands) & set(second.operands):
        return None
    common, one, two = _matched(first, second)
    interface = _interface(common, one, two)
    if interface is None:  # a∘b + a∘c with b a vector, c a matrix: only what stands apart is shared
        common, one, two = _standing_apart(common, one, two)
        interface = _interface(common, one, two)
    if interface is None or not common.operands or not one.operands or not two.operands:
        return None
    is_outer = common.placed.issuperset(interface)
    if not is_outer and len(interface) > max(len(labels_of(axes)) for axes in common.axes):
        return None  # summing large tensors to share a small factor: A·x + A'·x is cheaper than (A + A')·x
    inner, inner_shape = tuple(map(label_axis, interface)), common.sizes(interface)
    remainders = [einsum_of(rest._replace(output=inner).compact(), inner_shape) for rest in (one, two)]
    total, sign = without_sign(add(remainders, inner_shape))
    return einsum_of(common.times(total, inner)._replace(scale=sign).compact(), shape)


def _interface(common: Product, one: Product, two: Product) -> list[int] | None:
    """The labels by which the remainders meet the rest, if they are the same for both."""
    interface = sorted(one.inside & common.used)
    return interface if interface == sorted(two.inside & common.used) else None


def _standing_apart(common: Product, one: Product, two: Product) -> tuple[Product, Product, Product]:
    """Common factors that share a label with a remainder become parts of both remainders."""
    remaining = one.inside | two.inside
    apart = [k for k, axes in enumerate(common.axes) if remaining.isdisjoint(labels_of(axes))]
    for k, (operand, axes) in enumerate(zip(common.operands, common.axes, strict=True)):
        if k not in apart:
            one, two = one.times(operand, axes), two.times(operand, axes)
    return common.only(apart), one, two


def _matched(first: Einsum, second: Einsum) -> tuple[Product, Product, Product]:
    """The common factors, and the other factors of both, all in the labels of the first and some more."""
    names = {label: label for label in first.placed}
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
    ranges = first.ranges + second.ranges
    mine = first.product._replace(ranges=ranges)
    other = second.product.only(free).renamed(lambda label: names.get(label, len(first.ranges) + label))
    return mine.only(common), mine.only(rest), other._replace(ranges=ranges)


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
