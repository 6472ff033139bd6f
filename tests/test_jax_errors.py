"""What cannot be traced in JAX functions: errors with the name, the line and a way out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.experimental import io_callback
from jax.experimental.ode import odeint

import hesse
from hesse.errors import ArgumentError, DifferentiationError, HesseError, TracingError
from hesse.frontends.jaxpr import internals
from hesse.frontends.jaxpr.table import HANDLERS, KNOWN, enter
from hesse.frontends.jaxpr.walk import COMPLEX, DRAWN, NEEDED, OTHER, WALKED, walked

X = jnp.array([0.3, -0.7, 1.2])
STRUCT = jax.ShapeDtypeStruct((3,), X.dtype)
stored: list[Any] = []


def keeps(x: Any) -> Any:
    stored.append(x)
    return jnp.sum(x**2)


def of_a_closure(x: Any) -> Any:
    shift = jnp.sin(x)

    @jax.custom_jvp
    def inner(y: Any) -> Any:
        return y * shift

    inner.defjvp(lambda primals, tangents: (inner(*primals), shift * tangents[0]))
    return jnp.sum(inner(x))


REFUSED: dict[str, tuple[Callable[[Any], Any], type[HesseError], str]] = {
    "if": (lambda x: x[0] if x[1] > 0 else x[2], TracingError, "truth value.*jnp.where"),
    "while": (lambda x: [x for _ in iter(lambda: bool(x[0] > 0), True)], TracingError, "truth value"),
    "float": (lambda x: float(x[0]) * x, TracingError, r"float\(\).*jax.numpy"),
    "range": (lambda x: [x for _ in range(jnp.argmax(x))], TracingError, "Python integer.*fori_loop"),
    "mask as an index": (lambda x: x[x > 0], TracingError, "index of truth values.*jnp.where"),
    "function of numpy": (lambda x: jnp.sum(np.sin(x)), TracingError, "one of NumPy.*functions of jax.numpy"),
    "callback": (lambda x: jax.pure_callback(np.sin, STRUCT, x), TracingError, "pure_callback, which calls"),
    "effect": (
        lambda x: (io_callback(print, None, x), x)[1],
        TracingError,
        "io_callback, which calls Python.*custom_derivative",
    ),
    "complex numbers": (jnp.fft.fft, TracingError, r"is complex; return real numbers: z\.real"),
    "entries multiplied by complex numbers": (
        lambda x: jnp.abs(jnp.fft.fft(x).at[1].multiply(x[0] + 1j)),
        TracingError,
        "complex result of scatter-mul.*imaginary parts",
    ),
    "complex order": (
        lambda x: jnp.real(jnp.sort(jnp.fft.fft(x))),
        TracingError,
        "complex result of sort.*imaginary parts",
    ),
    "no derivative": (lambda x: jnp.nextafter(x, x + 1), DifferentiationError, "nextafter has no rule"),
    "apply": (lambda x: x.at[1].apply(jnp.sin), TracingError, r"at\[i\].apply.*at\[i\].set"),
    "complex matrix": (
        lambda x: jnp.linalg.eigvals(jnp.outer(x, x)).real,
        TracingError,
        "complex result of eig",
    ),
    "rule around": (of_a_closure, TracingError, "reads a traced value.*as an argument of the function"),
    "positions of unknown number": (
        lambda x: x[jnp.nonzero(x > 0)],
        TracingError,
        r"size argument of jnp.nonzero.*test_jax_errors.*size=",
    ),
    "values of unknown number": (jnp.unique, TracingError, r"jnp.unique.*size="),
    "copies of unknown number": (
        lambda x: jnp.repeat(x, jnp.argsort(x)),
        TracingError,
        r"jnp.repeat.*total_repeat_length=",
    ),
    "slice": (lambda x: x[: jnp.argmax(x)], TracingError, r"slice with traced bounds.*dynamic_slice"),
    "size": (lambda x: jnp.ones(jnp.argmax(x)) * x[0], TracingError, r"a traced size.*jnp.where"),
    "callback in a loop": (
        lambda x: jax.lax.fori_loop(0, 99, lambda _, y: jax.pure_callback(np.sin, STRUCT, y), x),
        DifferentiationError,
        "pure_callback, which calls Python.*inside of scan.*test_jax_errors.*custom_derivative",
    ),
    "callback in a branch": (
        lambda x: jax.lax.cond(x[0] > 0, lambda y: jax.pure_callback(np.sin, STRUCT, y), jnp.log, x),
        DifferentiationError,
        "pure_callback, which calls Python.*inside of cond",
    ),
    "rule of JAX that keeps a value": (
        lambda x: jax.grad(lambda y: jnp.sum(jax.scipy.special.exp1(y)))(x**2),
        DifferentiationError,
        "JAX's own rule for a derivative.*test_jax_errors.*JAX differentiates the function no further",
    ),
    "no result": (lambda x: None, TracingError, "returned None"),
    "text": (lambda x: "text", TracingError, "is a str, which cannot be differentiated"),
}


@pytest.mark.filterwarnings("ignore:hesse has no rule for")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, kind, message = REFUSED[name]
    for _ in range(2):  # nothing is left behind by the first call
        with pytest.raises(kind, match=f"(?s){message}"):
            hesse.jacobian(function)(X)


LOCATED = ["apply", "if", "float", "callback", "complex order", "function of numpy", "rule around"]


@pytest.mark.parametrize("name", LOCATED)
def test_locations(name: str) -> None:
    """The line is that of the user's function, not of what calls it."""
    with pytest.raises(HesseError) as caught:
        hesse.jacobian(REFUSED[name][0])(X)
    line = int(str(caught.value).split(f"{__file__}:")[1].split(")")[0].split(":")[0].split(" ")[0])
    code = REFUSED[name][0].__code__
    lines = {number for _, _, number in code.co_lines() if number is not None}
    assert line in lines


