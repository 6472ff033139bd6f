"""Answers to questions about formulas, as plain data: what the command line prints and the page shows."""

from hesse.answers.check import CheckAnswer, check_orders
from hesse.answers.cost import Cost, cost
from hesse.answers.question import Question, derivative_of, formula_of, type_words
from hesse.answers.result import Answer, answer

__all__ = [
    "Answer",
    "CheckAnswer",
    "Cost",
    "Question",
    "answer",
    "check_orders",
    "cost",
    "derivative_of",
    "formula_of",
    "type_words",
]
