"""The derivation of a derivative, rule by rule."""

from __future__ import annotations

from dataclasses import dataclass

from hesse.api.formula import Formula

STRUCTURED_RULES = {
    "projected": "the part that has the structure of the matrix",
    "half": "by the independent entries of the matrix",
}


@dataclass(frozen=True)
class StepAnswer:
    """One line of a derivation: the rule that was used, and what it gives."""

    rule: str
    formula: str
    latex: str


def derivation(derivative: Formula) -> tuple[StepAnswer, ...]:
    """The steps from the function to its derivative.

    >>> from hesse import parse
    >>> for step in derivation(parse("x'*x").diff("x")):
    ...     print(f"{step.rule}: {step.formula}")
    the function: f = x'*x
    power rule: df/dx = 2*x
    """
    lines = [StepAnswer(step.rule, step.formula, step.latex) for step in derivative.steps()]
    if derivative.symmetric in STRUCTURED_RULES:
        rule = STRUCTURED_RULES[derivative.symmetric]
        lines.append(StepAnswer(rule, str(derivative), derivative.to("latex")))
    return tuple(lines)
