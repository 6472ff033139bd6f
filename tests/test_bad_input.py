"""Bad input: every error says what was asked, what was found and what to do, and each message is matched.

What cannot be traced is tested in full in `test_frontend_errors`; here the same constructs go through the
public functions, the way a user meets them.
"""

# ruff: noqa: PLW0108 -- a lambda is the call that a user makes

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import hesse
import hesse.errors
from hesse.backends.optional import optional
from hesse.errors import (
    ArgumentError,
    ConvergenceError,
    DifferentiationError,
    HesseError,
    MemoryLimitError,
    MissingKernelError,
    MissingPackageError,
    NotationError,
    NotComputedError,
    ShapeError,
    TracingError,
    VerificationError,
)

X = np.array([1.0, 2.0, 3.0])
A = np.arange(9.0).reshape(3, 3)
n_vector, m_vector = hesse.variable("x", ("n",)), hesse.variable("y", ("m",))
n_matrix = hesse.variable("M", ("n", "n"))
three, four = hesse.variable("c", (3,)), hesse.variable("d", (4,))


def square(x: Any) -> Any:
    return np.sum(x**2)


def form(x: Any, A: Any) -> Any:
    return x @ A @ x


def returns_nothing(x: Any) -> None:
    np.sum(x)


def returns_two(x: Any) -> Any:
    return x, x


class Layer(NamedTuple):
    """A container with a leaf that is no array."""

    name: str
    weights: Any


class Thing:
    """Not an array."""


Mistakes = dict[str, Callable[[], Any]]
"""What the message must contain, and the call that raises it."""


def of_x(function: Callable[[Any], Any]) -> Callable[[], Any]:
    """The gradient at a vector of three entries."""
    return lambda: hesse.grad(function)(X)


def gradient(*arguments: Any, **options: Any) -> Callable[[], Any]:
    """The gradient of a quadratic form, called like this."""
    return lambda: hesse.grad(form, **options)(*arguments)


def at(value: Any) -> Callable[[], Any]:
    """The gradient of a sum of squares at a value."""
    return lambda: hesse.grad(square)(value)


