"""Forms in index notation: entries of tensors, deltas and sums over indices.

The form of a node gives its entry at the labels `0, 1, …`, one for each axis; sums bind labels beyond those.
Operands without a matrix notation are entries of indexed leaves, which are written out in place.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from hesse.ir import (
    Add,
    Apply,
    Einsum,
    Map,
    Node,
    Variable,
    connected,
    einsum_of,
    is_zero,
    label_axis,
    plain_axes,
    topological,
    uniform_value,
)
from hesse.printing.chains import matrix_form, whole_labels
from hesse.printing.describe import describe, scaled_form
from hesse.printing.forms import (
    Call,
    Delta,
    Elementwise,
    Entry,
    Form,
    Label,
    Leaf,
    Number,
    Over,
    Sum,
    mapped,
)
from hesse.printing.notation import unused_sizes
from hesse.printing.products import transposes

Labels = tuple[int, ...]
MOST_SUMMED = 3
"""Sums over more indices are not compared with each other."""


def whole_nodes(roots: Iterable[Node]) -> set[Node]:
    """The nodes that have a notation without indices (of operands that may need some)."""
    found: set[Node] = set()
    for node in topological(roots):
        match node:
            case Einsum():
                whole = all(part in found for part in node.operands) and _is_whole_product(node)
            case Add() | Map():
                whole = all(part in found for part in node.operands) and not (is_zero(node) and node.rank > 2)
            case _:
                whole = True
        if whole:
            found.add(node)
    return found


def _is_whole_product(node: Einsum) -> bool:
    return matrix_form(node) is not None or (
        not node.operands and node.rank <= 2 and plain_labels(node) is not None
    )


def plain_labels(node: Einsum) -> list[Labels] | None:
    """The labels of all axes, the output last, if each axis is just a label and is taken whole."""
    tensors = [
        *zip(node.axes, (part.shape for part in node.operands), strict=True),
        (node.output, node.shape),
    ]
    tables: list[Labels] = []
    for axes, shape in tensors:
        labels = whole_labels(axes, shape, node.ranges)
        if labels is None or None in labels:
            return None
        tables.append(tuple(label for label in labels if label is not None))
    return tables


def _is_entry_wise(node: Node) -> bool:
    """Whether a term is a number, a function, or an element-wise product of such."""
    if isinstance(node, Einsum) and node.operands:
        whole = node.output == plain_axes(node.rank) and node.ranges == node.shape
        return (
            whole
            and all(axes == node.output for axes in node.axes)
            and all(map(_is_entry_wise, node.operands))
        )
    return isinstance(node, Variable | Map | Apply) or uniform_value(node) is not None


class Indexing:
    """Index notation in which matrix notation may appear: `whole` are the nodes that have one.

    `strict` leaves no more of it than functions of whole matrices need: `inv(X)[i,j]`.
    """

    def __init__(self, whole: Container[Node], strict: bool = False) -> None:
        self.whole, self.strict = whole, strict

    def form(self, node: Node) -> Form:
        """The entry of a node at the labels 0, 1, …"""
        labels = tuple(range(node.rank))
        match node:
            case Add():
                terms = tuple(self.entry(part, labels) for part in node.operands)
                return Sum(terms) if terms else Number(0.0)
            case Map():
                return Call(node.name, tuple(self.entry(part, labels) for part in node.operands), "map", True)
            case Einsum():
                return self._product(node)
        return Entry(Leaf(node), labels) if labels else Leaf(node)

    def entry(self, node: Node, labels: Labels) -> Form:
        """The entry of an operand."""
        value = uniform_value(node)
        if value is not None:
            return Number(value)
        leaf = Leaf(node, indexed=self._is_indexed(node))
        return Entry(leaf, labels) if labels else leaf

    def _is_indexed(self, node: Node) -> bool:
        if not isinstance(node, Add | Map | Einsum):
            return False
        if self.strict or node not in self.whole or node.rank > 2:
            return True
        if not node.rank:
            return False
        if isinstance(node, Einsum):
            return _is_entry_wise(node)
        if isinstance(node, Map):
            return all(
                isinstance(part, Variable) or uniform_value(part) is not None for part in node.operands
            )
        return all(_is_entry_wise(part) for part in node.operands)

    def _product(self, node: Einsum) -> Form:
        tables = plain_labels(node)
        assert tables is not None
        *operands, placed = tables
        names: dict[int, int] = {}
        for position, label in enumerate(placed):
            names.setdefault(label, position)
        for label in range(len(node.ranges)):
            names.setdefault(label, len(placed) + label)
        deltas = [Delta(names[label], place) for place, label in enumerate(placed) if names[label] != place]
        entries: list[tuple[Node, Labels]] = []
        sums: list[Form] = []
        for group, bound in connected(set(table).difference(placed) for table in operands):
            parts = [(node.operands[k], tuple(names[label] for label in operands[k])) for k in group]
            joined = self._matrix_entry(node, group, names) if bound else None
            if not bound:
                entries += parts
            elif joined is not None:
                sums.append(joined)
            else:
                summed = sorted(bound, key=names.__getitem__)
                sizes = tuple(node.ranges[label] for label in summed)
                sums.append(Over(tuple(names[label] for label in summed), self._entries(parts), sizes))
        factors = self._entries(entries)
        scalars = [(part, power) for part, power in factors.factors if not isinstance(part, Entry)]
        tensors = [(part, power) for part, power in factors.factors if isinstance(part, Entry)]
        ordered = [*scalars, *((part, 1) for part in deltas), *tensors, *((part, 1) for part in sums)]
        product = (
            Elementwise(tuple(ordered), factors.divisors, scalar=True)
            if ordered or factors.divisors
            else None
        )
        return scaled_form(node.scale, unused_sizes(node), product, None)

    def _entries(self, parts: Iterable[tuple[Node, Labels]]) -> Elementwise:
        """The product of entries: equal ones become powers, reciprocals divisors."""
        above: dict[Form, int] = {}
        below: dict[Form, int] = {}
        for part, labels in parts:
            inverse = isinstance(part, Map) and part.name == "reciprocal"
            table, inner = (below, part.operands[0]) if inverse else (above, part)
            form = self.entry(inner, labels)
            table[form] = table.get(form, 0) + 1
        return Elementwise(tuple(above.items()), tuple(below.items()), scalar=True)

    def _matrix_entry(self, node: Einsum, group: Sequence[int], names: Mapping[int, int]) -> Form | None:
        """A sum as the entry of a matrix product, if it has a notation: `(A'*B)[i,j]`."""
        whole = node.product.only(group)._replace(scale=1.0)
        kept = whole.placed & whole.inside
        if self.strict or len(kept) > 2 or not all(part in self.whole for part in whole.operands):
            return None
        found: list[tuple[int, Form]] = []
        for order in itertools.permutations(sorted(kept, key=names.__getitem__)):
            placed = whole._replace(output=tuple(map(label_axis, order)))
            product = einsum_of(placed.compact(), whole.sizes(order))
            if isinstance(product, Einsum) and matrix_form(product) is not None:
                leaf = Leaf(product)
                labels = tuple(names[label] for label in order)
                found.append((transposes(describe(product)), Entry(leaf, labels) if labels else leaf))
        return min(found, key=lambda pair: pair[0])[1] if found else None


def bound_alike(first: Over, second: Over) -> list[Over]:
    """The second sum with the indices of the first, in every order in which they run equally far."""
    if len(first.labels) != len(second.labels) or len(first.labels) > MOST_SUMMED:
        return []
    return [
        replace(first, body=renamed(second.body, dict(zip(second.labels, order, strict=True))))
        for order, sizes in zip(
            itertools.permutations(first.labels), itertools.permutations(first.sizes), strict=True
        )
        if sizes == second.sizes
    ]


def renamed(form: Form, names: Mapping[Label, Label]) -> Form:
    """The form with other labels."""
    match form:
        case Entry():
            return Entry(renamed(form.body, names), tuple(names.get(label, label) for label in form.labels))
        case Delta():
            return Delta(names.get(form.first, form.first), names.get(form.second, form.second))
        case Over():
            labels = tuple(names.get(label, label) for label in form.labels)
            return Over(labels, renamed(form.body, names), form.sizes)
    return mapped(form, lambda part: renamed(part, names))


def lettered(form: Form, names: Mapping[Label, str], letters: Sequence[str]) -> Form:
    """The form with letters for its labels: `names` for the free ones; sums take unused ones of `letters`."""
    match form:
        case Entry():
            return Entry(lettered(form.body, names, letters), tuple(names[label] for label in form.labels))
        case Delta():
            return Delta(names[form.first], names[form.second])
        case Over():
            free = [letter for letter in letters if letter not in names.values()]
            inside = {**names, **dict(zip(form.labels, free, strict=False))}
            labels = tuple(inside[label] for label in form.labels)
            return Over(labels, lettered(form.body, inside, letters), form.sizes)
    return mapped(form, lambda part: lettered(part, names, letters))
