"""NumPy's element-wise functions on expressions, against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.special

from frontend_cases import Case, cases, check, traced
from hesse.errors import ShapeError, TracingError
from hesse.frontends.ufuncs import FACTORS, LOGICAL, elementwise
from hesse.ops.registry import ELEMENTWISE


def functions(names: str) -> list[np.ufunc]:
    return [getattr(np, name) for name in names.split()]


ONE_OPERAND = functions(
    "absolute fabs sign exp exp2 expm1 log log2 log10 log1p sqrt cbrt reciprocal square sin cos tan arcsin"
    " arccos arctan sinh cosh tanh arcsinh arccosh arctanh floor ceil trunc fix rint"
)
TWO_OPERANDS = functions("power float_power arctan2 hypot maximum minimum logaddexp")
COMPARISONS = functions("greater greater_equal less less_equal equal not_equal")
POSITIVE = {np.log, np.log2, np.log10, np.log1p, np.sqrt, np.power, np.float_power, np.arccosh}
UNIT = {np.arcsin, np.arccos, np.arctanh}
SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((), (2, 2)),
    ((), ()),
    ((0, 2), (2,)),
    ((1, 1), (3, 1, 2)),
]


def sample(function: object, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers inside the domain of a function."""
    numbers = np.random.default_rng(seed).uniform(0.1, 0.9, shape)
    if function in POSITIVE:
        return numbers + (1.0 if function is np.arccosh else 0.0)
    return numbers if function in UNIT else 4.0 * numbers - 2.0


@pytest.mark.parametrize(
    "function", [*ONE_OPERAND, *FACTORS, np.positive, np.conjugate], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 2), (1,)], ids=str)
def test_one_operand(function: np.ufunc, shape: tuple[int, ...]) -> None:
    check(Case(function.__name__, function, (sample(function, shape, 0),)))


