"""Axes of a product that may be swapped: it is left in the order in which it is computed.

A third derivative is the same whichever of its axes comes first. In the order of its labels it might have to
be copied, by libraries that compute products with the axes of the larger factor first.
"""

from __future__ import annotations

from collections.abc import Sequence

from hesse.ir import Einsum, opened, symmetries

Labels = tuple[int, ...]

MOST_OPERANDS = 6
"""Products of more tensors are not searched."""


def swappable(node: Einsum) -> list[Labels]:
    """Groups of labels of a product's axes, which may show only when factors are multiplied out."""
    searched = node if len(set(node.shape)) == node.rank or node.rank == 2 else _multiplied_out(node)
    return [tuple([node.output[k].label for k in axes]) for axes, sign in symmetries(searched) if sign > 0]


def _multiplied_out(node: Einsum) -> Einsum:
    """The product of as many tensors as may be searched."""
    while inner := [k for k, operand in enumerate(node.operands) if isinstance(operand, Einsum)]:
        whole = opened(node, inner)
        if whole is node or not isinstance(whole, Einsum) or len(whole.operands) > MOST_OPERANDS:
            break
        node = whole
    return node


def as_written(output: Labels, groups: Sequence[Labels], *factors: Labels) -> Labels:
    """The labels of a product in an order as good, nearest to that of the larger factor, then the other."""
    found = dict.fromkeys(label for labels in sorted(factors, key=len, reverse=True) for label in labels)
    written = list(found)
    for group in groups:
        members = iter(sorted(group, key=written.index))
        output = tuple([next(members) if label in group else label for label in output])
    return output
