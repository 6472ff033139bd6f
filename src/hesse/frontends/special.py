"""Functions that NumPy lacks, for expressions and for arrays.

On expressions they build expressions; on numbers and arrays alone they compute at once, by the same
definition, compiled once for each combination of shapes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import hesse.ops.elementwise as table
from hesse.backends.arrays import as_arrays
from hesse.backends.executable import executable
from hesse.backends.target import library_of
from hesse.frontends.dispatch import METHODS
from hesse.frontends.expression import Expression
from hesse.frontends.libraries import by_expressions
from hesse.frontends.linear_algebra import system
from hesse.frontends.operands import as_node, axis_number, axis_numbers
from hesse.frontends.reductions import merged_axes
from hesse.frontends.structural import expand_dims, moveaxis
from hesse.frontends.ufuncs import elementwise
from hesse.ir import Node, multiply, total, variable
from hesse.ops import linalg, normalization, spectra, structural

Function = TypeVar("Function", bound=Callable[..., Any])
NAMES = ("operand0", "operand1")
"""Names for the operands of a function that is called with arrays."""


def _also_for_arrays(operand_count: int) -> Callable[[Function], Function]:
    """Let a function whose first arguments are expressions take arrays too."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @by_expressions
        @functools.wraps(function)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            bound = signature.bind(*arguments, **options)
            bound.apply_defaults()
            given = list(bound.arguments.values())
            operands, rest = given[:operand_count], given[operand_count:]
            if any(isinstance(value, Expression) for value in given):
                return function(*given)
            arrays = as_arrays(list(bound.arguments)[:operand_count], operands)
            settings = tuple(map(_setting, rest))
            runs = executable(
                [_traced(function, tuple(arrays.shapes), settings)],
                NAMES[:operand_count],
                arrays.dtype,
                arrays.target,
            )
            result = arrays.run(runs)[0]
            return result[()] if isinstance(result, np.ndarray) else result  # numbers in, numbers out

        return wrapped  # type: ignore[return-value]

    return decorate


def _setting(value: Any) -> Any:
    """A setting by its value: lists cannot be compared, and arrays of one number may change."""
    if isinstance(value, list):
        return tuple(value)
    is_array = isinstance(value, np.ndarray | np.generic) or library_of(value) is not None
    return value.item() if is_array and not value.shape else value


@functools.lru_cache(maxsize=512)
def _traced(
    function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], settings: tuple[Any, ...]
) -> Node:
    operands = [Expression(variable(name, shape)) for name, shape in zip(NAMES, shapes, strict=False)]
    node: Node = function(*operands, *settings).node
    return node


@_also_for_arrays(1)
def erf(x: Any) -> Any:
    """The error function."""
    return elementwise("erf", x)


@_also_for_arrays(1)
def erfc(x: Any) -> Any:
    """One less the error function, exact also where that is tiny."""
    return elementwise("erfc", x)


@_also_for_arrays(1)
def erfinv(x: Any) -> Any:
    """The inverse of `erf`."""
    return elementwise("erfinv", x)


@_also_for_arrays(1)
def erfcinv(x: Any) -> Any:
    """The inverse of `erfc`, exact also where that is tiny."""
    return elementwise("erfcinv", x)


@_also_for_arrays(1)
def ndtr(x: Any) -> Any:
    """The distribution function of the normal distribution."""
    return elementwise("ndtr", x)


@_also_for_arrays(1)
def ndtri(x: Any) -> Any:
    """The inverse of `ndtr`: quantiles of the normal distribution."""
    return elementwise("ndtri", x)


@_also_for_arrays(1)
def log_ndtr(x: Any) -> Any:
    """The logarithm of `ndtr`, exact also in the left tail."""
    return elementwise("log_ndtr", x)


@_also_for_arrays(1)
def lgamma(x: Any) -> Any:
    """The logarithm of the absolute value of the gamma function."""
    return elementwise("lgamma", x)


@_also_for_arrays(1)
def digamma(x: Any) -> Any:
    """The derivative of `lgamma`."""
    return elementwise("digamma", x)


@_also_for_arrays(2)
def polygamma(n: Any, x: Any) -> Any:
    """The n-th derivative of `digamma`."""
    return elementwise("polygamma", n, x)


@_also_for_arrays(2)
def xlogy(x: Any, y: Any) -> Any:
    """`x log(y)`, zero where x is zero."""
    return elementwise("xlogy", x, y)


@_also_for_arrays(1)
def sigmoid(x: Any) -> Any:
    """The logistic function `1 / (1 + exp(-x))`."""
    return elementwise("sigmoid", x)


@_also_for_arrays(1)
def softplus(x: Any) -> Any:
    """`log(1 + exp(x))`."""
    return elementwise("softplus", x)


@_also_for_arrays(1)
def relu(x: Any) -> Any:
    """`max(x, 0)`."""
    return elementwise("relu", x)


