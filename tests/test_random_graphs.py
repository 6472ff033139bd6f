"""Random expressions from the registries: four ways to compute a value, three modes, two orders, one answer.

Every step makes a node by the constructors and, from the values of its operands, the value that it must
have, by plain NumPy. So constructors, rewriting, derivatives, planning and the back end are checked against
the naive evaluator, and that against NumPy; derivatives moreover against finite differences.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import naive
from hesse.backends.numpy import compile_program, make_plan
from hesse.backends.numpy.interpreter import small_values
from hesse.calculus import MODES, differentiate
from hesse.ir import (
    Axis,
    Node,
    Variable,
    add,
    broadcast,
    combine,
    concatenate,
    constant,
    constant_axis,
    einsum,
    label_axis,
    multiply,
    place,
    reshape,
    select,
    total,
    transpose,
    uniform,
    variable,
)
from hesse.ops import linalg, normalization, structural
from hesse.ops.elementwise import INDICATORS
from hesse.ops.registry import ELEMENTWISE, OPERATIONS, Elementwise, elementwise, operation
from hesse.rewrite import simplify
from hesse.rewrite.factor import factor
from oracles import assert_close, assert_matches_differences

MOST_STEPS = 8
LARGEST_OUTPUT = 2
LARGEST_VALUE = 3.0
SHAPES: list[tuple[int, ...]] = [(), (1,), (2,), (3,), (2, 2), (1, 3), (2, 1)]


class Picker:
    """Random choices that depend on a seed alone: fewer steps from one seed are the beginning of more."""

    def __init__(self, *seed: int, largest: int = 9) -> None:
        self.largest = largest  # entries of a tensor
        self._generator = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        return int(self._generator.integers(low, high + 1))

    def one(self, choices: Sequence[Any]) -> Any:
        return choices[self.integer(0, len(choices) - 1)]

    def list(self, choices: Sequence[Any], count: int) -> list[Any]:
        return [self.one(choices) for _ in range(count)]

    def permutation(self, count: int) -> list[int]:
        return self._generator.permutation(count).tolist()

    def array(self, shape: tuple[int, ...], size: float) -> np.ndarray:
        return self._generator.uniform(-size, size, shape)


class Term(NamedTuple):
    """A node and the value it must have."""

    node: Node
    value: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape


Step = Callable[[Picker, Sequence[Term]], Term]


def mapped(name: str, *terms: Term) -> Term:
    """A row of the element-wise table."""
    value = naive.ELEMENTWISE[name](*(term.value for term in terms))
    return Term(elementwise(name, *(term.node for term in terms)), np.asarray(value))


def scaled(term: Term, factor: float) -> Term:
    return Term(term.node * factor, term.value * factor)


def shifted(term: Term, offset: np.ndarray | float) -> Term:
    """The term plus a known array."""
    offset = np.broadcast_to(np.asarray(offset, float), term.shape)
    return Term(term.node + constant(offset), term.value + offset)


def known(value: np.ndarray) -> Term:
    return Term(constant(value), value)


def within(term: Term, low: float, high: float) -> Term:
    """The term mapped smoothly into an interval."""
    middle, half = (low + high) / 2, (high - low) / 2
    if half == 0:
        return Term(uniform(low, term.shape), np.full(term.shape, low))
    return shifted(scaled(mapped("sin", term), 0.95 * half), middle)


def tamed(term: Term) -> Term:
    """The term, or its sine where values grow: derivatives then stay of moderate size."""
    return term if np.abs(term.value).max(initial=0.0) <= LARGEST_VALUE else mapped("sin", term)


def signs(pick: Picker, shape: tuple[int, ...]) -> np.ndarray:
    count = math.prod(shape)
    return np.array(pick.list([-1.0, 1.0], count)).reshape(shape)


def summed(term: Term, weights: np.ndarray) -> Term:
    """Sums of all entries with weights, which have the axes of the result first."""
    shape = weights.shape[: weights.ndim - term.value.ndim]
    axes = [label_axis(k) for k in range(weights.ndim)]
    operands, inner = [constant(weights), term.node], [axes, axes[len(shape) :]]
    node = einsum(operands, inner, axes[: len(shape)], shape, weights.shape)
    return Term(node, np.tensordot(weights, term.value, term.value.ndim))


def like(pick: Picker, pool: Sequence[Term], shape: tuple[int, ...]) -> Term:
    """A term of this shape: one of the pool, a scalar repeated, or sums of some other."""
    fitting = [term for term in pool if term.shape == shape]
    if fitting and pick.integer(0, 3):
        return pick.one(fitting)
    term = pick.one(pool)
    if not term.shape:
        return Term(broadcast(term.node, shape, ()), np.broadcast_to(term.value, shape))
    return summed(term, pick.array((*shape, *term.shape), 1.0))


# Tensors in, tensor out: each of these makes a term from a pool of terms.

APART = {"maximum", "minimum", "clip", *(INDICATORS - {"logical_not"})}
"""Rows with a jump or kink where operands are equal: these are kept apart, each entry in a random order."""


def draw_elementwise(row: Elementwise, pick: Picker, pool: Sequence[Term]) -> Term:
    """A row of the table, its operands inside the domain."""
    first = pick.one(pool)
    operands = [first, *(like(pick, pool, first.shape) for _ in range(row.arity - 1))]
    if row.name == "where":
        operands[0] = known((signs(pick, first.shape) > 0).astype(float))
    elif row.name in APART:
        places = [2.0 * k * signs(pick, first.shape) for k in range(row.arity)]
        operands = [shifted(within(term, -0.9, 0.9), at) for term, at in zip(operands, places, strict=True)]
    else:
        operands = [within(term, *interval) for term, interval in zip(operands, row.sample, strict=True)]
    return mapped(row.name, *operands)


def draw_sum(pick: Picker, pool: Sequence[Term]) -> Term:
    """A linear combination of terms of one shape."""
    first = pick.one(pool)
    terms = [first, *(like(pick, pool, first.shape) for _ in range(pick.integer(1, 2)))]
    terms = [scaled(term, pick.one([1.0, -1.0, 0.5, -2.0])) for term in terms]
    return Term(add([term.node for term in terms], first.shape), sum(term.value for term in terms))


def draw_product(pick: Picker, pool: Sequence[Term]) -> Term:
    """An element-wise product, often of a term with itself."""
    first = pick.one(pool)
    second = pick.one([first, like(pick, pool, first.shape)])
    return Term(multiply(first.node, second.node), first.value * second.value)


def draw_einsum(pick: Picker, pool: Sequence[Term]) -> Term:
    """An einsum with repeated, shifted, strided, summed and new labels on either side."""
    operands = pick.list(pool, pick.integer(0, 3))
    ranges: list[int] = []
    axes = [[_input_axis(pick, size, ranges) for size in term.shape] for term in operands]
    output, shape = [], []
    for _ in range(pick.integer(0, 3)):
        axis, size = _output_axis(pick, ranges)
        if math.prod([*shape, size]) <= pick.largest:
            output.append(axis)
            shape.append(size)
    scale = pick.one([1.0, -0.5, 2.0])
    node = einsum([term.node for term in operands], axes, output, shape, ranges, scale)
    return Term(node, _einsum_value([term.value for term in operands], axes, output, shape, ranges, scale))


def _input_axis(pick: Picker, size: int, ranges: list[int]) -> Axis:
    """An affine function of old and new labels that stays inside an axis."""
    kind = pick.one(["label", "label", "old", "old", "affine", "two labels", "position"])
    if kind == "position" and size:
        return constant_axis(pick.integer(0, size - 1))
    if kind == "old" and (fitting := [label for label, count in enumerate(ranges) if 0 < count <= size]):
        label = pick.one(fitting)
        return combine([(1, label_axis(label))], pick.integer(0, size - ranges[label]))
    if kind == "affine" and size > 1:
        stride = pick.one([1, 2, 3, -1, -2])
        count = pick.integer(1, (size - 1) // abs(stride) + 1)
        ranges.append(count)
        reach = abs(stride) * (count - 1)
        start = pick.integer(0, size - 1 - reach) + (reach if stride < 0 else 0)
        return combine([(stride, label_axis(len(ranges) - 1))], start)
    if kind == "two labels" and size > 1:
        first = pick.integer(1, size)
        ranges += [first, size - first + 1]
        return combine([(1, label_axis(len(ranges) - 2)), (1, label_axis(len(ranges) - 1))])
    ranges.append(size)
    return label_axis(len(ranges) - 1)


def _output_axis(pick: Picker, ranges: list[int]) -> tuple[Axis, int]:
    """A label, perhaps new, shifted, with a stride or with another one; and the size of the axis."""
    if not ranges or pick.integer(0, 5) == 0:
        ranges.append(pick.integer(1, 2))
        return label_axis(len(ranges) - 1), ranges[-1]
    label = pick.one(range(len(ranges)))
    stride, offset, margin = pick.one([(1, 0, 0), (1, 0, 0), (1, 0, 0), (1, 1, 0), (2, 0, 1), (1, 0, 1)])
    parts = [(stride, label_axis(label))]
    if pick.integer(0, 4) == 0:
        parts.append((1, label_axis(pick.one(range(len(ranges))))))
    axis = combine(parts, offset)
    return axis, offset + sum(step * (max(ranges[at], 1) - 1) for at, step in axis.terms) + 1 + margin


def _einsum_value(
    values: Sequence[np.ndarray],
    axes: Sequence[Sequence[Axis]],
    output: Sequence[Axis],
    shape: Sequence[int],
    ranges: Sequence[int],
    scale: float,
) -> np.ndarray:
    """The definition of the einsum as it was asked for, before any constructor has seen it."""
    result = np.zeros(shape)
    for point in itertools.product(*map(range, ranges)):
        at = [
            tuple(a.offset + sum(s * point[label] for label, s in a.terms) for a in row)
            for row in (*axes, output)
        ]
        result[at[-1]] += scale * math.prod(
            value[place] for value, place in zip(values, at[:-1], strict=True)
        )
    return result


SLICES = [slice(None), slice(None, None, -1), slice(0, None, 2), slice(1, None), slice(-1, None, -2)]


def draw_view(pick: Picker, pool: Sequence[Term]) -> Term:
    """A slice, a transposition, a reshape, or a tensor put into a larger one."""
    term = pick.one(pool)
    kind = pick.one(["select", "transpose", "reshape", "place", "total"])
    if kind == "select":
        index = tuple(pick.one([*SLICES, pick.integer(0, max(size - 1, 0))]) for size in term.shape)
        index = tuple(
            slice(None) if size == 0 else entry for entry, size in zip(index, term.shape, strict=True)
        )
        return Term(select(term.node, index), term.value[index])
    if kind == "transpose":
        order = pick.permutation(len(term.shape))
        return Term(transpose(term.node, order), term.value.transpose(order))
    if kind == "reshape":
        shape = pick.one(_shapes_of(term.value.size))
        return Term(reshape(term.node, shape), term.value.reshape(shape))
    if kind == "total":
        axes = [k for k in range(len(term.shape)) if pick.one([True, False])]
        return Term(total(term.node, axes), term.value.sum(tuple(axes)))
    offsets, steps = pick.list([0, 1], term.value.ndim), pick.list([1, 1, 2], term.value.ndim)
    shape = tuple(size * step + offset for size, step, offset in zip(term.shape, steps, offsets, strict=True))
    if math.prod(shape) > pick.largest:
        return term
    value = np.zeros(shape)
    value[tuple(slice(offset, None, step) for offset, step in zip(offsets, steps, strict=True))] = term.value
    return Term(place(term.node, shape, offsets, steps), value)


def _shapes_of(count: int) -> list[tuple[int, ...]]:
    pairs = [(m, count // m) for m in range(1, count + 1) if count % m == 0]
    return [(count,), (1, count), *pairs, (0, 2)] if count == 0 else [(count,), (1, count), *pairs]


def draw_concatenation(pick: Picker, pool: Sequence[Term]) -> Term:
    """Two tensors side by side."""
    fitting = [term for term in pool if term.shape]
    first = pick.one(fitting) if fitting else like(pick, pool, (2,))
    axis = pick.integer(0, len(first.shape) - 1)
    frame = (*first.shape[:axis], *first.shape[axis + 1 :])
    fitting = [
        term
        for term in pool
        if len(term.shape) == len(first.shape) and (*term.shape[:axis], *term.shape[axis + 1 :]) == frame
    ]
    second = pick.one(fitting or [first])
    if first.value.size + second.value.size > pick.largest:
        return first
    value = np.concatenate([first.value, second.value], axis)
    return Term(concatenate([first.node, second.node], axis), value)


def _vector(pick: Picker, pool: Sequence[Term]) -> Term:
    """A term with at least one axis, its first and last ones not empty."""
    fitting = [term for term in pool if term.shape and term.shape[0] and term.shape[-1]]
    return pick.one(fitting) if fitting else like(pick, pool, (2,))


def _matrix(pick: Picker, pool: Sequence[Term], rows: int | None = None) -> Term:
    """A matrix with distinct, well separated singular values and eigenvalues."""
    size = pick.integer(1, 2)
    shape = (size if rows is None else rows, size)
    inner = within(like(pick, pool, shape), -0.3, 0.3)
    return shifted(inner, np.eye(*shape) * np.arange(2, 2 + 2 * shape[1], 2))


def _symmetric(pick: Picker, pool: Sequence[Term]) -> Term:
    matrix = _matrix(pick, pool)
    return Term((matrix.node + transpose(matrix.node, [1, 0])) * 0.5, (matrix.value + matrix.value.T) / 2)


def _ordered(pick: Picker, pool: Sequence[Term]) -> Term:
    """A tensor whose last axis has no two entries near each other."""
    term = within(_vector(pick, pool), -0.4, 0.4)
    return shifted(term, pick.permutation(term.shape[-1]))


def _distinct(pick: Picker, pool: Sequence[Term]) -> Term:
    """A tensor that has no two entries near each other."""
    term = within(_vector(pick, pool), -0.4, 0.4)
    return shifted(term, np.reshape(pick.permutation(term.value.size), term.shape))


def _applied(name: str, *terms: Term, params: tuple[Any, ...] = ()) -> Term:
    value = naive.OPERATIONS[name](params, *(term.value for term in terms))
    return Term(operation(name, *(term.node for term in terms), params=params), np.asarray(value))


def _gathered(pick: Picker, pool: Sequence[Term]) -> Term:
    term = _vector(pick, pool)
    index = np.array(pick.list(range(-term.shape[0], term.shape[0]), pick.integer(1, 3)))
    if index.size * term.value[0].size > pick.largest:
        return term
    return Term(structural.gather(term.node, constant(index)), term.value[index])


def _scattered(pick: Picker, pool: Sequence[Term]) -> Term:
    term = _vector(pick, pool)
    index = np.array(pick.list(range(3), term.shape[0]))
    if 3 * term.value[0].size > pick.largest:
        return term
    value = np.zeros((3, *term.shape[1:]))
    np.add.at(value, index, term.value)
    return Term(structural.scatter(term.node, constant(index), 3), value)


def _solved(pick: Picker, pool: Sequence[Term]) -> Term:
    matrix = _matrix(pick, pool)
    right = tamed(like(pick, pool, matrix.shape[:1]))
    return Term(linalg.solve(matrix.node, right.node), np.linalg.solve(matrix.value, right.value))


def _solved_triangle(pick: Picker, pool: Sequence[Term]) -> Term:
    matrix = _matrix(pick, pool)
    right = tamed(like(pick, pool, matrix.shape[:1]))
    value = np.linalg.solve(np.tril(matrix.value), right.value)
    return Term(linalg.triangular_solve(matrix.node, right.node, lower=True), value)


def _squared_eigenvectors(pick: Picker, pool: Sequence[Term]) -> Term:
    """Squared, because their signs are arbitrary."""
    vectors = _applied("eigenvectors", _symmetric(pick, pool))
    return Term(multiply(vectors.node, vectors.node), vectors.value**2)


def _flat_pick(pick: Picker, pool: Sequence[Term]) -> Term:
    """`flat_index` is used by the entries of rows chosen by another tensor."""
    term = _ordered(pick, pool)
    index = np.argsort(term.value, axis=-1)
    return Term(
        structural.take_along(term.node, structural.argsort(term.node)),
        np.take_along_axis(term.value, index, -1),
    )


def _extremum(choose: Callable[[Node], Node], value: Callable[..., Any]) -> Callable[..., Term]:
    def make(pick: Picker, pool: Sequence[Term]) -> Term:
        term = _ordered(pick, pool)
        return Term(choose(term.node), value(term.value, axis=-1))

    return make


def _paths(pick: Picker, pool: Sequence[Term]) -> Term:
    return _applied("path_products", like(pick, pool, (pick.integer(0, 2),)))


RECORDS: dict[str, Step] = {
    "inverse": lambda pick, pool: _applied("inverse", _matrix(pick, pool)),
    "adjugate": lambda pick, pool: _applied("adjugate", _matrix(pick, pool)),
    "minors": lambda pick, pool: _applied("minors", _matrix(pick, pool), params=(2,)),
    "determinant": lambda pick, pool: _applied("determinant", _matrix(pick, pool)),
    "log_determinant": lambda pick, pool: _applied("log_determinant", _matrix(pick, pool)),
    "sign_determinant": lambda pick, pool: _applied("sign_determinant", _matrix(pick, pool)),
    "solve": _solved,
    "triangular_solve": _solved_triangle,
    "cholesky": lambda pick, pool: _applied("cholesky", _symmetric(pick, pool)),
    "pseudo_inverse": lambda pick, pool: _applied("pseudo_inverse", _matrix(pick, pool, rows=3)),
    "eigvalsh": lambda pick, pool: _applied("eigvalsh", _symmetric(pick, pool)),
    "eigenvectors": _squared_eigenvectors,
    "expm_chain": lambda pick, pool: _applied("expm_chain", scaled(_matrix(pick, pool), 0.3), params=(1,)),
    "logsumexp": lambda pick, pool: _applied("logsumexp", _vector(pick, pool)),
    "softmax": lambda pick, pool: _applied("softmax", _vector(pick, pool)),
    "log_softmax": lambda pick, pool: _applied("log_softmax", _vector(pick, pool)),
    "gather": _gathered,
    "scatter": _scattered,
    "flat_index": _flat_pick,
    "argsort": _extremum(structural.sort, np.sort),
    "argmax": _extremum(structural.maximum_along, np.max),
    "argmin": _extremum(structural.minimum_along, np.min),
    "cumulative_sum": lambda pick, pool: _applied("cumulative_sum", _vector(pick, pool)),
    "cumulative_product": lambda pick, pool: _applied("cumulative_product", _vector(pick, pool)),
    "product": lambda pick, pool: _applied("product", _vector(pick, pool)),
    "path_products": _paths,
    "vec": lambda pick, pool: _applied("vec", _matrix(pick, pool, rows=pick.integer(1, 3))),
    "kron": lambda pick, pool: _applied("kron", _matrix(pick, pool), _matrix(pick, pool, rows=1)),
    "max": lambda pick, pool: _applied("max", _distinct(pick, pool)),
}
"""A reshape to sizes that are numbers is an einsum and no record; `draw_view` draws it."""


def draw_formula(pick: Picker, pool: Sequence[Term]) -> Term:
    """What is built from records: layer norm, sliding windows, triangles."""
    kind = pick.one(["layer_norm", "unfold", "tril", "triu"])
    if kind == "layer_norm":
        term = _vector(pick, pool)
        centred = term.value - term.value.mean(-1, keepdims=True)
        value = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 0.1)
        return Term(normalization.layer_norm(term.node, 0.1), value)
    if kind == "unfold":
        term = _vector(pick, pool)
        window = pick.integer(1, min(2, term.shape[0]))
        value = np.lib.stride_tricks.sliding_window_view(term.value, window, 0)
        return Term(structural.unfold(term.node, 0, window), value) if value.size <= pick.largest else term
    term, offset = _matrix(pick, pool), pick.integer(-1, 1)
    return Term(getattr(structural, kind)(term.node, offset), getattr(np, kind)(term.value, offset))


# stop_gradient has not the derivative of its values and is tested elsewhere.
ROWS: dict[str, Step] = {
    name: partial(draw_elementwise, row) for name, row in ELEMENTWISE.items() if name != "stop_gradient"
}
OTHERS: dict[str, Step] = {
    "einsum of labels": draw_einsum,
    "sum of terms": draw_sum,
    "product of terms": draw_product,
    "view": draw_view,
    "concatenation": draw_concatenation,
    "formula": draw_formula,
}
STEPS = {**ROWS, **RECORDS, **OTHERS}


def draw_any(pick: Picker, pool: Sequence[Term]) -> Term:
    """A row, a record or one of the other steps, einsums being the most frequent."""
    step = pick.one([draw_einsum, *(pick.one(list(table.values())) for table in (ROWS, RECORDS, OTHERS))])
    return step(pick, pool)


class Graph(NamedTuple):
    """A random expression: its variables with their values, and its output."""

    inputs: tuple[Term, ...]
    output: Term


def make_graph(name: str, seed: int, steps: int) -> Graph:
    """Two variables and some steps: any step, the named one, which the output needs, and more of any kind."""
    pick = Picker(zlib.crc32(name.encode()), seed)
    inputs = tuple(
        Term(variable(letter, shape), pick.array(shape, 1.5))
        for letter, shape in zip("xy", pick.list(SHAPES, 2), strict=True)
    )
    pool = [*inputs, tamed(draw_any(pick, inputs))]
    pool.append(tamed(STEPS[name](pick, pool)))
    named = pool[-1]
    for _ in range(steps):
        pool.append(tamed(draw_any(pick, pool[-5:])))
    weights = (pick.array((LARGEST_OUTPUT, *term.shape), 1.0) for term in (named, pool[-1]))
    first, second = (summed(term, weight) for term, weight in zip((named, pool[-1]), weights, strict=True))
    return Graph(
        inputs, Term(multiply(first.node, second.node) + first.node, first.value * second.value + first.value)
    )


def compiled(node: Node, names: Sequence[str]) -> Callable[..., np.ndarray]:
    """The node as a function of arrays."""
    program = compile_program(make_plan([node]), names, np.dtype(float))
    return lambda *arrays: program.function(*arrays)[0]


def in_small(node: Node, values: dict[str, np.ndarray]) -> np.ndarray:
    """The value of the node as formulas are verified."""
    found = small_values(node, {}, np.dtype(float))
    assert found is not None
    return found(values)


def test_every_record_can_be_drawn() -> None:
    in_integers = {name for name in OPERATIONS if name.startswith("integer_")}
    in_integers |= {"as_integer", "as_real", "searchsorted"}  # test_index_arithmetic computes with them
    assert set(RECORDS) == set(OPERATIONS) - {"reshape"} - in_integers


@settings(max_examples=400, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(2, 5))
def test_values_of_random_einsums(seed: int, steps: int) -> None:
    """Einsums of views of einsums: here the equations between labels have strides, digits and offsets."""
    pick = Picker(seed, largest=24)
    shape = pick.one([(4,), (6,), (2, 3), (2, 2, 2), (3, 4), (12,)])
    pool = [Term(variable("x", shape), pick.array(shape, 1.5))]
    for _ in range(steps):
        step = pick.one([draw_einsum, draw_view, draw_view, draw_view, draw_sum, draw_concatenation])
        pool.append(step(pick, pool[-2:]))
    node, expected = pool[-1]
    values = {"x": pool[0].value}
    assert_close(naive.evaluate(node, values), expected, "as constructed")
    assert_close(compiled(node, ["x"])(values["x"]), expected, "compiled")
    assert_close(in_small(node, values), expected, "node by node")
    assert_close(compiled(simplify([node])[0], ["x"])(values["x"]), expected, "simplified and compiled")


def test_terms_of_different_extent_are_not_factored() -> None:
    """`(c·x)[i] + (c·y)[i]` has the factor c, but not where the second term ends before the first."""
    i, k = label_axis(0), label_axis(1)
    c, x, y = variable("c", (2,)), variable("x", (3,)), variable("y", (2,))
    whole = einsum([c, x], [[k], [i]], [i], (3,), (3, 2))
    short = einsum([c, y], [[k], [i]], [i], (3,), (2, 2))
    values = {"c": np.array([1.0, 2.0]), "x": np.array([1.0, 2.0, 3.0]), "y": np.array([5.0, 7.0])}
    for terms in ([whole, short], [short, whole]):
        found = naive.evaluate(add(factor(terms, (3,)), (3,)), values)
        np.testing.assert_array_equal(found, [18.0, 27.0, 9.0])


@pytest.mark.parametrize("name", STEPS)
@settings(
    max_examples=3,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(2, MOST_STEPS - 2))
def test_values_and_derivatives_of_random_graphs(name: str, seed: int, steps: int) -> None:
    graph = make_graph(name, seed, steps)
    variables = [term.node for term in graph.inputs]
    values = {variable.name: term.value for variable, term in zip(variables, graph.inputs, strict=True)}
    constructed, expected = graph.output
    (simplified,) = simplify([constructed])
    for node, what in ((constructed, "as constructed"), (simplified, "simplified")):
        assert_close(naive.evaluate(node, values), expected, f"{what}, naive")
        assert_close(compiled(node, [*values])(*values.values()), expected, f"{what}, compiled")
        assert_close(in_small(node, values), expected, f"{what}, node by node")
    for k, derivative in enumerate(check_derivatives(constructed, variables, values, "order 1")):
        check_derivatives(derivative, variables[k:], values, f"order 2 after {variables[k].name}")


def check_derivatives(
    node: Node, variables: Sequence[Variable], values: dict[str, np.ndarray], what: str
) -> list[Node]:
    """The derivatives in every mode, compiled and naive, against each other and against differences."""
    generator = np.random.default_rng(0)
    function = compiled(node, [*values])
    found = {mode: differentiate(node, variables, mode) for mode in MODES}
    for position, by in enumerate(variables):
        reference = naive.evaluate(found["reverse"][position], values)
        assert_close(in_small(found["reverse"][position], values), reference, f"{what}, node by node")
        for mode, derivatives in found.items():
            text = f"{what} by {by.name}, {mode}"
            assert_close(naive.evaluate(derivatives[position], values), reference, f"{text}, naive")
            program = compiled(derivatives[position], [*values])
            assert_close(program(*values.values()), reference, f"{text}, compiled")

        def displaced(point: np.ndarray, name: str = by.name) -> np.ndarray:
            return function(*{**values, name: point}.values())

        assert_matches_differences(displaced, reference, values[by.name], generator, f"{what} by {by.name}")
    return found["reverse"]
