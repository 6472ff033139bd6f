"""Formulas: derivatives in all senses of symmetric variables, verification, notations, declared facts."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import hesse
from hesse.api import formula as formula_module
from hesse.errors import VerificationError
from hesse.ir import scale

SQUARE = np.random.default_rng(0).normal(size=(3, 3))
OTHER = np.random.default_rng(1).normal(size=(3, 3))
STRUCTURES = {
    "symmetric": SQUARE + SQUARE.T,
    "antisymmetric": SQUARE - SQUARE.T,
    "diagonal": np.diag([1.0, -2.0, 0.5]),
    "psd": SQUARE @ SQUARE.T + np.eye(3),
}


def basis(fact: str) -> list[np.ndarray]:
    """The change of a matrix of this structure with each of its independent entries."""
    found = []
    for i, j in itertools.product(range(3), repeat=2):
        change = np.zeros((3, 3))
        change[i, j] = 1.0
        if fact in ("symmetric", "psd"):
            change = np.maximum(change, change.T)
        elif fact == "antisymmetric":
            change = change - change.T
        elif i != j:
            continue
        if change.any():
            found.append(change)
    return found


def slope(function: Any, point: np.ndarray, change: np.ndarray) -> Any:
    """A directional derivative by central differences, extrapolated once."""
    coarse, fine = (
        (function(point + h * change) - function(point - h * change)) / (2 * h) for h in (2e-3, 1e-3)
    )
    return (4 * fine - coarse) / 3


TEXTS = ["tr(A*X)", "tr(A*X*X*B)", "x'*X*X*y", "tr(expm(X)*A)", "logdet(X*X'+eye)", "norm2(X-A)^4"]


@pytest.mark.parametrize("fact", STRUCTURES)
@pytest.mark.parametrize("text", TEXTS)
def test_derivatives_by_matrices_with_a_structure(text: str, fact: str) -> None:
    """free and projected: contracted with a change; half: entry by entry of the independent ones."""
    function = hesse.parse(text, X=f"{fact} matrix(3,3)")
    others = {"A": SQUARE, "B": OTHER, "x": SQUARE[0], "y": SQUARE[1]}
    given = {variable.name: others[variable.name] for variable in function.variables if variable.name != "X"}
    point = STRUCTURES[fact]

    def at(X: np.ndarray) -> Any:
        return function.compile()(X=X, **given)

    for mode in ("free", "projected", "half"):
        derivative = function.diff("X", symmetric=mode)
        gradient = derivative.evaluate(X=point, **given)
        assert derivative.verify() < 1e-6
        for change in basis(fact):
            expected = slope(at, point, change)
            if mode == "half":
                i, j = np.argwhere(change)[0]
                assert gradient[i, j] * change[i, j] == pytest.approx(expected, rel=1e-6, abs=1e-6)
            else:
                assert np.sum(gradient * change) == pytest.approx(expected, rel=1e-6, abs=1e-6)
        if mode == "projected":
            sign = -1 if fact == "antisymmetric" else 1
            np.testing.assert_allclose(gradient, sign * gradient.T, atol=1e-9)
            if fact == "diagonal":
                np.testing.assert_array_equal(gradient, np.diag(np.diag(gradient)))


@pytest.mark.parametrize("mode", ["free", "projected", "half"])
def test_second_derivatives_by_symmetric_matrices(mode: str) -> None:
    """Each order is verified in the sense of its own mode."""
    hessian = hesse.diff("tr(A*inv(X))", "X", "X", symmetric=mode, X="symmetric matrix")
    assert hessian.verify() < 1e-6
    assert hessian.symmetric == mode


def test_modes_differ_as_documented() -> None:
    gradients = [
        str(hesse.diff("tr(A*X)", "X", symmetric=mode, X="symmetric matrix"))
        for mode in ("free", "projected", "half")
    ]
    assert gradients == ["A'", "0.5*(A + A')", "A + A' - diag(diag(A))"]
    assert str(hesse.diff("tr(A*X)", "X", symmetric="half")) == "A'"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("tr(A*X)", SQUARE.T), ("tr(A*X')", SQUARE), ("x'*X*y", np.outer(SQUARE[0], SQUARE[1]))],
)
def test_the_free_derivative_is_the_plain_one(text: str, expected: np.ndarray) -> None:
    """X' and X are told apart, though they are equal."""
    others = {"A": SQUARE, "x": SQUARE[0], "y": SQUARE[1], "X": STRUCTURES["symmetric"]}
    derivative = hesse.diff(text, "X", X="symmetric matrix")
    given = {variable.name: others[variable.name] for variable in derivative.variables}
    np.testing.assert_allclose(derivative.evaluate(**given), expected)


