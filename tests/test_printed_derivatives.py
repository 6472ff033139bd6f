"""Printed derivatives, word by word, and what they mean when they are read back with unequal sizes."""

from __future__ import annotations

import numpy as np
import pytest

import hesse
from hesse.ir import variable
from hesse.printing.names import Names

SIZES = {"m": 2, "n": 3, "k": 4, "p": 5, "q": 3}


def evaluated(formula: hesse.Formula, given: dict[str, np.ndarray]) -> np.ndarray:
    sizes = {name: SIZES[name] for name in formula.open_sizes}
    return formula.evaluate(
        **sizes, **{variable.name: given[variable.name] for variable in formula.variables}
    )


def values_for(formula: hesse.Formula) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    found = {}
    for leaf in formula.variables:
        value = random.uniform(0.5, 1.5, [SIZES.get(str(size), size) for size in leaf.shape])
        found[leaf.name] = value + value.T if "symmetric" in leaf.attributes else value
    return found


def same_when_read(types: str, formula: hesse.Formula, printed: str) -> None:
    names = {variable.name for variable in formula.variables}
    needed = [part for part in types.split("; ") if part.split()[-1].partition("(")[0] in names]
    again = hesse.parse("; ".join([*needed, printed]))
    given = values_for(formula)
    np.testing.assert_allclose(evaluated(again, given), evaluated(formula, given), rtol=1e-12)


SQUARES = "matrix A(m,m); matrix B(n,n); matrix X(m,n)"
VECTOR = "vector x(n)"
SQUARE = "matrix X(n,n)"
RECTANGLE = "vector y(n); matrix X(m,n)"
CASES: list[tuple[str, str, str, str]] = [
    (
        SQUARES,
        "norm2((A*X).*(X*B))^2",
        "X X",
        "H[i,j,k,l] = 2*delta[i,k]*sum[p,q,r](A[i,p]*A[i,q]*B[j,r]*B[l,r]*X[p,r]*X[q,r])"
        " + 2*delta[j,l]*sum[p,q,r](A[p,i]*A[p,k]*B[q,j]*B[r,j]*X[p,q]*X[p,r])"
        " + 4*A[i,k]*B[j,l]*(A*X)[i,l]*(X*B)[i,l] + 4*A[k,i]*B[l,j]*(A*X)[k,j]*(X*B)[k,j]",
    ),
    (
        SQUARE,
        "det(X)^3",
        "X X",
        "H[i,j,k,l] = 3*det(X)^3*(3*inv(X)[j,i]*inv(X)[l,k] - inv(X)[j,k]*inv(X)[l,i])",
    ),
    ("matrix A(m,n); vector w(m); vector y(m)", "A'*(A - w*y'*A)", "", "A'*(eye - w*y')*A"),
    ("matrix A(m,n); vector w(m); vector y(m)", "A'*diag(w)*(A - w*y'*A)", "", "A'*diag(w)*(eye - w*y')*A"),
    ("matrix A(m,n); vector w(m); vector y(m)", "(A' - A'*w*y')*A", "", "A'*(eye - w*y')*A"),
    ("matrix A(n,n); vector x(n)", "x*(x' + x'*A)", "", "x*(A'*x + x)'"),
    (RECTANGLE, "(y'*y)*X.^2", "X", "H[i,j,k,l] = 2*delta[i,k]*delta[j,l]*X[i,j]*(y'*y)"),
    (RECTANGLE, "(y'*y)./X", "X", "H[i,j,k,l] = -delta[i,k]*delta[j,l]*(y'*y)/X[i,j]^2"),
    (RECTANGLE, "X.^2/(y'*y)", "X", "H[i,j,k,l] = 2*delta[i,k]*delta[j,l]*X[i,j]/(y'*y)"),
    (
        RECTANGLE,
        "(y'*y)*(y'*X'*X*y)*X",
        "X",
        "H[i,j,k,l] = (y'*y)*(2*X[i,j]*y[l]*(X*y)[k] + delta[i,k]*delta[j,l]*(y'*X'*X*y))",
    ),
    (  # no index is named like a size
        "matrix X(m,n); matrix A(k,p)",
        "kron(X, A)",
        "X",
        "reshape(T, m*k, n*p, m, n) where T[i,j,l,o,q,r] = delta[i,q]*delta[l,r]*A[j,o]",
    ),
    (VECTOR, "(x'*x)^(2/3)", "x", "4/3*(x'*x)^(-1/3)*x"),
    (VECTOR, "(x'*x)^(2/3)", "x x", "4/3*(x'*x)^(-1/3)*eye - 8/9*(x'*x)^(-4/3)*x*x'"),
    (VECTOR, "sum(x.^(1/3))", "x", "1/3*x.^(-2/3)"),
    (VECTOR, "sum(x.^0.7)", "x", "0.7*x.^(-0.3)"),
    (VECTOR, "0.333333333333*x", "", "0.333333333333*x"),
    (VECTOR, "(0.1+0.2)*(10/3)*x", "", "x"),
    (
        "symmetric matrix A(n,n); vector x(n)",
        "exp(x'*A*x)",
        "x x x",
        "T[i,j,k] = 4*exp(x'*A*x)*(2*(A*x)[i]*(A*x)[j]*(A*x)[k] + A[i,j]*(A*x)[k] + A[i,k]*(A*x)[j]"
        " + A[j,k]*(A*x)[i])",
    ),
    (
        "symmetric matrix A(n,n); vector x(n)",
        "sqrt(x'*A*x)",
        "x x x",
        "T[i,j,k] = 3*(A*x)[i]*(A*x)[j]*(A*x)[k]/c^5 - (A[i,j]*(A*x)[k] + A[i,k]*(A*x)[j]"
        " + A[j,k]*(A*x)[i])/c^3 where c = sqrt(x'*A*x)",
    ),
    ("matrix A(n,n); vector x(n); vector y(n)", "x'*A*x + y'*x", "x", "(A + A')*x + y"),
    ("vector x(n); scalar c", "c*logsumexp(x/c)", "x x", "(diag(p) - p*p')/c where p = softmax(x/c)"),
    ("vector x(n); vector y(n)", "1/(norm2(y)*norm2(x))", "", "1/(norm2(x)*norm2(y))"),
    ("matrix X(m,n)", "tr(X'*X)^2", "X", "4*norm2(X)^2*X"),
    (
        "matrix A(m,n); vector x(n)",
        "sum(tanh(A*x).^2)",
        "x x",
        "2*A'*diag((1 - tanh(A*x).^2).*(1 - 3*tanh(A*x).^2))*A",
    ),
    ("matrix A(n,n); matrix X(n,n)", "3*(4*A - 6*X)^2", "", "12*(2*A - 3*X)^2"),
    ("matrix A(n,n); matrix X(n,n)", "(4*A - 0.5*X)*X", "", "(4*A - 0.5*X)*X"),
    (SQUARE, "X^20", "", "X^20"),
    (SQUARE, "X^3*X^97", "", "X^100"),
    (SQUARE, "(X^20)'*X^20", "", "(X^20)'*X^20"),
    (SQUARE, "(X'^18*X^2)'", "", "(X^2)'*X^18"),
    (SQUARE, "X^3", "X", "H[i,j,k,l] = X[i,k]*X[l,j] + delta[i,k]*(X^2)[l,j] + delta[j,l]*(X^2)[i,k]"),
    ("matrix A(m,m); vector x(n)", "tr(A)*x'*x", "x", "2*tr(A)*x"),
    ("matrix X(m,m); matrix Y(m,m)", "tr(X)*tr(Y)", "X", "tr(Y)*eye(m)"),
    ("matrix X(m,m); matrix Y(m,m); vector x(n)", "tr(X)*tr(X.*Y)*x'*x", "x", "2*tr(X)*tr(X.*Y)*x"),
]


