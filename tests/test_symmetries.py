"""Symmetries that are read off expressions: what is found is true of the values, and products keep theirs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hesse
import naive
from hesse.backends.numpy import compile_program, make_plan
from hesse.ir import (
    Axis,
    Einsum,
    Node,
    add,
    core_and_pattern,
    einsum,
    is_zero,
    label_axis,
    symmetries,
    transpose,
    variable,
)
from hesse.ops.registry import elementwise, operation
from hesse.rewrite import simplify
from oracles import assert_close, assert_matches_differences
from test_random_graphs import OTHERS, ROWS, Picker, Term, draw_einsum, tamed

ROW, COLUMN, SUMMED = map(label_axis, range(3))
SIZE = 4
ATTRIBUTES: dict[str, float] = {"symmetric": 1.0, "antisymmetric": -1.0, "": 0.0}


def matrix_term(pick: Picker, name: str) -> Term:
    """A variable that is symmetric, antisymmetric or neither."""
    attribute = pick.one(list(ATTRIBUTES))
    value = pick.array((SIZE, SIZE), 1.0)
    node = variable(name, (SIZE, SIZE), {attribute} if attribute else ())
    return Term(node, value + ATTRIBUTES[attribute] * value.T)


def folded(pick: Picker, pool: list[Term]) -> Term:
    """A matrix plus or minus its transpose."""
    square = [term for term in pool if len(term.shape) == 2 and term.shape[0] == term.shape[1]]
    if not square:
        return pick.one(pool)
    term, sign = pick.one(square), pick.one([1.0, -1.0])
    node = add([term.node, transpose(term.node, [1, 0]) * sign], term.shape)
    return Term(node, term.value + sign * term.value.T)


def values_of(node: Node, values: dict[str, np.ndarray]) -> np.ndarray:
    program = compile_program(make_plan([node]), [*values], np.dtype(float))
    return program.function(*values.values())[0]


@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(2, 6))
def test_random_products_of_symmetric_and_antisymmetric_operands(seed: int, steps: int) -> None:
    pick = Picker(seed, largest=36)
    inputs = [matrix_term(pick, name) for name in "xyz"]
    pool = list(inputs)
    for _ in range(steps):
        step = pick.one([draw_einsum, draw_einsum, folded, folded, OTHERS["view"], ROWS["sin"]])
        pool.append(tamed(step(pick, pool[-4:])))
    values = {term.node.name: term.value for term in inputs}
    for term in pool:
        for positions, sign in symmetries(term.node):
            for first, second in itertools.combinations(positions, 2):
                assert_close(np.swapaxes(term.value, first, second), sign * term.value, "swapped")
        assert_close(naive.evaluate(term.node, values), term.value, "as constructed")
        assert_close(values_of(term.node, values), term.value, "compiled")
        assert_close(values_of(simplify([term.node])[0], values), term.value, "simplified")


def antisymmetric(generator: np.random.Generator) -> np.ndarray:
    value = generator.normal(size=(SIZE, SIZE))
    return value - value.T


def test_a_block_beside_the_diagonal_of_an_antisymmetric_matrix_has_a_sum() -> None:
    """Read the other way it has the same axes, but other ranges: it is not its own negative."""
    value = antisymmetric(np.random.default_rng(0))
    node = einsum([variable("A", (SIZE, SIZE), {"antisymmetric"})], [[ROW, COLUMN]], [], (), (2, 3))
    np.testing.assert_allclose(naive.evaluate(node, {"A": value}), value[:2, :3].sum())
    square = einsum([variable("A", (SIZE, SIZE), {"antisymmetric"})], [[ROW, COLUMN]], [], (), (3, 3))
    assert is_zero(square)


def test_blocks_of_a_symmetric_matrix_merge_with_their_mirror_images() -> None:
    matrix = variable("A", (SIZE, SIZE), {"symmetric"})
    assert einsum([matrix], [[ROW, COLUMN]], [], (), (2, 3)) is einsum(
        [matrix], [[ROW, COLUMN]], [], (), (3, 2)
    )


def test_gradient_of_a_block_of_a_difference() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        return np.sum((x @ x - (x @ x).T)[:2, :3])

    generator = np.random.default_rng(1)
    point = generator.normal(size=(5, 5))
    assert_matches_differences(function, hesse.grad(function)(point), point, generator, "gradient")


def test_the_sign_of_a_core_is_kept() -> None:
    """The core of this product has an antisymmetric operand in the other order."""
    names = {"x": {"antisymmetric"}, "y": (), "z": {"antisymmetric"}}
    x, y, z = (variable(name, (SIZE, SIZE), attributes) for name, attributes in names.items())
    column, window = Axis((), 1), Axis(((0, 1), (3, 1)), 0)
    node = einsum(
        [x, y, z],
        [[SUMMED, COLUMN], [SUMMED, column], [window, COLUMN]],
        [ROW, COLUMN],
        (3, SIZE),
        (3, SIZE, SIZE, 2),
    )
    generator = np.random.default_rng(2)
    values = {
        "x": antisymmetric(generator),
        "y": generator.normal(size=(SIZE, SIZE)),
        "z": antisymmetric(generator),
    }
    assert isinstance(node, Einsum)
    core, _ = core_and_pattern(node)
    assert isinstance(core, Einsum) and core.scale == 1
    assert_close(values_of(node, values), naive.evaluate(node, values), "compiled")


def test_products_that_are_their_own_negative_are_zero() -> None:
    a, x = variable("A", ("n", "n"), {"antisymmetric"}), variable("x", ("n",))
    s = variable("S", ("n", "n"), {"symmetric"})
    assert is_zero(einsum([a], [[ROW, ROW]], [], (), ("n",)))
    assert is_zero(einsum([a, x, x], [[ROW, COLUMN], [ROW], [COLUMN]], [], (), ("n", "n")))
    assert is_zero(einsum([a, s], [[ROW, COLUMN], [ROW, COLUMN]], [], (), ("n", "n")))
    assert not is_zero(einsum([a, a], [[ROW, COLUMN], [ROW, COLUMN]], [], (), ("n", "n")))


@pytest.mark.parametrize("name", ["inverse", "pseudo_inverse"])
def test_operations_that_keep_symmetry(name: str) -> None:
    batch = variable("B", (2, SIZE, SIZE))
    symmetric = add([batch, transpose(batch, [0, 2, 1])], batch.shape)
    assert symmetries(operation(name, symmetric)) == (((1, 2), 1),)
    assert symmetries(operation(name, batch)) == ()


def test_functions_of_antisymmetric_matrices_have_no_symmetry() -> None:
    matrix = variable("A", (SIZE, SIZE), {"antisymmetric"})
    assert symmetries(matrix) == (((0, 1), -1),)
    assert symmetries(elementwise("exp", matrix)) == ()


def test_more_readings_than_are_searched_keep_the_value() -> None:
    """Six antisymmetric factors have 64 readings; those beyond the limit are read as they come."""
    generator = np.random.default_rng(3)
    names = [f"a{k}" for k in range(6)]
    values = {name: antisymmetric(generator) for name in names}
    factors = [variable(name, (SIZE, SIZE), {"antisymmetric"}) for name in names]
    axes = [[label_axis(k + 1), label_axis(k)] for k in range(6)]
    node = einsum(factors, axes, [label_axis(0), label_axis(6)], (SIZE, SIZE), (SIZE,) * 7)
    expected = np.linalg.multi_dot([values[name].T for name in names])
    assert_close(values_of(node, values), expected, "compiled")
