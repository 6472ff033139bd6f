"""Certificates of convexity: known verdicts, traps, and a search for certificates that numbers contradict."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import hesse
import naive
from hesse.calculus import differentiate
from hesse.convexity import Convexity, convexity
from hesse.convexity.facts import Facts
from hesse.convexity.reflection import plain_outline
from hesse.errors import ArgumentError
from hesse.ir import Node, Variable, delta, topological, transpose
from hesse.ops.registry import OPERATIONS

M, N, K = 4, 3, 2
SIZES = {"m": M, "n": N, "k": K}


def declare(name: str, *shape: int | str, **options: Any) -> Any:
    """A variable."""
    return hesse.variable(name, shape, **options)


A, B = declare("A", "m", "n"), declare("B", "n", "n")
x, z = declare("x", "n"), declare("z", "n")
y = declare("y", "m")
p, q = (declare(name, "n", attributes=["positive"]) for name in "pq")
w = declare("w", "m", attributes=["positive"])
s, t = declare("s"), declare("t", attributes=["positive"])
P, Q = (declare(name, "n", "n", attributes=["psd"]) for name in "PQ")
S, X = declare("S", "n", "n", symmetric=True), declare("X", "n", "n")
W, Y = declare("W", "n", "k"), declare("Y", "m", "k")
U, V, T, mask = declare("U", "m", "k"), declare("V", "n", "k"), declare("T", "m", "n"), declare("M", "m", "n")
five = declare("v", 5)
residual = A @ x - y
inv, logdet = np.linalg.inv, lambda matrix: np.linalg.slogdet(matrix)[1]


class Case(NamedTuple):
    """A function, its variable, and the verdict."""

    function: Any
    variable: Any
    verdict: str


CASES: dict[str, Case] = {
    "constant": Case(np.sum(y), x, "convex"),
    "affine": Case(np.sum(A @ x) + 3, x, "convex"),
    "bilinear form in one argument": Case(z @ B @ x, x, "convex"),
    "least squares": Case(np.sum(residual**2), x, "convex"),
    "minus least squares": Case(-np.sum(residual**2), x, "concave"),
    "ridge": Case(np.sum(residual**2) + t * np.sum(x**2), x, "convex"),
    "ridge with a weight of unknown sign": Case(np.sum(residual**2) + s * np.sum(x**2), x, "unknown"),
    "weighted least squares": Case(np.sum(w * residual**2), x, "convex"),
    "weights of unknown sign": Case(np.sum(y * (A @ x) ** 2), x, "unknown"),
    "norm": Case(np.linalg.norm(residual), x, "convex"),
    "minus norm": Case(-np.linalg.norm(residual), x, "concave"),
    "cubed norm": Case(np.linalg.norm(x) ** 3, x, "convex"),
    "square root of a norm": Case(np.sqrt(np.linalg.norm(x)), x, "unknown"),
    "norm of a psd form": Case(np.sqrt(x @ P @ x), x, "convex"),
    "Charbonnier": Case(np.sum(np.sqrt(residual**2 + 1)), x, "convex"),
    "smoothed norm": Case(np.sqrt(np.sum(residual**2) + 1), x, "convex"),
    "smoothed norm with a wrong sign": Case(np.sqrt(np.sum(residual**2) - 1), x, "unknown"),
    "logistic": Case(np.sum(np.log(1 + np.exp(-y * (A @ x)))), x, "convex"),
    "log-sum-exp": Case(hesse.logsumexp(A @ x), x, "convex"),
    "minus log-sum-exp": Case(-hesse.logsumexp(A @ x), x, "concave"),
    "log-sum-exp written out": Case(np.log(np.sum(np.exp(A @ x))), x, "convex"),
    "scaled log-sum-exp rows": Case(np.sum(hesse.logsumexp(A * x, axis=1)), x, "convex"),
    "cross entropy by W": Case(
        np.sum(np.log(np.sum(np.exp(A @ W), axis=1))) - np.sum(Y * (A @ W)), W, "convex"
    ),
    "squared softmax": Case(np.sum(hesse.softmax(x) ** 2), x, "unknown"),
    "log-sum-exp squared": Case(hesse.logsumexp(A @ x) ** 2, x, "unknown"),
    "log of a sum of exp, wrong sign": Case(np.log(np.sum(np.exp(x)) + np.sum(np.exp(-x) * z)), x, "unknown"),
    "quadratic form": Case(x @ B @ x, x, "unknown"),
    "quadratic form, symmetric": Case(x @ S @ x, x, "unknown"),
    "quadratic form, psd": Case(x @ P @ x, x, "convex"),
    "quadratic form, psd and its inverse": Case(x @ P @ x + x @ inv(Q) @ x, x, "convex"),
    "quadratic form, sandwich": Case(residual @ (A @ P @ A.T) @ residual, x, "convex"),
    "quadratic form, difference of psd": Case(x @ P @ x - x @ Q @ x, x, "unknown"),
    "exp of a psd form": Case(np.exp(x @ P @ x), x, "convex"),
    "Gaussian": Case(np.sum(np.exp(-(x**2))), x, "unknown"),
    "cube": Case(np.sum(x**3), x, "unknown"),
    "cube of positive": Case(np.sum(p**3), p, "convex"),
    "fourth power": Case(np.sum(x**4), x, "convex"),
    "sixth power of residuals": Case(np.sum(residual**6), x, "convex"),
    "double well": Case(np.sum(x**4) - np.sum(x**2), x, "unknown"),
    "squared squared norm": Case((x @ x) ** 2, x, "convex"),
    "product of entries": Case(five[0] * five[1], five, "unknown"),
    "sum times sum of squares": Case(np.sum(x) * np.sum(x**2), x, "unknown"),
    "Rosenbrock": Case(np.sum((five[1:] - five[:-1] ** 2) ** 2), five, "unknown"),
    "differences": Case(np.sum((five[1:] - five[:-1]) ** 2), five, "convex"),
    "total variation": Case(np.sum(np.abs(five[1:] - five[:-1])), five, "convex"),
    "sine": Case(np.sum(np.sin(x)), x, "unknown"),
    "tanh": Case(np.sum(np.tanh(x)), x, "unknown"),
    "tanh of positive": Case(np.sum(np.tanh(p)), p, "concave"),
    "sigmoid (quasi-convex)": Case(np.sum(hesse.sigmoid(x)), x, "unknown"),
    "cosh": Case(np.sum(np.cosh(A @ x)), x, "convex"),
    "softplus": Case(np.sum(hesse.softplus(residual)), x, "convex"),
    "log": Case(np.sum(np.log(x)), x, "concave"),
    "log barrier": Case(-np.sum(np.log(y - A @ x)), x, "convex"),
    "log of a square": Case(np.log(np.sum(x**2)), x, "unknown"),
    "log of a concave function": Case(np.sum(np.log(1 - x**2)), x, "concave"),
    "log of a concave function in the wrong place": Case(np.sum(np.log(x**2 - 1)), x, "unknown"),
    "square root": Case(np.sum(np.sqrt(x)), x, "concave"),
    "sqrt of a square": Case(-np.sum(np.sqrt(x**2)), x, "concave"),
    "reciprocal": Case(np.sum(1 / x), x, "unknown"),
    "reciprocal of positive": Case(np.sum(1 / p), p, "convex"),
    "reciprocal of negative": Case(np.sum(1 / (-p)), p, "concave"),
    "reciprocal square": Case(np.sum(x**-2.0), x, "unknown"),
    "power 1.5": Case(np.sum(p**1.5), p, "convex"),
    "power 0.3": Case(np.sum(p**0.3), p, "concave"),
    "power -1.5": Case(np.sum(x**-1.5), x, "convex"),
    "quadratic over linear": Case(np.sum(x**2) / t, t, "convex"),
    "ratio of positives": Case(p @ z / (p @ q), p, "unknown"),
    "negative entropy": Case(np.sum(p * np.log(p)), p, "convex"),
    "entropy": Case(-np.sum(p * np.log(p)), p, "concave"),
    "relative entropy": Case(np.sum(p * np.log(p / q)), p, "convex"),
    "relative entropy, second argument": Case(np.sum(p * np.log(p / q)), q, "convex"),
    "Poisson likelihood": Case(np.sum(np.exp(A @ x) - w * (A @ x)), x, "convex"),
    "1-norm": Case(np.sum(np.abs(residual)), x, "convex"),
    "minus 1-norm": Case(-np.sum(np.abs(x)), x, "concave"),
    "difference of 1-norms": Case(np.sum(np.abs(x)) - np.sum(np.abs(x - z)), x, "unknown"),
    "x times its sign": Case(np.sum(x * np.sign(x)), x, "unknown"),
    "lasso": Case(np.sum(residual**2) + t * np.sum(np.abs(x)), x, "convex"),
    "minimum": Case(np.sum(np.minimum(x, z)), x, "concave"),
    "maximum": Case(np.sum(np.maximum(A @ x, y)), x, "convex"),
    "maximum of concave": Case(np.sum(np.maximum(-(x**2), z)), x, "unknown"),
    "largest entry": Case(np.max(five), five, "convex"),
    "smallest entry": Case(np.min(five), five, "concave"),
    "median": Case(np.median(five), five, "unknown"),
    "hinge": Case(np.sum(hesse.relu(1 - y * (A @ x))), x, "convex"),
    "squared hinge": Case(np.sum(hesse.relu(1 - y * (A @ x)) ** 2), x, "convex"),
    "relu net": Case(np.sum((hesse.relu(A @ x) - y) ** 2), x, "unknown"),
    "stopped gradient": Case(np.sum(hesse.stop_gradient(x) * x), x, "unknown"),
    "floor": Case(np.sum(np.floor(x)), x, "unknown"),
    "clip": Case(np.sum(np.clip(x, -1, 1)), x, "unknown"),
    "distance product": Case(np.linalg.norm(x - z) * np.linalg.norm(x), x, "unknown"),
    "matrix factorisation": Case(np.sum((mask * (T - U @ V.T)) ** 2), U, "convex"),
    "tri-factorisation in one factor": Case(np.sum((T - U @ U.T @ T) ** 2), U, "unknown"),
    "squared Frobenius norm": Case(np.sum(X**2), X, "convex"),
    "trace of a square": Case(np.trace(X @ X), X, "unknown"),
    "trace of a square, symmetric": Case(np.trace(S @ S), S, "convex"),
    "determinant": Case(np.linalg.det(P), P, "unknown"),
    "logdet": Case(logdet(X), X, "unknown"),
    "logdet, symmetric": Case(logdet(S), S, "unknown"),
    "logdet, psd": Case(logdet(P), P, "concave"),
    "log of det, psd": Case(np.log(np.linalg.det(P)), P, "concave"),
    "logdet of a form": Case(logdet(W.T @ P @ W), P, "concave"),
    "logdet of a sum": Case(logdet(P + Q), P, "concave"),
    "logdet of a Gram matrix": Case(logdet(W.T @ W), W, "unknown"),
    "trace of the inverse": Case(np.trace(inv(P)), P, "convex"),
    "trace of the inverse, undeclared": Case(np.trace(inv(X)), X, "unknown"),
    "A-optimal design": Case(np.trace(A @ inv(P) @ A.T), P, "convex"),
    "matrix fractional": Case(x @ inv(P) @ x, P, "convex"),
    "Gaussian likelihood in the precision": Case(x @ P @ x - logdet(P), P, "convex"),
    "Gaussian likelihood in the covariance": Case(x @ inv(P) @ x + logdet(P), P, "unknown"),
    "Gaussian process by the data": Case(z @ np.linalg.solve(P, z), z, "convex"),
    "system with a fixed matrix": Case(np.sum(np.linalg.solve(B, x) ** 2), x, "convex"),
}
CERTIFIED = [name for name, case in CASES.items() if case.verdict != "unknown"]


def verdict_of(case: Case) -> Convexity:
    return convexity(case.function.node, case.variable.node)


@pytest.mark.parametrize("name", CASES)
def test_known_verdicts(name: str) -> None:
    found = verdict_of(CASES[name])
    assert found.verdict == CASES[name].verdict, str(found)
    assert found.reason


@pytest.mark.parametrize(
    ("formula", "name", "verdict"),
    [
        ("max(A*x - y)", "x", "convex"),
        ("min(A*x)", "x", "concave"),
        ("max(-x.^2)", "x", "unknown"),
        ("norm2(vec(W) - z)^2", "W", "convex"),
        ("norm1(kron(x, y))", "x", "convex"),
        ("positive vector p(n); sum(kron(abs(x), p))", "x", "convex"),
        ("sum(kron(abs(x), y))", "x", "unknown"),
        ("sum(kron(x, x))", "x", "unknown"),
        ("psd matrix X(n,n); tr(A*X) - logdet(X)", "X", "convex"),
        ("positive scalar c; norm2(A*x - y)^2 + c*norm1(x)", "x", "convex"),
        ("c*norm1(x)", "x", "unknown"),
        ("exp(-x'*x)", "x", "unknown"),
    ],
)
def test_verdicts_on_formulas(formula: str, name: str, verdict: str) -> None:
    assert hesse.parse(formula).convexity(name).verdict == verdict


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("least squares", "the Hessian 2*A'*A has the form B'*D*B with D >= 0"),
        ("log", "the Hessian -diag(1./x.^2) has the form -B'*D*B with D >= 0"),
        ("affine", "affine: the Hessian is zero and there are no kinks"),
        ("constant", "affine: it does not depend on x"),
        ("cube", "the sign of the Hessian 6*diag(x) is not known"),
        ("squared squared norm", "is a sum of terms of the form B'*D*B with D >= 0"),
        ("log-sum-exp", "is positive semidefinite since diag(p) - p*p' >= 0 for p >= 0 that sums to 1"),
        ("smoothed norm", "is positive semidefinite since (r'*r)*eye - r*r' >= 0"),
        ("quadratic over linear", "is not negative"),
        ("1-norm", "abs is convex"),
        ("minus 1-norm", "minus: abs is convex"),
        ("norm", "the Euclidean norm of an affine function is convex"),
        ("squared hinge", "the power 2 is convex and increasing, its operand convex"),
        ("maximum", "maximum is convex and increasing"),
        ("lasso", "the power 2 is convex; abs is convex"),
        ("reciprocal", "the domain of reciprocal is not known to be convex: its operand is not known to be"),
        ("log of a square", "its operand is known neither to be large enough nor to be concave"),
        ("logdet", "is only known to be defined on a convex set for affine psd matrices"),
        ("difference of 1-norms", "a convex and a concave term"),
        ("ridge with a weight of unknown sign", "the sign of the Hessian"),
        ("floor", "no rule for floor"),
    ],
)
def test_reasons(name: str, reason: str) -> None:
    assert reason in verdict_of(CASES[name]).reason


def test_text_of_a_certificate() -> None:
    assert str(Convexity("convex", "because")) == "convex: because"


def test_deep_expressions() -> None:
    """Work is linear in the depth: the Hessian of a large expression is not multiplied out."""
    layer = x
    for _ in range(100):
        layer = hesse.softplus(np.exp(B) @ layer)
    found = convexity(np.sum(layer).node, x.node)
    assert str(found) == "convex: softplus is convex and increasing, its operand convex"


def test_only_scalar_functions() -> None:
    with pytest.raises(ArgumentError, match=r"a scalar function, but this one has shape \('n',\)"):
        convexity(x.node, x.node)


# Positive semidefinite tensors: matrices with rows and columns of equal number of axes, and their sign.

c, d = declare("c"), declare("d", attributes=["positive"])
soft, other, rows = hesse.softmax(x), hesse.softmax(z), hesse.softmax(A)
outer, diagonal = np.outer, np.diag
identity = hesse.Expression(delta(("n",)))
TENSORS: dict[str, tuple[Any, int]] = {
    "Gram matrix": (A.T @ A, 1),
    "product of two matrices": (B @ X, 0),
    "weighted Gram matrix": (A.T @ diagonal(w) @ A, 1),
    "Gram matrix with free weights": (A.T @ diagonal(y) @ A, 0),
    "sandwich of a psd matrix": (A @ P @ A.T, 1),
    "sandwich of a free matrix": (A @ B @ A.T, 0),
    "product of psd matrices": (P @ Q, 0),
    "entry-wise product of psd matrices": (P * Q, 1),
    "entry-wise square of a psd matrix": (P * P, 1),
    "psd minus psd": (P - Q, 0),
    "minus psd": (-P, -1),
    "inverse of psd": (inv(P), 1),
    "inverse of symmetric": (inv(S), 0),
    "inverse of a sum of psd": (inv(P + Q), 1),
    "outer product": (outer(x, x), 1),
    "outer product of two vectors": (outer(x, z), 0),
    "diagonal of squares": (diagonal(x**2), 1),
    "diagonal": (diagonal(x), 0),
    "ones": (outer(x * 0 + 1, x * 0 + 1), 1),
    "covariance of a softmax": (diagonal(soft) - outer(soft, soft), 1),
    "covariance with a larger diagonal": (3 * diagonal(soft) - 2 * outer(soft, soft), 1),
    "covariance with a smaller diagonal": (diagonal(soft) - 2 * outer(soft, soft), 0),
    "covariance of two softmaxes": (diagonal(soft) - outer(soft, other), 0),
    "diagonal of one, product of another": (diagonal(other) - outer(soft, soft), 0),
    "two products for one diagonal": (diagonal(soft) * 1.5 - 2 * outer(soft, soft), 0),
    "minus the covariance": (outer(soft, soft) - diagonal(soft), -1),
    "covariance of rows": (
        diagonal(np.sum(rows, axis=0)) - rows.T @ rows,
        1,
    ),
    "Cauchy and Schwarz": ((x @ x) * identity - outer(x, x), 1),
    "Cauchy and Schwarz, too small": ((x @ x) * identity - 2 * outer(x, x), 0),
    "Cauchy and Schwarz, larger": ((x @ x + 1) * identity - outer(x, x), 1),
    "Cauchy and Schwarz, smaller": ((x @ x - 1) * identity - outer(x, x), 0),
    "Cauchy and Schwarz, another vector": ((z @ z) * identity - outer(x, x), 0),
    "Cauchy and Schwarz, weighted": (d * (x @ x) * identity - d * outer(x, x), 1),
    "Cauchy and Schwarz, free weights": (c * (x @ x) * identity - c * outer(x, x), 0),
    "Cauchy and Schwarz through a matrix": ((y @ y) * (A.T @ A) - outer(A.T @ y, A.T @ y), 1),
    "Kronecker product of psd matrices": (hesse.einsum("ik,jl->ijkl", P, Q), 1),
    "Kronecker product of free matrices": (hesse.einsum("ik,jl->ijkl", X, B), 0),
    "psd matrices that cross": (hesse.einsum("il,jk->ijkl", P, Q), 0),
    "commutation": (hesse.Expression(transpose(delta(("n", "n")), [0, 1, 3, 2])), 0),
    "unit tensor": (hesse.Expression(delta(("n", "n"))), 1),
    "block diagonal": (hesse.einsum("pj,pk,i->ijik", V, V, w), 1),
    "block diagonal, free weights": (hesse.einsum("pj,pk,i->ijik", V, V, y), 0),
}


@pytest.mark.parametrize("name", TENSORS)
def test_signs_of_tensors(name: str) -> None:
    expression, sign = TENSORS[name]
    proof = Facts().proof(expression.node, plain_outline(0, expression.ndim // 2))
    assert (proof.sign if proof else 0) == sign


@pytest.mark.parametrize("name", TENSORS)
def test_eigenvalues_agree_with_the_signs(name: str) -> None:
    expression, sign = TENSORS[name]
    lowest = highest = 0.0
    for seed in range(40):
        _, given_values = points(expression.node, seed)
        value = naive.evaluate(expression.node, given_values, SIZES)
        side = int(np.sqrt(value.size))
        matrix = value.reshape(side, side)
        eigenvalues = np.linalg.eigvalsh((matrix + matrix.T) / 2) / np.abs(matrix).max()
        lowest, highest = min(lowest, eigenvalues.min()), max(highest, eigenvalues.max())
    assert not sign or min(lowest * sign, highest * sign) >= -1e-9


# What numbers say.


def draw(variable: Variable, generator: np.random.Generator, spread: float = 1.5) -> np.ndarray:
    """A random value with the declared properties."""
    shape = tuple(SIZES.get(size, size) for size in variable.shape)
    array = generator.normal(size=shape) * spread
    if "positive" in variable.attributes:
        array = np.abs(array) + 0.05
    if "psd" in variable.attributes:
        array = array @ array.T + 0.1 * np.eye(len(array))
    elif "symmetric" in variable.attributes:
        array = array + array.T
    return array


def points(node: Node, seed: int) -> tuple[np.random.Generator, dict[str, np.ndarray]]:
    generator = np.random.default_rng(seed)
    variables = [part for part in topological([node]) if isinstance(part, Variable)]
    return generator, {part.name: draw(part, generator) for part in sorted(variables, key=lambda v: v.name)}


def contradiction(node: Node, variable: Variable, verdict: str, seeds: range) -> str | None:
    """A chord that shows the verdict to be wrong."""
    sign = 1.0 if verdict == "convex" else -1.0
    for seed in seeds:
        generator, given_values = points(node, seed)
        ends = [draw(variable, generator, spread) for spread in (1.5, generator.choice([0.3, 1.5, 4.0]))]
        if seed % 2:  # near each other: curvature at a point
            ends[1] = ends[0] + 0.1 * (ends[1] - ends[0])
        part = generator.uniform(0.2, 0.8)
        middle = part * ends[0] + (1 - part) * ends[1]
        one, two, between = (
            sign * float(naive.evaluate(node, {**given_values, variable.name: value}, SIZES))
            for value in (*ends, middle)
        )
        if not (np.isfinite(one) and np.isfinite(two)):
            continue
        chord = part * one + (1 - part) * two
        slack = 1e-7 * max(1.0, abs(one), abs(two))
        if not between <= chord + slack:
            return f"seed {seed}: {between} at the middle, {chord} on the chord from {one} to {two}"
    return None


@pytest.mark.parametrize("name", CERTIFIED)
def test_chords_agree_with_the_table(name: str) -> None:
    case = CASES[name]
    found = contradiction(case.function.node, case.variable.node, case.verdict, range(24))
    assert found is None, found


UNCURVED = [
    "Gaussian", "cube", "quadratic form", "double well", "product of entries", "sine", "tanh",
    "sigmoid (quasi-convex)", "reciprocal", "difference of 1-norms", "maximum of concave", "median",
    "relu net", "distance product", "logdet", "trace of a square", "Rosenbrock", "log of a square",
    "floor", "clip", "squared softmax", "ratio of positives", "quadratic form, difference of psd",
]  # fmt: skip


@pytest.mark.parametrize("name", UNCURVED)
def test_the_check_by_chords_finds_functions_that_are_neither(name: str) -> None:
    node, variable = CASES[name].function.node, CASES[name].variable.node
    assert contradiction(node, variable, "convex", range(200)) is not None
    assert contradiction(node, variable, "concave", range(200)) is not None


SMOOTH = [
    "least squares", "logistic", "log-sum-exp", "cross entropy by W", "negative entropy", "smoothed norm",
    "matrix factorisation", "exp of a psd form", "quadratic over linear", "relative entropy",
    "minus log-sum-exp", "log of a concave function", "power 0.3",
]  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_eigenvalues_of_the_hessian_agree(name: str) -> None:
    case = CASES[name]
    (gradient,) = differentiate(case.function.node, [case.variable.node])
    (hessian,) = differentiate(gradient, [case.variable.node])
    for seed in range(4):
        _, given_values = points(case.function.node, seed)
        scale = 0.3 if name == "log of a concave function" else 1.0
        value = naive.evaluate(
            hessian,
            {**given_values, case.variable.node.name: scale * given_values[case.variable.node.name]},
            SIZES,
        )
        side = int(np.sqrt(value.size))
        eigenvalues = np.linalg.eigvalsh(value.reshape(side, side))
        if np.isfinite(eigenvalues).all():
            low = eigenvalues.min() if case.verdict == "convex" else -eigenvalues.max()
            assert low >= -1e-9 * np.abs(eigenvalues).max()


# Random functions.

ELEMENTWISE: Mapping[str, Callable[[Any], Any]] = {
    "exp": lambda u: np.exp(0.5 * u),
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "square": lambda u: u**2,
    "cube": lambda u: u**3,
    "fourth": lambda u: u**4,
    "power 1.5": lambda u: u**1.5,
    "power 0.7": lambda u: u**0.7,
    "power -0.5": lambda u: u**-0.5,
    "power 5": lambda u: u**5.0,
    "reciprocal": lambda u: 1 / u,
    "abs": np.abs,
    "relu": hesse.relu,
    "softplus": hesse.softplus,
    "sigmoid": hesse.sigmoid,
    "tanh": np.tanh,
    "cosh": np.cosh,
    "sinh": np.sinh,
    "arctan": np.arctan,
    "arcsinh": np.arcsinh,
    "sin": np.sin,
    "sign": np.sign,
    "hypot one": lambda u: np.sqrt(u**2 + 1),
    "entropy": lambda u: u * np.log(u),
    "gauss": lambda u: np.exp(-(u**2)),
    "softmax": hesse.softmax,
    "negative": lambda u: -u,
    "twice": lambda u: 2 * u,
    "shift": lambda u: u + 1,
}
HARMLESS = ("exp", "square", "abs", "relu", "softplus", "cosh", "fourth", "hypot one", "negative", "twice")


def random_vector(source: random.Random, variable: Any, depth: int) -> Any:
    """A vector function of the variable; most are made of functions that keep some curvature."""
    if depth == 0:
        return source.choice(
            [variable] * 4 + [B @ variable, B @ variable + z, variable - z, q * variable, z, q]
        )
    inner = random_vector(source, variable, depth - 1)
    kinds = ["function"] * 3 + ["harmless"] * 2 + ["kink"] * 2 + ["sum", "product", "max", "matrix"]
    match source.choice(kinds):
        case "kink":
            kinked = [np.abs(inner), hesse.relu(inner), np.maximum(inner, z), np.sqrt(inner**2)]
            return source.choice([1, -1]) * source.choice(kinked)
        case "function":
            return ELEMENTWISE[source.choice(sorted(ELEMENTWISE))](inner)
        case "harmless":
            return ELEMENTWISE[source.choice(HARMLESS)](inner)
        case "sum":
            other = random_vector(source, variable, depth - 1)
            return source.choice([inner + other, inner - other])
        case "product":
            return inner * random_vector(source, variable, source.randrange(depth))
        case "max":
            other = random_vector(source, variable, depth - 1)
            return source.choice([np.maximum, np.minimum, np.logaddexp])(inner, other)
    return source.choice([B @ inner, np.exp(B) @ inner, P @ inner])


def random_scalar(source: random.Random, variable: Any) -> Any:
    """A scalar function of the variable."""
    u = random_vector(source, variable, source.choice([0, 1, 1, 2, 2, 3]))
    choices: list[Callable[[], Any]] = [
        lambda: np.sum(u),
        lambda: np.sum(u),
        lambda: q @ u,
        lambda: z @ u,
        lambda: z @ u,
        lambda: u @ u,
        lambda: u @ P @ u,
        lambda: u @ B @ u,
        lambda: np.linalg.norm(u),
        lambda: hesse.logsumexp(u),
        lambda: np.sum(u) ** 2,
        lambda: np.sqrt(1 + u @ u),
        lambda: np.sqrt(np.sum(u)),
        lambda: np.log(np.sum(u)),
        lambda: np.exp(np.sum(u) * 0.3),
        lambda: u @ random_vector(source, variable, 1),
        lambda: np.sum(u) * np.sum(random_vector(source, variable, 1)),
        lambda: np.sum(u) / np.sum(random_vector(source, variable, 1)),
        lambda: u @ u / np.sum(random_vector(source, variable, 0)),
        lambda: np.sum(u) - random_scalar(source, variable),
        lambda: np.sum(u) + random_scalar(source, variable),
    ]
    return source.choice(choices)()


def random_matrix_function(source: random.Random) -> Any:
    """A scalar function of the psd matrix P."""

    def matrix() -> Any:
        return source.choice([P, P, P + Q, W.T @ P @ W, 2 * P, P - Q, inv(P), P @ P, Q @ P @ Q, np.exp(P)])

    def term() -> Any:
        inner = matrix()
        v = declare("c", "k") if inner.shape[0] == "k" else z
        return source.choice(
            [
                lambda: logdet(inner),
                lambda: np.trace(inner),
                lambda: np.trace(inv(inner)),
                lambda: v @ inner @ v,
                lambda: v @ inv(inner) @ v,
                lambda: np.sum(inner**2),
                lambda: np.trace(inner @ inner),
                lambda: np.exp(0.1 * np.trace(inner)),
                lambda: np.sqrt(v @ inner @ v),
                lambda: np.log(v @ inner @ v),
                lambda: 1 / np.trace(inner),
                lambda: np.linalg.det(inner),
            ]
        )()

    result = term()
    for _ in range(source.randrange(3)):
        result = source.choice([result + term(), result - term(), result * t])
    return result


def random_case(source: random.Random) -> tuple[Any, Any]:
    """A random function and its variable."""
    kind = source.choice(["free", "free", "positive", "positive", "matrix"])
    if kind == "matrix":
        return random_matrix_function(source), P
    variable = x if kind == "free" else p
    return random_scalar(source, variable), variable


@settings(max_examples=150, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 2**40))
def test_no_certificate_is_contradicted(seed: int) -> None:
    function, variable = random_case(random.Random(seed))
    found = convexity(function.node, variable.node)
    if found.verdict != "unknown":
        wrong = contradiction(function.node, variable.node, found.verdict, range(12))
        assert wrong is None, f"{function} by {variable} is not {found}: {wrong}"


def test_many_random_functions_are_certified() -> None:
    """The search above is only worth as much as the number of certificates it looks at."""
    verdicts = []
    for seed in range(120):
        function, variable = random_case(random.Random(seed))
        found = convexity(function.node, variable.node)
        verdicts.append("affine" if found.reason.startswith("affine") else found.verdict)
    assert verdicts.count("convex") >= 20, verdicts
    assert verdicts.count("concave") >= 6, verdicts
    assert verdicts.count("unknown") >= 30, verdicts


def test_linear_operations_that_may_have_negative_coefficients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A running sum makes nothing negative; if that were not known, it would only keep what is affine."""
    curved, affine = np.sum(np.cumsum(np.abs(five))), np.sum(np.cumsum(2 * five))
    assert convexity(curved.node, five.node).verdict == "convex"
    record = OPERATIONS["cumulative_sum"]
    monkeypatch.setitem(OPERATIONS, record.name, replace(record, image=None))
    assert convexity(curved.node, five.node).verdict == "unknown"
    assert convexity(affine.node, five.node).verdict == "convex"
