"""What is asked: a formula in text, types of its variables, and what to differentiate by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hesse.api.formula import Formula, parse
from hesse.errors import ArgumentError
from hesse.frontends.language.reader import read
from hesse.frontends.language.source import Source
from hesse.ir import Shape

HIGHEST_ORDER = 6
"""Derivatives of higher orders have too many terms to be read."""
MOST_GIVEN_ENTRIES = 1_000_000
TYPE_CHOICES = (
    "scalar",
    "positive scalar",
    "vector",
    "positive vector",
    "matrix",
    "symmetric matrix",
    "psd matrix",
    "diagonal matrix",
    "antisymmetric matrix",
    "positive matrix",
    "tensor(3)",
    "tensor(4)",
)
"""The types that a page offers to choose from; more can be written in words."""


@dataclass(frozen=True)
class Question:
    """A formula, the variables to differentiate by (one after the other), and types other than the usual."""

    formula: str
    by: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    symmetric: str = "free"


def formula_of(question: Question) -> Formula:
    """The formula itself.

    >>> print(formula_of(Question("x'*x")))
    x'*x
    """
    return parse(question.formula, **question.types)


def declared_names(question: Question) -> frozenset[str]:
    """The variables that the text itself declares.

    >>> declared_names(Question("psd matrix A; x'*A*x"))
    frozenset({'A'})
    """
    document = read(Source(question.formula))
    return frozenset(declaration.name for declaration in document.declarations)


def derivative_of(question: Question) -> Formula:
    """The derivative that is asked for; the formula itself, simplified, if there are no variables.

    >>> print(derivative_of(Question("x'*A*x", ("x", "x"))))
    A + A'
    """
    if len(question.by) > HIGHEST_ORDER:
        raise ArgumentError(
            f"the derivative of order {len(question.by)} was asked for; the highest order is {HIGHEST_ORDER}"
        )
    formula = formula_of(question)
    result = formula.diff(*question.by, symmetric=question.symmetric) if question.by else formula
    for shape in [result.node.shape, *(variable.shape for variable in formula.variables)]:
        _check_given_sizes(shape)
    return result


def _check_given_sizes(shape: Shape) -> None:
    """Numbers in a declaration are the sizes of the numeric check too, so they must be small."""
    entries = math.prod(size for size in shape if isinstance(size, int))
    if entries > MOST_GIVEN_ENTRIES:
        raise ArgumentError(
            f"the sizes in the text make tensors of {entries:,} entries, too many for the check against "
            "finite differences; declare names for sizes, such as matrix A(m,n)"
        )
