"""Containers as arguments and results: the structures and values of JAX's own derivatives.

Every case is a function written once, with the NumPy of hesse and with that of JAX, at one point.
"""

from __future__ import annotations

import collections
import copy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.errors import ArgumentError, DifferentiationError
from oracles import fast_jit

jax.config.update("jax_enable_x64", True)

generator = np.random.default_rng(5)


class Layer(NamedTuple):
    """A named tuple of arrays."""

    weight: Any
    bias: Any


@partial(jax.tree_util.register_dataclass, data_fields=["scale", "shift"], meta_fields=["power"])
@dataclass
class Affine:
    """A dataclass of arrays, with a field that is part of the structure."""

    scale: Any
    shift: Any
    power: int = field(default=2, metadata={"static": True})

    def __call__(self, x: Any) -> Any:
        return (self.scale * x + self.shift) ** self.power


@partial(jax.tree_util.register_dataclass, data_fields=["size", "parts"], meta_fields=[])
@dataclass(frozen=True, slots=True)
class Frozen:
    """A dataclass that cannot be changed, with a container inside."""

    size: Any
    parts: Any


def array(*shape: int) -> np.ndarray:
    return generator.normal(size=shape)


def network(np: Any, p: Any) -> Any:
    """A sum over two layers of a net, whichever of the two is a tuple."""
    x = np.asarray(INPUT)
    for layer in p["layers"]:
        x = np.tanh(layer[0] @ x + layer[1])
    return np.sum(x**2) + p["extra"]["offset"] ** 2 * np.sum(x)


INPUT = array(3)
NESTED = {
    "layers": [Layer(array(3, 3), array(3)), (array(2, 3), array(2))],
    "extra": {"offset": np.array(0.7), "nothing": None, "empty": []},
}

Function = Callable[..., Any]
"""A function of the NumPy to use and the arguments."""

SCALARS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "dict": (lambda np, p: np.sum(np.sin(p["a"]) * p["b"]) ** 2, ({"a": array(3), "b": array(3)},)),
    "dict of numbers": (lambda np, p: p["a"] ** 2 * p["b"], ({"a": 1.5, "b": -0.5},)),
    "dict with integer keys": (lambda np, p: np.sum(p[2] * p[1] ** 2), ({2: array(2), 1: array(2)},)),
    "ordered dict": (
        lambda np, p: np.sum(p["b"] ** 3) * p["a"],
        (collections.OrderedDict(b=array(2), a=array()),),
    ),
    "default dict": (
        lambda np, p: np.sum(p["b"] ** 3) * p["a"],
        (collections.defaultdict(list, b=array(2), a=array()),),
    ),
    "list": (lambda np, p: np.sum(p[0] @ p[1]) ** 2, ([array(2, 3), array(3)],)),
    "tuple": (lambda np, p: np.sum(p[0] @ p[1]) ** 2, ((array(2, 3), array(3)),)),
    "one in a list": (lambda np, p: np.sum(np.exp(p[0])), ([array(2)],)),
    "named tuple": (lambda np, p: np.sum(np.cos(p.weight @ p.bias)), (Layer(array(2, 3), array(3)),)),
    "named tuple of numbers": (lambda np, p: p.weight**3 * p.bias, (Layer(1.5, 2.5),)),
    "dataclass": (lambda np, p: np.sum(p(np.asarray(INPUT))), (Affine(array(3), array()),)),
    "dataclass of another power": (lambda np, p: np.sum(p(INPUT)), (Affine(array(3), array(), 3),)),
    "frozen dataclass": (
        lambda np, p: np.sum(p.parts["x"] * p.size) ** 2 + np.sum(p.parts["y"][0] ** 3),
        (Frozen(array(), {"x": array(2), "y": [array(2)]}),),
    ),
    "nested": (network, (NESTED,)),
    "None leaves": (lambda np, p: np.sum(p["a"][0] ** 3), ({"a": [array(2), None], "b": None},)),
    "empty containers": (lambda np, p: np.sum(p[1] ** 3), (([], array(2), {}, ()),)),
    "unused leaves": (lambda np, p: np.sum(p["a"] ** 2), ({"a": array(2), "b": array(2, 2)},)),
    "deep": (lambda np, p: np.sum(p[0][0][0]["x"][0] ** 3), ([[({"x": (array(2),)},)]],)),
    "single precision": (
        lambda np, p: np.sum(p["a"] ** 2) * p["b"],
        ({"a": np.ones(2, np.float32), "b": np.float32(2.0)},),
    ),
}

