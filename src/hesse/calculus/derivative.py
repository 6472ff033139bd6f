"""Derivatives by several variables and of any order, simplified between orders."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from hesse.calculus.cost import estimate
from hesse.calculus.modes import MODES, cross_country, forward, reverse
from hesse.errors import ArgumentError
from hesse.ir import Node, topological, transpose
from hesse.rewrite import simplify

Mode = Callable[[Node, Sequence[Node]], list[Node]]
_MODES: Mapping[str, Mode] = dict(zip(MODES, (forward, reverse, cross_country), strict=True))
LARGE_GRAPH = 1500
"""Above this many nodes `auto` does not build candidates but takes reverse mode."""


def differentiate(output: Node, variables: Sequence[Node], mode: str = "auto") -> list[Node]:
    """The derivative by each variable, axes of the output first."""
    if mode in _MODES:
        return simplify(_MODES[mode](output, variables))
    if mode != "auto":
        raise ArgumentError(f"mode must be 'auto' or one of {', '.join(map(repr, MODES))}, not {mode!r}")
    if output.rank == 0 or len(topological([output])) > LARGE_GRAPH:
        return simplify(reverse(output, variables))
    candidates = [simplify(_MODES[name](output, variables)) for name in MODES]
    return min(candidates, key=estimate)


def derivative_blocks(
    output: Node, variables: Sequence[Node], order: int, mode: str = "auto"
) -> dict[tuple[int, ...], Node]:
    """All blocks of the derivative of an order: `(i, j)` is by variable i, then by variable j.

    By Schwarz's theorem a block and its mirrors are one: only sorted indices are computed.
    """
    levels: dict[tuple[int, ...], Node] = {(): output}
    for _ in range(order):
        following: dict[tuple[int, ...], Node] = {}
        for index, node in levels.items():
            first = index[-1] if index else 0
            found = differentiate(node, variables[first:], mode)
            following.update({(*index, first + k): block for k, block in enumerate(found)})
        levels = following
    return {
        index: _mirrored(levels[tuple(sorted(index))], output, variables, index)
        for index in itertools.product(range(len(variables)), repeat=order)
    }


def _mirrored(block: Node, output: Node, variables: Sequence[Node], index: tuple[int, ...]) -> Node:
    """The block of sorted indices with its groups of axes in the order of `index`."""
    chosen = sorted(
        range(len(index)), key=lambda k: index[k]
    )  # sorted group k is asked for at place chosen[k]
    start, groups = output.rank, []
    for k in chosen:
        rank = variables[index[k]].rank
        groups.append(range(start, start + rank))
        start += rank
    order = [*range(output.rank)]
    for place in range(len(index)):
        order += groups[chosen.index(place)]
    return transpose(block, order)
