"""Every rule: its law, where it fires and with what result, equal values, and where it must not fire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import hesse
import naive
from hesse.backends.numpy import make_plan
from hesse.ir import Add, Einsum, Map, Node, delta, topological
from hesse.plan.program import Contract
from hesse.rewrite import (
    matrix_rules,
    root_rules,
    rules,
    scatter_rules,
    shift_rules,
    simplify,
    softmax_rules,
)
from hesse.rewrite.factor import LARGEST_SUM, factor
from hesse.rewrite.rules import Rule
from oracles import assert_close

x, y, z = (hesse.variable(name, (3,)) for name in "xyz")
a, b, s = (hesse.variable(name, (3, 4)) for name in ("A", "B", "S"))
square = hesse.variable("Q", (3, 3))
ROWS = np.array([2, 0, 2, 1])
RULES = (
    *rules.RULES,
    *softmax_rules.SOFTMAX_RULES,
    *shift_rules.NORMALISATION_RULES,
    *shift_rules.SHIFT_RULES,
    *scatter_rules.SCATTER_RULES,
    *root_rules.ROOT_RULES,
    *matrix_rules.MATRIX_RULES,
)
inv = np.linalg.inv
root, below = 1 / np.sqrt(1 + 3 * x * x), 1 / (2 + y)


class Example(NamedTuple):
    """An expression, what the rule makes of it, and expressions that only look like it."""

    rule: Rule
    before: Any
    after: Any
    near_misses: tuple[Any, ...]


EXAMPLES = [
    Example(
        rules.log_of_one_plus_exp,
        np.log(1 + np.exp(x)),
        hesse.softplus(x),
        (np.log(2 + np.exp(x)), np.log(1 - np.exp(x)), np.log(1 + np.exp(x) + y), np.exp(1 + np.exp(x))),
    ),
    Example(
        rules.log_of_one_plus_exp,
        np.log(np.exp(a.T) + 1),
        hesse.softplus(a.T),
        (np.log(1 + np.exp(x) * y), np.log(1 + np.exp(x) * 2)),
    ),
    Example(
        rules.log1p_of_exp,
        np.log1p(np.exp(x)),
        hesse.softplus(x),
        (np.log1p(2 * np.exp(x)), np.log1p(x), np.log1p(np.exp(x) + 1), np.log(np.exp(x))),
    ),
    Example(
        softmax_rules.log_of_added_exps,
        np.log(np.exp(x) + np.exp(y)),
        np.logaddexp(x, y),
        (np.log(np.exp(x) - np.exp(y)), np.log(np.exp(x) + y), np.log(x + y), np.log(np.exp(x) - 0.1)),
    ),
    Example(
        softmax_rules.log_of_added_exps,
        np.log(2 * np.exp(x) + 3),
        np.logaddexp(np.log(3.0) * np.ones(3), x + np.log(2.0)),
        (np.log(3 - 2 * np.exp(x)), np.log(np.exp(x) * np.exp(y) + y)),
    ),
    Example(
        softmax_rules.log_of_added_exps,
        np.log(np.exp(x) + np.sum(np.exp(a), axis=1)),
        np.logaddexp(x, hesse.logsumexp(a, axis=1)),
        (np.log(np.exp(x) + np.sum(a, axis=1)),),
    ),
    Example(
        rules.log_of_exp,
        np.log(np.exp(x)),
        x,
        (np.log(np.exp(x) * y), np.log1p(np.exp(x)), np.exp(np.log(x)), np.log(np.sum(np.exp(x)))),
    ),
    Example(rules.log_of_exp, np.log(np.exp(a)[1:, 0]), a[1:, 0], (np.log(2 * np.exp(a)[1:, 0]),)),
    Example(rules.exp_of_log, np.exp(np.log(x)), x, (np.exp(2 * np.log(x)), np.log(np.exp(x)), np.expm1(x))),
    Example(
        rules.reciprocal_of_reciprocal,
        1 / (1 / x),
        x,
        (1 / (1 / x + 1), 1 / (2 / (x + y)) + 1, 1 / np.sqrt(1 / x)),
    ),
    Example(
        rules.reciprocal_of_one_plus_exp,
        1 / (1 + np.exp(x)),
        hesse.sigmoid(-x),
        (1 / (1 - np.exp(x)), 1 / (2 + np.exp(x)), 1 / (1 + x), np.sqrt(1 + np.exp(x))),
    ),
    Example(
        softmax_rules.log_of_sum_of_exp,
        np.log(np.sum(np.exp(a), axis=1)),
        hesse.logsumexp(a, axis=1),
        (
            np.log(-np.sum(np.exp(a), axis=1)),
            np.log(np.sum(a, axis=1)),
            np.log(np.exp(a)),
            np.log(a @ np.exp(a[0])),
        ),
    ),
    Example(
        softmax_rules.log_of_sum_of_exp,
        np.log(np.mean(np.exp(a))),
        hesse.logsumexp(a, axis=(0, 1)) - np.log(12.0),
        (np.log(np.sum(np.exp(a) * b)),),
    ),
    Example(
        softmax_rules.log_of_sum_of_exp,
        np.log(np.sum(np.exp(x)[1:])),
        hesse.logsumexp(x[1:]),
        (np.log(np.sum(1 + np.exp(x))),),
    ),
    Example(
        softmax_rules.log_of_softmax,
        np.log(hesse.softmax(x)),
        hesse.log_softmax(x),
        (
            np.log(2 * hesse.softmax(a)[:, 0]),
            np.log1p(hesse.softmax(x)),
            np.log(np.sum(hesse.softmax(a), axis=0)),
        ),
    ),
    Example(
        softmax_rules.log_of_softmax,
        np.log(hesse.softmax(a)[1:, ::2].T),
        hesse.log_softmax(a)[1:, ::2].T,
        (np.log(hesse.softmax(x) * y),),
    ),
    Example(
        softmax_rules.log_of_picked_softmax,
        np.log(hesse.softmax(x)[ROWS]),
        hesse.log_softmax(x)[ROWS],
        (np.log(x[ROWS]), np.log(2 * hesse.softmax(x)[ROWS]), np.exp(hesse.softmax(x)[ROWS])),
    ),
    Example(
        rules.log_of_sigmoid,
        np.log(hesse.sigmoid(x)),
        -hesse.softplus(-x),
        (np.log(2 * hesse.sigmoid(x)), np.log1p(hesse.sigmoid(x)), np.exp(hesse.sigmoid(x))),
    ),
    Example(
        rules.one_minus_sigmoid,
        1 - hesse.sigmoid(x),
        hesse.sigmoid(-x),
        (
            1 + hesse.sigmoid(x),
            2 - hesse.sigmoid(x),
            1 - 2 * hesse.sigmoid(x),
            1 - hesse.sigmoid(x) + y,
            1 - x,
        ),
    ),
    Example(
        rules.exp_times_sigmoid,
        np.exp(x) * hesse.sigmoid(-x),
        hesse.sigmoid(x),
        (np.exp(x) * hesse.sigmoid(x), np.exp(x) * hesse.sigmoid(-y), np.exp(-x) * hesse.sigmoid(-x)),
    ),
    Example(
        rules.exp_times_sigmoid,
        hesse.einsum("i,i,i->", y, np.exp(x), hesse.sigmoid(-x)),
        hesse.einsum("i,i->", y, hesse.sigmoid(x)),
        (np.outer(np.exp(x), hesse.sigmoid(-x)), np.exp(x) * hesse.sigmoid(-x)[::-1]),
    ),
    Example(
        softmax_rules.exp_inside_a_product,
        y * np.exp(x) * hesse.sigmoid(-x),
        y * hesse.sigmoid(x),
        (y * np.exp(x) * hesse.sigmoid(x), (y + np.exp(x)) * hesse.sigmoid(-x), y * np.exp(x) * np.sin(-x)),
    ),
    Example(
        softmax_rules.exp_inside_a_product,
        np.exp(x) * y * z * hesse.sigmoid(-x),
        hesse.einsum("i,i,i->i", y, z, hesse.sigmoid(x)),
        (np.exp(x[::-1]) * y * z * hesse.sigmoid(-x),),
    ),
    Example(
        softmax_rules.exp_inside_a_product,
        np.sum(b * np.exp(a)) / np.mean(np.exp(a)),
        12 * hesse.einsum("ij,ij->", b, np.reshape(hesse.softmax(np.ravel(a)), (3, 4))),
        (np.sum(b * np.exp(a)) / np.sum(b * np.exp(a)),),
    ),
    Example(
        rules.sqrt_times_sqrt,
        np.sqrt(x) * np.sqrt(x),
        x,
        (np.sqrt(x) * np.sqrt(y), np.outer(np.sqrt(x), np.sqrt(x)), np.sqrt(x) * np.sqrt(x)[::-1]),
    ),
    Example(
        rules.power_of_sqrt,
        np.sqrt(x) ** -6,
        x**-3.0,
        (np.sqrt(x) ** -3, x**-6.0, np.sqrt(x) ** y, np.exp(x) ** -6.0),
    ),
    Example(rules.power_of_sqrt, np.sqrt(x) ** -2, 1 / x, ()),
    Example(
        rules.abs_times_abs,
        np.abs(x) * np.abs(x),
        x**2,
        (np.abs(x) * np.abs(y), np.outer(np.abs(x), np.abs(x)), np.abs(x) * np.abs(x)[::-1]),
    ),
    Example(
        rules.power_of_abs,
        np.abs(x) ** -12.0,
        x**-12.0,
        (np.abs(x) ** -3.0, x**-6.0, np.abs(x) ** y, np.exp(x) ** -6.0, np.abs(x) ** 0.5),
    ),
    Example(
        rules.function_of_blocks,
        np.exp(np.concatenate([x, 2 * y])),
        np.concatenate([np.exp(x), np.exp(2 * y)]),
        (np.exp(np.pad(x, 2)), np.exp(x + y), np.exp(np.diag(x) + np.diag(y[:2], 1))),
    ),
    Example(
        rules.function_of_blocks,
        np.sin(np.pad(x, (0, 4)) + np.pad(y, (4, 0))),
        np.pad(np.sin(x), (0, 4)) + np.pad(np.sin(y), (4, 0)),
        (np.cos(np.pad(x, (0, 4)) + np.pad(y, (4, 0))), np.sin(np.pad(x, (0, 2)) + np.pad(y, (2, 0)))),
    ),
    Example(
        softmax_rules.exp_of_part_over_sum_of_exp,
        np.exp(x[1]) / np.sum(np.exp(x)),
        np.exp(x)[1] / np.sum(np.exp(x)),
        (np.exp(y[1]) / np.sum(np.exp(x)), np.exp(2 * x[1]) / np.sum(np.exp(x)), np.exp(x[1]) / np.sum(x)),
    ),
    Example(
        softmax_rules.exp_over_sum_of_exp,
        np.exp(x) / np.sum(np.exp(x)),
        hesse.softmax(x),
        (
            np.exp(y) / np.sum(np.exp(x)),
            np.exp(x) / np.sum(np.exp(x)[1:]),
            np.exp(x) / np.sum(np.exp(2 * x)),
            np.exp(x) * np.sum(np.exp(x)),
            np.exp(x) / (1 + np.sum(np.exp(x))),
        ),
    ),
    Example(
        softmax_rules.exp_over_sum_of_exp,
        np.exp(a) / np.sum(np.exp(a), axis=0),
        hesse.softmax(a, axis=0),
        (
            np.exp(square) / np.sum(np.exp(square), axis=1),  # rows divided by the sums of columns
            np.exp(a) / np.trace(np.exp(a)),
        ),
    ),
    Example(
        rules.one_plus_tanh,
        1 + np.tanh(x),
        2 * hesse.sigmoid(2 * x),
        (1 + 2 * np.tanh(x), 1 + np.tanh(x) + y, y + np.tanh(x), 1 - np.tanh(x) * np.tanh(x)),
    ),
    Example(
        rules.one_plus_tanh,
        3 - 3 * np.tanh(2 * x),
        6 * hesse.sigmoid(-4 * x),
        (2 - 3 * np.tanh(x), np.tanh(x) - np.tanh(y)),
    ),
    Example(
        root_rules.cancelled_over_sum,
        7 * root - 21 * (x * root * (root * root) * x),
        7 * np.einsum("i,i,i->i", root, root, root),
        (
            7 * root - 22 * (x * root * (root * root) * x),
            7 * root - 21 * (y * root * (root * root) * x),
            7 * root - 21 * (x * (root * root) * x),
        ),
    ),
    Example(
        root_rules.cancelled_over_sum,
        z * below - z * below * below * y,
        2 * np.einsum("i,i,i->i", z, below, below),
        (
            z * below + z * below * below * y,
            z * below - below * below * y,
            z * below - z * below * y,
            z / (x + y) - z / (x + y) / (x + y) * y,
        ),
    ),
    Example(
        softmax_rules.exp_of_log_softmax,
        np.exp(hesse.log_softmax(a)[1:].T),
        hesse.softmax(a)[1:].T,
        (np.exp(2 * hesse.log_softmax(x)), np.exp(hesse.softmax(x)), np.expm1(hesse.log_softmax(x))),
    ),
    Example(
        shift_rules.shift_of_softmax,
        hesse.softmax(a - np.max(a, axis=1, keepdims=True)),
        hesse.softmax(a),
        (hesse.softmax(a - np.max(a, axis=0)), hesse.softmax(a * b), hesse.logsumexp(a - x[:, None], 1)),
    ),
    Example(
        shift_rules.shift_of_softmax,
        hesse.log_softmax(2 * (b * y[:, None] + (a - np.max(a, axis=1)[:, None])) * y[:, None]),
        hesse.log_softmax(2 * (b * y[:, None] + a) * y[:, None]),
        (
            hesse.log_softmax(2 * x),
            hesse.log_softmax((square - y[:, None]) * x),
            hesse.softmax(a - x[:, None]),
        ),
    ),
    Example(
        shift_rules.other_axes_of_softmax,
        hesse.softmax(a[:, None, :]),
        hesse.softmax(a)[:, None, :],
        (hesse.softmax(a.T), hesse.softmax(x), hesse.logsumexp(a, axis=1)),
    ),
    Example(
        shift_rules.other_axes_of_softmax,
        hesse.logsumexp(np.einsum("ij,k->jik", a, y)[:, :, ::-1] + 0 * x[None, :, None], axis=2),
        hesse.logsumexp(np.einsum("ij,k->ijk", a, y)[:, :, ::-1], axis=2).T,
        (hesse.logsumexp(np.einsum("ij,k->ijk", a, y), axis=2),),
    ),
    Example(
        shift_rules.difference_from_logsumexp,
        a - hesse.logsumexp(a, axis=0),
        hesse.log_softmax(a, axis=0),
        (
            a - hesse.logsumexp(b, axis=0),
            a + hesse.logsumexp(a, axis=0),
            square - hesse.logsumexp(square, axis=1),
            square.T - hesse.logsumexp(square, axis=0),
        ),
    ),
    Example(
        shift_rules.difference_from_logsumexp,
        3 * hesse.logsumexp(a) - 3 * a,
        -3 * np.reshape(hesse.log_softmax(np.ravel(a)), (3, 4)),
        (2 * hesse.logsumexp(a) - 3 * a, hesse.logsumexp(x) - y),
    ),
    Example(
        shift_rules.picked_from_logsumexp,
        square[[0, 1, 2], [2, 0, 2]] - hesse.logsumexp(square, axis=1),
        hesse.log_softmax(square)[[0, 1, 2], [2, 0, 2]],
        (
            square[[0, 1, 1], [2, 0, 2]] - hesse.logsumexp(square, axis=1),
            square[[0, 1, 2], [2, 0, 2]] - hesse.logsumexp(square, axis=0),
            2 * square[[0, 1, 2], [2, 0, 2]] - hesse.logsumexp(square, axis=1),
        ),
    ),
    Example(
        scatter_rules.sum_of_scattered,
        2 * y * np.sum(np.bincount([2, 0, 2], weights=x, minlength=4)),
        2 * y * np.sum(x),
        (
            np.bincount([2, 0, 2], weights=x, minlength=4),
            np.sum(np.bincount([2, 0, 2], weights=x, minlength=4)[1:]),
            np.sum(np.bincount([2, 0, 2], weights=x, minlength=3) * y),
        ),
    ),
    Example(
        scatter_rules.sum_of_scattered_row,
        y * np.sum(np.reshape(np.bincount([2, 3, 8], weights=x, minlength=9), (3, 3)), 1),
        y * x,
        (
            np.sum(np.reshape(np.bincount([2, 3, 8], weights=x, minlength=9), (3, 3)), 0),
            np.sum(np.reshape(np.bincount([2, 2, 8], weights=x, minlength=9), (3, 3)), 1),
            np.sum(np.reshape(np.bincount([2, 3, 8], weights=x, minlength=12), (3, 4)), 1),
            np.sum(np.reshape(np.bincount([2, 3, 8], weights=x, minlength=9), (3, 3)) * square, 1),
        ),
    ),
    Example(
        shift_rules.shift_beside_logsumexp,
        hesse.logsumexp(a - np.max(a, axis=1)[:, None], axis=1) + np.max(a, axis=1),
        hesse.logsumexp(a, axis=1),
        (
            hesse.logsumexp(a - x[:, None], axis=1) + x,
            hesse.logsumexp(a - x[:, None], axis=1) + y,
            hesse.logsumexp(square - x, axis=1) + x,
            hesse.logsumexp(square - x[:, None], axis=0) + x,
        ),
    ),
    Example(
        shift_rules.shift_beside_logsumexp,
        np.sum(hesse.logsumexp(a - np.max(a, axis=1)[:, None], axis=1)) + np.sum(np.max(a, axis=1)),
        np.sum(hesse.logsumexp(a, axis=1)),
        (np.sum(hesse.logsumexp(a - x[:, None], axis=1)) + np.sum(y),),
    ),
    Example(
        matrix_rules.inverse_of_inverse,
        inv(inv(square)),
        square,
        (inv(square), inv(square @ inv(square)), inv(2 * inv(square))),
    ),
    Example(
        matrix_rules.inverse_of_transpose,
        inv(square.T),
        inv(square).T,
        (inv(square), inv(square + square.T), inv(2 * square.T)),
    ),
    Example(
        matrix_rules.determinant_of_inverse,
        np.linalg.det(inv(square)),
        1 / np.linalg.det(square),
        (np.linalg.det(square), np.linalg.det(2 * inv(square))),
    ),
    Example(
        matrix_rules.determinant_of_transpose,
        np.linalg.det(square.T),
        np.linalg.det(square),
        (np.linalg.det(square), np.linalg.det(square @ square.T)),
    ),
    Example(
        matrix_rules.log_determinant_of_inverse,
        hesse.logdet(inv(square)),
        -hesse.logdet(square),
        (hesse.logdet(square), hesse.logdet(2 * inv(square))),
    ),
    Example(
        matrix_rules.log_determinant_of_transpose,
        hesse.logdet(square.T),
        hesse.logdet(square),
        (hesse.logdet(square), hesse.logdet(square @ square.T)),
    ),
    Example(
        matrix_rules.inverse_times_matrix,
        inv(square) @ square @ x,
        x,
        (
            inv(square).T @ square @ x,
            inv(square) @ square.T @ x,
            inv(square) * square,
            np.einsum("ij,jk,j->ik", inv(square), square, x),
            inv(square) @ inv(square),
            inv(square)[:2] @ square,
        ),
    ),
    Example(matrix_rules.inverse_times_matrix, square @ (inv(square) @ a), a, (inv(square) @ a,)),
    Example(matrix_rules.inverse_times_matrix, square.T @ (inv(2 * square).T @ a), 0.5 * a, ()),
    Example(
        matrix_rules.inverse_times_matrix,
        np.einsum("ij,jk,lk->il", inv(a @ a.T), a, a),
        hesse.Expression(delta((3,))),
        (
            np.einsum("ij,jk,kl->il", inv(square @ square.T), square, square),
            np.einsum("ij,jk,lk->ilk", inv(a @ a.T), a, a),
            np.einsum("kj,jk,lk->l", inv(square @ square.T), square, square),
            np.einsum("ij,jk,lk->il", inv(a @ a.T), a[:, 1:], a[:, 1:]),
            np.einsum("ij,jk,lk->il", inv(a @ a.T), a, b),
        ),
    ),
    Example(
        matrix_rules.inverse_times_matrix,
        np.trace(square @ inv(square + square.T) @ (square + square.T)),
        np.trace(square),
        (),
    ),
]
IDS = [f"{example.rule.__name__}-{k}" for k, example in enumerate(EXAMPLES)]


def values(seed: int = 0) -> dict[str, np.ndarray]:
    """Positive numbers, so that every side of every law is defined."""
    generator = np.random.default_rng(seed)
    shapes = {variable.node.name: variable.shape for variable in (x, y, z, a, b, s, square)}
    return {name: generator.uniform(0.2, 1.5, shape) for name, shape in shapes.items()}


def test_every_rule_has_an_example_and_every_example_a_rule() -> None:
    assert {example.rule for example in EXAMPLES} == set(RULES)
    assert len(set(RULES)) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_states_its_law(rule: Rule) -> None:
    law = (rule.__doc__ or "").splitlines()[0]
    assert "=" in law
    assert law.endswith(".")


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_rule_fires_with_the_expected_result(example: Example) -> None:
    found = example.rule(example.before.node)
    assert found is not None
    assert found is example.after.node, f"{hesse.Expression(found)} instead of {example.after}"


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_both_sides_have_the_same_value(example: Example) -> None:
    for seed in range(3):
        given = values(seed)
        before, after = (naive.evaluate(side.node, given) for side in (example.before, example.after))
        assert_close(after, before, "evaluated by definition", 1e-12)
        assert_close(example.before.evaluate(**given), before, "compiled", 1e-12)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_rule_does_not_fire_on_near_misses(example: Example) -> None:
    for miss in example.near_misses:
        assert example.rule(miss.node) is None, str(miss)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_near_misses_keep_their_values_when_simplified(example: Example) -> None:
    for miss in example.near_misses:
        given = values()
        (simpler,) = simplify([miss.node])
        assert_close(naive.evaluate(simpler, given), naive.evaluate(miss.node, given), str(miss), 1e-12)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_simplify_applies_the_rule_anywhere(example: Example) -> None:
    inside = np.sum(np.tanh(example.before) * 0.5)
    expected = np.sum(np.tanh(example.after) * 0.5)
    assert simplify([inside.node]) == simplify([expected.node])


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_simplifying_twice_changes_nothing(example: Example) -> None:
    once = simplify([example.before.node])
    assert simplify(once) == once


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_rule_fires_on_leaves(rule: Rule) -> None:
    for leaf in (x, hesse.constant(np.arange(3.0)), hesse.constant(1.0), x @ y, x + y):
        assert rule(leaf.node) is None


# Factoring.


def contractions(nodes: Sequence[Node]) -> list[Contract]:
    return [item for item in make_plan(nodes).instructions if isinstance(item, Contract)]


def matrix_products(node: Node) -> int:
    """Products that sum over a label and leave two."""
    return sum(
        len(item.labels) > 1 and {*item.left_labels, *item.right_labels} > set(item.labels)
        for item in contractions([node])
    )


FACTORED: dict[str, tuple[Any, int]] = {
    "X'·D1·X + X'·D2·X": ((a.T * x) @ a + (a.T * y) @ a, 1),
    "X'·D1·X - 2 X'·D2·X": ((a.T * x) @ a - 2 * (a.T * y) @ a, 1),
    "three weights": ((a.T * x) @ a + (a.T * y) @ a + (a.T * z) @ a, 1),
    "A'·B + A'·S": (a.T @ b + a.T @ s, 1),
    "B·A' + S·A'": (b @ a.T + s @ a.T, 1),
    "A'·B + A'·S + B'·B": (a.T @ b + a.T @ s + b.T @ b, 2),
    "nothing in common": (a.T @ b + s.T @ s, 2),
    "a product and its transpose": (a.T @ b + b.T @ a, 1),
}


@pytest.mark.parametrize("name", FACTORED)
def test_common_factors_are_multiplied_once(name: str) -> None:
    expression, products = FACTORED[name]
    (node,) = simplify([expression.node])
    assert matrix_products(node) == products
    given = values()
    assert_close(naive.evaluate(node, given), naive.evaluate(expression.node, given), name, 1e-12)


def test_the_residual_is_formed_before_it_is_multiplied() -> None:
    """A'(Ax) - A'y = A'(Ax - y): two products by the matrix, not three."""
    w = hesse.variable("w", (4,))
    (node,) = simplify([(a.T @ (a @ w) - a.T @ y).node])
    assert isinstance(node, Einsum)
    assert [type(operand) for operand in node.operands if operand.rank == 1] == [Add]
    assert len(contractions([node])) == 2


