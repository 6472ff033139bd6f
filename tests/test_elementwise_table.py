"""The element-wise table: values against SciPy, derivatives of orders 1 to 4 against nested JAX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
import pytest
import scipy.special

from hesse.backends.numpy.elementwise import FEW, kernel
from hesse.calculus import reverse
from hesse.errors import ShapeError
from hesse.ir import (
    Add,
    Constant,
    Einsum,
    Map,
    Node,
    Variable,
    constant,
    is_zero,
    multiply,
    topological,
    total,
    uniform,
    uniform_value,
    variable,
)
from hesse.ops.elementwise import BUILDERS, INDICATORS, function, power, where
from hesse.ops.registry import ELEMENTWISE, define, elementwise
from oracles import fast_jit

Interval = tuple[float, float]
COUNT = 5
HIGHEST_ORDER = 4


def _as_floats(compare: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: compare(*operands).astype(jnp.float64)


REFERENCES: dict[str, Callable[..., Any]] = {
    **{name: _as_floats(getattr(jnp, name)) for name in INDICATORS},
    # A branch of its own for every sign: the maximum inside jax.nn.celu takes seconds to differentiate.
    "celu": lambda x, alpha: jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x) / alpha)),
    "chosen": _as_floats(lambda condition: condition != 0),
    "clamp": jnp.clip,
    "ratio": jnp.divide,
    "digamma": jsp.digamma,
    "elu": jax.nn.elu,
    "erf": jsp.erf,
    "erfc": jsp.erfc,
    "erfcinv": lambda x: jsp.erfinv(1.0 - x),
    "erfinv": jsp.erfinv,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "hard_tanh": jax.nn.hard_tanh,
    "hypot": lambda a, b: jnp.sqrt(a * a + b * b),
    "leaky_relu": jax.nn.leaky_relu,
    "lgamma": jsp.gammaln,
    # JAX's own take minutes to differentiate four times.
    "log_ndtr": lambda x: jnp.log(0.5 * jsp.erfc(-x / math.sqrt(2.0))),
    "ndtr": lambda x: 0.5 * jsp.erfc(-x / math.sqrt(2.0)),
    "ndtri": lambda x: math.sqrt(2.0) * jsp.erfinv(2.0 * x - 1.0),
    "polygamma": lambda n, x: jsp.polygamma(n.astype(int), x),
    "relu": jax.nn.relu,
    "safe_reciprocal": jnp.reciprocal,
    "safe_sqrt": jnp.sqrt,
    "select": lambda condition, a: jnp.where(condition != 0, a, 0.0),
    "selu": jax.nn.selu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "softsign": jax.nn.soft_sign,
    "stop_gradient": jax.lax.stop_gradient,
    "where": lambda condition, a, b: jnp.where(condition != 0, a, b),
    "xlogy": jsp.xlogy,
}
BOTH_SIDES: list[Interval] = [(-2.0, -0.2), (0.2, 2.0)]
BUILDER_CASES: list[tuple[str, tuple[Interval, ...]]] = [
    *((name, ((-2.0, 2.0),)) for name in ("gelu", "gelu_tanh", "ndtr", "negative", "silu", "square")),
    ("erfcinv", ((0.1, 1.9),)),
    *((name, ((0.3, 2.5),)) for name in ("log10", "log2")),
    *((name, (side,)) for name in ("hard_tanh", "selu") for side in [(-3.0, -1.1), (-0.9, -0.2), (1.1, 3.0)]),
    *((name, (side, (0.5, 1.5))) for name in ("celu", "elu", "leaky_relu") for side in BOTH_SIDES),
]
FURTHER_CASES: list[tuple[str, tuple[Interval, ...]]] = [
    *((name, (BOTH_SIDES[0],)) for name in ("abs", "cbrt", "reciprocal", "relu", "sign", "softsign")),
    ("clip", ((-3.0, -2.5), (-2.0, -1.0), (1.0, 2.0))),
    ("clip", ((2.5, 3.0), (-2.0, -1.0), (1.0, 2.0))),
    ("clamp", ((-3.0, -2.5), (-2.0, -1.0), (1.0, 2.0))),
    ("clamp", ((2.5, 3.0), (-2.0, -1.0), (1.0, 2.0))),
    ("safe_reciprocal", (BOTH_SIDES[0],)),
    ("log_ndtr", ((-5.0, -3.0),)),
    ("polygamma", ((2.0, 2.0), (0.4, 4.0))),
    ("select", ((0.0, 0.0), (-2.0, 2.0))),
    ("where", ((0.0, 0.0), (-2.0, 2.0), (-2.0, 2.0))),
]
CASES = [(name, row.sample) for name, row in ELEMENTWISE.items()] + BUILDER_CASES + FURTHER_CASES


def reference(name: str) -> Callable[..., Any]:
    """The function of this name in JAX."""
    return REFERENCES.get(name) or getattr(jnp, name)  # type: ignore[no-any-return]


def points(sample: tuple[Interval, ...]) -> list[np.ndarray]:
    """Random operands inside the intervals."""
    generator = np.random.default_rng(7)
    return [generator.uniform(low, high, COUNT) for low, high in sample]


def evaluate(root: Node, **inputs: np.ndarray) -> np.ndarray:
    """Element-wise expressions by the kernels under test, with floating-point warnings as errors."""
    values: dict[Node, np.ndarray] = {}
    for node in topological([root]):
        operands = [values[operand] for operand in node.operands]
        match node:
            case Variable():
                values[node] = np.asarray(inputs[node.name])
            case Constant():
                values[node] = node.value
            case Add():
                values[node] = sum(operands, np.zeros(node.shape))
            case Map():
                values[node] = kernel(node.name)(*operands)
            case Einsum():
                arguments: list[Any] = [np.ones(node.ranges), list(range(len(node.ranges)))]
                for operand, axes in zip(operands, node.axes, strict=True):
                    arguments += [operand, [axis.label for axis in axes]]
                output = [axis.label for axis in node.output]
                values[node] = node.scale * np.einsum(*arguments, output)
    return values[root]


def derivatives(
    function_of_t: Callable[[Node], Node], at: np.ndarray, orders: int = HIGHEST_ORDER
) -> list[np.ndarray]:
    """The derivatives of orders 1, 2, … of an element-wise function."""
    t = variable("t", at.shape)
    node = function_of_t(t)
    results = []
    for _ in range(orders):
        (node,) = reverse(total(node, [0]), [t])
        results.append(evaluate(node, t=at))
    return results


def jax_derivatives(function_of_t: Callable[..., Any], *rows: np.ndarray) -> list[np.ndarray]:
    """The same by nested `jax.grad` at t = 0; further arguments are mapped over."""
    nested = [function_of_t]
    for _ in range(HIGHEST_ORDER):
        nested.append(jax.grad(nested[-1]))
    mapped = fast_jit(jax.vmap(lambda *row: [derivative(0.0, *row) for derivative in nested[1:]]))
    return [np.asarray(derivative) for derivative in mapped(*rows)]


def slopes(name: str, arity: int) -> list[float]:
    """A direction in the space of operands, in which conditions and orders of `polygamma` stay."""
    fixed = 1 if name in ("select", "where", "polygamma") else 0
    return [0.0] * fixed + [1.0, -0.7, 0.4][: arity - fixed]


NAMES = """
abs sign exp exp2 expm1 log log2 log10 log1p sqrt cbrt reciprocal power sin cos tan arcsin arccos arctan
arctan2 sinh cosh tanh arcsinh arccosh arctanh erf erfc lgamma digamma polygamma sigmoid softplus relu
leaky_relu elu selu celu gelu gelu_tanh silu softsign hard_tanh maximum minimum clip where greater
greater_equal less less_equal equal not_equal logical_and logical_or logical_not xlogy logaddexp floor
ceil round trunc hypot stop_gradient square negative isfinite isinf isnan erfinv erfcinv ndtr ndtri log_ndtr
clamp safe_sqrt safe_reciprocal floor_divide fmod ratio remainder
chosen select
"""


def test_the_table_is_complete() -> None:
    names = set(NAMES.split())
    assert names == set(ELEMENTWISE) | set(BUILDERS)
    assert {name for name, _ in CASES} == names
    assert set(ELEMENTWISE) >= INDICATORS


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_rows_are_well_formed(name: str) -> None:
    row = ELEMENTWISE[name]
    assert len(row.sample) == row.arity
    assert row.latex.count("{}") >= row.arity
    printed = row.latex.format(*"ABC"[: row.arity])
    assert all(letter in printed for letter in "ABC"[: row.arity])
    assert printed.count("{") == printed.count("}")


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_values(name: str, sample: tuple[Interval, ...]) -> None:
    operands = points(sample)
    found = evaluate(function(name)(*map(constant, operands)))
    np.testing.assert_allclose(found, reference(name)(*operands), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_derivatives(name: str, sample: tuple[Interval, ...]) -> None:
    rows, direction = points(sample), slopes(name, len(sample))

    def along(t: Node) -> Node:
        return function(name)(
            *(constant(row) + t * slope for row, slope in zip(rows, direction, strict=True))
        )

    def along_in_jax(t: Any, *row: Any) -> Any:
        return reference(name)(*(entry + t * slope for entry, slope in zip(row, direction, strict=True)))

    found = derivatives(along, np.zeros(COUNT))
    for order, expected in enumerate(jax_derivatives(along_in_jax, *rows)):
        np.testing.assert_allclose(found[order], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, row in ELEMENTWISE.items() if row.value is not None])
def test_uniform_operands_fold_to_the_value_of_the_kernel(name: str) -> None:
    values = [entry[0] for entry in points(ELEMENTWISE[name].sample)]
    node = elementwise(name, *(uniform(value, (3,)) for value in values))
    folded = 0.0 if is_zero(node) else uniform_value(node)
    assert folded == pytest.approx(float(kernel(name)(*map(np.float64, values))), rel=1e-14)


@pytest.mark.parametrize("name", ["log", "reciprocal", "arccosh"])
def test_values_outside_the_domain_do_not_fold(name: str) -> None:
    assert isinstance(elementwise(name, uniform(0.0, (3,))), Map)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_kernels_keep_single_precision(name: str) -> None:
    for shape in [(COUNT,), ()]:
        operands = [
            row[: math.prod(shape)].astype(np.float32).reshape(shape)
            for row in points(ELEMENTWISE[name].sample)
        ]
        result = kernel(name)(*operands)
        assert result.dtype == np.float32
        assert result.shape == shape
        np.testing.assert_allclose(result, reference(name)(*map(np.float64, operands)), rtol=1e-5)


@pytest.mark.parametrize("name", sorted(INDICATORS))
def test_conditions_are_zeros_and_ones(name: str) -> None:
    operands = [np.array([0.0, 1.0, 0.0, 2.0, 1.0, np.nan]), np.array([0.0, 1.0, 1.0, 1.0, 0.0, 1.0])]
    operands = operands[: ELEMENTWISE[name].arity]
    np.testing.assert_array_equal(kernel(name)(*operands), getattr(np, name)(*operands).astype(float))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sigmoid", "softplus"])
def test_long_arrays_agree_with_short_ones(name: str, dtype: type) -> None:
    """They are computed in another way."""
    at = np.linspace(-120.0, 120.0, 5 * FEW, dtype=dtype)
    pieces = [kernel(name)(piece) for piece in np.split(at, 10)]
    found = kernel(name)(at)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.concatenate(pieces), rtol=1e-6 if dtype == np.float32 else 1e-15 * 4)


KINKS: list[tuple[str, tuple[float, ...], tuple[float, ...]]] = [
    ("relu", (0.0,), (0.0,)),
    ("abs", (0.0,), (0.0,)),
    ("softsign", (0.0,), (1.0,)),
    ("leaky_relu", (0.0, 0.1), (1.0, 0.0)),
    ("elu", (0.0, 2.0), (2.0, 0.0)),
    ("maximum", (1.5, 1.5), (0.5, 0.5)),
    ("minimum", (1.5, 1.5), (0.5, 0.5)),
    ("clip", (-1.0, -1.0, 1.0), (0.5, 0.5, 0.0)),
    ("clip", (1.0, -1.0, 1.0), (0.5, 0.0, 0.5)),
    ("clip", (0.0, 1.0, -1.0), (0.0, 0.0, 1.0)),
    ("clamp", (-1.0, -1.0, 1.0), (1.0, 0.0, 0.0)),
    ("clamp", (1.0, -1.0, 1.0), (1.0, 0.0, 0.0)),
    ("clamp", (0.0, 1.0, -1.0), (0.0, 0.0, 1.0)),
    ("safe_sqrt", (0.0,), (0.0,)),
    ("safe_reciprocal", (0.0,), (0.0,)),
    ("xlogy", (0.0, 2.0), (math.log(2.0), 0.0)),
    ("logaddexp", (math.inf, 1.0), (1.0, 0.0)),
    ("logaddexp", (1.0, -math.inf), (1.0, 0.0)),
    ("power", (0.0, 0.0), (0.0, 0.0)),
    ("power", (0.0, 1.0), (1.0, 0.0)),
    ("power", (0.0, 2.0), (0.0, 0.0)),
    ("power", (2.0, 0.0), (0.0, math.log(2.0))),
]


@pytest.mark.parametrize(("name", "at", "expected"), KINKS)
def test_derivatives_at_kinks(name: str, at: tuple[float, ...], expected: tuple[float, ...]) -> None:
    operands = [variable(f"x{k}", (2,)) for k in range(len(at))]
    gradients = reverse(total(function(name)(*operands), [0]), operands)
    inputs = {f"x{k}": np.full(2, value) for k, value in enumerate(at)}
    for gradient, value in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(evaluate(gradient, **inputs), np.full(2, value), rtol=1e-15)


def test_mixed_derivatives_where_a_factor_vanishes() -> None:
    for name, at, expected in [("power", (2.0, 0.0), 0.5), ("xlogy", (0.0, 2.0), 0.5)]:
        x, z = variable("x", (2,)), variable("z", (2,))
        (first,) = reverse(total(function(name)(x, z), [0]), [z])
        (mixed,) = reverse(total(first, [0]), [x])
        np.testing.assert_allclose(evaluate(mixed, x=np.full(2, at[0]), z=np.full(2, at[1])), expected)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5, 7])
def test_integer_powers_are_exact_at_zero(exponent: int) -> None:
    at = np.array([0.0, -1.5, 2.0])
    expected = np.polynomial.Polynomial([0.0] * exponent + [1.0])
    for derivative in derivatives(lambda t: power(t, exponent), at, orders=8):
        expected = expected.deriv()
        np.testing.assert_allclose(derivative, expected(at), rtol=1e-14, atol=0)


def test_constant_powers_fold() -> None:
    x = variable("x", (3,))
    assert uniform_value(power(x, 0)) == 1.0
    assert power(x, uniform(0.0, (3,))) is power(x, 0.0)
    assert power(x, 1) is x
    assert power(x, uniform(2.0, (3,))) is x * x
    assert power(x, 3) is multiply(x, x, x)
    assert power(x, -1) is elementwise("reciprocal", x)
    assert power(x, 0.5) is elementwise("sqrt", x)
    assert power(x, -0.5) is elementwise("reciprocal", elementwise("sqrt", x))
    assert power(x, 1.5) is elementwise("power", x, 1.5)


@pytest.mark.parametrize("exponent", [-3.0, -2.0, -1.0, -0.5, 0.5, 1.5, 2.5, 6.0])
def test_constant_powers(exponent: float) -> None:
    at = np.array([0.4, 1.0, 2.3])
    for order, found in enumerate(derivatives(lambda t: power(t, exponent), at), start=1):
        factor = math.prod(exponent - k for k in range(order))
        np.testing.assert_allclose(found, factor * at ** (exponent - order), rtol=1e-14)


def test_constant_arrays_of_exponents() -> None:
    exponents = np.array([2.0, -1.0, 0.5])
    first, second, *_ = derivatives(lambda t: power(t, constant(exponents)), np.full(3, 1.7))
    np.testing.assert_allclose(first, exponents * 1.7 ** (exponents - 1))
    np.testing.assert_allclose(second, exponents * (exponents - 1) * 1.7 ** (exponents - 2))


LARGE = np.array([-1e4, -800.0, -90.0, 90.0, 800.0, 1e4])
SATURATING = """
sigmoid softplus tanh relu erf erfc gelu gelu_tanh silu selu elu celu leaky_relu softsign arctan
"""


@pytest.mark.parametrize("name", SATURATING.split())
def test_no_overflow_at_large_arguments(name: str) -> None:
    assert np.isfinite(evaluate(function(name)(*_defaults(name, constant(LARGE))))).all()
    for derivative in derivatives(lambda t: function(name)(*_defaults(name, t)), LARGE):
        assert np.isfinite(derivative).all()


def _defaults(name: str, x: Node) -> tuple[Any, ...]:
    return (x, 0.5) if name in ("elu", "celu", "leaky_relu") else (x,)


def test_tails_are_accurate() -> None:
    at = np.array([-40.0, 40.0])
    tail = np.exp(-40.0)
    first, second, *_ = derivatives(function("sigmoid"), at)
    np.testing.assert_allclose(first, tail, rtol=1e-14)
    np.testing.assert_allclose(second, [tail, -tail], rtol=1e-14)
    _, second, third, _ = derivatives(function("softplus"), at)
    np.testing.assert_allclose(second, tail, rtol=1e-14)
    np.testing.assert_allclose(third, [tail, -tail], rtol=1e-14)
    left = evaluate(function("gelu")(constant(np.array([-20.0, -10.0]))))
    np.testing.assert_allclose(left, scipy.special.ndtr([-20.0, -10.0]) * [-20.0, -10.0], rtol=1e-13)
    first, second, *_ = derivatives(function("softsign"), np.array([-1e9, 1e9]))
    np.testing.assert_allclose(first, (1 + 1e9) ** -2.0, rtol=1e-14)
    np.testing.assert_allclose(second, np.array([2, -2]) * (1 + 1e9) ** -3.0, rtol=1e-14)


def test_xlogy_of_equal_operands_is_finite_where_its_limit_is() -> None:
    (first,) = derivatives(lambda t: elementwise("xlogy", t, t), np.array([0.5, 2.0]), orders=1)
    np.testing.assert_allclose(first, np.log([0.5, 2.0]) + 1.0)
    t = variable("t", (2,))
    assert reverse(total(elementwise("xlogy", t, t), [0]), [t]) == [elementwise("log", t) + 1.0]
    x, z = variable("x", (2,)), variable("z", (2,))
    by_second = reverse(total(elementwise("xlogy", x, z), [0]), [z])[0]
    np.testing.assert_array_equal(evaluate(by_second, x=np.zeros(2), z=np.array([0.0, 2.0])), 0.0)
    np.testing.assert_array_equal(
        kernel("xlogy")(np.zeros(3), np.array([0.0, -1.0, np.nan])), [0.0, 0.0, np.nan]
    )


def test_where_takes_any_number_as_a_condition() -> None:
    a, b = variable("a", (3,)), variable("b", (3,))
    for values in ([2.0, 0.0, -1.0], [1.0, 0.0, 1.0]):
        node = where(constant(np.array(values)), a, b)
        by_a, by_b = (evaluate(gradient) for gradient in reverse(total(node, [0]), [a, b]))
        np.testing.assert_array_equal(by_a, [1.0, 0.0, 1.0])
        np.testing.assert_array_equal(by_b, [0.0, 1.0, 0.0])


def test_where_with_a_constant_condition_is_its_branch() -> None:
    a, b = variable("a", (3,)), variable("b", (3,))
    assert where(uniform(1.0, (3,)), a, b) is a
    assert where(uniform(0.0, (3,)), a, b) is b
    assert where(uniform(0.0, (3,)), a, 2.0) is uniform(2.0, (3,))


def test_symbolic_sizes() -> None:
    x = variable("x", ("n",))
    for name in ("gelu", "elu", "relu", "softsign", "log2"):
        assert function(name)(x).shape == ("n",)


def test_errors() -> None:
    x = variable("x", (3,))
    with pytest.raises(ShapeError, match="maximum takes 2 operands, not 1"):
        elementwise("maximum", x)
    with pytest.raises(ShapeError, match="maximum needs operands of one shape"):
        elementwise("maximum", uniform(1.0, (3,)), uniform(1.0, (2,)))
    with pytest.raises(ValueError, match="the operation exp is registered twice"):
        define("exp", lambda y, x: y)