def test_arguments() -> None:
    with pytest.raises(DifferentiationError, match=r"cannot differentiate by x: its dtype is int"):
        hesse.grad(lambda x: jnp.sum(x**2))(jnp.arange(3))
    with pytest.raises(DifferentiationError, match="argument x is complex"):
        hesse.grad(lambda x: jnp.sum(jnp.real(x)))(X * 1j)
    with pytest.raises(ArgumentError, match="arrays of PyTorch and of JAX are mixed"):
        hesse.grad(lambda x, y: jnp.sum(x) * y)(X, torch.ones(2))


def test_primitives_without_a_rule() -> None:
    """They are JAX's own: the warning names them, and no derivative passes through whole numbers anyway."""
    with pytest.warns(UserWarning, match="hesse has no rule for svd; it is computed and differentiated"):
        hesse.grad(lambda x: jnp.linalg.svd(jnp.outer(x, x) + jnp.eye(3), compute_uv=False)[0])(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        counts = jax.lax.population_count(jnp.arange(3))
        found = hesse.grad(lambda x, i: jnp.sum(jax.lax.population_count(i) * x))(X, jnp.arange(3))
    np.testing.assert_array_equal(found, counts)


def test_values_that_escaped() -> None:
    hesse.grad(keeps)(X)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        stored[-1] + 1
    with pytest.raises((TracingError, jax.errors.UnexpectedTracerError), match=r"stor|side effect"):
        hesse.grad(lambda x: jnp.sum(stored[0] * x))(X)


def test_names_that_are_taken() -> None:
    with pytest.raises(ValueError, match="exp has two handlers"):
        enter(["exp"], np.exp)
    with pytest.raises(ValueError, match="scan has two handlers"):
        walked("scan")(WALKED["scan"])


def test_names_of_primitives() -> None:
    """Every name in the tables is one that JAX has: a primitive that is renamed is found here."""
    from jax._src.interpreters import mlir  # noqa: PLC0415  there is no public list of primitives

    tables = [mlir._lowerings, *mlir._platform_specific_lowerings.values()]
    known = {primitive.name for table in tables for primitive in table} | {COMPLEX, DRAWN, NEEDED, OTHER}
    assert set(HANDLERS) | set(KNOWN) | set(WALKED) <= known | internals.OF_SOME_VERSIONS


def test_primitives_of_later_versions() -> None:
    slope = hesse.grad(lambda x: np.sum(HANDLERS["one_minus_square"](x)))
    np.testing.assert_allclose(slope(np.array([1.0, 2.0])), [-2.0, -4.0])
    parts = tuple(SimpleNamespace(vals=(None,) * count) for count in (2, 1, 3))
    later = SimpleNamespace(params={"ft_in": SimpleNamespace(unpack=lambda: parts)})
    assert internals.loop_operands(later) == (2, 1)  # type: ignore[arg-type]


def test_internals() -> None:
    """The fields of equations on which the walk relies."""
    jaxpr = jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, t: (c * t, c), x[0], x)[0] + jax.nn.relu(x))(X)
    by_name = {equation.primitive.name: equation for equation in jaxpr.eqns}
    assert internals.equation_count(jaxpr) > internals.equation_count(by_name["scan"].params["jaxpr"]) == 1
    assert internals.function_name(by_name["custom_jvp_call"]) == "relu"
    assert internals.computed(by_name["add"], [1.0, X]) == [pytest.approx(1.0 + X)]
    assert __file__ in internals.location(by_name["scan"])
    assert not internals.has_effects(by_name["scan"])
    assert internals.abstract(by_name["add"].outvars[0]) == STRUCT
    held = jax.make_jaxpr(jax.jit(lambda y: y + X))(X)
    assert [value is X for value in internals.constants(held.eqns[0])] == [True]
    system = jax.make_jaxpr(jnp.linalg.solve)(jnp.outer(X, X), X).eqns[0].params["jaxpr"].eqns[-1]
    matvec, fixed, right = internals.linear_system(system, range(7))
    assert (len(matvec.eqns), fixed, right) == (1, [0], [6])
    assert internals.without_derivative(system) == range(1, 6)
    assert internals.without_derivative(by_name["scan"]) == range(0)


