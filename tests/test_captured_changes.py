"""Changes between two calls that are easily missed: every second call sees them."""

from __future__ import annotations

import enum
import functools
import gc
import math
import textwrap
import types
import weakref
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
import torch

import hesse

jax.config.update("jax_enable_x64", True)
X = np.arange(1.0, 4.0)
RNG = np.random.default_rng(0)
MODULE = types.ModuleType("settings_of_a_user")


def check(function: Callable[[Any], Any], changes: list[Callable[[], Any]]) -> None:
    """The gradient of the squares of a function that is linear up to a constant factor, after each change."""
    gradient = hesse.grad(lambda x: np.sum(function(x) ** 2))
    for change in [lambda: None, *changes]:
        change()
        for _ in range(2):
            matrix = np.stack([np.atleast_1d(function(row)) for row in np.eye(3)], 1)
            np.testing.assert_allclose(gradient(X), 2 * matrix.T @ matrix @ X)


def test_other_shapes_and_dtypes() -> None:
    data = RNG.standard_normal((100, 3))
    batch = data[:30]
    gradient = hesse.grad(lambda w: np.mean((batch @ w) ** 2))
    bound = hesse.grad(lambda w, c: c * np.mean((batch @ w) ** 2)).bind(c=2.0)
    by_float = hesse.grad(lambda w, c: c * np.mean((batch @ w) ** 2))
    for start in (0, 30, 60, 90):
        for dtype in (float, np.float32):
            batch = data[start : start + 30].astype(dtype)
            expected = 2 * batch.T @ (batch @ X) / len(batch)
            np.testing.assert_allclose(gradient(X), expected, rtol=1e-5)
            np.testing.assert_allclose(bound(X), 2 * expected, rtol=1e-5)
            np.testing.assert_allclose(by_float(X, 3.0), 3 * expected, rtol=1e-5)
            np.testing.assert_allclose(gradient(torch.tensor(X)), expected, rtol=1e-5)
    batch = np.arange(60).reshape(20, 3)
    np.testing.assert_allclose(gradient(X), 2 * batch.T @ (batch @ X) / 20)


class Base:
    """Attributes and methods that other classes inherit."""

    scale = 1.0

    def __init__(self) -> None:
        self.W = RNG.standard_normal((20, 3))

    def apply(self, x: Any) -> Any:
        return self.scale * self.W @ x

    @property
    def gram(self) -> Any:
        return self.W.T @ self.W

    @staticmethod
    def twice(x: Any) -> Any:
        return MODULE.factor * x

    def __matmul__(self, x: Any) -> Any:
        return self.W @ x

    def __call__(self, x: Any) -> Any:
        return self.apply(x)


class Derived(Base):
    def apply(self, x: Any) -> Any:
        return 2.0 * super().apply(x)


USES: dict[str, Callable[[Derived], Callable[[Any], Any]]] = {
    "a method": lambda o: lambda x: o.apply(x) * 1.0,
    "a call": lambda o: lambda x: o(x) * 1.0,
    "an operator": lambda o: lambda x: (o @ x) * 1.0,
    "a property": lambda o: lambda x: o.gram @ x,
    "a static method": lambda o: lambda x: o.twice(x) * 1.0,
    "an attribute by name": lambda o: lambda x: getattr(o, "W") @ x,  # noqa: B009
}


@pytest.mark.parametrize("use", USES)
def test_objects(use: str) -> None:
    MODULE.factor = 2.0  # type: ignore[attr-defined]
    instance = Derived()

    def double() -> None:
        instance.W *= 2.0

    def rebind() -> None:
        instance.W = RNG.standard_normal((7, 3))

    def of_the_object() -> None:
        instance.scale = 3.0

    def of_the_class() -> None:
        Base.scale = 5.0
        MODULE.factor = 3.0  # type: ignore[attr-defined]

    try:
        check(USES[use](instance), [double, rebind, of_the_class, of_the_object])
    finally:
        Base.scale = 1.0


