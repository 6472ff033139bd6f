"""Answers to questions about formulas, as plain data: what the command line prints and the page shows."""

from hesse.answers.check import check_orders
from hesse.answers.cost import LARGEST_SIZE, Cost, cost
from hesse.answers.question import (
    HIGHEST_ORDER,
    TYPE_CHOICES,
    Question,
    derivative_of,
)
from hesse.answers.result import Answer, KroneckerAnswer, Reading, answer, answer_of, reading
from hesse.answers.steps import StepAnswer, derivation
from hesse.answers.structure import Structure, structure

__all__ = [
    "HIGHEST_ORDER",
    "LARGEST_SIZE",
    "TYPE_CHOICES",
    "Answer",
    "Cost",
    "KroneckerAnswer",
    "Question",
    "Reading",
    "StepAnswer",
    "Structure",
    "answer",
    "answer_of",
    "check_orders",
    "cost",
    "derivation",
    "derivative_of",
    "reading",
    "structure",
]
