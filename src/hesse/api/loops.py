"""Recurrences of many equal steps: one node, whose derivatives are such nodes again.

A loop computes `c[k] = after(c[k-1], x[k], s)` and gives all of its carries, the first one included, one
after the other: those before and after each step are views of it. What a step computes without the carry is
computed for all steps at once, before the loop, and what it computes from the carries, after it
(`calculus/batching.py`): only what has to wait for the step before stays inside.

Tangents pass by `dc[k] = ∂c after · dc[k-1] + f[k]`, where `f` are the tangents of everything but the carry,
and cotangents by `w[k-1] = w[k] · ∂c after + g[k-1]`, in the other direction, where `g` is the cotangent
of the carries. Both are loops. All other cotangents follow from `w` for all steps at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast
from weakref import WeakValueDictionary

import numpy as np

from hesse.api.loop_factors import as_diagonal, joined
from hesse.api.loop_runs import Run, run_jax, run_numpy, run_torch
from hesse.backends.executable import Executable, executable
from hesse.backends.numpy.compiling import compile_loop
from hesse.backends.numpy.program import NumpyProgram
from hesse.backends.numpy.recurrence import diagonal_recurrence
from hesse.backends.numpy.target import NumpyTarget
from hesse.backends.target import Target, target_for
from hesse.calculus import pull_back, push_forward
from hesse.calculus.batching import batched
from hesse.ir import (
    Apply,
    Einsum,
    Node,
    Shape,
    Variable,
    add,
    concatenate,
    dependents,
    is_zero,
    opened,
    rebuild,
    reshape,
    select,
    substitute,
    topological,
    total,
    transpose,
    use_counts,
    variable,
    zero,
)
from hesse.ops.foreign import Output, Rule, foreign
from hesse.rewrite import simplify

MOST_HOISTED = 10_000_000
"""Entries of what is computed for all steps at once, if it could be computed step by step."""
SHORT = 2**8
"""Loops of so few instructions in all are written out for XLA, which takes longer to begin a step."""
WHOLE = slice(None)


class Part(NamedTuple):
    """A node whose value is a part of the new carry, a vector then, and where it begins."""

    node: Node
    start: int


class Body(NamedTuple):
    """A step: what the carry is after it, in terms of variables for the carry, items and what is shared."""

    length: int
    is_reversed: bool
    carry: Variable
    items: tuple[Variable, ...]
    shared: tuple[Variable, ...]
    after: Node
    parts: tuple[Part, ...] = ()
    is_diagonal: bool = False
    """Whether `after` is the carry times the first item plus the second."""


class Steps(NamedTuple):
    """How often and in which direction, and what items and other nodes of a step stand for outside."""

    length: int
    is_reversed: bool
    stacks: Mapping[Node, Node]
    fixed: Mapping[Node, Node]

    @property
    def known(self) -> dict[Node, Node]:
        """The nodes of a step that stand for something outside."""
        return {**self.stacks, **self.fixed}

    def further(self, stacks: Mapping[Node, Node], fixed: Mapping[Node, Node]) -> Steps:
        """With more nodes that stand for something outside."""
        return self._replace(stacks={**self.stacks, **stacks}, fixed={**self.fixed, **fixed})

    def open(self, order: Sequence[Node]) -> set[Node]:
        """The nodes of a topological order that are no constants."""
        return dependents(order, [*self.known, *(node for node in order if isinstance(node, Variable))])

    def batched(self, *nodes: Node) -> list[Node]:
        """Nodes for all steps."""
        return batched(nodes, self.stacks, self.fixed, self.length, self._looped)

    def _looped(self, node: Node, stacks: Mapping[Node, Node], fixed: Mapping[Node, Node]) -> Node:
        """A node that is computed step by step: the carry is its value, and nobody reads it."""
        flat = reshape(node, (math.prod(map(int, node.shape)),))
        unread = variable("the value before", flat.shape)
        inside = self._replace(stacks=stacks, fixed=fixed)
        names: dict[Node, Variable] = {}
        for below in (*stacks, *fixed):
            names[below] = variable(f"value {len(names)}", below.shape, kind=below.kind)
        values = inside._replace(
            stacks={names[n]: value for n, value in stacks.items()},
            fixed={names[n]: value for n, value in fixed.items()},
        )
        (after,) = substitute([flat], names)
        found = _node(values, unread, zero(flat.shape), after, (), [*values.stacks], [*values.fixed])
        return reshape(self.after(found), (self.length, *node.shape))

    def before(self, carries: Node) -> Node:
        """The carries before each step."""
        return _rows(carries, slice(1, None) if self.is_reversed else slice(0, -1))

    def after(self, carries: Node) -> Node:
        """The carries after each step."""
        return _rows(carries, slice(0, -1) if self.is_reversed else slice(1, None))

    def first(self, carries: Node) -> Node:
        """The carry before the first step."""
        return _rows(carries, self.length if self.is_reversed else 0)

    def last(self, carries: Node) -> Node:
        """The carry after the last step."""
        return _rows(carries, 0 if self.is_reversed else self.length)

    def joined(self, start: Node, after: Node) -> Node:
        """All carries, from the first one and those after each step."""
        pieces = [reshape(start, (1, *start.shape)), after]
        return concatenate(pieces[::-1] if self.is_reversed else pieces, 0)


def loop(steps: Steps, carry: Variable, start: Node, after: Node, parts: Sequence[Part] = ()) -> Node:
    """All carries of a recurrence, `[length + 1, carry…]`; what need not be inside the loop is taken out."""
    if after not in dependents(topological([after], steps.known), [carry]):
        return steps.joined(start, steps.batched(after)[0])
    steps, after, parts = _with_joined_factors(steps, carry, after, parts)
    order = topological([after], steps.known)
    live, by_step, is_open = dependents(order, [carry]), dependents(order, steps.stacks), steps.open(order)
    diagonal = as_diagonal(carry, after, live)
    if diagonal is not None and steps.length * math.prod(map(int, carry.shape)) <= MOST_HOISTED:
        factor, added = (variable(name, carry.shape, ["loop"]) for name in ("factor", "added"))
        steps = steps.further(dict(zip((factor, added), steps.batched(*diagonal), strict=True)), {})
        return _node(steps, carry, start, carry * factor + added, (), [factor, added], [], True)
    inside, items, shared = {after}, dict[Node, None](), dict[Node, None]()
    waiting = [after]
    while waiting:
        for operand in waiting.pop().operands:
            if operand in inside or operand is carry or operand not in is_open:
                continue
            is_large = steps.length * math.prod(map(int, operand.shape)) > MOST_HOISTED
            if operand in live or (operand in by_step and operand not in steps.known and is_large):
                inside.add(operand)
                waiting.append(operand)
            else:
                (items if operand in by_step else shared)[operand] = None
    kept = [part for part in parts if part.node in inside]
    return _node(steps, carry, start, after, kept, [*items], [*shared])


def _multiplied_out(
    steps: Steps, carry: Variable, after: Node, parts: Sequence[Part]
) -> tuple[Node, list[Part]]:
    """The step with products of products as one product, where nobody else uses the inner one."""
    order = topological([after], steps.known)
    live = dependents(order, [carry])
    uses = use_counts(order, [after, *(part.node for part in parts)])
    new: dict[Node, Node] = {}
    for node in order:
        operands = tuple(new.get(operand, operand) for operand in node.operands)
        made = new[node] = node if operands == node.operands else rebuild(node, operands)
        if isinstance(made, Einsum) and isinstance(node, Einsum) and len(node.operands) > 1:
            inner = {new.get(o, o) for o in node.operands if o in live and o is not carry and uses[o] == 1}
            where = [k for k, operand in enumerate(made.operands) if operand in inner]
            new[node] = opened(made, where) if where else made
    return new[after], [part._replace(node=new[part.node]) for part in parts if part.node in new]


def _with_joined_factors(
    steps: Steps, carry: Variable, after: Node, parts: Sequence[Part]
) -> tuple[Steps, Node, list[Part]]:
    """The step with the factors of its products joined that do not wait for the carry."""
    after, parts = _multiplied_out(steps, carry, after, parts)
    order = topological([after], steps.known)
    live, by_step, is_open = dependents(order, [carry]), dependents(order, steps.stacks), steps.open(order)
    by_name: tuple[dict[Node, Node], dict[Node, Node]] = {}, {}

    def named(product: Node, is_by_step: bool) -> Variable:
        name = variable(f"factor {len(by_name[0]) + len(by_name[1])}", product.shape, ["loop"])
        by_name[is_by_step][name] = product
        return name

    new: dict[Node, Node] = {carry: carry}
    for node in order:
        if node in live and node is not carry:
            operands = tuple(new.get(operand, operand) for operand in node.operands)
            if isinstance(node, Einsum):
                free = [k for k, o in enumerate(node.operands) if o not in live and o in is_open]
                new[node] = joined(node, operands, free, by_step, named)
            else:
                new[node] = node if operands == node.operands else rebuild(node, operands)
    kept = [part for part in parts if part.node in new]
    after, *nodes = simplify([new[after], *(new[part.node] for part in kept)])  # common factors
    moved = [part._replace(node=node) for part, node in zip(kept, nodes, strict=True)]
    fixed = zip(by_name[0], substitute(by_name[0].values(), steps.fixed), strict=True)
    stacks = zip(by_name[1], steps.batched(*by_name[1].values()), strict=True)
    return steps.further(dict(stacks), dict(fixed)), after, moved


def _node(
    steps: Steps,
    carry: Variable,
    start: Node,
    after: Node,
    parts: Sequence[Part],
    items: Sequence[Node],
    shared: Sequence[Node],
    is_diagonal: bool = False,
) -> Node:
    """The node of a loop in which some nodes are items and others shared."""
    own = variable("carry", carry.shape, ["loop"])
    table: dict[Node, Node] = {carry: own}
    names: list[list[Variable]] = [[], []]
    for kind, nodes in enumerate((items, shared)):
        for k, node in enumerate(nodes):
            # Numbers are arrays of one entry: what NumPy cuts out of an array has axes then.
            is_number = kind == 0 and node.rank == 0 and node.kind == "real"
            shape = (1,) if is_number else node.shape
            name = variable(f"{('item', 'shared')[kind]} {k}", shape, ["loop"], node.kind)
            names[kind].append(name)
            table[node] = name if shape == node.shape else reshape(name, ())
    new = substitute([after, *(part.node for part in parts)], table)
    body = Body(
        steps.length,
        steps.is_reversed,
        own,
        tuple(names[0]),
        tuple(names[1]),
        new[0],
        tuple(Part(node, part.start) for node, part in zip(new[1:], parts, strict=True)),
        is_diagonal,
    )
    rule = _rules.get(body)
    if rule is None:
        rule = _rules[body] = LoopRule(body)
    stacks = [
        reshape(stack, (steps.length, *name.shape))
        for stack, name in zip(steps.batched(*items), names[0], strict=True)
    ]
    fixed = substitute(shared, steps.fixed)
    return foreign(rule, start, *stacks, *fixed)[0]


def _rows(stack: Node, rows: slice | int) -> Node:
    return select(stack, [rows] + [WHOLE] * (stack.rank - 1))


class LoopRule(Rule):
    """A loop as a function of the first carry, of stacks of items, and of what is shared by all steps."""

    is_native = True
    is_searched = False

    def __init__(self, body: Body) -> None:
        super().__init__("scan")
        self.body = body
        self.variables = (body.carry, *body.items, *body.shared)
        self.names = [name.name for name in self.variables]
        inside = sum(bool(node.operands) for node in topological([body.after]))
        self.steps, self.lines = body.length, 1 if body.is_diagonal else body.length * inside
        self._tangents: dict[tuple[int, Shape], tuple[Variable, Node]] = {}
        self._cotangents: dict[tuple[int, Shape], tuple[Variable, Node]] = {}
        self._loops: dict[Any, Callable[..., Any]] = {}
        self._back: WeakValueDictionary[tuple[Node, Node], Node] = WeakValueDictionary()

    def outputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Output, ...]:
        return (Output((self.body.length + 1, *shapes[0])),)

    def call(self, *arrays: Any) -> Sequence[Any]:
        body, count = self.body, len(self.body.items) + 1
        run = Run(body.length, body.is_reversed, arrays[0], arrays[1:count], arrays[count:])
        if isinstance(run.start, np.ndarray):
            return [run_numpy(self._numpy_loop(arrays), run)]
        step, target = self._step(arrays)
        if target.name == "torch":
            return [run_torch(step.compiled.function, run)]
        is_short = run.length * len(step.program.instructions) <= SHORT
        return [run_jax(step.compiled.function, run, is_short)]

    def _step(self, arrays: Sequence[Any]) -> tuple[Executable, Target]:
        target = target_for(arrays)
        dtype = target.dtype([array.dtype for array in arrays if target.kind(array) == "f"])
        return executable([self.body.after], self.names, dtype, target), target

    def _numpy_loop(self, arrays: Sequence[np.ndarray]) -> Callable[..., Any]:
        """The function by which NumPy runs all steps."""
        if self.body.is_diagonal:
            return diagonal_recurrence
        key = tuple([array.dtype for array in arrays])
        found = self._loops.get(key)
        if found is None:
            step, target = self._step(arrays)
            program, machine = cast("NumpyProgram", step.program), cast("NumpyTarget", target).machine
            compiled = compile_loop(program, self.names, len(self.body.items), step.dtype, machine)
            found = self._loops[key] = compiled.function
        return found

    def push(self, node: Apply, slot: int, tangent: Node) -> Node:
        return self.push_all(node, {slot: tangent})

    def push_all(self, node: Apply, tangents: Mapping[int, Node]) -> Node:
        body, steps = self.body, self._steps(node)
        slot, tangent = next(iter(tangents.items()))
        trail = tangent.shape[node.operands[slot].rank :]
        shape = body.carry.shape + trail
        forcing = [self._forcing(steps, slot, tangent, trail) for slot, tangent in tangents.items() if slot]
        force = add(forcing, (body.length, *shape))
        moving, after = self._pushed(0, trail)
        if not is_zero(force):
            forced = variable("forcing", shape)
            steps, after = steps.further({forced: force}, {}), after + forced
        return loop(steps, moving, tangents.get(0, zero(shape)), after)

    def _forcing(self, steps: Steps, slot: int, tangent: Node, trail: Shape) -> Node:
        """What the tangent of an item, or of something shared, adds to that of the carry in each step."""
        moving, after = self._pushed(slot, trail)
        given: dict[Node, Node] = {moving: tangent}
        is_item = slot <= len(self.body.items)
        return steps.further(given if is_item else {}, {} if is_item else given).batched(after)[0]

    def _pushed(self, slot: int, trail: Shape) -> tuple[Variable, Node]:
        """A tangent of an operand inside of a step, and that of the carry after it."""
        if (slot, trail) not in self._tangents:
            changed = self.variables[slot]
            moving = variable("tangent", changed.shape + trail, ["loop"])
            after = push_forward(self.body.after, {changed: moving}, trail)
            self._tangents[slot, trail] = moving, simplify([after])[0]
        return self._tangents[slot, trail]

    def pull(self, node: Apply, slot: int, cotangent: Node) -> Node:
        body, steps = self.body, self._steps(node)
        lead = cotangent.rank - node.rank
        given = transpose(cotangent, [lead, *range(lead), *range(lead + 1, cotangent.rank)])
        back = self._backward(node, steps, given)
        if slot == 0:
            return steps.first(back)
        passing, before = self._pulled(slot, given.shape[1:])
        (found,) = steps.further({passing: steps.after(back)}, {}).batched(before)
        if slot <= len(body.items):
            return transpose(found, [*range(1, lead + 1), 0, *range(lead + 1, found.rank)])
        return total(found, [0])

    def _backward(self, node: Apply, steps: Steps, given: Node) -> Node:
        """The cotangents of all carries; the same node for all operands."""
        known = self._back.get((node, given))
        if known is None:
            passing, before = self._pulled(0, given.shape[1:])
            added = variable("added", passing.shape, ["loop"])
            back = steps._replace(is_reversed=not self.body.is_reversed)
            back = back.further({added: steps.before(given)}, {})
            known = self._back[node, given] = loop(back, passing, steps.last(given), before + added)
        return known

    def _pulled(self, slot: int, shape: Shape) -> tuple[Variable, Node]:
        """A cotangent `[lead…, carry…]` after a step, and that of an operand before it."""
        if (slot, shape) not in self._cotangents:
            passing = variable("cotangent", shape, ["loop"])
            before = pull_back(self.body.after, passing, [self.variables[slot]])
            self._cotangents[slot, shape] = passing, simplify(before)[0]
        return self._cotangents[slot, shape]

    def _steps(self, node: Apply) -> Steps:
        """What the variables of the body stand for at a node, and all of its nodes whose values are kept."""
        body = self.body
        _, *given = node.operands
        count = len(body.items)
        stacks: dict[Node, Node] = dict(zip(body.items, given[:count], strict=True))
        fixed: dict[Node, Node] = dict(zip(body.shared, given[count:], strict=True))
        steps = Steps(body.length, body.is_reversed, stacks, fixed)
        carries: dict[Node, Node] = {body.after: steps.after(node), body.carry: steps.before(node)}
        for part, first in body.parts:
            size = math.prod(map(int, part.shape))
            piece = select(carries[body.after], [WHOLE, slice(first, first + size)])
            carries[part] = reshape(piece, (body.length, *part.shape))
        return steps.further(carries, {})


_rules: WeakValueDictionary[Body, LoopRule] = WeakValueDictionary()
