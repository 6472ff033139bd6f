"""Random texts: what is printed is read back with the same meaning, and no text breaks the parser."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hesse
from hesse.frontends.language.reader import read
from hesse.frontends.language.source import Source

EXAMPLES = int(os.environ.get("HESSE_FUZZ", "0"))
"""How many inputs each test tries; 0 is the usual few. `HESSE_FUZZ=100000` is a campaign of its own."""
SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": not EXAMPLES}

GENERATOR = np.random.default_rng(7)
SYMMETRIC = GENERATOR.normal(size=(3, 3))
ARRAYS: dict[str, Any] = {
    "a": -0.7,
    "b": 1.2,
    "x": GENERATOR.normal(size=3),
    "y": GENERATOR.uniform(0.5, 1.5, 3),
    "A": GENERATOR.normal(size=(3, 3)),
    "B": SYMMETRIC + SYMMETRIC.T,
    "P": GENERATOR.uniform(0.5, 1.5, (3, 3)),
}


SCALARS = """
    (S+S) (S-S) (S*S) (S/(S^2+1)) (-S) (S^2) (V'*V) (V'*M*V) sum(V) sum(M) tr(M)
    exp(sin(S)) norm2(V) norm1(M)
    max(V) sum[i](V[i]*V[i]) sum[i,j](M[i,j]*V[i])
"""
VECTORS = """
    (V+V) (V-V) (S*V) (M*V) (M'*V) (V.*V) (V./(V.^2+1)) (V.^2) exp(sin(V)) tanh(V) diag(M) (V+1)
    (V*(V'*V)) (M*vector(S)) abs(V) softmax(V)
"""
MATRICES = """
    (M+M) (M-M) (S*M) (M*M) (M') (V*V') (M.*M) diag(V) (M.^2) exp(sin(M)) (M^2) (M+S*eye) tanh(M) 
    (M*diag(V)) inv(M*M'+5*eye)
"""
LEAVES = {"S": ["a", "b", "2", "0.5"], "V": ["x", "y"], "M": ["A", "B", "P"]}


def _grow(kind: str, levels: int) -> Any:
    """Texts of a kind: S, V and M in the templates stand for scalars, vectors and matrices."""
    leaves = st.sampled_from(LEAVES[kind])
    if not levels:
        return leaves
    templates = {"S": SCALARS, "V": VECTORS, "M": MATRICES}[kind].split()
    return st.one_of(leaves, *(_filled(template, levels - 1) for template in templates))


def _filled(template: str, levels: int) -> Any:
    pieces = re.split("([SVM])", template)
    parts = [_grow(piece, levels) if piece in LEAVES else st.just(piece) for piece in pieces]
    return st.tuples(*parts).map("".join)


EXPRESSIONS = st.one_of(*(_grow(kind, 2) for kind in LEAVES))
# sizes are declared, so that every random expression fits: n for vectors, all matrices square
DECLARED = {
    "a": "scalar a; ",
    "b": "positive scalar b; ",
    "x": "vector x(n); ",
    "y": "positive vector y(n); ",
    "A": "matrix A(n,n); ",
    "B": "symmetric matrix B(n,n); ",
    "P": "positive matrix P(n,n); ",
}
DECLARATIONS = "".join(DECLARED.values())


def _value(formula: hesse.Formula) -> np.ndarray:
    with np.errstate(all="ignore"):
        sizes = {name: 3 for name in formula.open_sizes}
        return formula.evaluate(**sizes, **{v.name: ARRAYS[v.name] for v in formula.variables})


def _same(text: str, formula: hesse.Formula) -> None:
    # other variables are free as names for parts of the formula
    declared = {declaration.name for declaration in read(Source(text)).declarations}
    needed = [v.name for v in hesse.Expression(formula.node).variables if v.name not in declared]
    again = hesse.parse("".join(DECLARED[name] for name in needed) + text)
    assert again.ndim == formula.ndim
    if again.node is formula.node:
        return
    first, second = _value(formula), _value(again)
    np.testing.assert_allclose(second, first, rtol=1e-7, atol=1e-9 * (1 + np.max(np.abs(first), initial=0)))


@settings(max_examples=EXAMPLES or 150, **SETTINGS)
@given(EXPRESSIONS)
def test_what_is_printed_is_read_back(text: str) -> None:
    formula = hesse.parse(DECLARATIONS + text)
    printed = str(formula)
    _same(printed, formula)
    indexed = formula.to("index")
    _same(indexed, formula)


@settings(max_examples=EXAMPLES // 10 or 40, **SETTINGS)
@given(_grow("S", 2), st.sampled_from(["x", "A", "y", "a"]))
def test_printed_derivatives_are_read_back(text: str, name: str) -> None:
    formula = hesse.parse(DECLARATIONS + text)
    if name not in [variable.name for variable in formula.variables]:
        return
    derivative = formula.diff(name)
    try:
        printed = str(derivative)
    except hesse.VerificationError as problem:
        assert "could not be compared" in str(problem)
        return
    _same(printed, derivative)


SYMBOLS = """
    + - * / ^ ' ( ) [ ] , ; = . .* ./ .^ *[ " "ij,jk->ik" where sum sum[ sum[i]( x A a T i j n 2 2. 0.5 1e3
    1e999 eye delta vector(1) x[i] A[i,j] exp( log( det( inv( norm2( kron( vec( softmax( einsum( max( diag(
    matrix( A(n,n)
"""
WORDS = [" ", "\n", "vector ", "matrix ", "symmetric ", "tensor ", "psd ", "scalar ", "p = ", "H[i,j] = "]
TOKENS = st.sampled_from([*WORDS, *SYMBOLS.split()])


@settings(max_examples=EXAMPLES or 1500, **SETTINGS)
@given(st.one_of(st.lists(TOKENS, max_size=14).map("".join), st.text(max_size=30)))
def test_texts_of_all_kinds_are_read_or_refused_with_a_position(text: str) -> None:
    try:
        formula = hesse.parse(text)
    except (hesse.NotationError, hesse.ShapeError) as problem:
        assert problem.position is not None
        assert 0 <= problem.position <= len(text)
        assert "^" in str(problem)
    else:
        assert isinstance(formula, hesse.Formula)


MUTATIONS = st.tuples(st.integers(0, 60), TOKENS, st.integers(0, 3))
STARTS = [
    "x'*A*x", "norm2(M.*(T-U*V'))^2", "sum[i,j,k](T[i,j,k]*x[i]*x[j]*x[k])", "2*A'*p where p = softmax(A*x)",
    "symmetric matrix A(n,n); positive vector x(n); x'*A*x", 'einsum("ij,jk->ik", A, B)', "A *[ij,jk,ik] B",
    "H[i,j] = 2*delta[i,j]*x[i]", "sum(log(exp(-y.*(X*w))+vector(1)))", "kron(A,B)*vec(X)",
]  # fmt: skip


@settings(max_examples=EXAMPLES or 1500, **SETTINGS)
@given(st.sampled_from(STARTS), st.lists(MUTATIONS, min_size=1, max_size=3))
def test_damaged_formulas_are_read_or_refused_with_a_position(
    text: str, damages: list[tuple[int, str, int]]
) -> None:
    for place, token, removed in damages:
        text = text[:place] + token + text[place + removed :]
    test_texts_of_all_kinds_are_read_or_refused_with_a_position.hypothesis.inner_test(text)
