"""Foreign functions in formulas, threads and memory."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import hesse
from hesse.export import export
from hesse.ir import variable
from hesse.printing import latex
from test_foreign import RULES, X, bessel, convolution, product_sine, two_results


def test_formulas_name_the_function() -> None:
    jv = bessel()
    explained = hesse.jacobian(lambda x: jv(1, x)).explain(X)
    assert explained.formula == "0.5*diag(jv(0, x) - jv(2, x))"
    assert re.search(r"# p\d+ = jv", explained.source)
    sine_cosine, _ = two_results()
    assert "sine_cosine_2(x)" in hesse.grad(lambda x: np.sum(sine_cosine(x)[0])).explain(X).formula
    x = hesse.variable("x", (3,))
    assert r"\operatorname{jv}\left(1, x\right)" in latex(jv(1, x).node)


@pytest.mark.parametrize("name", ["power", "kron", "diag", "diagonal", "eye", "reciprocal", "softmax"])
def test_names_of_other_functions(name: str) -> None:
    def function(x: Any) -> Any:
        return np.sin(x)

    function.__name__ = name
    custom = hesse.custom_derivative(function)
    custom.defjvp(lambda p, t: custom(p[0]) * t[0])
    assert hesse.jacobian(custom).explain(X).formula == f"diag({name}(x))"
    assert name in latex(custom(hesse.variable("x", (3,))).node)


@pytest.mark.parametrize("language", ["numpy", "torch", "jax", "matlab", "julia", "cpp"])
def test_it_cannot_be_exported(language: str) -> None:
    jv = bessel()
    node = jv(1, hesse.Expression(variable("x", (3,)))).node
    with pytest.raises(hesse.MissingKernelError, match="the function jv is no formula and cannot be written"):
        export(node, language)


def test_symbolic_variables() -> None:
    jv = bessel()
    x = hesse.variable("x", (3,))
    np.testing.assert_allclose(np.sum(jv(1, x) ** 2).evaluate(x=X), np.sum(scipy.special.jv(1, X) ** 2))


def test_two_threads() -> None:
    product = product_sine("both")
    f = hesse.hessian(lambda x: np.sum(product(x, x * x)))
    expected = np.asarray(jax.hessian(lambda x: jnp.sum(jnp.sin(x) * x * x))(X))
    found: list[Any] = []
    start = threading.Barrier(4)

    def run() -> None:
        start.wait()
        found.extend(f(X) for _ in range(5))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    for result in found:
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rules", RULES)
def test_memory_is_freed(rules: str) -> None:
    class Data:
        pass

    def use() -> weakref.ref[Data]:
        data = Data()
        convolve = convolution(rules)

        @hesse.custom_derivative
        def sine(x: Any) -> Any:
            assert data is not None
            return np.sin(x)

        sine.defjvp(lambda p, t: np.cos(p[0]) * t[0])
        hesse.hessian(lambda x: np.sum(convolve(sine(x), x) ** 3))(X)
        hesse.hvp(lambda x: np.sum(convolve(sine(x), x) ** 3))(X, X)
        return weakref.ref(data)

    reference = use()
    gc.collect()
    assert reference() is None


def test_the_same_call_is_one_node() -> None:
    jv, x = bessel(), hesse.variable("x", (3,))
    assert jv(1, x).node is jv(1, x).node
    assert jv(1, x).node is not jv(2, x).node
    assert jv(1, x).node is not jv(1.0, x).node


def test_functions_of_one_name_are_not_mixed_up() -> None:
    functions = []
    for factor in (2.0, 3.0):
        custom = hesse.custom_derivative(lambda x, factor=factor: factor * x)
        custom.defjvp(lambda p, t, factor=factor: factor * t[0])
        functions.append(custom)
    first, second = functions
    found = hesse.jacobian(lambda x: first(x) * second(x) - second(x))(X)
    np.testing.assert_allclose(found, np.diag(12 * X - 3))


@pytest.mark.parametrize(
    "wrong", [np.sort, np.floor, lambda t: t[np.argsort(t)], lambda t: np.max(t) * np.ones(3)]
)
def test_rules_that_are_locally_linear_are_refused(wrong: Any) -> None:
    @hesse.custom_derivative
    def bent(x: Any) -> Any:
        return np.array(x)

    bent.defjvp(lambda primals, tangents: wrong(tangents[0]))
    with pytest.raises(hesse.DifferentiationError, match="not linear"):
        hesse.grad(lambda x: np.sum(bent(x)))(np.arange(3.0))
