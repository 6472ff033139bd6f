"""Merged axes taken apart: derivatives of formulas with vec and kron as printed, read back, evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hesse
from hesse.api.formula import Formula
from hesse.frontends.expression import Expression
from hesse.printing.digits import taken_apart
from hesse.rewrite import simplify

SIZES = {"m": 2, "n": 3, "k": 4, "p": 5}

PRINTED = [
    ("norm2(kron(A,B)*vec(X))^2", "X", "2*B'*B*X*A'*A"),
    ("norm2(kron(A,B)*vec(X))^2", "A", "2*A*X'*B'*B*X"),
    ("norm2(kron(A,B)*vec(X))^2", "X X", "H[i,j,k,l] = 2*(A'*A)[j,l]*(B'*B)[i,k]"),
    ("y'*kron(A,B)*x", "A", "reshape(y, m, k)*B*reshape(x, n, p)'"),
    ("y'*kron(A,B)*x", "B", "reshape(y, m, k)'*A*reshape(x, n, p)"),
    ("sum(exp(kron(A,X)))", "X", "H[i,j] = sum[p,q](A[p,q]*exp(A[p,q]*X[i,j]))"),
    ("sum(vec(kron(X,X)).^3)", "X", "6*sum(X.^3)*X.^2"),
    ("sum(kron(x,y).^2)", "x", "2*(y'*y)*x"),
    ("kron(x,y)", "x", "kron(eye(m), y)"),
    ("kron(x,y)", "y", "kron(x, eye(n))"),
    ("kron(x',A)*y", "x", "A*reshape(y, m, k)'"),
    ("sum(exp(kron(x,A)))", "x", "g[i] = sum[p,q](A[p,q]*exp(A[p,q]*x[i]))"),
    ("u'*vec(X)", "X", "reshape(u, n, m)'"),
    ("kron(A,B)*x", "x", "kron(A, B)"),
    (
        "kron(A,X)",
        "X",
        "reshape(T, m*k, n*p, k, p) where T[i,j,l,o,q,r] = delta[j,q]*delta[o,r]*A[i,l]",
    ),
    ("kron(x,A)", "x", "reshape(T, m*n, k, m) where T[i,j,l,o] = delta[i,o]*A[j,l]"),
    ("kron(x',A)", "x", "reshape(T, n, m*k, m) where T[i,j,l,o] = delta[j,o]*A[i,l]"),
    ("kron(A,x')", "x", "reshape(T, m, n*k, k) where T[i,j,l,o] = delta[l,o]*A[i,j]"),
    ("kron(X,y)", "X", "reshape(T, m*k, n, m, n) where T[i,j,l,o,p] = delta[i,o]*delta[l,p]*y[j]"),
    ("kron(y',X)", "X", "reshape(T, n, m*k, n, k) where T[i,j,l,o,p] = delta[i,o]*delta[l,p]*y[j]"),
]

FORMS = [
    ("vec(X)", "X", "eye(m*n)"),
    ("vec(A*X*B)", "X", "kron(B', A)"),
    ("vec(exp(A*X))", "X", "diag(vec(exp(A*X)))*kron(eye(k), A)"),
    ("vec(X)*x'", "X", "kron(x, eye(m*n))"),
    ("kron(A,B)*x", "A", "kron(eye(m), B*reshape(x, n, p)')*commutation(m, n)"),
    ("norm2(A*vec(X) - y)^2", "X X", "2*A'*A"),
    ("sum(exp(A*vec(X)))", "X X", "A'*diag(exp(A*vec(X)))*A"),
    ("norm2(kron(A,B)*vec(X))^2", "X X", "2*kron(A'*A, B'*B)"),
]


def derivative(text: str, by: str) -> Formula:
    return hesse.parse(text).diff(*by.split())


def arrays(formula: Formula) -> dict[str, Any]:
    """Random values of the variables, in whose sizes products are multiplied out."""
    generator = np.random.default_rng(5)
    return {
        variable.name: generator.normal(
            size=[np.prod([SIZES[name] for name in str(size).split("*")]) for size in variable.shape]
        )
        for variable in formula.variables
    }


def needed(formula: Expression, values: dict[str, Any]) -> dict[str, Any]:
    return {variable.name: values[variable.name] for variable in formula.variables}


@pytest.mark.parametrize(("text", "by", "printed"), PRINTED)
def test_printed_derivatives(text: str, by: str, printed: str) -> None:
    """What is printed is read back, without declarations, and has the same value."""
    formula = derivative(text, by)
    assert str(formula) == printed
    values = arrays(formula)
    again = hesse.parse(printed)
    sizes = {name: size for name, size in SIZES.items() if f"{name}," in printed or f"{name})" in printed}
    np.testing.assert_allclose(
        again.compile()(**needed(again, values), **sizes), formula.evaluate(**values), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize(("text", "by"), [(text, by) for text, by, _ in PRINTED + FORMS])
def test_taking_apart_keeps_the_value(text: str, by: str) -> None:
    formula = derivative(text, by)
    apart = taken_apart(simplify([formula.node])[0])
    values = arrays(formula)
    if apart is not None:
        found = Expression(apart)
        np.testing.assert_allclose(
            found.compile()(**needed(found, values), **SIZES),
            formula.evaluate(**values),
            rtol=1e-12,
            atol=1e-12,
        )


def test_which_products_are_taken_apart() -> None:
    """Those that have no merged axis of their own."""
    apart = {
        text for text, by, _ in PRINTED if taken_apart(simplify([derivative(text, by).node])[0]) is not None
    }
    assert "y'*kron(A,B)*x" in apart
    assert "kron(A,B)*x" not in apart
    assert taken_apart(derivative("x'*A*x", "x").node) is None


@pytest.mark.parametrize(("text", "by", "matrix"), FORMS)
def test_matrix_forms(text: str, by: str, matrix: str) -> None:
    """The matrix is that of the dense tensor, by the definition of vec."""
    formula = derivative(text, by)
    assert formula.to("kronecker") == matrix
    assert formula.by is not None
    values = arrays(formula)
    tensor = formula.evaluate(**values)
    columns = int(np.prod(tensor.shape[tensor.ndim - formula.by.rank :]))
    expected = tensor.reshape((tensor.size // columns, columns), order="F")
    again = hesse.parse(matrix)
    sizes = {
        name: size
        for name, size in SIZES.items()
        if any(end in matrix for end in (f"{name},", f"{name})", f"{name}*"))
    }
    np.testing.assert_allclose(
        again.compile()(**needed(again, values), **sizes), expected, rtol=1e-12, atol=1e-12
    )


def test_sizes_of_merged_axes_follow_from_their_order() -> None:
    """A reshape that merges axes of unknown sizes takes them from the factors as they are written."""
    merged = hesse.parse("matrix A(m,n); reshape(T, m*k, n) where T[i,j,l] = A[i,l]*delta[j,j]*B[j,l]")
    assert merged.shape == ("k*m", "n")
    assert {variable.name: variable.shape for variable in merged.variables}["B"] == ("k", "n")