SIZES: Mistakes = {
    "matmul: the shapes (3,) and (4, 4) do not fit together": gradient(X, np.ones((4, 4))),
    "add: the shapes (3,) and (4,) do not broadcast together": of_x(lambda x: np.sum(x + np.ones(4))),
    "dot: the shapes (3,) and (4,) do not fit": of_x(lambda x: np.dot(x, np.ones(4))),
    "solve: the shapes (4, 4) and (3,) do not fit": of_x(lambda x: np.sum(np.linalg.solve(np.eye(4), x))),
    "inv needs square matrices, not the shape (2, 3)": of_x(lambda x: np.linalg.inv(A[:2] * x)[0, 0]),
    "cannot reshape (3,) (3 entries) to (2, 2)": of_x(lambda x: np.sum(x.reshape(2, 2))),
    "stack: the shapes (3,) and (2,) are not equal": of_x(lambda x: np.sum(np.stack([x, x[:2]]))),
    "concatenate: the shapes (3, 2) and (1, 3) differ in more than axis 0": of_x(
        lambda x: np.sum(np.concatenate([A[:, :2], x[None]]))
    ),
    "index 5 is out of range for axis 0 of size 3": of_x(lambda x: x[5]),
    "index -4 is out of range for axis 0 of size 3": of_x(lambda x: x[-4]),
    "2 indices were given for a tensor of shape (3,)": of_x(lambda x: x[0, 0]),
    "a mask of size 2 does not fit axis 0 of size 3": of_x(lambda x: np.sum(x[np.array([True, False])])),
    "matmul: the shapes (4,) and (3, 3) do not fit together": lambda: hesse.grad(form).bind(A=A)(np.ones(4)),
    # symbolic sizes
    "add: the shapes ('n',) and ('m',) do not broadcast together": lambda: n_vector + m_vector,
    "add: the shapes ('n',) and (3,) do not broadcast together": lambda: n_vector + three,
    "matmul: the shapes ('n', 'n') and ('m',) do not fit together": lambda: n_matrix @ m_vector,
    "the size n has no value; bind it to a number first": lambda: np.concatenate([n_vector, n_vector]),
    "cannot reshape ('n',) to (3, 1): the sizes differ or are not known": lambda: np.reshape(
        n_vector, (3, 1)
    ),
    "x has 2 axes, but was declared with shape ('n',)": lambda: n_vector.evaluate(x=A),
    "x has size 4 where n = 3 already": lambda: (n_matrix @ n_vector).evaluate(M=A, x=np.ones(4)),
    "c has shape (4,), but was declared with shape (3,)": lambda: (2 * three).evaluate(c=np.ones(4)),
    "a size must be a number or a name, not -1": lambda: hesse.variable("a", (-1,)),
    "a size must be a number or a name, not 1.5": lambda: hesse.variable("a", (1.5,)),
    "a size must be a number or a name, not 'n m'": lambda: hesse.variable("a", ("n m",)),
    "a size must be a number or a name, not True": lambda: hesse.variable("a", (True,)),
    "a shape is a tuple of sizes, not None": lambda: hesse.variable("a", None),
    "a symmetric variable must be a square matrix, not of shape ('n', 'm')": lambda: hesse.variable(
        "a", ("n", "m"), symmetric=True
    ),
    # einsum
    "einsum 'i,i->': the label i has the sizes 3 and 4": lambda: hesse.einsum("i,i->", three, four),
    "einsum 'ij->': 'ij' does not fit an operand of shape (3,)": lambda: hesse.einsum("ij->", three),
    "einsum 'ik->': 'ik' does not fit an operand of shape (3,)": of_x(lambda x: np.einsum("ik->", x)),
    "einsum 'k,k->': the label k has the sizes 3 and 4": of_x(lambda x: np.einsum("k,k->", x, np.ones(4))),
    # axes
    "sum: axis 1 is out of range for 1 axes": of_x(lambda x: np.sum(x, axis=1)),
    "sum: axis -2 is out of range for 1 axes": of_x(lambda x: np.sum(x, axis=-2)),
    "sum: the axes (0, 0) name one axis twice": of_x(lambda x: np.sum(x, axis=(0, 0))),
    "sum: an axis is an integer, not 0.5": of_x(lambda x: np.sum(x, axis=0.5)),
    "concatenate: axis 1 is out of range for 1 axes": of_x(lambda x: np.sum(np.concatenate([x, x], axis=1))),
    "transpose: the axes (0, 0) name one axis twice": of_x(lambda x: np.sum(np.transpose(A * x, (0, 0)))),
    "swapaxes: axis 2 is out of range for 2 axes": of_x(lambda x: np.sum(np.swapaxes(A * x, 0, 2))),
    "squeeze: axis 0 of the shape (3,) does not have size 1": of_x(lambda x: np.sum(np.squeeze(x, 0))),
}

NOTATION: Mistakes = {
    "einsum 'i,j->' names 2 operands, but 1 were given": lambda: hesse.einsum("i,j->", three),
    "einsum 'i->i' names 1 operands, but 0 were given": lambda: hesse.einsum("i->i"),
    "einsum 'i->j': the output label j is in no operand": lambda: hesse.einsum("i->j", three),
    "einsum 'i1->i': 'i1' is not made of letters and one '...'": lambda: hesse.einsum("i1->i", three),
    "einsum 'i->i->i': 'i->i' is not made of letters and one '...'": lambda: hesse.einsum("i->i->i", three),
    "einsum 'i.j->i': 'i.j' is not made of letters and one '...'": lambda: hesse.einsum("i.j->i", n_matrix),
    "einsum starts with its notation, such as 'ij,jk->ik', not with 3": lambda: hesse.einsum(3, three),
}

ORDERS: Mistakes = {
    f"order must be an integer of at least 1, not {order!r}": lambda order=order: hesse.derivative(
        square, order=order
    )
    for order in (0, -1, True, False, 1.0, 1.5, "2", None, [1])
} | {
    "order must be an integer of at least 1, not -2": lambda: hesse.check(square, X, order=-2),
}

