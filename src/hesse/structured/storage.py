"""How a structured tensor is stored: for each term a core, or its factors where they are smaller.

`stored` rewrites a derivative into an expression over *parts*: variables whose values are the arrays to
keep. The expression has the patterns, the parts have the numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hesse.ir import (
    Add,
    Einsum,
    Node,
    Shape,
    Variable,
    add,
    core_and_pattern,
    einsum,
    einsum_of,
    negated,
    number,
    opened,
    scale,
    topological,
    transpose,
    variable,
)
from hesse.rewrite import selecting
from hesse.structured.blocks import joined_blocks
from hesse.structured.union import Kept, is_band, joined_bands

LARGER_CORE = 1.5
"""A product that is a small part of the dense tensor may have this many times the entries of its factors."""
SMALL_PART = 4
"""What is smaller than the dense tensor by this factor is a small part of it."""


class Storage(NamedTuple):
    """An expression over parts, the names of the parts, and the nodes that compute them."""

    node: Node
    names: tuple[str, ...]
    sources: tuple[Node, ...]

    @property
    def entries(self) -> int:
        """Number of entries that are kept."""
        return sum(entries(source.shape) for source in self.sources)


def entries(shape: Shape) -> int:
    """Number of entries of a tensor."""
    return math.prod(map(number, shape))


def stored(node: Node, largest_joined: int = 0) -> Storage:
    """The node as patterns over parts that take the least memory.

    Terms in the same diagonal blocks are one part if the blocks have at most `largest_joined` entries.
    """
    (node,) = selecting([node])  # a part does not say any more that it is of truth values
    parts = _Parts(node)
    terms = node.operands if isinstance(node, Add) else (node,)
    small = [term for whole in terms for term in _terms(_least(whole))]
    choices = _with_pieces([(term, _whole(term)) for term in small])
    factored = [_over_factors(term, parts) for term, kept in choices if kept is None]
    whole = joined_bands([kept for _, kept in choices if kept is not None])
    if largest_joined:
        whole = joined_blocks(whole, largest_joined)
    rebuilt = [*(_over_core(kept, node.shape, parts) for kept in whole), *factored]
    names = tuple(part.name for part in parts.variables)
    return Storage(add(rebuilt, node.shape), names, tuple(parts.sources))


class _Part(NamedTuple):
    """An array that is kept for a node: `factor * node`, axis k of it being axis `order[k]` of the node."""

    variable: Variable
    order: tuple[int, ...]
    factor: float


class _Parts:
    """The arrays that are kept, each as the first term that has it needs it."""

    def __init__(self, whole: Node) -> None:
        self._computed = {part for part in topological([whole]) if not isinstance(part, Variable)}
        self.variables: list[Variable] = []
        self.sources: list[Node] = []
        self._known: dict[Node, _Part] = {}

    def find(self, node: Node, order: tuple[int, ...] | None = None, factor: float = 1.0) -> _Part:
        """The array kept for a node; a new one has the axes in an order and is multiplied with a factor."""
        if isinstance(node, Add) and node not in self._known and negated(node) in self._known:
            part = self._known[negated(node)]
            return part._replace(factor=-part.factor)
        if node not in self._known:
            order = order or tuple(range(node.rank))
            factor = 1.0 if node in self._computed else factor  # else it would be computed and then scaled
            source = scale(transpose(node, order), factor)
            part = _Part(variable(f"part{len(self.variables)}", source.shape), order, factor)
            self.variables.append(part.variable)
            self.sources.append(source)
            self._known[node] = part
        return self._known[node]


def _least(term: Node) -> Node:
    """A product with inner products multiplied out where their factors are smaller than they are."""
    if not isinstance(term, Einsum):
        return term
    for k, operand in enumerate(term.operands):
        if isinstance(operand, Einsum) and not _is_factor_kept(operand, term):
            merged = opened(term, (k,))
            if merged is not term:  # else no box solves the equations between the two
                return _least(merged)
    return term


def _is_factor_kept(factor: Einsum, term: Einsum) -> bool:
    """Whether a factor of a term is kept whole; what the term keeps anyway costs nothing."""
    new = set(factor.operands) - set(term.operands)
    is_cheap = sum(map(_kept_entries, new)) * SMALL_PART < entries(factor.shape)
    return not is_cheap and _is_kept_whole(factor, term.shape)


def _factor_entries(product: Einsum) -> int:
    return sum(map(_kept_entries, set(product.operands)))


def _kept_entries(factor: Node) -> int:
    """Number of entries that are kept for a factor."""
    return sum(entries(small.shape) for small in _spread(factor) or (factor,))


def _spread(factor: Node) -> set[Node]:
    """What a sum of much smaller tensors, each repeated along some axes, consists of (`x[i] - x[j]`)."""
    if not isinstance(factor, Add):
        return set()
    views = [(t.operands if isinstance(t, Einsum) else (t,)) for t in factor.operands]
    found = {operand for operands in views for operand in operands}
    is_smaller = sum(entries(small.shape) for small in found) * SMALL_PART < entries(factor.shape)
    return found if is_smaller and all(len(operands) == 1 for operands in views) else set()


def _terms(node: Node) -> tuple[Node, ...]:
    return node.operands if isinstance(node, Add) else (node,)


def _whole(term: Node) -> Kept | None:
    """The core of a term and its pattern, if it is kept rather than its factors."""
    if not isinstance(term, Einsum):
        return Kept(term, term.product)
    core, pattern = core_and_pattern(term)
    whole = not isinstance(core, Einsum) or _is_kept_whole(core, term.shape)
    return Kept(core, pattern) if whole else None


def _with_pieces(choices: list[tuple[Node, Kept | None]]) -> list[tuple[Node, Kept | None]]:
    """Other pieces of the largest product (windows at an edge) by its factors, which are kept anyway."""
    if not choices:
        return choices
    largest, kept = max(choices, key=lambda choice: entries(choice[0].product.ranges))
    factors = largest.operands if kept is None else (kept.core,)
    return [_as_piece(term, kept, factors) for term, kept in choices]


def _as_piece(term: Node, kept: Kept | None, factors: tuple[Node, ...]) -> tuple[Node, Kept | None]:
    if kept is not None and (not isinstance(kept.core, Einsum) or is_band(kept)):
        return term, kept
    over_factors = _multiplied_out(term, factors)
    return (over_factors, None) if over_factors.operands == factors else (term, kept)


def _multiplied_out(term: Node, factors: tuple[Node, ...]) -> Node:
    """A product with inner products multiplied out as far as they are none of the factors.

    One that can no longer become a product of just these is left alone: chains are long.
    """
    others = [operand for operand in term.operands if operand not in factors]
    if len(term.operands) > len(factors) or not all(isinstance(operand, Einsum) for operand in others):
        return term
    for k, operand in enumerate(term.operands):
        if isinstance(term, Einsum) and isinstance(operand, Einsum) and operand not in factors:
            merged = opened(term, (k,))
            if merged is not term and isinstance(merged, Einsum):
                return _multiplied_out(merged, factors)
    return term


def _is_kept_whole(core: Einsum, dense: Shape) -> bool:
    """Whether a product is kept rather than its factors.

    A core that is a small part of the dense tensor is quicker to use than its factors, and is kept though
    it is somewhat larger.
    """
    factors, whole = _factor_entries(core), entries(core.shape)
    is_small = whole * SMALL_PART <= entries(dense)
    return factors * (LARGER_CORE if is_small else 1) >= whole or not core.operands


def _over_core(kept: Kept, shape: Shape, parts: _Parts) -> Node:
    """A term with a part for its core."""
    core, pattern = kept
    if isinstance(core, Einsum) and not core.operands:  # a pattern of ones needs no array
        return einsum_of(pattern.only(()), shape)
    row, places = pattern.axes[0], {label: k for k, label in enumerate(pattern.core_labels)}
    # an axis of size 1 may have no label
    order = sorted(range(len(row)), key=lambda k: places[row[k].label] if row[k].terms else -1)
    part = parts.find(core, tuple(order), abs(pattern.scale))
    axes = tuple(row[k] for k in part.order)
    factor = pattern.scale / part.factor
    return einsum_of(pattern._replace(operands=(part.variable,), axes=(axes,), scale=factor), shape)


def _over_factors(term: Node, parts: _Parts) -> Node:
    """A term with parts for its factors; a sum of small tensors stays a sum."""
    if not isinstance(term, Einsum):
        part = parts.find(term)
        back = tuple(part.order.index(k) for k in range(term.rank))
        return scale(transpose(part.variable, back), 1 / part.factor)
    factor, operands, axes = term.scale, [], []
    for operand, row in zip(term.operands, term.axes, strict=True):
        if _spread(operand):
            kept = [_over_factors(view, parts) for view in operand.operands]
            operands.append(add(kept, operand.shape))
            axes.append(row)
        else:
            part = parts.find(operand)
            factor /= part.factor
            operands.append(part.variable)
            axes.append(tuple(row[k] for k in part.order))
    return einsum(operands, axes, term.output, term.shape, term.ranges, factor)
