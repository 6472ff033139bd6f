"""Kernels of every row and record in every target: against NumPy's, traced, batched and differentiated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse.backends.jax.elementwise
import hesse.backends.jax.records
import hesse.backends.numpy.elementwise
import hesse.backends.numpy.records
import hesse.backends.torch.elementwise
import hesse.backends.torch.records
import naive
from hesse.backends.records import MOST_DOUBLINGS
from hesse.calculus import reverse
from hesse.errors import HesseError, MissingKernelError
from hesse.ir import constant, multiply, total, variable
from hesse.ops.registry import ELEMENTWISE, OPERATIONS, General, elementwise, operation
from oracles import fast_jit

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns at poles

Arrays = tuple[np.ndarray, ...]


class Target(NamedTuple):
    """The kernels of an array library, how it makes an array and how it runs a function."""

    rows: ModuleType
    records: ModuleType
    array: Callable[[np.ndarray], Any]
    runner: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function

    def run(self, function: Callable[..., Any], operands: Arrays) -> np.ndarray:
        """The result on plain arrays."""
        return np.asarray(self.runner(function)(*map(self.array, operands)))


NUMPY = Target(hesse.backends.numpy.elementwise, hesse.backends.numpy.records, np.asarray)
TORCH = Target(hesse.backends.torch.elementwise, hesse.backends.torch.records, torch.tensor)
JAX = Target(hesse.backends.jax.elementwise, hesse.backends.jax.records, jnp.asarray, jax.jit)
TARGETS = {"numpy": NUMPY, "torch": TORCH, "jax": JAX}
DTYPES = (np.float64, np.float32)
over_targets = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
over_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
over_rows = pytest.mark.parametrize("name", ELEMENTWISE)
over_records = pytest.mark.parametrize("name", OPERATIONS)


def assert_close(found: np.ndarray, expected: np.ndarray, dtype: Any, scale: float = 0.0) -> None:
    """Equal up to rounding, relative to the value and to a scale; XLA takes subnormal numbers for zero."""
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    assert found.shape == expected.shape
    np.testing.assert_allclose(
        found, expected, rtol=tolerance, atol=2 * float(np.finfo(dtype).tiny) + tolerance * scale
    )


# Rows.

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -7.0, 0.5, -2.5, 1.5, math.inf, -math.inf, math.nan]
LINE = [*SPECIAL, *np.linspace(-9.3, 9.3, 87), *np.geomspace(1e-9, 1e9, 37), *-np.geomspace(1e-9, 1e9, 37)]
LARGE = [-800.0, -100.0, -40.0, -36.5, 19.5, 25.0, 36.5, 40.0, 100.0, 800.0]
ORDERS = [0.0, 1.0, 2.0, 3.0, 5.0, 8.0]
CROSSING = {"digamma": 1.0, "lgamma": 1.0, "logaddexp": 10.0, "power": 0.0}
"""Rows that cross zero where their terms do not: the size of these terms."""


def row_points(name: str, dtype: Any) -> Arrays:
    """Special points and combinations of them, and points of the sample."""
    row = ELEMENTWISE[name]
    generator = np.random.default_rng(3)
    sample = [generator.uniform(low, high, 20) for low, high in row.sample]
    lists = [[*LINE, *LARGE]] if row.arity == 1 else [SPECIAL] * row.arity
    if name == "polygamma":
        lists = [ORDERS, LINE[:-38]]  # large negative x take as many steps
    special = np.array(list(itertools.product(*lists))).T
    joined = [np.concatenate(pair) for pair in zip(special, sample, strict=True)]
    if name == "lgamma":
        joined = [joined[0][joined[0] != -math.inf]]  # -inf for SciPy, inf for C and the others
    return tuple(operand.astype(dtype) for operand in joined)


def run_row(target: Target, name: str, operands: Arrays) -> np.ndarray:
    return target.run(target.rows.kernel(name), operands)


@over_dtypes
@over_targets
@over_rows
def test_rows(name: str, target: Target, dtype: Any) -> None:
    operands = row_points(name, dtype)
    found = run_row(target, name, operands)
    expected = NUMPY.rows.kernel(name)(*operands)
    if target is NUMPY:
        expected = naive.ELEMENTWISE[name](*operands).astype(dtype)
    assert found.dtype == dtype
    scale: Any = CROSSING.get(name, 0.0)
    if name == "polygamma":  # between its poles it crosses zero
        scale = np.vectorize(lambda n: math.factorial(int(n)) * math.pi**n)(operands[0])
        for order in ORDERS:
            here = operands[0] == order
            assert_close(found[here], expected[here], dtype, scale[here][0])
    else:
        assert_close(found, expected, dtype, scale)


@over_dtypes
@over_targets
@over_rows
def test_rows_of_scalars_and_of_nothing(name: str, target: Target, dtype: Any) -> None:
    row = ELEMENTWISE[name]
    for shape in [(), (0, 2)]:
        operands = tuple(np.full(shape, sum(sample) / 2, dtype) for sample in row.sample)
        found = run_row(target, name, operands)
        assert found.shape == shape
        assert found.dtype == dtype
        expected = np.asarray(NUMPY.rows.kernel(name)(*operands))
        assert_close(found, expected, dtype, CROSSING.get(name, 0.0))


@over_targets
@pytest.mark.parametrize("name", [name for name, row in ELEMENTWISE.items() if row.arity > 1])
def test_rows_broadcast(name: str, target: Target) -> None:
    """Constants arrive without axes."""
    row = ELEMENTWISE[name]
    generator = np.random.default_rng(3)
    for whole in range(row.arity):
        shapes = [(3, 2) if k == whole else () for k in range(row.arity)]
        operands = tuple(
            generator.uniform(low, high, shape) for (low, high), shape in zip(row.sample, shapes, strict=True)
        )
        expected = NUMPY.rows.kernel(name)(*(np.broadcast_to(operand, (3, 2)) for operand in operands))
        assert_close(run_row(target, name, operands), expected, np.float64)


@over_rows
def test_batched_rows(name: str) -> None:
    operands = tuple(operand[-20:].reshape(4, 5) for operand in row_points(name, np.float64))
    expected = NUMPY.rows.kernel(name)(*operands)
    by_jax = fast_jit(jax.vmap(JAX.rows.kernel(name), 1, 1))(*operands)
    by_torch = torch.func.vmap(TORCH.rows.kernel(name), 1, 1)(*map(torch.tensor, operands))
    for found in (by_jax, by_torch):
        assert_close(np.asarray(found), expected, np.float64)


def test_rows_in_one_graph_of_torch() -> None:
    operands = {name: [torch.tensor(x[-20:]) for x in row_points(name, np.float64)] for name in ELEMENTWISE}
    kernels = {name: TORCH.rows.kernel(name) for name in ELEMENTWISE}

    def run(operands: Any) -> Any:
        return {name: kernel(*operands[name]) for name, kernel in kernels.items()}

    found = torch.compile(run, fullgraph=True, backend="eager")(operands)
    for name, value in run(operands).items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0, equal_nan=True)


def own_gradients(node: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The gradients of the sum of fourth powers of a node (which no sign changes) that hesse finds."""
    variables = [variable(name, value.shape) for name, value in inputs.items()]
    loss = total(multiply(node, node, node, node), range(node.rank))
    return [naive.evaluate(gradient, inputs) for gradient in reverse(loss, variables)]


