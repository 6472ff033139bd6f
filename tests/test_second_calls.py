"""The second call of a derivative is as right as the first one, whatever kind of argument it gets.

Derivatives keep what they compiled, by what they can see of the arguments. So calls are repeated and mixed,
and compared with a formula written by hand.
"""

from __future__ import annotations

import operator
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse.errors import ArgumentError, TracingError
from libraries import JAX, LIBRARIES, NUMPY, TORCH, Library, dtype_name, over_libraries, plain
from oracles import assert_close

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")

POINT = np.array([[1.5, -0.5], [-0.5, 2.0]])
"""Symmetric, so that a `Structured` tensor can have these entries."""
WEIGHTS = np.array([[0.5, 3.0], [-1.0, 2.0]])
POINT.flags.writeable = WEIGHTS.flags.writeable = False


def function(x: Any, w: Any) -> Any:
    """`x * x` and `x @ x` differ, except for a matrix in NumPy's sense."""
    return np.sum(w * x * x * x) + np.sum(x @ x)


def gradient(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The gradient of the function by x, by hand."""
    return 3 * w * x * x + x.sum(1)[None, :] + x.sum(0)[:, None]


def hessian(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The Hessian of the function by x, by hand."""
    unit = np.eye(2)
    result = np.einsum("ij,ik,jl->ijkl", 6 * w * x, unit, unit)
    # d/dx[k,l] of x.sum(1)[j] + x.sum(0)[i]
    return (
        result
        + np.einsum("jk,i,l->ijkl", unit, *np.ones((2, 2)))
        + np.einsum("il,j,k->ijkl", unit, *np.ones((2, 2)))
    )


class Kind(NamedTuple):
    """A kind of argument: how to make it of an array, and the library and the dtype it is computed in."""

    make: Callable[[np.ndarray], Any]
    library: Library = NUMPY
    dtype: str = "float64"


def strided(array: np.ndarray) -> np.ndarray:
    """The array in every other entry of a larger one."""
    larger = np.zeros([2 * size for size in array.shape], array.dtype)
    view = larger[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def backwards(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array[::-1])[::-1]


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def field(array: np.ndarray) -> np.ndarray:
    """The array as a field of records: its strides are no multiples of its entries."""
    records = np.zeros(array.shape, [("value", array.dtype), ("mark", "u1")])
    records["value"] = array
    return records["value"]


def mapped(array: np.ndarray) -> np.memmap[Any, Any]:
    with tempfile.TemporaryFile() as file:
        result: np.memmap[Any, Any] = np.memmap(file, array.dtype, "w+", shape=array.shape)
    result[...] = array
    return result


def structured(array: np.ndarray, library: Library = NUMPY) -> Any:
    """A structured tensor of these entries, which are symmetric."""
    size = int(np.sqrt(array.size))
    matrix = library.array(array.reshape(size, size))
    point = library.array(np.ones(size))
    return hesse.hessian(lambda x, a: 0.5 * x @ a @ x, form="structured")(point, matrix)


def wide_tensor(array: np.ndarray) -> torch.Tensor:
    return torch.tensor(np.stack([array, array + 1.0], -1))[..., 0]


NUMPY_KINDS = {
    "array": Kind(np.array),
    "column by column": Kind(np.asfortranarray),
    "strided": Kind(strided),
    "backwards": Kind(backwards),
    "read-only": Kind(read_only),
    "other byte order": Kind(lambda array: array.astype(array.dtype.newbyteorder())),
    "field of records": Kind(field),
    "list": Kind(np.ndarray.tolist),
    "tuple of tuples": Kind(lambda array: tuple(map(tuple, array.tolist()))),
    "structured": Kind(structured),
    "memory-mapped": Kind(mapped),
    "single": Kind(lambda array: array.astype(np.float32), dtype="float32"),
    "half": Kind(lambda array: array.astype(np.float16), dtype="float32"),
}
TORCH_KINDS = {
    "tensor": Kind(torch.tensor, TORCH),
    "parameter": Kind(lambda array: torch.nn.Parameter(torch.tensor(array)), TORCH),
    "tensor with gradient": Kind(lambda array: torch.tensor(array, requires_grad=True), TORCH),
    "transposed tensor": Kind(lambda array: torch.tensor(array.T.copy()).T, TORCH),
    "strided tensor": Kind(wide_tensor, TORCH),
    "tensor on top of an array": Kind(lambda array: torch.from_numpy(array.copy()), TORCH),
    "single tensor": Kind(lambda array: torch.tensor(array, dtype=torch.float32), TORCH, "float32"),
    "half tensor": Kind(lambda array: torch.tensor(array, dtype=torch.float16), TORCH, "float16"),
    "structured over tensors": Kind(lambda array: structured(array, TORCH), TORCH),
}
JAX_KINDS = {
    "JAX array": Kind(jnp.array, JAX),
    "committed JAX array": Kind(lambda array: jax.device_put(array, jax.devices()[0]), JAX),
    "single JAX array": Kind(lambda array: jnp.array(array, jnp.float32), JAX, "float32"),
    "half JAX array": Kind(lambda array: jnp.array(array, jnp.bfloat16), JAX, "bfloat16"),
    "structured over JAX arrays": Kind(lambda array: structured(array, JAX), JAX),
}
KINDS = {**NUMPY_KINDS, **TORCH_KINDS, **JAX_KINDS}
over_kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
NUMBERS: dict[str, Kind] = {
    "float": Kind(float),
    "NumPy number": Kind(np.float64),
    "NumPy number, single": Kind(np.float32, dtype="float32"),
    "array without axes": Kind(np.array),
    "tensor": Kind(lambda value: torch.tensor(value, dtype=torch.float64), TORCH),
    "JAX array": Kind(lambda value: jnp.array(np.array(value)), JAX),
}
TOLERANCE = {"float64": 1e-13, "float32": 1e-6, "float16": 5e-3, "bfloat16": 5e-2}


def check(found: Any, expected: np.ndarray, kind: Kind, what: str) -> None:
    """The values, the class and the dtype of a result."""
    is_number = expected.ndim == 0 and kind.library is NUMPY
    assert isinstance(found, np.floating if is_number else kind.library.array_class), what
    assert type(found) is not np.memmap, what
    assert dtype_name(found) == kind.dtype, what
    assert_close(plain(found), expected, what, TOLERANCE[kind.dtype])


# One kind after itself.


@over_kinds
def test_calls_are_alike(kind: Kind) -> None:
    by_x, twice_by_x = hesse.grad(function), hesse.hessian(function)
    for what in ("first call", "second call", "third call"):
        x = kind.make(POINT)
        check(by_x(x, kind.make(POINT)), gradient(POINT, POINT), kind, what)
        check(twice_by_x(x, x), hessian(POINT, POINT), kind, what)


@over_kinds
def test_calls_by_keyword_are_alike(kind: Kind) -> None:
    by_x = hesse.grad(function)
    for what in ("first call", "second call"):
        check(by_x(x=kind.make(POINT), w=kind.make(POINT)), gradient(POINT, POINT), kind, what)
        check(by_x(w=kind.make(2 * POINT), x=kind.make(POINT)), gradient(POINT, 2 * POINT), kind, what)
        check(by_x(kind.make(POINT), w=kind.make(POINT)), gradient(POINT, POINT), kind, what)


@over_kinds
def test_calls_with_bound_arguments_are_alike(kind: Kind) -> None:
    given = kind.make(POINT)
    bound = hesse.grad(function).bind(w=given)
    if isinstance(given, np.ndarray) and given.flags.writeable:
        given[...] = 0.0  # the bound data is a copy
    for what in ("first call", "second call"):
        check(bound(kind.make(POINT)), gradient(POINT, POINT), kind, what)
        check(bound(x=kind.make(2 * POINT)), gradient(2 * POINT, POINT), kind, what)


@over_kinds
def test_evaluations_are_alike(kind: Kind) -> None:
    x, w = hesse.variable("x", ("m", "n")), hesse.variable("w", ("m", "n"))
    compiled = (w * x * x).compile()
    for what in ("first call", "second call"):
        check(compiled(x=kind.make(POINT), w=kind.make(POINT)), POINT**3, kind, what)
        check(compiled(w=kind.make(2 * POINT), x=kind.make(POINT)), 2 * POINT**3, kind, what)


@pytest.mark.parametrize("kind", NUMBERS.values(), ids=NUMBERS)
def test_calls_with_numbers_are_alike(kind: Kind) -> None:
    derivative = hesse.grad(lambda x, w: w * x**3)
    bound = hesse.grad(lambda x, w: w * x**3).bind(w=kind.make(0.5))
    for what in ("first call", "second call"):
        check(derivative(kind.make(2.0), kind.make(0.5)), np.array(6.0), kind, what)
        check(derivative(x=kind.make(4.0), w=kind.make(0.5)), np.array(24.0), kind, what)
        check(bound(kind.make(2.0)), np.array(6.0), kind, what)


@pytest.mark.parametrize(
    ("make", "message"),
    [(np.matrix, r"an np\.matrix.*np\.asarray\(A\)"), (np.ma.MaskedArray, r"a masked array.*filled\(0\.0\)")],
    ids=["matrix", "masked array"],
)
def test_arrays_with_another_arithmetic_are_refused_each_time(make: Any, message: str) -> None:
    """A product of np.matrix is a matrix product, and sums leave masked entries out: f would mean another."""
    other = make(POINT)
    derivative = hesse.grad(function)
    derivative(POINT, POINT)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=f"argument x is {message}"):
            derivative(other, POINT)
        with pytest.raises(ArgumentError, match=f"argument w is {message}"):
            derivative.bind(w=other)
        with pytest.raises(TracingError, match=message):
            hesse.grad(lambda x: np.sum(x * other))(POINT)
    for operation in (operator.mul, operator.add, operator.sub, operator.truediv):
        with pytest.raises(TracingError, match=None if make is np.matrix else message):
            hesse.grad(lambda x, operation=operation: np.sum(operation(other, x)))(POINT)


def test_whole_numbers_are_refused_after_others() -> None:
    """An integer is no floating-point number, though both are Python numbers."""
    derivative = hesse.grad(lambda x: x**3)
    derivative(2.0)
    for value in (2, True, np.int64(2), np.array(2), torch.tensor(2), jnp.array(2)):
        derivative(2.0)
        with pytest.raises(hesse.HesseError, match="cannot differentiate by x"):
            derivative(value)


def test_an_index_is_no_number() -> None:
    derivative = hesse.grad(lambda x, n: np.sum(x) ** 2 * n)
    at = np.array([1.0, 2.0])
    for count in (3, 0.5, True, np.int64(3), np.array(0.5), 3):
        np.testing.assert_array_equal(derivative(at, count), np.full(2, 6.0 * count))
    picked = hesse.grad(lambda x, n: x[n] ** 2)
    np.testing.assert_array_equal(picked(at, 1), [0.0, 4.0])
    for _ in range(2):
        with pytest.raises(hesse.TracingError, match="a traced real number as an index"):
            picked(at, 1.0)
        np.testing.assert_array_equal(picked(at, 0), [2.0, 0.0])


# Kinds after each other.


def test_kinds_are_not_mixed_up() -> None:
    """All kinds in turn, of equal shape and often of equal dtype, through one derivative."""
    by_x, twice_by_x, bound = (
        hesse.grad(function),
        hesse.hessian(function),
        hesse.grad(function).bind(w=WEIGHTS),
    )
    generator = np.random.default_rng(0)
    turns = [name for name in KINDS for _ in range(2)]
    for name in generator.permutation(turns):
        kind = KINDS[name]
        check(by_x(kind.make(POINT), kind.make(POINT)), gradient(POINT, POINT), kind, name)
        check(twice_by_x(kind.make(POINT), kind.make(POINT)), hessian(POINT, POINT), kind, name)
        if kind.dtype == "float64":
            check(bound(kind.make(POINT)), gradient(POINT, WEIGHTS), kind, name)


@over_libraries
def test_dtypes_are_not_mixed_up(library: Library) -> None:
    by_x = hesse.grad(function)
    for dtype in ("float64", "float32", "float64", "float32", "float32", "float64"):
        kind = Kind(np.array, library, dtype)
        found = by_x(library.array(POINT, dtype), library.array(WEIGHTS, dtype))
        check(found, gradient(POINT, WEIGHTS), kind, dtype)


@over_libraries
def test_shapes_are_not_mixed_up(library: Library) -> None:
    derivative = hesse.grad(lambda x: np.sum(x) ** 2)
    for shape in [(2,), (1,), (2, 1), (1, 2), (2,), (0,), (2, 1)]:
        found = derivative(library.array(np.ones(shape)))
        np.testing.assert_array_equal(plain(found), np.full(shape, 2.0 * np.prod(shape)))


def test_weak_types_are_not_mixed_up() -> None:
    """A weakly typed JAX array has no say in the dtype; one of equal dtype which is not weak has."""
    x = jnp.array(POINT, jnp.float32)
    weak, strong = jnp.asarray(2.0), jnp.array(2.0, jnp.float64)
    assert weak.weak_type
    assert not strong.weak_type
    assert weak.dtype == strong.dtype
    for order in ([weak, strong], [strong, weak]):
        derivative = hesse.grad(lambda x, a: a * np.sum(x * x))
        for a in order * 2:
            found = derivative(x, a)
            assert found.dtype == (jnp.float32 if a.weak_type else jnp.float64)
            np.testing.assert_array_equal(found, 4 * POINT)


# Threads.


@over_libraries
def test_threads_share_a_derivative(library: Library) -> None:
    """The first calls are made at once, in several threads, for several shapes."""
    derivative = hesse.hessian(lambda x, w: np.sum(w * x**3) + np.sum(x) ** 2, form="structured")
    count = 6
    start = threading.Barrier(count)

    def work(number: int) -> float:
        start.wait()
        worst = 0.0
        for repetition in range(6):
            size = 2 + (number + repetition) % 3
            x, w = np.arange(1.0, size + 1.0) + number, np.full(size, 0.5)
            found = derivative(library.array(x), library.array(w)) @ library.array(np.ones(size))
            worst = max(worst, float(np.abs(plain(found) - (3 * x + 2 * size)).max()))
        return worst

    with ThreadPoolExecutor(count) as pool:
        assert max(pool.map(work, range(count))) < 1e-12


# Memory.

ALIASES: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray, np.ndarray], Any]]] = {
    "an argument is the result": (
        hesse.grad(lambda x, w: np.sum(x * w)),
        lambda x, w: w,
    ),
    "an argument is each result": (
        hesse.grad(lambda x, w: np.sum((x + w) * (x - w)), argnums=(0, 1)),
        lambda x, w: (2 * x, -2 * w),
    ),
    "two results are one value": (
        hesse.hessian(lambda x, w: np.sum(x * w), argnums=(0, 1)),
        lambda x, w: ((np.zeros((3, 3)), np.eye(3)), (np.eye(3), np.zeros((3, 3)))),
    ),
    "results are constants": (
        hesse.grad(lambda x, w: np.sum(x) + np.sum(w), argnums=(0, 1)),
        lambda x, w: (np.ones(3), np.ones(3)),
    ),
    "the result is a literal": (
        hesse.grad(lambda x, w: x @ np.array([1.0, 2.0, 3.0])),
        lambda x, w: np.array([1.0, 2.0, 3.0]),
    ),
    "the result is a view": (
        hesse.grad(lambda x, w: np.sum(x * w[::-1])),
        lambda x, w: w[::-1],
    ),
    "the result repeats a value": (
        hesse.jacobian(lambda x, w: np.sum(x) * w),
        lambda x, w: np.repeat(w[:, None], 3, 1),
    ),
    "a value and its gradient": (
        hesse.value_and_grad(lambda x, w: np.sum(x * w)),
        lambda x, w: (x @ w, w),
    ),
    "a slice of a bound value": (
        hesse.grad(lambda x, w: np.sum(x * np.exp(w))).bind(w=np.array([1.0, 2.0, 3.0])),
        lambda x, w: np.exp([1.0, 2.0, 3.0]),
    ),
}


def leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("backend", LIBRARIES)
@pytest.mark.parametrize("name", ALIASES)
def test_results_share_no_memory(name: str, backend: str) -> None:
    """Changing a result changes no argument, no other result and no later call."""
    derivative, reference = ALIASES[name]
    if isinstance(derivative, hesse.api.compiled.Bound):
        derivative = derivative._derivative.compile(backend=backend).bind(w=np.array([1.0, 2.0, 3.0]))
        names: list[str] = ["x"]
    else:
        derivative, names = derivative.compile(backend=backend), ["x", "w"]
    point = {"x": np.array([1.0, -2.0, 0.5]), "w": np.array([2.0, 3.0, -1.0])}
    for _ in range(3):
        given = {label: point[label].copy() for label in names}
        results = leaves(derivative(**given))
        expected = leaves(reference(point["x"], point["w"]))
        for k, (result, value) in enumerate(zip(results, expected, strict=True)):
            np.testing.assert_allclose(result, value, rtol=1e-13)
            if isinstance(result, np.ndarray):
                assert not any(np.shares_memory(result, other) for other in (*given.values(), *results[:k]))
                result[...] = np.nan
        for label, array in given.items():
            np.testing.assert_array_equal(array, point[label])


@pytest.mark.parametrize("name", ALIASES)
def test_tensors_share_no_memory(name: str) -> None:
    derivative, reference = ALIASES[name]
    names = ["x"] if isinstance(derivative, hesse.api.compiled.Bound) else ["x", "w"]
    point = {"x": np.array([1.0, -2.0, 0.5]), "w": np.array([2.0, 3.0, -1.0])}
    for _ in range(3):
        given = {label: torch.tensor(point[label]) for label in names}
        results = leaves(derivative(**given))
        expected = leaves(reference(point["x"], point["w"]))
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, value, rtol=1e-13)
            result.fill_(torch.nan)
        for label, array in given.items():
            np.testing.assert_array_equal(array, point[label])


