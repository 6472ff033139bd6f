"""Derivatives of order 3 and 4 as matrices, in text and LaTeX: vec(dF) = M*vec(dX)."""

from __future__ import annotations

from typing import NamedTuple

from hesse.ir import Node
from hesse.printing.arrange import arrange_form
from hesse.printing.kronecker import matrix_of
from hesse.printing.latex import arrangement_latex
from hesse.printing.text import arrangement_text

LONGEST_TEXT = 240
"""A longer matrix says less than index notation."""


class KroneckerForm(NamedTuple):
    """The matrix of a derivative in text and in LaTeX."""

    text: str
    latex: str


def kronecker_form(node: Node, row_rank: int, taken: frozenset[str] = frozenset()) -> KroneckerForm | None:
    """The matrix M with vec(dF) = M*vec(dX), whose rows are the first axes; None if it has no such form.

    >>> from hesse import parse
    >>> kronecker_form(parse("A*X*B").diff("X").node, 2).text
    "kron(B', A)"
    """
    between_matrices = node.rank in (3, 4) and 1 <= row_rank <= 2 and 1 <= node.rank - row_rank <= 2
    form = matrix_of(node, row_rank) if between_matrices else None
    if form is None:
        return None
    layout = arrange_form(form, node, taken)
    text = arrangement_text(layout)
    return None if len(text) > LONGEST_TEXT else KroneckerForm(text, arrangement_latex(layout))
