"""Printed formulas: expected texts, texts read back and evaluated, LaTeX that parses, drawings that fit."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.mathtext import MathTextParser

import naive
from hesse.calculus import reverse
from hesse.errors import ArgumentError
from hesse.ir import (
    Axis,
    Einsum,
    Node,
    add,
    apply_,
    broadcast,
    concatenate,
    constant,
    delta,
    einsum,
    map_,
    multiply,
    pairwise,
    reciprocal,
    reshape,
    scale,
    select,
    topological,
    total,
    transpose,
    uniform,
    variable,
    zero,
)
from hesse.ops.registry import ELEMENTWISE, OPERATIONS
from hesse.printing import Graph, einsum_text, latex, text
from hesse.rewrite.simplify import simplify

A, B = variable("A", ("n", "n")), variable("B", ("n", "n"))
S = variable("S", ("n", "n"), ["symmetric"])
x, y = variable("x", ("n",)), variable("y", ("n",))
s, t = variable("s", ()), variable("t", ())
X, w, c = variable("X", ("m", "n")), variable("w", ("n",)), variable("c", ("m",))
z, row, one = variable("z", (6,)), variable("row", (1, 4)), variable("one", (4, 1))
T, U, V = variable("T", (4, 5)), variable("U", (4, 2)), variable("V", (5, 2))
M, v = variable("M", (3, 4)), variable("v", (4,))
residual = pairwise("ij,j->i", A, x) - y


def hessian(output: Node, by: Node) -> Node:
    return simplify(reverse(simplify(reverse(output, [by]))[0], [by]))[0]


def logistic() -> Node:
    margins = multiply(c, pairwise("ij,j->i", X, w))
    return total(map_("log", map_("exp", -margins) + 1.0), [0])


def rosenbrock() -> Node:
    left = select(z, [slice(None, -1)])
    difference = select(z, [slice(1, None)]) - multiply(left, left)
    return total(multiply(difference, difference), [0])


def factorization() -> Node:
    difference = T - pairwise("ik,jk->ij", U, V)
    return pairwise("ij,ij->", difference, difference)


def soft() -> Node:
    return apply_("softmax", [pairwise("ij,j->i", A, x)], ("n",))


PRODUCTS = [
    ("ij->ji", [A], "A'"),
    ("ij->ji", [S], "S"),
    ("ij,j->i", [A, x], "A*x"),
    ("ij,i->j", [A, x], "A'*x"),
    ("ij,jk->ik", [A, B], "A*B"),
    ("ij,kj->ik", [A, B], "A*B'"),
    ("ij,jk,kl->il", [A, S, B], "A*S*B"),
    ("ij,ij->ij", [A, A], "A.^2"),
    ("ij,ij->ij", [A, B], "A.*B"),
    ("ij,ji->ij", [A, B], "A.*B'"),
    ("ij,ij->", [A, B], "sum(A.*B)"),
    ("ij,ji->", [A, B], "tr(A*B)"),
    ("ij,jk,ki->", [A, B, S], "tr(A*B*S)"),
    ("ii->", [A], "tr(A)"),
    ("ii->i", [A], "diagonal(A)"),
    ("i->ii", [x], "diag(x)"),
    ("i->", [x], "sum(x)"),
    ("ij->", [A], "sum(A)"),
    ("ij->i", [A], "A[i,j] -> [i]"),
    ("i,i->i", [x, y], "x.*y"),
    ("i,i->", [x, y], "x'*y"),
    ("i,i->", [x, x], "x'*x"),
    ("i,i,i->", [x, x, y], "sum(x.^2.*y)"),
    ("i,j->ij", [x, y], "x*y'"),
    ("i,ij,j->", [x, A, y], "x'*A*y"),
    ("i,ij,j->", [y, A, x], "y'*A*x"),
    ("ij,j->", [A, x], "sum(A*x)"),
    ("i,ij->ij", [x, A], "diag(x)*A"),
    ("ij,i,ik->jk", [A, x, A], "A'*diag(x)*A"),
    ("ij,j,i->i", [A, x, y], "y.*(A*x)"),
    ("ij,j,ik,k->i", [A, x, B, y], "(A*x).*(B*y)"),
    ("ij,j,k,kl->il", [A, x, y, B], "A*x*y'*B"),
    ("ij,j->ii", [A, x], "diag(A*x)"),
    ("i,i,jk->jk", [x, y, A], "(x'*y)*A"),
    (",ij->ij", [s, A], "s*A"),
    (",,->", [s, s, t], "s^2*t"),
    ("ij,k->ijk", [A, x], "A[i,j] x[k] -> [i,j,k]"),
    ("ij,jk->ik", [row, one], "row*one"),
    ("ij->ji", [row], "row'"),
    ("ij,jk->ik", [one, row], "one*row"),
]

FORMULAS: list[tuple[Node, str]] = [
    (x, "x"),
    (scale(A, 2.0), "2*A"),
    (-A, "-A"),
    (scale(x, 1 / 3), "1/3*x"),
    (scale(x, 0.1), "0.1*x"),
    (1.0 - x, "1 - x"),
    (x - 1.0, "x - 1"),
    (x + broadcast(s, ("n",), []), "s + x"),
    (-residual, "-(A*x - y)"),
    (residual, "A*x - y"),
    (pairwise("ij,j->i", A, residual), "A*(A*x - y)"),
    (scale(pairwise("ij,i->j", A, residual), 2.0), "2*A'*(A*x - y)"),
    (multiply(residual, residual), "(A*x - y).^2"),
    (pairwise("ij,j->i", A + B, x), "(A + B)*x"),
    (pairwise("ij,j->i", A, pairwise("ij,j->i", B, x)), "A*B*x"),
    (pairwise("ki,kj->ij", pairwise("ij,jk->ik", A, B), pairwise("ij,jk->ik", A, B)), "(A*B)'*(A*B)"),
    (multiply(x, pairwise("ij,j->i", A, multiply(x, y))), "x.*(A*(x.*y))"),
    (multiply(x, map_("exp", x), multiply(x, y)), "x.^2.*exp(x).*y"),
    (multiply(A + B, map_("exp", A - B)), "exp(A - B).*(A + B)"),
    (map_("power", residual, uniform(3.0, ("n",))), "(A*x - y).^3"),
    (transpose(map_("exp", A), [1, 0]), "exp(A)'"),
    (multiply(x, reciprocal(y)), "x./y"),
    (reciprocal(x), "1./x"),
    (multiply(s, reciprocal(t)), "s/t"),
    (pairwise("i,,->i", x, s, reciprocal(t)), "s*x/t"),
    (map_("power", x, uniform(-2.0, ("n",))), "x.^(-2)"),
    (map_("maximum", x, uniform(0.0, ("n",))), "maximum(x, 0)"),
    (map_("exp", -x), "exp(-x)"),
    (map_("exp", multiply(x, x) + y), "exp(x.^2 + y)"),
    (uniform(3.0), "3"),
    (uniform(3.0, ("n", "m")), "3*ones(n, m)"),
    (broadcast(s, ("n",), []), "s*ones(n)"),
    (einsum([s, z], [(), (Axis(((0, 1),), 0),)], (Axis(((0, 1),), 1),), (7,), (6,)), "s*(z[i] -> [i+1])"),
    (zero(("n",)), "zeros(n)"),
    (delta(("n",)), "eye(n)"),
    (A + delta(("n",)), "A + eye(n)"),
    (delta(("n", "m")), "-> [i,j,i,j]"),
    (total(uniform(2.0, ("n",)), [0]), "2*n"),
    (apply_("inverse", [A], ("n", "n")), "inv(A)"),
    (apply_("scatter", [x, variable("at", ("n",), kind="integer")], (7,), (7,)), "scatter(x, at, 7)"),
    (select(z, [slice(1, None)]), "z[i+1] -> [i]"),
    (select(z, [slice(None, None, 2)]), "z[2i] -> [i]"),
    (select(z, [slice(None, None, -1)]), "z[5-i] -> [i]"),
    (select(z, [slice(0, 3)]), "z[i] -> [i], i<3"),
    (select(z, [3]), "z[3] -> []"),
    (total(select(z, [slice(0, 3)]), [0]), "z[i] -> [], i<3"),
    (broadcast(v, (3, 4), [1]), "v[j] -> [i,j]"),
    (reshape(M, (12,)), "M[j,i] -> [4j+i]"),
    (reshape(z, (2, 3)), "z[3i+j] -> [i,j]"),
    (concatenate([v, z], 0), "(v[i] -> [i]) + (z[i] -> [i+4])"),
    (constant(np.array([1.0, 2.5, -3.0])), "[1, 2.5, -3]"),
    (constant(np.array(np.inf)), "inf"),
    (hessian(pairwise("i,ij,j->", x, A, x), x), "A + A'"),
    (hessian(pairwise("i,ij,j->", x, S, x), x), "2*S"),
    (reverse(pairwise("i,ij,j->", x, A, x), [x])[0], "A*x + A'*x"),
    (factorization(), "sum((T - U*V').^2)"),
    (reverse(factorization(), [U])[0], "-2*(T - U*V')*V"),
    (hessian(factorization(), U), "2*(V[l,j] V[l,k] -> [i,j,i,k])"),
    (
        hessian(rosenbrock(), z),
        "2*(-> [i+1,i+1]) + 12*(z[i] z[i] -> [i,i], i<5) - 4*(z[i+1] -> [i,i]) - 4*(z[i] -> [i+1,i])"
        " - 4*(z[i] -> [i,i+1])",
    ),
    (reverse(simplify([logistic()])[0], [w])[0], "-X'*(c.*sigmoid(-c.*(X*w)))"),
    (multiply(broadcast(s, ("n",), []), pairwise("i,i->i", x, y)), "s*x.*y"),
    (multiply(soft(), soft()), "softmax(A*x).^2"),
    (reverse(soft(), [x])[0], "diag(t1)*A - t1*t1'*A where t1 = softmax(A*x)"),
    (
        pairwise("ij,j->i", constant(np.arange(12.0).reshape(3, 4)), v),
        "c1*v where c1 = constant(3, 4)",
    ),
]


@pytest.mark.parametrize(("spec", "operands", "expected"), PRODUCTS)
def test_products(spec: str, operands: list[Node], expected: str) -> None:
    assert text(pairwise(spec, *operands)) == expected


@pytest.mark.parametrize(("node", "expected"), FORMULAS, ids=[expected for _, expected in FORMULAS])
def test_formulas(node: Node, expected: str) -> None:
    assert text(node) == expected


def test_new_names_avoid_those_of_variables() -> None:
    t1 = variable("t1", ("n", "n"))
    shared = apply_("softmax", [pairwise("ij,j->i", t1, x)], ("n",))
    assert text(pairwise("i,j->ij", shared, shared)) == "t2*t2' where t2 = softmax(t1*x)"


# Reading formulas back.


class Reader:
    """Evaluates printed formulas. Vectors are columns; a value is an array and its number of axes."""

    def __init__(self, values: Mapping[str, np.ndarray], shape: Sequence[int], placed: bool = False) -> None:
        self.values = {name: (np.asarray(value), np.ndim(value)) for name, value in values.items()}
        self.shape = tuple(shape)
        self.placed = placed
        """Whether all products with indices have the shape of the result, which the text does not tell."""

    def read(self, formula: str) -> np.ndarray:
        formula, _, definitions = formula.partition(" where ")
        for definition in filter(None, definitions.split("; ")):
            name, _, body = definition.partition(" = ")
            self.values[name] = self.whole(body)
        return np.broadcast_to(self.whole(formula)[0], self.shape)

    def whole(self, body: str) -> tuple[np.ndarray, int]:
        self.tokens = re.findall(r"->|\.[*/^]|\d+(?:\.\d+)?(?:e[+-]?\d+)?|[A-Za-z]\w*|\S", body)
        found = self.expression()
        assert not self.tokens
        return found

    def take(self, *expected: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in expected else None

    def expression(self) -> tuple[np.ndarray, int]:
        depths = itertools.accumulate({"(": 1, ")": -1}.get(token, 0) for token in self.tokens)
        inside = itertools.takewhile(lambda pair: pair[0] >= 0, zip(depths, self.tokens, strict=True))
        return self.arrow() if (0, "->") in list(inside) else self.sum()

    def sum(self) -> tuple[np.ndarray, int]:
        value, rank = self.product(-1.0 if self.take("-") else 1.0)
        while sign := self.take("+", "-"):
            term, term_rank = self.product(1.0 if sign == "+" else -1.0)
            value, rank = value + term, max(rank, term_rank)
        return value, rank

    def product(self, sign: float) -> tuple[np.ndarray, int]:
        value, rank = self.power()
        value = sign * value
        while operator := self.take("*", "/", ".*", "./"):
            other, other_rank = self.power()
            if operator == "*" and rank and other_rank:
                value, rank = self.matrix_product(value, rank, other, other_rank)
                continue
            assert operator.startswith(".") or not (rank and other_rank)
            assert operator != "/" or not other_rank
            value = value * other if "*" in operator else value / other
            rank = max(rank, other_rank)
        return value, rank

    @staticmethod
    def matrix_product(left: np.ndarray, rank: int, right: np.ndarray, other: int) -> tuple[np.ndarray, int]:
        assert other == 1 or right.ndim == 2
        if left.ndim == 1 and right.ndim == 2:
            assert right.shape[0] == 1  # only an outer product has a column on its left
            return np.outer(left, right), 2
        if right.ndim == 1 and left.shape[0] == 1:
            return left[0] @ right, 0
        return left @ right, right.ndim

    def power(self) -> tuple[np.ndarray, int]:
        value, rank = self.atom()
        while operator := self.take("'", "^", ".^"):
            if operator == "'":
                value, rank = (value[None, :], 2) if rank == 1 else (value.T, rank)
            else:
                exponent, _ = self.atom()
                value = value**exponent
                assert (operator == "^") == (rank == 0)
        return value, rank

    def atom(self) -> tuple[np.ndarray, int]:
        token = self.tokens.pop(0)
        if token == "(":
            found = self.expression()
            assert self.take(")")
            return found
        if token[0].isdigit():
            return np.asarray(float(token)), 0
        if not self.take("("):
            return self.values[token]
        arguments = [self.expression()[0]]
        while self.take(","):
            arguments.append(self.expression()[0])
        assert self.take(")")
        value = np.asarray(FUNCTIONS[token](*arguments))
        return value, value.ndim

    def arrow(self) -> tuple[np.ndarray, int]:
        factors = []
        while not self.take("->"):
            value, rank = self.atom()
            factors.append((value, self.axes() if rank else []))
        output = self.axes()
        ranges: dict[str, int] = {}
        sized = [pair for value, axes in factors for pair in zip(axes, value.shape, strict=True)]
        inside = {letter for (strides, _), _ in sized for letter in strides}
        if len(output) == len(self.shape):
            placed = zip(output, self.shape, strict=True)
            sized += [(a, size) for a, size in placed if a not in [({letter: 1}, 0) for letter in inside]]
        for (strides, offset), size in sized:
            if len(strides) == 1:
                ((letter, stride),) = strides.items()
                reach = (size - 1 - offset) // stride + 1 if stride > 0 else offset // -stride + 1
                ranges[letter] = min(ranges.get(letter, reach), reach)
        while self.take(","):
            letter = self.tokens.pop(0)
            assert self.take("<")
            ranges[letter] = int(self.tokens.pop(0))
        return self.contract(factors, output, ranges)

    def contract(self, factors: Any, output: Any, ranges: Mapping[str, int]) -> tuple[np.ndarray, int]:
        plain = all(offset == 0 and list(strides.values()) == [1] for strides, offset in output)
        names = ["".join(strides) for strides, _ in output]
        own = plain and len(set(names)) == len(names) and not self.placed
        result = np.zeros([ranges[name] for name in names] if own else self.shape)
        for point in itertools.product(*map(range, ranges.values())):
            at = dict(zip(ranges, point, strict=True))
            term = 1.0
            for value, axes in factors:
                term = term * value[tuple(place(axis, at) for axis in axes)]
            result[tuple(place(axis, at) for axis in output)] += term
        return result, result.ndim

    def axes(self) -> list[tuple[dict[str, int], int]]:
        """Strides by letter and the offset of each axis in brackets."""
        assert self.take("[")
        found: list[tuple[dict[str, int], int]] = []
        body = ""
        while not self.take("]"):
            body += self.tokens.pop(0)
        for axis in filter(None, body.split(",")):
            strides, offset = {}, 0
            for sign, number, letter in re.findall(r"([+-]?)(\d*)([a-z]?)", axis):
                size = int(sign + (number or "1")) if number or letter else 0
                if letter:
                    strides[letter] = size
                else:
                    offset += size
            found.append((strides, offset))
        return found


def place(axis: tuple[dict[str, int], int], at: Mapping[str, int]) -> int:
    strides, offset = axis
    return offset + sum(stride * at[letter] for letter, stride in strides.items())


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "sin": np.sin,
    "maximum": np.maximum,
    "sigmoid": lambda value: 1 / (1 + np.exp(-value)),
    "diag": np.diag,
    "diagonal": np.diagonal,
    "sum": np.sum,
    "tr": np.trace,
    "eye": lambda size: np.eye(int(size)),
    "ones": lambda *sizes: np.ones([int(size) for size in sizes]),
    "zeros": lambda *sizes: np.zeros([int(size) for size in sizes]),
}

SIZE = 3
LEAVES = [variable(node.name, (SIZE,) * node.rank, node.attributes) for node in (A, B, S, x, y, s, t)]
LEAVES += [delta((SIZE,)), uniform(2.0, (SIZE, SIZE)), uniform(-1.5, (SIZE,)), uniform(0.5)]
SPECS = [spec for spec, operands, _ in PRODUCTS if all(operand.shape[:1] != (4,) for operand in operands)]
SPECS = sorted({spec for spec in SPECS if len(spec.partition("->")[2]) < 3})


def values_of(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    values = {
        name: random.uniform(0.5, 1.5, (SIZE,) * rank)
        for name, rank in zip("ABxyst", (2, 2, 1, 1, 0, 0), strict=True)
    }
    return values | {"S": values["A"] + values["A"].T}


@st.composite
def expressions(draw: st.DrawFn) -> Node:
    """Random products, sums and functions of scalars, vectors and matrices."""
    nodes = list(LEAVES)
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["product", "product", "product", "sum", "scale", "exp", "reciprocal"]))
        pick = draw(st.sampled_from(nodes))
        alike = [node for node in nodes if node.rank == pick.rank]
        if kind == "product":
            spec = draw(st.sampled_from(SPECS))
            ranks = [len(letters) for letters in spec.partition("->")[0].split(",")]
            pick = pairwise(
                spec, *(draw(st.sampled_from([n for n in nodes if n.rank == rank])) for rank in ranks)
            )
        elif kind == "sum":
            pick = add(draw(st.lists(st.sampled_from(alike), min_size=2, max_size=3)), pick.shape)
        elif kind == "scale":
            pick = scale(pick, draw(st.sampled_from([-1.0, 2.0, -0.5, 1 / 3])))
        else:
            bounded = map_("sin", pick)
            pick = map_("exp", bounded) if kind == "exp" else reciprocal(bounded + 2.0)
        nodes.append(pick)
    return nodes[-1]


@settings(max_examples=250, deadline=None, derandomize=True)
@given(expressions())
def test_formulas_mean_what_they_say(node: Node) -> None:
    values = values_of(0)
    formula = text(node)
    expected = naive.evaluate(node, values)
    np.testing.assert_allclose(Reader(values, node.shape).read(formula), expected, rtol=1e-8, atol=1e-8)


@st.composite
def affine_products(draw: st.DrawFn) -> Node:
    """Random products of vectors and matrices with offsets, strides and flips, placed into larger tensors."""
    ranges = draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))

    def axis() -> tuple[Axis, int]:
        label = draw(st.integers(0, len(ranges) - 1))
        stride, before, after = (
            draw(st.sampled_from([-2, -1, 1, 1, 1, 2])),
            draw(st.integers(0, 2)),
            draw(st.integers(0, 2)),
        )
        span = abs(stride) * (ranges[label] - 1)
        return Axis(((label, stride),), before + (span if stride < 0 else 0)), before + span + 1 + after

    tensors = [[axis() for _ in range(draw(st.integers(1, 2)))] for _ in range(draw(st.integers(2, 4)))]
    *operands, output = ([a for a, _ in tensor] for tensor in tensors)
    *shapes, shape = (tuple(size for _, size in tensor) for tensor in tensors)
    leaves = [variable(name, shape) for name, shape in zip("PQR", shapes, strict=False)]
    return einsum(leaves, operands, output, shape, ranges, 2.0)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(affine_products())
def test_index_notation_means_what_it_says(node: Node) -> None:
    random = np.random.default_rng(1)
    values = {
        leaf.name: random.uniform(1, 2, leaf.shape) for leaf in topological([node]) if hasattr(leaf, "name")
    }
    formula = text(node)
    np.testing.assert_allclose(
        Reader(values, node.shape, placed=True).read(formula), naive.evaluate(node, values)
    )


def test_bands_mean_what_they_say() -> None:
    node = hessian(rosenbrock(), z)
    values = {"z": np.arange(1.0, 7.0)}
    np.testing.assert_allclose(Reader(values, node.shape).read(text(node)), naive.evaluate(node, values))


# Large expressions.


def chain(length: int, step: Callable[[Node], Node], name: str = "x") -> Node:
    node: Node = variable(name, (3,))
    for _ in range(length):
        node = step(node)
    return node


STEPS: dict[str, Callable[[Node], Node]] = {
    "functions": lambda node: map_("sin", node),
    "diamonds": lambda node: multiply(map_("sin", node), map_("exp", node)),
    "matrices": lambda node: pairwise("ij,j->i", variable("W", (3, 3)), node),
    "sums": lambda node: map_("sin", node) + variable("x", (3,)),
}


@pytest.mark.parametrize("name", STEPS)
def test_long_chains_print(name: str) -> None:
    steps = 5000 // {"diamonds": 3, "sums": 2}.get(name, 1)
    short, long = chain(steps // 10, STEPS[name]), chain(steps, STEPS[name])
    for printer in (text, latex, einsum_text, lambda node: Graph(node).dot, lambda node: Graph(node).svg()):
        assert len(printer(long)) < 15 * len(printer(short))


def test_long_pieces_are_named() -> None:
    formula, _, definitions = text(chain(200, STEPS["functions"])).partition(" where ")
    pieces = [formula, *definitions.split("; ")]
    assert len(pieces) > 2
    assert all(piece.count("(") <= 41 for piece in pieces)
    terms = [chain(20, STEPS["functions"], name=f"a{k}") for k in range(40)]
    longest = max(map(len, re.split(" where |; ", text(add(terms, (3,))))))
    assert 1500 < longest <= 2000


# The listing.


def test_listing() -> None:
    node = scale(pairwise("ij,j->i", A, map_("exp", x)), 2.0) - y
    assert einsum_text(node).splitlines() == [
        "t1 = exp(x)",
        't2 = 2 * einsum("ij,j->i", A, t1)',
        "t3 = -1 * y",
        "t4 = t2 + t3",
    ]


def test_listing_of_affine_products() -> None:
    product = multiply(select(z, [slice(1, None)]), select(z, [slice(0, 5)]))
    assert einsum_text(product) == 't1 = einsum("z[i] z[i+1] -> [i]", shape=(5,))'
    assert einsum_text(broadcast(v, (3, 4), [1])) == 't1 = einsum("j->ij", v, shape=(3, 4))'
    assert einsum_text(delta((3, 4))) == 't1 = einsum("->ijij", shape=(3, 4, 3, 4))'


@pytest.mark.parametrize("node", [x, uniform(2.0, ("n",)), delta(("n",))], ids=["x", "ones", "eye"])
def test_listing_of_leaves(node: Node) -> None:
    assert einsum_text(node) == text(node)


def test_every_operation_has_its_line() -> None:
    node = hessian(logistic(), w)
    lines = einsum_text(node).splitlines()
    steps = [step for step in topological([node]) if step.operands]
    assert [line.partition(" = ")[0] for line in lines] == [f"t{k + 1}" for k in range(len(steps))]
    assert sum("einsum(" in line for line in lines) == sum(isinstance(step, Einsum) for step in steps)


# LaTeX.

LATEX = [
    (hessian(pairwise("i,ij,j->", x, A, x), x), r"A + A^{\top}"),
    (hessian(factorization(), U), r"2 \left[\sum_{l} V_{lj} V_{lk}\right]_{ijik}"),
    (pairwise("ij,i,ik->jk", A, x, A), r"A^{\top} \operatorname{diag}\left(x\right) A"),
    (scale(pairwise("ij,i->j", A, residual), 2.0), r"2 A^{\top} \left(A x - y\right)"),
    (multiply(x, x, reciprocal(y)), r"x^{\odot 2} \oslash y"),
    (multiply(s, reciprocal(t)), r"\frac{s}{t}"),
    (select(z, [slice(1, None)]), r"\left[z_{i+1}\right]_{i}"),
    (total(select(z, [slice(0, 3)]), [0]), r"\sum_{i<3} z_{i}"),
    (uniform(2.0, ("n",)), r"2 \mathbf{1}_{n}"),
    (scale(x, 1 / 3), r"\frac{1}{3} x"),
    (scale(x, 1e20), r"1 \cdot 10^{20} x"),
    (transpose(apply_("inverse", [A], ("n", "n")), [1, 0]), r"\left(A^{-1}\right)^{\top}"),
    (apply_("inverse", [A + B], ("n", "n")), r"\left(A + B\right)^{-1}"),
    (map_("exp", -x), r"\exp\left(-x\right)"),
    (
        reverse(soft(), [x])[0],
        r"\operatorname{diag}\left(t_{1}\right) A - t_{1} t_{1}^{\top} A \quad\text{where}\quad"
        r" t_{1} = \operatorname{softmax}\left(A x\right)",
    ),
    (variable("theta_max", ()), r"\theta_{\mathrm{max}}"),
    (variable("W12", ("n",)), "W_{12}"),
    (variable("loss", ()), r"\mathit{loss}"),
    (variable("a.b_1%", ()), r"\mathrm{a.b\_1\%}"),
]


@pytest.mark.parametrize(("node", "expected"), LATEX, ids=[expected for _, expected in LATEX])
def test_latex(node: Node, expected: str) -> None:
    assert latex(node) == expected


def check_latex(formula: str) -> None:
    braces = re.sub(r"\\[{}]", "", formula)
    assert braces.count("{") == braces.count("}")
    assert formula.count(r"\left") == formula.count(r"\right")
    for name, like in ((r"\lor", r"\vee"), (r"\land", r"\wedge"), (r"\lnot", r"\neg")):
        formula = formula.replace(name, like)  # names that the parser of matplotlib does not know
    MathTextParser("path").parse(f"${formula}$")


@pytest.mark.parametrize("node", [node for node, _ in FORMULAS], ids=[expected for _, expected in FORMULAS])
def test_latex_parses(node: Node) -> None:
    check_latex(latex(node))


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_latex_of_rows(name: str) -> None:
    operands = [x, -y, A][: ELEMENTWISE[name].arity]
    shaped = [
        variable("W1", ("n",)) + x if k == 0 else pairwise("ij,j->i", A, x) for k in range(len(operands))
    ]
    node = map_(name, *shaped)
    check_latex(latex(pairwise("i,ij->ij", multiply(node, node), A)))


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_latex_of_records(name: str) -> None:
    node = apply_(name, [A + B, variable("W1", ("n", "n"))], ("n", "n"), (2,))
    check_latex(latex(transpose(node, [1, 0])))
    assert text(node).endswith(", 2)")


# Graphs.


def sample_graph() -> Graph:
    return Graph(hessian(logistic(), w))


def test_dot_has_all_nodes_and_edges() -> None:
    graph = sample_graph()
    nodes = re.findall(r"^  n(\d+) \[label=", graph.dot, re.MULTILINE)
    edges = re.findall(r"^  n(\d+) -> n(\d+);$", graph.dot, re.MULTILINE)
    assert [int(number) for number in nodes] == list(range(len(graph.nodes)))
    assert [(int(a), int(b)) for a, b in edges] == graph.edges
    uses = [(operand, node) for node in graph.nodes for operand in node.operands]
    assert [(graph.nodes[a], graph.nodes[b]) for a, b in graph.edges] == uses


SVG = "{http://www.w3.org/2000/svg}"


def test_svg_boxes_do_not_overlap() -> None:
    root = ElementTree.fromstring(sample_graph().svg())
    boxes = []
    for group in root.iter(f"{SVG}g"):
        shape = {key: float(value) for key, value in group[0].attrib.items() if key not in ("class", "fill")}
        if group[0].tag == f"{SVG}rect":
            boxes.append((shape["x"], shape["y"], shape["x"] + shape["width"], shape["y"] + shape["height"]))
        else:
            cx, cy, rx, ry = (shape[key] for key in ("cx", "cy", "rx", "ry"))
            boxes.append((cx - rx, cy - ry, cx + rx, cy + ry))
    assert len(boxes) == len(sample_graph().nodes)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height for box in boxes)
    for one, two in itertools.combinations(boxes, 2):
        assert one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]


def test_svg_edges_and_labels() -> None:
    graph = Graph(map_("exp", variable('a<b>&"\x01', (2,))))
    root = ElementTree.fromstring(graph.svg())
    labels = [element.text for element in root.iter(f"{SVG}text")]
    assert labels == ['a<b>&" ', "(2,)", "exp", "(2,)"]
    assert sum(path.get("class") == "edge" for path in root.iter(f"{SVG}path")) == 1
    assert {"rect", "ellipse"} <= {group[0].tag.removeprefix(SVG) for group in root.iter(f"{SVG}g")}
    assert graph._repr_svg_() == graph.svg()
    assert r"a<b>&\"" in graph.dot


def test_graph_is_saved(tmp_path: Any) -> None:
    graph = sample_graph()
    for suffix, content in ((".dot", graph.dot), (".svg", graph.svg())):
        graph.save(tmp_path / f"graph{suffix}")
        assert (tmp_path / f"graph{suffix}").read_text(encoding="utf-8") == content
    with pytest.raises(ArgumentError, match=r"cannot be saved as 'graph.png'; end the path in .dot or .svg"):
        graph.save(tmp_path / "graph.png")
