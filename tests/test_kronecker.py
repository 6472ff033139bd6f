"""Derivatives of order 3 and 4 as matrices: the printed text, read again, against the dense tensor."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hesse
from hesse.answers import Question, answer
from hesse.api import matrix_form
from hesse.api.formula import Formula
from hesse.cli import main
from hesse.errors import ArgumentError, VerificationError
from hesse.ir import is_zero
from hesse.printing import KroneckerForm, kronecker_form, vec_note

SIZES = {"m": 2, "n": 3, "k": 4, "p": 2, "q": 3, "r": 2}

FORMS = [
    ("X", "X", "eye(m*n)"),
    ("X'", "X", "commutation(m, n)"),
    ("A*X*B", "X", "kron(B', A)"),
    ("A*X'*B", "X", "kron(B', A)*commutation(k, n)"),
    ("A*X*u", "X", "kron(u', A)"),
    ("A*X'*u", "X", "kron(A, u')"),
    ("X*X", "X", "kron(X', eye(n)) + kron(eye(n), X)"),
    ("X'*A*X", "X", "kron(X'*A', eye(n))*commutation(m, n) + kron(eye(n), X'*A)"),
    ("inv(X)", "X", "-kron(inv(X)', inv(X))"),
    ("X.*A", "X", "diag(vec(A))"),
    ("X'.*A", "X", "diag(vec(A))*commutation(m, n)"),
    ("exp(X)", "X", "diag(vec(exp(X)))"),
    ("A*exp(B*X*C)*D", "X", "kron(D', A)*diag(vec(exp(B*X*C)))*kron(C', B)"),
    ("tr(A*X)*X", "X", "tr(A*X)*eye + vec(X)*vec(A')'"),
    ("c*A*X", "X", "c*kron(eye(k), A)"),
    ("x*x'", "x", "kron(eye(n), x) + kron(x, eye(n))"),
    ("(A*x)*(B*x)'", "x", "kron(B*x, A) + kron(B, A*x)"),
    ("x*tr(X)", "X", "x*vec(eye(n))'"),
    ("sum(X,1)", "X", "kron(vector(1, n)', eye(m))"),
    ("sum(X,0)", "X", "kron(eye(n), vector(1, m)')"),
    ("tr(A*X*B*X')", "X X", "kron(B, A') + kron(B', A)"),
    ("tr(X*X*X)", "X X", "3*(kron(X, eye(n)) + kron(eye(n), X'))*commutation(n, n)"),
    ("logdet(X)", "X X", "-kron(inv(X), inv(X)')*commutation(n, n)"),
    ("det(X)", "X X", "det(X)*(vec(inv(X)')*vec(inv(X)')' - kron(inv(X), inv(X)')*commutation(n, n))"),
    ("sum(X)^2", "X X", "2*matrix(1, m*n, m*n)"),
    ("norm2(X)", "X X", "eye/norm2(X) - vec(X)*vec(X)'/norm2(X)^3"),
    ("norm2(X - Y)^2", "X X", "2*eye(m*n)"),
    ("norm2(T - U*V')^2", "U U", "2*kron(V'*V, eye(m))"),
    ("norm2(T - U*V')^2", "U V", "2*kron(V', U)*commutation(n, k) - 2*kron(eye(k), T - U*V')"),
    ("norm2(M.*(T - U*V'))^2", "U U", "2*kron(V', eye(m))*diag(vec(M.^2))*kron(V, eye(m))"),
    ("sum(exp(A*X*B))", "X X", "kron(B, A')*diag(vec(exp(A*X*B)))*kron(B', A)"),
    (
        "A*tanh(B*tanh(C*X))",
        "X",
        "kron(eye(q), A)*diag(vec(1 - tanh(B*tanh(C*X)).^2))*kron(eye(q), B)*diag(vec(1 - tanh(C*X).^2))"
        "*kron(eye(q), C)",
    ),
    (
        "pinv(X)",
        "X",
        "(kron(B'*B, eye(n)) + kron(eye(m), B*B') - kron(B'*B, B*X) - kron(B'*X', B*B'))*commutation(m, n)"
        " - kron(B', B) where B = pinv(X)",
    ),
    (
        "sum(log(exp(X*W)*vector(1))) - tr(Y'*X*W)",
        "W W",
        "kron(eye(k), X')*diag(vec(P))*(kron(eye(k), X) - kron(matrix(1, k, k), eye(m))*diag(vec(P))"
        "*kron(eye(k), X)) where P = softmax(X*W)",
    ),
    ("tr(X.*X)", "X X", "2*diag(vec(eye(n)))"),
    ("diag(diag(X))", "X", "diag(vec(eye(n)))"),
    ("sum(diag(X).^3)", "X X", "6*diag(vec(diag(diag(X))))"),
    ("matrix X(2,3); X'", "X", "commutation(2, 3)"),
    ("matrix X(2,3); vector u(3); X*u", "X", "kron(u', eye(2))"),
    ("symmetric matrix X(n,n); logdet(X)", "X X", "-kron(inv(X), inv(X))*commutation(n, n)"),
]


def derivative(text: str, by: str) -> Formula:
    return hesse.parse(text).diff(*by.split())


def arrays(formula: Formula) -> dict[str, np.ndarray]:
    """Random values for the variables, symmetric ones where that was declared."""
    generator = np.random.default_rng(3)
    values = {}
    for variable in formula.variables:
        shape = [size if isinstance(size, int) else SIZES[size] for size in variable.shape]
        array = generator.uniform(0.2, 1.0, shape)
        if variable.rank == 2 and variable.shape[0] == variable.shape[1]:
            array = array + array.T if "symmetric" in variable.attributes else array
            array += 2 * np.eye(len(array))
        values[variable.name] = array
    return values


def dense_matrix(formula: Formula, values: dict[str, np.ndarray]) -> np.ndarray:
    """The derivative as a matrix, by the definition of vec: the first index runs fastest."""
    assert formula.by is not None
    tensor = formula.evaluate(**values)
    columns = int(np.prod(tensor.shape[tensor.ndim - formula.by.rank :]))
    return tensor.reshape((tensor.size // columns, columns), order="F")


def evaluated(text: str, formula: Formula, values: dict[str, np.ndarray]) -> np.ndarray:
    """A text read without any declaration but types that are not usual."""
    names = set(re.findall(r"[A-Za-z]\w*", text))
    types = {v.name: "symmetric" for v in formula.variables if v.attributes and v.name in names}
    again = hesse.parse(text, **types)
    known: dict[str, Any] = {variable.name: values[variable.name] for variable in again.variables}
    known |= {name: SIZES[name] for name in again.open_sizes if name in names}
    return np.asarray(again.evaluate(**known))


@pytest.mark.parametrize(("text", "by", "expected"), FORMS, ids=[f"{text} by {by}" for text, by, _ in FORMS])
def test_matrix_forms(text: str, by: str, expected: str) -> None:
    formula = derivative(text, by)
    assert formula.to("kronecker") == expected
    values = arrays(formula)
    np.testing.assert_allclose(
        evaluated(expected, formula, values), dense_matrix(formula, values), rtol=1e-9, atol=1e-9
    )


def test_the_text_of_a_derivative_keeps_its_indices() -> None:
    assert str(derivative("A*X*B", "X")) == "H[i,j,k,l] = A[i,k]*B[l,j]"


WITHOUT = [
    ("diag(x)", "x"),
    ("expm(X)", "X"),
    ("sum(x.^4)", "x x x"),
    ("tr(A*X)", "X X"),
    ("tensor T(3); sum[k](T[i,j,k]*x[k])", "x"),
    ("sum((A*X).*(B*X).*(C*X))", "X X X"),
    ("sum[i](A[i,j]*X[i,k]*exp(B[i,j]*C[i,k]))", "X"),
]


@pytest.mark.parametrize(("text", "by"), WITHOUT)
def test_derivatives_without_a_matrix_form(text: str, by: str) -> None:
    formula = derivative(text, by)
    assert formula.kronecker() is None
    with pytest.raises(
        ArgumentError, match="has no matrix form with Kronecker products: use the notation index"
    ):
        formula.to("kronecker")


@pytest.mark.parametrize(("text", "by"), [("x'*X*u", "X"), ("A*x", "x"), ("sum(x.^2)", "x x")])
def test_matrices_need_no_other_form(text: str, by: str) -> None:
    with pytest.raises(
        ArgumentError, match="for derivatives of order 3 and 4, and this is a tensor of order"
    ):
        derivative(text, by).to("kronecker")


def test_a_function_has_no_matrix_form() -> None:
    assert hesse.parse("A*X*B").kronecker() is None


@pytest.mark.parametrize(("wrong", "problem"), [("kron(A, B')", "not equal"), ("2*kron(B', A)", "not equal")])
def test_a_wrong_form_is_an_error(monkeypatch: pytest.MonkeyPatch, wrong: str, problem: str) -> None:
    monkeypatch.setattr(matrix_form, "kronecker_form", lambda *_: KroneckerForm(wrong, wrong))
    with pytest.raises(VerificationError, match=f"the matrix form of the derivative by X is {problem}"):
        derivative("A*X*B", "X").to("kronecker")


PROBLEM = (
    "The derivative as a matrix is not shown: the matrix form of the derivative by X is not equal to the "
    "derivative. This is a mistake in hesse; please report the formula."
)


def test_an_answer_says_that_its_matrix_form_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the form is left out where it is wrong; a derivative that is wrong has no answer."""
    question = Question("A*X*B", ("X",))
    assert answer(question).kronecker is not None
    assert answer(question).kronecker_problem == ""
    monkeypatch.setattr(matrix_form, "kronecker_form", lambda *_: KroneckerForm("kron(A, B')", ""))
    found = answer(question)
    assert found.derivative == "H[i,j,k,l] = A[i,k]*B[l,j]"
    assert (found.kronecker, found.kronecker_problem) == (None, PROBLEM)
    assert main(["A*X*B", "X"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "A[i,k]*B[l,j]" in printed and PROBLEM in printed and "kron" not in printed
    assert main(["A*X*B", "X", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["kronecker"], data["kronecker_problem"]) == (None, PROBLEM)


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("matrix A(m,n); m*A*X*B", "X"),
        ("norm2(T - U*V')^2", "U U"),
        ("vector x(n); sum(x)/n*X", "X"),
        ("tr(A*inv(X))", "X X"),
    ],
)
def test_the_matrix_of_an_answer_can_be_read(text: str, by: str) -> None:
    """It has the declarations that it needs."""
    found = answer(Question(text, tuple(by.split()))).kronecker
    assert found is not None
    formula = derivative(text, by)
    values = arrays(formula)
    expected = dense_matrix(formula, values)
    np.testing.assert_allclose(evaluated(found.matrix, formula, values), expected, rtol=1e-9)


def test_the_name_stands_after_the_declarations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix A(m,n); m*A*X*B", "X"]) == 0
    assert "matrix A(m,n); M = m*kron(B', A)" in capsys.readouterr().out


def test_a_form_that_is_never_finite_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    never = KroneckerForm("kron(B', A)*log(-norm2(B))", "")
    monkeypatch.setattr(matrix_form, "kronecker_form", lambda *_: never)
    with pytest.raises(VerificationError, match="is not finite at any point tried"):
        derivative("A*X*B", "X").to("kronecker")


def test_latex() -> None:
    forms = [derivative(text, by).kronecker() for text, by, _ in FORMS]
    found = {form.text: form.latex for form in forms if form is not None}
    assert found["kron(B', A)"] == r"B^{\top} \otimes A"
    assert found["2*kron(V'*V, eye(m))"] == r"2 \left(V^{\top} V\right) \otimes I_{m}"
    assert found["commutation(m, n)"] == r"\mathbf{K}_{m, n}"
    assert found["eye(m*n)"] == "I_{m n}"
    diagonal = r"\operatorname{diag}\left(\operatorname{vec}\left(A\right)\right)"
    assert found["diag(vec(A))*commutation(m, n)"] == rf"{diagonal} \mathbf{{K}}_{{m, n}}"


def test_notes() -> None:
    """Which differentials the matrix relates; names of variables are not used for anything else."""

    def note(text: str, by: str, taken: str = "") -> tuple[str, str]:
        formula = derivative(text, by)
        return vec_note(
            formula.to("kronecker"), formula.function.node.shape, formula.differentiated_by, taken
        )

    end = "and vec stacks the columns of a matrix"
    commutation = "; the commutation matrix takes vec(X) to vec(X')"
    assert note("A*X*B", "X") == ("M", f"vec(dF) = M*vec(dX), where F is the function {end}")
    assert note("A*X*B", "X", "FGM") == ("J", f"vec(dR) = J*vec(dX), where R is the function {end}")
    assert note("A*X*u", "X")[1] == f"dF = M*vec(dX), where F is the function {end}"
    assert note("x*x'", "x")[1] == f"vec(dF) = M*dx, where F is the function {end}"
    assert (
        note("logdet(X)", "X X")[1] == f"vec(dG) = M*vec(dX), where G is the gradient by X {end}{commutation}"
    )
    assert note("A*exp(x'*x)", "x")[1] == f"vec(dF) = M*dx, where F is the function {end}"
    assert note("(x'*y)^3", "x x y")[1] == f"vec(dG) = M*dy, where G is the derivative by x and x {end}"


CHAIN = ("A", "B", "C", "X", "X'", "inv(X)", "exp(X)", "(X.*A)", "tr(X*B)*C", "(A + X')", "2*X")


@given(st.lists(st.sampled_from(CHAIN), min_size=1, max_size=2), st.booleans())
@settings(max_examples=40, deadline=None)
def test_random_products(factors: list[str], ends_in_vector: bool) -> None:
    """Short products of square matrices all have a matrix form."""
    formula = hesse.parse("*".join(["X", *factors, *(["u"] if ends_in_vector else [])])).diff("X")
    assume(not is_zero(formula.node))  # X*inv(X)
    values = arrays(formula)
    form = kronecker_form(formula.node, formula.function.node.rank)
    assert form is not None
    np.testing.assert_allclose(
        evaluated(form.text, formula, values), dense_matrix(formula, values), rtol=1e-8, atol=1e-8
    )


@given(st.lists(st.sampled_from(CHAIN), min_size=1, max_size=2))
@settings(max_examples=20, deadline=None)
def test_random_hessians(factors: list[str]) -> None:
    formula = hesse.parse(f"tr(X*{'*'.join(factors)})").diff("X", "X")
    values = arrays(formula)
    form = kronecker_form(formula.node, 2)
    assume(form is not None)
    assert form is not None
    np.testing.assert_allclose(
        evaluated(form.text, formula, values), dense_matrix(formula, values), rtol=1e-8, atol=1e-8
    )
