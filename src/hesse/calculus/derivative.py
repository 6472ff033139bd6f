"""Derivatives by several variables and of any order, simplified between orders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from hesse.calculus.columns import Columns
from hesse.calculus.mirror import mirrored
from hesse.calculus.modes import MODES, SEARCHES, Products, SearchEnded, derivatives
from hesse.calculus.primals import settled
from hesse.cost import PLAIN_MACHINE, Machine, estimate
from hesse.errors import ArgumentError
from hesse.ir import (
    Apply,
    Node,
    TooManyNodes,
    at_most_nodes,
    dependents,
    keep_nodes,
    topological,
    transpose,
)
from hesse.ops.foreign import FOREIGN, rule_of
from hesse.rewrite import simplify

SEARCH_TERMS = 250
"""Terms of products that a search may always make: a few hundredths of a second."""
OPERATIONS_PER_TERM = 1e6
"""Operations in the time of making one. A search may take as long as one call of what it is to improve."""
MOST_PUSHED = 10_000
"""Forward mode by several variables is not tried if it would push tangents through more nodes than this."""
CLOSE = 1.15
"""Estimates that differ by less than this factor do not say which program is the better one."""
WORTH_IT = 0.98
"""The share of the planned cost of the best estimate below which another candidate is taken."""
MOST_JUDGED = 150
"""Larger expressions are not planned just to be compared."""
NODES_PER_PUSH = 6
"""Nodes that one step of a mode makes where tangents have few patterns; in nets it is below three."""
FEW_NODES = 5_000
"""So many more may be made in any case, in a quarter of a second."""
MOST_COLUMNS = 3e9
"""Columns that take more operations than this are no way out."""
MOST_NUMBERS = 2_000
"""Nodes of a program of numbers up to which patterns are followed: a number takes less time than an array."""
MOST_WIDER = 4
"""By this factor there may be more columns than rows where loops are passed forward: XLA compiles less."""
COLUMNS = "columns"
"""The mode of derivatives without patterns."""
Judge = Callable[[Sequence[Node], Machine], float]
"""What some nodes cost once they are planned: closer to the truth than an estimate, which does not see what
planning merges and shares, and slower to find out."""


class Choice(NamedTuple):
    """A derivative, the mode that made it, and, where several were tried, their estimated costs."""

    derivatives: list[Node]
    mode: str
    estimates: Mapping[str, float]


TAYLOR = "taylor"
"""The mode of derivatives along directions."""


def check_mode(mode: str, is_directional: bool = False) -> None:
    """Refuse a mode that does not exist, or not for what is asked for."""
    known = [*MODES, TAYLOR] if is_directional else [*MODES]
    if mode not in ["auto", *known]:
        raise ArgumentError(f"mode must be 'auto' or one of {', '.join(map(repr, known))}, not {mode!r}")


@keep_nodes()  # the modes have products in common
def choose(
    output: Node,
    variables: Sequence[Node],
    mode: str = "auto",
    tried: Sequence[str] = tuple(MODES),
    machine: Machine = PLAIN_MACHINE,
    judge: Judge | None = None,
    is_limited: bool = False,
) -> Choice:
    """The derivative by each variable, axes of the output first, in a mode or the cheapest of those tried.

    Where estimates are close, the judge decides, if there is one. `TooManyNodes` is raised if it is limited
    and tangents have so many patterns that following them takes long.
    """
    check_mode(mode)
    if mode == "auto" and output.rank == 0 and not _passes_forward([output], variables):
        mode = "reverse"  # never far from the best for a scalar
    if mode == "auto":
        candidates = _candidates(output, variables, tried, machine, is_limited)
    else:
        candidates = {mode: simplify(derivatives(mode, output, variables, Products(), machine))}
    is_choice = len(candidates) > 1
    estimates = {name: estimate(roots, machine) for name, roots in candidates.items() if is_choice}
    best = min(candidates, key=lambda name: estimates.get(name, 0.0))
    if judge is not None and is_choice:
        close = {
            name: roots for name, roots in candidates.items() if estimates[name] <= CLOSE * estimates[best]
        }
        best = _judged(close, best, machine, judge)
    return Choice(settled(output, candidates[best]), best, estimates)


def _judged(candidates: Mapping[str, list[Node]], best: str, machine: Machine, judge: Judge) -> str:
    """The cheapest candidate as they are planned; equal ones are planned once."""
    distinct = {tuple(roots): name for name, roots in candidates.items()} | {tuple(candidates[best]): best}
    if len(distinct) == 1 or any(len(topological(roots)) > MOST_JUDGED for roots in distinct):
        return best
    costs = {name: judge(roots, machine) for roots, name in distinct.items()}
    cheapest = min(costs, key=lambda name: costs[name])
    return cheapest if costs[cheapest] < WORTH_IT * costs[best] else best


def _candidates(
    output: Node, variables: Sequence[Node], tried: Sequence[str], machine: Machine, is_limited: bool
) -> dict[str, list[Node]]:
    """The derivative in several modes; searches go only as far as the best of the others is worth it.

    There is none where all others agree: whatever the order of multiplication, that is the result.
    """
    order = topological([output])
    nodes = len(order)
    if _has_loops([output], variables):
        tried = ["forward" if _passes_forward([output], variables) else "reverse"]
    pushes = len(variables) == 1 or nodes * len(variables) <= MOST_PUSHED
    made = Products()
    candidates = {}
    for name in tried:
        if name not in SEARCHES and (name != "forward" or pushes):
            with at_most_nodes(
                FEW_NODES + NODES_PER_PUSH * nodes * len(variables) if is_limited else math.inf
            ):
                candidates[name] = simplify(derivatives(name, output, variables, made, machine))
    if len(candidates) > 1 and len(set(map(tuple, candidates.values()))) == 1:
        return candidates
    saved = min((estimate(roots, machine) for roots in candidates.values()), default=math.inf)
    made.most_terms = SEARCH_TERMS + saved / OPERATIONS_PER_TERM
    foreign = [node for node in order if isinstance(node, Apply) and node.name == FOREIGN]
    is_searched = all(rule_of(node).is_searched for node in foreign)
    for name in tried:
        if name in SEARCHES and is_searched and nodes <= made.most_terms:
            with suppress(SearchEnded):
                candidates[name] = simplify(derivatives(name, output, variables, made, machine))
    return candidates


def _has_loops(outputs: Sequence[Node], variables: Sequence[Node]) -> bool:
    """Whether variables pass through loops that are compiled anew for each way of going through them."""
    order = topological(outputs)
    loops = [
        node for node in order if isinstance(node, Apply) and node.name == FOREIGN and rule_of(node).is_loop
    ]
    return bool(loops) and not dependents(order, variables).isdisjoint(loops)


def _passes_forward(outputs: Sequence[Node], variables: Sequence[Node]) -> bool:
    """Whether there are loops, which are passed forward: there are not many more columns than rows."""
    rows, columns = (sum(map(_entries, nodes)) for nodes in (outputs, variables))
    return columns <= (MOST_WIDER * rows if rows > 1 else 1) and _has_loops(outputs, variables)


def _entries(node: Node) -> int:
    return math.prod([size for size in node.shape if isinstance(size, int)])


def differentiate(
    output: Node, variables: Sequence[Node], mode: str = "auto", tried: Sequence[str] = tuple(MODES)
) -> list[Node]:
    """The derivative by each variable, axes of the output first."""
    return choose(output, variables, mode, tried).derivatives


class Blocks(NamedTuple):
    """Blocks of a derivative by their indices, and how each differentiation was done."""

    nodes: dict[tuple[int, ...], Node]
    choices: tuple[Choice, ...]


def sorted_blocks(
    output: Node,
    variables: Sequence[Node],
    keys: Iterable[tuple[int, ...]],
    mode: str = "auto",
    machine: Machine = PLAIN_MACHINE,
    judge: Judge | None = None,
    is_dense: bool = False,
) -> Blocks:
    """Some blocks of derivatives of several orders, and what they are derived from: `()` is the output.

    The indices of a block are sorted: those of other orders are mirrors of it. Where blocks are to be dense,
    patterns are given up if following them takes too long.
    """
    wanted: dict[tuple[int, ...], set[int]] = {}
    for key in keys:
        for order in range(len(key)):
            wanted.setdefault(key[:order], set()).add(key[order])
    blocks: dict[tuple[int, ...], Node] = {(): output}
    choices: list[Choice] = []
    for _, group in itertools.groupby(sorted(wanted, key=lambda prefix: (len(prefix), prefix)), key=len):
        prefixes = {prefix: sorted(wanted[prefix]) for prefix in group}
        made = _next_order(blocks, variables, prefixes, mode, machine, judge, is_dense)
        choices += made
        found = [node for choice in made for node in choice.derivatives]
        for (prefix, k), block in zip(
            ((p, k) for p, last in prefixes.items() for k in last), found, strict=True
        ):
            is_again = prefix and prefix[-1] == k  # by the same variable once more
            blocks[*prefix, k] = mirrored(block, variables[k].rank, machine) if is_again else block
    return Blocks(blocks, tuple(choices))


def _next_order(
    blocks: Mapping[tuple[int, ...], Node],
    variables: Sequence[Node],
    wanted: Mapping[tuple[int, ...], Sequence[int]],
    mode: str,
    machine: Machine,
    judge: Judge | None,
    is_dense: bool,
) -> list[Choice]:
    """The derivatives of blocks by the variables wanted of each; by columns if patterns take too long."""
    pairs = [(n, k) for n, last in enumerate(wanted.values()) for k in last]
    columns = Columns([blocks[prefix] for prefix in wanted], variables, pairs)
    is_limited = is_dense and mode == "auto" and _may_replace_patterns(columns)
    try:
        if is_limited and len(variables) > 1 and _passes_forward(columns.outputs, variables):
            raise TooManyNodes  # one sweep for all variables: a loop for each would be compiled
        return [
            choose(
                blocks[prefix], [variables[k] for k in last], mode, tuple(MODES), machine, judge, is_limited
            )
            for prefix, last in wanted.items()
        ]
    except TooManyNodes:
        found = columns.derivatives()
        outputs = [blocks[prefix] for prefix, last in wanted.items() for _ in last]
        of_each = [settled(output, [node])[0] for output, node in zip(outputs, found, strict=True)]
        return [Choice(of_each, COLUMNS, {})]


def _may_replace_patterns(columns: Columns) -> bool:
    """Whether columns are a way out where there are too many patterns."""
    order = topological(columns.outputs)
    is_of_numbers = 10 * sum(node.rank > 0 for node in order) < len(order) <= MOST_NUMBERS
    return not is_of_numbers and columns.least_cost <= MOST_COLUMNS


def derivative_blocks(
    output: Node,
    variables: Sequence[Node],
    order: int,
    mode: str = "auto",
    machine: Machine = PLAIN_MACHINE,
    judge: Judge | None = None,
    is_dense: bool = False,
) -> Blocks:
    """All blocks of the derivative of an order: `(i, j)` is by variable i, then by variable j.

    By Schwarz's theorem a block and its mirrors are one: only sorted indices are computed.
    """
    keys = itertools.combinations_with_replacement(range(len(variables)), order)
    found, choices = sorted_blocks(output, variables, keys, mode, machine, judge, is_dense)
    blocks = {
        index: _mirrored(found[tuple(sorted(index))], output, variables, index)
        for index in itertools.product(range(len(variables)), repeat=order)
    }
    return Blocks(blocks, choices)


def _mirrored(block: Node, output: Node, variables: Sequence[Node], index: tuple[int, ...]) -> Node:
    """The block of sorted indices with its groups of axes in the order of `index`."""
    places = sorted(range(len(index)), key=lambda k: index[k])  # where each sorted group is asked for
    start, groups = output.rank, {}
    for place in places:
        rank = variables[index[place]].rank
        groups[place] = range(start, start + rank)
        start += rank
    order = [*range(output.rank), *itertools.chain.from_iterable(groups[k] for k in range(len(index)))]
    return transpose(block, order)
