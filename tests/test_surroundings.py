"""What a function reads besides its arguments is found, watched, and can be replaced."""

from __future__ import annotations

import functools
import sys
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from hesse.api.surroundings import Walk

GLOBAL = np.array([1.0, 2.0, 4.0])
FACTOR = 2.0
ONES, TWOS = np.ones(3), np.full(3, 2.0)


class Pair(NamedTuple):
    first: np.ndarray
    second: float


@dataclass
class Model:
    weights: np.ndarray
    bias: float = 1.0
    unused: Any = None

    def __call__(self, x: Any) -> Any:
        return self.weights * x + self.bias

    def doubled(self, x: Any) -> Any:
        return 2 * self(x)


@dataclass(slots=True, frozen=True)
class Slotted:
    weights: np.ndarray

    def apply(self, x: Any) -> Any:
        return self.weights * x


def by_global(x: Any) -> Any:
    return GLOBAL * x


def by_default(x: Any, a: Any = ONES, *, b: Any = TWOS) -> Any:
    return a * x + b


def by_helper(x: Any) -> Any:
    return by_global(x) * FACTOR


def even(n: int, x: Any) -> Any:
    return x if n == 0 else odd(n - 1, x)


def odd(n: int, x: Any) -> Any:
    return GLOBAL * even(n - 1, x)


def closure(a: Any) -> Callable[[Any], Any]:
    return lambda x: a * x


def nested(a: Any) -> Callable[[Any], Any]:
    inner = closure(a)

    def outer(x: Any) -> Any:
        return sum(inner(part) for part in [x])

    return outer


def recursive(a: Any) -> Callable[[Any], Any]:
    def powers(x: Any, n: int = 3) -> Any:
        return x if n == 0 else a * powers(x, n - 1)

    return powers


def cases() -> dict[str, tuple[Callable[..., Any], str]]:
    a = np.array([1.0, 2.0, 3.0])
    shared = {"w": a, ("odd", 1): 3.0, "inner": [a, Pair(a, 2.0)]}
    model = Model(a)
    slotted = Slotted(a)
    return {
        "closure": (closure(a), "a"),
        "nested": (nested(a), "inner.a"),
        "recursive": (recursive(a), "a"),
        "global": (by_global, "GLOBAL"),
        "helper": (by_helper, "by_global.GLOBAL"),
        "mutual": (functools.partial(even, 4), "func.odd.GLOBAL"),
        "defaults": (by_default, "__defaults__[0]"),
        "partial": (functools.partial(lambda w, x: w * x, a), "args[0]"),
        "keywords": (functools.partial(lambda x, w: w * x, w=a), "keywords['w']"),
        "containers": (lambda x: shared["inner"][1].first * x * shared["odd", 1], "shared['w']"),
        "instance": (lambda x: 1.0 * model(x), "model.weights"),
        "method": (model.doubled, "self.weights"),
        "callable": (model, ".weights"),
        "slots": (lambda x: 1.0 * slotted.apply(x), "slotted.weights"),
    }


@pytest.mark.parametrize("name", cases())
def test_arrays_are_found_and_replaced_in_a_copy(name: str) -> None:
    function, place = cases()[name]
    walk = Walk(function)
    arrays = walk.arrays()
    names = {found.name: found for found in walk.places}
    assert place in names, sorted(names)
    assert not arrays[id(names[place].value)].is_fixed
    x = np.array([2.0, 3.0, 5.0])
    before = function(x)
    copied = walk.copied({identity: 10.0 * found.value for identity, found in arrays.items()})
    assert np.all(np.abs(copied(x)) > np.abs(before))
    np.testing.assert_array_equal(function(x), before)
    assert walk.is_same()
    assert Walk(function).key() == walk.key()


def test_arrays_of_classes_are_found_but_stay() -> None:
    class Layer:
        matrix = np.eye(2)

        def __call__(self, x: Any) -> Any:
            return self.matrix @ x

    layer = Layer()
    (found,) = Walk(lambda x: 1.0 * layer(x)).arrays().values()
    assert found.is_fixed
    assert found.value is Layer.matrix


