"""Arrays that functions read besides their arguments: the second call sees what is there then."""

from __future__ import annotations

import functools
import gc
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse

jax.config.update("jax_enable_x64", True)

N = 20
RNG = np.random.default_rng(0)
X = RNG.standard_normal(N)


def matrix(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((N, N))


GLOBAL = matrix()


def quadratic(x: Any, A: Any) -> Any:
    return x @ A @ x


def expected(A: np.ndarray) -> np.ndarray:
    return (A + A.T) @ X


class Counted:
    """A function that counts its traces, which are its calls with expressions."""

    def __init__(self) -> None:
        self.traces = 0


def test_rebinding_a_closure() -> None:
    A = matrix(1)
    count = Counted()

    def f(x: Any) -> Any:
        count.traces += 1
        return quadratic(x, A)

    g = hesse.grad(f)
    for seed in (1, 2, 3):
        A = matrix(seed)
        for _ in range(2):
            np.testing.assert_allclose(g(X), expected(A))
    assert count.traces == 1


def test_mutation_in_place() -> None:
    A = matrix(1)
    g, H = hesse.grad(lambda x: quadratic(x, A)), hesse.hessian(lambda x: quadratic(x, A))
    for _ in range(3):
        np.testing.assert_allclose(g(X), expected(A))
        np.testing.assert_allclose(H(X), A + A.T)
        A *= 1.5
        A[0, 1] = 7.0


def test_what_is_computed_from_captured_arrays() -> None:
    """Products and views of captured arrays alone, which NumPy would compute once, during the trace."""
    A = matrix(1)
    g = hesse.grad(lambda x: x @ (A.T @ A) @ x + np.sum(A[2:5, 0]) * np.sum(x))
    for seed in (1, 2):
        A = matrix(seed)
        for _ in range(2):
            np.testing.assert_allclose(g(X), 2 * A.T @ A @ X + np.sum(A[2:5, 0]))
            A += 1.0


def test_globals() -> None:
    global GLOBAL  # noqa: PLW0603  (that is what is tested)
    g = hesse.grad(lambda x: quadratic(x, GLOBAL))
    for seed in (1, 2):
        GLOBAL = matrix(seed)
        np.testing.assert_allclose(g(X), expected(GLOBAL))
        GLOBAL += 1.0
        np.testing.assert_allclose(g(X), expected(GLOBAL))


def helper(x: Any) -> Any:
    return quadratic(x, GLOBAL)


def test_functions_that_are_called_have_surroundings_of_their_own() -> None:
    global GLOBAL  # noqa: PLW0603  (that is what is tested)
    scale = 2.0
    inner = lambda x: scale * helper(x)  # noqa: E731
    g = hesse.grad(lambda x: 1.0 * inner(x))
    for seed in (1, 2):
        GLOBAL = matrix(seed)
        scale += 1.0
        np.testing.assert_allclose(g(X), scale * expected(GLOBAL))


def test_defaults_and_partial() -> None:
    A, B = matrix(1), matrix(2)

    def f(x: Any, A: Any = A) -> Any:
        return quadratic(x, A)

    g, h = hesse.grad(f), hesse.grad(functools.partial(quadratic, A=B))
    for _ in range(3):
        np.testing.assert_allclose(g(X), expected(A))
        np.testing.assert_allclose(h(X), expected(B))
        A *= 2.0
        B *= 3.0
    f.__defaults__ = (B,)
    np.testing.assert_allclose(g(X), expected(B))
    np.testing.assert_allclose(g(X, A), expected(A))


@dataclass
class Model:
    weights: Any
    layers: list[Any]

    def loss(self, x: Any) -> Any:
        for layer in self.layers:
            x = np.tanh(layer @ x)
        return np.sum(self.weights * x)

    def __call__(self, x: Any) -> Any:
        return self.loss(x)


def by_jax(model: Model) -> np.ndarray:
    def loss(x: Any) -> Any:
        for layer in model.layers:
            x = jnp.tanh(layer @ x)
        return jnp.sum(model.weights * x)

    return np.asarray(jax.grad(loss)(X))


@pytest.mark.parametrize("use", [lambda m: m.loss, lambda m: m, lambda m: lambda x: 1.0 * m(x)])
def test_objects(use: Callable[[Model], Callable[[Any], Any]]) -> None:
    model = Model(RNG.standard_normal(N), [matrix(1), matrix(2)])
    g = hesse.grad(use(model))
    for change in range(5):
        for _ in range(2):
            np.testing.assert_allclose(g(X), by_jax(model))
        if change == 0:
            model.weights = RNG.standard_normal(N)
        elif change == 1:
            model.layers[0] = matrix(3)
        elif change == 2:
            model.layers.append(matrix(4))
        else:
            model.weights[3] = 1.0


def test_plain_values_and_flags_are_traced_once_each() -> None:
    count = Counted()
    power, shift, options = 2, 0.5, {"sign": 1.0, "log": False}

    def f(x: Any) -> Any:
        count.traces += 1
        value = np.sum((x + shift) ** power) * options["sign"]
        return np.log(value**2) if options["log"] else value

    g = hesse.grad(f)
    for power in (2, 3, 2, 3):
        np.testing.assert_allclose(g(X), power * (X + shift) ** (power - 1))
    assert count.traces == 2
    options["sign"] = -1.0
    np.testing.assert_allclose(g(X), -3 * (X + shift) ** 2)
    options["log"] = True
    np.testing.assert_allclose(g(X), 6 * (X + shift) ** 2 / np.sum((X + shift) ** 3))
    assert count.traces == 4


def test_small_arrays_and_patterns_are_compared() -> None:
    small, banded = np.array([1.0, 2.0, 3.0]), np.diag(np.ones(N)) - np.diag(np.ones(N - 1), 1)
    H = hesse.hessian(lambda x: np.sum((banded @ x) ** 2) + np.sum(small * x[:3] ** 2), form="structured")
    for _ in range(2):
        for _ in range(2):
            found = H(X)
            assert found.nbytes < 100 * N
            reference = 2 * banded.T @ banded
            reference[:3, :3] += 2 * np.diag(small)
            np.testing.assert_allclose(found.dense(), reference, atol=1e-12)
        small[1] = 5.0
        banded[0, 0] = 3.0


def test_arrays_whose_values_are_needed() -> None:
    large = matrix(1)
    mask = np.ones(5000, bool)
    mask[::2] = False
    x = np.random.default_rng(5).standard_normal(5000)

    def f(x: Any) -> Any:
        total = np.sum(x[mask] ** 2)
        return total * 2.0 if large[0, 0] > 0 else total

    g = hesse.grad(f)
    for value in (1.0, -1.0):
        large[0, 0] = value
        for _ in range(2):
            np.testing.assert_allclose(g(x), np.where(mask, 2 * x, 0.0) * (2.0 if value > 0 else 1.0))
        mask[:10] = True


def test_many_arrays_whose_values_are_needed() -> None:
    arrays = [matrix(seed) for seed in range(12)]

    def f(x: Any) -> Any:
        return np.sum(x**2) * sum(1.0 if A[0, 0] > 0 else 2.0 for A in arrays)

    g = hesse.grad(f)
    for sign in (1.0, -1.0):
        arrays[11][0, 0] = sign
        weight = sum(1.0 if A[0, 0] > 0 else 2.0 for A in arrays)
        np.testing.assert_allclose(g(X), 2 * weight * X)


def test_what_only_arrays_can_do() -> None:
    """A trace that fails with stand-ins is repeated with the arrays, which are then compared."""
    A = matrix(1)
    g = hesse.grad(lambda x: np.sum(x) * float(np.linalg.cond(A)) + np.sum(x**2) * A.tobytes().count(b"a"))
    for _ in range(2):
        for _ in range(2):
            np.testing.assert_allclose(g(X), np.linalg.cond(A) + 2 * X * A.tobytes().count(b"a"))
        A += 1.0


def test_an_error_does_not_make_constants() -> None:
    A = matrix(1)
    g = hesse.grad(lambda x: quadratic(x, A))
    with pytest.raises(hesse.HesseError):
        g(np.ones(3))
    assert "A" in g.explain(X).source
    np.testing.assert_allclose(g(X), expected(A))


def test_integer_arrays() -> None:
    where = np.random.default_rng(0).integers(0, N, 6000)
    g = hesse.grad(lambda x: np.sum(x[where] ** 2))
    for _ in range(2):
        for _ in range(2):
            np.testing.assert_allclose(g(X), 2 * X * np.bincount(where, minlength=N))
        where[:100] = 3


def test_the_same_array_twice() -> None:
    A = B = matrix(1)
    g = hesse.grad(lambda x: x @ A @ B @ x)
    np.testing.assert_allclose(g(X), expected(A @ B))
    B = matrix(2)
    np.testing.assert_allclose(g(X), expected(A @ B))
    A = B
    np.testing.assert_allclose(g(X), expected(A @ B))


def test_other_shapes_and_dtypes() -> None:
    A = matrix(1)[:, :3]
    g = hesse.grad(lambda x: np.sum(np.sin(x @ A)))
    for A in (matrix(1)[:, :3], matrix(2)[:, :7], matrix(3).astype(np.float32), matrix(2).T):
        np.testing.assert_allclose(g(X), A @ np.cos(X @ A), rtol=1e-5)
        assert g(X).dtype == np.float64
        assert g(X.astype(np.float32)).dtype == np.float32


def test_names_that_clash_with_arguments() -> None:
    A = matrix(1)
    outer = lambda x: quadratic(x, A)  # noqa: E731
    g = hesse.grad(lambda x, A: outer(x) + np.sum(A * x), argnums=(0, 1))
    by_x, by_a = g(X, 2 * X)
    np.testing.assert_allclose(by_x, expected(A) + 2 * X)
    np.testing.assert_allclose(by_a, X)


def test_binding() -> None:
    A, y = matrix(1), RNG.standard_normal(N)
    bound = hesse.grad(lambda x, y: quadratic(x - y, A)).bind(y=y)
    for seed in (1, 2):
        A = matrix(seed)
        for _ in range(2):
            np.testing.assert_allclose(bound(X), (A + A.T) @ (X - y))
            A += 1.0


def test_derivatives_inside() -> None:
    A = matrix(1)
    inner = hesse.grad(lambda x: quadratic(x, A))
    g = hesse.grad(lambda x: np.sum(inner(x) ** 2))
    for seed in (1, 2):
        A = matrix(seed)
        for _ in range(2):
            np.testing.assert_allclose(g(X), 2 * (A + A.T) @ (A + A.T) @ X)
            A += 1.0


def test_structured_results() -> None:
    A = matrix(1)
    H = hesse.hessian(lambda x: np.sum(np.exp(A @ x)), form="structured")
    for seed in (1, 2):
        A = matrix(seed)
        np.testing.assert_allclose(H(X).dense(), A.T @ np.diag(np.exp(A @ X)) @ A)


@pytest.mark.parametrize("library", [jnp.asarray, torch.tensor])
def test_arrays_of_other_libraries(library: Callable[[Any], Any]) -> None:
    A = library(matrix(1))
    count = Counted()

    def f(x: Any) -> Any:
        count.traces += 1
        return quadratic(x, A)

    g = hesse.grad(f)
    for seed in (1, 2):
        A = library(matrix(seed))
        for _ in range(2):
            found = g(library(X))
            assert type(found) is type(A)
            np.testing.assert_allclose(np.asarray(found), expected(matrix(seed)))
    assert count.traces == 1
    np.testing.assert_allclose(g(X), expected(matrix(2)))  # NumPy arrays: computed by NumPy
    A = library(matrix(3))
    np.testing.assert_allclose(g(X), expected(matrix(3)))


def test_tensors_that_change() -> None:
    W = torch.tensor(matrix(1))
    g = hesse.grad(lambda x: quadratic(x, W))
    for _ in range(3):
        np.testing.assert_allclose(g(torch.tensor(X)), expected(W.numpy()))
        W *= 1.1


def test_numpy_arrays_with_others() -> None:
    A = matrix(1)
    g = hesse.grad(lambda x: quadratic(x, A))
    for _ in range(2):
        np.testing.assert_allclose(g(jnp.asarray(X)), expected(A))
        np.testing.assert_allclose(g(torch.tensor(X)), expected(A))
        np.testing.assert_allclose(g(X), expected(A))
        A += 1.0


def test_tracers_of_a_function_around() -> None:
    """What an outer jit or grad traces can be captured: it is an input."""

    def outer(A: Any, x: Any) -> Any:
        return jnp.sum(hesse.grad(lambda x: quadratic(x, A))(x) ** 2)

    A = matrix(1)
    value = np.sum(expected(A) ** 2)
    np.testing.assert_allclose(jax.jit(outer)(A, X), value)
    found = jax.grad(outer)(jnp.asarray(A), jnp.asarray(X))
    np.testing.assert_allclose(found, jax.grad(lambda A: jnp.sum(((A + A.T) @ X) ** 2))(A))


def test_gradients_of_tensors_that_are_captured() -> None:
    W = torch.tensor(matrix(1), requires_grad=True)
    g = hesse.grad(lambda x: quadratic(x, W))
    (found,) = torch.autograd.grad(torch.sum(g(torch.tensor(X)) ** 2), [W])
    reference = torch.tensor(matrix(1), requires_grad=True)
    (wanted,) = torch.autograd.grad(
        torch.sum(((reference + reference.T) @ torch.tensor(X)) ** 2), [reference]
    )
    np.testing.assert_allclose(found, wanted)


def test_nothing_large_is_copied() -> None:
    data = np.random.default_rng(0).standard_normal((2000, 1000))
    g = hesse.grad(lambda x: np.sum((data @ x) ** 2))
    x = np.ones(1000)
    tracemalloc.start()
    g(x)
    g(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < data.nbytes / 4


def test_captured_arrays_are_freed_with_the_derivative() -> None:
    class Data(np.ndarray):
        """Arrays that can be watched."""

    A = matrix(1).view(Data)
    plain = np.asarray(A)
    seen = weakref.ref(A)
    g = hesse.grad(lambda x, A=plain: quadratic(x, A))
    g(X)
    del A, plain, g
    gc.collect()
    assert seen() is None


def test_threads() -> None:
    A = matrix(1)
    g = hesse.grad(lambda x: quadratic(x, A))
    g(X)
    wrong: list[Any] = []

    def work(k: int) -> None:
        point = X * (k + 1)
        for _ in range(200):
            found = g(point)
            if not any(np.allclose(found, (M + M.T) @ point) for M in matrices):
                wrong.append(k)

    matrices = [matrix(1), matrix(2), matrix(3)]
    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for k in range(200):
        A = matrices[k % 3]
    for thread in threads:
        thread.join()
    assert not wrong
