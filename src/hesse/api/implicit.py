"""`root` and `fixed_point`: solutions of equations, differentiable by the implicit function theorem.

The solution y of F(y, θ) = 0 is a foreign function of θ. Its tangent is -(∂F/∂x)⁻¹ (∂F/∂θ) dθ at x = y, an
expression in y itself, so higher derivatives follow by differentiating that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hesse.api.filling import traced_alone
from hesse.api.trace import argument, nested_trace
from hesse.api.trees import is_container, is_list_of_numbers, take_apart
from hesse.backends.arrays import as_arrays
from hesse.backends.executable import Executable, executable
from hesse.backends.numpy.target import TARGET
from hesse.calculus import differentiate, pull_back, push_forward
from hesse.calculus.foreign import DerivedRule, LinearMap
from hesse.calculus.rolling import rolled
from hesse.errors import ArgumentError, ConvergenceError, ShapeError
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.ir import (
    Add,
    Apply,
    Einsum,
    Node,
    Shape,
    Variable,
    add,
    einsum_of,
    multiply,
    number,
    reciprocal,
    reshape,
    substitute,
    topological,
    transpose,
    variable,
)
from hesse.ops.foreign import Output, foreign
from hesse.ops.linalg import solve
from hesse.rewrite import simplify
from hesse.structured import Storage, Structured, stored

Residual = Callable[[np.ndarray], np.ndarray]
Solver = Callable[[Residual, np.ndarray], Any]
"""Finds a solution, or a point near one, from a residual and a start."""

MOST_STEPS = 50
"""Newton steps."""
MOST_HALVINGS = 20
"""How often a Newton step is halved until it makes the residual smaller."""
LAST_STEP = 1e-8
"""A Newton step that is so much smaller than each entry of the solution squares an error that is small."""
MOST_ITERATIONS = 1000
"""Iterations of a fixed point …"""
NEAR = 1e-4
"""… until they change it by so little that Newton's method takes over."""


def root(F: Callable[..., Any], x0: Any, *theta: Any, solver: Solver | None = None) -> Any:
    """The solution x of `F(x, *theta) = 0` near `x0`, differentiable by theta to any order.

    F is traced, and its result has the shape of x. Newton's method finds the solution, with the Jacobian of F
    in its structured form; it begins at `x0`, or at what `solver(residual, x0)` returns. The solution does
    not depend on `x0`. Parameters may be containers of arrays. Traced values that F closes over are
    differentiated by, too.

    >>> import numpy as np, hesse
    >>> hesse.root(lambda x, a: x**2 - a, np.ones(2), np.array([4.0, 9.0]))
    array([2., 3.])
    >>> hesse.grad(lambda a: hesse.root(lambda x: x**2 - a, 1.0))(4.0)
    np.float64(0.25)
    """
    return _solution("root", F, F, x0, theta, solver)


def fixed_point(g: Callable[..., Any], x0: Any, *theta: Any, solver: Solver | None = None) -> Any:
    """The point `x = g(x, *theta)` that iterations reach from `x0`, differentiable by theta to any order.

    The last digits are found by Newton's method. Else it is `root` of `g(x, *theta) - x`.

    >>> import numpy as np, hesse
    >>> float(hesse.fixed_point(np.cos, 1.0))
    0.7390851332151607
    >>> hesse.check(lambda a: hesse.fixed_point(lambda x, a: np.cos(a * x), 1.0, a), 0.8, order=2).ok
    True
    """

    def residual(x: Any, *values: Any) -> Any:
        return g(x, *values) - x

    return _solution("fixed_point", g, residual, x0, theta, solver or _iterated)


def _solution(
    name: str,
    given: Callable[..., Any],
    residual: Callable[..., Any],
    x0: Any,
    theta: tuple[Any, ...],
    solver: Solver | None,
) -> Any:
    if not callable(given):
        raise ArgumentError(f"{name} takes a function, not a {type(given).__name__}")
    check_start(name, x0)
    function, values = with_leaves(residual, theta)
    shapes = [shape_of(value) for value in (x0, *values)]
    rule = traced_alone(given, lambda: ImplicitRule(name, function, shapes, solver))
    return solved(rule, (x0, *values))


def check_start(name: str, x0: Any) -> None:
    """What is looked for is one array."""
    if is_container(x0) and not is_list_of_numbers(x0):
        raise ArgumentError(
            f"{name} looks for one array, and x0 is a {type(x0).__name__}; start at np.concatenate of its "
            "parts, and take x apart inside of the function (parameters may be containers)"
        )


