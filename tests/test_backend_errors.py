"""What back ends refuse, and what functions may close over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.errors import ArgumentError, DifferentiationError, HesseError, TracingError
from libraries import LIBRARIES, Library, dtype_name, over_libraries, plain

POINT = np.array([1.5, 0.5, 2.0])


def function(x: Any, w: Any = 1.0) -> Any:
    return np.sum(w * x**3)


X = hesse.variable("x", (3,))
GRADIENT = hesse.grad(function)
TENSOR, ARRAY = torch.tensor(POINT), jnp.array(POINT)
SPARSE = torch.tensor(POINT).to_sparse()

REFUSED: dict[str, tuple[Callable[[], Any], type[HesseError], str]] = {
    "PyTorch and JAX": (lambda: GRADIENT(TENSOR, ARRAY), ArgumentError, "of PyTorch and of JAX are mixed"),
    "PyTorch and JAX, bound": (
        lambda: GRADIENT.bind(w=ARRAY)(TENSOR),
        ArgumentError,
        "of PyTorch and of JAX are mixed",
    ),
    "a tensor for JAX": (
        lambda: GRADIENT.compile(backend="jax")(TENSOR),
        ArgumentError,
        "the backend is 'jax', but arrays of torch were given",
    ),
    "a JAX array for PyTorch": (
        lambda: hesse.hessian(function, backend="torch")(ARRAY),
        ArgumentError,
        "the backend is 'torch', but arrays of jax were given",
    ),
    "a tensor for NumPy": (
        lambda: GRADIENT.compile(backend="numpy")(POINT, TENSOR),
        ArgumentError,
        "the backend is 'numpy', but arrays of torch were given",
    ),
    "a tensor for an expression in JAX": (
        lambda: (X * X).compile(backend="jax")(x=TENSOR),
        ArgumentError,
        "the backend is 'jax', but arrays of torch were given",
    ),
    "a JAX vector for a tensor": (
        lambda: hesse.hessian(function, form="structured")(TENSOR) @ ARRAY,
        ArgumentError,
        "the backend is 'torch', but arrays of jax were given",
    ),
    "an unknown backend": (
        lambda: hesse.grad(function, backend="tensorflow"),
        ArgumentError,
        "there is no backend 'tensorflow'; choose one of numpy, torch, jax",
    ),
    "an unknown backend of compile": (
        lambda: GRADIENT.compile(backend="cuda"),
        ArgumentError,
        "there is no backend 'cuda'",
    ),
    "a module as backend": (
        lambda: GRADIENT.compile(backend=torch),
        ArgumentError,
        "a backend is one of 'numpy', 'torch', 'jax', not <module 'torch'",
    ),
    "a module as backend of grad": (
        lambda: hesse.grad(function, backend=np),
        ArgumentError,
        "a backend is one of 'numpy', 'torch', 'jax', not <module 'numpy'",
    ),
    "a module as backend of an expression": (
        lambda: X.compile(backend=np),
        ArgumentError,
        "a backend is one of 'numpy'",
    ),
    "an unknown setting": (
        lambda: GRADIENT.compile(backend="torch", jit=True),
        ArgumentError,
        "the backend 'torch' has no setting jit; it has graph, copies, fuse",
    ),
    "a setting of another backend": (
        lambda: GRADIENT.compile(backend="numpy", fuse=True),
        ArgumentError,
        "the backend 'numpy' has no setting fuse; it has machine",
    ),
    "complex tensors": (lambda: GRADIENT(TENSOR + 0j), DifferentiationError, "argument x is complex"),
    "complex JAX arrays": (lambda: GRADIENT(ARRAY + 0j), DifferentiationError, "argument x is complex"),
    "complex weights": (lambda: GRADIENT(TENSOR, TENSOR + 0j), DifferentiationError, "argument w is complex"),
    "whole tensors": (
        lambda: GRADIENT(torch.arange(3)),
        DifferentiationError,
        "cannot differentiate by x: its dtype is torch.int64",
    ),
    "whole JAX arrays": (
        lambda: GRADIENT(jnp.arange(3)),
        DifferentiationError,
        "cannot differentiate by x: its dtype is int64",
    ),
    "boolean tensors": (
        lambda: GRADIENT(torch.tensor([True, False])),
        DifferentiationError,
        "cannot differentiate by x: its dtype is torch.bool",
    ),
    "two devices": (
        lambda: GRADIENT(TENSOR, TENSOR.to("meta")),
        ArgumentError,
        "tensors are on cpu and on meta; move them to one device",
    ),
    "two devices, bound": (
        lambda: GRADIENT.bind(w=TENSOR.to("meta"))(TENSOR),
        ArgumentError,
        "tensors are on (cpu and on meta|meta and on cpu); move them to one device",
    ),
    "long doubles in PyTorch": (
        lambda: hesse.grad(function, backend="torch")(POINT.astype(np.longdouble)),
        ArgumentError,
        "PyTorch has no float128; pass arrays of float64",
    ),
    "long doubles in JAX": (
        lambda: hesse.grad(function, backend="jax")(POINT.astype(np.longdouble)),
        ArgumentError,
        "JAX has no float128; pass arrays of float64",
    ),
    "long doubles beside tensors": (
        lambda: GRADIENT(TENSOR, POINT.astype(np.longdouble)),
        ArgumentError,
        "PyTorch has no float128; pass arrays of float64",
    ),
    "long doubles beside JAX arrays": (
        lambda: GRADIENT(ARRAY, POINT.astype(np.longdouble)),
        ArgumentError,
        "JAX has no float128; pass arrays of float64",
    ),
    "eight bits": (
        lambda: GRADIENT(TENSOR.to(torch.float8_e4m3fn)),
        ArgumentError,
        "argument x has dtype torch.float8_e4m3fn",
    ),
    "eight bits in JAX": (
        lambda: GRADIENT(ARRAY.astype(jnp.float8_e4m3fn)),
        ArgumentError,
        "argument x has dtype float8_e4m3fn",
    ),
    "sparse tensors": (lambda: GRADIENT(SPARSE), ArgumentError, "a tensor is sparse; pass a dense one"),
    "sparse weights": (
        lambda: GRADIENT(TENSOR, SPARSE),
        ArgumentError,
        "a tensor is sparse; pass a dense one",
    ),
    "strings": (lambda: GRADIENT.compile(backend="jax")("text"), ArgumentError, "argument x is a str"),
    "objects": (
        lambda: GRADIENT.compile(backend="torch")(np.array([None])),
        ArgumentError,
        "argument x has dtype object",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """Twice: what was refused once is not taken for known."""
    call, error, message = REFUSED[name]
    for _ in range(2):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["torch", "jax"])
def test_short_types(name: str, dtype: str) -> None:
    library = LIBRARIES[name]
    x = library.array(POINT, dtype)
    for derivative, expected in [(hesse.grad, 3 * POINT**2), (hesse.hessian, np.diag(6 * POINT))]:
        found = derivative(function)(x)
        assert dtype_name(found) == dtype
        wide = library.array([0.0] * 3, "float64")
        np.testing.assert_allclose(plain(found + wide), expected, rtol=0.02)
    tensor = hesse.hessian(function, form="structured")(x)
    assert dtype_name(tensor @ x) == dtype


def test_a_tensor_without_values() -> None:
    """Shapes and dtypes can be asked for without computing."""
    found = hesse.hessian(function)(TENSOR.to("meta").to(torch.float32))
    assert found.is_meta
    assert found.shape == (3, 3)
    assert found.dtype == torch.float32


# Closures.

CLOSURES: dict[str, Any] = {
    "NumPy": POINT,
    "torch": TENSOR,
    "jax": ARRAY,
    "single torch": TENSOR.float(),
    "single JAX": ARRAY.astype(jnp.float32),
}
USES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "left": (lambda c, x: np.sum(c * x**2), 2 * POINT * POINT),
    "right": (lambda c, x: np.sum(x**2 * c), 2 * POINT * POINT),
    "difference": (lambda c, x: np.sum((c - x) ** 3), np.zeros(3)),
    "quotient": (lambda c, x: np.sum(c / x), -1.0 / POINT),
    "product from the left": (lambda c, x: c @ x**2, 2 * POINT * POINT),
    "product from the right": (lambda c, x: x**2 @ c, 2 * POINT * POINT),
    "function": (lambda c, x: np.dot(c, np.sin(x)), POINT * np.cos(POINT)),
    "condition": (lambda c, x: np.sum(np.where(c > 1.0, x**2, x)), [3.0, 1.0, 4.0]),
    "power": (lambda c, x: np.sum(x**c), POINT * POINT ** (POINT - 1)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", CLOSURES)
@over_libraries
def test_functions_close_over_arrays(library: Library, name: str, use: str) -> None:
    """Whatever library the array is of: it is captured, and has no say in the dtype."""
    captured, (body, expected) = CLOSURES[name], USES[use]
    derivative = hesse.grad(lambda x: body(captured, x))
    if library.name == "jax":
        derivative = derivative.compile(backend="jax", jit=False)
    for _ in range(2):
        found = derivative(library.array(POINT, "float32"))
        assert isinstance(found, library.array_class)
        assert dtype_name(found) == "float32"
        np.testing.assert_allclose(plain(found), expected, rtol=1e-5, atol=1e-6)


BODIES = (lambda x, c: np.sum(x**2 * c), lambda x, c: np.sum(c * x**2), lambda x, c: np.sum(x**2 @ c))


@pytest.mark.parametrize(
    "captured",
    [torch.tensor(POINT, requires_grad=True), torch.tensor(POINT).bfloat16()],
    ids=["watched", "short"],
)
def test_tensors_that_are_captured(captured: torch.Tensor) -> None:
    for body in BODIES:
        found = hesse.grad(lambda x, body=body: body(x, captured))(TENSOR)
        assert found.requires_grad == captured.requires_grad
        np.testing.assert_allclose(found.detach(), 2 * TENSOR * captured.detach())


def test_tensors_that_cannot_be_captured() -> None:
    """One without values, and one that NumPy would take its gradient from."""
    empty, watched = torch.tensor(POINT).to("meta"), torch.tensor(POINT, requires_grad=True)
    for body in BODIES:
        with pytest.raises(ArgumentError, match="tensors are on cpu and on meta"):
            hesse.grad(lambda x, body=body: body(x, empty))(TENSOR)
        with pytest.raises(TracingError, match=r"a constant of type Tensor cannot be traced.*argument"):
            hesse.grad(lambda x, body=body: body(x, watched))(POINT)


MIXED: dict[str, tuple[Any, Any]] = {
    "a function of PyTorch": (lambda x: torch.sin(x).sum(), ARRAY),
    "a function of JAX": (lambda x: jnp.sin(x).sum(), TENSOR),
    "a function of JAX and the tensor": (lambda x: (x * jnp.sin(x)).sum(), TENSOR),
    "a captured tensor": (lambda x: jnp.tanh(x * TENSOR).sum(), ARRAY),
    "a captured array": (lambda x: torch.tanh(x * ARRAY).sum(), TENSOR),
    "an array in a call": (lambda x: torch.add(x, ARRAY).sum(), TENSOR),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("entrance", [hesse.grad, hesse.hessian, hesse.compile])
def test_libraries_that_meet_inside(entrance: Any, name: str) -> None:
    function, point = MIXED[name]
    message = r"of PyTorch and of JAX are mixed \(at .*test_backend_errors\.py:\d+\).*torch\.from_dlpack"
    for _ in range(2):
        with pytest.raises(ArgumentError, match=message):
            entrance(function)(point)


def _refusing(x: Any) -> Any:
    raise TypeError("a Tensor is needed here, not an ArrayImpl")


def test_type_errors_of_users_come_through() -> None:
    for function in (_refusing, lambda x: (x + "Tensor").sum(), lambda x: len(3) * x.sum()):
        for point in (TENSOR, ARRAY):
            with pytest.raises(TypeError) as caught:
                hesse.grad(function)(point)
            assert not isinstance(caught.value, ArgumentError)
    with pytest.raises(TypeError, match=r"^a Tensor is needed here, not an ArrayImpl$"):
        hesse.grad(_refusing)(TENSOR)