def test_facts_are_used() -> None:
    assert str(hesse.parse("x'*A*x", A="symmetric matrix").diff("x")) == "2*A*x"
    assert str(hesse.parse("symmetric matrix A(n,n); x'*A*x").diff("x", "x")) == "2*A"


def test_a_wrong_derivative_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    true = formula_module.differentiate

    def wrong(*arguments: Any) -> Any:
        return [scale(node, 1.0 + 1e-4) for node in true(*arguments)]

    monkeypatch.setattr(formula_module, "differentiate", wrong)
    derivative = hesse.parse("x'*A*x").diff("x")
    for write in (str, repr, lambda found: found.to("latex"), lambda found: found.to("numpy")):
        with pytest.raises(hesse.VerificationError, match="by x does not agree with a finite difference"):
            write(derivative)


def test_a_wrong_order_below_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    first = hesse.parse("x'*A*x").diff("x")
    first.node = scale(first.node, 2.0)
    with pytest.raises(hesse.VerificationError, match="the derivative by x does not agree"):
        str(first.diff("x"))


def test_exchanged_axes_are_found() -> None:
    derivative = hesse.parse("A*X*B").diff("X")
    derivative.node = hesse.parse("H[k,j,i,l] = A[i,k]*B[l,j]").node
    with pytest.raises((hesse.VerificationError, ValueError)):
        derivative.verify()


def test_formulas_without_a_domain_are_no_answers() -> None:
    with pytest.raises(hesse.VerificationError, match="could not be compared with a finite difference"):
        str(hesse.parse("log(-x'*x)").diff("x"))


def test_large_sizes_given_as_numbers_are_no_answers() -> None:
    derivative = hesse.parse("vector x(2000); x'*x").diff("x", "x")
    with pytest.raises(
        hesse.VerificationError, match="make a tensor of 4,000,000 entries; give names to sizes"
    ):
        str(derivative)
    assert str(hesse.parse("vector x(200); x'*x").diff("x", "x")) == "2*eye(200)"


def test_steps_are_those_of_the_derivative() -> None:
    steps = hesse.parse("norm2(A*x-y)^2").diff("x").steps()
    assert steps[0].rule == "the function"
    assert steps[-1].formula.endswith("2*A'*(A*x - y)")


@pytest.mark.parametrize(
    "text",
    [
        "sum(log(x))",
        "sum(log(-x))",
        "sum(sqrt(A*x))",
        "sum(arcsin(x))",
        "sum(arccosh(x))",
        "norm1(A*x-y)",
        "max(A*x)",
        "min(x)+max(x)",
        "sum(relu(A*x))",
        "sum(abs(x).^3)",
        "logdet(A'*diag(x)*A)",
        "tr(inv(A*A'))",
        "positive vector x; sum(x.^x)",
        "sum(log(x).*log(x+1))",
        "vector x(2); matrix A(2,2); log(x'*A*x)",
        "sum(sign(x).*x)",
        "sum(x.*round(x))",
        "a*x'*x",
        "log(det(X))",
    ],
)
def test_points_are_found_inside_the_domain(text: str) -> None:
    formula = hesse.parse(text)
    name = next(name for name in "xXA" if name in [variable.name for variable in formula.variables])
    assert formula.diff(name).verify() < 1e-6
    assert formula.diff(name, name).verify() < 1e-6