ARGNUMS: Mistakes = {
    message: gradient(X, A, argnums=argnums)
    for argnums, message in [
        (2, "argnums 2 is out of range: the function was called with 2 arguments (x, A)"),
        (-3, "argnums -3 is out of range: the function was called with 2 arguments (x, A)"),
        ((0, 5), "argnums 5 is out of range: the function was called with 2 arguments (x, A)"),
        ((0, 0), "argnums (0, 0) names an argument twice"),
        ((0, -2), "argnums (0, -2) names an argument twice"),
        ((), "argnums is empty: name at least one argument to differentiate by"),
        (0.0, "argnums must be an int or a tuple of ints, not 0.0"),
        ("x", "argnums must be an int or a tuple of ints, not 'x'"),
        (None, "argnums must be an int or a tuple of ints, not None"),
        (True, "argnums must be an int or a tuple of ints, not True"),
        ((0, "A"), "argnums must be an int or a tuple of ints, not (0, 'A')"),
        (
            np.ones(1),
            "argnums must be an int or a tuple of ints, not array([1.]); "
            "the arguments of f are given to what this returns, as in hesse.grad(f)(x)",
        ),
    ]
} | {
    "argnums must be one int here, not (0, 1)": lambda: hesse.diagonal(form, argnums=(0, 1)),
    "argnums must be one int here, not True": lambda: hesse.laplacian(form, argnums=True),
    "argnums must be one int here, not 'x'": lambda: hesse.diagonal(form, argnums="x"),
    "argnums must be an int or a tuple of ints, not '0'": lambda: hesse.jvp(form, argnums="0")(X, A, X),
    "check takes one argument to differentiate by at a time, not (0, 1)": lambda: hesse.check(
        form, X, A, argnums=(0, 1)
    ),
}

CLOSE_OVER = "not an array; close over it (lambda x: f(x, option)) instead of passing it"
ARGUMENTS: Mistakes = {
    f"argument x is a {type(value).__name__}, {CLOSE_OVER}": at(value)
    for value in ("abc", Thing(), {1.0}, square)
} | {
    "argument x has dtype <U1; expected an array of numbers": at(np.array(["a"])),
    f"argument x[0] is a str, {CLOSE_OVER}": at(["a"]),
    f'argument x["layers"][1].name is a str, {CLOSE_OVER}': at({"layers": [X, Layer("first", X)]}),
    "argument x is not an array of numbers: setting an array element": at([[1.0], [1.0, 2.0]]),
    "argument x has dtype object; expected an array of numbers": at(np.array([None, 1.0])),
    "argument x has dtype datetime64[D]; expected an array of numbers": at(
        np.array(["2020-01-01"], "datetime64[D]")
    ),
    f"argument A is a set, {CLOSE_OVER}": gradient(X, {1.0}),
    f'argument A["a"] is a bytearray, {CLOSE_OVER}': lambda: hesse.grad(form).bind(A={"a": bytearray()})(X),
    f"argument v is a str, {CLOSE_OVER}": lambda: hesse.hvp(square)(X, "v"),
    "cannot be called like this: missing a required argument: 'A'": gradient(X),
    "cannot be called like this: missing a required argument: 'x'": lambda: hesse.grad(square).explain(),
    "cannot be called like this: too many positional arguments": gradient(X, A, X),
    "cannot be called like this: got an unexpected keyword argument 'z'": lambda: hesse.grad(square)(X, z=X),
    "derivative of form has no argument B; it has x, A": lambda: hesse.grad(form).bind(B=A),
    "got 2 arguments for the free x": lambda: hesse.grad(form).bind(A=A)(X, X),
    "the derivative of square also takes v after its arguments": lambda: hesse.hvp(square)(),
    "cannot be called like this (and then with v): missing a required argument: 'x'": lambda: hesse.hvp(
        square
    )(X),
    "expected a function, got int": lambda: hesse.grad(3),
    "expected a function, got ndarray": lambda: hesse.hessian(X),
    "an index is made of integers, slices, None, ... and masks, not of 1.0": of_x(lambda x: x[1.0]),
}

