"""Blocks of derivatives of a graph: planned once for each form of it, in the layouts that are asked for."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hesse.api.escapes import escape_to
from hesse.backends.executable import Executable, executable
from hesse.backends.kept import keep
from hesse.backends.target import Target, target_named
from hesse.calculus import sorted_blocks
from hesse.errors import ArgumentError
from hesse.frontends.aten.inputs import Walked
from hesse.ir import Node, Variable, einsum, is_zero, number, plain_axes, topological, transpose, variable
from hesse.plan import planned_cost
from hesse.plan.adjugates import joined
from hesse.rewrite import simplify
from hesse.structured import Structured, stored
from hesse.structured.patterns import products

Key = tuple[int, ...]
"""A block: the leaves that it is by, in the order in which the walk found them."""
SEED = "gradient"
ROUNDINGS = 1000
"""So many times the leaves may have been rounded, in effect, between two computations of a tensor."""

Independent = tuple[int | None, ...]
"""For each slot of a block the dimension that it shares with the others (None: it has none)."""


class Wanted(NamedTuple):
    """Blocks of a node by variables; the value comes before them, where it is known."""

    output: Node
    value: Node | None
    variables: tuple[Variable, ...]
    keys: tuple[Key, ...]
    is_batched: bool

    def made(
        self, target: Target, independent: Sequence[tuple[Independent, ...]] | None = None
    ) -> tuple[list[Node], Sequence[tuple[Independent, ...]]]:
        """The nodes of a program, and for each block the dimensions that are one axis, unless known."""
        nodes = _blocks(self.output, self.variables, self.keys, target, not self.is_batched)
        if self.is_batched:
            lead, ranks = self.output.rank, [[self.variables[k].rank for k in key] for key in self.keys]
            independent = independent or [
                shared_dimensions(node, lead, rank, key)
                for node, rank, key in zip(nodes, ranks, self.keys, strict=True)
            ]
            parts = zip(nodes, ranks, independent, strict=True)
            nodes = simplify([unified(node, lead, rank, dimensions) for node, rank, dimensions in parts])
        before = [] if self.value is None else [self.value]
        return before + nodes, independent or [()] * len(nodes)

    def made_again(self, target: Target, independent: Sequence[tuple[Independent, ...]]) -> list[Node]:
        """The same from products of determinants and inverses that are joined."""
        (output,) = joined([self.output])
        return self._replace(output=output).made(target, independent)[0]


class Plan(NamedTuple):
    """A program of some blocks; the value of the tensor comes first, where it is known."""

    runs: Executable
    inputs: tuple[str, ...]
    independent: tuple[tuple[Independent, ...], ...]
    """For each block the dimensions that are one axis of the result."""


class Blocks:
    """The derivatives of one walked graph."""

    def __init__(self, tensor: Tensor, walked: Walked, gradient: Tensor | None) -> None:
        self._tensor = tensor
        self._walked = walked
        self._gradient = gradient
        self._target: Target = target_named("torch")
        self._check_devices()
        self.leaves = [leaf for leaf, _ in walked.inputs.leaves]
        self.variables = [point for _, point in walked.inputs.leaves]
        self._dtype = self._target.dtype([tensor.dtype, *(leaf.dtype for leaf in self.leaves)])
        self._output = walked.root
        if gradient is not None:
            axes = plain_axes(tensor.dim())
            seed = variable(SEED, tuple(tensor.shape))
            self._output = einsum([seed, walked.root], [axes, axes], (), (), tuple(tensor.shape))

    def _check_devices(self) -> None:
        """All on one device, except numbers, and none without entries."""
        leaves = [leaf for leaf, _ in self._walked.inputs.leaves]
        tensors = [self._tensor, *(t for t in (*leaves, *self._walked.inputs.data.values()) if t.dim())]
        devices = sorted({str(tensor.device) for tensor in tensors})
        if "meta" in devices:
            raise ArgumentError("a tensor of the graph is on the device meta, where tensors have no entries")
        if len(devices) > 1:
            raise ArgumentError(
                f"the graph has tensors on {' and on '.join(devices)}; compute it on one device"
            )

    @property
    def primal(self) -> int:
        """The size of the first axis of all blocks."""
        return 1 if self._gradient is not None else self._tensor.numel()

    def computed(
        self, keys: Sequence[Key], is_batched: bool, create_graph: bool
    ) -> list[tuple[Tensor, tuple[Independent, ...]]]:
        """Blocks, with the axes of the tensor as one; independent dimensions follow it if `is_batched`."""
        plan = self._plan(tuple(keys), is_batched)
        with torch.set_grad_enabled(create_graph):
            values = list(plan.runs(*self._arrays(plan.inputs, create_graph)))
        if self._is_checked:
            self._check(values.pop(0))
        return [
            (value.reshape(self.primal, *value.shape[self._output.rank :]), independent)
            for value, independent in zip(values, plan.independent, strict=True)
        ]

    def structured(self, key: Key, places: Sequence[int]) -> Structured:
        """A block as patterns over small tensors, with its groups of axes at other places.

        The axes of the tensor stay as they are.
        """
        node = _blocks(self._output, self.variables, (key,), self._target, is_dense=False)[0]
        lead, ranks = self._output.rank, [self.variables[k].rank for k in key]
        axes = _places(lead, ranks)
        order = [*range(lead), *(axes[place, d] for place in places for d in range(ranks[place]))]
        storage = stored(transpose(node, order))
        inputs = _inputs(storage.sources)
        escape = escape_to(None, storage.sources)
        runs = executable(storage.sources, inputs, self._dtype, self._target, False, escape=escape)
        with torch.no_grad():
            parts = runs(*self._arrays(inputs, False))
        groups = (lead, *(ranks[place] for place in places))
        form = Structured.form(storage.node, storage.names, groups, self._dtype, self._target)
        return Structured(form, parts)

    @property
    def _is_checked(self) -> bool:
        """Whether the value of the tensor is known from the graph."""
        return not self._walked.is_shifted

    def _plan(self, keys: tuple[Key, ...], is_batched: bool) -> Plan:
        value = self._walked.root if self._is_checked else None
        wanted = Wanted(self._output, value, tuple(self.variables), keys, is_batched)
        known = wanted, self._walked.root, self._dtype, self._target
        found = _plans.get(known)
        if found is None:
            roots, independent = wanted.made(self._target)
            inputs = _inputs(roots)
            escape = escape_to(functools.partial(wanted.made_again, self._target, independent), roots)
            runs = executable(roots, inputs, self._dtype, self._target, escape=escape)
            runs.check_memory(
                lambda: "Controller.structured(variables) gives derivatives that are not dense."
            )
            found = Plan(runs, inputs, tuple(independent))
            keep(_plans, known, found)
        return found

    def _arrays(self, names: Sequence[str], create_graph: bool) -> list[Tensor]:
        """The inputs of a program."""
        known: dict[str, Tensor] = dict(self._walked.inputs.data)
        known |= {
            point.name: leaf if create_graph else leaf.detach() for leaf, point in self._walked.inputs.leaves
        }
        if self._gradient is not None:
            known[SEED] = self._gradient
        return [self._array(name, known) for name in names]

    def _array(self, name: str, known: Mapping[str, Tensor]) -> Tensor:
        array = known[name]
        if not array.dim():  # numbers are on the CPU, whatever they are multiplied with
            array = array.to(self._tensor.device)
        return array if name.endswith("as an index") else array.to(self._dtype)

    def _check(self, value: Tensor) -> None:
        """Compare the tensor with what the graph gives at the leaves as they are now."""
        tensor, value = self._tensor.detach(), value.detach()
        if not tensor.numel():
            return
        dtypes = (tensor.dtype, *self._walked.dtypes)
        eps = max(torch.finfo(dtype).eps for dtype in dtypes if dtype.is_floating_point)
        gaps = (value - tensor).abs()
        is_same = gaps <= 8 * eps**0.5 * tensor.abs().nan_to_num(0.0, 0.0, 0.0).max()
        is_same |= (value == tensor) | (value.isnan() & tensor.isnan())
        if not bool(is_same.all()) and bool((gaps > ROUNDINGS * eps * self._sensitivity()).any()):
            raise ArgumentError(
                "the graph gives other values than the tensor has: a leaf or the tensor was changed in place "
                "after it was computed (by an optimizer, or by load_state_dict). Compute the tensor again"
            )

    def _sensitivity(self) -> Tensor:
        """How much the tensor changes with a relative change of the leaves."""
        plain = Blocks(self._tensor, self._walked._replace(is_shifted=True), None)
        keys = [(k,) for k in range(len(self.leaves))]
        parts = [
            block.reshape(len(block), -1).abs() @ leaf.detach().flatten().abs().to(block.dtype)
            for leaf, (block, _) in zip(self.leaves, plain.computed(keys, False, False), strict=True)
        ]
        return torch.stack(parts).sum(0).reshape(self._tensor.shape)


_plans: dict[Any, Plan] = {}
"""By the expression, the blocks and the layout."""


def _blocks(
    output: Node, variables: Sequence[Variable], keys: Sequence[Key], target: Target, is_dense: bool
) -> list[Node]:
    """Blocks of derivatives."""
    found = sorted_blocks(
        output, variables, keys, machine=target.machine, judge=planned_cost, is_dense=is_dense
    )
    return [found.nodes[key] for key in keys]


def _inputs(roots: Sequence[Node]) -> tuple[str, ...]:
    """The variables that nodes read."""
    return tuple(dict.fromkeys(node.name for node in topological(roots) if isinstance(node, Variable)))


def shared_dimensions(node: Node, lead: int, ranks: Sequence[int], key: Key) -> tuple[Independent, ...]:
    """The dimensions that are independent in a block: different entries of them do not interact.

    In all terms of the block the slots have the same index there, so that everything else is zero.
    """
    if len(key) < 2:
        return ()
    terms = products(node)
    places = _places(lead, ranks)
    marks = {
        place: (
            number(node.shape[axis]),
            key[place[0]] if is_zero(node) else tuple(t.output[axis] for t in terms),
        )
        for place, axis in places.items()
    }
    found: list[Independent] = []
    taken: set[tuple[int, int]] = set()
    for place in places:
        if place in taken:
            continue
        dimensions = _sharing(place, marks, taken, key)
        if sum(dimension is not None for dimension in dimensions) > 1:
            found.append(dimensions)
            taken |= {(slot, d) for slot, d in enumerate(dimensions) if d is not None}
    return tuple(found)


def _places(lead: int, ranks: Sequence[int]) -> dict[tuple[int, int], int]:
    """The axes of a block by slot and dimension."""
    starts = [lead + sum(ranks[:slot]) for slot in range(len(ranks))]
    return {(slot, d): starts[slot] + d for slot, rank in enumerate(ranks) for d in range(rank)}


def _sharing(
    place: tuple[int, int], marks: Mapping[tuple[int, int], Any], taken: set[tuple[int, int]], key: Key
) -> Independent:
    """For each slot the dimension that always has the index of a place; the same for equal leaves."""
    chosen: dict[int, int | None] = {key[place[0]]: place[1]}
    for leaf in key:
        same = [d for (slot, d), mark in marks.items() if key[slot] == leaf and mark == marks[place]]
        chosen.setdefault(leaf, same[0] if same else None)
    for slot, leaf in enumerate(key):
        dimension = chosen[leaf]
        if dimension is not None:
            other = slot, dimension
            if other in taken or marks[other] != marks[place]:
                chosen[leaf] = None
    return tuple(chosen[leaf] for leaf in key)


def unified(node: Node, lead: int, ranks: Sequence[int], dimensions: Sequence[Independent]) -> Node:
    """A block with each independent dimension as one axis, right after those of the tensor."""
    if not dimensions:
        return node
    places = _places(lead, ranks)
    label: dict[tuple[int, int], int] = {
        (slot, d): lead + k
        for k, shared in enumerate(dimensions)
        for slot, d in enumerate(shared)
        if d is not None
    }
    for place in places:
        label.setdefault(place, lead + len(dimensions) + len(label))
    order = {old: new for new, old in enumerate(sorted({*range(lead), *label.values()}))}
    axes = plain_axes(len(order))
    read = (*axes[:lead], *(axes[order[label[place]]] for place in places))
    shape = list(node.shape[:lead]) + [0] * (len(order) - lead)
    for place, axis in places.items():
        shape[order[label[place]]] = node.shape[axis]
    return einsum([node], [read], axes, tuple(shape), tuple(shape), expand=(0,))