@pytest.mark.parametrize(
    ("text", "by", "size"),
    [
        ("sum(softmax(X))", "X X", 1.0),
        ("sum(softmax(X))", "X X X", 1.0),
        ("tr(inv(X)*X)", "X X", 1.0),
        ("logdet(X*inv(X))", "X", 1.0),
        ("logdet(X*inv(X))", "X X", 1.0),
        ("1e-20*tr(X*inv(X))", "X X", 1e-20),
        ("1e9*det(X*inv(X))", "X X", 1e9),
        ("sin(a)^2 + cos(a)^2", "a a", 1.0),
        ("norm2(softmax(x))*(sum(softmax(x)) - 1)", "x x", 1.0),
    ],
)
def test_terms_that_cancel_are_compared_up_to_their_rounding(text: str, by: str, size: float) -> None:
    formula = hesse.parse(text).diff(*by.split())
    assert formula.verify() < 1e-6
    arrays = {"X": np.eye(3) + 0.1, "x": np.arange(3.0), "a": 0.7}
    values = {variable.name: arrays[variable.name] for variable in formula.variables}
    np.testing.assert_allclose(formula.evaluate(**values), 0.0, atol=1e-13 * size)


@pytest.mark.parametrize("size", [1.0, 1e-20, 1e20])
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("x'*x", "3*x"),
        ("x'*x", "0*x"),
        ("x'*x", "2*x + 1e-5"),
        ("sum(softmax(x))", "1e-5*x"),
        ("sum(softmax(x)) + 1e-5*sum(x)", "0*x"),
        ("abs(x)'*x", "x"),
    ],
)
def test_wrong_derivatives_of_any_size_are_found(text: str, wrong: str, size: float) -> None:
    function = hesse.parse(f"{size}*({text})")
    derivative = hesse.parse(f"{size}*({wrong})")
    step = function.diff("x")._differentiation()._replace(derivative=derivative._at)
    with pytest.raises(VerificationError, match="does not agree with a finite difference"):
        formula_module.verify(step)


def test_sizes_that_no_variable_has() -> None:
    """The unit matrix that fits anything has a size of its own, and a sum of ones counts them."""
    jacobian = hesse.parse("tr(X)*eye").diff("X")
    assert jacobian.open_sizes == ("m", "n")
    assert str(jacobian) == "H[i,j,k,l] = delta[i,j]*delta[k,l]"
    expected = np.einsum("ij,kl->ijkl", np.eye(3), np.eye(2))
    np.testing.assert_array_equal(jacobian.evaluate(X=np.ones((2, 2)), n=3), expected)
    with pytest.raises(hesse.ShapeError, match="the sizes n have no value; give them"):
        jacobian.evaluate(X=np.ones((2, 2)))
    counted = hesse.parse("sum(vector(1,k))*a").diff("a")
    assert counted.verify() < 1e-6
    assert counted.evaluate(a=1.0, k=5) == 5.0


NUMBERS = [
    ("matrix X(m,n); norm2(X*w - y)^2/(2*m)", "w", "matrix X(m,n); X'*(X*w - y)/m"),
    ("vector x(n); norm2(x)^2/n", "x", "vector x(n); 2*x/n"),
    ("vector x(d); norm2(x)^2/d", "x", "vector x(d); 2*x/d"),
    ("vector x(n); norm2(x)^2/n", "x x", "2*eye(n)/n"),
    ("vector x(n); norm2(x - sum(x)/n)^2/n", "x", "vector x(n); 2*x/n - 2*sum(x)/n^2"),
    ("vector x(n); sum(x - sum(x)/n)", "x", "vector(0, n)"),
    ("vector x(n); x'*x/(n^2*3)", "x", "vector x(n); 2/3*x/n^2"),
    ("vector x(n); log(n*c)*sum(x)", "c", "sum(x)/c"),
    ("vector x(n); c*sum(x)/(n - 1)", "c", "vector x(n); sum(x)/(n - 1)"),
    ("matrix X(m,n); tr(X'*X)/(m*n)", "X", "matrix X(m,n); 2*X/(m*n)"),
    ("psd matrix A(n,n); x'*A*x/n", "x", "psd matrix A(n,n); 2*A*x/n"),
    ("matrix A(m,n); m*A*X*B", "X", "matrix A(m,n); H[i,j,k,l] = m*A[i,k]*B[l,j]"),
    ("sum(vector(1,k))*a", "a", "vector size_k(k); k"),
]