@pytest.mark.parametrize(
    "function", [*TWO_OPERANDS, np.add, np.subtract, np.multiply, np.divide], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_two_operands_broadcast(function: np.ufunc, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    arguments = tuple(sample(function, shape, seed) for seed, shape in enumerate(shapes))
    check(Case(function.__name__, function, arguments))


@pytest.mark.parametrize("function", [*COMPARISONS, *LOGICAL, np.logical_xor], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shapes", SHAPES[:4], ids=str)
def test_truth_values(function: np.ufunc, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    arguments = tuple(
        np.random.default_rng(seed).integers(0, 2, shape).astype(float) for seed, shape in enumerate(shapes)
    )
    check(Case(function.__name__, function, arguments))


def in_place(x: object) -> object:
    x += 1  # type: ignore[operator]
    x *= x
    x /= 2.0
    x -= 3.0
    x **= 2
    return x


@cases(
    ("add", lambda x, y: x + y, (2, 3), (3,)),
    ("add a number", lambda x: x + 2, (2, 3)),
    ("number first", lambda x: 2.0 - x, (2, 3)),
    ("array first", lambda x: np.arange(3) - x, (2, 3)),
    ("NumPy number first", lambda x: np.float64(3.0) / x, (2, 3)),
    ("integer array first", lambda x: np.array([[1], [2]]) * x, (3,)),
    ("list", lambda x: x * [1, 2, 3], (2, 3)),
    ("divide by a number", lambda x: x / 3, (2, 3)),
    ("divide into a number", lambda x: 1 / x, (3,)),
    ("square", lambda x: x**2, (2, 3)),
    ("cube", lambda x: x**3, (3,)),
    ("high power", lambda x: x**7, (3,)),
    ("negative power", lambda x: x**-2, (3,)),
    ("power of zero", lambda x: x**0, (3,)),
    ("array exponent", lambda x: np.abs(x) ** np.array([1, 2, 0.5]), (2, 3)),
    ("base", lambda x: 2.0**x, (3,)),
    ("minus", lambda x: -x, (3,)),
    ("plus", lambda x: +x, (3,)),
    ("absolute", abs, (3,)),
    ("in place", in_place, (3,)),
    ("round", lambda x: round(x[0]), (3,)),
    ("round to decimals", lambda x: np.round(x, 1), (3,)),
    ("round to tens", lambda x: np.round(100 * x, -1), (3,)),
    ("method round", lambda x: x.round(2), (3,)),
    ("sum of a list", lambda x: sum([x, x, x]), (3,)),
    ("masked", lambda x: (x > 0) * x, (2, 3)),
    ("count", lambda x: np.sum(x > 0), (2, 3)),
    ("and", lambda x: (x > 0) & (x < 1), (9,)),
    ("or", lambda x: (x > 1) | (x < -1), (9,)),
    ("xor", lambda x: (x > -1) ^ (x < 1), (9,)),
    ("not", lambda x: ~(x > 0), (9,)),
    ("and with a constant", lambda x: (x > 0) & np.array([True, False, True]), (3,)),
    ("sum of conditions", lambda x: (x > 0) + (x > -1), (9,)),
    ("product of conditions", lambda x: (x > 0) * (x < 1), (9,)),
    ("quotient of conditions", lambda x: (x > 0) / (x < 9), (9,)),
    ("equal to the other side", lambda x, y: x == y, np.array([1.0, 2.0]), np.array([1.0, 3.0])),
    ("different", lambda x: x != 1.0, np.array([1.0, 2.0])),
    ("number below", lambda x: x > 0, (5,)),
    ("array above", lambda x: np.zeros(5) > x, (5,)),
    ("where", lambda x, y: np.where(x > 0, x, y), (2, 3), (3,)),
    ("where with numbers", lambda x: np.where(x > 0, 1.0, x), (5,)),
    ("where with a known mask", lambda x: np.where([True, False, True], x, 0.0), (2, 3)),
    ("where with numbers as condition", lambda x: np.where(x, x, 1.0), np.array([0.0, 2.0])),
    ("where of conditions", lambda x: np.where(x > 0, x > 1, x < -1), (9,)),
    ("select", lambda x: np.select([x > 1, x > 0], [x, x**2], -x), (9,)),
    ("heaviside", lambda x: np.heaviside(x, 0.5), np.array([-1.0, 0.0, 2.0])),
    ("clip", lambda x: np.clip(x, -0.5, 0.5), (5,)),
    ("clip below", lambda x: np.clip(x, 0.0, None), (5,)),
    ("clip above", lambda x: x.clip(max=0.0), (5,)),
    ("clip by keywords", lambda x: np.clip(x, min=-1.0, max=1.0), (5,)),
    ("clip by arrays", lambda x, y: np.clip(x, y, 1.0), (2, 3), (3,)),
    ("zeros_like", lambda x: x + np.zeros_like(x), (2, 3)),
    ("ones_like", lambda x: x * np.ones_like(x), (2, 3)),
    ("full_like", lambda x: x + np.full_like(x, 3.0), (2, 3)),
    ("full_like traced", np.full_like, (2, 3), ()),
    ("ones_like of a shape", lambda x: x[0] * np.ones_like(x, shape=(2, 2)), (3,)),
    ("copy", lambda x: np.copy(x) + x.copy(), (2, 3)),
    ("real and imaginary", lambda x: np.real(x) + np.imag(x) + x.real + x.imag + x.conj(), (3,)),
    ("astype", lambda x: x.astype(np.float64) + x.astype("float32").astype(float), np.array([1.0, 2.0])),
    ("astype of conditions", lambda x: (x > 0).astype(int) * x + (x > 1).astype(float), (9,)),
    ("astype to conditions", lambda x: [x.astype(bool), (x > 0).astype(bool)], np.array([0.0, 2.0])),
    ("dtype of a ufunc", lambda x: np.exp(x, dtype=float), (3,)),
    ("outer of a ufunc", np.subtract.outer, (2, 3), (4,)),
    ("outer with an array", lambda x: np.multiply.outer(np.arange(2.0), x), (3,)),
    ("reduce", np.add.reduce, (2, 3)),
    ("reduce by maximum", lambda x: np.maximum.reduce(x, axis=1), (2, 3)),
    ("reduce all", lambda x: np.multiply.reduce(x, axis=None), (2, 3)),
    ("accumulate", lambda x: np.add.accumulate(x, axis=1), (2, 3)),
    ("integer input", lambda n: n * 2.0 + n**2, np.array([1, 2, 3])),
    ("boolean input", lambda m, x: np.where(m, x, -x) + m * x, np.array([True, False]), (2,)),
    ("infinite constant", lambda x: np.minimum(x, np.inf), (3,)),
    ("nan constant", lambda x: x + np.array([1.0, np.nan, 2.0]), (3,)),
    ("times infinity", lambda x: x * np.inf, (3,)),
    ("divided by zero", lambda x: x / 0.0, (3,)),
)  # fmt: skip
def test_operators(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("name", ["erf", "erfc", "gammaln", "loggamma", "psi", "digamma", "expit"])
def test_scipy_functions_of_one_operand(name: str) -> None:
    check(Case(name, getattr(scipy.special, name), (np.array([0.3, 1.7]),)))


def test_scipy_xlogy() -> None:
    check(Case("xlogy", scipy.special.xlogy, (np.array([0.0, 2.0]), np.array([0.0, 3.0]))))


def test_unknown_scipy_function() -> None:
    with pytest.raises(
        TracingError, match=r"scipy\.special\.ellipkm1, for which hesse has no rule.*custom_derivative"
    ):
        scipy.special.ellipkm1(traced(np.ones(3), "x"))


@pytest.mark.parametrize("operation", [lambda x, y: x + y, np.maximum, lambda x, y: x > y])
def test_shapes_that_do_not_broadcast(operation: object) -> None:
    x, y = traced(np.ones((2, 3)), "x"), traced(np.ones(4), "y")
    with pytest.raises(ShapeError, match=r"the shapes \(2, 3\) and \(4,\) do not broadcast together"):
        operation(x, y)  # type: ignore[operator]


def test_a_row_that_was_entered_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions are looked up in the table when they are called."""
    monkeypatch.setitem(ELEMENTWISE, "later", replace(ELEMENTWISE["tanh"], name="later"))
    found = elementwise("later", traced(np.ones(3), "x")).node
    assert (found.name, found.shape) == ("later", (3,))


def test_rows_entered_later_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ufunc, of NumPy or of another library, finds the row of its name whenever that was entered."""
    x = traced(np.ones(3), "x")
    with pytest.raises(TracingError, match="spacing"):
        np.spacing(x)
    for function in (np.spacing, scipy.special.ellipkm1):
        monkeypatch.setitem(
            ELEMENTWISE, function.__name__, replace(ELEMENTWISE["exp"], name=function.__name__)
        )
        assert function(x).node.name == function.__name__
        assert elementwise(function.__name__, x).node is function(x).node
