"""Integers that are computed with and then index: values against NumPy, derivatives against JAX.

Each case runs in all three libraries, and each compiled derivative a second time with other integers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.errors import ArgumentError, ShapeError, TracingError
from hesse.frontends import Expression
from hesse.ir import Apply, topological
from libraries import JAX, NUMPY, TORCH, Library, over_libraries, plain
from oracles import assert_close, evaluate_jax

TABLE = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5], [3.0, -2.0, 1.0]])
EDGES = np.array([-1.0, -0.2, 0.3, 0.9])
SEGMENTS = np.array([2, 0, 2, 1, 0])
ORDER = np.array([3, 1, 4, 0, 2])


class Case(NamedTuple):
    """A function of an array library, of an array of numbers and of integers; two choices of the integers."""

    name: str
    function: Callable[..., Any]
    shape: tuple[int, ...]
    first: tuple[Any, ...]
    second: tuple[Any, ...]


def entries(xp: Any, array: np.ndarray, i: Any) -> Any:
    """A known array at traced positions."""
    return hesse.constant(array)[i] if isinstance(i, Expression) else xp.asarray(array)[i]


def interpolated(xp: Any, table: Any, t: Any) -> Any:
    """Between the entries of a table, at a real position."""
    whole = xp.floor(t)
    k, rest = whole.astype(int), t - whole
    return table[k] * (1 - rest) + table[k + 1] * rest


def ints(*values: Any) -> np.ndarray:
    return np.array(values)


def case(name: str, function: Callable[..., Any], shape: tuple[int, ...], *choices: tuple[Any, ...]) -> Case:
    first, second = choices if choices else ((), ())
    return Case(name, function, shape, tuple(map(np.asarray, first)), tuple(map(np.asarray, second)))


LABELS, OTHERS, STEPS = ints(2, 0, 1, 1), ints(-1, 1, 0, -3), ints(1, 2, 3, 0)
ONE, TWO = (LABELS,), (OTHERS,)
CASES = [
    case("i + 1", lambda xp, x, i: x[i + 1], (5,), ONE, TWO),
    case("1 + i", lambda xp, x, i: x[1 + i], (5, 2), ONE, TWO),
    case("i - 1", lambda xp, x, i: x[i - 1], (5,), ONE, TWO),
    case("3 - i", lambda xp, x, i: x[3 - i], (7,), ONE, TWO),
    case("-i", lambda xp, x, i: x[-i], (5,), ONE, TWO),
    case("2 * i", lambda xp, x, i: x[2 * i], (7,), ONE, TWO),
    case("i * 2 + 1", lambda xp, x, i: x[i * 2 + 1], (7, 2), ONE, TWO),
    case("i * i", lambda xp, x, i: x[i * i], (10,), ONE, TWO),
    case("square", lambda xp, x, i: x[xp.square(i)], (10,), ONE, TWO),
    case("i ** 2", lambda xp, x, i: x[i**2], (10,), ONE, TWO),
    case("i * j", lambda xp, x, i, j: x[i * j], (10,), (LABELS, STEPS), (OTHERS, STEPS[::-1])),
    case("i + j", lambda xp, x, i, j: x[i + j], (7,), (LABELS, STEPS), (OTHERS, STEPS[::-1])),
    case("i // k", lambda xp, x, i: x[i // 2], (5,), ONE, TWO),
    case("i // -k", lambda xp, x, i: x[i // -2], (5,), ONE, TWO),
    case("i % n", lambda xp, x, i: x[(i + 7) % 5], (5,), ONE, TWO),
    case("i % -n", lambda xp, x, i: x[i % -5], (5,), ONE, TWO),
    case("divmod", lambda xp, x, i: x[xp.divmod(i + 4, 3)], (3, 3), ONE, TWO),
    case("abs", lambda xp, x, i: x[abs(i)], (5,), ONE, TWO),
    case("minimum", lambda xp, x, i: x[xp.minimum(i, 1)], (5,), ONE, TWO),
    case("maximum", lambda xp, x, i: x[xp.maximum(i, 0)], (5,), ONE, TWO),
    case("clip", lambda xp, x, i: x[xp.clip(i + 1, 0, 2)], (3,), ONE, TWO),
    case("clip above", lambda xp, x, i: x[xp.clip(i, None, 1)], (5,), ONE, TWO),
    case("where", lambda xp, x, i, j: x[xp.where(i > 0, i, j)], (5,), (LABELS, ints(4, 3, 2, 1)),
         (OTHERS, ints(0, 1, 2, 3))),
    case("where of numbers", lambda xp, x, i: x[xp.where(i > 0, 1, 4)], (5,), ONE, TWO),
    case("wrapped by hand", lambda xp, x, i: x[xp.where(i < 0, i + 5, i)], (5,), ONE, TWO),
    case("difference", lambda xp, x, i: x[i + 1] - x[i], (5,), ONE, TWO),
    case("second difference", lambda xp, x, i: x[i + 2] - 2 * x[i + 1] + x[i], (5,), ONE, TWO),
    case("last axis", lambda xp, x, i: x[..., i - 1], (2, 4), ONE, TWO),
    case("two indices", lambda xp, x, i, j: x[i, j + 1], (3, 4), (LABELS, ints(1, 2, 0, 0)),
         (OTHERS, ints(-1, -2, 2, 1))),
    case("outer indices", lambda xp, x, i: x[i[:, None], i + 1], (4, 4), ONE, TWO),
    case("beside a known index", lambda xp, x, i: x[np.arange(4), i + 1], (4, 4), ONE, TWO),
    case("beside a number", lambda xp, x, i: x[1, i + 1], (4, 4), ONE, TWO),
    case("single number", lambda xp, x, i: x[i + 1], (4, 2), (ints(1)[0],), (ints(-2)[0],)),
    case("window", lambda xp, x, i: xp.take(x, i + np.arange(3)), (7,), (ints(2)[0],), (ints(0)[0],)),
    case("window of rows", lambda xp, x, i: xp.take(x, i + np.arange(2), axis=1), (2, 5), (ints(2)[0],),
         (ints(-2)[0],)),
    case("windows", lambda xp, x, i: x[i[:, None] + np.arange(3)], (7,), ONE, TWO),
    case("take wrapped", lambda xp, x, i: xp.take(x, 3 * i, mode="wrap"), (4,), ONE, TWO),
    case("take clipped", lambda xp, x, i: xp.take(x, 3 * i, mode="clip"), (4,), ONE, TWO),
    case("take_along_axis", lambda xp, x, i: xp.take_along_axis(x, (i + 1)[:, None], 1), (4, 4), ONE, TWO),
    case("part of a sum", lambda xp, x, i: x[(i + 1)[1:3]], (5,), ONE, TWO),
    case("reversed and shifted", lambda xp, x, i: x[i[::-1] + 1], (5,), ONE, TWO),
    case("summed", lambda xp, x, i: x[xp.sum(i.reshape(2, 2), axis=1)], (5,), ONE, TWO),
    case("summed in order", lambda xp, x, i: x[xp.cumsum(i)], (6,), ONE, TWO),
    case("counted in order", lambda xp, x, i: x[xp.cumsum(x > 0.1) - 1], (5,), ONE, TWO),
    case("reshaped", lambda xp, x, i: x[(i + 1).reshape(2, 2)], (5,), ONE, TWO),
    case("concatenated", lambda xp, x, i: x[xp.concatenate([i, i + 1])], (5,), ONE, TWO),
    case("stacked", lambda xp, x, i: x[xp.stack([i, 1 - i], axis=1)], (5,), ONE, TWO),
    case("composed", lambda xp, x, i, j: x[j[i]], (6,), (LABELS, ORDER), (OTHERS, ORDER[::-1])),
    case("composed with a known order", lambda xp, x, i: x[entries(xp, ORDER, i)], (6,), ONE, TWO),
    case("diag", lambda xp, x, i: x[xp.diag(i)], (5,), ONE, TWO),
    case("tril", lambda xp, x, i: x[xp.tril(i)], (5,), (ints([1, 2], [3, 4]),), (ints([4, 3], [-2, -1]),)),
    case("one-hot", lambda xp, x, i: x * (i[:, None] == np.arange(3)), (4, 3), ONE, (ints(1, 1, 0, 2),)),
    case("one-hot product", lambda xp, x, i: (i[:, None] == np.arange(3)).T @ x, (4, 2), ONE,
         (ints(1, 1, 0, 2),)),
    case("rows of eye", lambda xp, x, i: x * entries(xp, np.eye(3), i), (4, 3), ONE, TWO),
    case("rows of a table", lambda xp, x, i: x * entries(xp, TABLE, (i + 1) % 3), (4, 3), ONE, TWO),
    case("mask as an index", lambda xp, x, i: x[(i > 0).astype(int)], (2, 3), ONE, TWO),
    case("count as an index", lambda xp, x, i: x[(i > 0).sum()], (5, 3), ONE, TWO),
    case("mask added", lambda xp, x, i: x[i + (i < 1)], (5,), ONE, TWO),
    case("as a number", lambda xp, x, i: x * (i + 1) + x[i], (4,), ONE, TWO),
    case("quotient as a number", lambda xp, x, i: x * (i // 2), (4,), ONE, TWO),
    case("divided", lambda xp, x, i: x * ((i + 1) / 2), (4,), ONE, TWO),
    case("argmax + 1", lambda xp, x: x[(xp.argmax(x) + 1) % 5], (5,)),
    case("argmax as a number", lambda xp, x: x * xp.argmax(x), (5,)),
    case("one-hot of argmax", lambda xp, x: x * (xp.argmax(x, axis=1)[:, None] == np.arange(3)), (4, 3)),
    case("argsort as numbers", lambda xp, x: x * xp.argsort(x), (5,)),
    case("ranks", lambda xp, x: x[xp.argsort(xp.argsort(x))], (5,)),
    case("around the maximum", lambda xp, x: x[xp.clip(xp.argmax(x) + np.arange(-1, 2), 0, 4)], (5,)),
    case("comparison of positions", lambda xp, x: x * (xp.argmax(x) > xp.argmin(x)), (5,)),
    case("equal positions", lambda xp, x: x * (xp.argsort(x) == np.arange(5)), (5,)),
    case("interpolation", lambda xp, x, i: interpolated(xp, x, x[i] + 2.0), (6,), ONE, TWO),
    case("truncated", lambda xp, x, i: x[(1.4 * x[i]).astype(int)], (5,), ONE, TWO),
    case("searchsorted", lambda xp, x: x * entries(xp, TABLE[0], xp.searchsorted(EDGES[1:3], x)), (4,)),
    case("searchsorted on the right", lambda xp, x: x[xp.searchsorted(EDGES, x, side="right")], (5,)),
    case("searchsorted in traced values", lambda xp, x: x[xp.searchsorted(xp.sort(x), EDGES) - 1], (5,)),
    case("searchsorted of a number", lambda xp, x: x * x[xp.searchsorted(EDGES, x[0])], (5,)),
    case("digitize", lambda xp, x: x[xp.digitize(x, EDGES)], (5,)),
    case("digitize to the right", lambda xp, x: x[xp.digitize(x, EDGES, right=True)], (5,)),
    case("digitize by descending bins", lambda xp, x: x[xp.digitize(x, EDGES[::-1])], (5,)),
    case("digitize by traced bins", lambda xp, x: x[xp.digitize(EDGES, xp.sort(x)) - 1], (5,)),
    case("digitize by traced descending bins", lambda xp, x: x[xp.digitize(EDGES, -xp.sort(x)) - 1], (5,)),
    case("bincount", lambda xp, x, i: xp.bincount(i, x, minlength=4), (4,), ONE, (ints(3, 3, 0, 1),)),
    case("bincount of known integers", lambda xp, x: xp.bincount(SEGMENTS, x * x), (5,)),
    case("counts", lambda xp, x, i: x * xp.bincount(i + 1, minlength=4), (4,), ONE, (ints(1, 1, 0, -1),)),
]  # fmt: skip
by_name = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def loss(case: Case, xp: Any) -> Callable[..., Any]:
    """A number that depends on every entry of the result in its own way, and not linearly."""

    def of(x: Any, *indices: Any) -> Any:
        result = case.function(xp, x, *indices)
        weights = np.cos(np.arange(np.prod(np.shape(result)))).reshape(np.shape(result))
        return xp.sum(weights * result * result * result)

    return of


def point(case: Case) -> np.ndarray:
    return np.random.default_rng(len(case.name)).uniform(-1.5, 1.5, case.shape)


@functools.cache
def in_jax(name: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The gradient and the Hessian of a case for one of the choices."""
    (case,) = [case for case in CASES if case.name == name]
    indices = (case.first, case.second)[number]

    def reference(x: Any) -> Any:
        return loss(case, jnp)(x, *indices)

    def derivatives(x: Any) -> tuple[Any, Any]:
        return jax.grad(reference)(x), jax.hessian(reference)(x)

    try:
        return evaluate_jax(derivatives, point(case))
    except jax.errors.ConcretizationTypeError:  # bincount looks at the integers
        gradient, hessian = derivatives(point(case))
        return np.asarray(gradient), np.asarray(hessian)