@pytest.mark.parametrize(("text", "by", "expected"), NUMBERS)
def test_sizes_as_numbers(text: str, by: str, expected: str) -> None:
    """They cancel, and what is printed says that they are sizes: it has the same value read again."""
    formula = hesse.parse(text).diff(*by.split())
    assert str(formula) == expected
    sizes = {"m": 4, "n": 3, "k": 5, "d": 3, "p": 2}
    generator = np.random.default_rng(0)
    values = {}
    for variable in formula.variables:
        array = generator.uniform(0.5, 1.5, [sizes[str(size)] for size in variable.shape])
        values[variable.name] = array @ array.T if variable.attributes else array
    again = hesse.parse(str(formula))
    assert {variable.name for variable in again.variables} <= set(values)
    open_sizes = {name: sizes[name] for name in formula.open_sizes}
    found, expected_value = (
        one.evaluate(
            **{v.name: values[v.name] for v in one.variables}, **{s: open_sizes[s] for s in one.open_sizes}
        )
        for one in (again, formula)
    )
    np.testing.assert_allclose(found, expected_value, rtol=1e-12)


def test_sizes_as_numbers_in_matrix_forms() -> None:
    formula = hesse.parse("matrix A(m,n); m*A*X*B").diff("X")
    assert formula.to("kronecker") == "matrix A(m,n); m*kron(B', A)"


def test_verification_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    true = formula_module.verify
    monkeypatch.setattr(formula_module, "verify", lambda step: counted.append(step.name) or true(step))
    gradient = hesse.parse("norm2(A*x-y)").diff("x")
    hessian = gradient.diff("x")
    for _ in range(2):
        str(hessian), hessian.to("latex"), str(gradient)
    assert counted == ["by x", "by x, x"]


def test_derivatives_of_high_order_are_verified_with_small_arrays() -> None:
    assert hesse.parse("tr(X^6)").diff(*"XXXXX").verify() < 1e-6


@pytest.mark.parametrize(
    ("fact", "array"),
    [
        ("symmetric", SQUARE),
        ("psd", SQUARE),
        ("antisymmetric", SQUARE),
        ("diagonal", SQUARE),
        ("positive", -np.abs(SQUARE)),
    ],
)
def test_arrays_must_be_what_was_declared(fact: str, array: np.ndarray) -> None:
    formula = hesse.parse("x'*A*x", A=f"{fact} matrix")
    word = "symmetric" if fact == "psd" else fact
    with pytest.raises(hesse.ArgumentError, match=f"A was declared {word}, but the array"):
        formula.evaluate(A=array, x=np.ones(3))


def test_a_psd_array_has_no_negative_eigenvalue() -> None:
    formula = hesse.parse("x'*A*x", A="psd matrix")
    assert formula.evaluate(A=np.ones((3, 3)), x=np.ones(3)) == 9.0
    with pytest.raises(
        hesse.ArgumentError, match="A was declared psd, but the array has a negative eigenvalue"
    ):
        formula.evaluate(A=-np.eye(3), x=np.ones(3))


def test_values_are_asked_for_by_name() -> None:
    formula = hesse.parse("A*x").diff("x")
    with pytest.raises(hesse.ArgumentError, match="no value for A"):
        formula.evaluate(x=np.ones(2))
    with pytest.raises(hesse.ShapeError, match="x has size 2 where n = 3 already"):
        formula.evaluate(A=np.ones((2, 3)), x=np.ones(2))
    with pytest.raises(
        hesse.ArgumentError, match="there is no variable or size X in the formula; it has A, x, m, n"
    ):
        formula.evaluate(A=np.ones((2, 3)), x=np.ones(3), X=5)
    with pytest.raises(hesse.ShapeError, match="A has 1 axis, but was declared with shape"):
        formula.evaluate(A=np.ones(3), x=np.ones(3))
    assert hesse.parse("sum(vector(1,n))").evaluate(n=4) == 4.0
    np.testing.assert_array_equal(hesse.parse("eye(n)").evaluate(n=2), np.eye(2))


