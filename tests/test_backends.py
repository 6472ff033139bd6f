"""Every operation of the tables in every target, by programs: NumPy is what the others are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import hesse
import naive
from hesse.backends.numpy import make_plan
from hesse.backends.target import target_named
from hesse.calculus import differentiate
from hesse.ir import Node, label_axis, map_, total, variable
from hesse.ops.registry import ELEMENTWISE, OPERATIONS, Elementwise, elementwise, operation
from hesse.plan.program import CallApply, CallMap, Combine, Contract, Load, Placed, Program, View
from libraries import JAX, NUMPY, TORCH, Library, dtype_name, over_libraries, plain, values_of
from test_elementwise_table import points
from test_operation_records import CASES, KERNEL_INPUTS, Case, definite

others = pytest.mark.parametrize("library", [TORCH, JAX], ids=lambda library: library.name)
over_dtypes = pytest.mark.parametrize("dtype", ["float64", "float32"])
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}
FACTORISATIONS = 100.0
"""Inverses, eigenvectors and the like are by so much less accurate."""


def assert_near(found: Any, expected: Any, dtype: str, looser: float = 1.0) -> None:
    """Equal up to rounding, relative to the largest entry."""
    assert dtype_name(found) == dtype_name(expected).replace("intp", "int64")
    found, expected = plain(found), np.asarray(expected)
    assert found.shape == expected.shape
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=looser * TOLERANCE[dtype])


def calls(roots: list[Node], kind: type[CallMap] | type[CallApply]) -> set[str]:
    """The names of the operations that a program calls."""
    return {item.name for item in make_plan(roots).instructions if isinstance(item, kind)}


@over_dtypes
@others
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_rows(name: str, library: Library, dtype: str) -> None:
    """The value inside the domain and, in double precision, the derivatives by all operands."""
    values = {f"x{k}": row for k, row in enumerate(points(ELEMENTWISE[name].sample))}
    variables = [variable(label, row.shape) for label, row in values.items()]
    node = elementwise(name, *variables)
    roots = [node]
    if dtype == "float64":
        roots += differentiate(total(node, [0]), variables, "reverse")
    assert {"chosen": "not_equal"}.get(name, name) in calls(roots, CallMap)  # a choice is a number there
    expected = values_of(roots, values, NUMPY, dtype)
    np.testing.assert_allclose(
        expected[0], naive.ELEMENTWISE[name](*values.values()), rtol=10 * TOLERANCE[dtype]
    )
    for found, value in zip(values_of(roots, values, library, dtype), expected, strict=True):
        assert_near(found, value, dtype, 10.0 if name == "polygamma" else 1.0)


@over_dtypes
@others
@pytest.mark.parametrize("name", OPERATIONS)
def test_records(name: str, library: Library, dtype: str) -> None:
    params, operands = KERNEL_INPUTS.get(name, ((), (definite(2, 3, 3),)))
    values = {f"x{k}": operand for k, operand in enumerate(operands)}
    kinds = ["real" if operand.dtype.kind == "f" else "integer" for operand in operands]
    variables = [
        variable(label, operand.shape, kind=kind)
        for (label, operand), kind in zip(values.items(), kinds, strict=True)
    ]
    roots = [operation(name, *variables, params=params)]
    if name not in ("reshape", "vec", "kron"):  # einsums, where sizes are known
        assert name in calls(roots, CallApply)
    (expected,) = values_of(roots, values, NUMPY, dtype)
    (found,) = values_of(roots, values, library, dtype)
    looser = FACTORISATIONS if OPERATIONS[name] in LINALG else 1.0
    if name == "eigenvectors":
        found, expected = found * found, expected * expected  # their signs are arbitrary
    assert_near(found, expected, dtype, looser)


LINALG = [
    OPERATIONS[name]
    for name in (
        *(
            "inverse",
            "determinant",
            "adjugate",
            "minors",
            "log_determinant",
            "solve",
            "cholesky",
            "pseudo_inverse",
        ),
        "triangular_solve",
        *("eigvalsh", "eigenvectors", "expm_chain"),
    )
]


@others
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_derivatives_of_records(case: Case, library: Library) -> None:
    """The value and the first derivative of functions of records."""
    x = variable("x", case.point.shape)
    node = case.function(x)
    roots = [node, *differentiate(node, [x], "reverse")]
    expected = values_of(roots, {"x": case.point}, NUMPY, "float64")
    for found, value in zip(values_of(roots, {"x": case.point}, library, "float64"), expected, strict=True):
        assert_near(found, value, "float64", FACTORISATIONS)


@over_libraries
def test_a_row_without_a_kernel_has_a_definition(library: Library, log_cosh: Elementwise) -> None:
    x = np.linspace(-3.0, 3.0, 7)

    def function(x: Any, k: Any) -> Any:
        return np.sum(k * hesse.frontends.Expression(map_("log_cosh", hesse.frontends.as_node(x * x))))

    derivative = hesse.value_and_grad(function, backend=library.name)
    if log_cosh.definition is None:
        with pytest.raises(hesse.MissingKernelError, match=rf"\.{library.name}\..*kernel for log_cosh"):
            derivative(x, 2.0)
        return
    for call in (derivative, derivative.bind(k=2.0)):
        value, slope = call(x) if call is not derivative else call(x, 2.0)
        np.testing.assert_allclose(value, 2.0 * np.sum(np.log(np.cosh(x * x))), rtol=1e-13)
        np.testing.assert_allclose(slope, 4.0 * x * np.tanh(x * x), rtol=1e-13)


@pytest.mark.parametrize("log_cosh", [True], indirect=True)
def test_formulas_with_such_a_row_are_verified(log_cosh: Elementwise) -> None:
    formula = hesse.parse("sum(log_cosh(x))")
    assert str(formula.diff("x")) == "tanh(x)"
    np.testing.assert_allclose(formula.evaluate(x=np.array([0.5, -1.0])), np.log(np.cosh([0.5, -1.0])).sum())


@over_libraries
def test_a_view_outlives_its_source(library: Library) -> None:
    """A product is read for the last time by a sum, but a view of it is read later: it must stay."""
    i, j = label_axis(0), label_axis(1)
    product = Placed(2, 1.0, (0, 1), (i, j), (3, 3))
    diagonal = Placed(4, 1.0, (0,), (i, i), (3,))
    instructions = (
        Load("x"),
        Load("w"),
        Contract(1, 0, (0, 1), (0,), (0, 1)),
        View(2, (i, j), (1, 0), (3, 3)),
        CallMap("sin", (0,)),
        Combine((product, diagonal), True),
        CallMap("exp", (3,)),
    )
    shapes = ((3,), (3, 3), (3, 3), (3, 3), (3,), (3, 3), (3, 3))
    program = Program(instructions, shapes, (0.0,) * 7, (5, 6), 0)
    x, w = np.array([0.5, -1.0, 2.0]), np.arange(9.0).reshape(3, 3) / 9
    target = target_named(library.name)
    arrays = [library.array(x), library.array(w)]
    compiled = target.compile(target.passes(program), ["x", "w"], arrays[0].dtype, True, ())
    summed, mapped = compiled.function(*arrays)
    np.testing.assert_allclose(plain(summed), w * x[:, None] + np.diag(np.sin(x)), rtol=1e-14)
    np.testing.assert_allclose(plain(mapped), np.exp((w * x[:, None]).T), rtol=1e-14)


STRIDED = {
    "every second entry": lambda x: torch.stack([x, x + 9.0], -1).reshape(-1)[::2],
    "a column": lambda x: torch.stack([x, x + 9.0], -1)[:, 0],
    "with an offset": lambda x: torch.cat([x.new_full((3,), 9.0), x])[3:],
    "repeated": lambda x: x[:1].expand(len(x)),
}


@pytest.mark.parametrize("form", STRIDED)
def test_strided_tensors(form: str) -> None:
    """Windows, reversals and diagonals read the entries of the tensor, not those that lie beside them."""

    def function(x: Any) -> Any:
        windows = hesse.unfold(x, 3) @ np.array([1.0, -2.0, 0.5])
        return np.sum(windows**3) + np.sum(np.exp(x[::-1]) * x**2) + np.sum(np.diagonal(x[:, None] * x) ** 2)

    x = STRIDED[form](torch.linspace(-1.0, 1.0, 8, dtype=torch.float64))
    found = hesse.hessian(function)(x)
    np.testing.assert_allclose(
        found.numpy(), hesse.hessian(function)(x.numpy().copy()), rtol=1e-12, atol=1e-12
    )


def test_jax_without_jit_shares_no_memory() -> None:
    derivative = hesse.grad(lambda x: np.sum(np.arange(3.0) * x)).compile(backend="jax", jit=False)
    derivative(np.ones(3))[...] = -1.0
    np.testing.assert_array_equal(derivative(np.ones(3)), [0.0, 1.0, 2.0])


def test_bound_tensors_that_are_cast_keep_their_gradients() -> None:
    weights = torch.ones(3, requires_grad=True)
    bound = hesse.grad(lambda x, k: np.sum(np.exp(k) * x**3)).bind(k=weights)
    x = torch.ones(3, dtype=torch.float64)
    with torch.no_grad():
        bound(x)
    assert bound(x).requires_grad


def test_settings_of_special_functions_are_read_at_every_call() -> None:
    slope, x = torch.tensor(0.5), -torch.ones(2)
    assert hesse.leaky_relu(x, slope).tolist() == [-0.5, -0.5]
    slope.fill_(0.25)
    assert hesse.leaky_relu(x, slope).tolist() == [-0.25, -0.25]