def test_holders_of_other_kinds() -> None:
    space = SimpleNamespace(k=2.0)
    queue, members = deque([1.0, 2.0]), {2.0}
    MODULE.factor = 2.0  # type: ignore[attr-defined]
    check(lambda x: space.k * x, [lambda: setattr(space, "k", 3.0)])
    check(lambda x: queue[0] * x, [lambda: queue.append(1.0), lambda: queue.rotate(1)])
    check(lambda x: max(members) * x, [lambda: members.symmetric_difference_update({2.0, 5.0})])
    check(lambda x: MODULE.factor * x, [lambda: setattr(MODULE, "factor", 7.0)])

    def own(x: Any) -> Any:
        return own.k * x  # type: ignore[attr-defined]

    own.k = 1.0  # type: ignore[attr-defined]
    check(own, [lambda: setattr(own, "k", 4.0)])
    number = [1.0]
    cached = functools.lru_cache(lambda: number[0])

    def change() -> None:
        number[0] = 6.0
        cached.cache_clear()

    check(lambda x: cached() * x, [change])


def test_attributes_that_appear() -> None:
    class Net:
        training = True

        def __call__(self, x: Any) -> Any:
            return (2.0 if self.training else 1.0) * x * (3.0 if hasattr(self, "extra") else 1.0)

    net = Net()
    check(net, [lambda: setattr(net, "training", False), lambda: setattr(net, "extra", 1)])


def test_signed_zeros_and_nans() -> None:
    k = 0.0
    traces = [0]

    def f(x: Any) -> Any:
        traces[0] += 1
        return math.copysign(1.0, k) * np.sum(x)

    gradient = hesse.grad(f)
    np.testing.assert_allclose(gradient(X), 1.0)
    k = -0.0
    np.testing.assert_allclose(gradient(X), -1.0)
    for _ in range(3):
        k = float("nan")
        np.testing.assert_allclose(np.abs(gradient(X)), 1.0)
    assert traces[0] == 3


def test_rules_and_their_functions() -> None:
    k, weights = 2.0, np.full(3, 2.0)

    @hesse.custom_derivative
    def scaled(x: Any) -> Any:
        return k * weights * x

    @scaled.defvjp
    def rule(primals: Any, result: Any, cotangent: Any) -> Any:
        return (k * weights * cotangent,)

    gradient = hesse.grad(lambda x: np.sum(scaled(x) ** 2))
    for k in (2.0, 3.0):
        for _ in range(2):
            np.testing.assert_allclose(gradient(X), 2 * (k * weights) ** 2 * X)
            weights[1] += 1.0
    scaled.defvjp(lambda primals, result, cotangent: (0.0 * cotangent,))
    np.testing.assert_allclose(gradient(X), 0.0)


def test_rules_are_not_passed_by() -> None:
    @hesse.custom_derivative
    def total(pair: Any) -> Any:
        return pair[0] + pair[1]

    total.defvjp(lambda primals, result, cotangent: (cotangent,))
    with pytest.raises(hesse.ArgumentError, match="total was called with a tuple of traced values"):
        hesse.grad(lambda x: np.sum(total((x, x))))(X)


def test_the_order_of_keys() -> None:
    compiled = hesse.compile(lambda d: np.concatenate(list(d.values())))
    for _ in range(2):
        np.testing.assert_array_equal(compiled({"b": X, "a": 10 * X}), [*X, *(10 * X)])
        np.testing.assert_array_equal(compiled({"a": 10 * X, "b": X}), [*(10 * X), *X])


def test_functions_and_objects_as_arguments() -> None:
    class Settings:
        v = 1.0

    W, settings = np.full(3, 2.0), Settings()
    activation = lambda x: W * x  # noqa: E731
    gradient = hesse.grad(lambda x, h, o: o.v * np.sum(h(x) ** 2))
    for _ in range(2):
        for _ in range(2):
            np.testing.assert_allclose(gradient(X, activation, settings), settings.v * 2 * W**2 * X)
        W *= 2.0
        settings.v += 1.0