def test_sizes_that_are_products_are_checked() -> None:
    formula = hesse.parse("vec(A)'*x")
    assert formula.evaluate(A=np.ones((2, 3)), x=np.ones(6)) == 6.0
    with pytest.raises(hesse.ShapeError, match=r"an axis has 5 entries where the product m\*n is 6"):
        formula.evaluate(A=np.ones((2, 3)), x=np.ones(5))


def test_bad_requests() -> None:
    formula = hesse.parse("x'*A*x")
    with pytest.raises(hesse.ArgumentError, match="there is no variable y in the expression; it has A, x"):
        formula.diff("y")
    with pytest.raises(hesse.ArgumentError, match="diff needs at least one variable"):
        formula.diff()
    with pytest.raises(
        hesse.ArgumentError, match="symmetric must be one of free, projected, half, not 'full'"
    ):
        formula.diff("x", symmetric="full")
    with pytest.raises(hesse.ArgumentError, match="there is no notation 'word'; choose one of matrix"):
        formula.to("word")


def test_diff_takes_texts_and_formulas() -> None:
    formula = hesse.parse("x'*A*x")
    assert hesse.diff(formula, "x").node is hesse.diff("x'*A*x", "x").node
    assert hesse.diff("x'*A*x", "x", A="symmetric matrix").to("matrix") == "2*A*x"


def test_a_formula_remembers_what_it_is() -> None:
    formula = hesse.parse("x'*A*x")
    hessian = formula.diff("x", "A")
    assert hessian.function is formula
    assert [variable.name for variable in hessian.differentiated_by] == ["x", "A"]
    assert [variable.name for variable in hessian.variables] == ["A", "x"]
    assert repr(formula) == 'Formula("x\'*A*x")'
    assert formula.diff("x", "x", "x").shape == ("n", "n", "n")


def test_notations_and_languages() -> None:
    hessian = hesse.parse("norm2(M.*(T-U*V'))^2").diff("U", "U")
    assert str(hessian) == "H[i,j,k,l] = 2*delta[i,k]*sum[p](M[i,p]^2*V[p,j]*V[p,l])"
    assert hessian.to("matrix") == hessian.to("text") == hessian.to("index") == str(hessian)
    assert "delta" in hessian.to("latex")
    assert "einsum" in hessian.to("einsum")
    for language in ("numpy", "torch", "jax"):
        assert "def hessian(" in hessian.to(language)
    assert "def gradient(" in hesse.parse("x'*x").diff("x").to("numpy")
    assert "def jacobian(" in hesse.parse("A*x").diff("x").to("numpy")
    assert "def derivative(" in hesse.parse("A*x").diff("x", "A").to("numpy")
    assert "def function(" in hesse.parse("A*x").to("numpy")


def test_derivatives_through_vec_are_matrices_again() -> None:
    assert str(hesse.parse("norm2(vec(A*X))^2").diff("X")) == "2*A'*A*X"
    assert str(hesse.parse("vec(A)'*vec(X)").diff("X")) == "A"
    assert str(hesse.parse("norm2(vec(X)-vec(A))^2").diff("X")) == "2*(X - A)"
    assert hesse.parse("norm2(vec(X)-y)^2").diff("X", "X").verify() < 1e-6
    assert hesse.parse("y'*kron(A,B)*vec(X*X)").diff("X", "A", "X").verify() < 1e-6


def test_convexity_is_forwarded() -> None:
    formula = hesse.parse("norm2(A*x-y)^2")
    assert formula.convexity("x").verdict == "convex"
    with pytest.raises(hesse.ArgumentError, match="there is no variable z"):
        formula.convexity("z")


