"""Random expressions from the registries: four ways to compute a value, three modes, two orders, one answer.

Every step makes a node by the constructors and, from the values of its operands, the value that it must
have, by plain NumPy. So constructors, rewriting, derivatives, planning and the back end are checked against
the naive evaluator, and that against NumPy; derivatives moreover against finite differences.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import naive
from hesse.backends.numpy_backend import compile_program
from hesse.calculus import MODES, differentiate
from hesse.ir import (
    Axis,
    Node,
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
from hesse.ops.registry import ELEMENTWISE, OPERATIONS, elementwise, operation
from hesse.plan import make_plan
from hesse.rewrite import simplify
from oracles import assert_close, assert_matches_differences

MOST_STEPS = 8
LARGEST_TENSOR = 9
LARGEST_OUTPUT = 4
LARGEST_VALUE = 3.0
SHAPES: list[tuple[int, ...]] = [(), (1,), (2,), (3,), (2, 2), (1, 3), (2, 1)]
Draw = Callable[[st.SearchStrategy[Any]], Any]


class Term(NamedTuple):
    """A node and the value it must have."""

    node: Node
    value: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape


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


def signs(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    count = math.prod(shape)
    return np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=count, max_size=count))).reshape(shape)


def like(draw: Draw, pool: Sequence[Term], shape: tuple[int, ...]) -> Term:
    """A term of this shape: one of the pool, or a smaller one repeated."""
    fitting = [term for term in pool if term.shape == shape or not term.shape]
    if not fitting:
        return known(signs(draw, shape))
    term = draw(st.sampled_from(fitting))
    return term if term.shape == shape else Term(broadcast(term.node, shape, ()), np.broadcast_to(term.value, shape))


# Tensors in, tensor out: each of these makes a term from a pool of terms.

APART = {"maximum", "minimum", "clip", *(INDICATORS - {"logical_not"})}
"""Rows with a jump or kink where operands are equal: they are kept apart, in a random order for each entry."""


def draw_elementwise(draw: Draw, pool: Sequence[Term]) -> Term:
    """Any row of the table, its operands inside the domain."""
    # stop_gradient is no function with its derivative; its rows are tested elsewhere.
    row = ELEMENTWISE[draw(st.sampled_from(sorted(set(ELEMENTWISE) - {"stop_gradient"})))]
    first = draw(st.sampled_from(pool))
    operands = [first, *(like(draw, pool, first.shape) for _ in range(row.arity - 1))]
    if row.name == "where":
        operands[0] = known((signs(draw, first.shape) > 0).astype(float))
    elif row.name in APART:
        places = [2.0 * k * signs(draw, first.shape) for k in range(row.arity)]
        operands = [shifted(within(term, -0.9, 0.9), at) for term, at in zip(operands, places, strict=True)]
    else:
        operands = [within(term, *interval) for term, interval in zip(operands, row.sample, strict=True)]
    return mapped(row.name, *operands)


def draw_sum(draw: Draw, pool: Sequence[Term]) -> Term:
    """A linear combination of terms of one shape."""
    first = draw(st.sampled_from(pool))
    terms = [first, *(like(draw, pool, first.shape) for _ in range(draw(st.integers(1, 2))))]
    terms = [scaled(term, draw(st.sampled_from([1.0, -1.0, 0.5, -2.0]))) for term in terms]
    return Term(add([term.node for term in terms], first.shape), sum(term.value for term in terms))


def draw_product(draw: Draw, pool: Sequence[Term]) -> Term:
    """An element-wise product, often of a term with itself."""
    first = draw(st.sampled_from(pool))
    second = draw(st.sampled_from([first, like(draw, pool, first.shape)]))
    return Term(multiply(first.node, second.node), first.value * second.value)


def draw_einsum(draw: Draw, pool: Sequence[Term]) -> Term:
    """An einsum with repeated, shifted, strided, summed and new labels on either side."""
    operands = draw(st.lists(st.sampled_from(pool), min_size=0, max_size=3))
    ranges: list[int] = []
    axes = [[_input_axis(draw, size, ranges) for size in term.shape] for term in operands]
    output, shape = [], []
    for _ in range(draw(st.integers(0, 3))):
        axis, size = _output_axis(draw, ranges)
        if math.prod([*shape, size]) <= LARGEST_TENSOR:
            output.append(axis)
            shape.append(size)
    scale = draw(st.sampled_from([1.0, -0.5, 2.0]))
    node = einsum([term.node for term in operands], axes, output, shape, ranges, scale)
    return Term(node, _einsum_value([term.value for term in operands], axes, output, shape, ranges, scale))


def _input_axis(draw: Draw, size: int, ranges: list[int]) -> Axis:
    """An affine function of old and new labels that stays inside an axis."""
    kind = draw(st.sampled_from(["label", "label", "old", "old", "affine", "two labels", "position"]))
    if kind == "position" and size:
        return constant_axis(draw(st.integers(0, size - 1)))
    if kind == "old" and (fitting := [label for label, count in enumerate(ranges) if 0 < count <= size]):
        label = draw(st.sampled_from(fitting))
        return combine([(1, label_axis(label))], draw(st.integers(0, size - ranges[label])))
    if kind == "affine" and size > 1:
        stride = draw(st.sampled_from([1, 2, -1]))
        count = draw(st.integers(1, (size - 1) // abs(stride) + 1))
        ranges.append(count)
        reach = abs(stride) * (count - 1)
        start = draw(st.integers(0, size - 1 - reach)) + (reach if stride < 0 else 0)
        return combine([(stride, label_axis(len(ranges) - 1))], start)
    if kind == "two labels" and size > 1:
        first = draw(st.integers(1, size))
        ranges += [first, size - first + 1]
        return combine([(1, label_axis(len(ranges) - 2)), (1, label_axis(len(ranges) - 1))])
    ranges.append(size)
    return label_axis(len(ranges) - 1)


def _output_axis(draw: Draw, ranges: list[int]) -> tuple[Axis, int]:
    """A label, perhaps a new one, a shifted one, one with a stride, or two of them; and the size of the axis."""
    if not ranges or draw(st.integers(0, 5)) == 0:
        ranges.append(draw(st.integers(1, 2)))
        return label_axis(len(ranges) - 1), ranges[-1]
    label = draw(st.sampled_from(range(len(ranges))))
    stride, offset, margin = draw(st.sampled_from([(1, 0, 0), (1, 0, 0), (1, 0, 0), (1, 1, 0), (2, 0, 1), (1, 0, 1)]))
    parts = [(stride, label_axis(label))]
    if draw(st.integers(0, 4)) == 0:
        parts.append((1, label_axis(draw(st.sampled_from(range(len(ranges)))))))
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
        at = [tuple(a.offset + sum(s * point[label] for label, s in a.terms) for a in row) for row in (*axes, output)]
        result[at[-1]] += scale * math.prod(value[place] for value, place in zip(values, at[:-1], strict=True))
    return result


def draw_view(draw: Draw, pool: Sequence[Term]) -> Term:
    """A slice, a transposition, a reshape, or a tensor put into a larger one."""
    term = draw(st.sampled_from(pool))
    kind = draw(st.sampled_from(["select", "transpose", "reshape", "place", "total"]))
    if kind == "select":
        index = tuple(
            draw(st.sampled_from([slice(None), slice(None, None, -1), slice(0, None, 2), slice(1, None), 0, size - 1]))
            for size in term.shape
        )
        index = tuple(slice(None) if size == 0 else entry for entry, size in zip(index, term.shape, strict=True))
        return Term(select(term.node, index), term.value[index])
    if kind == "transpose":
        order = draw(st.permutations(range(len(term.shape))))
        return Term(transpose(term.node, order), term.value.transpose(order))
    if kind == "reshape":
        shape = draw(st.sampled_from(_shapes_of(term.value.size)))
        return Term(reshape(term.node, shape), term.value.reshape(shape))
    if kind == "total":
        axes = [k for k in range(len(term.shape)) if draw(st.booleans())]
        return Term(total(term.node, axes), term.value.sum(tuple(axes)))
    offsets = [draw(st.integers(0, 1)) for _ in term.shape]
    shape = tuple(size + offset for size, offset in zip(term.shape, offsets, strict=True))
    if math.prod(shape) > LARGEST_TENSOR:
        return term
    return Term(place(term.node, shape, offsets), np.pad(term.value, [(offset, 0) for offset in offsets]))


def _shapes_of(count: int) -> list[tuple[int, ...]]:
    pairs = [(m, count // m) for m in range(1, count + 1) if count % m == 0]
    return [(count,), (1, count), *pairs, (0, 2)] if count == 0 else [(count,), (1, count), *pairs]


def draw_concatenation(draw: Draw, pool: Sequence[Term]) -> Term:
    """Two tensors side by side."""
    first = draw(st.sampled_from([term for term in pool if term.shape] or [known(np.ones(2))]))
    axis = draw(st.integers(0, len(first.shape) - 1))
    frame = (*first.shape[:axis], *first.shape[axis + 1 :])
    fitting = [
        term
        for term in pool
        if len(term.shape) == len(first.shape) and (*term.shape[:axis], *term.shape[axis + 1 :]) == frame
    ]
    second = draw(st.sampled_from(fitting or [first]))
    if first.value.size + second.value.size > LARGEST_TENSOR:
        return first
    value = np.concatenate([first.value, second.value], axis)
    return Term(concatenate([first.node, second.node], axis), value)


def _vector(draw: Draw, pool: Sequence[Term]) -> Term:
    """A term with at least one axis, its first and last ones not empty."""
    return draw(st.sampled_from([t for t in pool if t.shape and t.shape[0] and t.shape[-1]] or [known(np.ones(2))]))


def _matrix(draw: Draw, pool: Sequence[Term], rows: int | None = None) -> Term:
    """A matrix with distinct, well separated singular values and eigenvalues."""
    size = draw(st.integers(1, 2))
    shape = (size if rows is None else rows, size)
    inner = within(like(draw, pool, shape), -0.3, 0.3)
    return shifted(inner, np.eye(*shape) * np.arange(2, 2 + 2 * shape[1], 2))


def _symmetric(draw: Draw, pool: Sequence[Term]) -> Term:
    matrix = _matrix(draw, pool)
    return Term((matrix.node + transpose(matrix.node, [1, 0])) * 0.5, (matrix.value + matrix.value.T) / 2)


def _ordered(draw: Draw, pool: Sequence[Term]) -> Term:
    """A tensor whose last axis has no two entries near each other."""
    term = within(_vector(draw, pool), -0.4, 0.4)
    return shifted(term, draw(st.permutations(range(term.shape[-1]))))


def _applied(name: str, *terms: Term, params: tuple[Any, ...] = ()) -> Term:
    value = naive.OPERATIONS[name](params, *(term.value for term in terms))
    return Term(operation(name, *(term.node for term in terms), params=params), np.asarray(value))


def _gathered(draw: Draw, pool: Sequence[Term]) -> Term:
    term = _vector(draw, pool)
    index = np.array(draw(st.lists(st.integers(-term.shape[0], term.shape[0] - 1), min_size=1, max_size=3)))
    if index.size * term.value[0].size > LARGEST_TENSOR:
        return term
    return Term(structural.gather(term.node, constant(index)), term.value[index])


def _scattered(draw: Draw, pool: Sequence[Term]) -> Term:
    term = _vector(draw, pool)
    index = np.array(draw(st.lists(st.integers(0, 2), min_size=term.shape[0], max_size=term.shape[0])))
    if 3 * term.value[0].size > LARGEST_TENSOR:
        return term
    value = np.zeros((3, *term.shape[1:]))
    np.add.at(value, index, term.value)
    return Term(structural.scatter(term.node, constant(index), 3), value)


def _solved(draw: Draw, pool: Sequence[Term]) -> Term:
    matrix = _matrix(draw, pool)
    right = tamed(like(draw, pool, matrix.shape[:1]))
    return Term(linalg.solve(matrix.node, right.node), np.linalg.solve(matrix.value, right.value))


def _squared_eigenvectors(draw: Draw, pool: Sequence[Term]) -> Term:
    """Squared, because their signs are arbitrary."""
    vectors = _applied("eigenvectors", _symmetric(draw, pool))
    return Term(multiply(vectors.node, vectors.node), vectors.value**2)


def _flat_pick(draw: Draw, pool: Sequence[Term]) -> Term:
    """`flat_index` is used by the entries of rows chosen by another tensor."""
    term = _ordered(draw, pool)
    index = np.argsort(term.value, axis=-1)
    return Term(structural.take_along(term.node, structural.argsort(term.node)), np.take_along_axis(term.value, index, -1))


def _extremum(choose: Callable[[Node], Node], value: Callable[..., Any]) -> Callable[..., Term]:
    def make(draw: Draw, pool: Sequence[Term]) -> Term:
        term = _ordered(draw, pool)
        return Term(choose(term.node), value(term.value, axis=-1))

    return make


def _paths(draw: Draw, pool: Sequence[Term]) -> Term:
    term = draw(st.sampled_from([t for t in pool if len(t.shape) == 1 and t.shape[0] <= 2] or [known(np.ones(2))]))
    return _applied("path_products", term)


APPLICATIONS: dict[str, Callable[[Draw, Sequence[Term]], Term]] = {
    "inverse": lambda draw, pool: _applied("inverse", _matrix(draw, pool)),
    "determinant": lambda draw, pool: _applied("determinant", _matrix(draw, pool)),
    "log_determinant": lambda draw, pool: _applied("log_determinant", _matrix(draw, pool)),
    "sign_determinant": lambda draw, pool: _applied("sign_determinant", _matrix(draw, pool)),
    "solve": _solved,
    "cholesky": lambda draw, pool: _applied("cholesky", _symmetric(draw, pool)),
    "pseudo_inverse": lambda draw, pool: _applied("pseudo_inverse", _matrix(draw, pool, rows=3)),
    "eigvalsh": lambda draw, pool: _applied("eigvalsh", _symmetric(draw, pool)),
    "eigenvectors": _squared_eigenvectors,
    "expm_chain": lambda draw, pool: _applied("expm_chain", scaled(_matrix(draw, pool), 0.3), params=(1,)),
    "logsumexp": lambda draw, pool: _applied("logsumexp", _vector(draw, pool)),
    "softmax": lambda draw, pool: _applied("softmax", _vector(draw, pool)),
    "log_softmax": lambda draw, pool: _applied("log_softmax", _vector(draw, pool)),
    "gather": _gathered,
    "scatter": _scattered,
    "flat_index": _flat_pick,
    "argsort": _extremum(structural.sort, np.sort),
    "argmax": _extremum(structural.maximum_along, np.max),
    "argmin": _extremum(structural.minimum_along, np.min),
    "cumulative_sum": lambda draw, pool: _applied("cumulative_sum", _vector(draw, pool)),
    "cumulative_product": lambda draw, pool: _applied("cumulative_product", _vector(draw, pool)),
    "product": lambda draw, pool: _applied("product", _vector(draw, pool)),
    "path_products": _paths,
}


def draw_application(draw: Draw, pool: Sequence[Term]) -> Term:
    """Any record of the operation table."""
    return APPLICATIONS[draw(st.sampled_from(sorted(OPERATIONS)))](draw, pool)


def draw_formula(draw: Draw, pool: Sequence[Term]) -> Term:
    """What is built from records: layer norm, sliding windows, triangles."""
    kind = draw(st.sampled_from(["layer_norm", "unfold", "tril", "triu"]))
    if kind == "layer_norm":
        term = _vector(draw, pool)
        centred = term.value - term.value.mean(-1, keepdims=True)
        value = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 0.1)
        return Term(normalization.layer_norm(term.node, 0.1), value)
    if kind == "unfold":
        term = _vector(draw, pool)
        window = draw(st.integers(1, min(2, term.shape[0])))
        value = np.lib.stride_tricks.sliding_window_view(term.value, window, 0)
        return Term(structural.unfold(term.node, 0, window), value) if value.size <= LARGEST_TENSOR else term
    term, offset = _matrix(draw, pool), draw(st.integers(-1, 1))
    return Term(getattr(structural, kind)(term.node, offset), getattr(np, kind)(term.value, offset))


STEPS = [
    draw_elementwise,
    draw_elementwise,
    draw_einsum,
    draw_einsum,
    draw_application,
    draw_application,
    draw_sum,
    draw_product,
    draw_view,
    draw_concatenation,
    draw_formula,
]


class Graph(NamedTuple):
    """A random expression: its variables with their values, and its output."""

    inputs: tuple[Term, ...]
    output: Term


@st.composite
def graphs(draw: Draw) -> Graph:
    """Two variables and up to eight steps, each from any of the terms before it, the last preferred."""
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    shapes = [draw(st.sampled_from(SHAPES)) for _ in range(2)]
    inputs = tuple(
        Term(variable(name, shape), generator.uniform(-1.5, 1.5, shape))
        for name, shape in zip("xy", shapes, strict=True)
    )
    pool = list(inputs)
    for _ in range(draw(st.integers(1, MOST_STEPS))):
        step = draw(st.sampled_from(STEPS))
        pool.append(tamed(step(draw, [*pool[-3:], *inputs])))
    return Graph(inputs, _small(pool[-1], generator))


def _small(term: Term, generator: np.random.Generator) -> Term:
    """Few enough entries for second derivatives: weighted sums of the others."""
    if term.value.size <= LARGEST_OUTPUT:
        return term
    rank = len(term.shape)
    weights = generator.uniform(-1.0, 1.0, (2, *term.shape))
    axes = [label_axis(k) for k in range(rank + 1)]
    node = einsum([constant(weights), term.node], [axes, axes[1:]], axes[:1], (2,), (2, *term.shape))
    return Term(node, np.tensordot(weights, term.value, rank))


def evaluate(node: Node, values: dict[str, np.ndarray]) -> np.ndarray:
    """The value by the compiled program."""
    names = list(values)
    return compile_program(make_plan([node]), names, np.dtype(float)).function(*values.values())[0]


def test_every_record_can_be_drawn() -> None:
    assert set(APPLICATIONS) == set(OPERATIONS)


@settings(
    max_examples=200,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(graphs())
def test_values_and_derivatives_of_random_graphs(graph: Graph) -> None:
    values = {term.node.name: term.value for term in graph.inputs}  # type: ignore[attr-defined]
    variables = [term.node for term in graph.inputs]
    (simplified,) = simplify([graph.output.node])
    note(f"expression {simplified!r} at {values}")
    assert_close(naive.evaluate(graph.output.node, values), graph.output.value, "as constructed")
    assert_close(naive.evaluate(simplified, values), graph.output.value, "simplified")
    assert_close(evaluate(graph.output.node, values), graph.output.value, "compiled as constructed")
    assert_close(evaluate(simplified, values), graph.output.value, "compiled")
    first = _check_order(graph.output.node, variables, values, graph.output.node, "order 1")
    for position, derivative in enumerate(first):
        _check_order(derivative, variables[position:], values, derivative, f"order 2 after {position}")


def _check_order(
    node: Node, variables: Sequence[Node], values: dict[str, np.ndarray], lower: Node, what: str
) -> list[Node]:
    """The derivatives of a node in every mode, compiled and naive, and against differences of the node."""
    generator = np.random.default_rng(0)
    found = {mode: differentiate(node, variables, mode) for mode in (*MODES, "auto")}
    for position, wanted in enumerate(variables):
        reference = naive.evaluate(found["auto"][position], values)
        for mode, derivatives in found.items():
            text = f"{what} by {wanted.name}, {mode}"  # type: ignore[attr-defined]
            assert_close(evaluate(derivatives[position], values), reference, f"{text}, compiled")
            if mode != "auto":
                assert_close(naive.evaluate(derivatives[position], values), reference, f"{text}, naive")

        def displaced(point: np.ndarray, name: str = wanted.name) -> np.ndarray:  # type: ignore[attr-defined]
            return evaluate(lower, {**values, name: point})

        assert_matches_differences(displaced, reference, values[wanted.name], generator, what)  # type: ignore[attr-defined]
    return found["auto"]
