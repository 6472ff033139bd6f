"""Formulas: expressions read from text, which remember what they are derivatives of."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from hesse.calculus import differentiate
from hesse.errors import ArgumentError
from hesse.frontends.expression import Expression
from hesse.frontends.language import formula_node
from hesse.frontends.symbolic import bind_shape
from hesse.ir import Node, Variable
from hesse.rewrite import simplify


class Formula(Expression):
    """An expression that was read from text, or a derivative of one.

    `parent` is the formula it is a derivative of (None for the text itself), `by` the variable.
    """

    __slots__ = ("by", "parent")

    def __init__(self, node: Node, parent: Formula | None = None, by: Variable | None = None) -> None:
        super().__init__(node)
        self.parent = parent
        self.by = by

    def __repr__(self) -> str:
        return f"Formula({str(self)!r}, shape={self.shape})"

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of the formula and of those it is a derivative of, by name."""
        root = self
        while root.parent is not None:
            root = root.parent
        return super(Formula, root).variables

    def evaluate(self, **values: Any) -> np.ndarray:
        """The value for arrays by name; sizes follow from the arrays.

        >>> import numpy as np, hesse
        >>> print(hesse.parse("x'*A*x").diff("x").evaluate(x=np.ones(2), A=np.eye(2)))
        [2. 2.]
        """
        sizes: dict[str, int] = {}
        for variable in self.variables:
            if variable.name in values:
                bind_shape(variable.name, variable, np.shape(values[variable.name]), sizes)
        return self.compile()(**{**values, **sizes})

    def diff(self, *variables: Any, mode: str = "auto") -> Self:
        """The derivative by the given variables, one after the other.

        >>> import hesse
        >>> print(hesse.parse("x'*A*x").diff("x", "x"))
        A + A'
        """
        if not variables:
            raise ArgumentError("diff needs at least one variable to differentiate by")
        result = self
        for variable in [self._variable(variable) for variable in variables]:
            (node,) = differentiate(simplify([result.node])[0], [variable], mode)
            result = type(self)(node, result, variable)
        return result


def parse(text: str, **types: str) -> Formula:
    """The formula that a text means.

    >>> import hesse
    >>> print(hesse.parse("norm2(A*x - y)^2").diff("x"))
    2*A'*(A*x - y)
    """
    return Formula(formula_node(text, types))


def diff(formula: str | Formula, *variables: Any, **types: str) -> Formula:
    """The derivative of a formula, or of a text, by variables."""
    expression = parse(formula, **types) if isinstance(formula, str) else formula
    return expression.diff(*variables)