SEVERAL: dict[str, tuple[Function, tuple[Any, ...], Any]] = {
    "two containers": (
        lambda np, p, q: np.sum(p["a"] * q[0]) * q[1],
        ({"a": array(2)}, (array(2), array())),
        (0, 1),
    ),
    "the second of two": (lambda np, x, p: np.sum(x * p["a"] ** 2), (array(2), {"a": array(2)}), 1),
    "an array and a container": (lambda np, x, p: np.sum(x**2 * p["a"]), (array(2), {"a": array(2)}), (0, 1)),
    "in another order": (lambda np, x, p: np.sum(x**2 * p["a"]), (array(2), {"a": array(2)}), (1, 0)),
    "one in a tuple": (lambda np, p: np.sum(p[0] ** 3), ([array(2)],), (0,)),
    "data in a container": (
        lambda np, w, data: np.sum((data["X"] @ w - data["y"]) ** 2),
        (array(3), {"X": array(4, 3), "y": array(4)}),
        0,
    ),
}

OUTPUTS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "tuple": (lambda np, x: (np.sin(x), x @ x), (array(3),)),
    "list": (lambda np, x: [x**2, x[0] * x], (array(2),)),
    "dict": (lambda np, x: {"a": np.exp(x), "b": np.sum(x) ** 3}, (array(2),)),
    "named tuple": (lambda np, x: Layer(np.outer(x, x), x[0] ** 2), (array(2),)),
    "dataclass": (lambda np, x: Affine(x * x, np.sum(x)), (array(2),)),
    "nested, with None and empty ones": (
        lambda np, x: {"a": [x**2, None], "b": ((), {"c": np.cos(x)})},
        (array(2),),
    ),
    "of containers": (
        lambda np, p: {"y": p["a"] * p["b"], "z": [np.sum(p["a"] ** 2), p["b"] ** 3]},
        ({"a": array(2), "b": array()},),
    ),
    "that do not depend": (lambda np, x: (np.sum(x**2), np.ones(2)), (array(2),)),
    "the argument itself": (lambda np, p: p, ({"a": array(2), "b": array()},)),
}

AUX: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "an array": (lambda np, x: (np.sum(x**3), x * 2), (array(2),)),
    "a container": (lambda np, x: (np.sum(x**3), {"y": [np.sin(x), x[0]], "n": None}), (array(2),)),
    "of containers": (
        lambda np, p: (np.sum(p["a"] * p["b"]) ** 2, Layer(p["a"] + 1.0, {"s": p["b"]})),
        ({"a": array(2), "b": array(2)},),
    ),
}


def both(function: Function) -> tuple[Function, Function]:
    """The function for hesse and for JAX."""
    return partial(function, np), partial(function, jnp)


