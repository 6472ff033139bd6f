"""The JAX back end underneath: placements against loops, and the table of signatures that jit keeps."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hesse
from hesse.backends.jax import JaxTarget, jitted, records
from hesse.backends.jax.elementwise import kernel
from hesse.backends.jax.layers import axis_of_layers, place_in_layers
from hesse.backends.jax.machine import JaxMachine
from hesse.backends.jax.products import added_products, contracted
from hesse.backends.jax.runtime import Term, place, place_all
from hesse.errors import ArgumentError
from hesse.ir import pairwise, variable
from hesse.ops.normalization import softmax
from hesse.ops.registry import elementwise
from hesse.plan import make_plan
from oracles import fast_jit

jax.config.update("jax_enable_x64", True)


@st.composite
def placements(
    draw: st.DrawFn,
) -> tuple[tuple[int, ...], list[tuple[int, ...]], tuple[int, ...], tuple[int, ...]]:
    """Offsets, strides of labels, their ranges and a shape that they fit into."""
    ranges = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    rank = draw(st.integers(1, 3))
    strides = [draw(st.tuples(*[st.sampled_from((0, 1, -1, 2, 3))] * rank).filter(any)) for _ in ranges]
    ends = [
        [
            sum(end(0, row[axis] * (size - 1)) for row, size in zip(strides, ranges, strict=True))
            for end in (min, max)
        ]
        for axis in range(rank)
    ]
    free = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=rank, max_size=rank))
    offsets = tuple(before - low for (before, _), (low, _) in zip(free, ends, strict=True))
    shape = tuple(
        offset + high + 1 + after for offset, (_, high), (_, after) in zip(offsets, ends, free, strict=True)
    )
    return offsets, strides, ranges, shape


@settings(deadline=None, max_examples=25)  # each is compiled
@given(placements(), st.sampled_from((0, 64)))
def test_placements(
    case: tuple[tuple[int, ...], list[tuple[int, ...]], tuple[int, ...], tuple[int, ...]], most_pieces: int
) -> None:
    offsets, strides, ranges, shape = case
    value = np.random.default_rng(0).standard_normal(ranges)
    expected = np.zeros(shape)
    for labels in np.ndindex(*ranges):
        steps = sum(label * np.array(row) for label, row in zip(labels, strides, strict=True))
        expected[tuple(np.array(offsets) + steps)] += value[labels]
    found = fast_jit(lambda value: place(value, offsets, tuple(strides), ranges, shape, most_pieces))(value)
    np.testing.assert_allclose(found, expected, atol=1e-15)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ([0, 1], [1, 2], [0, 2]),
        ([0, 1], [1, 2], [2, 0]),
        ([1, 0], [2, 1], [0, 2]),
        ([0, 1], [0, 1], []),
        ([0], [0], [0]),
        ([0], [1], [1, 0]),
        ([3, 0, 1], [2, 3, 1], [3, 2, 0]),
        ([3, 0, 1], [2, 3, 1], [0, 3, 2]),
        ([0, 1, 2], [2], [0]),  # a label that is summed in one of them only
    ],
)
@pytest.mark.parametrize("dtypes", [("f8", "f8"), ("f4", "f4"), ("f2", "f2"), ("f8", "f4"), ("i8", "f8")])
def test_contracted(left: list[int], right: list[int], result: list[int], dtypes: tuple[str, str]) -> None:
    sizes, generator = (2, 3, 4, 5), np.random.default_rng(0)
    arrays = [
        jnp.asarray(np.round(4 * generator.normal(size=[sizes[k] for k in side])).astype(dtype))
        for side, dtype in zip((left, right), dtypes, strict=True)
    ]
    expected = jnp.einsum(arrays[0], left, arrays[1], right, result)
    found = contracted(arrays[0], left, arrays[1], right, result)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ([0, 1], [0, 2], [1, 2]),
        ([0, 1], [0, 2], [2, 1]),
        ([2, 0, 1], [0, 3, 2], [3, 1]),
        ([2, 0, 1], [2, 3, 0], [1, 3]),
    ],
)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_first_factors_along_rows(left: list[int], right: list[int], result: list[int], dtype: str) -> None:
    """Neither operand is summed along its last axes: the first is turned, also to batch and differentiate."""
    sizes, generator = (3, 40, 50, 60), np.random.default_rng(0)
    arrays = [
        jnp.asarray(np.round(4 * generator.normal(size=[sizes[k] for k in side])).astype(dtype))
        for side in (left, right)
    ]

    def mine(a: jax.Array, b: jax.Array) -> jax.Array:
        return contracted(a, left, b, right, result)

    def plain(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.einsum(a, left, b, right, result)

    text = str(jax.make_jaxpr(mine)(*arrays))
    assert ("optimization_barrier" in text) == (dtype == "f8")
    np.testing.assert_array_equal(jax.jit(mine)(*arrays), plain(*arrays))
    stacks = [jnp.stack([array, 2 * array]) for array in arrays]
    np.testing.assert_array_equal(jax.vmap(mine)(*stacks), jax.vmap(plain)(*stacks))
    for k in (0, 1):
        found, expected = (
            jax.grad(lambda *pair, f=f: jnp.sum(f(*pair) ** 2), k)(*arrays) for f in (mine, plain)
        )
        np.testing.assert_array_equal(found, expected)


@settings(deadline=None, max_examples=25)
@given(placements(), st.integers(0, 2))
def test_placements_together(
    case: tuple[tuple[int, ...], list[tuple[int, ...]], tuple[int, ...], tuple[int, ...]], moved: int
) -> None:
    """Terms with the same strides, some of them on the same diagonals, and one along the main one."""
    offsets, strides, ranges, shape = case
    shape = tuple([size + moved for size in shape])
    random = np.random.default_rng(0)
    others = [
        tuple([k + step * (axis in axes) for axis, k in enumerate(offsets)])
        for step, axes in ((moved, range(len(shape))), (moved, (0,)))
    ]
    terms = [(random.standard_normal(ranges), at, tuple(strides), ranges) for at in (offsets, *others)]
    least = min(shape)
    terms.append((random.standard_normal(least), (0,) * len(shape), ((1,) * len(shape),), (least,)))
    values, places = [v for v, *_ in terms], [tuple(where) for _, *where in terms]

    @fast_jit
    def one_by_one_and_together(values: list[Any]) -> tuple[list[Any], Any]:
        alone = [place(v, *where, shape, 64) for v, where in zip(values, places, strict=True)]
        given = [(v, *where) for v, where in zip(values, places, strict=True)]
        return alone, place_all(shape, *given, most_pieces=64)

    alone, found = one_by_one_and_together(values)
    np.testing.assert_allclose(found, sum(map(np.asarray, alone)), atol=1e-14)


@settings(deadline=None, max_examples=25)
@given(placements(), st.integers(0, 2), st.integers(0, 2))
def test_terms_in_layers(
    case: tuple[tuple[int, ...], list[tuple[int, ...]], tuple[int, ...], tuple[int, ...]],
    moved: int,
    axis: int,
) -> None:
    """The same term in two or three places, which overlap or do not, and one entry beside them."""
    offsets, strides, ranges, shape = case
    shape, axis = tuple([2 * size + moved for size in shape]), axis % len(shape)
    random = np.random.default_rng(0)
    step = [moved * (k == axis) for k in range(len(shape))]
    starts = [offsets, tuple(np.add(offsets, step)), tuple(np.add(offsets, [size // 2 for size in shape]))]
    terms = [(random.standard_normal(ranges), at, tuple(strides), ranges) for at in starts]
    terms.append((np.asarray(3.0), (0,) * len(shape), (), ()))
    total = random.standard_normal(shape)
    expected = total.copy()
    for value, start, *_ in terms:
        for labels in np.ndindex(*value.shape):
            steps = sum((label * np.array(row) for label, row in zip(labels, strides, strict=False)), 0)
            expected[tuple(np.array(start) + steps)] += value[labels]
    found = fast_jit(
        lambda total, values: place_in_layers(
            total, axis, *((v, *term[1:]) for v, term in zip(values, terms, strict=True)), most_pieces=64
        )
    )(total, [value for value, *_ in terms])
    np.testing.assert_allclose(found, expected, atol=1e-14)


def in_columns(x: Any, *columns: Any) -> Any:
    """A matrix to whose columns further ones are added, to some of them twice, and to a few entries."""
    x = jnp.exp(x)
    for k, column in enumerate(columns):
        x = x + jnp.pad(column[:, None] ** 2, [(0, 0), (k % 7, 7 - k % 7)])
    return x + jnp.pad(columns[0][:2, None], [(3, len(x) - 5), (2, 5)])


def test_columns_that_are_added_are_one_loop() -> None:
    random = np.random.default_rng(0)
    arrays = [jnp.asarray(random.normal(size=(90, 8))), *jnp.asarray(random.normal(size=(9, 90)))]
    f = hesse.compile(in_columns)
    for scale in (1.0, 2.0):
        scaled = [scale * array for array in arrays]
        np.testing.assert_allclose(f(*scaled), in_columns(*scaled), rtol=1e-14, atol=1e-14)
    source = f.explain(*arrays).source
    assert source.count("place_in_layers(") == 1
    assert "place_into(" not in source
    several = jax.vmap(f, (None, *[0] * 9))(arrays[0], *(jnp.stack([a, -2 * a]) for a in arrays[1:]))
    np.testing.assert_allclose(several[1], in_columns(arrays[0], *(-2 * a for a in arrays[1:])), atol=1e-13)
    slope, expected = (
        jax.grad(lambda c, f=f: jnp.sum(f(arrays[0], *c) ** 3))(arrays[1:]) for f in (f, in_columns)
    )
    np.testing.assert_allclose(slope, expected, rtol=1e-12, atol=1e-12)


def test_few_columns_that_are_added_stay_where_they_are() -> None:
    arrays = [jnp.ones((300, 8)), *jnp.ones((3, 300))]
    f = hesse.compile(in_columns)
    np.testing.assert_allclose(f(*arrays), in_columns(*arrays), rtol=1e-14)
    source = f.explain(*arrays).source
    assert "place_in_layers(" not in source
    assert source.count("place_into(") == 4


def test_which_terms_are_in_layers() -> None:
    def column(first: int, rows: int = 9) -> Term:
        return Term(0.0, (0, first), ((1, 0),), (rows,))

    def block(first: int) -> Term:
        return Term(0.0, (first, first), ((1, 0), (0, 1)), (2, 2))

    shape = 9, 6
    assert axis_of_layers([column(k % 6) for k in range(8)], shape, 0.5, 6) == 1
    assert axis_of_layers([column(k % 6) for k in range(8)], shape, 0.5, 5) is None
    assert (
        axis_of_layers([column(k, 2) for k in range(6)], shape, 0.5, 6) is None
    )  # most of it stays as it is
    assert axis_of_layers([block(0), block(2), block(4)], shape, 0.2, 6) == 0
    assert axis_of_layers([block(0), block(1), block(2)], (4, 6), 0.2, 6) is None  # all of them overlap
    assert axis_of_layers([Term(0.0, (0, 0), ((1, 0), (0, 1)), shape)] * 4, shape, 0.5, 6) is None


def test_terms_on_the_same_diagonals_are_put_there_once() -> None:
    """A chain of blocks and a grid: terms inside of blocks join these, others those with both gaps."""
    both, random = ((1, 0, 1, 0), (0, 1, 0, 1)), np.random.default_rng(0)

    def selections(*terms: tuple[tuple[int, ...], Any, tuple[int, ...]]) -> int:
        values = [jnp.asarray(random.standard_normal(ranges)) for *_, ranges in terms]

        def together(*values: Any) -> Any:
            placed = [(value, *term) for value, term in zip(values, terms, strict=True)]
            return place_all((6, 6, 6, 6), *placed, most_pieces=64)

        separate = [place(v, *term, (6, 6, 6, 6), 64) for v, term in zip(values, terms, strict=True)]
        np.testing.assert_allclose(together(*values), sum(separate), atol=1e-14)
        return str(jax.make_jaxpr(together)(*values)).count("select_n")

    main, beside = ((0, 0, 0, 0), both, (6, 6)), ((1, 0, 0, 0), both, (5, 6))
    blocks = ((0, 0, 0, 0), ((1, 0, 1, 0), (0, 1, 0, 0), (0, 0, 0, 1)), (6, 6, 6))
    assert selections(main, main, beside, ((1, 1, 1, 1), both, (5, 5)), beside) == 2
    assert selections(main, blocks) == 2  # one inside of the blocks, which is small


def test_what_is_placed_is_added_up_before_it_joins_a_dense_term() -> None:
    def rod(u: Any) -> Any:
        return jnp.sum(jnp.sqrt(1.0 + (u[1:] - u[:-1]) ** 2)) + jnp.sum(jnp.exp(u))

    u = jnp.linspace(0.0, 1.0, 7)
    H = hesse.hessian(rod, form="structured")
    np.testing.assert_allclose(H(u).dense(), jax.hessian(rod)(u), atol=1e-12)
    (line,) = [each for each in H.explain(u).source.splitlines() if "place(" in each]
    assert "+ (place(" in line


def test_blocks_beside_a_diagonal_are_computed_once() -> None:
    def chain(x: Any) -> Any:
        return jnp.sum(jnp.tanh(x[1:] @ jnp.ones((4, 4)) - x[:-1] ** 2) ** 2) + jnp.sum(x**3)

    x = jnp.asarray(np.random.default_rng(0).standard_normal((40, 4)))
    H, expected = hesse.hessian(chain), jax.hessian(chain)
    np.testing.assert_allclose(H(x), fast_jit(expected)(x), atol=1e-12)
    third = jax.jacfwd(lambda s: H(s * x))(1.0)
    np.testing.assert_allclose(third, fast_jit(jax.jacfwd(lambda s: expected(s * x)))(1.0), atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_diagonals_are_stored_by_one_loop(dtype: Any) -> None:
    def chain(x: Any) -> Any:
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    x = jnp.asarray(np.linspace(-1.0, 1.0, 120, dtype=dtype))
    H = hesse.hessian(chain)
    np.testing.assert_allclose(H(x), jax.hessian(chain)(x), rtol=1e-5)
    assert H(x).dtype == dtype
    assert str(jax.make_jaxpr(H)(x)).count("reduce_prod") == 1


def cubes(x):
    return np.sum(x**3) + np.prod(x)


def jax_cubes(x):
    return jnp.sum(x**3) + jnp.prod(x)


def test_hundreds_of_terms_that_are_placed_one_by_one() -> None:
    cells = np.random.default_rng(0).permutation(900)[:250].tolist()

    def scattered(x: Any) -> Any:
        y = jnp.zeros((30, 30))
        for k, cell in enumerate(cells):
            y = y.at[divmod(cell, 30)].add(x[divmod(k, 50)] ** 2)
        return y

    x = jnp.linspace(1.0, 2.0, 250).reshape(5, 50)
    np.testing.assert_allclose(hesse.compile(scattered)(x), scattered(x), rtol=1e-14)


def test_signatures_that_jit_tells_apart() -> None:
    H = hesse.hessian(cubes)
    for size in (2, 3, 2):
        for dtype in (np.float64, np.float32, np.float64):
            x = np.linspace(0.5, 1.5, size).astype(dtype)
            found = H(jnp.asarray(x))
            assert found.dtype == dtype
            np.testing.assert_allclose(found, H(x), rtol=1e-6)


def test_double_precision_switched_off_and_on() -> None:
    H, x = hesse.hessian(cubes), jnp.array([0.5, 1.5])
    assert H(x).dtype == np.float64
    with jax.enable_x64(False):
        assert H(x).dtype == np.float32
        assert H(jnp.array([0.5, 1.5])).dtype == np.float32
    assert H(x).dtype == np.float64


def test_calls_with_and_without_numbers_alternate() -> None:
    g = hesse.grad(lambda x, c: np.sum(c * x**2))
    x = jnp.array([1.0, 2.0], np.float32)
    for _ in range(2):
        np.testing.assert_allclose(g(x, jnp.float32(3.0)), [6.0, 12.0])
        np.testing.assert_allclose(g(x, 3.0), [6.0, 12.0])
        np.testing.assert_allclose(g(np.asarray(x), 3.0), [6.0, 12.0])
        assert g(x, 3.0).dtype == np.float32


def test_calls_with_arrays_of_both_libraries() -> None:
    g = hesse.grad(lambda x, A: x @ A @ x)
    x, A = np.array([1.0, 2.0]), np.array([[1.0, 2.0], [0.0, 1.0]])
    for _ in range(2):
        for point, matrix in ((jnp.asarray(x), A), (x, jnp.asarray(A)), (x, A)):
            found = g(point, matrix)
            assert isinstance(found, np.ndarray) == (matrix is A and point is x)
            np.testing.assert_allclose(found, (A + A.T) @ x)


def test_the_table_of_jit_keeps_nothing_alive() -> None:
    data = np.ones(1000)
    H = hesse.hessian(lambda x: np.sum(np.tanh(x) * data))
    H(jnp.ones(1000))
    H(jnp.ones(1000))
    seen = weakref.ref(H)
    del H
    gc.collect()
    assert seen() is None


def test_structured_results_of_dispatched_calls() -> None:
    H = hesse.hessian(lambda x: np.sum(np.tanh(x)), form="structured")
    x = jnp.linspace(0.0, 1.0, 5)
    for _ in range(2):
        found = H(x)
        assert isinstance(found, hesse.Structured)
        np.testing.assert_allclose(found.dense(), hesse.hessian(lambda x: np.sum(np.tanh(x)))(np.asarray(x)))


def test_a_new_shape_that_cannot_be_traced_says_why() -> None:
    g = hesse.grad(lambda x: np.sum(x @ np.ones((2, 2))))
    g(jnp.ones(2))
    with pytest.raises(TypeError, match="contracting dimensions"):  # the function is traced by JAX
        g(jnp.ones(3))


def test_without_jit_nothing_is_dispatched() -> None:
    H = hesse.hessian(cubes, backend=JaxTarget(jit=False))
    x = jnp.array([0.5, 1.5])
    np.testing.assert_allclose(H(x), H(np.asarray(x)))
    with pytest.raises(ArgumentError, match="jax"):
        H.compile(backend="torch")(x)


@pytest.fixture(params=itertools.product(["bare arrays", "containers"], [1, 1000]), ids=str)
def long_hessian(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """The Hessian of `cubes`, of an array or of a tuple, by a program that counts as long or as small."""
    arguments, long_program = request.param
    target = JaxTarget(machine=JaxMachine(long_program=long_program))
    if arguments == "bare arrays":
        return hesse.hessian(cubes, backend=target)
    H = hesse.hessian(lambda pair: cubes(pair[0]), backend=target)
    return lambda x: H((x,))[0][0]


def test_long_programs_inside_and_outside_of_traces(long_hessian: Callable[[Any], Any]) -> None:
    x = jnp.array([0.5, 1.5])
    expected = jax.hessian(jax_cubes)(x)
    for _ in range(2):
        np.testing.assert_allclose(long_hessian(x), expected)
        np.testing.assert_allclose(jax.jit(long_hessian)(x), expected)
        np.testing.assert_allclose(jax.jit(lambda y: y * long_hessian(x))(1.0), expected)  # known in a trace
        np.testing.assert_allclose(jax.vmap(long_hessian)(x[None]), expected[None])
        third = jax.grad(lambda x: jnp.sum(long_hessian(x)))(x)
        np.testing.assert_allclose(third, jax.grad(lambda x: jnp.sum(jax.hessian(jax_cubes)(x)))(x))


def test_long_programs_are_compiled_without_constants_of_their_own(
    long_hessian: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    x = jnp.array([0.5, 1.5])  # which may be compiled, too
    with jax.log_compiles():
        long_hessian(x)
    compiled = [record for record in caplog.records if "Finished XLA compilation" in record.getMessage()]
    assert len(compiled) == 1, [record.getMessage() for record in compiled]


def test_how_programs_are_compiled() -> None:
    """Loops over few entries are written quickly; those over many, and those of softmax, are written well."""

    def options(function: Callable[..., Any], size: int, machine: JaxMachine, dtype: Any = np.float64) -> Any:
        root = function(variable("x", (size,)))
        return jitted.compiler_options(make_plan([root], machine), machine, np.dtype(dtype))

    def cosines(x: Any) -> Any:
        return elementwise("cos", x)

    def diagonal(x: Any) -> Any:
        return pairwise("i->ii", x)

    always = jitted.PARTS | {jitted.WITHOUT: jitted.TAKES_SUMS_APART}
    plain = jitted.PLAIN | always
    few = JaxMachine(few_entries=100, few_exponentials=100, little_work=0)
    assert options(cosines, 100, few) == plain
    assert options(cosines, 101, few) == always
    assert options(cosines, 101, replace(few, much_work=1)) == plain
    assert options(softmax, 100, few) == plain
    assert options(softmax, 101, few) == always
    assert options(cosines, 101, few, np.float16) == jitted.PARTS
    placing = JaxMachine(few_exponentials=0, placed_in_time=10, little_work=0)
    assert options(lambda x: diagonal(elementwise("exp", x)), 10, placing) == plain
    assert options(lambda x: diagonal(elementwise("exp", x)), 9, placing) == always
    exponentials = JaxMachine(few_exponentials=100, little_work=0)
    assert options(lambda x: elementwise("exp", x), 100, exponentials) == plain
    assert options(lambda x: elementwise("exp", x), 101, exponentials) == always
    light = JaxMachine(few_entries=0, few_placed=25)
    assert options(cosines, 6, light) == jitted.LESS | always
    assert options(diagonal, 5, light) == jitted.LESS | plain
    assert options(diagonal, 6, light) == plain
    long = JaxMachine(few_placed=25, long_program=1)
    assert options(diagonal, 6, long) == jitted.LESS | plain

    def of_rows(function: str, *shape: int) -> Any:
        program = make_plan([elementwise(function, variable("x", shape))], few)
        return jitted.compiler_options(program, few, np.dtype(np.float64))

    unmoved = plain | {jitted.WITHOUT: "tree_reduction_rewriter,reshape-mover"}
    assert of_rows("exp", 4, 20) == unmoved
    assert of_rows("exp", 2, 2, 20) == of_rows("exp", 4, 11) == of_rows("exp", 1, 64) == plain
    assert of_rows("reciprocal", 4, 20) == plain
    assert of_rows("exp", 40, 20) == always


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64])
@pytest.mark.parametrize("count", [100, 3_000, 100_000])
def test_sums_keep_their_digits(dtype: Any, count: int) -> None:
    """Also where XLA computes them in one kernel, one after the other."""
    x = jnp.full(count, 0.01, dtype)
    value = hesse.value_and_grad(lambda x: jnp.sum(x * jnp.cos(x)))(x)[0]
    expected = count * float(x[0]) * np.cos(float(x[0]))
    np.testing.assert_allclose(float(value), expected, rtol=16 * float(jnp.finfo(dtype).eps))


def test_options_that_xla_does_not_know_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jitted, "LESS", {"xla_no_such_option": False})
    jitted._has_options.cache_clear()
    try:
        H = hesse.hessian(cubes, backend=JaxTarget(machine=JaxMachine(long_program=1)))
        x = jnp.array([0.5, 1.5])
        np.testing.assert_allclose(H(x), jax.hessian(jax_cubes)(x))
    finally:
        jitted._has_options.cache_clear()


@pytest.mark.parametrize("transformed", [jax.jit, lambda f: jax.jit(jax.vmap(f))], ids=["jit", "vmap"])
def test_a_long_program_whose_first_call_is_traced(transformed: Callable[..., Any]) -> None:
    jitted._has_options.cache_clear()
    H = hesse.hessian(lambda x: cubes(x.ravel()), backend=JaxTarget(machine=JaxMachine(long_program=1)))
    x = jnp.array([[0.5, 1.5]])
    expected = jax.hessian(jax_cubes)(x[0])
    np.testing.assert_allclose(transformed(H)(x).reshape(2, 2), expected)
    np.testing.assert_allclose(H(x).reshape(2, 2), expected)


def test_containers_are_dispatched() -> None:
    """Keys in another order are another structure, and so are other leaves."""
    g = hesse.grad(lambda p: jnp.sum(next(iter(p.values())) ** 2) + jnp.sum(p["b"]))
    a, b = jnp.array([1.0, 2.0]), jnp.array([3.0])
    for _ in range(2):
        first, second = g({"a": a, "b": b}), g({"b": b, "a": a})
        assert (list(first), list(second)) == (["a", "b"], ["b", "a"])
        np.testing.assert_allclose(first["a"], 2.0 * a)
        np.testing.assert_allclose(second["a"], 0.0 * a)
        np.testing.assert_allclose(second["b"], 2.0 * b + 1.0)
        np.testing.assert_allclose(g({"a": a, "b": 3.0})["b"], 1.0)
        longer = jnp.ones(3, np.float32)
        assert g({"a": longer, "b": longer})["a"].dtype == np.float32


def test_results_of_another_structure_for_another_shape() -> None:
    def parts(p: Any) -> Any:
        (x,) = p
        return {"small": x[0] ** 2} if x.size < 3 else [x[0] ** 3, x[1]]

    J = hesse.jacobian(parts)
    for _ in range(2):
        np.testing.assert_allclose(J([jnp.array([2.0, 1.0])])["small"][0], [4.0, 0.0])
        np.testing.assert_allclose(J([jnp.array([2.0, 1.0, 1.0])])[0][0], [12.0, 0.0, 0.0])


def test_what_a_dispatched_function_reads_may_change() -> None:
    state = {"factor": 2.0}
    g = hesse.grad(lambda x: state["factor"] * jnp.sum(x))
    x = jnp.ones(2)
    for factor in (2.0, 3.0, 2.0):
        state["factor"] = factor
        np.testing.assert_allclose(g(x), [factor, factor])
        np.testing.assert_allclose(g(np.ones(2)), [factor, factor])


def test_values_of_whole_numbers_that_are_needed_for_some_shapes() -> None:
    def chosen(x: Any, rows: Any) -> Any:
        return jnp.sum(x[rows] ** 2) if len(x) == 2 else sum(jnp.sum(x[int(k)] ** 2) for k in rows)

    g = hesse.grad(chosen)
    for count, rows in ((2, [0, 1]), (2, [1, 1]), (3, [2, 0]), (3, [1, 1]), (2, [0, 0]), (3, [0, 0])):
        x, expected = jnp.arange(1.0, count + 1), np.zeros(count)
        np.add.at(expected, rows, 2.0 * np.asarray(x)[rows])
        for _ in range(2):
            np.testing.assert_allclose(g(x, np.array(rows)), expected)


@pytest.mark.parametrize("name", ["sigmoid", "softplus"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_kernels_that_share_an_exponential(name: str, dtype: str) -> None:
    """Values at the ends and derivatives at 0, where their formulas have kinks."""
    found, expected = kernel(name), getattr(jax.nn, name)
    x = jnp.array([-np.inf, -800.0, -40.0, -1.0, -0.0, 0.0, 1e-9, 40.0, 800.0, np.inf, np.nan]).astype(dtype)
    assert found(x).dtype == x.dtype
    np.testing.assert_allclose(*(np.asarray(f(x), float) for f in (found, expected)), rtol=1e-15)
    for _ in range(3):
        found, expected = jax.grad(found), jax.grad(expected)
        np.testing.assert_allclose(found(0.0), expected(0.0), atol=1e-15)
        np.testing.assert_allclose(found(-1.5), expected(-1.5), atol=1e-15)


def test_a_value_and_its_gradient_share_exponentials() -> None:
    x = jnp.asarray(np.random.default_rng(0).standard_normal((4, 3)))
    both = hesse.value_and_grad(lambda x: jnp.sum(jax.nn.logsumexp(x, axis=1) ** 2))
    text = jax.jit(both).lower(x).compile().as_text()
    assert text.count(" exponential(") == 1


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_softmax_of_infinite_entries(name: str) -> None:
    x = np.array([[1.0, -np.inf], [-np.inf, -np.inf], [np.inf, 1.0], [np.nan, 1.0], [800.0, 801.0]])
    found, expected = records.kernel(name)((), jnp.asarray(x)), getattr(jax.nn, name)(x, axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_quick_calls_see_the_number_of_arguments_and_what_is_read() -> None:
    factor = 2.0

    def f(x: Any, y: Any = 3.0) -> Any:
        return jnp.sum(factor * x * y)

    g, x = hesse.grad(f), jnp.ones(2)
    for _ in range(2):
        np.testing.assert_allclose(g(x), [factor * 3.0] * 2)
        np.testing.assert_allclose(g(x, 2.0 * x), [factor * 2.0] * 2)
        np.testing.assert_allclose(g(x, y=x), [factor] * 2)
        factor += 1.0
    with pytest.raises(ArgumentError):
        g(x, x, x)
    with pytest.raises(ArgumentError):
        g()


PRODUCTS = ("ab,bc->ac", "ba,cb->ca", "abd,dcb->ca", "b,bc->c", "ae,bec->cab")


@pytest.mark.parametrize("text", PRODUCTS)
def test_short_sums_as_additions_of_products(text: str) -> None:
    sizes = {"a": 5, "b": 2, "c": 7, "d": 2, "e": 3}
    operands, result = text.split("->")
    left, right = operands.split(",")
    random = np.random.default_rng(0)
    a, b = (random.normal(size=[sizes[label] for label in labels]) for labels in (left, right))
    labels = [tuple(map(ord, each)) for each in (left, right, result)]
    found = added_products(jnp.asarray(a), jnp.asarray(b), *labels)
    np.testing.assert_allclose(found, np.einsum(text, a, b), rtol=1e-14)


ORDERS = {"vbj,dibj": "div", "vbj,bjd": "dv", "bv,bd": "vd", "kvb,kbd": "kdv", "kvb,dkb": "dvk"}


@pytest.mark.parametrize("operands", ORDERS)
def test_products_are_written_in_the_order_that_copies_least(operands: str) -> None:
    """Whatever the order, the values are those of the product; the large operand is not transposed."""
    sizes = {"v": 60, "b": 9, "j": 2, "d": 6, "i": 3, "k": 2}
    random = np.random.default_rng(0)
    a, b = (random.normal(size=[sizes[label] for label in each]) for each in operands.split(","))
    text = f"{operands}->{ORDERS[operands]}"
    function = hesse.compile(lambda x, y: np.einsum(text, x, np.exp(y)), backend="jax")
    np.testing.assert_allclose(function(a, b), np.einsum(text, a, np.exp(b)), rtol=1e-13)
    if operands.startswith("vbj"):
        lowered = jax.jit(function.explain(a, b).executable.compiled.function).lower(a, b).as_text()
        (product,) = (line for line in lowered.splitlines() if "dot_general" in line)
        assert ": (tensor<60x9x2xf64>" in product


def test_large_results_are_handed_to_numpy_each_once() -> None:
    x = np.linspace(0.0, 1.0, 20_000)
    function = hesse.compile(lambda x: (x, np.exp(x), np.exp(x), 2.0 * x), backend="jax")
    results = function(x)
    for k, (result, expected) in enumerate(zip(results, (x, np.exp(x), np.exp(x), 2.0 * x), strict=True)):
        np.testing.assert_allclose(result, expected, rtol=1e-15)
        assert not any(np.shares_memory(result, other) for other in (x, *results[:k]))
        result[...] = np.nan
    assert results[3].base is not None  # it is XLA's memory
    np.testing.assert_array_equal(function(x)[0], x)


def test_multiples_of_products_take_no_pass() -> None:
    """The factors of both gradients go into what is multiplied; a value that is used twice stays as it is."""
    X = jnp.asarray(np.random.default_rng(0).standard_normal((30, 20)))

    def loss(w: Any) -> Any:
        return jnp.sum(3.0 * jnp.log1p((X @ w) ** 2))

    g, w = hesse.grad(loss), jnp.linspace(-1.0, 1.0, 20)
    np.testing.assert_allclose(g(w), jax.grad(loss)(w), rtol=1e-12)
    lines = g.explain(w).source.splitlines()
    assert " = contracted(" in lines[-2], "nothing is done with the last product"
    twice = hesse.derivative(lambda w: (X.T @ jnp.sin(X @ w), jnp.cos(X @ w)), order=1)
    found, expected = twice(w), jax.jacfwd(lambda w: (X.T @ jnp.sin(X @ w), jnp.cos(X @ w)))(w)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("dtype", "factor", "left", "right"),
    [
        ("f4", 1e20, 1e20, 1e-20),
        ("f2", 2000.0, 148.0, 1e-3),
        ("f2", 1e-3, 1e-3, 1e3),
        ("f8", 1e200, 1e150, 1e-150),
    ],
)
def test_multiples_of_products_stay_in_the_range_of_their_type(
    dtype: str, factor: float, left: float, right: float
) -> None:
    a, b = jnp.full((8, 32), left, dtype), jnp.full((32, 4), right, dtype)
    found = hesse.compile(lambda a, b: (jnp.abs(a) @ b) * factor)(a, b)
    np.testing.assert_allclose(found, (a @ b) * factor, rtol=1e-2)


def test_tangents_of_infinite_entries_on_diagonals() -> None:
    x = jnp.ones(120).at[3].set(1000.0)
    hessian = hesse.hessian(lambda x: jnp.sum(jnp.exp(x)))
    tangent = jax.jvp(hessian, (x,), (jnp.ones(120),))[1]
    assert tangent[3, 3] == np.inf and float(tangent[2, 2]) == pytest.approx(np.e)
    finite = jax.vmap(hessian)(jnp.ones((2, 120)))
    np.testing.assert_allclose(finite[1], np.e * np.eye(120), rtol=1e-12)


def test_windows_of_a_diagonal() -> None:
    random = np.random.default_rng(0)
    matrix, kernel = jnp.asarray(random.normal(size=(12, 12))), jnp.asarray(random.normal(size=3))

    def smoothed(matrix: Any, kernel: Any) -> Any:
        return jnp.convolve(jnp.diagonal(matrix), kernel, mode="valid")

    found = hesse.jacobian(smoothed, argnums=1)(matrix, kernel)
    np.testing.assert_allclose(found, jax.jacrev(smoothed, argnums=1)(matrix, kernel), atol=1e-14)


def test_products_whose_rows_are_picked_are_stored() -> None:
    """XLA computes what a gather reads for each row that is picked: dots are stored, additions are not."""
    random = np.random.default_rng(0)
    a, b, c = (jnp.asarray(random.normal(size=size)) for size in ((60, 3), (3, 80), (60, 80)))

    def function(index: np.ndarray) -> Callable[..., Any]:
        return hesse.compile(lambda a, b, c: -(2.0 * (a @ b) + c)[index], backend="jax")

    for count, is_stored in ((200, True), (20, False)):
        index = random.integers(0, 60, size=count)
        picked = function(index)
        np.testing.assert_allclose(picked(a, b, c), -(2.0 * np.asarray(a @ b) + c)[index], rtol=1e-13)
        assert ("added_products(" in picked.explain(a, b, c).source) != is_stored