def test_rebinding_is_seen() -> None:
    a, scale, activation, parts = np.ones(3), 1.0, np.tanh, [np.ones(2), 2.0]

    def f(x: Any) -> Any:
        return activation(scale * a * x) + parts[0].sum()

    walk = Walk(f)
    keys = [walk.key()]
    assert walk.is_same()
    for change in ("a", "scale", "activation", "parts", "item", "append"):
        if change == "a":
            a = np.zeros(3)
        elif change == "scale":
            scale = 2.0
        elif change == "activation":
            activation = np.sin
        elif change == "parts":
            parts = [np.ones(2), 3.0]
        elif change == "item":
            parts[1] = 4.0
        else:
            parts.append(1.0)
        assert not walk.is_same(), change
        walk = Walk(f)
        assert walk.is_same()
        keys.append(walk.key())
    assert keys[0] == keys[1]  # another array of the same kind
    assert len(set(keys)) == len(keys) - 1


def test_sharing_is_part_of_the_key() -> None:
    a = b = np.ones(3)
    f = lambda x: a * x + b  # noqa: E731
    together = Walk(f).key()
    b = np.ones(3)
    assert Walk(f).key() != together


def test_mutation_of_an_array_is_not_a_change() -> None:
    a = np.ones(3)
    walk = Walk(lambda x: a * x)
    a[:] = 2.0
    assert walk.is_same()


def test_what_changed_has_a_name() -> None:
    calls: list[int] = []
    count = 0

    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        calls.append(1)
        return x

    before = Walk(f)
    f(1.0)
    changed = before.changed(Walk(f))
    assert changed == {"count", "calls[0]"}
    settled = Walk(f, changed)
    assert settled.key() == Walk(f, changed).key()


def test_side_effects_of_a_copy_reach_what_is_not_copied() -> None:
    calls: list[Any] = []
    count, a = 0, np.ones(3)

    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        calls.append(x)
        return a * x

    copied = Walk(f).copied({id(a): 2 * a})
    np.testing.assert_array_equal(copied(3.0), 6 * np.ones(3))
    assert calls == [3.0]
    assert count == 1


def test_libraries_are_not_looked_into() -> None:
    assert Walk(np.linalg.norm).places == []
    assert Walk(lambda x: 1.0 * np.sum(x)).places == []


def test_modules_of_users_are_looked_into() -> None:
    module = ModuleType("settings")
    module.value = np.ones(3)  # type: ignore[attr-defined]
    walk = Walk(lambda x: module.value * x)
    assert [found.name for found in walk.places] == ["module", "module.value"]
    assert walk.places[1].is_fixed
    module.value = np.ones(3)  # type: ignore[attr-defined]
    assert not walk.is_same()


def test_long_lists_and_deep_ones() -> None:
    numbers: list[Any] = [float(k) for k in range(1000)]
    walk = Walk(lambda x: x * numbers[3])
    assert len(walk.places) == 1
    numbers[3] = 0.5
    assert not walk.is_same()
    nested: list[Any] = [np.ones(3)]
    for _ in range(3000):
        nested = [nested]
    assert len(Walk(lambda x: x * len(nested)).arrays()) == 1


def test_the_check_is_cheap() -> None:
    arrays = [np.ones(20) for _ in range(10)]
    a, b, c, d, e, f, g, h, i, j = arrays
    walk = Walk(lambda x: x * a * b * c * d * e * f * g * h * i * j)
    assert len(walk.arrays()) == 10
    assert len(walk.is_same.__code__.co_code) < 700  # the count that stands for the time
    assert min(timeit.repeat(walk.is_same, number=1000, repeat=20)) / 1000 < 5e-6  # on any machine


def test_an_empty_cell() -> None:
    def outer() -> Callable[[Any], Any]:
        f = lambda x: x * later  # noqa: E731
        walk = Walk(f)
        assert walk.places == []
        later = np.ones(3)
        assert [found.name for found in Walk(f).places] == ["later"]
        return f

    outer()


def test_hidden_modules_are_followed_by_name() -> None:
    assert sys.modules[__name__].__dict__["GLOBAL"] is GLOBAL
    walk = Walk(by_global)
    sys.modules[__name__].__dict__["GLOBAL"] = GLOBAL.copy()
    assert not walk.is_same()