@over_libraries
@by_name
def test_values_and_gradients(case: Case, library: Library) -> None:
    derivative = hesse.value_and_grad(loss(case, np))
    x = point(case)
    for number, indices in enumerate((case.first, case.second)):
        value, gradient = derivative(library.array(x), *map(library.array, indices))
        assert_close(plain(value), loss(case, np)(x, *indices))
        assert_close(plain(gradient), in_jax(case.name, number)[0])


@by_name
def test_hessians(case: Case) -> None:
    derivative = hesse.hessian(loss(case, np))
    x = point(case)
    for number, indices in enumerate((case.first, case.second)):
        assert_close(derivative(x, *indices), in_jax(case.name, number)[1])


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 40


@over_libraries
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_types_of_integers(library: Library, dtype: str) -> None:
    """Narrow integers do not overflow, and unsigned ones become negative; in JAX they begin again."""
    x = np.arange(300.0)
    gradient = hesse.grad(lambda x, i: np.sum(x[100 * i + 20 * i] * x[i - 3]))
    index = ints(1, 2, 0)
    expected = np.zeros(300)
    behind = (index - 3) % 256 if library is JAX and dtype == "uint8" else index - 3
    for a, b in zip(120 * index, behind, strict=True):
        expected[a] += x[b]
        expected[b] += x[a]
    np.testing.assert_array_equal(plain(gradient(library.array(x), library.array(index, dtype))), expected)


