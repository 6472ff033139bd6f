"""`grad`, `jacobian`, `hessian` and the rest: functions in, functions out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hesse.api.arguments import check_order
from hesse.api.compiled import Builder, Built, Derivative, Layout, Options, Request
from hesse.backends.target import Target
from hesse.calculus import choose, derivative_blocks, differentiate, pull_back, push_forward
from hesse.errors import ArgumentError
from hesse.ir import Node
from hesse.rewrite import simplify
from hesse.structured import formulas

Backend = str | Target | None
"""Where to compute: "numpy", "torch", "jax", one of these with settings, or None: the arrays decide."""


def _blocks(order: int) -> Builder:
    def build(request: Request) -> Built:
        count = len(request.variables)
        blocks, choices = derivative_blocks(request.output, request.variables, order, request.mode)
        indices = list(itertools.product(range(count), repeat=order))
        ranks = [variable.rank for variable in request.variables]
        return Built(
            [blocks[index] for index in indices],
            _nested(count, order, iter(range(len(indices)))) if request.as_tuple else 0,
            tuple((request.output.rank, *(ranks[k] for k in index)) for index in indices),
            choices,
        )

    return build


def _nested(count: int, order: int, numbers: Iterator[int]) -> Layout:
    return next(numbers) if order == 0 else tuple(_nested(count, order - 1, numbers) for _ in range(count))


def derivative(
    f: Callable[..., Any],
    order: int = 1,
    argnums: int | tuple[int, ...] = 0,
    mode: str = "auto",
    form: str = "dense",
    chunk: int | None = None,
    backend: Backend = None,
) -> Derivative:
    """The derivative of an order: output axes first, then one group of axes for each differentiation.

    With a tuple of `argnums` the result is a nested tuple of blocks, one level for each order. With
    `form="structured"` the blocks are `Structured` tensors instead of arrays. Dense results are computed
    `chunk` entries of their first axis at a time; by default so many that everything fits into memory.
    `backend` says where to compute ("numpy", "torch" or "jax"); by default the arrays decide.

    >>> import numpy as np, hesse
    >>> hesse.derivative(lambda x: np.sum(x**3), order=3)(np.ones(2)).shape
    (2, 2, 2)
    """
    return Derivative(f, _blocks(check_order(order)), Options(argnums, mode, form, chunk, backend))


def jacobian(
    f: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    mode: str = "auto",
    form: str = "dense",
    chunk: int | None = None,
    backend: Backend = None,
) -> Derivative:
    """The first derivative of a function of any output shape.

    >>> import numpy as np, hesse
    >>> hesse.jacobian(lambda x: x[:2] * x[1:])(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    return Derivative(f, _blocks(1), Options(argnums, mode, form, chunk, backend))


def hessian(
    f: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    mode: str = "auto",
    form: str = "dense",
    chunk: int | None = None,
    backend: Backend = None,
) -> Derivative:
    """The second derivative.

    >>> import numpy as np, hesse
    >>> hesse.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
    array([[4., 2.],
           [2., 0.]])
    """
    return Derivative(f, _blocks(2), Options(argnums, mode, form, chunk, backend))


def _scalar_output(request: Request, what: str) -> None:
    shape = request.output.shape
    if shape:
        raise ArgumentError(
            f"{what} needs a function with a scalar result, this one has shape {shape}; use jacobian"
        )


def grad(
    f: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    mode: str = "auto",
    backend: Backend = None,
) -> Derivative:
    """The gradient of a scalar function; it has the shape of the variable.

    >>> import numpy as np, hesse
    >>> hesse.grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    array([2., 4.])
    """

    def build(request: Request) -> Built:
        _scalar_output(request, "grad")
        return _blocks(1)(request)

    return Derivative(f, build, Options(argnums, mode, backend=backend))


def value_and_grad(
    f: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    mode: str = "auto",
    backend: Backend = None,
) -> Derivative:
    """The value of a scalar function and its gradient, in one program.

    >>> import numpy as np, hesse
    >>> value, gradient = hesse.value_and_grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    >>> print(value, gradient)
    5.0 [2. 4.]
    """

    def build(request: Request) -> Built:
        _scalar_output(request, "value_and_grad")
        choice = choose(request.output, request.variables, request.mode)
        gradients = tuple(range(1, len(choice.derivatives) + 1)) if request.as_tuple else 1
        return Built([request.output, *choice.derivatives], (0, gradients), choices=(choice,))

    return Derivative(f, build, Options(argnums, mode, backend=backend))


def jvp(f: Callable[..., Any], argnums: int = 0, backend: Backend = None) -> Derivative:
    """The directional derivative: `jvp(f)(x, v)` is the Jacobian times `v`, never formed.

    >>> import numpy as np, hesse
    >>> hesse.jvp(lambda x: x**2)(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([2., 2.])
    """

    def build(request: Request) -> Built:
        (point,), (direction,) = request.variables, request.extra
        _same_shape("v", direction, point.name, point)
        return Built(simplify([push_forward(request.output, {point: direction})]), 0)

    return Derivative(f, build, Options(_one(argnums), backend=backend), extra=("v",))


def vjp(f: Callable[..., Any], argnums: int = 0, backend: Backend = None) -> Derivative:
    """`vjp(f)(x, u)` is `u` times the Jacobian, never formed; `u` has the shape of the result.

    >>> import numpy as np, hesse
    >>> hesse.vjp(lambda x: x**2)(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([2., 2.])
    """

    def build(request: Request) -> Built:
        (weights,) = request.extra
        _same_shape("u", weights, "the result", request.output)
        return Built(simplify(pull_back(request.output, weights, request.variables)), 0)

    return Derivative(f, build, Options(_one(argnums), backend=backend), extra=("u",))


def hvp(f: Callable[..., Any], argnums: int = 0, backend: Backend = None) -> Derivative:
    """`hvp(f)(x, v)` is the Hessian of a scalar function times `v`, never formed.

    >>> import numpy as np, hesse
    >>> hesse.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([6., 6.])
    """

    def build(request: Request) -> Built:
        _scalar_output(request, "hvp")
        (point,), (direction,) = request.variables, request.extra
        _same_shape("v", direction, point.name, point)
        (gradient,) = differentiate(request.output, [point], "reverse")
        return Built(simplify([push_forward(gradient, {point: direction})]), 0)

    return Derivative(f, build, Options(_one(argnums), backend=backend), extra=("v",))


def diagonal(
    f: Callable[..., Any], argnums: int = 0, mode: str = "auto", backend: Backend = None
) -> Derivative:
    """The diagonal of the Hessian, contracted before anything larger is made.

    For a scalar function it has the shape of the variable; axes of a result come first.

    >>> import numpy as np, hesse
    >>> hesse.diagonal(lambda x: np.sum(x**3) + x[0] * x[1])(np.array([1.0, 2.0]))
    array([ 6., 12.])
    """
    return Derivative(f, _hessian_part(formulas.diagonal), Options(_one(argnums), mode, backend=backend))


def laplacian(
    f: Callable[..., Any], argnums: int = 0, mode: str = "auto", backend: Backend = None
) -> Derivative:
    """The trace of the Hessian, contracted before anything larger is made.

    >>> import numpy as np, hesse
    >>> print(hesse.laplacian(lambda x: np.sum(x**3) + x[0] * x[1])(np.array([1.0, 2.0])))
    18.0
    """
    return Derivative(f, _hessian_part(formulas.trace), Options(_one(argnums), mode, backend=backend))


def _hessian_part(formula: Callable[[Node, int], Node]) -> Builder:
    def build(request: Request) -> Built:
        (point,) = request.variables
        blocks, choices = derivative_blocks(request.output, [point], 2, request.mode)
        return Built(simplify([formula(blocks[0, 0], point.rank)]), 0, choices=choices)

    return build


def _one(argnums: Any) -> int:
    if isinstance(argnums, bool) or not isinstance(argnums, int | np.integer):
        raise ArgumentError(f"argnums must be one int here, not {argnums!r}")
    return int(argnums)


def _same_shape(name: str, node: Node, other_name: str, other: Node) -> None:
    if node.shape != other.shape:
        raise ArgumentError(f"{name} has shape {node.shape}, but {other_name} has shape {other.shape}")