def library_gradients(kernel: dict[str, Callable[..., Any]], operands: Arrays) -> list[list[np.ndarray]]:
    """The same gradients by JAX and by PyTorch."""
    positions = tuple(range(len(operands)))
    by_jax = fast_jit(jax.grad(lambda *x: jnp.sum(kernel["jax"](*x) ** 4), positions))(*operands)
    tensors = [torch.tensor(operand, requires_grad=True) for operand in operands]
    by_torch = torch.autograd.grad((kernel["torch"](*tensors) ** 4).sum(), tensors, allow_unused=True)
    zeros = [np.zeros_like(operand) for operand in operands]
    found = [zero if x is None else np.asarray(x) for x, zero in zip(by_torch, zeros, strict=True)]
    return [[np.asarray(gradient) for gradient in by_jax], found]


UNEVEN = ("clip", "select", "where")
SMOOTH = [name for name, row in ELEMENTWISE.items() if any(row.partials) and name not in UNEVEN]
LEFT = {"digamma": (-3.8, -3.2), "lgamma": (-3.8, -3.2), "polygamma": (-3.8, -3.2), "cbrt": (-2.0, -0.2)}


@pytest.mark.parametrize("name", [*SMOOTH, *(f"{name} left" for name in LEFT)])
def test_derivatives_of_rows(name: str) -> None:
    name, *left = name.split()
    generator = np.random.default_rng(5)
    sample = [*ELEMENTWISE[name].sample[:-1], LEFT[name]] if left else ELEMENTWISE[name].sample
    operands = [generator.uniform(low, high, 5) for low, high in sample]
    fixed = {"polygamma": 1}.get(name, 0)  # orders have no derivative
    inputs = {f"x{k}": x for k, x in enumerate(operands[fixed:])}
    orders = operands[:fixed]
    node = elementwise(name, *map(constant, orders), *(variable(key, (5,)) for key in inputs))
    kernels = {
        "jax": lambda *x: JAX.rows.kernel(name)(*map(jnp.asarray, orders), *x),
        "torch": lambda *x: TORCH.rows.kernel(name)(*map(torch.tensor, orders), *x),
    }
    tolerance = 1e-9 if name == "digamma" else 1e-11  # the derivative that PyTorch gives its digamma
    for gradients in library_gradients(kernels, tuple(inputs.values())):
        for found, expected in zip(gradients, own_gradients(node, inputs), strict=True):
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance / 100)