def test_integers_are_exact_in_single_precision() -> None:
    """2^24 + 1 is no float32."""
    large = 2**24
    function = hesse.grad(lambda x, i: np.sum(x[(i + large + 1) // 2 * 2 - large] ** 2))
    for library in (NUMPY, TORCH, JAX):
        x = library.array(np.arange(6.0), "float32")
        found = plain(function(x, library.array(ints(0, 1, 2))))
        assert found.dtype == np.float32
        expected = np.zeros(6)
        for i in range(3):
            place = (i + large + 1) // 2 * 2 - large
            expected[place] += 2.0 * place
        np.testing.assert_array_equal(found, expected)


def test_comparisons_of_positions_are_exact_in_single_precision() -> None:
    """Positions beyond 2^24 that differ by one are different."""
    large = 2**24
    function = hesse.grad(lambda x: np.sum(x * (np.argmax(x) + large == np.argsort(x) + large + 1)))
    x = np.array([0.3, 2.0, -1.0], np.float32)
    np.testing.assert_array_equal(function(x), (np.argmax(x) == np.argsort(x) + 1).astype(float))
    function = hesse.grad(lambda x, i, j: np.sum(x * (i == j) + x * (i < j)))
    i, j = ints(large, large, large + 2), ints(large + 1, large, large + 1)
    np.testing.assert_array_equal(function(x, i, j), [1.0, 1.0, 0.0])


def test_positions_have_no_derivative() -> None:
    """The result of argmax is a step function: the derivative is 0 where it has one."""
    gradient = hesse.grad(lambda x: np.argmax(x) * 1.0)
    np.testing.assert_array_equal(gradient(np.array([1.0, 3.0, 2.0])), np.zeros(3))
    value, zeros = hesse.value_and_grad(lambda x: np.argmax(x) * 1.0)(np.array([1.0, 3.0, 2.0]))
    assert value == 1
    np.testing.assert_array_equal(zeros, np.zeros(3))
    with pytest.raises(TracingError, match="made of whole numbers, which have no derivatives"):
        hesse.grad(np.argmax)(np.array([1.0, 3.0, 2.0]))


@over_libraries
def test_positions_outside(library: Library) -> None:
    """NumPy names the index; PyTorch raises; JAX reads the entry that is nearest."""
    x, rows = library.array(np.arange(4.0) + 1.0), library.array(np.ones((2, 3)))
    first = hesse.value_and_grad(lambda x, i: np.sum(x[i + 2]))
    second = hesse.value_and_grad(lambda x, i: np.sum(x[np.arange(2), i + 2]))
    for index in (ints(0, 2), ints(0, -7)):
        given = library.array(index)
        if library is JAX:
            assert plain(first(x, given)[0]) == jnp.sum(x[given + 2])
            assert plain(second(rows, given)[0]) == jnp.sum(rows[jnp.arange(2), given + 2])
            continue
        wanted = f"index {index[1] + 2} is out of bounds" if library is NUMPY else "out of"
        with pytest.raises((IndexError, RuntimeError), match=wanted):
            first(x, given)
        with pytest.raises((IndexError, RuntimeError), match=wanted):
            second(rows, given)


def test_entries_outside_of_their_row_are_not_read_from_another() -> None:
    gradient = hesse.grad(lambda x, i: np.sum(np.take_along_axis(x, i, 1)))
    with pytest.raises(IndexError, match="index 3 is out of bounds for an axis of size 3"):
        gradient(np.ones((2, 3)), ints([0, 3], [1, 2]))
    with pytest.raises(IndexError, match="index -4 is out of bounds for an axis of size 3"):
        gradient(np.ones((2, 3)), ints([0, -4], [1, 2]))


def test_negative_counts_are_outside() -> None:
    gradient = hesse.grad(lambda x, i: np.sum(np.bincount(i, x, minlength=3) ** 2))
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        gradient(np.ones(2), ints(0, -1))
    with pytest.raises(ArgumentError, match="must not be negative"):
        hesse.grad(lambda x: np.sum(np.bincount(ints(0, -1), x)))(np.ones(2))


def test_known_integers_are_computed_at_once() -> None:
    """What is known when the function is traced leaves no operation behind."""
    i = hesse.constant(ints(2, 0))
    x = hesse.variable("x", (5,))
    names = [node.name for node in topological([x[(i + 1) * 2 % 5].node]) if isinstance(node, Apply)]
    assert set(names) <= {"gather"}


def raised(function: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises((TracingError, ShapeError, ArgumentError)) as caught:
        hesse.grad(function)(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, i: np.sum(x[np.argmin(x) : np.argmin(x) + 3]), "x[i + np.arange(n)]"),
        (lambda x, i: np.sum(x[x[i]]), "np.floor(t).astype(int)"),
        (lambda x, i: np.sum(np.bincount(i, x[:3])), "np.bincount(i, weights, minlength=n)"),
        (
            lambda x, i: np.sum(np.bincount(i, x, minlength=5)),
            "weights of shape (5,) for integers of shape (3,)",
        ),
        (lambda x, i: np.sum(np.bincount(x, x)), "bincount needs integers along one axis"),
        (lambda x, i: np.add.at(np.zeros(5), i, x[:3]), "np.zeros_like(x) or hesse.zeros(3)"),
        (lambda x, i: np.sum(x[np.stack([np.argsort(x)] * 2)[i[0], i]]), "Index it along its only axis"),
        (lambda x, i: np.sum(x[np.digitize(x, [0.0, 2.0, 1.0])]), "the bins must ascend or descend"),
        (lambda x, i: np.sum(x[np.digitize(x, 1.0)]), "digitize needs a sequence of bins"),
        (lambda x, i: np.sum(x[np.searchsorted(x[:, None], 1.0)]), "a sequence of one axis"),
        (
            lambda x, i: np.sum(x[np.searchsorted(x, 1.0, side="both")]),
            "side is 'left' or 'right', not 'both'",
        ),
    ],
)
def test_what_is_refused_says_what_to_write(function: Callable[..., Any], message: str) -> None:
    assert message in raised(function, np.arange(5.0), ints(0, 1, 2))
