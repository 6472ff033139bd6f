"""What a worker can be asked: functions of a request, as plain data in and out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from hesse.answers import Answer, Question, answer_of, cost, derivation, derivative_of, reading, structure
from hesse.api.formula import Formula

KEPT_DERIVATIVES = 32

Arguments = Mapping[str, Any]
Types = tuple[tuple[str, str], ...]
Key = tuple[str, tuple[str, ...], Types, str]


def _question(arguments: Arguments) -> Question:
    return Question(
        arguments["formula"],
        tuple(arguments.get("by", ())),
        arguments.get("types", {}),
        arguments.get("symmetric", "free"),
    )


def _key(arguments: Arguments) -> Key:
    question = _question(arguments)
    return question.formula, question.by, tuple(question.types.items()), question.symmetric


def _derivative(arguments: Arguments) -> Formula:
    return _known_derivative(*_key(arguments))


@functools.lru_cache(maxsize=KEPT_DERIVATIVES)
def _known_derivative(formula: str, by: tuple[str, ...], types: Types, symmetric: str) -> Formula:
    """The derivative: several panels of the page ask for the same one."""
    return derivative_of(Question(formula, by, dict(types), symmetric))


@functools.lru_cache(maxsize=KEPT_DERIVATIVES)
def _known_answer(formula: str, by: tuple[str, ...], types: Types, symmetric: str) -> Answer:
    """The answer: people go back to what they have seen."""
    question = Question(formula, by, dict(types), symmetric)
    return answer_of(question, _known_derivative(formula, by, types, symmetric))


def _read(arguments: Arguments) -> dict[str, Any]:
    return asdict(reading(_question(arguments)))


def _derive(arguments: Arguments) -> dict[str, Any]:
    return asdict(_known_answer(*_key(arguments)))


def _steps(arguments: Arguments) -> dict[str, Any]:
    return {"steps": [asdict(step) for step in derivation(_derivative(arguments))]}


def _render(arguments: Arguments) -> dict[str, Any]:
    notation = arguments.get("notation", "latex")
    return {"notation": notation, "text": _derivative(arguments).to(notation)}


def _graph(arguments: Arguments) -> dict[str, Any]:
    graph = _derivative(arguments).graph()
    return {"svg": graph.svg(), "nodes": len(graph.nodes), "edges": len(graph.edges)}


def _structure(arguments: Arguments) -> dict[str, Any]:
    found = structure(_derivative(arguments))
    return {"structure": None if found is None else asdict(found)}


def _cost(arguments: Arguments) -> dict[str, Any]:
    return asdict(cost(_derivative(arguments), arguments.get("sizes", {})))


TASKS: Mapping[str, Callable[[Arguments], dict[str, Any]]] = {
    "read": _read,
    "derive": _derive,
    "steps": _steps,
    "render": _render,
    "graph": _graph,
    "structure": _structure,
    "cost": _cost,
}