def with_leaves(function: Callable[..., Any], theta: tuple[Any, ...]) -> tuple[Callable[..., Any], list[Any]]:
    """A function of x and parameters as one of x and the leaves of these; and the leaves."""
    is_array = [not is_container(value) or is_list_of_numbers(value) for value in theta]
    if all(is_array):
        return function, list(theta)
    inside = [None if known else take_apart(value) for known, value in zip(is_array, theta, strict=True)]
    leaves = [[value] if part is None else part[0] for value, part in zip(theta, inside, strict=True)]

    def of_leaves(x: Any, *values: Any) -> Any:
        rest = iter(values)
        own = [list(itertools.islice(rest, len(part))) for part in leaves]
        return function(
            x,
            *(
                part[0] if held is None else held[1].unflatten(part)
                for part, held in zip(own, inside, strict=True)
            ),
        )

    return of_leaves, list(itertools.chain.from_iterable(leaves))


def solved(rule: ImplicitRule, values: tuple[Any, ...]) -> Any:
    """The solution for a start and parameters: traced if one of these is or if some were captured."""
    if rule.captured or any(isinstance(value, Expression) for value in values):
        return Expression(foreign(rule, *map(as_node, values), *rule.captured)[0])
    names = ["x0", *(f"theta[{k}]" for k in range(len(values) - 1))]
    arrays = as_arrays(names, values)
    operands = [variable(label, shape) for label, shape in zip(names, arrays.shapes, strict=True)]
    runs = executable(list(foreign(rule, *operands)), names, arrays.dtype, arrays.target)
    result = arrays.run(runs)[0]
    return result[()] if isinstance(result, np.ndarray) else result


def shape_of(value: Any) -> Shape:
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


class ImplicitRule(DerivedRule):
    """The solution of an equation. Its operands are a start, parameters, and what the equation captured."""

    def __init__(
        self, name: str, residual: Callable[..., Any], shapes: Sequence[Shape], solver: Solver | None
    ) -> None:
        super().__init__(name)
        self.solver = solver
        labels = [f"{what} of {self!r}" for what in ("x", *(f"theta {k}" for k in range(1, len(shapes))))]
        own = [argument(label, shape) for label, shape in zip(labels, shapes, strict=True)]  # type: ignore[arg-type]
        with nested_trace():
            found = residual(*map(Expression, own))
        (self.residual,) = simplify(rolled([as_node(found)]))
        self.unknown = own[0]
        if self.residual.shape != self.unknown.shape:
            raise ShapeError(
                f"{name} needs a function that returns the shape of x: x0 has shape {self.unknown.shape}, "
                f"and the function returned shape {self.residual.shape}"
            )
        inside = [node for node in topological([self.residual]) if isinstance(node, Variable)]
        self.captured = [node for node in inside if node not in own]
        self.parameters = [*own[1:], *self.captured]

    def outputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Output, ...]:
        return (Output(shapes[0]),)

    def is_active(self, node: Apply, slot: int) -> bool:
        return slot > 0

    @cached_property
    def jacobian(self) -> Node:
        """∂F/∂x, axes of F first."""
        return differentiate(self.residual, [self.unknown])[0]

    def tangent(self, node: Apply, slot: int) -> LinearMap:
        """dy = -(∂F/∂x)⁻¹ (∂F/∂θ) dθ."""
        parameter = self.parameters[slot - 1]
        direction = variable(f"tangent {slot} of {self!r}", parameter.shape, ["tangent"])
        change = push_forward(self.residual, {parameter: direction})
        return self._at(node, -_solved(self.jacobian, change), direction)

    def cotangent(self, node: Apply, slot: int) -> LinearMap:
        """θ' = -(∂F/∂θ)' λ, where λ solves (∂F/∂x)' λ = y'."""
        direction = variable(f"cotangent of {self!r}", node.shape, ["tangent"])
        rank = node.rank
        adjoint = _solved(transpose(self.jacobian, [*range(rank, 2 * rank), *range(rank)]), direction)
        (change,) = pull_back(self.residual, adjoint, [self.parameters[slot - 1]])
        return self._at(node, -change, direction)

    def _at(self, node: Apply, value: Node, direction: Variable) -> LinearMap:
        """A linear map at the solution."""
        table: dict[Node, Node] = {self.unknown: node}
        table.update(zip(self.parameters, node.operands[1:], strict=True))
        return LinearMap(substitute([value], table)[0], direction, (direction,), (node, *node.operands))

    @cached_property
    def _programs(self) -> tuple[Executable, Executable, Storage]:
        """Programs for F and for the parts of its structured Jacobian."""
        names = [self.unknown.name, *(parameter.name for parameter in self.parameters)]
        storage = stored(self.jacobian)
        dtype = np.dtype(np.float64)
        return (
            executable([self.residual], names, dtype, TARGET),
            executable(storage.sources, names, dtype, TARGET, in_order=False),
            storage,
        )

    def call(self, *arrays: Any) -> Sequence[Any]:
        x0, *values = (np.asarray(array, np.float64) for array in arrays)
        value_of, parts_of, storage = self._programs

        def residual(x: np.ndarray) -> np.ndarray:
            return np.asarray(value_of(np.asarray(x, np.float64), *values)[0])

        def step(x: np.ndarray, target: np.ndarray) -> np.ndarray:
            groups, dtype = (x.ndim, x.ndim), np.dtype(np.float64)
            form = Structured.form(storage.node, storage.names, groups, dtype, TARGET)
            return np.asarray(Structured(form, parts_of(x, *values)).solve(target))

        with np.errstate(all="ignore"):  # points on the way may be anywhere
            start = np.asarray(self.start(residual, x0, values), np.float64)
            if start.shape != x0.shape:
                raise ShapeError(f"the solver of {self.name} returned shape {start.shape}, x0 has {x0.shape}")
            return [_newton(self.name, residual, step, start)]

    def start(self, residual: Residual, x0: np.ndarray, values: Sequence[np.ndarray]) -> Any:
        """Where Newton's method begins, for these values of the parameters."""
        return x0 if self.solver is None else self.solver(residual, x0)