# Structured tensors.

STRUCTURED = hesse.hessian(function, form="structured")
OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "dense": (lambda H, v: H.dense(), lambda H, v: H),
    "dense in chunks": (lambda H, v: H.dense(chunk=1), lambda H, v: H),
    "product": (lambda H, v: H @ v, lambda H, v: np.einsum("ijkl,kl->ij", H, v)),
    "quadratic": (lambda H, v: H.quadratic(v), lambda H, v: np.einsum("ij,ijkl,kl->", v, H, v)),
    "diagonal": (lambda H, v: H.diagonal(), lambda H, v: np.einsum("ijij->ij", H)),
    "trace": (lambda H, v: H.trace(), lambda H, v: np.einsum("ijij->", H)),
    "transposed": (lambda H, v: H.T.dense(), lambda H, v: H.transpose(2, 3, 0, 1)),
    "sum": (lambda H, v: (H + 2 * H).dense(), lambda H, v: 3 * H),
    "block": (lambda H, v: H.block(1).dense(), lambda H, v: H[1, :, 1, :]),
}


@over_kinds
def test_structured_operations_are_alike(kind: Kind) -> None:
    for what in ("first tensor", "second tensor"):
        found = STRUCTURED(kind.make(POINT), kind.make(POINT))
        assert dtype_name(found) == kind.dtype
        for name, (operation, reference) in OPERATIONS.items():
            expected = np.asarray(reference(hessian(POINT, POINT), POINT))
            for again in ("once", "again"):
                check(operation(found, kind.make(POINT)), expected, kind, f"{name} of the {what}, {again}")


