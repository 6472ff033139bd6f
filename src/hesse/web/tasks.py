"""What a worker can be asked: functions of a request, as plain data in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from hesse.answers import Question, answer, cost, derivation, derivative_of, reading, structure

Arguments = Mapping[str, Any]


def _question(arguments: Arguments) -> Question:
    return Question(
        arguments["formula"],
        tuple(arguments.get("by", ())),
        arguments.get("types", {}),
        arguments.get("symmetric", "free"),
    )


def _read(arguments: Arguments) -> dict[str, Any]:
    return asdict(reading(_question(arguments)))


def _derive(arguments: Arguments) -> dict[str, Any]:
    return asdict(answer(_question(arguments)))


def _steps(arguments: Arguments) -> dict[str, Any]:
    return {"steps": [asdict(step) for step in derivation(derivative_of(_question(arguments)))]}


def _render(arguments: Arguments) -> dict[str, Any]:
    notation = arguments.get("notation", "latex")
    return {"notation": notation, "text": derivative_of(_question(arguments)).to(notation)}


def _graph(arguments: Arguments) -> dict[str, Any]:
    graph = derivative_of(_question(arguments)).graph()
    return {"svg": graph.svg(), "nodes": len(graph.nodes), "edges": len(graph.edges)}


def _structure(arguments: Arguments) -> dict[str, Any]:
    found = structure(derivative_of(_question(arguments)))
    return {"structure": None if found is None else asdict(found)}


def _cost(arguments: Arguments) -> dict[str, Any]:
    return asdict(cost(derivative_of(_question(arguments)), arguments.get("sizes", {})))


TASKS: Mapping[str, Callable[[Arguments], dict[str, Any]]] = {
    "read": _read,
    "derive": _derive,
    "steps": _steps,
    "render": _render,
    "graph": _graph,
    "structure": _structure,
    "cost": _cost,
}
