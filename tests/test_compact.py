"""Derivatives are as small as those an expert derives: gates on nodes, instructions and operations.

Nothing here measures time. Costs are compared with closed forms whose operations are counted as a program
counts them: two for each multiply-and-add, one for each entry of an element-wise step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.api.explain import Explanation
from hesse.backends.numpy import make_plan
from hesse.calculus import MODES
from hesse.ir import Add, Einsum, Map, Node, is_sparse, topological
from hesse.ops.registry import ELEMENTWISE
from hesse.plan import Program
from hesse.plan.program import Combine, Contract, Literal
from hesse.rewrite import simplify
from oracles import assert_close

ALL_MODES = ("auto", *MODES)
SLACK = 1.1
"""Programs may cost this much more than the closed form."""


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def instructions(program: Program, kind: type[Any]) -> list[Any]:
    return [item for item in program.instructions if isinstance(item, kind)]


def summed_labels(item: Contract) -> set[int]:
    return {*item.left_labels, *item.right_labels} - set(item.labels)


def matrix_products(program: Program) -> list[Contract]:
    """Products that sum over a label and leave two or more: matrix times matrix, or larger."""
    return [item for item in instructions(program, Contract) if summed_labels(item) and len(item.labels) > 1]


def terms(node: Node) -> tuple[Node, ...]:
    return node.operands if isinstance(node, Add) else (node,)


def repeats_a_label(node: Node) -> bool:
    """Whether two axes of the output share a label: a diagonal, a band, a unit tensor."""
    if not isinstance(node, Einsum):
        return False
    placed = [label for axis in node.output for label in axis.labels()]
    return len(set(placed)) < len(placed)


# Quadratic forms.


def quadratic(x: Any, A: Any) -> Any:
    return x @ A @ x


@pytest.mark.parametrize("mode", ALL_MODES)
def test_hessian_of_a_quadratic_form_is_the_matrix_and_its_transpose(mode: str) -> None:
    x, a = random(4), random(4, 4, seed=1)
    report = hesse.hessian(quadratic, mode=mode).explain(x, a)
    assert report.formula == "A + A'"
    assert report.nodes == 3
    assert report.contractions == ()
    assert not instructions(report.program, Contract)


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize(("symmetric", "expected"), [(False, "A + A'"), (True, "2*A")])
def test_hessian_of_a_symbolic_quadratic_form(symmetric: bool, expected: str, mode: str) -> None:
    a = hesse.variable("A", ("n", "n"), symmetric=symmetric)
    x = hesse.variable("x", ("n",))
    for form in (
        quadratic(x, a),
        hesse.einsum("i,ij,j->", x, a, x),
        np.sum(x * (a @ x)),
        np.sum((a @ x) * x),
    ):
        assert str(form.diff(x, x, mode=mode)) == expected


def test_a_constant_symmetric_matrix_is_added_to_nothing() -> None:
    a = hesse.variable("A", (5, 5), symmetric=True)
    x = hesse.variable("x", (5,))
    program = make_plan([quadratic(x, a).diff(x, x).node])
    assert program.total_flops == 25  # one multiplication by two for each entry
    assert not instructions(program, Contract)


# Matrix factorisation.

FACTORISATIONS: dict[str, Callable[..., Any]] = {
    "sum of squares": lambda u, v, t: np.sum((t - u @ v.T) ** 2),
    "norm squared": lambda u, v, t: np.linalg.norm(t - u @ v.T) ** 2,
    "residual times itself": lambda u, v, t: np.sum((t - u @ v.T) * (t - u @ v.T)),
    "trace": lambda u, v, t: np.trace((t - u @ v.T).T @ (t - u @ v.T)),
}


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("name", FACTORISATIONS)
def test_hessian_of_a_factorisation_is_one_einsum_with_a_repeated_label(name: str, mode: str) -> None:
    m, n, k = 12, 9, 4
    u, v, t = random(m, k), random(n, k, seed=1), random(m, n, seed=2)
    derivative = hesse.hessian(FACTORISATIONS[name], mode=mode)
    report = derivative.explain(u, v, t)
    (root,) = report.roots
    assert isinstance(root, Einsum), report.formula
    assert [operand.shape for operand in root.operands] == [(n, k), (n, k)]
    assert root.scale == 2
    assert root.output[0] == root.output[2], "the rows of U do not mix"
    assert len({root.output[k] for k in range(4)}) == 3
    assert report.flops <= SLACK * (2 * n * k * k + k * k)
    assert_close(derivative(u, v, t), 2 * np.einsum("ac,lb,ld->abcd", np.eye(m), v, v), name)


# Logistic regression.


def logistic_loss(w: Any, x: Any, y: Any) -> Any:
    return np.sum(np.log(np.exp(-y * (x @ w)) + 1))


def logistic_hessian_flops(m: int, n: int) -> float:
    """X'·diag(s(1-s)y²)·X: the margins y·Xw, two sigmoids, the weights, the scaled rows, one product."""
    margins = 2 * m * n + m
    weights = 2 * ELEMENTWISE["sigmoid"].flops * m + 3 * m
    return margins + weights + m * n + 2 * m * n * n


