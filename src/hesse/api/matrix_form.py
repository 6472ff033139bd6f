"""Matrix forms of derivatives of order 3 and 4, compared with the derivative before they are printed."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from hesse.api.declarations import sizes_text, type_words
from hesse.api.verify import Differentiation, evaluated, points, rounding
from hesse.backends.numpy.interpreter import Values
from hesse.errors import VerificationError
from hesse.frontends.language import read_formula
from hesse.ir import Node, Variable
from hesse.printing import KroneckerForm, kronecker_form

TOLERANCE = 1e-9
"""Relative difference between a tensor and its matrix form that counts as a mismatch."""


def verified_form(node: Node, step: Differentiation) -> KroneckerForm | None:
    """The matrix M with vec(dF) = M*vec(dX), read back from its text and found equal to the derivative."""
    rank = step.by.rank
    form = kronecker_form(node, node.rank - rank, frozenset(variable.name for variable in step.variables))
    if form is None:
        return None
    used = set(re.findall(r"[A-Za-z]\w*", form.text))
    variables = [variable for variable in step.variables if variable.name in used]
    reading = read_formula(form.text, _types(variables))
    matrix = Values(reading.node)
    for values, sizes, _ in points(step):
        expected, found = (evaluated(function, values, sizes) for function in (step.derivative, matrix))
        if expected is None or found is None:
            continue
        rows, columns = expected.shape[:-rank], expected.shape[-rank:]
        shape = (int(np.prod(rows)), int(np.prod(columns)))
        expected = expected.transpose(*range(len(rows))[::-1], *range(len(rows), expected.ndim)[::-1])
        scale = np.max(np.abs(expected), initial=0.0)
        equal = found.shape == shape
        if equal:
            error = np.max(np.abs(found - expected.reshape(shape)), initial=0.0)
            equal = bool(
                error <= TOLERANCE * scale or error <= rounding(step.derivative, [values], sizes)  # of a zero
            )
        if not equal:
            raise VerificationError(
                f"the matrix form of the derivative {step.name} is not equal to the derivative. This is a "
                "mistake in hesse; please report the formula"
            )
        return form
    raise VerificationError(f"the matrix form of the derivative {step.name} is not finite at any point tried")


def _types(variables: Sequence[Variable]) -> dict[str, str]:
    """The types of variables by name, with the names of sizes, which the text may use as numbers."""
    return {
        variable.name: type_words(variable).split("(")[0] + sizes_text(variable)
        if sizes_text(variable)
        else type_words(variable)
        for variable in variables
    }
