"""A canonical form for products: equal products become equal tuples.

Operands are sorted by their structural key. Equal operands (`x[i] x[i+2]`) are told apart by colour
refinement over the labels they share, and what is still tied is broken by the smallest numbering, so
that equal terms always merge.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from hesse.ir.attributes import swap_sign
from hesse.ir.axis import PATTERNS, Axis, Size, combine, label_axis
from hesse.ir.axis import number as number_of
from hesse.ir.labelled import Product
from hesse.ir.node import Add, Apply, Einsum, Map, Node, Variable

Axes = tuple[Axis, ...]
Symmetry = tuple[tuple[int, ...], int]
"""Positions of axes that may be permuted, and the sign that swapping two of them brings."""
PERMUTATION_LIMIT = 120
"""Beyond this many orders of tied operands the given order is kept."""
READINGS_LIMIT = 24
"""Beyond this many ways to read symmetric operands some of them are read as they come."""
LARGEST_RANK, LARGEST_SUM = 4, 8
"""Tensors of more axes and sums of more terms are not searched for symmetries."""
KEY = "symmetries"
"""Where a node remembers its symmetries."""
keep_symmetry: set[str] = set()
"""Operations that turn symmetric matrices (the last two axes) into symmetric ones; `ops` enters them."""


def canonical(product: Product) -> Product:
    """The product with operands in canonical order and labels numbered output first.

    The scale is zero if an antisymmetric operand makes it its own negative.
    """
    operands, axes, output, ranges, scale = product
    if _ordered_by_key(operands, axes):
        order = _order_by_key(operands)
        if not any([symmetries(operand) for operand in operands]):  # there is no choice, as in most products
            numbered = _number(order, axes, output, ranges)
            return Product(tuple([operands[k] for k in order]), *numbered, scale)
        orders: Sequence[tuple[int, ...]] = [order]
    else:
        orders = _candidate_orders(operands, axes, ranges, _output_colours(output, ranges))
    readings = _readings(operands, axes)
    if not readings:
        return product._replace(scale=0.0)
    choices = [
        (*_number(order, reading, output, ranges), sign, order)
        for order in orders
        for reading, sign in readings
    ]
    best = min(choices, key=_as_written) if len(choices) > 1 else choices[0]
    new_axes, new_output, new_ranges, sign, order = best
    if any(choice[:3] == best[:3] and choice[3] != sign for choice in choices):
        return product._replace(scale=0.0)  # it is its own negative
    return Product(tuple([operands[k] for k in order]), new_axes, new_output, new_ranges, sign * scale)


def _as_written(choice: tuple[Any, ...]) -> tuple[Any, ...]:
    """What choices are compared by: axes, output and, as texts since some are names, ranges."""
    axes, output, ranges, *_ = choice
    return axes, output, tuple(map(str, ranges))


def _readings(operands: Sequence[Node], axes: Sequence[Axes]) -> list[tuple[tuple[Axes, ...], int]]:
    """The ways to read symmetric operands: their axes swapped, with the sign that brings; [] for zero."""
    known = [symmetries(operand) for operand in operands]
    if not any(known):
        return [(tuple(axes), 1)]
    orbits = [_orbit(own, groups) for own, groups in zip(axes, known, strict=True)]
    if not all(orbits):
        return []
    while math.prod(map(len, orbits)) > READINGS_LIMIT:
        largest = max(range(len(orbits)), key=lambda k: len(orbits[k]))
        orbits[largest] = orbits[largest][:1]
    return [
        (tuple(own for own, _ in choice), math.prod(sign for _, sign in choice))
        for choice in itertools.product(*orbits)
    ]


def _orbit(axes: Axes, groups: Sequence[Symmetry]) -> list[tuple[Axes, int]]:
    """The orders of the axes of an operand that give the same value up to sign; [] if that is zero."""
    found = {axes: 1}
    for positions, sign in groups:
        for old, old_sign in list(found.items()):
            for order in itertools.permutations(range(len(positions))):
                new = list(old)
                for place, source in zip(positions, order, strict=True):
                    new[place] = old[positions[source]]
                new_sign = old_sign * (_parity(order) if sign < 0 else 1)
                if found.setdefault(tuple(new), new_sign) != new_sign:
                    return []
    return list(found.items())


def _parity(order: Sequence[int]) -> int:
    pairs = itertools.combinations(order, 2)
    return -1 if sum(first > second for first, second in pairs) % 2 else 1


def operand_order(
    operands: Sequence[Node], axes: Sequence[Axes], ranges: Sequence[Size], colours: Mapping[int, Hashable]
) -> tuple[int, ...]:
    """One canonical order of the operands, given a colour for some labels."""
    return _candidate_orders(operands, axes, ranges, colours)[0]


def _output_colours(output: Axes, ranges: Sequence[Size]) -> dict[int, str]:
    places: dict[int, list[Any]] = {}
    for position, axis in enumerate(output):
        for label, stride in axis.terms:
            places.setdefault(label, []).append((position, abs(stride), _lowest(axis, ranges)))
    return {label: repr(sorted(found)) for label, found in places.items()}


def _lowest(axis: Axis, ranges: Sequence[Size]) -> int:
    """Smallest position of the axis: the part of an offset that flipping a label does not change."""
    lowest = axis.offset
    for label, stride in axis.terms:
        if stride < 0:
            lowest += stride * (number_of(ranges[label]) - 1)
    return lowest


def _candidate_orders(
    operands: Sequence[Node], axes: Sequence[Axes], ranges: Sequence[Size], given: Mapping[int, Hashable]
) -> list[tuple[int, ...]]:
    if _ordered_by_key(operands, axes):
        return [_order_by_key(operands)]
    groups: dict[int, list[int]] = {}
    for k, colour in enumerate(_refine(operands, axes, ranges, given)):
        groups.setdefault(colour, []).append(k)
    ordered = [groups[colour] for colour in sorted(groups)]
    if math.prod(math.factorial(len({axes[k] for k in group})) for group in ordered) > PERMUTATION_LIMIT:
        return [tuple(k for group in ordered for k in group)]
    choices = [_arrangements(group, axes) for group in ordered]
    return [tuple(k for group in choice for k in group) for choice in itertools.product(*choices)]


def _ordered_by_key(operands: Sequence[Node], axes: Sequence[Axes]) -> bool:
    """Whether keys alone give the order: operands are different, or equal ones have equal axes."""
    if len(operands) < 2:
        return True
    different = len(set(operands))
    return different == len(operands) or different == len(set(zip(operands, axes, strict=True)))


def _order_by_key(operands: Sequence[Node]) -> tuple[int, ...]:
    if len(operands) < 2:
        return (0,) * len(operands)
    keys = [operand._key or operand.key for operand in operands]
    return tuple(sorted(range(len(keys)), key=keys.__getitem__))


def _arrangements(group: Sequence[int], axes: Sequence[Axes]) -> list[list[int]]:
    """The orders of equal operands; those with equal axes stay together, their order makes no difference."""
    alike: dict[Axes, list[int]] = {}
    for k in group:
        alike.setdefault(axes[k], []).append(k)
    return [list(itertools.chain.from_iterable(order)) for order in itertools.permutations(alike.values())]


def _refine(
    operands: Sequence[Node], axes: Sequence[Axes], ranges: Sequence[Size], given: Mapping[int, Hashable]
) -> list[int]:
    """Colours (small ints) of the operands that do not depend on the order they came in."""
    labels = _ranked([(str(size), str(given.get(label, ""))) for label, size in enumerate(ranges)])
    colours: list[int] = _ranked([operand.key for operand in operands])
    for _ in range(3):
        seen = [
            (
                colours[k],
                tuple(
                    [
                        (
                            _lowest(axis, ranges),
                            tuple(sorted([(labels[label], abs(stride)) for label, stride in axis.terms])),
                        )
                        for axis in _sorted_if_symmetric(operand, axes[k], labels)
                    ]
                ),
            )
            for k, operand in enumerate(operands)
        ]
        before = colours, labels
        colours = _ranked(seen)
        if len(set(colours)) == len(colours):
            break  # all told apart: further rounds keep the order
        uses: list[list[tuple[int, int]]] = [[] for _ in ranges]
        for k, operand in enumerate(operands):
            groups = symmetries(operand)
            for position, axis in enumerate(axes[k]):
                # the same position for axes that may be swapped
                place = next((group[0] for group, _ in groups if position in group), position)
                for label, _ in axis.terms:
                    uses[label].append((colours[k], place))
        labels = _ranked([(labels[label], tuple(sorted(use))) for label, use in enumerate(uses)])
        if (colours, labels) == before:
            break  # nothing new was seen
    return colours


def _sorted_if_symmetric(operand: Node, axes: Axes, labels: list[int]) -> Axes:
    """The axes in an order that does not depend on how a symmetric operand is read."""
    groups = symmetries(operand)
    if not groups:
        return axes
    result = list(axes)
    for positions, _ in groups:
        group = sorted(
            (axes[k] for k in positions), key=lambda axis: sorted(labels[a] for a in axis.labels())
        )
        for place, axis in zip(positions, group, strict=True):
            result[place] = axis
    return tuple(result)


def _ranked(values: list[Any]) -> list[int]:
    ranks = {value: rank for rank, value in enumerate(sorted(set(values)))}
    return [ranks[value] for value in values]


def symmetries(node: Node) -> tuple[Symmetry, ...]:
    """Groups of axes that may be permuted, with the sign that swapping two of them brings.

    What is found follows from the structure of the expression; a node may have more.
    """
    shape = node.shape
    if len(shape) < 2:
        return ()
    known: tuple[Symmetry, ...] | None = node._cache.get(KEY)
    if known is not None or _is_searched(node):
        return known or ()
    stack = [node]  # those of operands first, without recursion
    while KEY not in node._cache:
        unknown = [operand for operand in stack[-1].operands if not _is_searched(operand)]
        if unknown:
            stack += unknown
        else:
            searched = stack.pop()
            searched._cache[KEY] = _found_symmetries(searched)
    found: tuple[Symmetry, ...] = node._cache[KEY]
    return found


def _is_searched(node: Node) -> bool:
    return KEY in node._cache or not 2 <= node.rank <= LARGEST_RANK or len(set(node.shape)) == node.rank


def _found_symmetries(node: Node) -> tuple[Symmetry, ...]:
    groups: list[tuple[list[int], int]] = []
    for first, second in itertools.combinations(range(node.rank), 2):
        joined = next((group for group in groups if first in group[0] and second in group[0]), None)
        if joined is not None or node.shape[first] != node.shape[second]:
            continue
        sign = _swap_sign(node, first, second)
        if sign:
            known = next((group for group in groups if first in group[0]), None)
            if known is None:
                groups.append(([first, second], sign))
            else:
                known[0].append(second)
    return tuple((tuple(positions), sign) for positions, sign in groups)


def _swap_sign(node: Node, first: int, second: int) -> int:
    """1 or -1 if swapping two axes changes at most the sign of the node, else 0."""
    match node:
        case Variable():
            return swap_sign(node.attributes)
        case Map():
            return int(all(_sign_of_pair(operand, first, second) == 1 for operand in node.operands))
        case Apply():
            is_matrix = first == node.rank - 2 and node.name in keep_symmetry
            return int(is_matrix and _sign_of_pair(node.operands[0], first, second) == 1)
        case Einsum():
            return _same_up_to_sign([node], first, second)
        case Add() if node.operands and len(node.operands) <= LARGEST_SUM:
            return _same_up_to_sign(node.operands, first, second)
    return 0


def _sign_of_pair(node: Node, first: int, second: int) -> int:
    """The sign that swapping two axes of the node brings, 0 if nothing is known."""
    return next((sign for group, sign in symmetries(node) if first in group and second in group), 0)


def _same_up_to_sign(terms: Sequence[Node], first: int, second: int) -> int:
    """How the sum of some terms changes when two of its axes are swapped."""
    products = [term.product if isinstance(term, Einsum) else canonical(term.product) for term in terms]
    swapped = []
    for product in products:
        order = list(product.output)
        order[first], order[second] = order[second], order[first]
        swapped.append(canonical(product._replace(output=tuple(order))))
    before = {product[:-1]: product[-1] for product in products}
    after = {product[:-1]: product[-1] for product in swapped}
    if before == after:
        return 1
    return -1 if before == {key: -value for key, value in after.items()} else 0


@functools.lru_cache(PATTERNS)
def _number(
    order: tuple[int, ...], axes: tuple[Axes, ...], output: Axes, ranges: tuple[Size, ...]
) -> tuple[tuple[Axes, ...], Axes, tuple[Size, ...]]:
    """Labels numbered by first use (output first, then operands in order), first strides positive."""
    ordered = tuple([axes[k] for k in order])
    used = [term for row in (output, *ordered) for terms, _ in row for term in terms]
    first_used = dict.fromkeys([label for label, _ in used])
    if list(first_used) == list(range(len(first_used))) and all([stride > 0 for _, stride in used]):
        return ordered, output, ranges  # numbered so already, as most products are
    number: dict[int, int] = {}
    flips: dict[int, Axis] = {}
    for tensor_axes in (output, *ordered):
        for terms, _ in tensor_axes:
            for label, stride in terms:
                if label not in number:
                    number[label] = len(number)
                    if stride < 0:
                        flips[label] = combine([(-1, label_axis(label))], number_of(ranges[label]) - 1)
    for label in range(len(ranges)):
        number.setdefault(label, len(number))

    def rename(axis: Axis) -> Axis:
        if flips:
            axis = combine([(s, flips.get(label, label_axis(label))) for label, s in axis.terms], axis.offset)
        return axis.rename(number.__getitem__)

    return (
        tuple([tuple(map(rename, row)) for row in ordered]),
        tuple(map(rename, output)),
        tuple([ranges[label] for label in number]),  # they came in by number
    )
