"""What JAX and PyTorch do with functions, done with compiled derivatives: against nested autodiff."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.backends.executable import executable
from hesse.backends.target import target_named
from libraries import plain
from oracles import assert_close, fast_jit

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

BATCH = np.random.default_rng(0).normal(size=(4, 5))
POINT = BATCH[0]
WEIGHTS = BATCH[1]


def function(x: Any, w: Any) -> Any:
    """Windows, a flip, a dense part and a diagonal, each of which is placed in a way of its own."""
    return np.sum(w * np.exp(-x[1:] * x[:-1])[0]) + np.sum(w[::-1] * x**3) + np.sum(np.tanh(x)) ** 2


def in_jax(x: Any, w: Any) -> Any:
    return jnp.sum(w * jnp.exp(-x[1:] * x[:-1])[0]) + jnp.sum(w[::-1] * x**3) + jnp.sum(jnp.tanh(x)) ** 2


def in_torch(x: Any, w: Any) -> Any:
    first = torch.sum(w * torch.exp(-x[1:] * x[:-1])[0])
    return first + torch.sum(w.flip(0) * x**3) + torch.sum(torch.tanh(x)) ** 2


GRADIENT, HESSIAN = hesse.grad(function), hesse.hessian(function)
STRUCTURED = hesse.hessian(function, form="structured")
CHUNKED = hesse.hessian(function, chunk=2)


def agree(found: Any, reference: Any) -> None:
    assert_close(plain(found), plain(reference), tolerance=1e-11)


# JAX.

jax_hessian = jax.hessian(in_jax)
JAX_CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    "jit": (jax.jit(HESSIAN), jax_hessian, 1),
    "vmap": (jax.vmap(HESSIAN), jax.vmap(jax_hessian), 2),
    "vmap over one argument": (jax.vmap(HESSIAN, (0, None)), jax.vmap(jax_hessian, (0, None)), 2),
    "jit of vmap": (jax.jit(jax.vmap(HESSIAN)), jax.vmap(jax_hessian), 2),
    "vmap of jit": (jax.vmap(jax.jit(HESSIAN)), jax.vmap(jax_hessian), 2),
    "grad": (
        jax.grad(lambda x, w: jnp.sum(jnp.sin(HESSIAN(x, w))), (0, 1)),
        jax.grad(lambda x, w: jnp.sum(jnp.sin(jax_hessian(x, w))), (0, 1)),
        1,
    ),
    "jacfwd": (jax.jacfwd(HESSIAN), jax.jacfwd(jax_hessian), 1),
    "jacrev": (jax.jacrev(HESSIAN, 1), jax.jacrev(jax_hessian, 1), 1),
    "hessian": (jax.hessian(GRADIENT), jax.hessian(jax.grad(in_jax)), 1),
    "structured, grad": (
        jax.jit(jax.grad(lambda x, w: STRUCTURED(x, w).quadratic(w))),
        jax.grad(lambda x, w: w @ jax_hessian(x, w) @ w),
        1,
    ),
    "structured, vmap": (
        jax.vmap(lambda x, w: STRUCTURED(x, w) @ w),
        jax.vmap(lambda x, w: jax_hessian(x, w) @ w),
        2,
    ),
    "chunks": (jax.jit(CHUNKED), jax_hessian, 1),
    "bound": (jax.jit(lambda x, w: GRADIENT.bind(w=w)(x)), jax.grad(in_jax), 1),
}


@pytest.mark.parametrize("name", JAX_CASES)
def test_jax(name: str) -> None:
    transformed, reference, rank = JAX_CASES[name]
    point = (POINT, WEIGHTS) if rank == 1 else (BATCH, WEIGHTS if "one argument" in name else BATCH[::-1])
    arrays = [jnp.array(array) for array in point]
    agree(transformed(*arrays), fast_jit(reference)(*arrays))


@pytest.mark.parametrize("bound", [WEIGHTS, jnp.array(WEIGHTS)], ids=["NumPy", "JAX"])
def test_bound_data_does_not_leak_from_a_trace(bound: Any) -> None:
    derivative = GRADIENT.bind(w=bound)
    x, expected = jnp.array(POINT), jax.grad(in_jax)(POINT, WEIGHTS)
    for _ in range(2):
        agree(jax.jit(derivative)(x), expected)
        agree(jax.vmap(derivative)(x[None])[0], expected)
        agree(derivative(x), expected)


def test_the_first_call_may_be_traced() -> None:
    derivative = hesse.hessian(function)
    x, w = jnp.array(POINT), jnp.array(WEIGHTS)
    expected = jax_hessian(x, w)
    agree(jax.jit(derivative)(x, w), expected)
    agree(derivative(x, w), expected)
    agree(derivative(POINT, WEIGHTS), expected)
    agree(jax.vmap(derivative)(x[None], w[None])[0], expected)


def test_arguments_are_not_baked_in() -> None:
    compiled = jax.jit(HESSIAN)
    for factor in (1.0, 2.0):
        x = jnp.array(factor * POINT)
        agree(compiled(x, jnp.array(WEIGHTS)), jax_hessian(x, WEIGHTS))


# PyTorch.

torch_hessian = torch.func.hessian(in_torch)
TORCH_CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    "vmap": (torch.func.vmap(HESSIAN), torch.func.vmap(torch_hessian), 2),
    "vmap over another axis": (
        lambda x, w: torch.func.vmap(HESSIAN, (1, 0))(x.T, w),
        torch.func.vmap(torch_hessian),
        2,
    ),
    "vmap over the first argument": (
        torch.func.vmap(HESSIAN, (0, None)),
        torch.func.vmap(torch_hessian, (0, None)),
        1,
    ),
    "vmap over the second argument": (
        lambda x, w: torch.func.vmap(HESSIAN, (None, 0))(w, x),
        lambda x, w: torch.func.vmap(torch_hessian, (None, 0))(w, x),
        1,
    ),
    "nested vmap": (
        lambda x, w: torch.func.vmap(torch.func.vmap(HESSIAN))(x.reshape(2, 2, 5), w.reshape(2, 2, 5)),
        lambda x, w: torch.func.vmap(torch_hessian)(x, w).reshape(2, 2, 5, 5),
        2,
    ),
    "nested vmap over one argument each": (
        torch.func.vmap(torch.func.vmap(HESSIAN, (None, 0)), (0, None)),
        torch.func.vmap(torch.func.vmap(torch_hessian, (None, 0)), (0, None)),
        2,
    ),
    "jacrev": (torch.func.jacrev(HESSIAN), torch.func.jacrev(torch_hessian), 0),
    "jacrev by the second argument": (
        torch.func.jacrev(HESSIAN, 1),
        torch.func.jacrev(torch_hessian, 1),
        0,
    ),
    "jacfwd": (torch.func.jacfwd(HESSIAN), torch.func.jacfwd(torch_hessian), 0),
    "grad": (
        torch.func.grad(lambda x, w: torch.sin(HESSIAN(x, w)).sum()),
        torch.func.grad(lambda x, w: torch.sin(torch_hessian(x, w)).sum()),
        0,
    ),
    "vmap of grad": (
        torch.func.vmap(torch.func.grad(lambda x, w: torch.sin(HESSIAN(x, w)).sum())),
        torch.func.vmap(torch.func.grad(lambda x, w: torch.sin(torch_hessian(x, w)).sum())),
        2,
    ),
    "vmap of jacfwd by the other argument": (
        torch.func.vmap(torch.func.jacfwd(HESSIAN, 1), (0, None)),
        torch.func.vmap(torch.func.jacrev(torch_hessian, 1), (0, None)),
        1,
    ),
    "hessian": (torch.func.hessian(GRADIENT), torch.func.hessian(torch.func.grad(in_torch)), 0),
    "structured, vmap": (
        torch.func.vmap(lambda x, w: STRUCTURED(x, w) @ w),
        torch.func.vmap(lambda x, w: torch_hessian(x, w) @ w),
        2,
    ),
    "chunks, vmap": (torch.func.vmap(CHUNKED), torch.func.vmap(torch_hessian), 2),
    "bound, vmap": (
        torch.func.vmap(lambda x, w: GRADIENT.bind(w=w)(x)),
        torch.func.vmap(torch.func.grad(in_torch)),
        2,
    ),
    "constant, vmap": (
        torch.func.vmap(lambda x, w: hesse.hessian(lambda x: np.sum(x * x))(x)),
        lambda x, w: 2.0 * torch.eye(5, dtype=x.dtype).expand(4, 5, 5),
        2,
    ),
}


@pytest.mark.parametrize("name", TORCH_CASES)
def test_torch(name: str) -> None:
    """The rank of a case: how many of the arguments are batches."""
    transformed, reference, batches = TORCH_CASES[name]
    x = torch.tensor(BATCH if batches else POINT)
    w = torch.tensor(BATCH[::-1].copy() if batches == 2 else WEIGHTS)
    agree(transformed(x, w), reference(x, w))
    agree(HESSIAN(torch.tensor(POINT), torch.tensor(WEIGHTS)), jax_hessian(POINT, WEIGHTS))


def watched(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.tensor(array, requires_grad=True) for array in arrays]


@pytest.mark.parametrize("derivative", [GRADIENT, HESSIAN, CHUNKED], ids=["gradient", "hessian", "chunks"])
def test_autograd(derivative: Any) -> None:
    nested = {GRADIENT: torch.func.grad(in_torch)}.get(derivative, torch_hessian)
    x, w = watched(POINT, WEIGHTS)
    for _ in range(2):
        found = torch.autograd.grad(torch.sin(derivative(x, w)).sum(), (x, w))
        agree(found, torch.autograd.grad(torch.sin(nested(x, w)).sum(), (x, w)))


def test_autograd_of_structured_operations() -> None:
    x, w = watched(POINT, WEIGHTS)
    found = torch.autograd.grad(STRUCTURED(x, w).quadratic(w) + STRUCTURED(x, w).trace(), (x, w))
    dense = torch_hessian(x, w)
    agree(found, torch.autograd.grad(w @ dense @ w + torch.trace(dense), (x, w)))


def test_checks_of_torch() -> None:
    x, w = watched(POINT[:3], WEIGHTS[:3])
    assert torch.autograd.gradcheck(HESSIAN, (x, w), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(GRADIENT, (x, w))
    window = hesse.jacobian(lambda x, w: np.convolve(x**3, w**2))
    assert torch.autograd.gradcheck(window, (x, w))


def test_bound_data_is_watched_anew_in_each_call() -> None:
    x, w = watched(POINT, WEIGHTS)
    bound = GRADIENT.bind(w=w)
    with torch.no_grad():
        assert not bound(x).requires_grad
    (expected,) = torch.autograd.grad(torch.func.grad(in_torch)(x, w).sum(), w)
    for _ in range(2):
        agree(torch.autograd.grad(bound(x).sum(), w)[0], expected)


def test_what_was_compiled_without_autograd_is_differentiable() -> None:
    """Constants of a program are not made under the inference mode of its first call."""
    derivative = hesse.grad(lambda x: np.sum(np.arange(5.0) * x**3))
    bound = hesse.grad(lambda x, w: np.sum(np.exp(w) * x**3)).bind(w=torch.tensor(WEIGHTS))
    (x,) = watched(POINT)
    with torch.inference_mode():
        derivative(x), bound(x)
    agree(torch.autograd.grad(derivative(x).sum(), x)[0], 6 * np.arange(5.0) * POINT)
    agree(torch.autograd.grad(bound(x).sum(), x)[0], 6 * np.exp(WEIGHTS) * POINT)


def test_nothing_is_written_to_what_autograd_needs() -> None:
    """Values that are read again by the backward pass, where NumPy's programs would work in place."""
    functions = [
        (lambda x: np.sum(np.exp(np.tanh(np.exp(x)))), lambda x: torch.exp(torch.tanh(torch.exp(x))).sum()),
        (lambda x: np.sum(hesse.softmax(x) ** 2), lambda x: (torch.softmax(x, -1) ** 2).sum()),
        (lambda x: np.sum(np.diff(x) ** 4) ** 2, lambda x: (torch.diff(x) ** 4).sum() ** 2),
    ]
    for ours, theirs in functions:
        (x,) = watched(POINT)
        hessian = hesse.hessian(ours)(x)
        (found,) = torch.autograd.grad((hessian**2).sum(), x)
        (expected,) = torch.autograd.grad((torch.func.hessian(theirs)(x) ** 2).sum(), x)
        agree(found, expected)


