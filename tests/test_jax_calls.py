"""What stays whole in JAX functions, what a user's function of the same name does, and rare ways to write."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive

import hesse
from hesse.frontends.jaxpr.library import same_function
from hesse.ir import Apply, topological
from oracles import assert_close, fast_jit

A = jnp.array([[3.0, 0.4, -0.2], [0.1, 2.5, 0.3], [-0.6, 0.2, 4.0]])
B = jnp.array([0.5, -1.0, 2.0])
X = jnp.arange(12.0).reshape(4, 3) / 5 - 1


def operations(function: Any, *arguments: Any) -> set[str]:
    """The names of the operations of a compiled function."""
    roots = hesse.compile(function).explain(*arguments).roots
    return {node.name for node in topological(roots) if isinstance(node, Apply)}


WHOLE = {
    "inverse": (jnp.linalg.inv, {"inverse"}),
    "determinant": (jnp.linalg.det, {"determinant"}),
    "slogdet": (lambda a: jnp.linalg.slogdet(a)[1], {"log_determinant"}),
    "cholesky": (jnp.linalg.cholesky, {"cholesky"}),
    "expm": (jax.scipy.linalg.expm, {"expm_chain"}),
    "solve": (lambda a: jnp.linalg.solve(a, B), {"solve"}),
    "inverses of a batch": (jax.vmap(jnp.linalg.inv), {"inverse"}),
    "softmax": (jax.nn.softmax, {"softmax"}),
    "logsumexp": (jax.nn.logsumexp, {"logsumexp"}),
    "log_softmax": (jax.nn.log_softmax, {"log_softmax"}),
}


@pytest.mark.parametrize("name", WHOLE)
def test_library_functions_stay_whole(name: str) -> None:
    """In every shape and dtype."""
    function, expected = WHOLE[name]
    smaller = A if name == "solve" else A[:2, :2]
    for matrix in (A, smaller, A.astype(jnp.float32)):
        argument = jnp.stack([matrix, matrix]) if "batch" in name else matrix
        assert operations(function, argument) == expected
        tolerance = 1e-9 if argument.dtype == jnp.float64 else 1e-5
        reference = fast_jit(function)
        assert_close(hesse.compile(function)(argument), reference(argument), name, tolerance)


@jax.jit
def inv(a: Any) -> Any:
    """A function with the name of another one."""
    return 2.0 * a


def test_a_function_of_a_user_with_the_same_name() -> None:
    assert_close(hesse.compile(inv)(A), 2.0 * A)
    assert_close(hesse.jacobian(lambda a: inv(a) ** 2)(A), jax.jacfwd(lambda a: inv(a) ** 2)(A))


def test_functions_are_compared_with_their_constants() -> None:
    avals = (jax.ShapeDtypeStruct((3,), jnp.float64),)
    first, second = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0])
    assert same_function(lambda x: x * first, lambda x: x * first.copy(), avals)
    assert not same_function(lambda x: x * first, lambda x: x * second, avals)
    assert not same_function(jax.jit(lambda x: x * first), jax.jit(lambda x: x * second), avals)
    assert not same_function(jnp.sin, lambda x, y: x + y, avals)


def test_rules_are_compared() -> None:
    """Two functions with one formula and different rules are two functions."""

    def with_slope(slope: float) -> Any:
        @jax.custom_jvp
        def function(x: Any) -> Any:
            return jnp.sin(x)

        @function.defjvp
        def rule(primals: Any, tangents: Any) -> Any:
            return jnp.sin(primals[0]), slope * tangents[0]

        return function

    avals = (jax.ShapeDtypeStruct((3,), jnp.float64),)
    assert same_function(with_slope(1.0), with_slope(1.0), avals)
    assert not same_function(with_slope(1.0), with_slope(2.0), avals)


def test_systems_that_are_solved_by_a_method() -> None:
    """The derivative is that of the solution, however it was found."""

    def function(a: Any) -> Any:
        matrix = a @ a.T
        return jax.scipy.sparse.linalg.cg(lambda v: matrix @ v, B, tol=1e-14)[0]

    assert_close(hesse.jacobian(function)(A), jax.jacfwd(lambda a: jnp.linalg.solve(a @ a.T, B))(A))


ROWS = np.array([1, 3, 1])
EXTREME = {
    "smallest": (lambda x: x.at[ROWS].min(x[:3]), jnp.minimum),
    "largest": (lambda x: x.at[ROWS].max(x[:3]), jnp.maximum),
    "product": (lambda x: x.at[ROWS].multiply(x[:3]), jnp.multiply),
}


@pytest.mark.parametrize("name", EXTREME)
def test_places_that_are_written_twice(name: str) -> None:
    """JAX itself has no derivative of these."""
    function, combine = EXTREME[name]

    def by_hand(x: Any) -> Any:
        new = [combine(combine(x[1], x[0]), x[2]), combine(x[3], x[1])]
        return jnp.stack([x[0], new[0], x[2], new[1]])

    x = X + 0.1 * jnp.sin(7 * X)
    assert_close(hesse.compile(function)(x), function(x))
    for order in (1, 2):
        expected = by_hand
        for _ in range(order):
            expected = jax.jacfwd(expected)
        assert_close(hesse.derivative(function, order)(x), expected(x), name)


def test_places_outside_are_not_a_number() -> None:
    places = jnp.array([1, 7])
    found = hesse.compile(lambda x, i: jnp.take(x, i, axis=0))(X, places)
    np.testing.assert_array_equal(found, jnp.take(X, places, axis=0))
    assert np.isnan(found[1]).all()


def test_whole_numbers_stay_whole() -> None:
    """Quotients and remainders of sums of integers have no fractions."""
    i = jnp.array([1, 2, 4])
    function = lambda x, i: x[:3, 0] * (jnp.sum(i) // 2) + x[jnp.max(i) // 2, 0] * (jnp.prod(i) % 5)  # noqa: E731
    assert_close(hesse.compile(function)(X, i), function(X, i))
    assert_close(hesse.jacobian(function)(X, i), jax.jacfwd(function)(X, i))


def test_numbers_that_only_jax_converts() -> None:
    """What shows that a function is one of JAX may be a conversion, deep inside of it."""

    def descent(rate: Any) -> Any:
        p = jnp.ones(2)
        for _ in range(3):
            p = jnp.asarray(p - rate * hesse.grad(lambda p: jnp.sum((p - 2.0) ** 4))(p)).astype(jnp.float64)
        return jnp.sum(p)

    def by_hand(rate: Any) -> Any:
        p = jnp.ones(2)
        for _ in range(3):
            p = p - rate * 4.0 * (p - 2.0) ** 3
        return jnp.sum(p)

    np.testing.assert_allclose(hesse.grad(descent)(0.01), jax.grad(by_hand)(0.01), rtol=1e-6)
    np.testing.assert_allclose(hesse.hessian(descent)(0.01), jax.hessian(by_hand)(0.01), rtol=1e-5)


def test_primitives_of_other_libraries_get_arrays_of_jax() -> None:
    """Where their operands are known, too: they may use methods that NumPy's arrays lack."""
    primitive = Primitive("first_doubled")
    primitive.def_impl(lambda x: x.at[0].multiply(2.0))
    primitive.def_abstract_eval(lambda x: x)

    def f(x: Any) -> Any:
        return jnp.sum(x**2 * primitive.bind(jnp.arange(1.0, 4.0)))

    np.testing.assert_allclose(hesse.grad(f)(jnp.ones(3)), [4.0, 4.0, 6.0])