def assert_same(found: Any, expected: Any) -> None:
    """The same structure and the same values."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if isinstance(other, str):
            assert one == other
            continue
        assert one.dtype == other.dtype
        tolerance = 1e-10 if other.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
        assert one.shape == other.shape


def assert_same_twice(derivative: Any, arguments: tuple[Any, ...], reference: Any) -> None:
    """The first call, the second one, and one with other numbers."""
    assert_same(derivative(*arguments), reference(*arguments))
    assert_same(derivative(*arguments), reference(*arguments))
    others = jax.tree.map(lambda leaf: leaf * 0.5 + 0.25, arguments)
    assert_same(derivative(*others), reference(*others))


@pytest.mark.parametrize("case", SCALARS)
def test_gradients(case: str) -> None:
    function, arguments = SCALARS[case]
    ours, theirs = both(function)
    assert_same_twice(hesse.grad(ours), arguments, fast_jit(jax.grad(theirs)))
    assert_same_twice(hesse.value_and_grad(ours), arguments, fast_jit(jax.value_and_grad(theirs)))


@pytest.mark.parametrize("case", SCALARS)
def test_hessians(case: str) -> None:
    function, arguments = SCALARS[case]
    ours, theirs = both(function)
    assert_same_twice(hesse.hessian(ours), arguments, fast_jit(jax.hessian(theirs)))


@pytest.mark.parametrize("case", SEVERAL)
def test_several_arguments(case: str) -> None:
    function, arguments, argnums = SEVERAL[case]
    ours, theirs = both(function)
    assert_same_twice(hesse.grad(ours, argnums), arguments, fast_jit(jax.grad(theirs, argnums)))
    reference = fast_jit(jax.value_and_grad(theirs, argnums))
    assert_same_twice(hesse.value_and_grad(ours, argnums), arguments, reference)
    assert_same_twice(hesse.hessian(ours, argnums), arguments, fast_jit(jax.hessian(theirs, argnums)))


@pytest.mark.parametrize("case", OUTPUTS)
def test_several_results(case: str) -> None:
    function, arguments = OUTPUTS[case]
    ours, theirs = both(function)
    assert_same_twice(hesse.jacobian(ours), arguments, fast_jit(jax.jacobian(theirs)))
    assert_same_twice(hesse.jacobian(ours, (0,)), arguments, fast_jit(jax.jacobian(theirs, (0,))))
    assert_same_twice(hesse.hessian(ours), arguments, fast_jit(jax.hessian(theirs)))
    third = fast_jit(jax.jacfwd(jax.jacfwd(jax.jacrev(theirs))))
    assert_same_twice(hesse.derivative(ours, order=3), arguments, third)


@pytest.mark.parametrize("case", OUTPUTS)
def test_products(case: str) -> None:
    function, arguments = OUTPUTS[case]
    ours, theirs = both(function)
    directions = jax.tree.map(lambda leaf: np.cos(leaf) + 0.5, arguments)
    (value, tangent), (_, pull) = jax.jvp(theirs, arguments, directions), jax.vjp(theirs, *arguments)
    for _ in range(2):
        assert_same(hesse.jvp(ours)(*arguments, *directions), tangent)
        assert_same(hesse.jvp(ours, (0,))(*arguments, directions), tangent)
    weights = jax.tree.map(lambda leaf: np.asarray(jnp.sin(leaf) + 0.5), value)
    for _ in range(2):
        assert_same(hesse.vjp(ours)(*arguments, weights), pull(weights)[0])
        assert_same(hesse.vjp(ours, (0,))(*arguments, weights), pull(weights))


@pytest.mark.parametrize("case", [*SCALARS, *SEVERAL])
def test_hessian_products(case: str) -> None:
    function, arguments, argnums = (*SCALARS[case], 0) if case in SCALARS else SEVERAL[case]
    ours, theirs = both(function)
    chosen = jax.tree.map(lambda k: arguments[k], argnums)
    direction = jax.tree.map(lambda leaf: np.cos(leaf) + 0.5, chosen)

    def gradient(part: Any) -> Any:
        whole = list(arguments)
        for k, value in [(argnums, part)] if isinstance(argnums, int) else zip(argnums, part, strict=True):
            whole[k] = value
        return jax.grad(theirs, argnums)(*whole)

    expected = fast_jit(lambda *pair: jax.jvp(gradient, *pair)[1])((chosen,), (direction,))
    product = hesse.hvp(ours, argnums)
    for _ in range(2):
        assert_same(product(*arguments, direction), expected)


@pytest.mark.parametrize("case", AUX)
def test_further_results(case: str) -> None:
    function, arguments = AUX[case]
    ours, theirs = both(function)
    for derivative, reference in [
        (hesse.grad, jax.grad),
        (hesse.value_and_grad, jax.value_and_grad),
        (hesse.jacobian, jax.jacobian),
        (hesse.hessian, jax.hessian),
    ]:
        assert_same_twice(derivative(ours, has_aux=True), arguments, reference(theirs, has_aux=True))
        assert_same_twice(
            derivative(ours, (0,), has_aux=True), arguments, reference(theirs, (0,), has_aux=True)
        )


def test_plain_further_results() -> None:
    known = np.arange(3)

    def f(x: Any) -> Any:
        return np.sum(x**2), {"name": "f", "count": 3, "positive": x > 0, "known": known, "function": np.sin}

    for _ in range(2):
        gradient, aux = hesse.grad(f, has_aux=True)(np.array([1.0, -2.0]))
        np.testing.assert_array_equal(gradient, [2.0, -4.0])
        assert aux["name"] == "f"
        assert aux["count"] == 3
        assert aux["function"] is np.sin
        assert aux["positive"].dtype == bool
        np.testing.assert_array_equal(aux["positive"], [True, False])
        np.testing.assert_array_equal(aux["known"], [0, 1, 2])
        aux["known"][:] = 7


def test_parts_of_hessians() -> None:
    function, (point,) = SCALARS["nested"]
    full = hesse.hessian(partial(function, np))(point)
    diagonal = hesse.diagonal(partial(function, np))(point)
    leaves = jax.tree.leaves(point)
    blocks = jax.tree.leaves(full)
    total = 0.0
    for k, (leaf, found) in enumerate(zip(leaves, jax.tree.leaves(diagonal), strict=True)):
        own = np.reshape(blocks[k * len(leaves) + k], (leaf.size, leaf.size))
        np.testing.assert_allclose(np.ravel(found), np.diag(own), atol=1e-12)
        total += np.trace(own)
    assert jax.tree.structure(diagonal) == jax.tree.structure(point)
    np.testing.assert_allclose(hesse.laplacian(partial(function, np))(point), total)


def test_structured_blocks_inside_containers() -> None:
    def f(p: Any) -> Any:
        return {"sum": np.sum(np.tanh(p["a"]) * p["b"][0])}, {"value": p["a"] * 2.0}

    point = {"a": array(4), "b": [array(4)]}
    found, aux = hesse.hessian(f, form="structured", has_aux=True)(point)
    expected, same = hesse.hessian(f, has_aux=True)(point)
    assert isinstance(found["sum"]["a"]["b"][0], hesse.Structured)
    dense = jax.tree.map(
        lambda tensor: tensor.dense(), found, is_leaf=lambda x: isinstance(x, hesse.Structured)
    )
    assert_same(dense, expected)
    assert_same(aux, same)
    aux["value"][:] = np.nan
    assert not np.isnan(point["a"]).any()
    chunked = hesse.hessian(f, chunk=2, has_aux=True)(point)
    assert_same(chunked, (expected, same))


@pytest.mark.parametrize("form", ["dense", "structured"])
def test_nothing_is_shared_with_arguments(form: str) -> None:
    point, data = {"a": array(3)}, {"d": array(3)}
    derivative = hesse.jacobian(lambda p, q: (p["a"] * 2.0, q["d"]), form=form, has_aux=True)
    kept = copy.deepcopy((point, data))
    aux = derivative(point, data)[1]
    aux[:] = np.nan
    assert_same((point, data), kept)


class TestLibraries:
    def test_tensors_of_torch(self) -> None:
        function, (point,) = SCALARS["frozen dataclass"]
        expected = jax.tree.leaves(hesse.hessian(partial(function, np))(point))
        tensors = Frozen(torch.tensor(point.size), jax.tree.map(torch.tensor, point.parts))
        derivative = hesse.hessian(partial(function, np))
        for _ in range(2):
            found = jax.tree.leaves(derivative(tensors))
            assert all(isinstance(leaf, torch.Tensor) for leaf in found)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, atol=1e-12)

    @pytest.mark.parametrize("case", ["nested", "dataclass", "list"])
    def test_arrays_of_jax(self, case: str) -> None:
        function, (point,) = SCALARS[case]
        if case == "nested":
            point = {**point, "extra": {**point["extra"], "offset": jnp.asarray(0.7)}}
        point = jax.tree.map(jnp.asarray, point)
        derivative = hesse.value_and_grad(partial(function, np))
        for _ in range(2):
            found = derivative(point)
            assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(found))
            assert_same(found, jax.value_and_grad(partial(function, jnp))(point))

    def test_results_that_jax_does_not_know(self) -> None:
        @dataclass
        class Unknown:
            value: Any
            name: str

        function = hesse.compile(lambda x: Unknown(x * 2.0, "double"))
        derivative = hesse.grad(lambda x: (np.sum(x**2), Unknown(x > 0.0, "aux")), has_aux=True)
        x = jnp.array([1.0, -2.0])
        for _ in range(2):
            assert function(x).name == "double"
            assert isinstance(function(x).value, jax.Array)
            gradient, aux = derivative(x)
            np.testing.assert_allclose(gradient, 2 * x)
            np.testing.assert_array_equal(aux.value, [True, False])

    def test_inside_of_jit_and_grad(self) -> None:
        derivative = hesse.grad(lambda p, flag: np.sum(p["a"] ** 3 if flag else p["a"]))
        point = {"a": jnp.array([1.0, 2.0])}

        def outer(p: Any) -> Any:
            return jnp.sum(derivative(p, True)["a"] ** 2)

        np.testing.assert_allclose(jax.jit(jax.grad(outer))(point)["a"], 36 * point["a"] ** 3)

    @pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
    def test_another_back_end(self, backend: str) -> None:
        function, (point,) = SCALARS["nested"]
        expected = hesse.hessian(partial(function, np))(point)
        assert_same(hesse.hessian(partial(function, np), backend=backend)(point), expected)
        assert_same(hesse.hessian(partial(function, np)).compile(backend=backend)(point), expected)


def nested_leaf(value: Any) -> Any:
    return {"layers": [Layer(array(2), value)]}


class TestErrors:
    """Messages name the leaf as a user writes it."""

    @pytest.mark.parametrize(
        ("error", "message", "call"),
        [
            (
                DifferentiationError,
                r'cannot differentiate by p\["layers"\]\[0\].bias: its dtype is int64',
                lambda f: hesse.grad(f)(nested_leaf(np.arange(2))),
            ),
            (
                DifferentiationError,
                r'argument p\["layers"\]\[0\].bias is complex',
                lambda f: hesse.grad(f)(nested_leaf(np.ones(2) * 1j)),
            ),
            (
                ArgumentError,
                r'argument p\["layers"\]\[0\].bias is a str, not an array',
                lambda f: hesse.grad(f)(nested_leaf("relu")),
            ),
            (
                ArgumentError,
                r'v\["layers"\]\[0\].bias has shape \(3,\), but p\["layers"\]\[0\].bias has shape \(2,\)',
                lambda f: hesse.jvp(f)(nested_leaf(array(2)), nested_leaf(array(3))),
            ),
            (
                ArgumentError,
                r"v must have the structure of p: .*",
                lambda f: hesse.hvp(f)(nested_leaf(array(2)), {"layers": array(3)}),
            ),
            (
                ArgumentError,
                r"v must have the structure of \(p\)",
                lambda f: hesse.hvp(f, (0,))(nested_leaf(array(2)), nested_leaf(array(2))),
            ),
            (
                ArgumentError,
                r"u must have the structure of the result",
                lambda f: hesse.vjp(lambda p: (f(p), f(p)))(nested_leaf(array(2)), np.ones(3)),
            ),
            (
                ArgumentError,
                r"u\[1\] has shape \(2,\), but the result has shape \(\)",
                lambda f: hesse.vjp(lambda p: (f(p), f(p)))(nested_leaf(array(2)), (array(), array(2))),
            ),
            (
                ArgumentError,
                "grad needs a function with a scalar result, this one returns a container",
                lambda f: hesse.grad(lambda p: {"loss": f(p)})(nested_leaf(array(2))),
            ),
        ],
    )
    def test_leaves_are_named(self, error: type[Exception], message: str, call: Any) -> None:
        with pytest.raises(error, match=message):
            call(lambda p: np.sum(p["layers"][0].bias ** 2))


def test_lists_of_numbers_are_arrays() -> None:
    gradient = hesse.grad(lambda x: np.sum(x * x))
    for _ in range(2):
        assert isinstance(gradient([1.0, 2.0]), np.ndarray)
        assert isinstance(gradient(((1.0, 2.0), (3.0, 4.0))), np.ndarray)
    inside = hesse.grad(lambda p: p["a"][0] * p["a"][1])({"a": [2.0, 3.0]})
    assert_same(inside, {"a": [np.float64(3.0), np.float64(2.0)]})


def test_numbers_at_several_depths_are_containers() -> None:
    (first,), second = hesse.grad(lambda p: p[0][0] ** 2 * p[1])([[2.0], 3.0])
    assert (first, second) == (12.0, 4.0)


@pytest.mark.parametrize("kind", [list, tuple])
def test_weights_of_several_numbers_may_be_numbers(kind: Any) -> None:
    product = hesse.vjp(lambda x: kind([x, x**2]))
    assert product(3.0, kind([1.0, 2.0])) == 13.0
    with pytest.raises(ArgumentError, match="u must have the structure of the result"):
        product(3.0, [1.0, 2.0, 3.0])


def test_keys_that_print_alike() -> None:
    class Key:
        def __repr__(self) -> str:
            return "key"

    first, second = Key(), Key()
    found = hesse.grad(lambda p: p[first] ** 2 * p[second])({first: 3.0, second: 5.0})
    assert (found[first], found[second]) == (30.0, 9.0)


def test_optree_is_imported_for_containers_only() -> None:
    code = (
        "import sys, numpy as np, hesse\n"
        "hesse.grad(lambda x, flag, n: np.sum(x[:n] * x[:n]))(np.ones(3), True, 2)\n"
        "assert 'optree' not in sys.modules\n"
        "hesse.grad(lambda p: p['a'] ** 2)({'a': 1.0})\n"
        "assert 'optree' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_fields_that_jax_was_told_are_no_arrays_are_part_of_the_structure() -> None:
    @partial(jax.tree_util.register_dataclass, data_fields=["weight"], meta_fields=["activation"])
    @dataclass
    class Dense:
        weight: Any
        activation: str

    def loss(layer: Dense, x: Any) -> Any:
        return jnp.sum(getattr(jnp, layer.activation)(layer.weight @ x) ** 2)

    weight, x = jnp.array([[0.1, -0.4], [0.3, 0.2]]), jnp.array([1.0, 2.0])
    gradient, hessian = hesse.grad(loss), hesse.hessian(loss)
    for name in ("tanh", "sin", "tanh"):
        layer = Dense(weight, name)
        assert gradient(layer, x).activation == name
        np.testing.assert_allclose(gradient(layer, x).weight, jax.grad(loss)(layer, x).weight, rtol=1e-5)
        expected = jax.hessian(loss)(layer, x).weight.weight
        np.testing.assert_allclose(hessian(layer, x).weight.weight, expected, rtol=1e-5)
    with pytest.raises(DifferentiationError, match=r"differentiate by layer\.weight: its dtype is int"):
        gradient(Dense(jnp.array([[1, 2]]), "tanh"), x)


class Weights:
    """A container that NumPy can make an array of."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.value, dtype)


def test_classes_registered_with_jax_may_be_arrays_for_numpy() -> None:
    jax.tree_util.register_pytree_node(
        Weights, lambda w: ((w.value,), None), lambda _, parts: Weights(*parts)
    )
    point = {"w": Weights(jnp.array([1.0, 2.0]))}
    found = hesse.grad(lambda p: jnp.sum(jnp.sin(p["w"].value) ** 2))(point)
    assert type(found["w"]) is Weights
    np.testing.assert_allclose(found["w"].value, np.sin([2.0, 4.0]), rtol=1e-6)
