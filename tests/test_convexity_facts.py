"""What certificates rest on: the table of functions, arithmetic of ranges, ranges of nodes, by sampling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hesse
import naive
from hesse.convexity.facts import Facts
from hesse.ops.behaviour import Behaviour, Piece, power_behaviour
from hesse.ops.ranges import UNKNOWN, Range, product, total
from hesse.ops.registry import ELEMENTWISE, OPERATIONS
from hesse.ops.special import X_LOG_X

FAR = 4.0
"""How far functions are sampled."""

EXPONENTS = (-3.0, -2.0, -1.5, -1.0, -0.5, 0.3, 0.5, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)
FUNCTIONS = {
    name: row.behaviour for name, row in ELEMENTWISE.items() if row.arity == 1 and row.behaviour is not None
}
ROWS: dict[str, tuple[Any, Behaviour]] = {
    **{name: (naive.ELEMENTWISE[name], function) for name, function in FUNCTIONS.items()},
    **{f"power {e:g}": (lambda u, e=e: np.asarray(u) ** e, power_behaviour(e)) for e in EXPONENTS},
    "x*log(x)": (lambda u: naive.ELEMENTWISE["xlogy"](u, u), X_LOG_X),
}
PIECES = [(name, piece) for name, (_, function) in ROWS.items() for piece in function.pieces]


def sampled(function: Behaviour, piece: Piece) -> np.ndarray:
    """Points of a piece inside the domain."""
    low, high = max(piece.low, -FAR), min(piece.high, FAR)
    if function.domain == "upper":
        low = max(low, function.lower)
    points = np.linspace(low, high, 41)
    return points[1:-1] if function.domain != "all" else points


@pytest.mark.parametrize(("name", "piece"), PIECES, ids=[f"{name} {piece}" for name, piece in PIECES])
def test_pieces_have_the_curvature_and_direction_they_claim(name: str, piece: Piece) -> None:
    evaluate, function = ROWS[name]
    points = sampled(function, piece)
    values = evaluate(points)
    assert np.isfinite(values).all()
    steps, bends = np.diff(values), np.diff(values, 2)
    slack = 1e-12 * np.abs(values).max()
    if piece.direction:
        assert (piece.direction * steps >= -slack).all()
    if piece.curvature != "unknown":
        assert ((1 if piece.curvature == "convex" else -1) * bends >= -slack).all()


@pytest.mark.parametrize("name", ROWS)
def test_values_lie_in_the_range(name: str) -> None:
    evaluate, function = ROWS[name]
    points = np.linspace(-FAR, FAR, 81)
    with np.errstate(all="ignore"):
        values = evaluate(points)
    values = values[np.isfinite(values)]
    assert (values >= function.values.low).all() and (values <= function.values.high).all()
    if function.values.nonzero:
        assert (values != 0).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_unsmooth_functions_are_marked(name: str) -> None:
    """A function whose derivative jumps, or is infinite, inside its domain must not be called smooth."""
    function = FUNCTIONS[name]
    if function.smooth and function.domain == "all":
        points = np.linspace(-1.0, 1.0, 2001)
        second = np.diff(naive.ELEMENTWISE[name](points), 2) / (points[1] - points[0]) ** 2
        assert np.abs(second).max() < 20


UNCLAIMED = {
    *(
        "arccos",
        "arcsin",
        "arctan2",
        "arctanh",
        "ceil",
        "clamp",
        "clip",
        "erfinv",
        "floor",
        "floor_divide",
        "fmod",
        "ratio",
        "ndtri",
        "safe_reciprocal",
        "polygamma",
        "power",
        "remainder",
        "round",
        "tan",
    ),
    *("trunc", "xlogy"),
    *(
        "adjugate",
        "minors",
        "argmax",
        "argmin",
        "argsort",
        "cholesky",
        "cumulative_product",
        "eigenvectors",
        "eigvalsh",
    ),
    *("flat_index", "kron", "path_products", "pseudo_inverse", "sign_determinant", "triangular_solve"),
    *("as_integer", "as_real", "integer_add", "integer_entries", "integer_multiply", "integer_quotient"),
    *("integer_where", "searchsorted"),
}
"""Operations of which nothing is known but their derivatives."""


def test_every_operation_says_what_is_known_of_it_or_is_listed_here() -> None:
    records = {**ELEMENTWISE, **OPERATIONS}
    silent = {name for name, record in records.items() if record.behaviour is None and record.image is None}
    assert silent == UNCLAIMED


@pytest.mark.parametrize("name", sorted(set(ELEMENTWISE) - UNCLAIMED))
def test_images_hold_the_values(name: str) -> None:
    generator = np.random.default_rng(0)
    row = ELEMENTWISE[name]
    for _ in range(30):
        operands, points = zip(*(_operand(generator) for _ in range(row.arity)), strict=True)
        with np.errstate(all="ignore"):
            values = naive.ELEMENTWISE[name](*np.meshgrid(*points))
        assert_holds(row.range(*operands), values[np.isfinite(values)])


def _operand(generator: np.random.Generator) -> tuple[Range, np.ndarray]:
    """A range, and points in it."""
    low, high = sorted(
        generator.choice([-math.inf, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, math.inf], 2, replace=False)
    )
    operand = Range(float(low), float(high), bool(generator.integers(2)))
    points = np.linspace(max(low, -FAR), min(high, FAR), 33)
    return operand, points[points != 0] if operand.nonzero else points


@pytest.mark.parametrize("name", sorted(name for name in ELEMENTWISE if ELEMENTWISE[name].arity == 2))
def test_functions_of_two_operands_have_the_curvature_and_direction_they_claim(name: str) -> None:
    """By midpoints of random pairs, and by steps upwards in both operands."""
    behaviour = ELEMENTWISE[name].behaviour
    if behaviour is None or behaviour.curvature() == "unknown":
        return
    generator, evaluate = np.random.default_rng(1), naive.ELEMENTWISE[name]
    start, end = generator.uniform(-FAR, FAR, (2, 2, 500))
    above = (evaluate(*start) + evaluate(*end)) / 2 - evaluate(*((start + end) / 2))
    assert ((1 if behaviour.curvature() == "convex" else -1) * above >= -1e-12).all()
    steps = evaluate(*(start + np.abs(end))) - evaluate(*start)
    assert (behaviour.direction() * steps >= 0).all()


def assert_holds(found: Range, values: np.ndarray) -> None:
    slack = 1e-12 * np.abs(values).max(initial=1.0)
    assert (values >= found.low - slack).all() and (values <= found.high + slack).all(), (found, values)
    assert not found.excludes_zero or (values != 0).all(), found


ENDS = st.sampled_from([-math.inf, -3.0, -1.0, 0.0, 1.0, 2.0, math.inf])


@st.composite
def ranges(draw: Any) -> tuple[Range, np.ndarray]:
    """A range, and numbers in it."""
    low, high = sorted([draw(ENDS), draw(ENDS)])
    points = np.clip(np.array([-50.0, -3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 2.0, 50.0]), low, high)
    nonzero = draw(st.booleans())
    points = points[np.isfinite(points) & ((points != 0) | (not nonzero))]
    return Range(low, high, nonzero), points


@settings(max_examples=200, deadline=None)
@given(ranges(), ranges(), st.sampled_from([-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0]))
def test_arithmetic_of_ranges(
    first: tuple[Range, np.ndarray], second: tuple[Range, np.ndarray], number: float
) -> None:
    (one, a), (two, b) = first, second
    assert_holds(product([one, two]), np.multiply.outer(a, b).ravel())
    assert_holds(total([one, two]), np.add.outer(a, b).ravel())
    assert_holds(one.scaled(number), number * a)
    assert_holds(one.with_zero(), np.append(a, 0.0))
    assert_holds(one.summed(), np.add.outer(a, a).ravel())
    with np.errstate(all="ignore"):
        powers = a**number
    assert_holds(one.power(number), powers[np.isfinite(powers)])


x = hesse.variable("x", (3,))
p = hesse.variable("p", (3,), attributes=["positive"])
B, P = hesse.variable("B", (3, 3)), hesse.variable("P", (3, 3), attributes=["psd"])
RANGES: dict[str, tuple[Any, str]] = {
    "variable": (x, "unknown"),
    "positive variable": (p, "positive"),
    "square": (x**2, "nonnegative"),
    "sum of squares": (x @ x, "nonnegative"),
    "minus a sum of squares": (-(x @ x), "nonpositive"),
    "one more than a square": (x**2 + 1, "positive"),
    "one less than a square": (x**2 - 1, "unknown"),
    "psd form": (x @ P @ x, "nonnegative"),
    "free form": (x @ B @ x, "unknown"),
    "trace of psd": (np.trace(P), "nonnegative"),
    "determinant of psd": (np.linalg.det(P), "nonnegative"),
    "exp": (np.exp(x) * 2, "positive"),
    "minus exp": (-np.exp(x), "negative"),
    "one minus a squared tanh": (1 - np.tanh(x) ** 2, "nonnegative"),
    "placed": (np.diag(np.exp(x)), "nonnegative"),
    "quotient of positives": (p / (p + 1), "positive"),
    "difference of powers": (1 / np.sqrt(1 + x**2) - x**2 / (1 + x**2) ** 1.5, "nonnegative"),
    "another difference of powers": (1 / np.sqrt(1 + x**2) - 2 * x**2 / (1 + x**2) ** 1.5, "unknown"),
    "difference of equals": ((x @ x) * p - p * (x @ x), "nonnegative"),
    "softmax": (hesse.softmax(x), "positive"),
    "log of softmax": (hesse.log_softmax(x), "nonpositive"),
    "logsumexp of positive": (hesse.logsumexp(p), "nonnegative"),
    "maximum": (np.maximum(x, 1.0), "positive"),
    "minimum": (np.minimum(x, -1.0), "negative"),
    "choice": (np.where(x > 0, 1.0, 2.0), "positive"),
    "comparison": (1.0 * (x > 0), "nonnegative"),
    "gathered": (p[np.array([2, 0])], "positive"),
    "running sum": (np.cumsum(p), "positive"),
    "constant": (hesse.constant(np.array([1.0, 2.0, 4.0])), "positive"),
    "constant with a zero": (hesse.constant(np.array([0.0, 2.0, 4.0])), "nonnegative"),
    "power": (p**-1.5, "positive"),
    "times the root of an even power": (x * np.sqrt(x**6.0), "unknown"),
    "distance": (np.hypot(x, 1.0), "nonnegative"),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_of_nodes(name: str) -> None:
    expression, expected = RANGES[name]
    found = Facts().range_of(expression.node)
    words = {
        "positive": found.is_positive,
        "negative": found.is_negative,
        "nonnegative": found.is_nonnegative,
        "nonpositive": found.is_nonpositive,
    }
    assert next((word for word, holds in words.items() if holds), "unknown") == expected
    generator = np.random.default_rng(1)
    for _ in range(10):
        root = generator.normal(size=(3, 3))
        values = {
            "x": generator.normal(size=3),
            "p": generator.uniform(0.01, 3.0, 3),
            "B": root,
            "P": root @ root.T,
        }
        assert_holds(found, naive.evaluate(expression.node, values).ravel())


def test_nothing_is_known_of_an_array_that_is_not_finite() -> None:
    assert Facts().range_of(hesse.constant(np.array([1.0, math.inf])).node) == UNKNOWN