def test_importing_hesse_imports_no_parser() -> None:
    program = (
        "import sys, hesse; print('lark' in sys.modules, 'hesse.frontends.language.elaborate' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]


INVERSES: list[tuple[str, str, Callable[..., Any]]] = [
    ("matrix A; A*inv(A)*x", "x", lambda A, x: A @ jnp.linalg.inv(A) @ x),
    ("matrix A; x'*inv(A)*A*B", "B'*x", lambda A, B, x: x @ jnp.linalg.inv(A) @ A @ B),
    ("matrix A; inv(A')*A'*B", "B", lambda A, B: jnp.linalg.inv(A.T) @ A.T @ B),
    ("matrix A; A'*inv(A)*x", "A'*inv(A)*x", lambda A, x: A.T @ jnp.linalg.inv(A) @ x),
    ("matrix A; tr(A*B*inv(A))", "tr(B)", lambda A, B: jnp.trace(A @ B @ jnp.linalg.inv(A))),
    ("matrix A; inv(A+B)*(A+B)*x", "x", lambda A, B, x: jnp.linalg.inv(A + B) @ (A + B) @ x),
    ("matrix A; inv(2*A)*A*x", "0.5*x", lambda A, x: jnp.linalg.inv(2 * A) @ A @ x),
    ("symmetric matrix A; A'*inv(A)*x", "x", lambda A, x: A.T @ jnp.linalg.inv(A) @ x),
    ("antisymmetric matrix A; A'*inv(A)*x", "-x", lambda A, x: A.T @ jnp.linalg.inv(A) @ x),
]


@pytest.mark.parametrize(("text", "expected", "function"), INVERSES, ids=[case[0] for case in INVERSES])
def test_a_matrix_times_its_inverse(text: str, expected: str, function: Callable[..., Any]) -> None:
    formula = hesse.parse(text)
    assert str(formula) == expected
    square = np.random.default_rng(2).normal(size=(4, 4))
    fact = text.split(maxsplit=1)[0]
    given = {
        "A": square + square.T if fact == "symmetric" else square - square.T if fact != "matrix" else square,
        "B": np.random.default_rng(3).normal(size=(4, 4)),
        "x": np.arange(4.0),
    }
    values = {variable.name: given[variable.name] for variable in formula.variables}
    np.testing.assert_allclose(formula.evaluate(**values), function(**values), rtol=1e-9, atol=1e-9)


def test_a_matrix_times_its_inverse_in_derivatives() -> None:
    assert str(hesse.parse("norm2(A*inv(A)*x - y)^2").diff("x", "x")) == "2*eye(n)"
    assert str(hesse.parse("tr(X*inv(X))").diff("X")) == "matrix(0, n, n)"
    assert str(hesse.parse("X*inv(X'*X)*X'*X*w")) == "X*w"
    residual = hesse.parse("norm2(y - X*inv(X'*X)*X'*y)^2").diff("y")
    assert str(residual) == "2*y - 2*X*inv(X'*X)*X'*y"
    given = {"X": np.random.default_rng(0).normal(size=(5, 2)), "y": np.arange(5.0)}
    left = given["y"] - given["X"] @ np.linalg.lstsq(given["X"], given["y"], rcond=None)[0]
    np.testing.assert_allclose(residual.evaluate(**given), 2 * left, rtol=1e-9)


def test_names_avoid_all_variables_of_the_text() -> None:
    """Also those that a derivative does not depend on: to the reader they mean something else."""
    derivative = hesse.parse("logsumexp(A*x) + p'*y").diff("x", "x")
    assert str(derivative) == "A'*(diag(q) - q*q')*A where q = softmax(A*x)"
    assert " q = " in derivative.to("latex")
    listing = hesse.parse("sum(exp(A*x)) + t1'*t1").diff("x").to("einsum")
    assert "t1" not in listing and "t2 = " in listing
    matrix = hesse.parse("sum(logsumexp(X*W)) + sum(P)").diff("W", "W").to("kronecker")
    assert matrix.endswith("where B = softmax(X*W)")


def test_a_size_that_contradicts_an_array_is_refused() -> None:
    formula = hesse.parse("A*x")
    with pytest.raises(hesse.ShapeError, match="A has size 2 where m = 99 already"):
        formula.evaluate(A=np.ones((2, 3)), x=np.ones(3), m=99)
    np.testing.assert_array_equal(formula.evaluate(A=np.ones((2, 3)), x=np.ones(3), m=2), [3.0, 3.0])
