"""What texts mean: operators, functions, types, index notation and definitions, by their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import hesse
import naive
from hesse.frontends.language.functions import RULES
from hesse.ops.elementwise import BUILDERS
from hesse.ops.registry import ELEMENTWISE

GENERATOR = np.random.default_rng(3)
ARRAYS: dict[str, Any] = {
    "a": 1.3,
    "b": 0.7,
    "x": GENERATOR.uniform(0.2, 1.5, 3),
    "y": GENERATOR.uniform(0.2, 1.5, 3),
    "z": GENERATOR.normal(size=4),
    "A": GENERATOR.normal(size=(4, 3)),
    "B": GENERATOR.normal(size=(3, 2)),
    "C": GENERATOR.normal(size=(4, 3)),
    "X": GENERATOR.uniform(0.1, 0.9, (3, 3)) + 2 * np.eye(3),
    "Y": GENERATOR.normal(size=(3, 3)),
    "T": GENERATOR.normal(size=(3, 3, 3)),
}


def value(text: str, **types: str) -> np.ndarray:
    """The value of a text for the arrays above."""
    formula = hesse.parse(text, **types)
    assert [variable.name for variable in formula.variables] == sorted(
        variable.name for variable in formula.variables
    )
    return formula.evaluate(**{variable.name: ARRAYS[variable.name] for variable in formula.variables})


def agree(text: str, expected: Any, **types: str) -> None:
    np.testing.assert_allclose(value(text, **types), expected, rtol=1e-12, atol=1e-12)


a, b, x, y, z = (ARRAYS[name] for name in "abxyz")
A, B, C, X, Y, T = (ARRAYS[name] for name in "ABCXYT")
inverse = np.linalg.inv

OPERATORS = [
    ("a+b", a + b),
    ("a-b*2", a - b * 2),
    ("a/b/2", a / b / 2),
    ("a/(b/2)", a / (b / 2)),
    ("2^3", 8.0),
    ("-a^2", -(a**2)),
    ("(-a)^2", a**2),
    ("a^-2", a**-2.0),
    ("2^-a", 2**-a),
    ("a--b", a + b),
    ("+a", a),
    ("x'*y", x @ y),
    ("x*y'", np.outer(x, y)),
    ("x*z'", np.outer(x, z)),
    ("x'", x),
    ("x''", x),
    ("(x'*X)'", x @ X),
    ("x'*X", x @ X),
    ("x'*X*y", x @ X @ y),
    ("A*x", A @ x),
    ("A*-x", -A @ x),
    ("-A*x", -A @ x),
    ("A'*z", A.T @ z),
    ("A*B", A @ B),
    ("A'*A*B", A.T @ A @ B),
    ("a*A", a * A),
    ("A*a", a * A),
    ("A/a", A / a),
    ("x.*y", x * y),
    ("x./y", x / y),
    ("x.^2", x**2),
    ("x.^y", x**y),
    ("x.^-1", 1 / x),
    ("2.^x", 2**x),
    ("2.*x", 2 * x),
    ("2./x", 2 / x),
    ("2.5.*x", 2.5 * x),
    ("1e-1*x", 0.1 * x),
    (".5*x", 0.5 * x),
    ("2.*x.^2./y", 2 * x**2 / y),
    ("A.*C", A * C),
    ("A./(C.^2+1)", A / (C**2 + 1)),
    ("A.*a", a * A),
    ("a./x", a / x),
    ("x'.*y'", x * y),
    ("exp(x)'*y", np.exp(x) @ y),
    ("x+1", x + 1),
    ("1-A", 1 - A),
    ("x+vector(1)", x + 1),
    ("A+matrix(2)", A + 2),
    ("x-vector(a)", x - a),
    ("X+eye", X + np.eye(3)),
    ("a*eye+X", X + a * np.eye(3)),
    ("X-2*eye(3)", X - 2 * np.eye(3)),
    ("X^2", X @ X),
    ("X^3", X @ X @ X),
    ("X^0+X", np.eye(3) + X),
    ("X^-1", inverse(X)),
    ("X^-2", inverse(X) @ inverse(X)),
    ("X^2'", (X @ X).T),
    ("X'^2", (X @ X).T),
    ("X.^2", X**2),
    ("(X^2)^2", X @ X @ X @ X),
    ("(x'*x)^2", (x @ x) ** 2),
    ("(a+b)*(a-b)", a * a - b * b),
    ("tr(X)*A", np.trace(X) * A),
]


@pytest.mark.parametrize(("text", "expected"), OPERATORS, ids=[text for text, _ in OPERATORS])
def test_operators(text: str, expected: Any) -> None:
    agree(text, expected)


FUNCTIONS = [
    ("sum(x)", x.sum()),
    ("sum(A)", A.sum()),
    ("sum(a)", a),
    ("sum(A,0)", A.sum(0)),
    ("sum(A,1)", A.sum(1)),
    ("sum(x,0)", x.sum()),
    ("tr(X)", np.trace(X)),
    ("trace(X*Y)", np.trace(X @ Y)),
    ("tr(x'*y)", x @ y),
    ("det(x'*y)", x @ y),
    ("logdet(-a)", np.log(a)),
    ("log(det(a))", np.log(a)),
    ("inv(x'*y)", 1 / (x @ y)),
    ("expm(a)", np.exp(a)),
    ("det(X)", np.linalg.det(X)),
    ("logdet(X)", np.linalg.slogdet(X)[1]),
    ("log(det(X))", np.linalg.slogdet(X)[1]),
    ("log(det(-X))", np.linalg.slogdet(X)[1]),
    ("inv(X)", inverse(X)),
    ("pinv(A)", np.linalg.pinv(A)),
    ("expm(X)", scipy.linalg.expm(X)),
    ("expm_chain(X, 1)", scipy.linalg.expm(X)),
    ("norm1(x-y)", np.abs(x - y).sum()),
    ("norm1(A)", np.abs(A).sum()),
    ("norm2(x)", np.linalg.norm(x)),
    ("norm2(A)", np.linalg.norm(A)),
    ("norm2(x')", np.linalg.norm(x)),
    ("max(z)", z.max()),
    ("min(z)", z.min()),
    ("max(A)", A.max()),
    ("min(A*x)", (A @ x).min()),
    ("max(x, y)", np.maximum(x, y)),
    ("min(x, 1)", np.minimum(x, 1)),
    ("diag(x)", np.diag(x)),
    ("diag(X)", np.diag(X)),
    ("vec(A)", A.T.reshape(-1)),
    ("vec(x)", x),
    ("vec(x')", x),
    ("tensor T(3); vec(T)", T.transpose(1, 0, 2).reshape(9, 3)),
    ("matrix A(4,3); reshape(A,2,6)", A.reshape(2, 6)),
    ("matrix X(3,3); reshape(X,9)", X.reshape(9)),
    ("vector x(3); reshape(x,3,1)", x[:, None]),
    ("A*x + reshape(A*x,m,1)*vector(1) + vector(0,m)", 2 * A @ x),
    ("matrix A(m,n); reshape(A,m*n)", A.reshape(12)),
    ("tensor T(n,n,n); reshape(T,n*n,n)", T.reshape(9, 3)),
    ("kron(A,B)", np.kron(A, B)),
    ("kron(x,z)", np.kron(x, z)),
    ("kron(x',z')", np.kron(x, z)),
    ("kron(B',A)*vec(X*Y)", (A @ X @ Y @ B).T.reshape(-1)),
    ("kron(x',A)", np.kron(x[None], A)),
    ("kron(A,x')", np.kron(A, x[None])),
    ("kron(x,A)", np.kron(x[:, None], A)),
    ("kron(A*X,x)", np.kron(A @ X, x[:, None])),
    ("kron(x',eye(4))*vec(A)", A @ x),
    ("commutation(4,3)*vec(A)", A.reshape(-1)),
    ("matrix A(m,n); commutation(m,n)*vec(A)", A.reshape(-1)),
    ("commutation(3,4)*commutation(4,3)", np.eye(12)),
    ("softmax(x)", scipy.special.softmax(x)),
    ("softmax(A)", scipy.special.softmax(A, axis=1)),
    ("softmax(A,0)", scipy.special.softmax(A, axis=0)),
    ("softmax(x')*y", scipy.special.softmax(x) @ y),
    ("log_softmax(x)", scipy.special.log_softmax(x)),
    ("logsumexp(x)", scipy.special.logsumexp(x)),
    ("logsumexp(A)", scipy.special.logsumexp(A, axis=1)),
    ("logsumexp(A,0)", scipy.special.logsumexp(A, axis=0)),
    ("log(sum(exp(A)))", scipy.special.logsumexp(A)),
    ("vector(2,3)", np.full(3, 2.0)),
    ("matrix(a,2,3)", np.full((2, 3), a)),
    ("tensor(a,2,3,2)", np.full((2, 3, 2), a)),
    ("eye(3)", np.eye(3)),
]


@pytest.mark.parametrize(("text", "expected"), FUNCTIONS, ids=[text for text, _ in FUNCTIONS])
def test_functions_of_whole_tensors(text: str, expected: Any) -> None:
    agree(text, expected)


def test_all_functions_of_whole_tensors_are_tested() -> None:
    tested = " ".join(text for text, _ in FUNCTIONS)
    assert [name for name in RULES if f"{name}(" not in tested] == []


@pytest.mark.parametrize("name", sorted({*ELEMENTWISE} - {"where"}))
def test_every_row_of_the_table_is_a_function(name: str) -> None:
    row = ELEMENTWISE[name]
    operands = [np.linspace(low, high, 5) for low, high in row.sample]
    names = ["x", "y", "z"][: row.arity]
    formula = hesse.parse(f"{name}({', '.join(names)})")
    given = dict(zip(names, operands, strict=True))
    expected = naive.ELEMENTWISE[name](*operands)
    np.testing.assert_allclose(formula.evaluate(**given), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", sorted(set(BUILDERS) - set(ELEMENTWISE)))
def test_every_builder_is_a_function(name: str) -> None:
    point = np.linspace(0.2, 2.0, 5)
    expected = BUILDERS[name](hesse.variable("x", (5,)).node)
    np.testing.assert_allclose(
        hesse.parse(f"{name}(x)").evaluate(x=point), naive.evaluate(expected, {"x": point}), rtol=1e-12
    )


INDICES = [
    ("sum[i,j,k](T[i,j,k]*x[i]*x[j]*y[k])", np.einsum("ijk,i,j,k", T, x, x, y)),
    ("sum[j](A[i,j]*x[j])", A @ x),
    ("sum[j](A[j,i]*z[j])", A.T @ z),
    ("x[i]*z[j]", np.outer(x, z)),
    ("z[j]*x[i]", np.outer(x, z)),
    ("x[j]*z[i]", np.outer(z, x)),
    ("H[j,i] = x[i]*z[j]", np.outer(z, x)),
    ("T[k,j,i]", T.transpose(2, 1, 0)),
    ("S[k,j,i] = T[k,j,i]", T),
    ("T[i,i,i]", np.einsum("iii->i", T)),
    ("sum[i](X[i,i])", np.trace(X)),
    ("X[i,i]", np.diag(X)),
    ("delta[i,j]*x[i]", np.diag(x)),
    ("eye[i,j]*x[i]", np.diag(x)),
    ("sum[j](delta[i,j]*x[j])", x),
    ("x[i]+z[j]", x[:, None] + z),
    ("x[i]+1", x + 1),
    ("a*x[i]-b", a * x - b),
    ("x[i]/y[j]", x[:, None] / y),
    ("x[i]./y[i]", x / y),
    ("x[i]^2", x**2),
    ("x[i].^y[j]", x[:, None] ** y),
    ("x[i]^y[i]", x**y),
    ("-x[i]", -x),
    ("exp(x[i]*y[j])", np.exp(np.outer(x, y))),
    ("max(x[i], y[j])", np.maximum(x[:, None], y)),
    ("sum[i](exp(x[i])*y[i])", np.exp(x) @ y),
    ("exp(sum[i](x[i]*y[i]))", np.exp(x @ y)),
    ("sum[i](sum[j](A[i,j]*x[j])^2)", ((A @ x) ** 2).sum()),
    ("sum[i](x[i])*A", x.sum() * A),
    ("(A*x)[i]*z[i]", (A @ x) * z),
    ("inv(X)[i,j]*x[j]", inverse(X) * x),
    ("(X^2)[i,j]", X @ X),
    ("X'[i,j]", X.T),
    ("vector(2)[i]*x[i]", 2 * x),
    ("A *[ij,jk,ik] B", A @ B),
    ("A *[ij,ij,ij] C", A * C),
    ("A*[ij,ij,] C", np.sum(A * C)),
    ("T *[ijk,k,ij] x", T @ x),
    ("a *[,ij,ji] A", a * A.T),
    ("x *[i,j,ij] z + A'", np.outer(x, z) + A.T),
    ("A *[ij,jk,ik] B *[ik,k,i] (B'*x)", A @ B @ B.T @ x),
    ('einsum("ij,jk->ik", A, B)', A @ B),
    ('einsum("ij,jk", A, B)', A @ B),
    ('einsum("ijk,i,j,k->", T, x, x, y)', np.einsum("ijk,i,j,k->", T, x, x, y)),
    ('einsum("ii->i", X)', np.diag(X)),
    ('einsum("i->ii", x)', np.diag(x)),
    ("2*A'*p where p = softmax(A*x)", 2 * A.T @ scipy.special.softmax(A @ x)),
    ("p'*q where p = X*q; q = exp(x)", (X @ np.exp(x)) @ np.exp(x)),
    ("p'*q where q = exp(x); p = X*q", (X @ np.exp(x)) @ np.exp(x)),
    ("sum[i,j](P[i,j]*x[i]) where P[j,i] = x[i]*y[j]", np.einsum("ij,i->", np.outer(y, x), x)),
    ("H[i,j] = t[j]*x[i] where t[k] = sum[i](X[i,k]*x[i])", np.outer(x, x @ X)),
    ("f = a*b", a * b),
    ("H[i,j] = x[i] + 0*z[j]", np.repeat(x[:, None], 4, axis=1)),
]


@pytest.mark.parametrize(("text", "expected"), INDICES, ids=[text for text, _ in INDICES])
def test_index_notation_and_definitions(text: str, expected: Any) -> None:
    agree(text, expected)


def test_a_product_under_a_sum_is_one_einsum() -> None:
    node = hesse.parse("sum[i,j,k](T[i,j,k]*x[i]*x[j]*x[k])").node
    assert len(node.operands) == 4


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("x'*A*x", {"A": ("n", "n"), "x": ("n",)}),
        ("A*x", {"A": ("m", "n"), "x": ("n",)}),
        ("norm2(M.*(T-U*V'))", {"M": ("m", "n"), "T": ("m", "n"), "U": ("m", "k"), "V": ("n", "k")}),
        ("det(A)*x'*y", {"A": ("m", "m"), "x": ("n",), "y": ("n",)}),
        ("alpha*Beta*gamma", {"alpha": (), "Beta": ("m", "n"), "gamma": ()}),
        ("m'*x", {"m": ("n",), "x": ("n",)}),
        ("n*m'", {"n": ("k",), "m": ("p",)}),
        ("a[i]*T[i,j,k]", {"a": ("m",), "T": ("m", "n", "k")}),
        ("matrix A(p,q); A*x", {"A": ("p", "q"), "x": ("q",)}),
        ("matrix A(2,3); A*x", {"A": (2, 3), "x": (3,)}),
        ("vec(X) + x", {"X": ("m", "n"), "x": ("m*n",)}),
        ("kron(A,B)*vec(X)", {"A": ("m", "n"), "B": ("k", "p"), "X": ("p", "n")}),
        ("matrix A(2,m); kron(A,B)*x", {"A": (2, "m"), "B": ("n", "k"), "x": ("k*m",)}),
        ("vector x(6); matrix A(2,3); vec(A)'*x", {"A": (2, 3), "x": (6,)}),
        ("p*x' where p = A*x", {"A": ("m", "n"), "x": ("n",)}),
    ],
)
def test_sizes_are_inferred(text: str, shapes: dict[str, Any]) -> None:
    found = {variable.name: variable.shape for variable in hesse.parse(text).variables}
    # the names of sizes follow the text; only which of them are equal matters
    names: dict[Any, Any] = {}
    for name, shape in shapes.items():
        assert len(found[name]) == len(shape)
        for size, expected in zip(found[name], shape, strict=True):
            assert names.setdefault(expected, size) == size
    assert found.keys() == shapes.keys()
    assert len({size for size in names.values()}) == len(names)


def test_names_of_sizes_read_well() -> None:
    assert hesse.parse("A*x").variables[0].shape == ("m", "n")
    assert hesse.parse("x'*A*x").variables[0].shape == ("n", "n")
    assert hesse.parse("m*n'").shape == ("k", "p")
    assert hesse.parse("matrix A(n,3); A*x*y'").shape == ("n", "m")


@pytest.mark.parametrize(
    ("text", "types", "attributes"),
    [
        ("symmetric matrix A(n,n); x'*A*x", {}, {"symmetric"}),
        ("psd matrix A; x'*A*x", {}, {"psd", "symmetric"}),
        ("diagonal matrix A; x'*A*x", {}, {"diagonal", "symmetric"}),
        ("antisymmetric matrix A; x'*A*y", {}, {"antisymmetric"}),
        ("positive matrix A; x'*A*x", {}, {"positive"}),
        ("positive symmetric matrix A; x'*A*x", {}, {"positive", "symmetric"}),
        ("x'*A*x", {"A": "symmetric matrix"}, {"symmetric"}),
        ("x'*A*x", {"A": " psd   matrix (n, n) "}, {"psd", "symmetric"}),
        ("x'*A*x", {"A": "symmetric"}, {"symmetric"}),
    ],
)
def test_attributes(text: str, types: dict[str, str], attributes: set[str]) -> None:
    assert hesse.parse(text, **types).variables[0].attributes == attributes


def test_types_by_keyword_and_declaration() -> None:
    assert hesse.parse("s*x", s="scalar").variables[0].shape == ()
    assert hesse.parse("vector s, t; scalar x; s*x+t").shape == ("n",)
    assert hesse.parse("T *[ijk,k,ij] x", T="tensor(3)").variables[0].shape == ("m", "n", "k")
    assert hesse.parse("tensor T(n,n,m); T *[ijk,k,ij] x").shape == ("n", "n")
    assert hesse.parse("T[i,j]", T="tensor(p,q)").shape == ("p", "q")
    assert hesse.parse("A*x", A="matrix(m,3)").shape == ("m",)


def test_variables_that_cancel_are_still_variables() -> None:
    formula = hesse.parse("x - x + 0*A*x")
    assert [variable.name for variable in formula.variables] == ["A", "x"]
    assert formula.shape == ("n",)
    derivative = formula.diff("x")
    assert str(derivative) == "matrix(0, n, n)"
    np.testing.assert_array_equal(derivative.evaluate(x=x, A=X), np.zeros((3, 3)))


def test_a_declared_size_is_its_number() -> None:
    formula = hesse.parse("vector x(n); sum(x)/n")
    assert formula.evaluate(x=np.array([1.0, 2.0, 6.0])) == 3.0


def test_declarations_may_go_over_several_lines() -> None:
    agree("matrix A;\n  vector x;\n A*x\n", A @ x)