OPTIONS: Mistakes = {
    "'cross-country', 'lowest-order-first', not 'sideways'": lambda: hesse.grad(square, mode="sideways"),
    "mode must be 'auto' or one of 'forward', 'reverse'": lambda: hesse.hessian(square, mode=None),
    "'lowest-order-first', not ['auto']": lambda: hesse.hessian(square, mode=["auto"]),
    "'lowest-order-first', not 'up'": lambda: n_vector.diff(n_vector, mode="up"),
    "form must be one of 'dense', 'structured', not 'sparse'": lambda: hesse.hessian(square, form="sparse"),
    "v has shape (4,), but x has shape (3,)": lambda: hesse.hvp(square)(X, np.ones(4)),
    "v has shape (3, 1), but x has shape (3,)": lambda: hesse.jvp(square)(X, np.ones((3, 1))),
    "u has shape (2,), but the result has shape (3,)": lambda: hesse.vjp(np.exp)(X, np.ones(2)),
    "u has shape (3,), but the result has shape ()": lambda: hesse.vjp(square)(X, X),
    "a memory limit must be a positive number of bytes or None, not -1.0": lambda: hesse.set_memory_limit(
        -1.0
    ),
    "a memory limit must be a positive number of bytes or None, not '2 GB'": lambda: hesse.set_memory_limit(
        "2 GB"  # type: ignore[arg-type]
    ),
    "grad needs a function with a scalar result, this one has shape (3,); use jacobian": lambda: hesse.grad(
        np.exp
    )(X),
    "value_and_grad needs a function with a scalar result": lambda: hesse.value_and_grad(np.exp)(X),
    "grad needs a function with a scalar result, this one returns a container; use jacobian": of_x(
        returns_two
    ),
    "hvp needs a function with a scalar result": lambda: hesse.hvp(np.exp)(X, X),
}

SYMBOLIC: Mistakes = {
    "there is no backend 'cuda'; choose one of numpy": lambda: n_vector.compile(backend="cuda"),
    "there is no notation 'html'; choose one of text, einsum, latex": lambda: n_vector.to("html"),
    "a graph cannot be saved as 'x.png'; end the path in .dot or .svg": lambda: n_vector.graph().save(
        "x.png"
    ),
    "diff needs at least one variable to differentiate by": lambda: n_vector.diff(),
    "there is no variable z in the expression; it has x": lambda: n_vector.diff("z"),
    "no value for x": lambda: (n_vector + n_vector).evaluate(),
    "the name of a variable must be an identifier, not 'a b'": lambda: hesse.variable("a b", (3,)),
    "the name of a variable must be an identifier, not 3": lambda: hesse.variable(3, (3,)),
    "two variables are called c": lambda: (np.sum(three) + hesse.variable("c")).evaluate(c=X),
}

DTYPES: Mistakes = {
    "cannot differentiate by x: its dtype is int64; pass a floating-point array (x.astype(float))": at(
        [1, 2]
    ),
    "argument c is complex; hesse works with real arrays": lambda: (2 * three).evaluate(c=1j * X),
    "cannot differentiate by x: its dtype is int64": at(3),
    "cannot differentiate by x: its dtype is uint8": at(np.array([1, 2], np.uint8)),
    "cannot differentiate by x: its dtype is bool": at(np.array([True])),
    "argument x is complex; hesse works with real arrays: pass real and imaginary parts": at(np.array([1j])),
    "argument x is complex": at(1j),
    "argument A is complex; hesse works with real arrays": gradient(X, 1j * A),
    "cannot differentiate by A: its dtype is int64": gradient(X, np.ones((3, 3), int), argnums=1),
    "can only differentiate by a variable, not by 2*x": lambda: n_vector.diff(2 * n_vector),
    "can only differentiate by a variable, not by [1. 2. 3.]": lambda: n_vector.diff(X),
}

RESULTS: Mistakes = {
    "returns_nothing returned None; return the value to differentiate": of_x(returns_nothing),
    "result of <lambda> is a str, which cannot be differentiated; return it as a further result with "
    "has_aux=True": of_x(lambda x: "loss"),
    'result["name"] of <lambda> is a str': lambda: hesse.jacobian(lambda x: {"name": "f", "value": x})(X),
    "square must return a pair (result, aux) because has_aux=True; it returned a Expression": lambda: (
        hesse.grad(square, has_aux=True)(X)
    ),
    "a constant of type Thing cannot be traced": of_x(lambda x: Thing()),
    "is complex; return real numbers: z.real, z.imag": of_x(lambda x: np.sum(x * 1j)),
}

LIMITS: Mistakes = {
    "The structured form (form='structured') keeps it in": lambda: hesse.hessian(square)(
        np.zeros(10_000_000)
    ),
    "more than the": lambda: hesse.parse("inv(eye(10000000))").evaluate(),
}

KERNELS: Mistakes = {
    "the function digamma cannot be written in cpp code; export to numpy, torch, jax, matlab or julia": (
        lambda: hesse.parse("digamma(a)").to("cpp")
    ),
}