def test_least_squares_gradient_is_factored() -> None:
    report = hesse.grad(lambda w, m, t: np.sum((m @ w - t) ** 2)).explain(
        np.ones(4), np.ones((6, 4)), np.ones(6)
    )
    assert len(report.contractions) == 2


def test_a_product_that_is_used_elsewhere_is_not_factored_away() -> None:
    shared = a.T @ b
    roots = simplify([(shared + a.T @ s).node, np.sin(shared).node])
    assert shared.node in topological(roots), "the shared product stays a node"
    assert len(contractions(roots)) == 2


def test_factoring_refuses_what_does_not_fit() -> None:
    def unchanged(*terms: Any) -> bool:
        nodes = [term.node for term in terms]
        return factor(nodes, terms[0].shape) == nodes

    assert unchanged(x, y), "no products"
    assert unchanged(np.outer(x, y), np.outer(y, x)), "the same factors in other places"
    assert unchanged(np.diag(x * y), np.diag(x * z)), "sparse terms are merged by their pattern instead"
    assert unchanged(a.T @ a, a.T @ a * 1.0 + 0 * a.T @ a), "equal terms leave nothing to add"
    many = [x * hesse.variable(f"v{k}", (3,)) for k in range(LARGEST_SUM + 1)]
    assert unchanged(*many), "the search is quadratic, so long sums are left alone"
    assert not unchanged(*many[:LARGEST_SUM])


