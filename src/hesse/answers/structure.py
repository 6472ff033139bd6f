"""The structure of a derivative, drawn at small sizes: which entries each term touches."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hesse.answers.cost import bound_node
from hesse.api.formula import Formula
from hesse.ir import Node, is_zero, number
from hesse.structured.patterns import products, same_positions, shared_positions, written
from hesse.structured.plot import raster
from hesse.structured.terms import pattern_text

SMALL_SIZES = {1: (14, 10, 8), 2: (6, 5, 4, 3)}
"""Sizes by the number of axes of the last variable, so that blocks can be told apart; 3 for further ones."""
PIXELS = 48
MOST_TERMS = 9


@dataclass(frozen=True)
class Structure:
    """The matrix view of a derivative: columns are the axes of the last variable, rows all others.

    `cells` has for each cell the position of the pattern that is drawn there, or -1 for a zero.
    """

    summary: str
    patterns: tuple[str, ...]
    sizes: dict[str, int]
    rows: int
    columns: int
    cells: tuple[tuple[int, ...], ...]


def structure(derivative: Formula) -> Structure | None:
    """The structure of a derivative; None for one that is no matrix in any view.

    >>> from hesse import parse
    >>> structure(parse("sum(exp(x))").diff("x", "x")).summary
    'diagonal'
    """
    rank = 0 if derivative.by is None else derivative.by.rank
    if not rank or derivative.node.rank == rank:
        return None
    choices = SMALL_SIZES.get(rank, (3,))
    names = derivative.open_sizes
    sizes = {name: choices[min(k, len(choices) - 1)] for k, name in enumerate(names)}
    node = bound_node(derivative, sizes)
    terms = [pattern_text(term.output) for term in products(node)]
    patterns = tuple(dict.fromkeys(terms))[:MOST_TERMS]
    place = [patterns.index(pattern) if pattern in patterns else MOST_TERMS - 1 for pattern in terms]
    cells = raster(node, rank, PIXELS)
    return Structure(
        summary=_summary(node, rank),
        patterns=patterns,
        sizes=sizes,
        rows=math.prod(map(number, node.shape[:-rank])),
        columns=math.prod(map(number, node.shape[-rank:])),
        cells=tuple(tuple(place[cell] if cell >= 0 else -1 for cell in row) for row in cells.tolist()),
    )


def _summary(node: Node, rank: int) -> str:
    """The structure in words."""
    if is_zero(node):
        return "zero"
    if node.rank != 2 * rank or node.shape[:rank] != node.shape[rank:]:
        return _density(node)
    same, shared = same_positions(node, rank), shared_positions(node, rank)
    if len(same) == rank:
        return "a multiple of the identity" if len(shared) == rank else "diagonal"
    if same:
        axes = " and ".join(f"{p + 1}" for p in same)
        equal = ", all blocks equal" if shared == same else ""
        return f"block-diagonal: zero unless the indices of axis {axes} agree{equal}"
    return _density(node)


def _density(node: Node) -> str:
    """Whether some entries are written by no term, or some terms write only a part of them."""
    entries = math.prod(map(number, node.shape))
    touched = list(map(written, products(node)))
    if sum(touched) < entries:
        return "sparse"
    return "dense" if min(touched) == entries else "dense, with terms that have repeated axes"
