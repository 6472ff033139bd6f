"""Loops that are left to JAX: all that moves passes through one loop, and so does all that is asked of them.

XLA compiles each loop of a program by itself. So a loop is pushed through once, with the tangents of all of
its operands, and pulled back through once, with the cotangents of all of its results. Further axes are those
of a batch: one loop for all columns. If there are more columns than numbers that move, the loop runs for unit
tensors, and its matrix is multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hesse.errors import DifferentiationError
from hesse.frontends.jaxpr import internals
from hesse.frontends.jaxpr.foreign import JaxRule, varies
from hesse.ir import (
    Apply,
    Node,
    Shape,
    Variable,
    add,
    delta,
    dependents,
    einsum,
    is_zero,
    number,
    plain_axes,
    reshape,
    select,
    substitute,
    topological,
    transpose,
    variable,
    zero,
)
from hesse.ops.foreign import FOREIGN, Repeated, rule_of

WHOLE = slice(None)


class Columns(NamedTuple):
    """Values that are linear in some arguments; with columns, all have one more axis for them, the last.

    `primals` are results that are computed besides, by their numbers, where they are those of a call.
    """

    arguments: tuple[Variable, ...]
    values: tuple[Node, ...]
    primals: dict[int, Repeated]

    def at(self, given: Sequence[Node]) -> list[Node]:
        """The values for what stands in the places of the arguments."""
        return substitute(self.values, dict(zip(self.arguments, given, strict=True)))


class JaxLoop(JaxRule):
    """A loop of JAX as a function of its operands."""

    is_loop = True
    is_searched = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.exponentials = internals.most_exponentials(self.equation)
        self._numbers = [k for k, output in enumerate(self.results) if output.kind == "real"]
        self._columns: dict[tuple[Hashable, ...], Columns] = {}

    def repeated(self, node: Apply) -> Iterator[Repeated]:
        number = node.params[1]
        for (operands, *_), columns in self._columns.items():
            if operands == node.operands and number in columns.primals:
                yield columns.primals[number]

    def push(self, node: Apply, slot: int, tangent: Node) -> Node:
        return self.push_all(node, {slot: tangent}) if self.is_pushed else super().push(node, slot, tangent)

    def push_all(self, node: Apply, tangents: Mapping[int, Node]) -> Node:
        if not self.is_pushed:
            return super().push_all(node, tangents)
        slot, tangent = next(iter(tangents.items()))
        trail = tangent.shape[node.operands[slot].rank :]
        slots = tuple(slot for slot in sorted(tangents) if not is_zero(tangents[slot]))
        if not slots:
            return zero(node.shape + trail)

        def made(count: int | None) -> Columns:
            return self._pushed_columns(node, slots, count)

        found = _in_columns(made, [tangents[slot] for slot in slots], trail)
        return found[self._numbers.index(node.params[1])]

    def pull(self, node: Apply, slot: int, cotangent: Node) -> Node:
        if not self.is_pulled:
            return super().pull(node, slot, cotangent)
        return self.pull_all({node: cotangent}, [slot])[slot]

    def pull_all(self, cotangents: Mapping[Apply, Node], slots: Collection[int]) -> dict[int, Node]:
        if not self.is_pulled:
            return super().pull_all(cotangents, slots)
        ordered = sorted(slots)
        nodes = sorted(cotangents, key=lambda node: node.params[1])
        lead = cotangents[nodes[0]].rank - nodes[0].rank
        turned = [_turned(cotangents[node], lead) for node in nodes]
        trail = cotangents[nodes[0]].shape[:lead]

        def made(count: int | None) -> Columns:
            return self._pulled_columns(nodes, ordered, count)

        found = _in_columns(made, turned, trail)
        return {k: _turned(one, one.rank - lead) for k, one in zip(ordered, found, strict=True)}

    def _pushed_columns(self, node: Apply, slots: tuple[int, ...], count: int | None) -> Columns:
        """The tangents of all results, for tangents of some operands."""
        key = node.operands, "pushed", slots, count
        if key not in self._columns:
            try:
                self._columns[key] = self._pushed_by(node, slots, slots, count)
            except DifferentiationError:  # JAX pushes through some primitives only if all that varies moves
                active = [slot for slot in range(len(self.avals)) if self.is_active(node, slot)]
                moving = [slot for slot in active if slot in slots or varies(node.operands[slot])]
                self._columns[key] = self._pushed_by(node, slots, moving, count)
        return self._columns[key]

    def _pushed_by(
        self, node: Apply, slots: Sequence[int], moving: Sequence[int], count: int | None
    ) -> Columns:
        """The same, where these operands are said to move, whether they do or not."""

        others = [number for number in range(len(self.results)) if number not in self._numbers]

        def pushed(*arrays: Any) -> Any:
            points, tangents = arrays[: len(self.avals)], arrays[len(self.avals) :]
            moved = [points[k] for k in moving]
            whole = self._function([*self._numbers, *others], moving, points)

            def own(*moved: Any) -> Any:
                results = whole(*moved)
                return results[: len(self._numbers)], results[len(self._numbers) :]

            def along(*tangents: Any) -> Any:
                given = dict(zip(slots, tangents, strict=True))
                changes = [given.get(k, jnp.zeros_like(points[k])) for k in moving]
                values, found, unchanged = jax.jvp(own, moved, changes, has_aux=True)
                return found, [*values, *unchanged]

            try:
                return _mapped(along, count)(*tangents)
            except ValueError:  # a rule of a user may mix primals with tangents
                return _mapped(lambda *given: (along(*given)[0], []), count)(*tangents)[0], whole(*moved)

        avals = [self.avals[k] for k in slots]
        return self._traced_columns("tangent", pushed, node, avals, [*self._numbers, *others], count)

    def _pulled_columns(self, nodes: Sequence[Apply], slots: Sequence[int], count: int | None) -> Columns:
        """The cotangents of some operands, for cotangents of some results."""
        numbers = [node.params[1] for node in nodes]
        key = nodes[0].operands, "pulled", tuple(slots), tuple(numbers), count
        if key not in self._columns:

            def pulled(*arrays: Any) -> Any:
                points, cotangents = arrays[: len(self.avals)], arrays[len(self.avals) :]
                own = self._function(numbers, slots, points)
                values, back = jax.vjp(own, *(points[k] for k in slots))
                return _mapped(lambda *given: (back(list(given)), []), count)(*cotangents)[0], values

            avals = [internals.abstract(self.equation.outvars[number]) for number in numbers]
            found = self._traced_columns("cotangent", pulled, nodes[0], avals, numbers, count)
            self._columns[key] = found
        return self._columns[key]

    def _traced_columns(
        self,
        name: str,
        function: Callable[..., Any],
        node: Apply,
        avals: Sequence[jax.ShapeDtypeStruct],
        numbers: Sequence[int],
        count: int | None,
    ) -> Columns:
        """What a function gives for the operands and for arguments like these; last, the primals."""
        shapes = [(*aval.shape, *([] if count is None else [count])) for aval in avals]
        arguments = tuple(
            variable(f"{name} {k} of {self!r}", shape, ["tangent"]) for k, shape in enumerate(shapes)
        )
        given = [
            (jax.ShapeDtypeStruct(shape, aval.dtype), argument)
            for shape, aval, argument in zip(shapes, avals, arguments, strict=True)
        ]
        found = self._traced(function, node, *given)
        values, primals = found[: -len(numbers)], found[-len(numbers) :]
        repeated = {k: _repeated(one, arguments) for k, one in zip(numbers, primals, strict=True)}
        return Columns(arguments, tuple(values), {k: one for k, one in repeated.items() if one is not None})


def _repeated(primal: Node, arguments: Collection[Variable]) -> Repeated | None:
    """Where a primal comes from, if it is the result of a loop."""
    if not isinstance(primal, Apply) or primal.name != FOREIGN or not rule_of(primal).is_loop:
        return None
    moving = dependents(topological(primal.operands), arguments)
    fixed = {slot: operand for slot, operand in enumerate(primal.operands) if operand not in moving}
    return Repeated(rule_of(primal), primal.params[1], fixed)


def _mapped(function: Callable[..., Any], count: int | None) -> Callable[..., Any]:
    """A function of columns, if there are any. Its second result is the same for all."""
    return function if count is None else jax.vmap(function, in_axes=-1, out_axes=(-1, None))


def _in_columns(made: Callable[[int | None], Columns], given: Sequence[Node], trail: Shape) -> list[Node]:
    """Values for `[argument…, trail…]` as `[value…, trail…]`, by as few columns as there need be."""
    if not trail:
        return made(None).at(given)
    shapes = [one.shape[: one.rank - len(trail)] for one in given]
    count, sizes = _size(trail), list(map(_size, shapes))
    if count > sum(sizes):
        return _by_matrix(made(sum(sizes)), given, shapes, trail)
    flat = [reshape(one, (*shape, count)) for one, shape in zip(given, shapes, strict=True)]
    return [reshape(value, (*value.shape[:-1], *trail)) for value in made(count).at(flat)]


def _by_matrix(columns: Columns, given: Sequence[Node], shapes: Sequence[Shape], trail: Shape) -> list[Node]:
    """The same by columns for unit tensors."""
    starts = [0, *accumulate(map(_size, shapes))]
    unit = delta((starts[-1],))
    units = [
        reshape(select(unit, [slice(*ends), WHOLE]), (*shape, starts[-1]))
        for ends, shape in zip(pairwise(starts), shapes, strict=True)
    ]
    found = []
    for value in columns.at(units):
        own = value.shape[:-1]
        terms = []
        for ends, shape, one in zip(pairwise(starts), shapes, given, strict=True):
            matrix = reshape(select(value, [*[WHOLE] * len(own), slice(*ends)]), own + shape)
            axes = plain_axes(len(own + shape + trail))
            terms.append(
                einsum(
                    [matrix, one],
                    [axes[: matrix.rank], axes[len(own) :]],
                    axes[: len(own)] + axes[matrix.rank :],
                    own + trail,
                    own + shape + trail,
                )
            )
        found.append(add(terms, own + trail))
    return found


def _size(shape: Shape) -> int:
    return math.prod(map(number, shape))


def _turned(node: Node, lead: int) -> Node:
    """The first axes as the last ones."""
    return transpose(node, [*range(lead, node.rank), *range(lead)])