def test_stop_gradient_stops() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert not TORCH.rows.kernel("stop_gradient")(x).requires_grad
    assert jax.grad(lambda x: JAX.rows.kernel("stop_gradient")(x) * x)(3.0) == 3.0


def test_orders_of_polygamma_differ_from_entry_to_entry() -> None:
    orders, at = np.array([0.0, 1.0, 3.0, 1.0]), np.array([0.5, 1.5, 2.5, -0.3])
    for target in TARGETS.values():
        assert_close(
            run_row(target, "polygamma", (orders, at)), naive.ELEMENTWISE["polygamma"](orders, at), float
        )


# Records.


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def definite(*shape: int) -> np.ndarray:
    """Symmetric positive definite matrices with distinct eigenvalues, far from singular."""
    matrices = 0.3 * random(*shape) + np.diag(2.0 + np.arange(shape[-1]))
    return (matrices + matrices.swapaxes(-2, -1)) / 2


EXTREME = np.array([[1e4, -1e4, 0.0], [3.0, 3.0, -math.inf], [-math.inf] * 3])
TIED = np.array([[2.0, 1.0, 2.0, 1.0], [0.0, -0.0, 0.0, -1.0], [1.0, math.nan, 3.0, math.nan]])
INDEX = np.array([[0, -1, 2], [2, 0, -3]])
INTEGERS = [
    ((), (INDEX, np.array(-2))),
    ((), (INDEX, np.array([3, -1, 2]))),
    ((), (np.array(-7), np.array(2))),
    ((), (np.zeros((0, 3), int), INDEX[:1] + 4)),
]
STIFF = np.stack([20 * random(3, 3), random(3, 3) - 100 * np.eye(3), np.zeros((3, 3)), 1e-3 * random(3, 3)])
MATRICES = [
    ((), (definite(3, 3),)),
    ((), (definite(2, 1, 4, 4),)),
    ((), (definite(0, 3, 3),)),
    ((), (definite(1, 1),)),
]
LEADING = [((), (random(4),)), ((), (random(3, 2, 2),)), ((), (random(0, 2),)), ((), (random(2, 0),))]
LAST = [((), (random(4),)), ((), (random(2, 1, 3),)), ((), (random(0, 3),)), ((), (TIED,))]
NORMALIZED = [((), (random(4),)), ((), (30 * random(2, 1, 3),)), ((), (random(0, 3),)), ((), (EXTREME,))]
RECORD_CASES: dict[str, list[tuple[tuple[Any, ...], Arrays]]] = {
    **dict.fromkeys(["inverse", "determinant", "adjugate", "log_determinant", "sign_determinant"], MATRICES),
    **dict.fromkeys(["cholesky", "eigvalsh", "eigenvectors"], MATRICES),
    **dict.fromkeys(["logsumexp", "softmax", "log_softmax"], NORMALIZED),
    **dict.fromkeys(["cumulative_sum", "cumulative_product", "product", "path_products"], LEADING),
    **dict.fromkeys(["argmax", "argmin", "argsort"], LAST),
    "solve": [
        ((), (definite(3, 3), random(3))),
        ((), (definite(3, 3), random(3, 2))),
        ((), (definite(2, 3, 3), random(2, 3))),
        ((), (definite(2, 3, 3), random(2, 3, 0))),
        ((), (definite(0, 3, 3), random(0, 3))),
    ],
    "triangular_solve": [
        ((), (definite(3, 3), random(3))),
        ((), (definite(3, 3), random(3, 2))),
        ((), (definite(2, 3, 3), random(2, 3))),
        ((), (definite(2, 3, 3), random(2, 3, 0))),
        ((), (definite(0, 3, 3), random(0, 3))),
    ],
    "minors": [
        ((1,), (definite(3, 3),)),
        ((2,), (random(3, 2) @ random(2, 3),)),
        ((2,), (definite(2, 1, 3, 3),)),
        ((2,), (definite(1, 1),)),
        ((3,), (random(3, 1) @ random(1, 3),)),
        ((2,), (definite(0, 3, 3),)),
    ],
    "pseudo_inverse": [
        ((), (random(4, 2),)),
        ((), (random(2, 3, 4),)),
        ((), (random(4, 2) @ random(2, 3),)),
        ((), (random(0, 3, 2),)),
    ],
    "expm_chain": [
        ((1,), (STIFF,)),
        ((2,), (STIFF.reshape(2, 2, 3, 3),)),
        ((3,), (random(2, 2),)),
        ((2,), (random(0, 2, 2),)),
        ((1,), (random(0, 0),)),
    ],
    "gather": [
        ((), (random(3), np.array(-1))),
        ((), (random(3, 2), INDEX)),
        ((), (random(3, 0), INDEX)),
        ((), (random(3, 2), np.zeros(0, int))),
    ],
    "scatter": [
        ((4,), (random(), np.array(-1))),
        ((3,), (random(2, 3), INDEX)),
        ((4,), (random(2, 3, 2), INDEX)),
        ((4,), (random(0, 2), np.zeros(0, int))),
        ((3,), (random(2, 3, 0), INDEX)),
    ],
    "flat_index": [
        ((3, 1), (np.array([0, -1]),)),
        ((3, 1), (np.array([[0, -1], [2, 1]]),)),
        ((3, 2), (np.array([[0, -1, 2], [2, 1, -3]]),)),
        ((3, 1), (np.zeros((0, 2), int),)),
    ],
    **dict.fromkeys(["integer_add", "integer_multiply", "integer_quotient"], INTEGERS),
    "integer_where": [
        ((), (np.array([0.0, 1.0, -2.0]), INDEX, INDEX[::-1].copy())),
        ((), (random(2, 3), INDEX, INDEX[:, :1])),
        ((), (random(0), np.zeros(0, int), np.array(1))),
    ],
    "integer_entries": [
        ((), (INDEX, np.array(-1))),
        ((), (INDEX, INDEX)),
        ((), (INDEX, np.zeros((0, 2), int))),
    ],
    "as_integer": [((), (4 * random(3),)), ((), (4 * random(2, 2),)), ((), (np.array(-1.9),))],
    "as_real": [((), (INDEX, random())), ((), (np.array(3), random())), ((), (np.zeros(0, int), random()))],
    "searchsorted": [
        (("left",), (np.sort(random(4)), random(3))),
        (("right",), (np.array([0.0, 1.0, 1.0, 2.0]), np.array([[1.0, -1.0], [3.0, 2.0]]))),
        (("left",), (np.array([0.0, 1.0, 1.0, 2.0]), np.array(1.0))),
    ],
    "max": [((), (random(4),)), ((), (random(2, 3),)), ((), (TIED[:2],)), ((), (TIED,))],
    "kron": [((), (random(2), random(3))), ((), (random(2, 3), random(4, 2))), ((), (random(0), random(3)))],
    "vec": [((), (random(2, 3),)), ((), (random(2, 3, 2),)), ((), (random(2, 0),)), ((), (random(1, 3, 0),))],
    "reshape": [((2, 3, 2), (random(2, 3, 4),)), ((0, 1), (random(),)), ((2, 0), (random(0, 3),))],
}
SYMMETRIC = ("cholesky", "eigvalsh", "eigenvectors")
CONDITION = {"expm_chain": 1e3, "eigenvectors": 100.0, "pseudo_inverse": 10.0, "log_determinant": 1.0}
"""Records whose values are less accurate than rounding: by which factor of their size."""


