"""What the planner and the NumPy back end choose: in place, by halves, term by term, mirrored, joined.

Each choice is checked twice: that it is made where it pays, and that the values are those of the naive
evaluator, inputs stay as they are and results share no memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hesse
import naive
from hesse.backends.numpy import NUMPY_MACHINE, NumpyMachine, NumpyTarget, compile_program, make_plan
from hesse.calculus import differentiate
from hesse.calculus.mirror import mirrored
from hesse.cost import PLAIN_MACHINE, einsum_cost
from hesse.ir import (
    Add,
    Axis,
    Einsum,
    Node,
    add,
    einsum,
    label_axis,
    multiply,
    opened,
    select,
    transpose,
    variable,
)
from hesse.ops.registry import elementwise
from hesse.plan import flatten, lower
from hesse.plan.program import Contract, Count
from hesse.structured import stored
from oracles import assert_close
from test_random_graphs import OTHERS, RECORDS, ROWS, Picker, Term, draw_einsum, tamed

Values = dict[str, np.ndarray]
ROW, COLUMN, SUMMED = map(label_axis, range(3))
BACKWARDS = slice(None, None, -1)


def arrays(seed: int, **shapes: tuple[int, ...]) -> Values:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=shape) for name, shape in shapes.items()}


def check(
    roots: Sequence[Node],
    values: Values,
    machine: NumpyMachine = NUMPY_MACHINE,
    dtype: type = np.float64,
) -> str:
    """The source of a program after its results have been compared; called twice, inputs kept."""
    program = make_plan(roots, machine)
    compiled = compile_program(program, [*values], np.dtype(dtype), machine=machine)
    given_arrays = [value.astype(dtype) for value in values.values()]
    results = [np.asarray(result) for result in compiled.function(*given_arrays)]
    copies = [result.copy() for result in results]
    again = compiled.function(*given_arrays)
    for value, array in zip(values.values(), given_arrays, strict=True):
        np.testing.assert_array_equal(array, value.astype(dtype), "an input has changed")
    for first, second, third in zip(copies, results, again, strict=True):
        np.testing.assert_array_equal(first, second, "a result has changed in the next call")
        np.testing.assert_array_equal(first, third, "the next call has another result")
    for k, result in enumerate(results):
        assert not any(np.shares_memory(result, other) for other in [*given_arrays, *results[:k]])
    tolerance = 1e-9 if dtype is np.float64 else 1e-3
    for result, expected in zip(copies, naive.evaluate_all(roots, values), strict=True):
        largest = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance * largest)
    return compiled.source


# In place


EVERYTHING_IS_LARGE = NumpyMachine(large_array=1, short_axis=3, smallest_halved=2, narrow_dot=1)
"""Small arrays are treated as large ones are."""


def test_a_sum_is_not_written_over_an_array_that_another_term_views() -> None:
    """`2·t + t[::-1]`: doubling t in place would double what the second term reads."""
    t = elementwise("exp", variable("x", (7,)))
    backwards = select(t, (BACKWARDS,))
    z = variable("z", (7,))
    values = arrays(0, x=(7,), z=(7,))
    check([t * 2.0 + backwards], values)
    check([t * 2.0 + backwards + z], values)
    check([add([t, z, backwards], (7,))], values)


def test_gradient_of_a_sum_with_its_own_reverse() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        return 2 * np.exp(x) + np.exp(x)[::-1]

    x = np.array([0.1, 0.5, 1.0])
    expected = 2 * np.diag(np.exp(x)) + np.diag(np.exp(x))[::-1]
    np.testing.assert_allclose(hesse.jacobian(function)(x), expected)
    np.testing.assert_allclose(hesse.jvp(function)(x, np.ones(3)), expected @ np.ones(3))


def test_dead_arrays_are_written_over() -> None:
    x, y = variable("x", (30,)), variable("y", (30,))
    chain = elementwise("sin", elementwise("exp", multiply(x, y)))
    source = check([chain * 3.0], arrays(1, x=(30,), y=(30,)), EVERYTHING_IS_LARGE)
    assert source.count("out=t") == 2 and "*= c5  # 3.0" in source


def test_a_value_that_is_read_later_is_not_written_over() -> None:
    t = elementwise("exp", variable("M", (4, 4)))
    row = select(t, (1, slice(None)))
    roots = [
        elementwise("sin", t),
        t,
        row,
        multiply(t, transpose(t, [1, 0])),
        elementwise("stop_gradient", t),
    ]
    check(roots, arrays(2, M=(4, 4)), EVERYTHING_IS_LARGE)


def test_a_value_whose_view_is_read_later_is_not_written_over() -> None:
    """The sine is the last to read t itself, but not the last to read its memory."""
    t = elementwise("exp", variable("x", (9,)))
    backwards = select(t, (BACKWARDS,))
    early, sine = elementwise("cos", backwards), elementwise("sin", t)
    roots = [early, multiply(sine, early), elementwise("maximum", backwards, sine)]
    check(roots, arrays(2, x=(9,)), EVERYTHING_IS_LARGE)


def test_short_axes_are_outer_loops_in_memory_only() -> None:
    """Terms of the shape (50, 2): intermediates lie transposed in memory, a sum that is a result in order."""
    shape = (50, 2)
    x, y, z = variable("x", shape), variable("y", (50,)), variable("z", (2,))
    columns = einsum([y, z], [[ROW], [COLUMN]], [ROW, COLUMN], shape, shape)
    inner = add([x, columns, multiply(x, x) * -1.0], shape)
    values = arrays(3, x=shape, y=(50,), z=(2,))
    halved = elementwise("sin", add([x, einsum([y], [[ROW]], [ROW, COLUMN], shape, shape)], shape))
    roots = [elementwise("sin", inner), multiply(halved, halved)]
    assert "order='C'" in check(roots, values, EVERYTHING_IS_LARGE)
    program = make_plan([inner], EVERYTHING_IS_LARGE)
    compiled = compile_program(program, [*values], np.dtype(float), machine=EVERYTHING_IS_LARGE)
    (result,) = compiled.function(*values.values())
    assert result.flags.c_contiguous


STEPS = [
    draw_einsum,
    *OTHERS.values(),
    *(ROWS[name] for name in ("sin", "exp", "maximum", "where")),
    *(RECORDS[name] for name in ("cumulative_sum", "gather", "argmax", "softmax")),
]


@settings(max_examples=120, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(3, 8))
def test_random_programs_with_several_results(seed: int, steps: int) -> None:
    pick = Picker(seed, largest=24)
    inputs = [
        Term(variable(name, shape), pick.array(shape, 1.5)) for name, shape in (("x", (3, 3)), ("y", (3,)))
    ]
    pool = list(inputs)
    for _ in range(steps):
        pool.append(tamed(pick.one(STEPS)(pick, pool[-5:])))
    roots = [term.node for term in pick.list(pool, pick.integer(1, 4))]
    values = {term.node.name: term.value for term in inputs}
    for dtype in (np.float64, np.float32):
        check(roots, values, EVERYTHING_IS_LARGE, dtype)


# By halves


HALVING = NumpyMachine(smallest_halved=64)
"""Small products are computed by halves, too."""


def contractions(root: Node) -> list[Contract]:
    return [item for item in make_plan([root], HALVING).instructions if isinstance(item, Contract)]


def product(left: Node, right: Node, scale: float = 1.0) -> Node:
    size = left.shape[0], right.shape[1]
    return einsum(
        [left, right], [[ROW, SUMMED], [SUMMED, COLUMN]], [ROW, COLUMN], size, (*size, left.shape[1]), scale
    )


@pytest.mark.parametrize("rows", [64, 67, 130])
def test_symmetric_products_are_computed_by_halves(rows: int) -> None:
    a = variable("A", (rows, 65))
    gram = product(a, transpose(a, [1, 0]), -2.0)
    (item,) = contractions(gram)
    assert item.is_symmetric
    values = arrays(3, A=(rows, 65))
    compiled = compile_program(make_plan([gram], HALVING), ["A"], np.dtype(float))
    (result,) = compiled.function(values["A"])
    assert_close(result, -2.0 * values["A"] @ values["A"].T, "by halves")
    np.testing.assert_array_equal(result, result.T)


@pytest.mark.parametrize("form", ["dense", "structured"])
def test_the_hessian_of_a_weighted_sum_is_computed_by_halves(form: str) -> None:
    """`X'·diag(w)·X` was differentiated as `X'·(w∘X)`, which is not seen to be symmetric as it stands."""
    values = arrays(4, X=(70, 65), y=(70,), w=(65,))
    X, y, w = values["X"], values["y"], values["w"]

    def loss(w: np.ndarray) -> np.ndarray:
        return np.sum(np.logaddexp(0, -y * (X @ w))) + 0.3 * np.sum(w**2)

    hessian = hesse.hessian(loss, form=form, backend=NumpyTarget(machine=HALVING))
    assert "symmetric_product" in hessian.explain(w).source
    result = np.asarray(hessian(w))
    chance = 1 / (1 + np.exp(y * (X @ w)))
    assert_close(result, (X.T * (y**2 * chance * (1 - chance))) @ X + 0.6 * np.eye(65), "by halves")
    np.testing.assert_array_equal(result, result.T)


def test_what_is_not_symmetric_is_not_halved() -> None:
    a, b = variable("A", (64, 64)), variable("B", (64, 64))
    difference = a - transpose(a, [1, 0])
    for root in (product(a, b), product(a, a), product(a, difference), product(a, a + b)):
        assert not any(item.is_symmetric for item in contractions(root))


# Term by term


def test_a_sum_of_products_is_multiplied_out_where_that_is_cheaper() -> None:
    """`sum_k (p[i,k] K[k,j] - p[i,k] q[i,j]) V[k,j]` never forms the tensor of three axes."""
    n, m, d = 30, 31, 32
    p, k, q, v = (variable(s, z) for s, z in (("p", (n, m)), ("k", (m, d)), ("q", (n, d)), ("v", (m, d))))
    ranges = (n, d, m)
    one = einsum([p, k], [[ROW, SUMMED], [SUMMED, COLUMN]], [ROW, COLUMN, SUMMED], ranges, ranges)
    two = einsum([p, q], [[ROW, SUMMED], [ROW, COLUMN]], [ROW, COLUMN, SUMMED], ranges, ranges, -1.0)
    root = einsum(
        [add([one, two], ranges), v], [[ROW, COLUMN, SUMMED], [SUMMED, COLUMN]], [ROW, COLUMN], (n, d), ranges
    )
    (flat,) = flatten([root], NUMPY_MACHINE)
    assert isinstance(flat, Add)
    flat_peak, peak = (lower([node], NUMPY_MACHINE).peak_elements() for node in (flat, root))
    assert flat_peak < n * m * d < peak
    values = arrays(4, p=(n, m), k=(m, d), q=(n, d), v=(m, d))
    (result,) = compile_program(make_plan([root]), [*values], np.dtype(float)).function(*values.values())
    tensor = np.einsum("ik,kj->ijk", values["p"], values["k"]) - np.einsum(
        "ik,ij->ijk", values["p"], values["q"]
    )
    assert_close(result, np.einsum("ijk,kj->ij", tensor, values["v"]), "term by term")


def test_a_difference_of_plain_tensors_is_formed_first() -> None:
    x, y, v = variable("x", (40, 40)), variable("y", (40, 40)), variable("v", (40, 40))
    (flat,) = flatten([product(x - y, v)], NUMPY_MACHINE)
    assert not isinstance(flat, Add)


# Mirrored


def hessian(node: Node, by: Node) -> Node:
    (gradient,) = differentiate(node, [by])
    return differentiate(gradient, [by])[0]


def coupled(x: Node) -> Node:
    """The sum of `sin(x[k]·exp(x[k+1]))`: a diagonal and two bands beside it."""
    (size,) = x.shape
    assert isinstance(size, int)
    left, right = select(x, (slice(0, size - 1),)), select(x, (slice(1, size),))
    inner = elementwise("sin", multiply(left, elementwise("exp", right)))
    return einsum([inner], [[ROW]], [], (), (size - 1,))


def test_of_two_mirror_images_one_is_computed() -> None:
    x = variable("x", (6,))
    whole = hessian(coupled(x), x)
    halved = mirrored(whole, 1)
    values = arrays(5, x=(6,))
    expected = naive.evaluate(whole, values)
    np.testing.assert_allclose(naive.evaluate(halved, values), expected, atol=1e-12)
    assert np.count_nonzero(np.diag(expected, 1)) == 5
    blocks = hesse.hessian(lambda x: np.sum(np.sin(x[:-1] * np.exp(x[1:]))))
    np.testing.assert_allclose(blocks(values["x"]), expected, atol=1e-12)


def test_mirror_images_that_overlap_another_term_are_kept() -> None:
    """A term alone need not be the mirror image of another one where a third touches its entries."""
    a, b, c = (variable(name, (3,)) for name in "abc")
    pair = [on_band(a, 0, 1), on_band(b, 1, 0)]
    assert mirrored(add(pair, (4, 4)), 1) is not add(pair, (4, 4))
    column = einsum([c], [[ROW]], [ROW._replace(offset=1), Axis((), 0)], (4, 4), (3,))
    overlapping = add([*pair, column], (4, 4))
    assert mirrored(overlapping, 1) is overlapping


def test_groups_of_terms_are_mirrored_together() -> None:
    """A model that takes a vector apart: its Hessian costs what that by the parameters costs."""
    random = np.random.default_rng(4)
    data, target, parts = random.normal(size=(9, 4)), random.normal(size=9), ((4, 5), (5,), (5,))

    def loss(weight: Any, bias: Any, out: Any) -> Any:
        return np.mean((np.tanh(data @ weight + bias) @ out - target) ** 2)

    def of_vector(vector: Any) -> Any:
        return loss(vector[:20].reshape(4, 5), vector[20:25], vector[25:])

    values = [random.normal(size=shape) for shape in parts]
    vector = np.concatenate([value.ravel() for value in values])
    whole, blocks = hesse.hessian(of_vector), hesse.hessian(loss, argnums=(0, 1, 2))
    expected = [
        [block.reshape(value.size, -1) for block in row]
        for row, value in zip(blocks(*values), values, strict=True)
    ]
    np.testing.assert_allclose(whole(vector), np.block(expected), atol=1e-12)
    costs = [derivative.explain(*given) for derivative, given in ((whole, [vector]), (blocks, values))]
    assert costs[0].flops <= 1.01 * costs[1].flops


def on_band(vector: Node, row: int, column: int) -> Node:
    output = [ROW._replace(offset=row), ROW._replace(offset=column)]
    return einsum([vector], [[ROW]], output, (4, 4), vector.shape)


# Joined


def test_bands_on_one_diagonal_are_one_array() -> None:
    x = variable("x", (9,))
    whole = hessian(coupled(x), x)
    storage = stored(whole)
    values = arrays(6, x=(9,))
    parts = naive.evaluate_all(storage.sources, values)
    names = storage.names
    found = naive.evaluate(storage.node, dict(zip(names, parts, strict=True)))
    np.testing.assert_allclose(found, naive.evaluate(whole, values), atol=1e-12)
    assert [source.shape for source in storage.sources].count((9,)) == 1, "one main diagonal"


# Sizes by name


def logistic(rows: int | str, columns: int | str) -> Node:
    """The Hessian of a loss of several terms."""
    A, x = hesse.variable("A", (rows, columns)), hesse.variable("x", (columns,))
    y = hesse.variable("y", (rows,))
    loss = np.sum(np.logaddexp(y * (A @ x), 0.0)) + np.sum(np.exp(A @ x)) + np.sum(x**3)
    return loss.diff(x, x).node


def test_names_are_planned_as_sizes_of_a_hundred() -> None:
    roots = [[logistic(*sizes)] for sizes in (("m", "n"), (100, 100))]
    named, numbered = (lower(flatten(root, NUMPY_MACHINE), NUMPY_MACHINE) for root in roots)
    assert [type(item) for item in named.instructions] == [type(item) for item in numbered.instructions]
    assert named.flops == numbered.flops
    assert named.shapes[named.results[0]] == ("n", "n")


def test_a_sum_over_a_named_size_counts() -> None:
    program = lower([hesse.parse("sum(vector(1,k))*a").diff("a").node], NUMPY_MACHINE)
    assert Count("k") in program.instructions


def test_programs_with_names_are_not_run() -> None:
    with pytest.raises(hesse.ShapeError, match="the sizes m, n have no value; give them, or arrays that"):
        make_plan([logistic("m", "n")])


# Close estimates are decided by plans


def test_close_estimates_are_decided_by_plans() -> None:
    """Estimates favour products of stacks of matrices here; as it is planned, reverse mode does less."""
    random = np.random.default_rng(0)
    x, *weights = random.normal(size=(50, 6)), *random.normal(size=(3, 6, 6))

    def net(x: np.ndarray) -> np.ndarray:
        for weight in weights:
            x = np.tanh(x @ weight)
        return np.sum(x)

    chosen = hesse.hessian(net, form="structured").explain(x)
    *_, last = chosen.choices
    assert last.estimates["cross-country"] < last.estimates["reverse"]
    assert last.mode == "reverse"
    searched = hesse.hessian(net, form="structured", mode="cross-country").explain(x)
    assert chosen.flops < searched.flops
    assert chosen.bytes < searched.bytes
    asked = hesse.hessian(net, mode="cross-country")(x)
    assert_close(np.asarray(hesse.hessian(net)(x)), np.asarray(asked))


@pytest.mark.parametrize("shape", [(7,), (2, 3, 4)])
def test_products_entry_by_entry_cost_the_same_multiplied_out(shape: tuple[int, ...]) -> None:
    """What `flatten` takes for granted, and does not try."""
    a, b, c = (variable(name, shape) for name in "abc")
    inner = multiply(a, b)
    for outer in (multiply(inner, c), multiply(inner, c, c)):
        assert isinstance(inner, Einsum)
        assert isinstance(outer, Einsum)
        merged = opened(outer, [outer.operands.index(inner)])
        assert isinstance(merged, Einsum)
        apart = einsum_cost(outer).time(PLAIN_MACHINE) + einsum_cost(inner).time(PLAIN_MACHINE)
        assert einsum_cost(merged).time(PLAIN_MACHINE) == apart
        assert flatten([outer], PLAIN_MACHINE) == [outer]


def test_a_matrix_of_many_entries_is_multiplied_as_one() -> None:
    def turned(angle: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        c, s, t = np.cos(angle), np.sin(angle), np.tanh(angle)
        return matrix @ np.stack(
            [np.stack(row) for row in ((c, -s, t), (s, c, s * t), (t * c, t * s, t * t))]
        )

    arguments = 0.3 + np.zeros(()), np.arange(9.0).reshape(3, 3)
    program = hesse.compile(turned)
    np.testing.assert_allclose(program(*arguments), turned(*arguments), rtol=1e-14)
    assert program.explain(*arguments).source.count(".dot(") == 1


def test_no_search_where_all_orders_give_the_same() -> None:
    def chain(x):
        return np.sum((x[1:] - x[:-1] ** 2) ** 2)

    choice = hesse.hessian(chain).explain(np.ones(5)).choices[-1]
    assert set(choice.estimates) == {"forward", "reverse", "two-sided"}
    assert len(set(choice.estimates.values())) == 1


ROWS = ((40, 50), (300, 5), (3, 5000), (1, 7), (300, 40))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", ROWS)
def test_products_and_sums_of_rows(shape: tuple[int, int], dtype: str) -> None:
    """Dot products and sums of rows and of columns, of arrays in either order, of views and multiples."""
    random = np.random.default_rng(3)
    x, y = (random.normal(size=shape).astype(dtype) for _ in range(2))

    def function(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
        z = np.exp(x) * y
        rows, columns = np.einsum("ij,ij->i", z, y), np.einsum("ij,ij->j", z, y)
        parts = np.sum(z[:, ::2], 1), np.sum(z[1:, 1:], 0), np.einsum("ij,ij->i", z[::-1], y)
        sums = (
            np.sum(z, 0),
            np.sum(z, 1),
            np.sum(z.T, 0),
            np.sum(z[0]),
            np.sum(np.exp(y[:, 0])),
            np.sum(x[0, ::2]),
        )
        return rows, columns, *sums, -2.5 * z, z @ z.T[:, :1], *parts

    compiled = hesse.compile(function)
    tolerance = 1e-12 if dtype == "float64" else 1e-4
    for ordered in (np.ascontiguousarray, np.asfortranarray):
        found = compiled(ordered(x), ordered(y))
        for one, other in zip(found, function(x.astype(float), y.astype(float)), strict=True):
            assert one.dtype == dtype
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize(("shape", "is_dot"), [((40, 50), True), ((300, 5), False), ((300, 40), True)])
def test_rows_are_multiplied_as_is_quicker(shape: tuple[int, int], is_dot: bool) -> None:
    x = np.ones(shape)
    source = hesse.compile(lambda x: np.einsum("ij,ij->i", x, x + 1.0)).explain(x).source
    assert ("np.vecdot" in source) == is_dot
    assert (" einsum(" in source) != is_dot


def test_long_rows_are_added_in_pairs() -> None:
    """Sums of many numbers of single precision keep their digits."""
    x = np.full((2, 2**20), 0.1, "float32")
    found = hesse.compile(lambda x: np.sum(np.abs(x), 1))(x)
    np.testing.assert_allclose(found, np.float32(0.1) * 2.0**20, rtol=1e-6)


def test_parts_of_large_arrays_are_not_copied_for_a_product() -> None:
    """The method `dot` would copy windows, parts of arrays, and arguments that are parts."""
    x, w, big = np.arange(200.0), np.ones(50), np.random.default_rng(0).normal(size=(90, 200))

    def function(x: np.ndarray, w: np.ndarray, big: np.ndarray) -> tuple[np.ndarray, ...]:
        part = np.exp(big)[:, 3:153]
        return np.convolve(x, w, mode="valid"), part @ x[:150], np.sum(part, 1), big @ x

    compiled = hesse.compile(function)
    assert ".dot(" not in compiled.explain(x, w, big).source
    for one, other in zip(compiled(x, w, big), function(x, w, big), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert hesse.compile(lambda x: np.exp(x) @ x[0]).explain(big).source.count(".dot(") == 1


def test_multiples_beyond_the_range_of_single_precision() -> None:
    x = np.array([0.0, 1e-30], "float32")
    with np.errstate(all="ignore"):
        found = hesse.compile(lambda x: 1e39 * np.sin(x) + np.cos(x))(x)
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(1e39 * x))


def moments(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """For each point the weighted products of its differences from others."""
    d = x[:, None, :] - y[None, :, :]
    return np.einsum("ija,ij,ijb->iab", d, np.exp(-np.sum(d * d, axis=-1)), d)


@pytest.mark.parametrize(
    ("width", "length", "is_dot"), [(3, 100, True), (2, 64, True), (3, 40, False), (4, 100, False)]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_stacks_of_narrow_matrices_are_dot_products(
    width: int, length: int, is_dot: bool, dtype: str
) -> None:
    random = np.random.default_rng(width)
    x, y = (random.normal(size=(n, width)).astype(dtype) for n in (90, length))
    compiled = hesse.compile(moments)
    dots = [line for line in compiled.explain(x, y).source.splitlines() if "np.vecdot" in line]
    assert any("None, :, :]" in line for line in dots) == is_dot
    for _ in range(2):
        found = compiled(x, y)
        assert found.dtype == dtype
        expected = moments(x.astype(float), y.astype(float))
        assert_close(found.astype(float), expected, tolerance=1e-12 if dtype == "float64" else 1e-5)
