"""`argmin`: minima as functions of parameters, by SciPy and the implicit function theorem.

At a minimum the gradient vanishes: it is a root of the gradient, whose Jacobian is the Hessian.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hesse.api.filling import traced_alone
from hesse.api.implicit import ImplicitRule, Residual, check_start, shape_of, solved, with_leaves
from hesse.backends.executable import Executable, executable
from hesse.backends.numpy.target import TARGET
from hesse.calculus import differentiate
from hesse.calculus.rolling import rolled
from hesse.errors import ArgumentError, ConvergenceError, ShapeError
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.ir import Node, Shape
from hesse.rewrite import simplify

WITHOUT_GRADIENT = frozenset({"nelder-mead", "powell", "cobyla", "cobyqa"})
WITH_HESSIAN = frozenset({"newton-cg", "dogleg", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr"})
"""What the methods of `scipy.optimize.minimize` take."""
FLAT = 1e-12
"""A Hessian with an eigenvalue below this part of the largest one is not that of a minimum."""


def argmin(f: Callable[..., Any], x0: Any, *theta: Any, method: str = "trust-exact") -> Any:
    """The x near `x0` at which `f(x, *theta)` is least, differentiable by theta to any order.

    f is traced; its result is a number. `scipy.optimize.minimize` finds the minimum by a method of its own,
    with gradient and Hessian by hesse, and Newton's method its last digits. The Hessian there must be
    positive definite, else the minimum is no smooth function of theta.

    >>> import numpy as np, hesse
    >>> ridge = lambda w, lam, X, y: np.sum((X @ w - y) ** 2) + lam * np.sum(w**2)
    >>> X, y = np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]]), np.array([1.0, 2.0, 0.5])
    >>> w = hesse.argmin(ridge, np.zeros(2), 0.1, X, y)
    >>> bool(np.allclose(w, np.linalg.solve(X.T @ X + 0.1 * np.eye(2), X.T @ y)))
    True
    >>> hesse.check(lambda lam: hesse.argmin(ridge, np.zeros(2), lam, X, y), 0.1, order=2).ok
    True
    """
    if not callable(f):
        raise ArgumentError(f"argmin takes a function, not a {type(f).__name__}")
    check_start("argmin", x0)
    function, parameters = with_leaves(f, theta)
    values = (x0, *parameters)
    shapes = [shape_of(value) for value in values]
    return solved(traced_alone(f, lambda: _MinimumRule(function, shapes, method)), values)


class _MinimumRule(ImplicitRule):
    """The root of a gradient, found by minimising."""

    def __init__(self, f: Callable[..., Any], shapes: Sequence[Shape], method: str) -> None:
        self._function, self._method = f, method
        self._objective: Node | None = None
        self._runs: tuple[Executable, Executable] | None = None
        super().__init__("argmin", self._gradient, shapes, None)

    def _gradient(self, x: Any, *theta: Any) -> Expression:
        node = as_node(self._function(x, *theta))
        if node.shape:
            raise ShapeError(f"argmin needs a function with a scalar result, this one has shape {node.shape}")
        (self._objective,) = simplify(rolled([node]))
        return Expression(differentiate(self._objective, [x.node])[0])

    def _programs_of(self) -> tuple[Executable, Executable]:
        """Programs for the function and its Hessian."""
        if self._runs is None:
            assert self._objective is not None
            names = [self.unknown.name, *(parameter.name for parameter in self.parameters)]
            value, hessian = (
                executable([node], names, np.dtype(np.float64), TARGET)
                for node in (self._objective, self.jacobian)
            )
            self._runs = value, hessian
        return self._runs

    def start(self, residual: Residual, x0: np.ndarray, values: Sequence[np.ndarray]) -> Any:
        value_of, hessian_of = self._programs_of()
        shape, size = x0.shape, x0.size

        def shaped(x: np.ndarray) -> np.ndarray:
            return np.asarray(x, np.float64).reshape(shape)

        def hessian(x: np.ndarray) -> np.ndarray:
            return np.asarray(hessian_of(shaped(x), *values)[0]).reshape(size, size)

        name = self._method.lower()
        options: dict[str, Any] = (
            {} if name in WITHOUT_GRADIENT else {"jac": lambda x: residual(shaped(x)).ravel()}
        )
        if name in WITH_HESSIAN:
            options["hess"] = hessian
        found = importlib.import_module("scipy.optimize").minimize(
            lambda x: float(value_of(shaped(x), *values)[0]), x0.ravel(), method=self._method, **options
        )
        curvatures = (
            np.linalg.eigvalsh(hessian(found.x)) if np.isfinite(found.x).all() else np.array([np.nan])
        )
        if not curvatures[0] > FLAT * abs(curvatures[-1]):
            raise ConvergenceError(
                f"argmin found no minimum with a positive definite Hessian: scipy.optimize.minimize says "
                f"{found.message!r}, and the least eigenvalue of the Hessian is {curvatures[0]:.1e}; start "
                "elsewhere, choose another method, or add a term that makes the minimum unique"
            )
        return shaped(found.x)
