"""Regrouping for reading: every law with an example, and that no value changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import naive
from hesse.errors import ShapeError
from hesse.ir import (
    Node,
    Variable,
    add,
    apply_,
    map_,
    multiply,
    pairwise,
    reciprocal,
    scale,
    topological,
    total,
    uniform,
    variable,
)
from hesse.ops.linalg import solve
from hesse.ops.normalization import log_softmax, softmax
from hesse.ops.registry import operation
from hesse.ops.spectra import expm
from hesse.printing import layout_note
from hesse.printing.conditions import complements, signs, steps
from hesse.printing.presentation import (
    collected,
    merged,
    multiplied_out,
    named_function,
    present,
    solved,
    trace_of_exponential,
)

A, B = variable("A", (3, 3)), variable("B", (3, 3))
x, y = variable("x", (3,)), variable("y", (3,))
T = variable("T", (3, 3, 3))
squared = map_("power", x, uniform(2.0, (3,)))
is_zero = map_("equal", x, uniform(0.0, (3,)))
norm = map_("sqrt", pairwise("i,i->", x, x))


def product(*factors: Node) -> Node:
    return multiply(*factors)


LAWS: list[tuple[Callable[[Node], Node], Node, Node]] = [
    (
        multiplied_out,
        pairwise("ij,j->i", A, pairwise("ij,j->i", B, x)),
        pairwise("ij,jk,k->i", A, B, x),
    ),
    (
        lambda node: multiplied_out(node, distribute=True),
        pairwise("ij,j->i", A, x + y),
        pairwise("ij,j->i", A, x) + pairwise("ij,j->i", A, y),
    ),
    (collected, product(x, y, reciprocal(x)), y),
    (collected, product(x, reciprocal(product(x, y))), reciprocal(y)),
    (collected, map_("power", x, uniform(-2.0, (3,))), product(reciprocal(x), reciprocal(x))),
    (collected, map_("power", x, uniform(3.0, (3,))), product(x, x, x)),
    (
        collected,
        pairwise(",i,k,k->i", reciprocal(norm), y, x, x),
        pairwise(",i->i", norm, y),
    ),
    (collected, map_("sqrt", squared), map_("sqrt", squared)),
    (merged, (x + y) + (x - scale(y, 2.0)), scale(x, 2.0) - y),
    (
        signs,
        map_("greater", x, y) + map_("greater_equal", x, y),
        map_("sign", x - y) + 1.0,
    ),
    (steps, map_("greater", x, y), map_("sign", map_("relu", x - y))),
    (
        steps,
        map_("where", map_("greater", x, y), x, y),
        map_("where", map_("greater", x, y), x, y),
    ),
    (
        complements,
        product(map_("sigmoid", x), map_("sigmoid", -x)),
        product(map_("sigmoid", x), 1.0 - map_("sigmoid", x)),
    ),
    (complements, map_("sigmoid", -x), map_("sigmoid", -x)),
    (solved, solve(A, x), pairwise("ij,j->i", apply_("inverse", [A], (3, 3)), x)),
    (solved, solve(A, B), pairwise("ij,jk->ik", apply_("inverse", [A], (3, 3)), B)),
    (named_function, map_("maximum", x, uniform(0.0, (3,))), map_("relu", x)),
    (named_function, map_("maximum", uniform(0.0, (3,)), x), map_("relu", x)),
    (named_function, map_("log", map_("where", is_zero, y, x)), map_("log", x)),
    (named_function, map_("log", map_("where", is_zero, x, y)), map_("log", map_("where", is_zero, x, y))),
    (
        named_function,
        map_("power", x, map_("where", map_("logical_and", is_zero, is_zero), x, y)),
        map_("power", x, y),
    ),
    (named_function, map_("log1p", x), map_("log", x + 1.0)),
    (named_function, map_("expm1", x), map_("exp", x) - 1.0),
    (
        trace_of_exponential,
        pairwise("pijp->ij", operation("expm_chain", A, params=(2,))),
        pairwise("ij->ji", expm(A)),
    ),
    (present, log_softmax(x), map_("log", softmax(x))),
    (
        present,
        pairwise("ijk,i->jk", T + scale(T, 2.0) + map_("exp", T), x),
        pairwise("ijk,i->jk", scale(T, 3.0), x) + pairwise("ijk,i->jk", map_("exp", T), x),
    ),
]


def value(node: Node) -> np.ndarray:
    leaves = [leaf for leaf in topological([node]) if isinstance(leaf, Variable)]
    random = {leaf.name: np.random.default_rng(len(leaf.name) + leaf.rank) for leaf in leaves}
    return naive.evaluate(
        node, {leaf.name: 0.3 * random[leaf.name].normal(size=leaf.shape) + 0.8 for leaf in leaves}
    )


@pytest.mark.parametrize(("law", "node", "expected"), LAWS)
def test_laws(law: Callable[[Node], Node], node: Node, expected: Node) -> None:
    found = law(node)
    assert found is expected
    np.testing.assert_allclose(value(found), value(node), rtol=1e-12, atol=1e-12)


def test_a_square_is_not_multiplied_out() -> None:
    moved = pairwise("ij,j->i", A, x)
    square = pairwise("i,i->", moved, moved)
    assert multiplied_out(square) is square


def test_a_long_product_stays_nested() -> None:
    node: Node = x
    for k in range(20):
        node = pairwise("ij,j->i", variable(f"A{k}", (3, 3)), node)
    assert len(present(node).operands) <= 16


def test_sums_of_many_terms_are_not_distributed() -> None:
    many = add([map_("sin", scale(A, float(k))) for k in range(1, 20)], (3, 3))
    node = pairwise("ij,j->i", many, x)
    assert present(node, distribute=True) is node


# The note on the layout.

NOTES = [
    ((), ["x"], "Layout: the gradient has the shape of x: entry [i] is the derivative of f by x[i]."),
    (
        (),
        ["A"],
        "Layout: the gradient has the shape of A: entry [i,j] is the derivative of f by A[i,j].",
    ),
    ((), ["s"], "Layout: the derivative of f by s, a scalar."),
    (
        (),
        ["A", "x"],
        "Layout: axes in the order of differentiation: entry [i,j,k] is the derivative of f by A[i,j] and"
        " x[k].",
    ),
    (
        ("m",),
        ["x"],
        "Layout: axes of the function first, as A is the Jacobian of A*x: entry [i,j] is the derivative of"
        " f[i] by x[j].",
    ),
    (
        (),
        ["x", "x", "s", "x"],
        "Layout: axes in the order of differentiation: entry [i,j,k] is the derivative of f by x[i], x[j], s"
        " and x[k].",
    ),
    ((), [], "Layout: this is the function itself."),
]
SHAPES: dict[str, tuple[str, ...]] = {"x": ("n",), "A": ("m", "n"), "s": ()}


@pytest.mark.parametrize(("shape", "names", "expected"), NOTES)
def test_layout_note(shape: tuple[str, ...], names: list[str], expected: str) -> None:
    by = [variable(name, SHAPES[name]) for name in names]
    derivative = variable("d", sum((v.shape for v in by), shape))
    assert layout_note(derivative, shape, by) == expected


def test_layout_note_refuses_another_shape() -> None:
    message = r"by x and A has shape \('n', 'm', 'n'\), not \('m', 'n', 'n'\); give the variables in"
    with pytest.raises(ShapeError, match=message):
        layout_note(variable("d", ("m", "n", "n")), (), [variable(name, SHAPES[name]) for name in "xA"])


def test_total_of_equal_factors_counts_them() -> None:
    """sum(x./x) is the number of entries."""
    node = total(product(x, y, reciprocal(x), reciprocal(y)), [0])
    assert present(node) is uniform(3.0)
