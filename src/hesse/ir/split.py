"""Products in pieces: where a delta meets windows that hang over the edge of a padded tensor.

An entry of a padded image in a window, `i + 1 == y + k`, is a box of labels for each `y` but not for all of
them: at the edges fewer `k` are left. A delta that is not absorbed would be formed, with all of its zeros. So
such a product is cut into one piece for the windows that lie inside and a few for those that hang over; in
each of them the delta disappears. Other operands stay nodes: a padded image is computed, and one contraction
reads it.

The label that is cut is the position of the window, in whatever order partials are multiplied. So the pieces
of a Jacobian `J` are disjoint in its rows, and `J'·S·J` has no more of them.
"""

from __future__ import annotations

import math

from hesse.ir.axis import Axis, number, shifted
from hesse.ir.labelled import Product
from hesse.ir.node import Einsum
from hesse.ir.product import pattern_of
from hesse.ir.unify import MOST_PIECES, Cut, Unifier


def split(product: Product) -> list[Product] | None:
    """The products whose sum a product is, in which a delta among its operands disappears; None: no way."""
    for operand, axes in zip(product.operands, product.axes, strict=True):
        if isinstance(operand, Einsum) and operand.has_delta and _is_mostly_zero(operand):
            cut = _cut(product, operand, axes)
            if cut is not None:
                return [product.within(cut.label, *piece) for piece in cut.pieces]
    return None


def _is_mostly_zero(node: Einsum) -> bool:
    """Whether a product leaves more than half of the entries of its result untouched (sizes are numbers)."""
    sizes = [*node.shape, *node.ranges]
    if any(isinstance(size, str) for size in sizes):
        return False
    return math.prod(map(number, node.shape)) > 2 * math.prod(map(number, node.sizes(node.placed)))


def _cut(product: Product, operand: Einsum, axes: tuple[Axis, ...]) -> Cut | None:
    """A label of the product and the pieces of its range in which more of the operand can be absorbed."""
    inner = pattern_of(operand)
    if inner is None:
        return None
    unifier = Unifier()
    labels = range(unifier.fresh(product.ranges), len(product.ranges))
    inside = shifted(inner.output, unifier.fresh(inner.ranges))
    stuck = unifier.equate_all(zip(inside, axes, strict=True))
    order = sorted(labels, key=lambda label: label not in product.placed)  # labels of the output first
    cuts = [None if equation is None else unifier.cut(equation, order) for equation in stuck]
    found = [cut for cut in cuts if cut is not None]
    if not found or len(found) < len(cuts) or math.prod(len(cut.pieces) for cut in found) > MOST_PIECES:
        return None
    return found[0]