def as_dtype(operands: Arrays, dtype: Any) -> Arrays:
    return tuple(x.astype(dtype) if x.dtype.kind == "f" else x for x in operands)


def run_record(target: Target, name: str, params: tuple[Any, ...], operands: Arrays) -> np.ndarray:
    return comparable(name, target.run(partial(target.records.kernel(name), params), operands))


def comparable(name: str, value: np.ndarray) -> np.ndarray:
    """Eigenvectors with positive first entries: their signs are nobody's choice."""
    return np.where(value[..., :1, :] < 0, -value, value) if name == "eigenvectors" else value


def assert_record_close(name: str, found: np.ndarray, expected: np.ndarray, dtype: Any) -> None:
    finite = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    assert_close(found, expected, dtype, CONDITION.get(name, 0.1) * finite)


def test_the_cases_cover_the_records() -> None:
    assert set(RECORD_CASES) == set(OPERATIONS)


@over_dtypes
@over_targets
@over_records
def test_records(name: str, target: Target, dtype: Any) -> None:
    record = OPERATIONS[name]
    for params, operands in RECORD_CASES[name]:
        arrays = as_dtype(operands, dtype)
        copies = [array.copy() for array in arrays]
        found = run_record(target, name, params, arrays)
        assert found.shape == record.shape(tuple(array.shape for array in arrays), params)
        integer = isinstance(record, General) and record.kind == "integer"
        assert found.dtype == (np.int64 if integer else dtype)
        assert_record_close(name, found, run_record(NUMPY, name, params, arrays), dtype)
        for array, copy in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(array, copy)