def test_traced_arrays_beside_arguments_of_another_library() -> None:
    """A function that closes over a traced array is computed by JAX, or refused: it is no constant."""
    points = np.linspace(0.0, 1.0, 3)

    def loss(w):
        return jnp.sum(hesse.grad(lambda x: np.sum(np.sin(w * x)))(points))

    np.testing.assert_allclose(
        jax.grad(loss)(2.0), np.sum(np.cos(2 * points) - 2 * points * np.sin(2 * points))
    )

    def of_tensors(w):
        return hesse.grad(lambda x: np.sum(np.sin(w * x)))(torch.tensor(points))

    with pytest.raises(hesse.ArgumentError, match="which JAX traces"):
        jax.jit(of_tensors)(2.0)


def test_short_integers_begin_again() -> None:
    """Unsigned integers of JAX are never negative."""
    x = jnp.arange(300.0)

    def f(x, i):
        return jnp.sum(x[100 * i + 20 * i] * x[i - 3])

    index = jnp.array([1, 2, 0], "uint8")
    np.testing.assert_array_equal(hesse.grad(f)(x, index), jax.grad(f)(x, index))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_differences_that_begin_again_are_cast(dtype: str) -> None:
    """What has begun again in 32 bits does so once more, or becomes negative, in a shorter or signed type."""
    x, given = jnp.arange(3.0), jnp.array([2, 1, 300], "uint32")

    def f(x, given):
        return jnp.sum(x * (jnp.argsort(x).astype("uint32") - given).astype(dtype))

    np.testing.assert_array_equal(hesse.grad(f)(x, given), jax.grad(f)(x, given))


def test_errors_of_jax_without_a_text_are_named() -> None:
    @jax.custom_jvp
    def stubborn(x: Any) -> Any:
        return jnp.sin(x)

    @stubborn.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        raise AssertionError

    with pytest.raises(DifferentiationError, match=r"stubborn has no rule.*own fails: AssertionError"):
        hesse.grad(lambda x: jnp.sum(stubborn(x)))(X)


def test_rules_of_jax_that_fail_are_named() -> None:
    def pendulum(x: Any) -> Any:
        times = jnp.array([0.0, 0.5])
        return jnp.sum(odeint(lambda y, t, a: jnp.stack([y[1], -a * jnp.sin(y[0])]), x[:2], times, x[2])[-1])

    point = jnp.array([0.3, 0.2, 1.1])
    np.testing.assert_allclose(hesse.grad(pendulum)(point), jax.grad(pendulum)(point), rtol=1e-4)
    with pytest.raises(
        DifferentiationError, match="_odeint has no rule in hesse, and JAX's own fails: Detected"
    ):
        hesse.hessian(pendulum)(point)
