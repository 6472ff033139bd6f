"""What is said about derivatives: their structure, cost and matrix form."""

from __future__ import annotations

import numpy as np
import pytest

import hesse
from hesse.answers import Question, answer, cost, structure
from hesse.errors import ArgumentError

BLOCKS = "block-diagonal: zero unless the indices of axis 1 agree"
SUMMARIES = [
    ("sum(exp(x))", ["x", "x"], "diagonal"),
    ("x'*x", ["x", "x"], "a multiple of the identity"),
    ("x'*A*x", ["x", "x"], "dense"),
    ("sum(x)", ["x", "x"], "zero"),
    ("exp(x)", ["x", "x"], "sparse"),
    ("kron(A,B)*x", ["A"], "sparse"),
    ("norm2(A*x - y)^2", ["x", "A"], "dense, with terms that have repeated axes"),
    (
        "norm2(T - U*V')^2",
        ["U", "U"],
        f"{BLOCKS}, all blocks equal",
    ),
    ("norm2(M.*(T - U*V'))^2", ["U", "U"], BLOCKS),
    ("norm2(M.*(T - U*V'))^2", ["V", "V"], BLOCKS),
]


@pytest.mark.parametrize(("formula", "by", "summary"), SUMMARIES)
def test_structure_is_that_of_the_values(formula: str, by: list[str], summary: str) -> None:
    """The words, and the cells of the drawing: exactly where a derivative at a random point is not zero."""
    derivative = hesse.parse(formula).diff(*by)
    found = structure(derivative)
    assert found is not None
    assert found.summary == summary
    generator = np.random.default_rng(0)
    values = {}
    for variable in derivative.variables:
        shape = [
            int(np.prod([found.sizes[part] for part in size.split("*")])) if isinstance(size, str) else size
            for size in variable.shape
        ]
        values[variable.name] = generator.uniform(0.5, 1.5, shape)
    dense = derivative.evaluate(**values).reshape(found.rows, found.columns)
    cells = np.array(found.cells)
    if cells.shape == dense.shape:  # else several entries share a cell
        np.testing.assert_array_equal(cells >= 0, dense != 0)


@pytest.mark.parametrize("formula", ["x'*A*x", "a^2"])
def test_no_structure_without_a_matrix(formula: str) -> None:
    """A gradient, or a number, is not drawn."""
    derivative = hesse.parse(formula)
    assert structure(derivative.diff("x" if "x" in formula else "a")) is None
    assert structure(derivative) is None


def test_cost_is_that_of_the_arrays() -> None:
    """Bytes are those of the dense and of the structured result for such arrays."""
    sizes = {"m": 30, "k": 4, "n": 20}
    generator = np.random.default_rng(0)
    M, T, U, V = (generator.normal(size=shape) for shape in [(30, 20), (30, 20), (30, 4), (20, 4)])
    found = cost(hesse.parse("norm2(M.*(T - U*V'))^2").diff("U", "U"), sizes)

    def loss(U: np.ndarray, V: np.ndarray, M: np.ndarray, T: np.ndarray) -> np.ndarray:
        return np.sum((M * (T - U @ V.T)) ** 2)

    structured = hesse.hessian(loss, form="structured")(U, V, M, T)
    assert found.dense_bytes == structured.dense().nbytes
    assert found.structured_bytes == structured.nbytes
    assert found.shape == structured.shape


def test_sizes_of_a_cost() -> None:
    """Sizes have names and limits."""
    derivative = hesse.parse("x'*x").diff("x")
    with pytest.raises(ArgumentError, match="there is no size q in the formula; it has n"):
        cost(derivative, {"q": 1})
    with pytest.raises(ArgumentError, match="the size n must be from 1 to 1,000,000,000, not 0"):
        cost(derivative, {"n": 0})
    assert cost(derivative, {}).sizes == {"n": 100}


def test_matrix_forms_are_for_matrices() -> None:
    """A third derivative by a vector is left in index notation."""
    assert answer(Question("norm2(A*x - y)", ("x", "x", "x"))).kronecker is None
    assert answer(Question("x*x'", ("x",))).kronecker is not None