@over_records
def test_batched_records(name: str) -> None:
    """`vmap` of two points, the second being the first but for its order or its factor."""
    for params, operands in RECORD_CASES[name]:
        others = tuple(x[::-1].copy() if x.ndim and x.dtype.kind == "i" else x * 1 for x in operands)
        stacked = [np.stack(pair) for pair in zip(operands, others, strict=True)]
        expected = np.stack([run_record(NUMPY, name, params, point) for point in (operands, others)])
        by_jax = fast_jit(jax.vmap(partial(JAX.records.kernel(name), params)))(*stacked)
        by_torch = torch.func.vmap(partial(TORCH.records.kernel(name), params))(*map(torch.tensor, stacked))
        for found in (by_jax, by_torch):
            assert_record_close(name, comparable(name, np.asarray(found)), expected, np.float64)


def test_records_in_one_graph_of_torch() -> None:
    cases = {name: RECORD_CASES[name][1] for name in OPERATIONS}
    kernels = {name: TORCH.records.kernel(name) for name in OPERATIONS}

    def run(operands: Any) -> Any:
        return {name: kernel(cases[name][0], *operands[name]) for name, kernel in kernels.items()}

    operands = {name: [torch.tensor(x) for x in arrays] for name, (_, arrays) in cases.items()}
    for name, found in torch.compile(run, fullgraph=True, backend="eager")(operands).items():
        expected = run_record(NUMPY, name, *cases[name])
        assert_record_close(name, comparable(name, np.asarray(found)), expected, np.float64)


