"""Products and sums of ATen: matrix products, einsum, reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.frontends.aten.table import aten, enter
from hesse.frontends.products import einsum as einsum_of

for _name, _function in {
    "matmul": np.matmul,
    "mm": np.matmul,
    "bmm": np.matmul,
    "mv": np.matmul,
    "dot": np.dot,
    "vdot": np.dot,
    "inner": np.inner,
    "outer": np.outer,
    "ger": np.outer,
    "kron": np.kron,
}.items():
    enter([_name], lambda x, y, _function=_function, **_: _function(x, y))


@aten("einsum")
def einsum(equation: str, tensors: Sequence[Any], path: Any = None) -> Any:
    """Einstein's notation."""
    return einsum_of(equation.replace(" ", ""), *tensors)


@aten("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """`x @ weight.T + bias`."""
    product = np.matmul(x, weight.T)
    return product if bias is None else np.add(product, bias)


@aten("addmm", "addmv", "baddbmm")
def addmm(x: Any, first: Any, second: Any, beta: float = 1, alpha: float = 1) -> Any:
    """`beta x + alpha first @ second`."""
    product = np.matmul(first, second)
    product = product if alpha == 1 else np.multiply(product, alpha)
    if beta == 0:
        return product
    return np.add(x if beta == 1 else np.multiply(x, beta), product)


@aten("addbmm")
def addbmm(x: Any, first: Any, second: Any, beta: float = 1, alpha: float = 1) -> Any:
    """`beta x + alpha` times the sum of products of a batch."""
    product = np.multiply(np.einsum("bij,bjk->ik", first, second), alpha)
    return product if beta == 0 else np.add(np.multiply(x, beta), product)


@aten("addr")
def addr(x: Any, first: Any, second: Any, beta: float = 1, alpha: float = 1) -> Any:
    """`beta x + alpha` times an outer product."""
    product = np.multiply(np.outer(first, second), alpha)
    return product if beta == 0 else np.add(np.multiply(x, beta), product)


def axes(dim: Any, x: Any) -> tuple[int, ...] | None:
    """The axes of a reduction, as NumPy takes them: None and an empty list mean all."""
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return None
    chosen = (dim,) if isinstance(dim, int) else tuple(dim)
    return chosen if x.ndim else None


def number(x: Any) -> Any:
    """Truth values and integers as numbers."""
    return np.multiply(x, 1.0) if x.boolean else x


@aten("sum")
def sum_(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The sum over axes; how many truth values hold is an integer."""
    return np.sum(x if dtype is None else number(x), axis=axes(dim, x), keepdims=keepdim)


@aten("mean")
def mean(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The mean over axes."""
    return np.mean(number(x), axis=axes(dim, x), keepdims=keepdim)


@aten("prod.default")
def prod(x: Any, dtype: Any = None) -> Any:
    """The product of all entries."""
    return np.prod(number(x))


@aten("prod.dim_int")
def prod_along(x: Any, dim: int, keepdim: bool = False, dtype: Any = None) -> Any:
    """The product over an axis."""
    return np.prod(number(x), axis=axes(dim, x), keepdims=keepdim)


@aten("cumsum")
def cumsum(x: Any, dim: int, dtype: Any = None) -> Any:
    """Partial sums along an axis; of truth values integers."""
    return np.cumsum(x if dtype is None else number(x), dim) if x.ndim else number(x)


@aten("cumprod")
def cumprod(x: Any, dim: int, dtype: Any = None) -> Any:
    """Partial products along an axis."""
    return np.cumprod(number(x), dim) if x.ndim else x


@aten("trace")
def trace(x: Any) -> Any:
    """The sum of the diagonal."""
    return np.trace(x)


@aten("bilinear")
def bilinear(x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
    """`x @ weight @ y` for each matrix of weights."""
    product = np.einsum("...i,oij,...j->...o", x, weight, y)
    return product if bias is None else np.add(product, bias)
