"""Declared facts about variables: what each law makes of them, equal values, and where it must not fire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import hesse
import naive
from hesse.errors import ArgumentError, ShapeError
from hesse.ir import Node
from hesse.ir.attributes import (
    ATTRIBUTES,
    STRUCTURES,
    independent,
    projected,
    stated,
    swap_sign,
    with_implied,
)
from hesse.rewrite import attributes, simplify
from hesse.rewrite.attributes import ATTRIBUTE_RULES
from oracles import assert_close

x, y = (hesse.variable(name, (3,)) for name in "xy")
p, q = (hesse.variable(name, (3,), attributes=["positive"]) for name in "pq")
square = hesse.variable("Q", (3, 3))
antisymmetric, other = (hesse.variable(name, (3, 3), attributes=["antisymmetric"]) for name in "AB")
symmetric = hesse.variable("S", (3, 3), symmetric=True)
VARIABLES = (x, y, p, q, square, antisymmetric, other, symmetric)


class Example(NamedTuple):
    """An expression, what the rule makes of it, and expressions that only look like it."""

    rule: Callable[[Node], Node | None]
    before: Any
    after: Any
    near_misses: tuple[Any, ...]


ZERO = hesse.constant(0.0)
EXAMPLES = [
    Example(attributes.abs_of_positive, np.abs(p), p, (np.abs(x), np.abs(-p), np.abs(p - q), np.abs(p * x))),
    Example(
        attributes.abs_of_positive,
        np.abs(2 * p * np.exp(x) + 1),
        2 * p * np.exp(x) + 1,
        (np.abs(np.log(p)), np.abs(np.pad(p, 1)), np.abs(-2 * p * np.exp(x))),
    ),
    Example(attributes.sign_of_positive, np.sign(p), hesse.constant(np.ones(3)), (np.sign(x), np.sign(-p))),
    Example(attributes.sign_of_positive, np.sign(p @ q), hesse.constant(1.0), (np.sign(p @ x),)),
    Example(attributes.relu_of_positive, hesse.relu(p / q), p / q, (hesse.relu(p / x), hesse.relu(p - 1))),
    Example(
        attributes.sqrt_of_square_of_positive,
        np.sqrt(p * p),
        p,
        (np.sqrt(x * x), np.sqrt(p * q), np.sqrt(2 * p * p), np.sqrt(p @ p), np.sqrt(p * p * p)),
    ),
    Example(
        attributes.antisymmetric_cancels,
        x @ (antisymmetric @ x),
        ZERO,
        (x @ (antisymmetric @ y), x @ (square @ x)),
    ),
]
IDS = [f"{example.rule.__name__}-{k}" for k, example in enumerate(EXAMPLES)]


CANONICAL = [
    (hesse.einsum("i,ij,j->", x, antisymmetric, x), ZERO),
    (np.trace(antisymmetric), ZERO),
    (np.diagonal(antisymmetric), hesse.constant(np.zeros(3))),
    (hesse.einsum("ij,ji->", antisymmetric, symmetric), ZERO),
    (antisymmetric.T, -antisymmetric),
    (antisymmetric.T @ x, -(antisymmetric @ x)),
    (symmetric.T @ x, symmetric @ x),
    (x @ antisymmetric, -(antisymmetric @ x)),
    ((antisymmetric @ symmetric).T, -(symmetric @ antisymmetric)),
]
"""Expressions that are equal by construction."""

DIFFERENT = [
    (np.trace(antisymmetric @ other), ZERO),
    (np.trace(antisymmetric @ square), ZERO),
    (np.diagonal(antisymmetric @ other), hesse.constant(np.zeros(3))),
    (square.T, -square),
    (antisymmetric.T, antisymmetric),
]


@pytest.mark.parametrize(("left", "right"), CANONICAL)
def test_transposes_of_declared_matrices_are_known(left: Any, right: Any) -> None:
    assert left.node is right.node
    assert_close(naive.evaluate(left.node, values()), naive.evaluate(right.node, values()), str(left), 1e-12)


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_nothing_else_is_taken_for_antisymmetric(left: Any, right: Any) -> None:
    assert left.node is not right.node


def values(seed: int = 0) -> dict[str, np.ndarray]:
    """Random arrays with the declared properties."""
    generator = np.random.default_rng(seed)
    found = {}
    for variable in VARIABLES:
        array = generator.uniform(-1.5, 1.5, variable.shape)
        facts = variable.node.attributes
        if "positive" in facts:
            array = np.abs(array) + 0.1
        if "antisymmetric" in facts:
            array = array - array.T
        if "symmetric" in facts:
            array = array + array.T
        found[variable.node.name] = array
    return found


def test_every_rule_has_an_example_and_states_its_law() -> None:
    assert {example.rule for example in EXAMPLES} == set(ATTRIBUTE_RULES)
    for rule in ATTRIBUTE_RULES:
        assert " = " in (rule.__doc__ or "").splitlines()[0]


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_rule_fires_with_the_expected_result_and_value(example: Example) -> None:
    assert example.rule(example.before.node) is example.after.node
    for seed in range(3):
        given = values(seed)
        before, after = (naive.evaluate(side.node, given) for side in (example.before, example.after))
        assert_close(after, before, str(example.after), 1e-12)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_rule_does_not_fire_on_near_misses(example: Example) -> None:
    given = values()
    for miss in example.near_misses:
        assert example.rule(miss.node) is None, str(miss)
        (simpler,) = simplify([miss.node])
        with np.errstate(invalid="ignore"):
            assert_close(naive.evaluate(simpler, given), naive.evaluate(miss.node, given), str(miss), 1e-12)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_simplify_applies_the_rule_anywhere(example: Example) -> None:
    inside, expected = (np.sum(np.tanh(side * (x @ y))) for side in (example.before, example.after))
    assert simplify([inside.node]) == simplify([expected.node])
    assert simplify(simplify([inside.node])) == simplify([inside.node])


@pytest.mark.parametrize("rule", ATTRIBUTE_RULES, ids=lambda rule: rule.__name__)
def test_no_rule_fires_on_leaves_and_undeclared_variables(rule: Callable[[Node], Node | None]) -> None:
    for expression in (x, p, antisymmetric, ZERO, x @ y, x + y, square @ x, np.abs(x), np.sqrt(x * x)):
        assert rule(expression.node) is None


def test_implied_attributes() -> None:
    for fact in ("psd", "diagonal"):
        declared = hesse.variable("D", (3, 3), attributes=[fact])
        assert declared.node.attributes == {fact, "symmetric"}
        assert declared.T.node is declared.node
    assert hesse.variable("D", (3, 3), symmetric=True).node is symmetric_variable("D")


def symmetric_variable(name: str) -> Node:
    """The variable declared by its attribute."""
    return hesse.variable(name, (3, 3), attributes="symmetric").node


def test_functions_of_zero_are_folded_for_symbolic_sizes() -> None:
    v = hesse.variable("v", ("n",))
    assert str(np.sum(np.exp(v) * np.cosh(v - v))) == "sum(exp(v))"


def test_products_of_many_equal_factors_are_canonical() -> None:
    """Equal factors in equal places are not permuted: powers of B*x.^3 would take minutes."""
    b, v = hesse.variable("B", ("n", "n")), hesse.variable("v", ("n",))
    grouped = hesse.einsum("ij,ik,il,j,j,j,k,k,k,l,l,l->", *[b] * 3, *[v] * 9)
    mixed = hesse.einsum("j,k,l,il,ij,ik,j,k,l,j,k,l->", *[v] * 3, *[b] * 3, *[v] * 6)
    assert grouped.node is mixed.node


def test_derivatives_use_the_facts() -> None:
    # The derivative treats all entries of A as free, so facts act on results, not on what is differentiated.
    assert str(hesse.einsum("i,ij,j->", y, antisymmetric, x).diff("y")) == "A*x"
    assert str(np.sum(np.abs(p) * x).diff("p")) == "x"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"attributes": ["unitary"]}, ArgumentError, "cannot be declared 'unitary'; attributes are"),
        ({"attributes": ["psd"], "shape": (3,)}, ShapeError, "a psd variable must be a square matrix"),
        ({"attributes": ["diagonal"], "shape": (3, 4)}, ShapeError, "a diagonal variable must be a square"),
        ({"attributes": ["antisymmetric"], "symmetric": True}, ArgumentError, "antisymmetric and symmetric"),
        ({"attributes": ["antisymmetric", "positive"]}, ArgumentError, "antisymmetric and positive"),
    ],
)
def test_bad_declarations(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        hesse.variable("A", **{"shape": (3, 3), **arguments})


COMBINATIONS = [frozenset({name}) for name in ATTRIBUTES] + [
    frozenset({"positive", "symmetric"}),
    frozenset({"positive", "psd"}),
    frozenset({"psd", "diagonal"}),
]


@pytest.mark.parametrize("names", COMBINATIONS, ids=lambda names: " ".join(sorted(names)))
def test_projected_arrays_have_their_attributes(names: frozenset[str]) -> None:
    """By definitions written out here; without the projection they hold of none."""
    holds = {
        "symmetric": lambda a: (a == a.T).all(),
        "antisymmetric": lambda a: (a == -a.T).all(),
        "diagonal": lambda a: np.count_nonzero(a - np.diag(np.diag(a))) == 0,
        "psd": lambda a: np.linalg.eigvalsh(a).min() > 0,
        "positive": lambda a: a.min() > 0,
    }
    assert set(holds) == set(ATTRIBUTES)
    array = np.random.default_rng(3).normal(size=(4, 4))
    made = projected(array, with_implied(names))
    for name in with_implied(names):
        assert holds[name](made) and not holds[name](array)
        assert ATTRIBUTES[name].flaw(made) is None
        if name != "psd":  # an array that is not symmetric is not psd by what psd implies
            assert ATTRIBUTES[name].flaw(array) is not None
    assert ATTRIBUTES["psd"].flaw(-np.eye(2)) == "has a negative eigenvalue"


@pytest.mark.parametrize("name", sorted(STRUCTURES))
def test_independent_entries_determine_the_matrix(name: str) -> None:
    names = with_implied([name])
    made = projected(np.random.default_rng(4).normal(size=(3, 3)), names)
    assert (swap_sign(names) * made == made.T).all()
    part = independent(made, names)
    strictly = np.tril(part, -1)
    assert np.array_equal(part + swap_sign(names) * strictly.T, made)
    assert np.count_nonzero(part) < np.count_nonzero(made) or name == "diagonal"


def test_the_fewest_attributes_are_stated() -> None:
    assert stated(frozenset({"positive", "psd", "symmetric"})) == ["positive", "psd"]
    assert stated(frozenset({"symmetric"})) == ["symmetric"]
    assert all(stated(with_implied([name])) == [name] for name in ATTRIBUTES)