@_also_for_arrays(1)
def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    """`x` where it is positive, else `slope * x`."""
    return elementwise("leaky_relu", x, slope)


@_also_for_arrays(1)
def elu(x: Any, alpha: float = 1.0) -> Any:
    """`x` where it is positive, else `alpha (exp(x) - 1)`."""
    return elementwise("elu", x, alpha)


@_also_for_arrays(1)
def selu(x: Any) -> Any:
    """The scaled elu that keeps mean 0 and variance 1."""
    return elementwise("selu", x)


@_also_for_arrays(1)
def celu(x: Any, alpha: float = 1.0) -> Any:
    """`x` where it is positive, else `alpha (exp(x / alpha) - 1)`."""
    return elementwise("celu", x, alpha)


@_also_for_arrays(1)
def gelu(x: Any, approximate: bool = False) -> Any:
    """`x` times the normal distribution function; approximated by tanh if asked for."""
    return elementwise("gelu_tanh" if approximate else "gelu", x)


@_also_for_arrays(1)
def silu(x: Any) -> Any:
    """`x sigmoid(x)`, also called swish."""
    return elementwise("silu", x)


@_also_for_arrays(1)
def softsign(x: Any) -> Any:
    """`x / (1 + |x|)`."""
    return elementwise("softsign", x)


@_also_for_arrays(1)
def hard_tanh(x: Any) -> Any:
    """`x` cut off at -1 and 1."""
    return elementwise("hard_tanh", x)


@_also_for_arrays(1)
def _stop_gradient(x: Any) -> Any:
    """`x`, taken for a constant by every derivative."""
    return elementwise("stop_gradient", x)


def stop_gradient(x: Any) -> Any:
    """`x`, taken for a constant by every derivative; it may be a tensor train, which knows how."""
    return x.stop_gradient() if hasattr(type(x), "stop_gradient") else _stop_gradient(x)


@_also_for_arrays(1)
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """`log(sum(exp(x)))` over axes, without overflow."""
    node = as_node(x)
    axes = tuple(sorted(axis_numbers("logsumexp", axis, node.rank)))
    result = normalization.logsumexp(merged_axes(node, axes, last=True))
    return Expression(expand_dims(result, axes) if keepdims and axes else result)


METHODS[np.logaddexp.reduce] = lambda array, axis=0, keepdims=False: logsumexp(array, axis, keepdims)


def _on_axis(name: str, function: Callable[[Node], Node], x: Any, axis: int) -> Expression:
    """A function of the last axis on another one."""
    node = as_node(x)
    number = axis_number(name, axis, node.rank)
    return Expression(moveaxis(function(moveaxis(node, number, -1)), -1, number))


@_also_for_arrays(1)
def softmax(x: Any, axis: int = -1) -> Any:
    """`exp(x) / sum(exp(x))` over an axis."""
    return _on_axis("softmax", normalization.softmax, x, axis)


@_also_for_arrays(1)
def log_softmax(x: Any, axis: int = -1) -> Any:
    """`x - logsumexp(x)` over an axis."""
    return _on_axis("log_softmax", normalization.log_softmax, x, axis)


@_also_for_arrays(1)
def layer_norm(x: Any, axis: int = -1, epsilon: float = 1e-5) -> Any:
    """`(x - mean) / sqrt(variance + epsilon)` over an axis."""
    return _on_axis("layer_norm", lambda node: normalization.layer_norm(node, epsilon), x, axis)


@_also_for_arrays(1)
def expm(a: Any) -> Any:
    """The matrix exponential."""
    return Expression(spectra.expm(as_node(a)))


@_also_for_arrays(1)
def logdet(a: Any) -> Any:
    """The logarithm of the absolute value of the determinant."""
    return Expression(linalg.log_determinant(as_node(a)))


@_also_for_arrays(2)
def solve_triangular(a: Any, b: Any, lower: bool = False) -> Any:
    """The solution of `a @ x = b`, reading only the upper triangle of `a`, or the `lower` one."""
    return Expression(linalg.triangular_solve(*system("solve_triangular", a, b), bool(lower)))


@_also_for_arrays(1)
def safe_norm(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The length of vectors along axes; at 0 all its derivatives are 0, where `np.linalg.norm` has nan."""
    node = as_node(x)
    axes = axis_numbers("safe_norm", axis, node.rank)
    result = table.safe_sqrt(total(multiply(node, node), axes))
    return Expression(expand_dims(result, axes) if keepdims and axes else result)


@_also_for_arrays(1)
def unfold(x: Any, window: int, axis: int = -1, step: int = 1) -> Any:
    """Sliding windows: `result[..., i, ..., k] = x[..., step*i + k, ...]`, a new last axis for k."""
    return Expression(structural.unfold(as_node(x), axis, window, step))
