"""One rule for dtypes, whichever way in: what floating-point arrays are promoted to by their library.

Python numbers and arrays of whole numbers have no say; without any floating-point array it is the default.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from libraries import JAX, LIBRARIES, NUMPY, Library, dtype_name, over_libraries, plain

POINT = np.array([1.5, 0.5, 2.0])


def function(x: Any, a: Any) -> Any:
    return a * np.sum(x * x * x)


X, A = hesse.variable("x", (3,)), hesse.variable("a")
CUBES = A * np.sum(X * X * X)

GRADIENT = 6.0 * POINT**2
HESSIAN = np.diag(12.0 * POINT)
VALUE = 2.0 * np.sum(POINT**3)

Entrance = Callable[[Any, Any], Any]


def via(derivative: Any, use: Callable[[Any, Any, Any], Any]) -> Entrance:
    """The way in through something that is made once."""
    return lambda x, a: use(derivative, x, a)


ENTRANCES: dict[str, tuple[Entrance, Any]] = {
    "grad": (hesse.grad(function), GRADIENT),
    "grad by name": (via(hesse.grad(function), lambda f, x, a: f(a=a, x=x)), GRADIENT),
    "hessian": (hesse.hessian(function), HESSIAN),
    "jacobian": (hesse.jacobian(lambda x, a: a * x**3), np.diag(6.0 * POINT**2)),
    "value_and_grad": (hesse.value_and_grad(function), (VALUE, GRADIENT)),
    "laplacian": (hesse.laplacian(function), 12.0 * POINT.sum()),
    "diagonal": (hesse.diagonal(function), 12.0 * POINT),
    "jvp": (via(hesse.jvp(function), lambda f, x, a: f(x, a, x)), GRADIENT @ POINT),
    "vjp": (via(hesse.vjp(lambda x, a: np.sin(x)), lambda f, x, a: f(x, a, x)), np.cos(POINT) * POINT),
    "hvp": (via(hesse.hvp(function), lambda f, x, a: f(x, a, x)), HESSIAN @ POINT),
    "chunks": (hesse.hessian(function, chunk=2), HESSIAN),
    "structured": (via(hesse.hessian(function, form="structured"), lambda f, x, a: f(x, a).dense()), HESSIAN),
    "constant": (hesse.hessian(lambda x, a: np.sum(x * x) + 0 * a), 2.0 * np.eye(3)),
    "constant, structured": (
        via(
            hesse.hessian(lambda x, a: np.sum(x * x) + 0 * a, form="structured"),
            lambda f, x, a: f(x, a).dense(),
        ),
        2.0 * np.eye(3),
    ),
    "zero": (hesse.hessian(lambda x, a: np.sum(x) + 0 * a), np.zeros((3, 3))),
    "zero, structured": (
        via(
            hesse.hessian(lambda x, a: np.sum(x) + 0 * a, form="structured"), lambda f, x, a: f(x, a).dense()
        ),
        np.zeros((3, 3)),
    ),
    "bound number": (via(hesse.grad(function), lambda f, x, a: f.bind(a=a)(x)), GRADIENT),
    "bound point": (via(hesse.grad(function), lambda f, x, a: f.bind(x=x)(a)), GRADIENT),
    "evaluate": (lambda x, a: CUBES.evaluate(x=x, a=a), VALUE),
    "evaluate a derivative": (via(CUBES.diff(X), lambda d, x, a: d.evaluate(x=x, a=a)), GRADIENT),
    "compile": (via(CUBES.compile(), lambda f, x, a: f(x=x, a=a)), VALUE),
    "formula": (via(hesse.parse("a*sum(x.^3)"), lambda f, x, a: f.evaluate(x=x, a=a)), VALUE),
    "derivative of a formula": (
        via(hesse.parse("a*sum(x.^3)").diff("x"), lambda f, x, a: f.evaluate(x=x, a=a)),
        GRADIENT,
    ),
    "special function": (hesse.xlogy, POINT * np.log(2.0)),
    "special function, exchanged": (lambda x, a: hesse.xlogy(a, x), 2.0 * np.log(POINT)),
}
"""Ways in for a point and a number 2, and what comes out."""

OPERATIONS: dict[str, tuple[Entrance, Any]] = {
    "product": (lambda tensor, v: tensor @ v, 6.0 * POINT * POINT),
    "quadratic": (lambda tensor, v: tensor.quadratic(v), 6.0 * np.sum(POINT**3)),
}
"""Operations of a structured tensor with a vector."""

FLOATS = ("float16", "float32", "float64")
TOLERANCE = {"float64": 1e-13, "float32": 1e-6, "float16": 1e-2}
NUMBERS: dict[str, Any] = {"float": 2.0, "int": 2, "NumPy integer": np.int32(2)}


def promoted(library: Library, *dtypes: str) -> str:
    """The rule, written down again."""
    widest = max(dtypes, key=FLOATS.index)
    return "float32" if library is NUMPY and widest == "float16" else widest


def check(found: Any, expected: Any, library: Library, dtype: str, what: str, single: str = "") -> None:
    if isinstance(expected, tuple):
        for part, value in zip(found, expected, strict=True):
            check(part, value, library, dtype, what, single)
        return
    assert dtype_name(found) == dtype, f"{what}: {dtype_name(found)} instead of {dtype}"
    assert isinstance(found, np.floating | np.ndarray if library is NUMPY else library.array_class), what
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(plain(found) / scale, expected / scale, atol=TOLERANCE[single or dtype])


@pytest.mark.parametrize("name", ENTRANCES)
@over_libraries
def test_numbers_have_no_say(name: str, library: Library) -> None:
    entrance, expected = ENTRANCES[name]
    numbers = {**NUMBERS, "integer array": library.array(2, "int64"), "short": library.array(2, "int8")}
    for dtype in ["float32"] if library is JAX else FLOATS:
        for what, number in numbers.items():
            x = library.array(POINT, dtype)
            check(entrance(x, number), expected, library, promoted(library, dtype), f"{dtype}, {what}", dtype)


@pytest.mark.parametrize("name", ENTRANCES)
@over_libraries
def test_arrays_are_promoted(name: str, library: Library) -> None:
    entrance, expected = ENTRANCES[name]
    pairs = [("float32", "float64"), ("float64", "float32"), ("float16", "float32"), ("float16", "float16")]
    for first, second in pairs[1:3] if library is JAX else pairs:
        found = entrance(library.array(POINT, first), library.array(2.0, second))
        lowest = min(first, second, key=FLOATS.index)
        check(found, expected, library, promoted(library, first, second), f"{first}, {second}", lowest)


@pytest.mark.parametrize("name", OPERATIONS)
@over_libraries
def test_vectors_are_promoted(name: str, library: Library) -> None:
    operation, expected = OPERATIONS[name]
    tensor = hesse.hessian(lambda x: np.sum(x**3), form="structured")
    for first, second in itertools.product(FLOATS[1:], FLOATS[1:]):
        found = operation(tensor(library.array(POINT, first)), library.array(POINT, second))
        check(found, expected, library, promoted(library, first, second), f"{first}, {second}", "float32")
    whole = library.array([1, 2, 3], "int64")
    for dtype in FLOATS[1:]:
        found = operation(tensor(library.array(POINT, dtype)), whole)
        assert dtype_name(found) == dtype


@pytest.mark.parametrize("backend", ["torch", "jax"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_numpy_arrays_elsewhere(dtype: str, backend: str) -> None:
    """NumPy arrays come back with the dtype they had; only NumPy finds half precision too short."""
    x = POINT.astype(dtype)
    for derivative, expected in [(hesse.grad, GRADIENT), (hesse.hessian, HESSIAN)]:
        found = derivative(function, backend=backend)(x, 2.0)
        assert isinstance(found, np.ndarray)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype])
    tensor = hesse.hessian(function, form="structured", backend=backend)(x, 2.0)
    assert isinstance(tensor.dense(), np.ndarray)


@pytest.mark.parametrize("backend", LIBRARIES)
def test_python_numbers_alone(backend: str) -> None:
    found = hesse.grad(lambda x, a: a * x**3, backend=backend)(2.0, 3)
    assert found.dtype == np.float64
    assert float(found) == 36.0
    assert CUBES.compile(backend=backend)(x=[1, 2, 3], a=2).dtype == np.float64


def test_whole_numbers_alone_have_the_default_of_the_library() -> None:
    """The default may change between two calls."""
    compiled = CUBES.compile()
    whole = torch.tensor([1, 2, 3])
    for dtype in (torch.float32, torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        try:
            assert compiled(x=whole, a=2).dtype == dtype
        finally:
            torch.set_default_dtype(torch.float32)
    for enabled in (True, False, True):
        with jax.enable_x64(enabled):
            found = compiled(x=jnp.array([1, 2, 3]), a=2)
            assert found.dtype == (jnp.float64 if enabled else jnp.float32)


@pytest.mark.parametrize("name", ENTRANCES)
def test_jax_without_double_precision(name: str) -> None:
    entrance, expected = ENTRANCES[name]
    with jax.enable_x64(False):
        check(entrance(jnp.array(POINT), 2.0), expected, LIBRARIES["jax"], "float32", name)
        check(entrance(jnp.array(POINT), np.float64(2.0)), expected, LIBRARIES["jax"], "float32", name)


@pytest.mark.parametrize("is_double", [True, False])
def test_numpy_arrays_keep_double_precision_in_jax(is_double: bool) -> None:
    """That JAX is told not to use it is a habit of JAX."""
    with jax.enable_x64(is_double):
        for derivative, expected in [(hesse.grad, GRADIENT), (hesse.hessian, HESSIAN)]:
            compiled = derivative(function).compile(backend="jax")
            bound = compiled.bind(a=np.float64(2.0))
            for _ in range(2):
                for found in (compiled(POINT, 2.0), bound(POINT), compiled(POINT, np.array(2))):
                    assert isinstance(found, np.ndarray)
                    assert found.dtype == np.float64
                    np.testing.assert_allclose(found, expected, rtol=1e-14)
            assert compiled(POINT.astype(np.float32), 2.0).dtype == np.float32
        tensor = hesse.hessian(function, form="structured", backend="jax")(POINT, 2.0)
        np.testing.assert_allclose(tensor @ POINT, HESSIAN @ POINT, rtol=1e-14)
        value = CUBES.compile(backend="jax")(x=POINT, a=2)
        assert value.dtype == np.float64
        np.testing.assert_allclose(value, VALUE, rtol=1e-14)


def test_arrays_in_double_precision_where_jax_no_longer_has_it() -> None:
    compiled = hesse.grad(function)
    x = jnp.array(POINT)
    assert compiled(x, 2.0).dtype == jnp.float64
    with jax.enable_x64(False):
        assert compiled(x, 2.0).dtype == jnp.float32
    assert compiled(x, 2.0).dtype == jnp.float64