@pytest.mark.parametrize(("m", "n"), [(50, 20), (200, 5), (30, 60)])
def test_logistic_hessian_is_one_product(m: int, n: int) -> None:
    x, y, w = random(m, n), np.sign(random(m, seed=1)), random(n, seed=2)
    derivative = hesse.hessian(logistic_loss)
    report = derivative.explain(w, x, y)
    assert len(matrix_products(report.program)) == 1
    assert report.flops <= SLACK * logistic_hessian_flops(m, n)
    assert report.peak_bytes <= 8 * (SLACK * (m * n + n * n) + 10 * m)
    s = 1 / (1 + np.exp(-(y * (x @ w))))
    assert_close(derivative(w, x, y), (x.T * (s * (1 - s) * y * y)) @ x)


def test_regularised_logistic_hessian_is_still_one_product() -> None:
    m, n = 50, 20
    x, y, w = random(m, n), np.sign(random(m, seed=1)), random(n, seed=2)
    report = hesse.hessian(lambda w, x, y: logistic_loss(w, x, y) + 0.5 * np.sum(w * w)).explain(w, x, y)
    (root,) = report.roots
    assert len(matrix_products(report.program)) == 1
    assert sorted(map(is_sparse, terms(root))) == [False, True], report.formula
    assert report.flops <= SLACK * (logistic_hessian_flops(m, n) + n)


# Cross-country order: paper 3, example 7.


@pytest.mark.parametrize("mode", ["auto", "cross-country"])
def test_jacobian_multiplies_the_two_derivative_vectors_first(mode: str) -> None:
    m, n, p = 30, 20, 25
    x, a, b = random(n), 0.1 * random(m, n, seed=1), random(p, m, seed=2)
    derivative = hesse.jacobian(lambda x, a, b: b @ np.sin(np.exp(a @ x)), mode=mode)
    report = derivative.explain(x, a, b)
    products = [node for node in topological(report.roots) if isinstance(node, Einsum)]
    vectors = [node for node in products if all(isinstance(operand, Map) for operand in node.operands)]
    assert [sorted(operand.name for operand in node.operands) for node in vectors] == [["cos", "exp"]]
    contracts = instructions(report.program, Contract)
    ranks = [(len(c.left_labels), len(c.right_labels), len(c.labels)) for c in contracts]
    first = ranks.index((1, 1, 1))
    assert (2, 2, 2) not in ranks[:first], "a matrix product comes before the product of the vectors"
    assert all(2 not in (left, right) or kept == 1 for left, right, kept in ranks[:first])
    assert len([item for item in contracts if len(item.labels) == 2]) == 2, "one scaling and one product"
    element_wise = sum(ELEMENTWISE[name].flops for name in ("exp", "sin", "cos")) * m
    closed_form = 2 * m * n + element_wise + m + min(m * n, p * m) + 2 * p * m * n
    assert report.flops <= SLACK * closed_form
    inner = np.exp(a @ x)
    assert_close(derivative(x, a, b), (b * (np.cos(inner) * inner)) @ a)


# Bands.


def chained(x: Any) -> Any:
    return np.sum((x[1:] - x[:-1] ** 2) ** 2)


def bands(root: Node) -> list[tuple[Any, Node]]:
    """The terms of a sum as (pattern, core) pairs; several cores may share a pattern."""
    found: list[tuple[Any, Node]] = []
    for term in terms(root):
        assert isinstance(term, Einsum)
        whole = len(term.operands) == 1 and isinstance(term.operands[0], Add)
        cores = term.operands[0].operands if whole else (term,)
        found += [((term.output, term.ranges[:1]), core) for core in cores]
    return found


@pytest.mark.parametrize("mode", ALL_MODES)
def test_chained_quadratics_have_a_hessian_of_five_bands(mode: str) -> None:
    n = 12
    report = hesse.hessian(chained, mode=mode).explain(random(n))
    (root,) = report.roots
    found = bands(root)
    assert all(map(repeats_a_label, terms(root))), report.formula
    assert len(found) == 5, report.formula
    offsets = {tuple(axis.offset for axis in output) for (output, _), _ in found}
    assert offsets == {(0, 0), (1, 1), (0, 1), (1, 0)}