@pytest.mark.parametrize(("types", "formula", "by", "expected"), CASES, ids=[case[1] for case in CASES])
def test_derivatives(types: str, formula: str, by: str, expected: str) -> None:
    derivative = hesse.parse(f"{types}; {formula}")
    if by:
        derivative = derivative.diff(*by.split())
    assert str(derivative) == expected
    same_when_read(types, derivative, expected)


def test_a_definition_is_not_named_like_the_left_side() -> None:
    cube = variable("X", ("n", "n", "n"))
    names = Names([cube])
    assert names.left_side(3) == "T"
    assert names.name(cube) == "R"
    assert Names([cube], ["T"]).left_side(3) == "R"


LATEX_CASES: list[tuple[str, str, str, str]] = [
    (RECTANGLE, "(y'*y)*X", "X", r"H_{ijkl} = \delta_{ik} \delta_{jl} \left(y^{\top} y\right)"),
    (
        RECTANGLE,
        "(y'*y)./X",
        "X",
        r"H_{ijkl} = -\frac{\delta_{ik} \delta_{jl} \left(y^{\top} y\right)}{X_{ij}^{2}}",
    ),
    (VECTOR, "x.^a", "", r"x^{\odot a}"),
    (VECTOR, "x.^a", "x", r"a \operatorname{diag}\left(x^{\odot \left(a - 1\right)}\right)"),
    (VECTOR, "3*2^a*a^(1/3)", "", r"3 \left(2\right)^{a} a^{\frac{1}{3}}"),
    (VECTOR, "sum(x.^(1/3))", "x", r"\frac{1}{3} x^{\odot \left(-\frac{2}{3}\right)}"),
    (SQUARE, "expm(X)", "", r"\exp\left(X\right)"),
    (SQUARE, "expm(X)", "X", r"H_{ijkl} = \operatorname{expm\_chain}\left(X, 2\right)_{iklj}"),
    (RECTANGLE, "reshape(X, m*n)", "", r"\operatorname{reshape}\left(X, m n\right)"),
]


@pytest.mark.parametrize(
    ("types", "formula", "by", "expected"), LATEX_CASES, ids=[case[1] for case in LATEX_CASES]
)
def test_latex(types: str, formula: str, by: str, expected: str) -> None:
    parsed = hesse.parse(f"{types}; {formula}")
    assert (parsed.diff(*by.split()) if by else parsed).to("latex") == expected


def test_indices_of_sums_are_not_those_of_axes() -> None:
    """Six axes, with m and n taken by sizes while a shorter form is looked for, reach the letters of sums."""
    names = Names([variable("X", ("m", "n"))], ["m", "n"])
    axes = names.axes(6)
    assert not set(axes) & set(names.summed(4, axes))
    third = hesse.parse("sum(vec(kron(X,X)).^3)").diff("X", "X", "X")
    assert str(third).startswith("H[i,j,k,l,m,n] = 12*delta[i,k]*delta[j,l]*delta[i,m]*delta[j,n]*sum(X.^3)")
