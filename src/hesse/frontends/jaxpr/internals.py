"""What JAX does not promise to keep: the fields and parameters of equations, and how one is evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.extend.source_info_util import register_exclusion, summarize

__all__ = ["ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal", "Var", "bound", "location"]

register_exclusion(str(Path(__file__).parents[2]))  # what hesse calls is not the user's code


def bound(equation: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """What an equation gives for arrays, computed or recorded by the trace that is under way."""
    with equation.ctx.manager:
        found = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))
    return list(found) if equation.primitive.multiple_results else [found]


def computed(equation: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """The same, computed now whatever JAX traces around it."""
    with jax.ensure_compile_time_eval():
        return bound(equation, operands)


def location(equation: JaxprEqn) -> str:
    """Where the user's code made an equation; nothing where only libraries did."""
    place: str = summarize(equation.source_info)
    return place


def has_effects(equation: JaxprEqn) -> bool:
    """Whether an equation does something besides computing its results."""
    return bool(equation.effects)
