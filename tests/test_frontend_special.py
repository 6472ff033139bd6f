"""Functions that NumPy lacks, on arrays and on expressions, against SciPy and plain definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

from frontend_cases import Case, check, compiled_value, traced
from hesse.errors import ArgumentError, DifferentiationError, ShapeError
from hesse.frontends import special

X = np.array([[-2.5, -0.3, 0.0], [0.2, 1.1, 3.0]])
POSITIVE = np.array([[0.3, 1.0, 2.5], [4.0, 0.7, 1.9]])


def selu(x: np.ndarray) -> np.ndarray:
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def layer_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


CASES: list[tuple[str, Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = [
    ("erf", special.erf, scipy.special.erf, (X,)),
    ("erfc", special.erfc, scipy.special.erfc, (X,)),
    ("lgamma", special.lgamma, scipy.special.gammaln, (POSITIVE,)),
    ("digamma", special.digamma, scipy.special.digamma, (POSITIVE,)),
    ("polygamma", lambda x: special.polygamma(2, x), lambda x: scipy.special.polygamma(2, x), (POSITIVE,)),
    ("xlogy", special.xlogy, scipy.special.xlogy, (X, POSITIVE)),
    ("sigmoid", special.sigmoid, scipy.special.expit, (X,)),
    ("softplus", special.softplus, lambda x: np.log1p(np.exp(x)), (X,)),
    ("relu", special.relu, lambda x: np.maximum(x, 0.0), (X,)),
    ("leaky_relu", special.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x), (X,)),
    (
        "leaky_relu slope",
        lambda x: special.leaky_relu(x, slope=0.2),
        lambda x: np.where(x > 0, x, 0.2 * x),
        (X,),
    ),
    ("elu", special.elu, lambda x: np.where(x > 0, x, np.expm1(x)), (X,)),
    ("elu alpha", lambda x: special.elu(x, 2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x)), (X,)),
    ("selu", special.selu, selu, (X,)),
    ("celu", lambda x: special.celu(x, 2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), (X,)),
    ("gelu", special.gelu, lambda x: x * (1 + scipy.special.erf(x / np.sqrt(2))) / 2, (X,)),
    ("gelu approximate", lambda x: special.gelu(x, approximate=True), gelu_tanh, (X,)),
    ("silu", special.silu, lambda x: x * scipy.special.expit(x), (X,)),
    ("softsign", special.softsign, lambda x: x / (1 + np.abs(x)), (X,)),
    ("hard_tanh", special.hard_tanh, lambda x: np.clip(x, -1, 1), (X,)),
    ("stop_gradient", special.stop_gradient, lambda x: x, (X,)),
    ("logsumexp", special.logsumexp, scipy.special.logsumexp, (X,)),
    ("logsumexp axis", lambda x: special.logsumexp(x, 0), lambda x: scipy.special.logsumexp(x, axis=0), (X,)),
    (
        "logsumexp keepdims",
        lambda x: special.logsumexp(x, axis=(0, 1), keepdims=True),
        lambda x: scipy.special.logsumexp(x, axis=(0, 1), keepdims=True),
        (X,),
    ),
    ("softmax", special.softmax, lambda x: scipy.special.softmax(x, axis=-1), (X,)),
    ("softmax axis", lambda x: special.softmax(x, axis=0), lambda x: scipy.special.softmax(x, axis=0), (X,)),
    ("log_softmax", special.log_softmax, lambda x: scipy.special.log_softmax(x, axis=-1), (X,)),
    ("layer_norm", special.layer_norm, layer_norm, (X,)),
    ("expm", special.expm, scipy.linalg.expm, (X.T @ X / 9,)),
    ("logdet", special.logdet, lambda a: np.linalg.slogdet(a)[1], (np.eye(3) + X.T @ X,)),
    ("unfold", lambda x: special.unfold(x, 2), lambda x: np.stack([x[:, :2], x[:, 1:]], axis=1), (X,)),
    ("unfold step", lambda x: special.unfold(x, 1, axis=0, step=2), lambda x: x[:1, :, None], (X,)),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_values_on_arrays(case: tuple[str, Callable[..., Any], Callable[..., Any], tuple[Any, ...]]) -> None:
    _, function, reference, arguments = case
    np.testing.assert_allclose(function(*arguments), reference(*arguments), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_values_on_expressions(
    case: tuple[str, Callable[..., Any], Callable[..., Any], tuple[Any, ...]],
) -> None:
    name, function, _, arguments = case
    check(Case(name, function, arguments))


def test_numbers_in_numbers_out() -> None:
    assert special.sigmoid(0.0) == 0.5
    assert isinstance(special.sigmoid(0.0), float)
    assert special.relu([-1, 2]).tolist() == [0.0, 2.0]
    assert special.sigmoid(np.float32([1.0])).dtype == np.float32


def test_large_margins_are_stable() -> None:
    x = np.array([-1000.0, 1000.0])
    assert special.softplus(x).tolist() == [0.0, 1000.0]
    assert special.logsumexp(x) == 1000.0
    assert special.sigmoid(x).tolist() == [0.0, 1.0]


def test_mixed_arguments() -> None:
    x = traced(X, "x")
    result = special.xlogy(2.0, x**2)
    np.testing.assert_allclose(compiled_value(result, {"x": X}), scipy.special.xlogy(2.0, X**2))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: special.softmax(x, axis=5), ShapeError, "softmax: axis 5 is out of range for 2 axes"),
        (lambda x: special.softmax(x[0, 0]), ShapeError, "softmax: axis -1 is out of range for 0 axes"),
        (lambda x: special.logsumexp(x[:, :0], axis=1), ShapeError, "must not be empty"),
        (special.expm, ShapeError, "square"),
        (lambda x: special.unfold(x, 9), ShapeError, "window 9"),
    ],
)
def test_errors(function: Callable[..., Any], error: type[Exception], message: str) -> None:
    for value in (X, traced(X, "x")):
        with pytest.raises(error, match=message):
            function(value)


def test_complex_and_text_are_refused() -> None:
    with pytest.raises(DifferentiationError, match="argument x is complex"):
        special.sigmoid(1j)
    with pytest.raises(ArgumentError, match="argument x is a str, not an array"):
        special.sigmoid("a")