@pytest.mark.parametrize("mode", ALL_MODES)
def test_bands_are_evaluated_in_linear_work(mode: str) -> None:
    derivative = hesse.hessian(chained, mode=mode)
    small, large = (derivative.explain(random(n)) for n in (100, 200))
    assert large.flops / small.flops == pytest.approx(2, rel=0.05)
    assert large.flops <= 12 * 200
    dense = [shape for shape in large.program.shapes if math.prod(shape) >= 200**2]
    assert dense == [(200, 200)], "only the result has n² entries"
    assert large.peak_bytes <= 8 * (200 * 200 + 10 * 200)
    x = random(200)
    expected = np.zeros((200, 200))
    i = np.arange(199)
    np.add.at(expected, (i, i), 12 * x[:-1] ** 2 - 4 * x[1:])
    np.add.at(expected, (i + 1, i + 1), 2.0)
    np.add.at(expected, (i, i + 1), -4 * x[:-1])
    np.add.at(expected, (i + 1, i), -4 * x[:-1])
    assert_close(derivative(x), expected)


def test_hessian_vector_product_of_bands_is_linear_and_never_dense() -> None:
    product = hesse.hvp(chained)
    small, large = (product.explain(random(n), random(n, seed=1)) for n in (100, 200))
    assert large.flops / small.flops == pytest.approx(2, rel=0.05)
    assert max(math.prod(shape) for shape in large.program.shapes) <= 200


# Block matrices.


def by_block(v: Any, s: Any, u: Any) -> Any:
    return np.block([[v, np.zeros(v.shape)], [s, u]])


def by_concatenation(v: Any, s: Any, u: Any) -> Any:
    upper = np.concatenate([v, np.zeros(v.shape)], axis=1)
    return np.concatenate([upper, np.concatenate([s, u], axis=1)], axis=0)


def by_stacks(v: Any, s: Any, u: Any) -> Any:
    return np.vstack([np.hstack([v, np.zeros(v.shape)]), np.hstack([s, u])])


@pytest.mark.parametrize("build", [by_block, by_concatenation, by_stacks])
def test_product_of_block_matrices_has_no_term_for_the_zero_block(build: Callable[..., Any]) -> None:
    r = 6
    names = ("a", "b", "c", "d", "e", "f")
    first, second = (
        build(*(hesse.variable(name, (r, r)) for name in part)) for part in (names[:3], names[3:])
    )
    (node,) = simplify([(first @ second).node])
    assert len(terms(node)) == 3, "upper left, lower left, lower right"
    program = make_plan([node])
    contracts = instructions(program, Contract)
    assert len(contracts) == 4
    work = sum(f for item, f in zip(program.instructions, program.flops, strict=True) if item in contracts)
    assert work == 4 * 2 * r**3
    blocks = {name: random(r, r, seed=k) for k, name in enumerate(names)}
    left, right = (build(*(blocks[name] for name in part)) for part in (names[:3], names[3:]))
    assert_close((first @ second).evaluate(**blocks), left @ right)


@pytest.mark.parametrize("build", [by_block, by_concatenation, by_stacks])
def test_hessian_of_a_block_quadratic_is_made_of_blocks(build: Callable[..., Any]) -> None:
    r = 5
    v, s, u = (random(r, r, seed=k) for k in range(3))
    derivative = hesse.hessian(lambda x, v, s, u: np.sum((build(v, s, u) @ x) ** 2))
    report = derivative.explain(random(2 * r), v, s, u)
    assert len(matrix_products(report.program)) <= 5, "V'V, S'S, S'U, its mirror and U'U"
    assert max(math.prod(item) for item in report.program.shapes[:-1]) <= r * r + r
    dense = build(v, s, u)
    assert_close(derivative(random(2 * r), v, s, u), 2 * dense.T @ dense)


# Identities and zeros.


def neural_net(w: Any, x: Any, v: Any) -> Any:
    return np.sum(np.tanh(v @ np.tanh(w @ x)))


def softmax_regression(w: Any, x: Any, y: Any) -> Any:
    scores = x @ w
    return np.sum(np.log(np.sum(np.exp(scores), axis=1)) - np.sum(y * scores, axis=1))


