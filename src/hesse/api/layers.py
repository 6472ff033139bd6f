"""Second derivatives layer by layer: the blocks between different layers of a model are not made."""

from __future__ import annotations

import json
import re
from typing import Any

from hesse.api.entries import Built, Request
from hesse.api.layout import Branches, Layout, mapped
from hesse.api.trees import take_apart
from hesse.calculus import Choice, derivative_blocks
from hesse.errors import ArgumentError
from hesse.ir import Node
from hesse.plan import planned_cost

STEP = re.compile(r'\[("(?:[^"\\]|\\.)*")\]|\[([^\]]*)\]|\.(\w+)')
"""A step from a container to what it holds, as names of leaves have them: `["weight"]`, `[0]`, `.bias`."""


def layer_blocks(request: Request) -> Built:
    """The Hessian by each layer: `{layer: {name: {name: block}}}`.

    What stands in one container is a layer, and so is what has the same beginning in names such as
    "0.weight", which modules of PyTorch have. What stands alone is a layer of its own.
    """
    layers: dict[str, dict[str, int]] = {}
    for k, path in enumerate(_paths(request.names)):
        members = layers.setdefault(".".join(path[:-1] or path), {})
        if (other := members.setdefault(path[-1], k)) != k:
            raise ArgumentError(
                f"{request.names[other]} and {request.names[k]} have the same layer and the same name in it; "
                "rename one of them, or leave out blocks='layer'"
            )
    roots: list[Node] = []
    groups: list[tuple[int, ...]] = []
    choices: list[Choice] = []

    def entered(output: Node) -> Layout:
        arrangement: dict[str, Any] = {}
        for layer, members in layers.items():
            variables = [request.variables[k] for k in members.values()]
            blocks, found = derivative_blocks(
                output, variables, 2, request.mode, judge=planned_cost, is_dense=request.is_dense
            )
            choices.extend(found)
            rows = arrangement[layer] = {name: dict.fromkeys(members, 0) for name in members}
            for row, first in enumerate(members):
                for column, second in enumerate(members):
                    rows[first][second] = len(roots)
                    roots.append(blocks[row, column])
                    groups.append((output.rank, variables[row].rank, variables[column].rank))
        positions, spec = take_apart(arrangement)
        return Branches(spec, tuple(positions))

    layout = mapped(request.output.layout, lambda k: entered(request.output.nodes[k]))
    return Built(roots, layout, tuple(groups), tuple(choices))


def _paths(names: list[str]) -> list[list[str]]:
    """For each leaf the steps that lead to it; the name of the argument counts if there are several."""
    arguments = [re.split(r"[\[.]", name, maxsplit=1)[0] for name in names]
    has_several = len(set(arguments)) > 1
    return [
        ([argument] if has_several else []) + _steps(name[len(argument) :]) or [argument]
        for name, argument in zip(names, arguments, strict=True)
    ]


def _steps(text: str) -> list[str]:
    steps: list[str] = []
    for quoted, index, attribute in STEP.findall(text):
        steps += json.loads(quoted).split(".") if quoted else [index or attribute]
    return steps
