"""Printed formulas: expected texts, texts read back and evaluated, listings of programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hesse
import naive
from formula_reader import Reader
from hesse.ir import (
    Axis,
    Einsum,
    Node,
    Variable,
    add,
    apply_,
    bind_sizes,
    broadcast,
    delta,
    einsum,
    map_,
    multiply,
    pairwise,
    reciprocal,
    scale,
    select,
    topological,
    uniform,
    variable,
)
from hesse.printing import Graph, einsum_text, index_text, latex, text
from hesse.printing.collect import Collecting
from hesse.printing.forms import Form
from printing_cases import FORMULAS, PRODUCTS, A, B, S, hessian, logistic, rosenbrock, s, t, v, w, x, y, z


@pytest.mark.parametrize(("spec", "operands", "expected"), PRODUCTS)
def test_products(spec: str, operands: list[Node], expected: str) -> None:
    assert text(pairwise(spec, *operands)) == expected


@pytest.mark.parametrize(("node", "expected"), FORMULAS, ids=[expected for _, expected in FORMULAS])
def test_formulas(node: Node, expected: str) -> None:
    assert text(node) == expected


def softmax(node: Node) -> Node:
    return apply_("softmax", [node], node.shape)


def test_new_names_avoid_those_of_variables_and_sizes() -> None:
    p, q = variable("p", ("n", "n")), variable("x", ("q",))
    shared = softmax(pairwise("ij,j->i", p, variable("x", ("n",))))
    assert text(pairwise("i,j->ij", shared, shared)) == "q*q' where q = softmax(p*x)"
    long = softmax(multiply(q, map_("exp", q)))
    assert text(pairwise("i,j->ij", long, long)) == "p*p' where p = softmax(x.*exp(x))"


def test_names_have_the_default_types_of_the_language() -> None:
    parts = [map_("exp", map_("sin", map_("cos", node))) for node in (s, x, A)]
    squares = [multiply(part, map_("log", part + 1.0)) for part in parts]
    assert [text(node) for node in squares] == [
        "c*log(c + 1) where c = exp(sin(cos(s)))",
        "u.*log(u + 1) where u = exp(sin(cos(x)))",
        "U.*log(U + 1) where U = exp(sin(cos(A)))",
    ]


def test_index_letters_avoid_names() -> None:
    i, p = variable("i", ("n",)), variable("p", ("n",))
    T = variable("T", ("n", "n", "n"))
    assert text(pairwise("ijk,k->ij", T, i)) == "H[j,k] = sum[p](T[j,k,p]*i[p])"
    assert text(pairwise("ijk,k->ij", T, p)) == "H[i,j] = sum[q](T[i,j,q]*p[q])"


T3 = variable("T", ("n", "n", "n"))
INDEXED: list[tuple[Node, str, str]] = [
    (pairwise("ij,j->i", A, x), "A*x", "g[i] = sum[p](A[i,p]*x[p])"),
    (x, "x", "g[i] = x[i]"),
    (multiply(A, A), "A.^2", "H[i,j] = A[i,j]^2"),
    (pairwise("ijk,i,j,k->", T3, x, x, x), "sum[p,q,r](T[p,q,r]*x[p]*x[q]*x[r])", ""),
    (T3, "T", "R[i,j,k] = T[i,j,k]"),
    (map_("exp", T3), "R[i,j,k] = exp(T[i,j,k])", ""),
    (pairwise("ijk,i->jk", map_("exp", T3), x), "H[i,j] = sum[p](x[p]*exp(T[p,i,j]))", ""),
    (
        pairwise("ij,k->ijk", apply_("inverse", [A], ("n", "n")), pairwise("ij,j->i", A, x)),
        "T[i,j,k] = inv(A)[i,j]*(A*x)[k]",
        "T[i,j,k] = inv(A)[i,j]*sum[p](A[k,p]*x[p])",
    ),
    (pairwise("ip,ip,pj,pl->ijil", A, A, B, B), "H[i,j,k,l] = delta[i,k]*sum[p](A[i,p]^2*B[p,j]*B[p,l])", ""),
    (broadcast(x, ("n", "n", "n"), [1]), "T[i,j,k] = x[j]", ""),
    (delta(("n", "m")), "H[i,j,k,l] = delta[i,k]*delta[j,l]", ""),
    (T3 - map_("exp", T3), "R[i,j,k] = T[i,j,k] - exp(T[i,j,k])", ""),
    (multiply(T3, reciprocal(map_("exp", T3))), "R[i,j,k] = T[i,j,k]/exp(T[i,j,k])", ""),
    (
        pairwise("i,j,k->ijk", softmax(x + y), softmax(x + y), x),
        "T[i,j,k] = x[k]*p[i]*p[j] where p = softmax(x + y)",
        "T[i,j,k] = x[k]*p[i]*p[j] where p = softmax(x + y)",
    ),
    (
        softmax(pairwise("ijk,j,k->i", T3, x, x)),
        "softmax(r) where r[i] = sum[p,q](T[i,p,q]*x[p]*x[q])",
        "g[i] = softmax(r)[i] where r[i] = sum[p,q](T[i,p,q]*x[p]*x[q])",
    ),
]
"""Nodes, their text, and their text in index notation where it is another one."""


@pytest.mark.parametrize(("node", "expected", "indexed"), INDEXED, ids=[case[1] for case in INDEXED])
def test_index_notation(node: Node, expected: str, indexed: str) -> None:
    assert text(node) == expected
    assert index_text(node) == (indexed or expected)


# Reading formulas back.

SIZE = 3
SYMBOLIC = [A, B, S, x, y, s, t, delta(("n",)), uniform(2.0, ("n", "n")), uniform(-1.5, ("n",)), uniform(0.5)]
SPECS = [spec for spec, operands, _ in PRODUCTS if all(operand.shape[:1] != (4,) for operand in operands)]
SPECS = sorted(
    {*SPECS, "ij,ik->ijk", "ij,jk,kl->ikl", "i->iii", "ijk->ki", "ijk,j->ik", "ijk,ijl->kl", "ii,j->ijij"}
)
TYPES = {"A": "matrix", "B": "matrix", "S": "symmetric matrix", "x": "vector", "y": "vector"}
TYPES |= {"s": "scalar", "t": "scalar"}


def values_of(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    values = {
        name: random.uniform(0.5, 1.5, (SIZE,) * rank)
        for name, rank in zip("ABxyst", (2, 2, 1, 1, 0, 0), strict=True)
    }
    return values | {"S": values["A"] + values["A"].T}


@st.composite
def expressions(draw: st.DrawFn) -> Node:
    """Random products, sums and functions of scalars, vectors, matrices and what they make."""
    nodes = list(SYMBOLIC)
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["product", "product", "product", "sum", "scale", "exp", "reciprocal"]))
        pick = draw(st.sampled_from(nodes))
        alike = [node for node in nodes if node.rank == pick.rank]
        if kind == "product":
            ranks_known = {node.rank for node in nodes}
            fitting = [spec for spec in SPECS if ranks_known.issuperset(map(len, _inputs(spec)))]
            spec = draw(st.sampled_from(fitting))
            ranks = map(len, _inputs(spec))
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


def _inputs(spec: str) -> list[str]:
    return spec.partition("->")[0].split(",")


@pytest.mark.parametrize("printer", [text, index_text])
def test_formulas_mean_what_they_say(printer: Callable[[Node], str]) -> None:
    values = values_of(0)

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(expressions())
    def check(node: Node) -> None:
        (bound,) = bind_sizes([node], {"n": SIZE})
        expected = naive.evaluate(bound, values)
        formula = printer(node)
        names = {leaf.name for leaf in topological([node]) if isinstance(leaf, Variable)}
        types = {name: TYPES[name] for name in names}
        unsized = re.sub(r"(eye|vector|matrix)\([^()]*\)", "", formula)
        if re.search(r"\bn\b", unsized):  # a size as a factor, which the language takes for a variable
            assume(unsized == formula)
            types["n"] = "scalar"
        parsed = hesse.parse(formula, **types)
        given = dict.fromkeys(parsed.open_sizes, SIZE)
        given |= {leaf.name: values.get(leaf.name, SIZE) for leaf in parsed.variables}
        found = parsed.evaluate(**given)
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-8, atol=1e-8)

    check()


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
        leaf.name: random.uniform(1, 2, leaf.shape)
        for leaf in topological([node])
        if isinstance(leaf, Variable)
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
    steps = 3000 // {"diamonds": 3, "sums": 2}.get(name, 1)
    short, long = chain(steps // 10, STEPS[name]), chain(steps, STEPS[name])
    for printer in (text, latex, einsum_text, lambda node: Graph(node).dot, lambda node: Graph(node).svg()):
        assert len(printer(long)) < 15 * len(printer(short))


@pytest.mark.parametrize(
    ("formula", "by", "expected"),
    [
        ("2^a", "a", "log(2)*2^a"),
        ("2^a", "aa", "log(2)^2*2^a"),
        ("sum(vector(3).^x)", "xx", "log(3)^2*diag(3.^x)"),
        ("norm2(x)^a", "x", "a*norm2(x)^(a - 2)*x"),
        ("(x'*x)^a/(x'*x)", "a", "log(x'*x)*(x'*x)^(a - 1)"),
        ("sum(x.^a)", "xx", "a*(a - 1)*diag(x.^(a - 2))"),
    ],
)
def test_powers_with_exponents_that_are_no_numbers(formula: str, by: str, expected: str) -> None:
    types = {"x": "positive vector"} if "x" in formula else {}
    derivative = hesse.parse(formula, **types).diff(*by)
    assert str(derivative) == expected
    values = {"a": np.array(1.7), "x": np.array([0.5, 1.5, 2.0])}
    given = {variable.name: values[variable.name] for variable in derivative.variables}
    read = hesse.parse(expected, **types)
    np.testing.assert_allclose(read.evaluate(**given), derivative.evaluate(**given), rtol=1e-13)


def test_logarithms_in_latex() -> None:
    assert hesse.parse("2^a").diff("a").to("latex") == r"\log\left(2\right) \left(2\right)^{a}"
    assert hesse.parse("2^a").diff("a", "a").to("latex") == r"\log\left(2\right)^{2} \left(2\right)^{a}"


def test_few_ways_to_factor_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second derivative of a Rayleigh quotient has eight terms, and thousands of ways to group them."""
    tried: list[int] = []
    shortest = Collecting._shortest

    def counted(self: Collecting, terms: Sequence[Form], scalar: bool) -> Form:
        tried.append(len(terms))
        return shortest(self, terms, scalar)

    monkeypatch.setattr(Collecting, "_shortest", counted)
    hessian = hesse.parse("x'*A*x/(x'*x)").diff("x", "x")
    expected = "(A + A')/(x'*x) + 8*(x'*A*x)*x*x'/(x'*x)^3 - 2*((A + A')*x*x' + (x'*A*x)*eye + x*x'*(A + A'))"
    assert str(hessian) == f"{expected}/(x'*x)^2"
    assert 0 < len(tried) < 200


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
