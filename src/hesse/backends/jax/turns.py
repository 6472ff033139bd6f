"""In which order products of matrices have their axes, for XLA on a processor.

The first factor of a product is read along its last axis, which is the one that is summed over; otherwise
XLA takes 1.3 to 1.8 times as long (300² by 300², 1,000 x 64 by 64²). The second factor may lie either way.
So each product is computed with a factor first that lies so, and its axes are those of that factor, then
those of the other one. What is computed entry by entry has its axes as the largest matrix that it is computed
from: XLA writes it in that order anyway, and would read it transposed. Stacks of matrices have their axes so,
too, if only sums of their squares are wanted, as in Laplacians at many points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hesse.plan.layout import SMALLEST, element_orders, is_large, summed_label, term_orders
from hesse.plan.program import CallMap, Combine, Contract, Instruction, Program, Ref, Scale, sources
from hesse.plan.reading import Order, permuted


def turned(program: Program) -> Program:
    """The program with its matrices as XLA computes them."""
    found: set[Ref] = set()
    wanted, results = _summed_next(program), set(program.results)
    for ref, item in enumerate(program.instructions):
        if not is_large(program, ref) or ref in results:
            continue
        label = summed_label(item) if isinstance(item, Contract) and not item.is_symmetric else None
        if label is None:
            is_turned = _follows(program, item, found)
        else:
            assert isinstance(item, Contract)
            is_turned = _is_product_turned(item, label, found, wanted.get(ref))
        if is_turned:
            found.add(ref)
    return permuted(program, dict.fromkeys(found, (1, 0)) | _stacks(program))


def _stacks(program: Program) -> dict[Ref, Order]:
    """The orders of products with many axes of which nothing but squares is read, and that is summed."""
    read = {*program.results}
    squared: set[Ref] = set()
    for item in program.instructions:
        (squared if _is_sum_of_squares(item) else read).update(sources(item))
    orders: dict[Ref, Order] = {}
    for ref in squared - read:
        item = program.instructions[ref]
        if len(program.shapes[ref]) > 2 and math.prod(program.shapes[ref]) >= SMALLEST:
            order = _order_of_factors(item) if isinstance(item, Contract) and item.is_sum else None
            orders |= {} if order is None else {ref: order}
    return orders


def _is_sum_of_squares(item: Instruction) -> bool:
    if not isinstance(item, Contract) or not item.is_sum:
        return False
    return (item.left, item.left_labels) == (item.right, item.right_labels)


def _order_of_factors(item: Contract) -> Order | None:
    """The axes of a factor that is summed over its last ones, then the other's; None: there is none."""
    sides = [item.left_labels, item.right_labels]
    both = set(sides[0]) & set(sides[1])
    if both & set(item.labels) or len(set(item.labels)) < len(item.labels):
        return None
    fits = [set(labels[len(labels) - len(both) :]) == both for labels in sides]
    if not any(fits):
        return None
    first, second = sides if fits[0] and (not fits[1] or len(sides[0]) >= len(sides[1])) else sides[::-1]
    order = [label for label in (*first, *second) if label in item.labels]
    return tuple([item.labels.index(label) for label in order])


def _follows(program: Program, item: Instruction, found: set[Ref]) -> bool:
    """Whether the largest matrix that something is computed from entry by entry is turned against it."""
    pairs: Iterable[tuple[Ref, bool]]
    match item:
        case Contract() if not item.is_sum:
            pairs = element_orders(item)
        case Combine():
            pairs = term_orders(item)
        case Scale() | CallMap():
            pairs = [(k, False) for k in sources(item)]
        case _:
            return False
    large = [(source, turned) for source, turned in pairs if is_large(program, source)]
    if not large:
        return False
    source, is_turned = max(large, key=lambda pair: math.prod(program.shapes[pair[0]]))
    return is_turned != (source in found)


def _is_product_turned(item: Contract, label: int, found: set[Ref], wanted: int | None) -> bool:
    """Whether a product is better computed transposed; `wanted` is the axis that is summed over next."""
    sides = ((item.left, item.left_labels), (item.right, item.right_labels))
    fits = [labels[0 if source in found else -1] == label for source, labels in sides]
    if fits[0] == fits[1]:  # either way is as good
        return wanted == 0
    _, labels = sides[0 if fits[0] else 1]
    return item.labels[0] not in labels


def _summed_next(program: Program) -> dict[Ref, int]:
    """For each matrix that is a factor of a product of matrices the axis that is summed over."""
    found: dict[Ref, int] = {}
    for item in program.instructions:
        label = summed_label(item) if isinstance(item, Contract) else None
        if isinstance(item, Contract) and label is not None:
            found.setdefault(item.left, item.left_labels.index(label))
            found.setdefault(item.right, item.right_labels.index(label))
    return found
