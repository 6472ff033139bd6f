"""Programs whose large intermediates are computed some rows at a time compute what they did before."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import hesse
from hesse import plan
from hesse.backends.numpy import (
    NUMPY_MACHINE,
    NumpyMachine,
    NumpyProgram,
    NumpyTarget,
    compile_program,
    make_plan,
)
from hesse.backends.numpy.runtime import in_slices
from hesse.calculus import differentiate
from hesse.frontends.expression import Expression
from hesse.ir import Node, variable
from hesse.ops.normalization import softmax
from hesse.plan import Program
from hesse.plan.slices import sliced
from hesse.rewrite import simplify
from oracles import assert_close
from test_random_graphs import Picker, Term, draw_einsum, draw_sum, draw_view, mapped, tamed

DTYPE = np.dtype(float)


EVERYTHING_SLICED = NumpyMachine(
    narrow_dot=1,
    least_saved=1,
    small_instruction=0,
    slice_entries=4,
    fewest_rows=1,
    smallest_slice=0,
    many_slices=1,
    product_rows=1,
)
"""Slices of one or two rows, however small the tensors are."""


def values(program: Program, names: Sequence[str], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a program, with inputs that must not be written to."""
    arrays = [np.array(array) for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    runnable = program if isinstance(program, NumpyProgram) else NumpyProgram.of(program)
    return list(compile_program(runnable, names, DTYPE).function(*arrays))


def plain_plan(roots: Sequence[Node]) -> Program:
    """The program without slices."""
    return plan.make_plan(roots, NUMPY_MACHINE)


def assert_same(roots: Sequence[Node], names: Sequence[str], arrays: Sequence[np.ndarray]) -> bool:
    """Compare a program with its slices; whether there were any."""
    straight = plain_plan(roots)
    cut = sliced(straight, EVERYTHING_SLICED, NumpyProgram)
    for expected, found in zip(values(straight, names, arrays), values(cut, names, arrays), strict=True):
        assert found.shape == expected.shape
        assert_close(found, expected)
    return cut.slices is not None


def normalised(pick: Picker, pool: Sequence[Term]) -> Term:
    """A softmax along the last axis, for each index of the axes before it."""
    term = tamed(pick.one(pool))
    if not term.shape:
        return term
    powers = np.exp(term.value)
    return Term(softmax(term.node), powers / powers.sum(-1, keepdims=True))


def random_roots(seed: int) -> tuple[list[Node], list[Term]]:
    """Several results over two variables: einsums, sums, views and element-wise functions."""
    pick = Picker(zlib.crc32(b"slices"), seed, largest=200)
    shapes = pick.list([(6,), (5, 4), (4, 6), (3, 4, 5), (7, 2)], 2)
    inputs = [
        Term(variable(name, shape), pick.array(shape, 1.0)) for name, shape in zip("xy", shapes, strict=True)
    ]
    pool = list(inputs)
    for _ in range(pick.integer(3, 9)):
        step = pick.one([draw_einsum, draw_einsum, draw_sum, draw_view, normalised, "sin", "exp"])
        last = pool[-4:]
        made = mapped(step, tamed(pick.one(last))) if isinstance(step, str) else step(pick, last)
        pool.append(tamed(made))
    outputs = [pool[-1], *pick.list(pool[2:], pick.integer(0, 2))]
    return [term.node for term in outputs], inputs


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_random_programs(first: int) -> None:
    found = 0
    for seed in range(first, first + 100):
        roots, inputs = random_roots(seed)
        found += assert_same(roots, "xy", [term.value for term in inputs])
    assert found > 25  # else this tests nothing


def pairs(x: Any) -> Any:
    d = x[:, None, :] - x[None, :, :]
    return np.sum(np.exp(-0.5 * np.sum(d * d, axis=-1)))


def attention(q: Any, k: Any, v: Any) -> Any:
    e = np.exp(q @ k.T)
    return (e / np.sum(e, axis=-1, keepdims=True)) @ v


def masked(x: Any, y: Any) -> Any:
    z = np.where(x[:, None] > y, x[:, None] * y, np.sin(y))
    return np.sum(np.tanh(z) * z, axis=0)


def mixture(x: Any, means: Any, factors: Any) -> Any:
    """The likelihood of points: a batch of products of matrices between two softmaxes."""
    z = np.einsum("kij,nkj->nki", factors, x[:, None, :] - means)
    return np.sum(np.logaddexp.reduce(-0.5 * np.sum(z * z, 2), axis=1))


def stencil(x: Any) -> Any:
    d = x[1:] - x[:-1]
    return np.sum(np.sqrt(1 + d**2)) + np.sum(x**4)


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "pairs": (pairs, [(11, 3)]),
    "attention": (attention, [(9, 4), (7, 4), (7, 5)]),
    "masked": (masked, [(10,), (8,)]),
    "stencil": (stencil, [(23,)]),
    "mixture": (mixture, [(9, 2), (3, 2), (3, 2, 2)]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_derivatives(name: str, order: int) -> None:
    function, shapes = CASES[name]
    random = np.random.default_rng(5)
    names = "xyz"[: len(shapes)]
    variables = [variable(letter, shape) for letter, shape in zip(names, shapes, strict=True)]
    arrays = [random.normal(size=shape) for shape in shapes]
    traced = function(*map(Expression, variables))
    root = traced.node if isinstance(traced, Expression) else traced
    for _ in range(order):
        (root,) = simplify(differentiate(root, variables[:1]))
    assert assert_same([root], names, arrays)


def test_pairs_take_no_memory_for_differences() -> None:
    x = np.random.default_rng(0).normal(size=(800, 3))
    H = hesse.hessian(pairs, form="structured")
    program = H.explain(x).program
    straight = plain_plan(H.explain(x).roots)
    assert program.slices is not None
    assert program.peak_elements() < 1.5 * 800**2
    assert straight.peak_elements() > 3 * 800**2
    v = np.random.default_rng(1).normal(size=x.shape)
    assert_close(H(x) @ v, hesse.hvp(pairs)(x, v))


def test_bound_arguments_keep_their_share() -> None:
    random = np.random.default_rng(2)
    q, k, v = (random.normal(size=(count, 16)) for count in (600, 500, 500))
    gradient = hesse.grad(lambda q, k, v: np.sum(attention(q, k, v) ** 2))
    assert gradient.explain(q, k, v).program.slices is not None
    assert_close(gradient.bind(k=k, v=v)(q), gradient(q, k, v))


def test_slices_are_put_together_and_added() -> None:
    x = np.arange(21.0).reshape(3, 7)

    def rows(part: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, ...]:
        return part * 2, np.asarray(part.sum()), whole + part.sum(axis=1)

    found = in_slices((rows, rows), range(0, 7, 3), (x, np.zeros(3)), (1, None), (1, None, None), "C")
    assert_close(found[0], 2 * x)
    assert_close(found[1], x.sum())
    assert_close(found[2], x.sum(axis=1))


@pytest.mark.parametrize(("n", "is_cut"), [(256, False), (600, True)])
def test_slices_lead_through_softmax_where_that_saves_much(n: int, is_cut: bool) -> None:
    random = np.random.default_rng(n)
    q, k, v = (random.normal(size=(n, 16)) / 4 for _ in range(3))
    derivative = hesse.value_and_grad(lambda q, k, v: np.sum(attention(q, k, v) ** 2))
    rows, program = derivative.explain(q, k, v).source.split("def program")
    assert "in_slices" in program
    assert ("softmax(" in rows) == is_cut and ("softmax(" in program) != is_cut
    whole = derivative.compile(machine=NumpyMachine(least_saved=2**40))
    for found, expected in zip(derivative(q, k, v), whole(q, k, v), strict=True):
        assert_close(found, expected)


def test_small_programs_are_straight() -> None:
    x = variable("x", (50, 3))
    assert make_plan([differentiate(pairs(Expression(x)).node, [x])[0]]).slices is None


def test_a_large_matrix_is_not_arranged_anew_for_each_slice() -> None:
    """`B diag(s) A` is one product: its rows are not cut, though `diag(s) A` would not be needed whole."""
    B, A, s = variable("B", (700, 700)), variable("A", (700, 700)), variable("s", (700,))
    product = Expression(B) @ (Expression(s)[:, None] * Expression(A))
    assert make_plan([product.node]).slices is None


def residual(U: np.ndarray, V: np.ndarray, T: np.ndarray, M: np.ndarray) -> np.ndarray:
    return np.sum(M * (T - U @ V.T) ** 2)


@pytest.mark.parametrize("rows", [900, 911])
def test_products_with_a_larger_matrix_are_cut_if_that_saves_much(rows: int) -> None:
    random = np.random.default_rng(3)
    U, V = random.normal(size=(rows, 20)), random.normal(size=(500, 20))
    T, M = random.normal(size=(rows, 500)), random.random((rows, 500))
    derivative = hesse.value_and_grad(residual)
    value, gradient = derivative(U, V, T, M)
    program = derivative.explain(U, V, T, M).program
    assert program.slices is not None
    assert program.slices.rows % NUMPY_MACHINE.product_rows == 0
    assert program.peak_elements() < rows * 500
    np.testing.assert_allclose(value, np.sum(M * (T - U @ V.T) ** 2), rtol=1e-12)
    np.testing.assert_allclose(gradient, -2 * (M * (T - U @ V.T)) @ V, rtol=1e-10, atol=1e-10)


def test_sums_over_slices_are_added_in_the_cache() -> None:
    """The products of a mixture have more entries than the derivatives that they are summed to."""
    random = np.random.default_rng(7)
    points, components, size = 6000, 12, 30
    x, means = random.normal(size=(points, size)), random.normal(size=(components, size))
    factors = random.normal(size=(components, size, size)) / size
    gradient = hesse.grad(mixture, argnums=(1, 2))
    program = gradient.explain(x, means, factors).program
    assert program.slices is not None
    assert {cut for _, cut in program.slices.outputs} == {None}
    assert program.peak_elements() < points * components * size / 5
    direction = [random.normal(size=array.shape) for array in (means, factors)]
    slope = sum(
        np.vdot(part, seed) for part, seed in zip(gradient(x, means, factors), direction, strict=True)
    )
    step = 1e-5
    moved = [mixture(x, means + s * direction[0], factors + s * direction[1]) for s in (step, -step)]
    np.testing.assert_allclose(slope, (moved[0] - moved[1]) / (2 * step), rtol=1e-7)
    few = hesse.grad(mixture, argnums=(1, 2))(x[:1000], means, factors)  # too few slices: whole
    rest = hesse.grad(mixture, argnums=(1, 2))(x[1000:], means, factors)
    for whole, part, other in zip(gradient(x, means, factors), few, rest, strict=True):
        np.testing.assert_allclose(whole, part + other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("count", [50, 700])
def test_numbers_are_numbers(count: int) -> None:
    """Whether a sum over slices or not."""
    x = np.random.default_rng(3).normal(size=(count, 3))
    value, _ = hesse.value_and_grad(pairs)(x)
    assert type(value) is np.float64
    assert_close(value, pairs(x))


def test_a_chain_does_not_lead_back_through_small_vectors() -> None:
    """`d` depends on sums of `C`; the long chain from `d` on is what is worth cutting."""

    def f(x: Any, B: Any) -> Any:
        C = np.sin(B @ B)
        g, h = np.sum(C * C, axis=0), np.sum(C, axis=0)
        d = (x * g)[:, None] - x * h
        return np.sum(np.exp(-d * d) * np.cos(d))

    n = 600
    x, B = np.linspace(0, 1, n), np.random.default_rng(4).normal(size=(n, n)) / n
    gradient = hesse.grad(f)
    program = gradient.explain(x, B).program
    assert program.slices is not None
    whole = plain_plan(gradient.explain(x, B).roots).peak_elements()
    assert program.peak_elements() < 0.7 * whole
    small = gradient(x[:20], B[:20, :20])
    step = 1e-6
    for k in range(0, 20, 7):
        moved = np.eye(20)[k] * step
        difference = f(x[:20] + moved, B[:20, :20]) - f(x[:20] - moved, B[:20, :20])
        np.testing.assert_allclose(small[k], difference / (2 * step), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_and_memory_of_results(dtype: Any) -> None:
    x = np.random.default_rng(6).normal(size=(9, 3)).astype(dtype)
    before = x.copy()
    x.flags.writeable = False
    derivative = hesse.value_and_grad(pairs, backend=NumpyTarget(EVERYTHING_SLICED))
    assert derivative.explain(x).program.slices is not None
    first, second = (derivative(x) for _ in range(2))
    assert first[1].dtype == dtype
    assert not np.shares_memory(first[1], second[1])
    assert not np.shares_memory(first[1], x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(first[1], hesse.grad(pairs)(x.astype(float)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("machine", [NUMPY_MACHINE, EVERYTHING_SLICED])
def test_gathered_rows_are_read_slice_by_slice(machine: NumpyMachine) -> None:
    """Points on triangles of a mesh: rows of three vertices, which are never in memory for all points."""
    random = np.random.default_rng(0)
    vertices, count = random.normal(size=(50, 30)), 6000 if machine is NUMPY_MACHINE else 7
    corners, places = random.integers(-50, 50, size=(3, count)), random.random((count, 3))

    def placed(vertices: Any, places: Any) -> Any:
        parts = [np.sin(places[:, k : k + 1]) * vertices[corners[k]] for k in range(3)]
        return np.exp(parts[0] + parts[1] - parts[2])

    compiled = hesse.compile(placed).compile(backend="numpy", machine=machine)
    source = compiled.explain(vertices, places).source
    assert source.index("gather(") < source.index("def program"), "inside of the function for slices"
    for _ in range(2):
        np.testing.assert_allclose(compiled(vertices, places), placed(vertices, places), rtol=1e-12)
    straight = hesse.compile(placed).compile(backend="numpy", machine=NumpyMachine(least_saved=10**9))
    whole, cut = (each.explain(vertices, places) for each in (straight, compiled))
    assert cut.peak_bytes < whole.peak_bytes
