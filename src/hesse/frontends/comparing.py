"""Whether values are near each other, equal or real."""

from __future__ import annotations

from typing import Any

import numpy as np

from hesse.frontends.dispatch import call, implements
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_expression
from hesse.frontends.reductions import all_
from hesse.frontends.ufuncs import where
from hesse.ir import Node, uniform


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether values differ by little; infinite ones must be equal."""
    x, y = as_expression(a), as_expression(b)
    is_near = abs(x - y) <= atol + rtol * abs(y)
    found = where(call(np.isfinite, (y,)), is_near, x == y)
    return found | (call(np.isnan, (x,)) & call(np.isnan, (y,))) if equal_nan else found


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Whether all values differ by little."""
    return all_(isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether shapes and values are equal."""
    x, y = as_expression(a1), as_expression(a2)
    if x.shape != y.shape:
        return False
    found = x == y
    return all_(found | (call(np.isnan, (x,)) & call(np.isnan, (y,))) if equal_nan else found)


@implements(np.isreal)
def isreal(x: Any) -> Any:
    """All entries are real."""
    return _known(True, as_expression(x).node)


@implements(np.iscomplex)
def iscomplex(x: Any) -> Any:
    """No entry has an imaginary part."""
    return _known(False, as_expression(x).node)


def _known(answer: bool, node: Node) -> Any:
    """One answer for all entries: a truth value that code may decide by, unless sizes are names."""
    sizes = [size for size in node.shape if isinstance(size, int)]
    if len(sizes) == node.rank:
        return np.full(sizes, answer)[()]
    return Expression(uniform(float(answer), node.shape), boolean=True)