PACKAGES: Mistakes = {
    "a picture needs nowhere, which is not installed; run `pip install 'nowhere'`": lambda: optional(
        "nowhere.at_all", "a picture"
    ),
}

UNVERIFIED: Mistakes = {
    "the derivative by x could not be compared with a finite difference": lambda: str(
        hesse.parse("log(-x'*x)").diff("x")
    ),
    "the sizes given as numbers make a tensor of 10,000,000,000 entries": lambda: str(
        hesse.parse("a*sum(inv(a*eye(100000)))").diff("a")
    ),
}

UNSOLVED: Mistakes = {
    "root did not converge: the residual is 1.0e+00; start nearer": lambda: hesse.root(np.cosh, 1.0),
}
LEAF = torch.ones(2, requires_grad=True)
NOT_COMPUTED: Mistakes = {
    "nothing was computed yet: call backward first": lambda: hesse.torch.Controller(
        (LEAF * LEAF).sum()
    ).fetch_hgrad((LEAF,)),
}
TABLE: list[tuple[type[HesseError], Mistakes]] = [
    (ShapeError, SIZES),
    (NotationError, NOTATION),
    (ArgumentError, ORDERS | ARGNUMS | ARGUMENTS | OPTIONS | SYMBOLIC),
    (DifferentiationError, DTYPES),
    (TracingError, RESULTS),
    (MemoryLimitError, LIMITS),
    (MissingKernelError, KERNELS),
    (MissingPackageError, PACKAGES),
    (VerificationError, UNVERIFIED),
    (ConvergenceError, UNSOLVED),
    (NotComputedError, NOT_COMPUTED),
]


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [(error, message, call) for error, mistakes in TABLE for message, call in mistakes.items()],
)
def test_bad_input(error: type[HesseError], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(HesseError, match=re.escape(message)) as caught:
        call()
    assert type(caught.value) is error


# What cannot be traced, through the public functions: the construct, the line and the way out.


def deletes(x: Any) -> Any:
    del x[0]
    return np.sum(x)


KEPT = np.zeros(3)
"""An array that is not made by the functions that write to it."""


def fills_an_array(x: Any) -> Any:
    KEPT[:] = x
    return np.sum(KEPT)


def updates_an_array(x: Any) -> Any:
    np.add(KEPT, x, out=KEPT)
    return np.sum(KEPT)


def makes_a_float(x: Any) -> Any:
    return float(x[0]) * np.sum(x)


def branches(x: Any) -> Any:
    if x[0] > 0:
        return np.sum(x)
    return -np.sum(x)


def loops(x: Any) -> Any:
    while np.sum(x) > 1:
        x = x / 2
    return np.sum(x)


OWN_SIN, OWN_ARRAY = functools.partial(math.sin), functools.partial(np.array)
"""The libraries' own functions: nothing stands in their places while a function is traced."""


def uses_math(x: Any) -> Any:
    return OWN_SIN(x[0])


def makes_an_array(x: Any) -> Any:
    return np.sum(OWN_ARRAY([x[0], x[1]], dtype=float) ** 2)


def calls_something_unknown(x: Any) -> Any:
    return np.sum(np.spacing(x))


def calls_a_known_dead_end(x: Any) -> Any:
    return np.sum(np.linalg.eig(A * x)[0])


UNTRACEABLE: list[tuple[Callable[[Any], Any], str, str]] = [
    (deletes, "the deletion of entries", r"np\.where, np\.concatenate or np\.stack"),
    (fills_an_array, "converted to an array", r"np\.stack"),
    (updates_an_array, r"in-place update of an array", r"a = a \+ x"),
    (makes_a_float, r"float\(\)", r"np\.sin\(x\)"),
    (branches, r"the truth value of a traced value \(if", r"np\.where\(condition, x, y\)"),
    (loops, r"the truth value of a traced value \(if, while", r"np\.where"),
    (uses_math, r"math\.sin\(x\)", r"Use np\.sin\(x\)"),
    (makes_an_array, r"np\.array\(x, dtype=float\)", r"use np\.stack"),
    (
        calls_something_unknown,
        r"np\.spacing, for which hesse has no rule",
        r"hesse\.frontends\.dispatch\.implements",
    ),
    (calls_a_known_dead_end, r"np\.linalg\.eig, for which hesse has no rule", r"np\.linalg\.eigh"),
]

DERIVATIVES: list[Callable[..., Any]] = [
    hesse.grad,
    hesse.jacobian,
    hesse.hessian,
    hesse.value_and_grad,
    lambda f: hesse.derivative(f, order=3),
]


@pytest.mark.parametrize(
    "derivative", DERIVATIVES, ids=["grad", "jacobian", "hessian", "value_and_grad", "third"]
)
@pytest.mark.parametrize(("function", "construct", "way_out"), UNTRACEABLE)
def test_untraceable_code_names_construct_line_and_way_out(
    function: Callable[[Any], Any], construct: str, way_out: str, derivative: Callable[..., Any]
) -> None:
    with pytest.raises(TracingError, match=f"(?s)({construct}).*cannot be traced.*({way_out})") as caught:
        derivative(function)(X)
    lines, start = inspect.getsourcelines(function)
    found = re.search(r"\(at (.*?):(\d+)\)", str(caught.value))
    assert found is not None
    assert found[1] == __file__
    assert start < int(found[2]) < start + len(lines)


def test_assigning_one_entry_of_an_array_names_the_way_out() -> None:
    """NumPy wraps the error in its own; the cause is ours."""

    def assigns_one_entry(x: Any) -> Any:
        KEPT[0] = x[0]
        return np.sum(KEPT)

    with pytest.raises((TracingError, ValueError)) as caught:
        hesse.grad(assigns_one_entry)(X)
    errors = [caught.value, caught.value.__cause__]
    assert any(isinstance(error, TracingError) and "np.stack" in str(error) for error in errors)


# NaN and infinities are data like any other.


def test_nan_passes_through() -> None:
    x = np.array([1.0, np.nan, 3.0])
    np.testing.assert_array_equal(hesse.grad(square)(x), 2 * x)
    np.testing.assert_array_equal(hesse.hessian(lambda x: np.sum(x**3))(x), np.diag(6 * x))
    np.testing.assert_array_equal(hesse.hessian(square)(x), 2 * np.eye(3))


def test_nan_in_other_arguments_passes_through() -> None:
    matrix = A.copy()
    matrix[0, 1] = np.nan
    np.testing.assert_array_equal(hesse.hessian(form)(X, matrix), matrix + matrix.T)
    np.testing.assert_array_equal(hesse.grad(form)(X, matrix), (matrix + matrix.T) @ X)


def test_nan_in_a_captured_array_passes_through() -> None:
    weights = np.array([1.0, np.nan, 3.0])
    np.testing.assert_array_equal(hesse.grad(lambda x: np.sum(weights * x))(X), weights)


def test_infinite_data_pass_through() -> None:
    x = np.array([1.0, np.inf, -np.inf])
    np.testing.assert_array_equal(hesse.grad(square)(x), 2 * x)
    np.testing.assert_array_equal(hesse.grad(lambda x: np.sum(np.arctan(x)))(x), [0.5, 0.0, 0.0])


# The tables are complete.


def error_classes() -> set[type[HesseError]]:
    members = vars(hesse.errors).values()
    return {member for member in members if isinstance(member, type) and issubclass(member, HesseError)}


def test_every_error_class_is_raised_somewhere() -> None:
    assert {error for error, mistakes in TABLE if mistakes} == error_classes() - {HesseError}


def test_every_error_is_public_documented_and_part_of_the_tree() -> None:
    for error in error_classes():
        assert getattr(hesse, error.__name__) is error
        assert error.__doc__
        assert error.__name__ in (hesse.errors.__doc__ or "")


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ShapeError, ValueError),
        (NotationError, ValueError),
        (ArgumentError, ValueError),
        (TracingError, TypeError),
        (DifferentiationError, TypeError),
        (MemoryLimitError, MemoryError),
        (MissingPackageError, ImportError),
        (VerificationError, ArithmeticError),
        (ConvergenceError, ArithmeticError),
    ],
)
def test_errors_are_also_the_builtin_ones(error: type[HesseError], builtin: type[Exception]) -> None:
    assert issubclass(error, builtin)


def test_a_failed_call_leaves_the_derivative_usable() -> None:
    derivative = hesse.grad(form)
    with pytest.raises(ShapeError):
        derivative(X, np.ones((4, 4)))
    np.testing.assert_allclose(derivative(X, A), (A + A.T) @ X)