def _iterated(residual: Residual, x0: np.ndarray) -> np.ndarray:
    x = x0
    for _ in range(MOST_ITERATIONS):
        change = residual(x)
        x = x + change
        if not np.isfinite(change).all():
            break
        if _size(change) <= NEAR * (1.0 + _size(x)):
            return x
    raise ConvergenceError(
        f"fixed_point did not converge: after {MOST_ITERATIONS} iterations at most the residual is "
        f"{_size(residual(x)):.1e}; start nearer, pass a solver, or use root"
    )


def _newton(
    name: str, residual: Residual, solve_for: Callable[[np.ndarray, np.ndarray], np.ndarray], x: np.ndarray
) -> np.ndarray:
    """Newton's method; steps are halved until they make the residual smaller."""
    value = residual(x)
    for _ in range(MOST_STEPS):
        if not value.any():
            return x
        try:
            step = -solve_for(x, value)
        except np.linalg.LinAlgError:
            break
        if not np.isfinite(step).all():
            break
        if (np.abs(step) <= LAST_STEP * np.abs(x)).all():
            return np.asarray(x + step)
        shorter = step
        for _ in range(MOST_HALVINGS):
            new = residual(x + shorter)
            if _size(new) < _size(value):
                break
            shorter = shorter / 2
        else:
            if _size(step) <= LAST_STEP * (1.0 + _size(x)):  # nothing is nearer than rounding
                return x
            break
        x, value = x + shorter, new
    raise ConvergenceError(
        f"{name} did not converge: the residual is {_size(value):.1e}; start nearer to a solution at which "
        "the Jacobian is regular, or pass a solver"
    )


def _size(x: np.ndarray) -> float:
    """The largest absolute value; nan if there is one."""
    return float(np.abs(x).max(initial=0.0))


def _solved(matrix: Node, right: Node) -> Node:
    """The solution of a linear system, rows and columns of which have the axes of the right-hand side.

    Axes along which the matrix is diagonal are a batch of systems.
    """
    rank = right.rank
    terms = matrix.operands if isinstance(matrix, Add) else (matrix,)
    batch = [k for k in range(rank) if all(_is_diagonal(term, k, rank) for term in terms)]
    rest = [k for k in range(rank) if k not in batch]
    order = [*batch, *rest, *(rank + k for k in rest)]
    blocks = add([_diagonal(term, order) for term in terms], tuple(matrix.shape[k] for k in order))
    turned = transpose(right, [*batch, *rest])
    if not rest:
        return transpose(multiply(turned, reciprocal(blocks)), np.argsort(batch).tolist())
    lead = tuple(right.shape[k] for k in batch)
    size = int(np.prod([number(right.shape[k]) for k in rest]))
    found = solve(reshape(blocks, (*lead, size, size)), reshape(turned, (*lead, size)))
    return transpose(reshape(found, turned.shape), np.argsort([*batch, *rest]).tolist())


def _is_diagonal(term: Node, axis: int, rank: int) -> bool:
    """Whether a term is zero but where its axes `axis` and `rank + axis` have the same index."""
    if not isinstance(term, Einsum):
        return False
    first, second = term.output[axis], term.output[rank + axis]
    return first == second and first.is_label and term.ranges[first.label] == term.shape[axis]


def _diagonal(term: Node, order: Sequence[int]) -> Node:
    """The term with some of its axes, in an order; those left out have the same labels as others."""
    product = term.product
    return einsum_of(
        product._replace(output=tuple(product.output[k] for k in order)), tuple(term.shape[k] for k in order)
    )