DIFFERENTIABLE = [name for name, record in OPERATIONS.items() if any(getattr(record, "partials", (True,)))]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_of_records(name: str) -> None:
    params, operands = RECORD_CASES[name][0]
    if name == "expm_chain":
        operands = (operands[0][:2] / 10,)
    inputs = {f"x{k}": x for k, x in enumerate(operands) if x.dtype.kind == "f"}
    indices = operands[len(inputs) :]
    node = operation(
        name, *(variable(key, x.shape) for key, x in inputs.items()), *map(constant, indices), params=params
    )
    kernels = {
        "jax": lambda *x: JAX.records.kernel(name)(params, *x, *map(jnp.asarray, indices)),
        "torch": lambda *x: TORCH.records.kernel(name)(params, *x, *map(torch.tensor, indices)),
    }
    own = own_gradients(node, inputs)
    for gradients in library_gradients(kernels, tuple(inputs.values())):
        for found, expected in zip(gradients, own, strict=True):
            if name in SYMMETRIC:
                found, expected = found + found.T, expected + expected.T  # noqa: PLW2901
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("target", [TORCH, JAX], ids=["torch", "jax"])
def test_derivatives_of_a_batch_of_exponentials(target: Target) -> None:
    """A matrix that is done with doubling must not spoil the derivative of the others, nor its own."""
    matrices = np.stack([400.0 * np.eye(2) + random(2, 2), 1e3 * np.array([[0.0, 1.0], [-1.0, 0.0]])])
    kernel = target.records.kernel("expm_chain")
    if target is TORCH:
        tensor = torch.tensor(matrices, requires_grad=True)
        (found,) = torch.autograd.grad(kernel((1,), tensor).sum(), tensor)
    else:
        found = fast_jit(jax.grad(lambda a: kernel((1,), a).sum()))(matrices)
    a = variable("a", matrices.shape)
    (gradient,) = reverse(total(operation("expm_chain", a, params=(1,)), range(3)), [a])
    expected = naive.evaluate(gradient, {"a": matrices})
    for one, other in zip(np.asarray(found), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())


def test_exponentials_beyond_the_most_doublings_are_nan_where_values_are_hidden() -> None:
    matrices = (
        np.array([[[0.0, 1.0], [-1.0, 0.0]]]) * np.array([1.0, 2.0 ** (MOST_DOUBLINGS + 3)])[:, None, None]
    )
    found = np.asarray(JAX.records.kernel("expm_chain")((1,), matrices))
    np.testing.assert_allclose(found[0, 0], [math.cos(1.0), math.sin(1.0)])
    assert np.isnan(found[1]).all()


@pytest.mark.parametrize("name", ["inverse", "solve", "cholesky"])
def test_singular_matrices_raise_in_torch(name: str) -> None:
    operands = [torch.zeros(2, 2), torch.ones(2)][: 2 if name == "solve" else 1]
    with pytest.raises(torch.linalg.LinAlgError):
        TORCH.records.kernel(name)((), *operands)


def test_positions_outside_of_an_array() -> None:
    index = np.array([0, 3])
    for target in (NUMPY, TORCH):
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            run_record(target, "gather", (), (random(3), index))
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            run_record(target, "scatter", (3,), (random(2), index))
    assert np.isnan(run_record(JAX, "gather", (), (random(3), index))[1])
    np.testing.assert_array_equal(run_record(JAX, "scatter", (3,), (np.ones(2), index)), [1.0, 0.0, np.nan])


@over_targets
def test_a_missing_kernel_is_one_clear_error(target: Target) -> None:
    where = target.rows.__name__
    with pytest.raises(MissingKernelError, match=rf"{where}.KERNELS has no kernel for log_cosh; add one"):
        target.rows.kernel("log_cosh")
    with pytest.raises(HesseError, match="has no kernel for fold"):
        target.records.kernel("fold")