def test_enumerations_are_flags() -> None:
    class Kind(enum.IntEnum):
        ONE = 1
        TWO = 2

    f = lambda x, kind: np.sum(x**2) if kind is Kind.ONE else np.sum(x**3)  # noqa: E731
    gradient = hesse.grad(f)
    for _ in range(2):
        np.testing.assert_allclose(gradient(X, Kind.ONE), 2 * X)
        np.testing.assert_allclose(gradient(X, Kind.TWO), 3 * X**2)


def inner(A: Any) -> Callable[[Any], Any]:
    return lambda x: A @ x


def test_names_that_are_the_same() -> None:
    A = RNG.standard_normal((20, 3))
    other = inner(RNG.standard_normal((20, 3)))
    model = SimpleNamespace(A=RNG.standard_normal((20, 3)))
    check(lambda x: A @ x + other(x) + model.A @ x, [])


def test_old_arrays_are_not_kept() -> None:
    class Watched(np.ndarray):
        """Arrays that can be watched."""

    seen = []
    k, A = 0.0, np.ones((30, 3))
    gradient = hesse.grad(lambda x: np.sum((A @ x) ** 2) + k)
    for k in np.arange(10.0):
        owner = RNG.standard_normal((30, 3)).view(Watched)
        seen.append(weakref.ref(owner))
        A = np.asarray(owner)
        del owner
        np.testing.assert_allclose(gradient(X), 2 * A.T @ A @ X + 0.0 * k)
    gc.collect()
    assert sum(reference() is not None for reference in seen) <= 2


def test_tensors_that_need_gradients_beside_numpy_arrays() -> None:
    W = torch.ones(3, 3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(hesse.TracingError, match="Pass it as an argument"):
        hesse.grad(lambda x: np.sum(x @ W))(X)


def test_globals_with_the_names_of_attributes() -> None:
    traces = [0]
    space: dict[str, Any] = {"np": np, "A": RNG.standard_normal((20, 3)), "traces": traces}
    exec("def f(x):\n traces[0] += 1\n return np.sum((A.T @ (A @ x)) ** 2)", space)
    gradient = hesse.grad(space["f"])
    for T in range(3):
        space["T"] = T
        gradient(X)
    assert traces[0] == 1


@pytest.mark.parametrize("library", [np, torch], ids=["numpy", "torch"])
def test_arrays_in_a_deque_may_be_written_to_and_exchanged(library):
    kept = deque([library.asarray([2.0, 2.0])])
    derivative = hesse.grad(lambda x: library.sum(kept[0] * x**2))
    x = library.asarray([1.0, 1.0])
    assert [*derivative(x)] == [4.0, 4.0]
    kept[0][0] = 3.0
    assert [*derivative(x)] == [6.0, 4.0]
    kept[0] = library.asarray([4.0, 5.0])
    assert [*derivative(x)] == [8.0, 10.0]
    kept.appendleft(library.asarray([6.0, 7.0]))
    assert [*derivative(x)] == [12.0, 14.0]


def test_functions_of_a_namespace_without_a_name() -> None:
    """What `exec` makes in a dict without `__name__` has no module, its classes that of the builtins."""
    namespace: dict[str, Any] = {}
    code = """
    import numpy as np
    W, c = np.ones(3), 2.0
    class Model:
        bias = 1.0
        def __call__(self, x): return self.bias * np.sum(c * x * W)
    model = Model()
    def h(x): return model(x)
    """
    exec(textwrap.dedent(code), namespace)
    check(
        namespace["h"],
        [
            lambda: namespace["W"].__imul__(2.0),
            lambda: namespace.update(W=np.arange(3.0)),
            lambda: namespace.update(c=5.0),
            lambda: setattr(namespace["Model"], "bias", 3.0),
        ],
    )
    known = {"np": np, "c": 2.0}
    check(eval("lambda x: np.sum(x * c)", known), [lambda: known.update(c=3.0)])