def test_stable_forms_are_found_inside_a_program() -> None:
    """The rules work on what users write, whatever is around it."""

    def loss(w: Any) -> Any:
        margins = a.evaluate(**values()).T @ w
        return np.mean(np.log(np.exp(-margins) + 1)) + 0.1 * np.sum(1 / (1 + np.exp(w)))

    report = hesse.value_and_grad(loss).explain(np.ones(3))
    names = {node.name for node in topological(report.roots) if isinstance(node, Map)}
    assert names == {"softplus", "sigmoid"}


def test_laws_have_one_direction() -> None:
    """No rule undoes another: the result of each is not the beginning of a cycle."""
    for example in EXAMPLES:
        node: Node | None = example.before.node
        seen: list[Node] = []
        while node is not None:
            assert node not in seen
            seen.append(node)
            node = next((found for rule in RULES if (found := rule(node)) is not None), None)


def test_rules_are_functions_of_one_node() -> None:
    rule: Callable[[Node], Node | None]
    for rule in RULES:
        assert rule.__code__.co_argcount == 1


def test_functions_of_overlapping_placements_are_not_taken_apart() -> None:
    """Several products are added into one entry of a convolution: a function of it is not one of each."""
    x = np.linspace(-1.0, 2.0, 12).reshape(4, 3)

    def f(x: Any) -> Any:
        return np.sum(np.sin(np.stack([np.convolve(x[0], x[1]), np.convolve(x[2], x[3])])))

    np.testing.assert_allclose(hesse.compile(f)(x), f(x))
    assert hesse.check(f, x).ok


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_second_derivative_of_a_root_far_from_its_bend(backend: str) -> None:
    """`1/r - x*x/r^3` loses all digits there; it is `1/r^3`."""
    t = np.array([1e-3, 1.0, 1e4, 1e9])
    second = hesse.hessian(lambda t: np.sum(np.sqrt(1 + 4 * t * t)), backend=backend)
    for _ in range(2):
        np.testing.assert_allclose(np.diag(second(t)), 4 / np.hypot(1.0, 2 * t) ** 3, rtol=1e-14)