def test_a_product_that_was_read_is_not_added_to() -> None:
    """A sum may be written over one of its terms only if nobody else has read that, be it through a view."""
    x, w = hesse.variable("x", (3,)), hesse.variable("w", (3, 3))
    product = x[:, None] * w
    results = [np.tanh(product) * product, product + np.diag(np.sin(x))]
    runs = executable([result.node for result in results], ["x", "w"], torch.float64, target_named("torch"))
    at_x, at_w = watched(POINT[:3], BATCH[:3, 1:4].copy())
    found = runs(at_x, at_w)
    product = at_x[:, None] * at_w
    summed = product + torch.diag(torch.sin(at_x))
    expected = (torch.tanh(product) * product, summed)
    agree(found, expected)
    total, reference = (sum((part**2).sum() for part in parts) for parts in (found, expected))
    agree(torch.autograd.grad(total, (at_x, at_w)), torch.autograd.grad(reference, (at_x, at_w)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_torch_compile() -> None:
    fused = hesse.hessian(lambda x: np.sum(np.exp(x[1:] * x[:-1]))).compile(backend="torch", fuse=True)
    expected = jax.hessian(lambda x: jnp.sum(jnp.exp(x[1:] * x[:-1])))(POINT)
    for _ in range(2):
        agree(fused(torch.tensor(POINT)), expected)
    agree(fused(POINT), expected)


# Training.

SIZES = (2, 4, 1)
POINTS = np.random.default_rng(1).uniform(-1.0, 1.0, (6, 2))
RATE, STEPS = 0.05, 4


def parameters() -> list[np.ndarray]:
    generator = np.random.default_rng(2)
    shapes = [(2, 4), (4,), (4,)]
    return [0.5 * generator.normal(size=shape) for shape in shapes]


def network(x: Any, inner: Any, offset: Any, outer: Any) -> Any:
    """The value of a small net at one point, in NumPy."""
    return np.tanh(x @ inner + offset) @ outer


LAPLACIANS = hesse.laplacian(network)


def residual(laplacian: Any, point: Any) -> Any:
    """Of the equation Δu = x y."""
    return (laplacian - point[..., 0] * point[..., 1]) ** 2


def train(losses_and_gradients: Callable[..., tuple[Any, Sequence[Any]]], values: list[Any]) -> np.ndarray:
    """The losses of some steps of gradient descent, and the last parameters."""
    losses = []
    for _ in range(STEPS):
        loss, gradients = losses_and_gradients(values)
        losses.append(float(loss))
        values = [value - RATE * gradient for value, gradient in zip(values, gradients, strict=True)]
    return np.concatenate([losses, *(plain(value).reshape(-1) for value in values)])


def in_nested_jax() -> np.ndarray:
    def u(x: Any, *values: Any) -> Any:
        return jnp.tanh(x @ values[0] + values[1]) @ values[2]

    def loss(values: Any) -> Any:
        hessians = jax.vmap(lambda x: jnp.trace(jax.hessian(u)(x, *values)))(POINTS)
        return jnp.mean(residual(hessians, POINTS))

    return train(jax.jit(jax.value_and_grad(loss)), [jnp.array(value) for value in parameters()])


def test_training_in_jax() -> None:
    def loss(values: Any) -> Any:
        laplacians = jax.vmap(lambda x: LAPLACIANS(x, *values))(jnp.array(POINTS))
        return jnp.mean(residual(laplacians, POINTS))

    found = train(jax.jit(jax.value_and_grad(loss)), [jnp.array(value) for value in parameters()])
    reference = in_nested_jax()
    assert reference[STEPS - 1] < reference[0]
    assert_close(found, reference, tolerance=1e-11)


@pytest.mark.parametrize("is_batched", [True, False])
def test_training_in_torch(is_batched: bool) -> None:
    points = torch.tensor(POINTS)

    def step(values: Sequence[torch.Tensor]) -> Any:
        values = [value.detach().requires_grad_() for value in values]
        if is_batched:
            laplacians = torch.func.vmap(LAPLACIANS, (0, None, None, None))(points, *values)
        else:
            laplacians = torch.stack([LAPLACIANS(point, *values) for point in points])
        loss = residual(laplacians, points).mean()
        return loss.detach(), torch.autograd.grad(loss, values)

    found = train(step, [torch.tensor(value) for value in parameters()])
    assert_close(found, in_nested_jax(), tolerance=1e-11)


def test_training_with_the_net_over_all_points() -> None:
    """One derivative by all points at once: its diagonal holds the Laplacians."""

    def loss(inner: Any, offset: Any, outer: Any) -> Any:
        diagonal = hesse.diagonal(lambda x: np.sum(np.tanh(x @ inner + offset) @ outer))(POINTS)
        return np.mean((np.sum(diagonal, axis=1) - POINTS[:, 0] * POINTS[:, 1]) ** 2)

    step = hesse.value_and_grad(loss, argnums=(0, 1, 2))
    reference = in_nested_jax()
    for array in (np.array, torch.tensor, jnp.array):
        found = train(lambda values: step(*values), [array(value) for value in parameters()])
        assert_close(found, reference, tolerance=1e-11)
