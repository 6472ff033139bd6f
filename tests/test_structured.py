"""Structured tensors: every operation agrees with the dense tensor, for random patterns and real derivatives.

The random tensors are drawn as lists of terms, and their dense form is added up entry by entry from those,
so that the reference shares nothing with the constructors.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot
from scipy.sparse.linalg import cg

import hesse
from hesse import ArgumentError, HesseError, ShapeError, Structured
from hesse.ir import Axis, Node, add, einsum, variable, zero
from hesse.structured.plot import raster

mpl.use("Agg")

TOLERANCE = 1e-10

GROUPS = [(0, 1), (1, 1), (2, 1), (0, 1, 1), (1, 1, 1), (0, 2, 2), (0, 1, 1, 1)]
"""Ranks of the groups of axes of the random tensors: derivatives of orders 1 to 3."""


LARGEST_BOX = 600
"""Terms range over at most this many points."""


class RandomTerm(NamedTuple):
    """A term as it was drawn: shapes and axes of its factors, output axes, label ranges, scale."""

    shapes: tuple[tuple[int, ...], ...]
    axes: tuple[tuple[Axis, ...], ...]
    output: tuple[Axis, ...]
    ranges: tuple[int, ...]
    scale: float


class RandomTensor(NamedTuple):
    """A structured tensor and its dense form."""

    tensor: Structured
    dense: np.ndarray
    groups: tuple[int, ...]


def span(axis: Axis, ranges: Sequence[int]) -> tuple[int, int]:
    """Smallest and largest value of an axis."""
    ends = [stride * (ranges[label] - 1) for label, stride in axis.terms]
    return axis.offset + sum(min(0, end) for end in ends), axis.offset + sum(max(0, end) for end in ends)


class Chooser:
    """Draws terms with every kind of axis: plain, repeated, shifted, flipped, strided, mixed radix, constant."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ranges: list[int] = []

    def label(self, longest: int) -> int:
        """A label of at most this range: an old one, or a new one (mostly as long as it may be)."""
        fitting = [label for label, size in enumerate(self.ranges) if size <= longest]
        if fitting and self.random.random() < 0.55:
            return self.random.choice(
                [*fitting, *(label for label in fitting if self.ranges[label] == longest)]
            )
        room = LARGEST_BOX // math.prod(self.ranges)
        size = longest if self.random.random() < 0.7 else self.random.randint(1, longest)
        self.ranges.append(min(size, room))
        return len(self.ranges) - 1

    def output(self, size: int) -> Axis:
        """An axis that stays inside of `size`."""
        kind = self.random.choices(["plain", "strided", "digits", "constant"], [6, 3, 2, 1])[0]
        if kind == "constant":
            return Axis((), self.random.randrange(size))
        stride = self.random.choice([1, 1, 2, 3]) if kind == "strided" else 1
        terms = {self.label((size - 1) // stride + 1 if kind != "digits" else max(1, size // 2)): stride}
        if kind == "digits":
            (low,) = terms
            radix = self.ranges[low]
            terms.setdefault(self.label(max(1, size // radix)), radix)
        if kind != "plain" and self.random.random() < 0.4:
            terms = {label: -stride for label, stride in terms.items()}
        low, high = span(Axis(tuple(terms.items()), 0), self.ranges)
        return Axis(tuple(sorted(terms.items())), self.random.randint(0, size - 1 - (high - low)) - low)

    def factor(self) -> tuple[tuple[Axis, ...], tuple[int, ...]]:
        """Axes and shape of a factor: mostly plain labels of the output, some summed."""
        axes, shape = [], []
        for _ in range(self.random.choice([0, 1, 1, 2, 2, 3])):
            terms = {self.label(3): 1}
            if self.ranges and self.random.random() < 0.8:
                terms = {self.random.randrange(len(self.ranges)): self.random.choice([1, 1, 1, 1, -1, 2])}
            if self.random.random() < 0.15:
                terms[self.random.randrange(len(self.ranges))] = self.random.choice([1, -1, 3])
            low, high = span(Axis(tuple(terms.items()), 0), self.ranges)
            slack = self.random.choice([0, 0, 1, 2])
            axes.append(Axis(tuple(sorted(terms.items())), self.random.randint(0, slack) - low))
            shape.append(high - low + 1 + slack)
        return tuple(axes), tuple(shape)

    def term(self, shape: tuple[int, ...]) -> RandomTerm:
        """A term of a tensor of this shape."""
        self.ranges = []
        output = tuple(map(self.output, shape))
        factors = [self.factor() for _ in range(self.random.choice([0, 1, 1, 2, 2, 3]))]
        return RandomTerm(
            tuple(sizes for _, sizes in factors),
            tuple(axes for axes, _ in factors),
            output,
            tuple(self.ranges),
            self.random.choice([1.0, -2.0, 0.5]),
        )

    def shape(self, groups: Sequence[int]) -> tuple[int, ...]:
        """The shape of a derivative: the result's axes, then those of the variable for each order."""
        sizes = [2, 3, 4, 6] if sum(groups) <= 2 else [1, 2, 3, 4]
        one = tuple(self.random.choice(sizes) for _ in range(groups[-1]))
        square = groups[0] == groups[-1] and self.random.random() < 0.5
        lead = one if square else tuple(self.random.choice(sizes) for _ in range(groups[0]))
        return lead + one * (len(groups) - 1)


def random_tensor(seed: int, groups: tuple[int, ...]) -> RandomTensor:
    """A sum of up to three random terms."""
    chooser = Chooser(seed)
    shape = chooser.shape(groups)
    terms = [chooser.term(shape) for _ in range(chooser.random.choice([0, 1, 1, 1, 2, 2, 2, 3, 3, 3]))]
    return assembled(terms, shape, groups, np.random.default_rng(seed))


SEEDS = st.integers(0, 2**32 - 1)


def assembled(
    terms: Sequence[RandomTerm],
    shape: tuple[int, ...],
    groups: tuple[int, ...],
    generator: np.random.Generator,
) -> RandomTensor:
    """The tensor by the constructors, and the dense one entry by entry."""
    values: dict[str, np.ndarray] = {}
    nodes: list[Node] = []
    dense = np.zeros(shape)
    for term in terms:
        factors = [generator.normal(size=factor) for factor in term.shapes]
        names = [f"part{len(values) + k}" for k in range(len(factors))]
        values.update(zip(names, factors, strict=True))
        operands = [variable(name, factor) for name, factor in zip(names, term.shapes, strict=True)]
        nodes.append(einsum(operands, term.axes, term.output, shape, term.ranges, term.scale))
        for point in itertools.product(*map(range, term.ranges)):
            entry = term.scale
            for factor, axes in zip(factors, term.axes, strict=True):
                entry *= factor[position(axes, point)]
            dense[position(term.output, point)] += entry
    return RandomTensor(Structured(add(nodes, shape), values, groups), dense, groups)


def position(axes: Sequence[Axis], point: Sequence[int]) -> tuple[int, ...]:
    """Where the axes point."""
    return tuple(axis.offset + sum(stride * point[label] for label, stride in axis.terms) for axis in axes)


def assert_same(found: Any, dense: Any, what: str = "", tolerance: float = TOLERANCE) -> None:
    """Equal shapes and entries, relative to the largest entry."""
    found, dense = np.asarray(found), np.asarray(dense)
    assert found.shape == dense.shape, f"{what}: shape {found.shape} instead of {dense.shape}"
    error = np.abs(found - dense).max(initial=0.0)
    assert error <= tolerance * np.abs(dense).max(initial=1.0), f"{what}: error {error:.1e}"


def check_operations(
    tensor: Structured, dense: np.ndarray, groups: Sequence[int], tolerance: float = TOLERANCE
) -> None:
    """All operations of a tensor against its dense form."""
    generator = np.random.default_rng(7)
    rank = groups[-1]
    columns = dense.shape[dense.ndim - rank :]
    assert tensor.shape == dense.shape and tensor.ndim == dense.ndim
    assert_same(tensor.dense(), dense, "dense", tolerance)
    assert_same(np.asarray(tensor), dense, "__array__", tolerance)
    for extra in [(), (2,), (2, 3)]:
        vector = generator.normal(size=columns + extra)
        expected = np.tensordot(dense, vector, axes=rank)
        assert_same(tensor @ vector, expected, "@", tolerance)
        assert_same(tensor.matvec(vector), expected, "matvec", tolerance)
    assert_same((tensor * 3).dense(), 3 * dense, "*", tolerance)
    assert_same((0.5 * tensor).dense(), dense / 2, "*", tolerance)
    assert_same((tensor / 4).dense(), dense / 4, "/", tolerance)
    assert_same((-tensor).dense(), -dense, "negative", tolerance)
    assert_same((tensor + 2 * tensor).dense(), 3 * dense, "+", tolerance)
    assert_same((tensor - tensor).dense(), 0 * dense, "-", tolerance)
    check_matrix_view(tensor, dense, rank, tolerance)
    check_transpose(tensor, dense, groups, tolerance)
    if len(groups) > 1 and dense.shape[dense.ndim - 2 * rank : dense.ndim - rank] == columns and rank:
        check_square_operations(tensor, dense, rank, tolerance)


def check_transpose(tensor: Structured, dense: np.ndarray, groups: Sequence[int], tolerance: float) -> None:
    """T exchanges the two last groups, and products with it agree."""
    if len(groups) < 2:
        return
    *lead, rows, _ = groups
    start = sum(lead)
    order = [*range(start), *range(start + rows, dense.ndim), *range(start, start + rows)]
    expected = dense.transpose(order)
    assert_same(tensor.T.dense(), expected, "T", tolerance)
    vector = np.random.default_rng(8).normal(size=expected.shape[dense.ndim - rows :])
    assert_same(tensor.T @ vector, np.tensordot(expected, vector, axes=rows), "T @", tolerance)
    assert_same((tensor.T.T - tensor).dense(), 0 * dense, "T.T", tolerance)


def check_matrix_view(tensor: Structured, dense: np.ndarray, rank: int, tolerance: float) -> None:
    """The sparse matrix, the linear operator and the picture."""
    generator = np.random.default_rng(9)
    columns = int(np.prod(dense.shape[dense.ndim - rank :]))
    matrix = dense.reshape(-1, columns)
    for layout in ("csr", "csc", "coo"):
        found = tensor.to_sparse(layout)
        assert found.format == layout
        assert_same(found.toarray(), matrix, f"to_sparse {layout}", tolerance)
    operator = tensor.to_linear_operator()
    assert operator.shape == matrix.shape
    right, left = generator.normal(size=columns), generator.normal(size=len(matrix))
    assert_same(operator @ right, matrix @ right, "operator", tolerance)
    assert_same(operator.rmatvec(left), matrix.T @ left, "rmatvec", tolerance)
    many = generator.normal(size=(columns, 3))
    assert_same(operator @ many, matrix @ many, "matmat", tolerance)
    assert_same(operator.H @ generator.normal(size=(len(matrix), 2)) * 0, np.zeros((columns, 2)), "rmatmat")
    drawn = raster(tensor._node, rank) >= 0
    assert not (matrix[~drawn] != 0).any(), "the picture has every entry"


def check_square_operations(tensor: Structured, dense: np.ndarray, rank: int, tolerance: float) -> None:
    """What needs two equal groups at the end."""
    lead = dense.shape[: dense.ndim - 2 * rank]
    columns = dense.shape[dense.ndim - rank :]
    size = int(np.prod(columns))
    matrices = dense.reshape(*lead, size, size)
    vector = np.random.default_rng(10).normal(size=columns)
    flat = vector.ravel()
    assert_same(tensor.quadratic(vector), matrices @ flat @ flat, "quadratic", 10 * size * tolerance)
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    assert_same(tensor.diagonal(), diagonal.reshape(lead + columns), "diagonal", tolerance)
    assert_same(tensor.trace(), diagonal.sum(-1), "trace", tolerance)
    for depth in range(1, rank + 1):
        index = tuple(n // 2 for n in columns[:depth])
        expected = dense[
            (..., *index, *[slice(None)] * (rank - depth), *index, *[slice(None)] * (rank - depth))
        ]
        block = tensor.block(*index)
        assert_same(block.dense(), expected, f"block{index}", tolerance)
        last = tensor.block(*(at - n for at, n in zip(index, columns, strict=False)))
        assert_same(last.dense(), expected, "block from the end", tolerance)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(GROUPS))
def test_random_patterns(seed: int, groups: tuple[int, ...]) -> None:
    drawn = random_tensor(seed, groups)
    check_operations(drawn.tensor, drawn.dense, drawn.groups)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS)
def test_sums_of_random_tensors(seed: int) -> None:
    chooser, generator = Chooser(seed), np.random.default_rng(seed)
    shape = chooser.shape((0, 1, 1))
    terms = [chooser.term(shape) for _ in range(3)]
    one, two, three = (assembled(part, shape, (0, 1, 1), generator) for part in (terms, terms[:2], terms[1:]))
    total, dense = one.tensor + (two.tensor - 2 * three.tensor), one.dense + two.dense - 2 * three.dense
    check_operations(total, dense, (0, 1, 1))
    check_operations(three.tensor + total, dense + three.dense, (0, 1, 1))


class Problem(NamedTuple):
    """A derivative of a function at a point."""

    function: Callable[..., Any]
    point: np.ndarray
    order: int = 2

    def structured(self) -> Structured:
        """The structured form."""
        return hesse.derivative(self.function, self.order, form="structured")(self.point)  # type: ignore[no-any-return]

    def dense(self) -> np.ndarray:
        """The dense form."""
        return np.asarray(hesse.derivative(self.function, self.order)(self.point))

    def groups(self) -> tuple[int, ...]:
        """The ranks of the groups of axes."""
        value = np.asarray(self.function(self.point))
        return (value.ndim, *(self.point.ndim,) * self.order)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers that are always the same."""
    return np.random.default_rng(seed).normal(size=shape)


TARGET, RIGHT, MASK = normal(8, 7, seed=1), normal(7, 3, seed=2), (normal(8, 7, seed=3) > -0.5) * 1.0
WIDE, TALL = normal(3, 10, seed=4), normal(40, 10, seed=5)
KERNEL = normal(3, 3, seed=6)
KEYS, VALUES = normal(5, 3, seed=7), normal(5, 2, seed=8)
CUBE, SECOND, THIRD = normal(6, 5, 4, seed=9), normal(5, 3, seed=10), normal(4, 3, seed=11)
DYNAMICS = normal(3, 3, seed=12) / 2
LEFT, OTHER = normal(4, 4, seed=13), normal(5, 5, seed=14)


def factorisation(left: Any) -> Any:
    return np.sum((TARGET - left @ RIGHT.T) ** 2)


def masked_factorisation(left: Any) -> Any:
    return np.sum(MASK * (TARGET - left @ RIGHT.T) ** 2)


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def log_determinant(matrix: Any) -> Any:
    return np.linalg.slogdet(matrix)[1]


def logistic(data: np.ndarray) -> Callable[[Any], Any]:
    return lambda w: np.sum(hesse.softplus(-(data @ w))) + 0.5 * np.sum(w**2)


def pair_potential(points: Any) -> Any:
    difference = points[:, None, :] - points[None, :, :]
    return np.sum(np.exp(-0.5 * np.sum(difference**2, axis=-1)))


def parafac(first: Any) -> Any:
    return np.sum((CUBE - np.einsum("ir,jr,kr->ijk", first, SECOND, THIRD)) ** 2)


def batch_as_sum(x: Any) -> Any:
    return np.sum(np.sum(np.tanh(x) ** 2, axis=-1) ** 2)


def stencil(u: Any) -> Any:
    return np.sum((u[1:] - u[:-1]) ** 2) + np.sum((u[:, 1:] - u[:, :-1]) ** 2) + np.sum(u**4)


def convolution(x: Any) -> Any:
    size = 4
    return np.tanh(sum(KERNEL[a, b] * x[a : a + size, b : b + size] for a in range(3) for b in range(3)))


def attention(queries: Any) -> Any:
    return hesse.softmax(queries @ KEYS.T) @ VALUES


def control(states: Any) -> Any:
    return np.sum((states[1:] - np.tanh(states[:-1]) @ DYNAMICS) ** 2) + np.sum(states**2)


def flattened_factorisation(x: Any) -> Any:
    return masked_factorisation(x.reshape(8, 3)) + np.sum(x**2)


def positive(size: int, seed: int = 0) -> np.ndarray:
    """A symmetric positive definite matrix."""
    matrix = normal(size, size, seed=seed)
    return matrix @ matrix.T + size * np.eye(size)


PROBLEMS: dict[str, Problem] = {
    "factorisation": Problem(factorisation, normal(8, 3)),
    "masked factorisation": Problem(masked_factorisation, normal(8, 3)),
    "Rosenbrock": Problem(rosenbrock, normal(12)),
    "log-determinant": Problem(log_determinant, positive(4)),
    "logistic, few examples": Problem(logistic(WIDE), normal(10)),
    "logistic, many examples": Problem(logistic(TALL), normal(10)),
    "pair potential": Problem(pair_potential, normal(6, 3)),
    "PARAFAC": Problem(parafac, normal(6, 3)),
    "batch as sum": Problem(batch_as_sum, normal(7, 3)),
    "2-d stencil": Problem(stencil, normal(6, 5)),
    "optimal control": Problem(control, normal(9, 3)),
    "flattened factorisation": Problem(flattened_factorisation, normal(24)),
    "third derivative, logistic": Problem(logistic(WIDE), normal(10), order=3),
    "third derivative, Rosenbrock": Problem(rosenbrock, normal(7), order=3),
    "gradient": Problem(rosenbrock, normal(7), order=1),
    "Jacobian, convolution": Problem(convolution, normal(6, 6), order=1),
    "Jacobian, attention": Problem(attention, normal(4, 3), order=1),
    "second derivative, attention": Problem(attention, normal(2, 3), order=2),
    "Jacobian, product": Problem(lambda x: LEFT @ x @ OTHER, normal(4, 5), order=1),
    "zero": Problem(lambda x: np.sum(TALL**2) + 0.0 * np.sum(x), normal(5)),
    "size one": Problem(lambda x: np.sum(x**3) ** 2, normal(1, 1)),
    "column": Problem(lambda u: np.sum((TARGET - u @ RIGHT[:, :1].T) ** 2), normal(8, 1)),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_derivatives(name: str) -> None:
    problem = PROBLEMS[name]
    check_operations(problem.structured(), problem.dense(), problem.groups())


@pytest.mark.parametrize("name", PROBLEMS)
def test_single_precision(name: str) -> None:
    problem = PROBLEMS[name]
    single = problem._replace(point=problem.point.astype(np.float32))
    tensor, dense = single.structured(), problem.dense()
    assert_same(tensor.dense(), dense, "dense", 1e-4)
    vector = np.ones(problem.point.shape, np.float32)
    assert_same(tensor @ vector, np.tensordot(dense, vector, axes=vector.ndim), "@", 1e-3)
    if tensor.terms and tensor.nbytes:
        assert tensor.dtype == np.float32
        assert (tensor @ vector).dtype == np.float32
        assert tensor.T.dtype == (2 * tensor).dtype == tensor.to_sparse().dtype == np.float32


def test_terms_hold_the_factors() -> None:
    (term,) = PROBLEMS["log-determinant"].structured().terms
    inverse = np.linalg.inv(PROBLEMS["log-determinant"].point)
    assert term.pattern == "ijkl" and term.scale == -1.0
    assert [factor.shape for factor in term.factors] == [(4, 4), (4, 4)]
    assert_same(term.factors[0], inverse)
    (term,) = PROBLEMS["factorisation"].structured().terms
    assert (term.pattern, term.core_shape, term.entries) == ("ijik", (3, 3), 72)


def test_structure_survives_operations() -> None:
    hessian = PROBLEMS["logistic, few examples"].structured()
    for changed in (2 * hessian, -hessian, hessian.T, hessian.T.T, hessian / 3):
        assert sorted(len(term.factors) for term in changed.terms) == sorted(
            len(term.factors) for term in hessian.terms
        )
        assert changed.nbytes == hessian.nbytes
    chain = PROBLEMS["Rosenbrock"].structured()
    assert {term.pattern for term in (chain * 2.0).terms} == {term.pattern for term in chain.terms}
    assert len((chain + chain.T).terms) == len(chain.terms)
    assert (chain - chain).terms == () and (chain - chain).nbytes == 0


def test_repr_says_what_is_kept() -> None:
    tensor = hesse.hessian(lambda u: np.sum((u @ RIGHT.T) ** 2), form="structured")(np.ones((2000, 3)))
    assert repr(tensor) == (
        "<Structured (2000, 3, 2000, 3): 1 term, pattern ijik, core (3, 3); 72 bytes instead of 288 MB>"
    )
    assert repr(PROBLEMS["zero"].structured()) == "<Structured (5, 5): 0 terms; 0 bytes instead of 200 bytes>"


def test_sparse_matrix_has_only_what_is_touched() -> None:
    size = 50_000
    hessian = hesse.hessian(rosenbrock, form="structured")(np.full(size, 0.5))
    matrix = hessian.to_sparse()
    assert matrix.shape == (size, size) and matrix.nnz == 3 * size - 2
    vector = normal(size)
    assert_same(matrix @ vector, hessian @ vector)
    assert hesse.derivative(convolution, form="structured")(normal(6, 6)).to_sparse().nnz == 16 * 9


def test_linear_operator_solves() -> None:
    hessian = PROBLEMS["logistic, few examples"].structured()
    right = normal(10, seed=20)
    solution, status = cg(hessian.to_linear_operator(), right, rtol=1e-12)
    assert status == 0
    assert_same(hessian @ solution, right, "cg", 1e-9)


def test_scaling_leaves_arrays_alone() -> None:
    tensor = PROBLEMS["factorisation"].structured()
    with pytest.raises(TypeError):
        tensor * np.ones(3)  # type: ignore[operator]
    with pytest.raises(TypeError):
        np.ones(3) + tensor
    assert (np.float64(2.0) * tensor).terms[0].scale == 2 * tensor.terms[0].scale


def test_names_of_parts_do_not_collide() -> None:
    rows = [
        hesse.hessian(lambda x, c=c: np.sum(c * x**4), form="structured")(normal(3, seed=c))
        for c in (1, 2, 3)
    ]
    expected = sum(row.dense() for row in rows)
    assert_same((rows[0] + (rows[1] + rows[2])).dense(), expected)
    assert_same(((rows[0] + rows[1]) + rows[2]).dense(), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda h: h @ np.ones(3), r"the array has shape \(3,\), but the trailing axes are \(8, 3\)"),
        (lambda h: h.quadratic(np.ones((8, 3, 1))), r"the array has shape \(8, 3, 1\)"),
        (lambda h: h.block(), "block takes 1 to 2 positions, not 0"),
        (lambda h: h.block(8), r"block \(8,\) is outside of the axes \(8, 3\)"),
        (lambda h: h + h.block(0), r"cannot add tensors of shapes \(8, 3, 8, 3\) and \(3, 3\)"),
        (lambda h: h.to_sparse("dense"), "format must be one of 'bsr', 'coo'"),
    ],
)
def test_errors(call: Callable[[Structured], Any], message: str) -> None:
    with pytest.raises((ShapeError, ArgumentError), match=message):
        call(PROBLEMS["factorisation"].structured())


@pytest.mark.parametrize("name", ["diagonal", "trace", "solve_method"])
def test_square_operations_need_two_groups(name: str) -> None:
    with pytest.raises(ShapeError, match="needs two equal trailing groups"):
        getattr(PROBLEMS["Jacobian, convolution"].structured(), name)()


@pytest.mark.parametrize(
    ("module", "call", "remedy"),
    [
        ("scipy.sparse", Structured.to_sparse, r"hesse\[solvers\]"),
        ("scipy.sparse.linalg", Structured.to_linear_operator, r"hesse\[solvers\]"),
        ("matplotlib.colors", Structured.plot, "pip install 'matplotlib'"),
    ],
)
def test_missing_packages(
    monkeypatch: pytest.MonkeyPatch, module: str, call: Callable[[Structured], Any], remedy: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(HesseError, match=remedy):
        call(PROBLEMS["factorisation"].structured())


def test_dense_form_that_does_not_fit_is_refused() -> None:
    tensor = hesse.hessian(rosenbrock, form="structured")(np.ones(10_000))
    hesse.set_memory_limit(1e6)
    try:
        with pytest.raises(HesseError, match="would take 800 MB"):
            tensor.dense()
    finally:
        hesse.set_memory_limit(None)


def test_raster_of_large_tensors() -> None:
    chain = hesse.hessian(rosenbrock, form="structured")(np.ones(100_000))
    cells = raster(chain._node, 1, pixels=100)
    drawn = cells >= 0
    near = np.abs(np.subtract.outer(np.arange(100), np.arange(100))) <= 1
    assert drawn[np.arange(100), np.arange(100)].all() and not drawn[~near].any()
    blocks = hesse.hessian(batch_as_sum, form="structured")(normal(3000, 4))
    assert (raster(blocks._node, 2, pixels=100) >= 0).sum() <= 300
    assert (raster(zero((4, 4)), 1) == -1).all()


def test_plot() -> None:
    axes = PROBLEMS["Rosenbrock"].structured().plot()
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "ii: core (11,)" in texts and "[i+1,i+1]: constant 200, 11 times" in texts
    _, given_axes = pyplot.subplots()
    assert PROBLEMS["factorisation"].structured().plot(given_axes) is given_axes
    assert given_axes.get_title() == "24 × 24, axes (8, 3, 8, 3)"
    assert [text.get_text() for text in given_axes.get_legend().get_texts()] == ["ijik: core (3, 3), 8 times"]
    assert PROBLEMS["zero"].structured().plot().get_legend() is None
    many = PROBLEMS["Jacobian, convolution"].structured().plot()
    assert len(many.get_legend().get_texts()) == 9
    pyplot.close("all")
