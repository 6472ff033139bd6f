"""Derivatives by containers, called in other ways: by keyword, bound, checked, compiled."""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from test_containers import array, assert_same


def loss(p: Any, data: Any, scale: float = 1.0) -> Any:
    return scale * np.sum((data["X"] @ p["w"] + p["b"] - data["y"]) ** 2)


PARAMETERS = {"w": array(3), "b": array()}
DATA = {"X": array(4, 3), "y": array(4)}


class TestOtherWaysToCall:
    def test_by_keyword(self) -> None:
        derivative = hesse.grad(loss)
        expected = derivative(PARAMETERS, DATA)
        for _ in range(2):
            assert_same(derivative(data=DATA, p=PARAMETERS), expected)
            assert_same(derivative(PARAMETERS, data=DATA, scale=1.0), expected)
            doubled = derivative(scale=2.0, data=DATA, p=PARAMETERS)
            np.testing.assert_allclose(doubled["w"], 2 * expected["w"])

    def test_bound(self) -> None:
        derivative = hesse.hessian(loss)
        expected = derivative(PARAMETERS, DATA)
        data = copy.deepcopy(DATA)
        bound = derivative.bind(data=data)
        data["X"][:] = 0.0
        for _ in range(2):
            assert_same(bound(PARAMETERS), expected)
            assert_same(bound(p=PARAMETERS), expected)
        assert_same(derivative.bind(p=PARAMETERS)(DATA), expected)
        assert_same(
            hesse.hvp(loss).bind(data=DATA)(PARAMETERS, v=PARAMETERS),
            hesse.hvp(loss)(PARAMETERS, DATA, PARAMETERS),
        )
        assert_same(
            hesse.hvp(loss).bind(data=DATA, v=PARAMETERS)(PARAMETERS),
            hesse.hvp(loss)(PARAMETERS, DATA, PARAMETERS),
        )

    def test_explained(self) -> None:
        explanation = hesse.grad(loss).explain(PARAMETERS, DATA)
        assert len(explanation.formula.splitlines()) == 2
        assert 'data["X"]' in explanation.formula

    def test_checked(self) -> None:
        report = hesse.check(loss, PARAMETERS, DATA, order=2)
        assert report.ok
        assert hesse.check(
            lambda p: {"a": p[0] ** 2 * p[1], "b": [p[1] ** 3]}, [array(2), array(2)], order=3
        ).ok
        wrong = hesse.check(lambda p: np.sum(hesse.stop_gradient(p["a"]) * p["a"]), {"a": array(2)})
        assert not wrong.ok

    def test_inside_of_a_traced_function(self) -> None:
        def outer(p: Any, data: Any) -> Any:
            inner = hesse.grad(loss)(p, data)
            return np.sum(inner["w"] ** 2) + inner["b"] * p["b"]

        def jax_loss(p: Any, data: Any) -> Any:
            return jnp.sum((data["X"] @ p["w"] + p["b"] - data["y"]) ** 2)

        def reference(p: Any, data: Any) -> Any:
            inner = jax.grad(jax_loss)(p, data)
            return jnp.sum(inner["w"] ** 2) + inner["b"] * p["b"]

        for argnums in (0, 1, (0, 1)):
            derivative = hesse.grad(outer, argnums)
            for _ in range(2):
                assert_same(derivative(PARAMETERS, DATA), jax.grad(reference, argnums)(PARAMETERS, DATA))

    def test_products_and_aux_inside_of_a_traced_function(self) -> None:
        def outer(p: Any) -> Any:
            (value, aux), gradient = hesse.value_and_grad(
                lambda q: (np.sum(q["a"] ** 3) * p["b"], {"s": q["a"] * p["b"]}), has_aux=True
            )({"a": p["a"]})
            product = hesse.hvp(lambda q: np.sum(q["a"] ** 3))({"a": p["a"]}, {"a": p["a"]})
            return value + np.sum(aux["s"] * gradient["a"]) + np.sum(product["a"])

        def reference(p: Any) -> Any:
            a, b = p["a"], p["b"]
            return jnp.sum(a**3) * b + jnp.sum(a * b * 3 * a**2 * b) + jnp.sum(6 * a * a)

        point = {"a": array(3), "b": array()}
        assert_same(hesse.grad(outer)(point), jax.grad(reference)(point))
        assert_same(hesse.hessian(outer)(point), jax.hessian(reference)(point))

    def test_structures_are_told_apart(self) -> None:
        derivative = hesse.grad(lambda p: np.sum((p["a"] if isinstance(p, dict) else p[0] * 2.0) ** 2))
        x = array(2)
        for _ in range(2):
            np.testing.assert_allclose(derivative({"a": x})["a"], 2 * x)
            np.testing.assert_allclose(derivative([x])[0], 8 * x)
            np.testing.assert_allclose(derivative((x,))[0], 8 * x)
            np.testing.assert_allclose(derivative({"a": x, "b": None})["a"], 2 * x)


class TestCompiledFunctions:
    def test_any_result(self) -> None:
        function = hesse.compile(lambda p, n: {"x": p["a"][:n] * 2.0, "y": (p["a"] > 0.0, None, "text", n)})
        for _ in range(2):
            found = function({"a": np.array([1.0, -1.0, 2.0])}, 2)
            np.testing.assert_array_equal(found["x"], [2.0, -2.0])
            np.testing.assert_array_equal(found["y"][0], [True, False, True])
            assert found["y"][1:] == (None, "text", 2)

    def test_one_result(self) -> None:
        function = hesse.compile(lambda x, y: x @ y)
        assert function(np.ones(3), np.ones(3)) == 3.0
        assert function.compile(backend="torch")(np.ones(3), np.ones(3)) == 3.0
        assert function.bind(x=np.ones(3))(np.full(3, 2.0)) == 6.0
        assert function.explain(np.ones(3), np.ones(3)).formula
        assert isinstance(function(torch.ones(3), torch.ones(3)), torch.Tensor)
        assert isinstance(function(jnp.ones(3), jnp.ones(3)), jax.Array)
        assert hesse.grad(lambda x: function(x, x))(np.ones(3)) == pytest.approx(2 * np.ones(3))

    def test_results_are_apart_from_arguments(self) -> None:
        x = np.ones(3)
        first, second = hesse.compile(lambda x: (x, x))(x)
        first[:] = 2.0
        assert x.sum() == second.sum() == 3.0