DENSE_PROBLEMS: dict[str, tuple[Callable[..., hesse.api.derivatives.Derivative], Callable[..., Any], Any]] = {
    "quadratic": (hesse.hessian, quadratic, (random(4), random(4, 4))),
    "least squares": (
        hesse.hessian,
        lambda x, a, b: np.sum((a @ x - b) ** 2),
        (random(4), random(6, 4), random(6)),
    ),
    "logistic": (hesse.hessian, logistic_loss, (random(4), random(6, 4), np.sign(random(6)))),
    "factorisation gradient": (
        hesse.grad,
        FACTORISATIONS["sum of squares"],
        (random(5, 2), random(4, 2), random(5, 4)),
    ),
    "factorisation norm": (
        hesse.grad,
        FACTORISATIONS["norm squared"],
        (random(5, 2), random(4, 2), random(5, 4)),
    ),
    "jacobian": (
        hesse.jacobian,
        lambda x, a, b: b @ np.sin(np.exp(a @ x)),
        (random(4), random(5, 4), random(3, 5)),
    ),
    "net gradient": (hesse.grad, neural_net, (random(4, 3), random(3), random(2, 4))),
    "softmax gradient": (hesse.grad, softmax_regression, (random(4, 3), random(6, 4), random(6, 3))),
    "mixed block": (
        lambda f, mode: hesse.hessian(f, argnums=(0, 1), mode=mode),
        lambda x, a: x @ a @ a @ x,
        (random(4), random(4, 4)),
    ),
    "norm": (hesse.grad, np.linalg.norm, (random(4),)),
    "log determinant": (hesse.grad, lambda a: np.linalg.slogdet(a @ a.T)[1], (random(4, 4),)),
    "third order": (
        lambda f, mode: hesse.derivative(f, order=3, mode=mode),
        lambda x, a: np.sum((a @ x) ** 3),
        (random(4), random(6, 4)),
    ),
    "gradient of bands": (hesse.grad, chained, (random(7),)),
}
"""Derivatives whose dense result holds no block of zeros and no unit tensor."""


def built_from_zeros(program: Program) -> list[Combine]:
    """Sums and placements that leave entries of their result untouched, so that zeros are filled in."""
    found = []
    for k, item in enumerate(program.instructions):
        if isinstance(item, Combine):
            shape = program.shapes[k]
            if not any(term.is_dense(shape) for term in item.terms):
                found.append(item)
    return found


def unit_literals(program: Program) -> list[Literal]:
    """Arrays of zeros and ones that the program carries (a single number is no array)."""
    literals = instructions(program, Literal)
    return [item for item in literals if item.value.ndim and np.isin(item.value, (0.0, 1.0)).all()]


PLACED = {"gradient of bands", "mixed block"}
"""Their terms are placed at an offset (or repeat a label) and add up to a dense result."""


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("name", DENSE_PROBLEMS)
def test_identities_and_zeros_never_appear(name: str, mode: str) -> None:
    make, function, arguments = DENSE_PROBLEMS[name]
    report: Explanation = make(function, mode=mode).explain(*arguments)
    assert unit_literals(report.program) == []
    if name not in PLACED:
        assert built_from_zeros(report.program) == [], report.source
        assert "zeros" not in report.source


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_hidden_identity_is_not_built(mode: str) -> None:
    """Units, ones and zeros that the user writes disappear as well."""
    n = 5

    def function(x: Any, a: Any) -> Any:
        unit = np.eye(n) @ x + np.zeros((n, n)) @ x
        return np.sum(np.ones(n) * unit * (np.diag(np.ones(n)) @ (a @ x)))

    report = hesse.hessian(function, mode=mode).explain(random(n), random(n, n))
    assert unit_literals(report.program) == []
    assert report.formula.replace("a", "A") == "A + A'"


# The modes agree as nodes, not only as numbers.

SIMPLE: dict[str, tuple[Callable[..., Any], int, tuple[np.ndarray, ...]]] = {
    "quadratic": (quadratic, 2, (random(4), random(4, 4))),
    "least squares": (lambda x, a, b: np.sum((a @ x - b) ** 2), 2, (random(4), random(6, 4), random(6))),
    "factorisation": (FACTORISATIONS["sum of squares"], 2, (random(5, 2), random(4, 2), random(5, 4))),
    "element-wise": (lambda x: np.sum(np.exp(x)), 3, (random(4),)),
    "cubes": (lambda x: np.sum(x**3), 3, (random(4),)),
    "linear map": (lambda x, a: a @ x, 1, (random(4), random(3, 4))),
    "outer product": (lambda x: np.outer(x, x), 2, (random(3),)),
    "chained": (chained, 2, (random(6),)),
    "trilinear": (lambda x, a, b: np.sum(a @ x) * np.sum(b @ x), 2, (random(4), random(3, 4), random(2, 4))),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_modes_give_the_same_canonical_node(name: str) -> None:
    function, order, arguments = SIMPLE[name]
    reports = {
        mode: hesse.derivative(function, order=order, mode=mode).explain(*arguments) for mode in ALL_MODES
    }
    assert len({report.formula for report in reports.values()}) == 1
    first, *others = (report.roots for report in reports.values())
    assert all(roots == first for roots in others), {mode: r.formula for mode, r in reports.items()}
