"""Shortcuts through series: how coefficients of a composition change with those of its operand.

The coefficients of `y = f(u)` depend on those of u only, and a change of u changes y by `f'(u)·du`. By
Leibniz' rule the coefficient of order k changes by `Σ_j C(k, j)·f'(u)_{k-j}·du_j`. To go back through a
series takes as many products as to multiply two of them, which is less than to go back through each operation
of the recurrence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from hesse.calculus.shares import Index
from hesse.calculus.taylor import Propagation
from hesse.ir import (
    Einsum,
    Map,
    Node,
    Product,
    Shortcut,
    Variable,
    are_shortcuts_wanted,
    core_and_pattern,
    einsum,
    einsum_of,
    enter_shortcuts,
    first_labels,
    is_zero,
    topological,
    variable,
)
from hesse.ops.registry import ELEMENTWISE


def enter_compositions(propagation: Propagation) -> None:
    """Enter shortcuts for all coefficients of element-wise functions, if they are wanted."""
    for node, index in propagation.compositions() if are_shortcuts_wanted() else ():
        assert isinstance(node, Map)
        found = propagation.coefficient(node, index)
        if is_zero(found):
            continue
        whole = list(_shortcuts(propagation, node, index))
        core, pattern = _core(found)
        if pattern is None:
            enter_shortcuts(core, whole)
        elif _is_whole(core, pattern):
            enter_shortcuts(core, [one._replace(change=_read(one.change, core, pattern)) for one in whole])


def _shortcuts(propagation: Propagation, node: Map, index: Index) -> Iterator[Shortcut]:
    """What each coefficient of the operand contributes to the change of one of a composition."""
    formula = ELEMENTWISE[node.name].partials[0]
    if formula is None:
        return
    (operand,) = node.operands
    slope = formula(node, operand)
    for part in itertools.product(*[range(order + 1) for order in index]):
        rest = tuple([order - own for order, own in zip(index, part, strict=True)])
        below, factor = propagation.coefficient(operand, part), propagation.coefficient(slope, rest)
        if is_zero(factor) or not _is_variable(below):
            continue
        core, pattern = _core(below)
        argument = variable("a change", core.shape, ["tangent"])
        moved: Node = argument
        if pattern is not None:
            moved = einsum_of(pattern._replace(operands=(argument,)), below.shape)
        factors = [(factor, propagation.trail(rest)), (moved, propagation.trail(part))]
        count = math.prod(map(math.comb, index, part))
        yield Shortcut(
            core, propagation.entrywise(node.shape, factors, propagation.trail(index), count), argument
        )


def _is_variable(node: Node) -> bool:
    """Whether a node can change at all: rates of the variables themselves are constants."""
    return any([isinstance(below, Variable) for below in topological([node])])


def _core(node: Node) -> tuple[Node, Product | None]:
    """The node that others have as an operand, and the pattern in which this one holds it."""
    if not isinstance(node, Einsum):
        return node, None
    if len(node.operands) == 1:
        return node.operands[0], node.product
    core, pattern = core_and_pattern(node)
    return core, None if core is node else pattern


def _is_whole(core: Node, pattern: Product) -> bool:
    """Whether each entry of a core is at one place of the tensor, where its change can be read."""
    read, written = pattern.axes[0], pattern.output
    if not all([axis.is_label for axis in read]) or any([len(axis.terms) > 1 for axis in written]):
        return False
    labels = first_labels(read)
    has_all = len(labels) == core.rank and {*labels} == {*first_labels(written)}
    return has_all and pattern.sizes(labels) == core.shape


def _read(change: Node, core: Node, pattern: Product) -> Node:
    """The change of a core from that of the tensor that holds it in a pattern."""
    return einsum(
        [change], [pattern.output], pattern.axes[0], core.shape, pattern.ranges, 1.0 / pattern.scale
    )
