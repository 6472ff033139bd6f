"""In which order the axes of a value lie in memory, as NumPy chooses it.

An order lists the axes, the slowest first. NumPy gives the result of an element-wise operation the order of
its operands, where they agree. An array that is written over must have the order that the result would have
got: else all that is computed from it reads one operand by rows and the other by columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hesse.backends.text import Labels
from hesse.plan.program import View

Order = tuple[int, ...]


def seen(order: Order, labels: Labels, output: Labels) -> Order:
    """The axes of an operand in the order of its memory, as axes of a result with other labels."""
    return tuple([output.index(labels[axis]) for axis in order if labels[axis] in output])


def viewed(view: View, order: Order) -> Order:
    """The order of a view of an array."""
    found = [
        label
        for axis in order
        for label, _ in sorted(view.axes[axis].terms, key=lambda term: -abs(term[1]))
        if label in view.labels
    ]
    return tuple([view.labels.index(label) for label in dict.fromkeys(found)])


def agreed(operands: Iterable[Sequence[int]], count: int) -> Order:
    """The order of the result of an element-wise operation, which has `count` axes.

    Axes change places if an operand has them in another order and no operand has them in this one.
    """
    places = [{axis: k for k, axis in enumerate(operand)} for operand in operands]
    order: list[int] = []
    for axis in range(count):
        position = len(order)
        for k in reversed(range(len(order))):
            slower = {at[axis] < at[order[k]] for at in places if axis in at and order[k] in at}
            if slower == {True}:
                position = k
            elif slower:
                break
        order.insert(position, axis)
    return tuple(order)