@over_libraries
def test_vectors_of_any_kind(library: Library) -> None:
    """A structured tensor takes arrays of its own library, and those of NumPy."""
    tensor = hesse.hessian(function, form="structured")(library.array(POINT), library.array(WEIGHTS))
    expected = np.einsum("ijkl,kl->ij", hessian(POINT, WEIGHTS), POINT)
    own = {"numpy": {}, "torch": TORCH_KINDS, "jax": JAX_KINDS}[library.name]
    kinds = {name: kind for name, kind in {**NUMPY_KINDS, **own}.items() if kind.dtype == "float64"}
    for _ in range(2):
        for name, kind in kinds.items():
            check(tensor @ kind.make(POINT), expected, Kind(kind.make, library), name)


@pytest.mark.parametrize("library", [NUMPY, TORCH], ids=lambda library: library.name)  # JAX changes no arrays
@pytest.mark.parametrize("function", [lambda x: 0.5 * np.sum(x * x), lambda x: np.sum(x) ** 3 + np.sum(x**3)])
def test_results_of_structured_tensors_share_no_memory(function: Any, library: Library) -> None:
    """Neither with the tensor nor with the vector, be it multiplied by the unit matrix."""
    tensor = hesse.hessian(function, form="structured")(library.array([1.0, 2.0]))
    vector = library.array([3.0, 4.0])
    operations = [lambda: tensor @ vector, tensor.dense, tensor.diagonal]
    before = [plain(operation()) for operation in operations]
    for operation in operations:
        operation()[...] = np.nan
    for operation, expected in zip(operations, before, strict=True):
        np.testing.assert_array_equal(plain(operation()), expected)
    np.testing.assert_array_equal(plain(vector), [3.0, 4.0])
