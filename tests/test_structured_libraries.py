"""Structured tensors of PyTorch and JAX arrays: operations, solvers and transformations against NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.experimental.sparse
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import hesse
from hesse import ArgumentError, Structured
from hesse.backends.target import target_named
from hesse.structured.solvers.reduction import solve_bands
from structured_cases import (
    PROBLEMS,
    control,
    log_determinant,
    logistic,
    masked_factorisation,
    normal,
    positive,
    random_tensor,
    rosenbrock,
    stencil,
)
from test_structured import assert_same
from test_structured_solve import SINGULAR, SYSTEMS, hessian, jacobian

MAKE: dict[str, Callable[..., Any]] = {"torch": torch.as_tensor, "jax": jnp.asarray}
LIBRARIES = pytest.mark.parametrize("library", MAKE)


def is_of(library: str, array: Any) -> bool:
    """Whether an array is of a library."""
    return isinstance(array, torch.Tensor if library == "torch" else jax.Array)


def converted(library: str, tensor: Structured) -> Structured:
    """The same tensor over arrays of another library."""
    values = {name: MAKE[library](value) for name, value in tensor.parts.items()}
    return Structured.of(tensor.node, values, tensor.groups)


@contextmanager
def nothing_to_the_host() -> Iterator[None]:
    """Only single entries, such as "is it finite?", may be read by the host."""
    kind = type(jnp.ones(2))
    original = kind._value.fget

    def single_entry(array: Any) -> Any:
        assert array.size <= 1, f"an array of shape {array.shape} was read by the host"
        return original(array)

    def refused(tensor: Any, *_: Any, **__: Any) -> Any:
        # as PyTorch does for memory that NumPy cannot read: small programs go on in PyTorch then
        raise RuntimeError(f"a tensor of shape {tuple(tensor.shape)} was read by the host")

    def checked(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(value: Any, *arguments: Any, **options: Any) -> Any:
            assert not isinstance(value, jax.Array), f"an array of shape {value.shape} was read by the host"
            return function(value, *arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("asarray", "array"):  # which read JAX arrays without asking them
            patch.setattr(np, name, checked(getattr(np, name)))
        patch.setattr(kind, "_value", property(single_entry))
        for name in ("numpy", "__array__", "tolist", "cpu"):
            patch.setattr(torch.Tensor, name, refused)
        yield


@LIBRARIES
def test_reads_by_the_host_are_noticed(library: str) -> None:
    with nothing_to_the_host(), pytest.raises((AssertionError, RuntimeError), match="read by the host"):
        np.asarray(MAKE[library](np.ones(3)))
    with nothing_to_the_host():
        assert float(MAKE[library](np.ones(3)).sum()) == 3.0


def check_operations(library: str, tensor: Structured, dense: np.ndarray, groups: tuple[int, ...]) -> None:
    """The operations that give arrays, against the dense form."""
    rank = groups[-1]
    columns = dense.shape[dense.ndim - rank :]
    assert_same(tensor.dense(), dense, "dense")
    assert_same(tensor.dense(chunk=2), dense, "chunks")
    assert_same(np.asarray(tensor), dense, "__array__")
    for extra in [(), (2,)]:
        vector = normal(*columns, *extra, seed=7)
        product = tensor @ MAKE[library](vector)
        assert is_of(library, product)
        assert_same(product, np.tensordot(dense, vector, axes=rank), "@")
        assert_same(tensor @ vector, np.tensordot(dense, vector, axes=rank), "@ of NumPy")
    assert_same((2 * tensor - tensor / 2).dense(), 1.5 * dense, "arithmetic")
    assert_same(tensor.copy().dense(), dense, "copy")
    assert tensor.nbytes == sum(part.nbytes for part in tensor.parts.values())
    matrix = dense.reshape(-1, int(np.prod(columns)))
    assert_same(dense_of(tensor.to_sparse()), matrix, "sparse")
    if len(groups) > 1:
        assert_same(tensor.T.T.dense(), dense, "T")
        if dense.shape[dense.ndim - 2 * rank : dense.ndim - rank] == columns:
            vector = normal(*columns, seed=8)
            square = np.tensordot(dense, vector, axes=rank)
            assert_same(tensor.quadratic(MAKE[library](vector)), np.tensordot(square, vector, axes=rank))
            lead = dense.shape[: dense.ndim - 2 * rank]
            diagonal = np.diagonal(dense.reshape(*lead, matrix.shape[1], -1), axis1=-2, axis2=-1)
            assert_same(tensor.diagonal(), diagonal.reshape(lead + columns), "diagonal")
            assert_same(tensor.trace(), diagonal.sum(-1), "trace")
            assert_same(tensor.block(0).dense(), np.asarray(tensor)[first_block(dense.ndim, rank)], "block")


def first_block(rank: int, columns: int) -> tuple[Any, ...]:
    """The index of the block at 0."""
    rest = [slice(None)] * (columns - 1)
    return (*[slice(None)] * (rank - 2 * columns), 0, *rest, 0, *rest)


def dense_of(matrix: Any) -> Any:
    """A sparse matrix of either library as an array."""
    return matrix.to_dense() if isinstance(matrix, torch.Tensor) else matrix.todense()


@LIBRARIES
@pytest.mark.parametrize("name", [name for name in PROBLEMS if not name.startswith("zero")])
def test_operations(library: str, name: str) -> None:
    problem = PROBLEMS[name]
    tensor = hesse.derivative(problem.function, problem.order, form="structured")(
        MAKE[library](problem.point)
    )
    assert tensor.target.name == library
    assert all(is_of(library, part) for part in tensor.parts.values())
    check_operations(library, tensor, problem.dense(), problem.groups())


@LIBRARIES
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("groups", [(1, 1), (0, 1, 1), (0, 2, 2)])
def test_operations_of_random_patterns(library: str, seed: int, groups: tuple[int, ...]) -> None:
    drawn = random_tensor(seed, groups)
    if drawn.tensor.parts:
        check_operations(library, converted(library, drawn.tensor), drawn.dense, groups)


@pytest.mark.parametrize("damping", [0.0, 0.5])
@LIBRARIES
@pytest.mark.parametrize("name", SYSTEMS)
def test_solve(library: str, name: str, damping: float) -> None:
    system = SYSTEMS[name]
    tensor = system.derivative(MAKE[library](system.point))
    right = normal(*system.point.shape, 2, seed=5)
    size = system.point.size
    matrix = system.tensor().dense().reshape(size, size) + damping * np.eye(size)
    condition = float(np.linalg.cond(matrix))
    if condition > 1e9:
        return
    given = MAKE[library](right)
    with nothing_to_the_host():
        solution = tensor.solve(given, damping)
        assert tensor.solve_method(damping) == (system.damped if damping else system.plain)
    assert is_of(library, solution)
    expected = np.linalg.solve(matrix, right.reshape(size, -1)).reshape(right.shape)
    assert_same(solution, expected, name, 1e-10 + 1e-14 * condition)
    assert solution.dtype == tensor.dtype == MAKE[library](right).dtype


@LIBRARIES
@pytest.mark.parametrize("name", SINGULAR)
def test_singular_systems(library: str, name: str) -> None:
    function, point = SINGULAR[name]
    tensor = hessian(function)(MAKE[library](point))
    right = MAKE[library](normal(*point.shape))
    with pytest.raises(np.linalg.LinAlgError, match=r"singular to working precision.*damping=1e-6"):
        tensor.solve(right)
    assert_same(
        np.asarray(tensor.solve(right, damping=3.0)),
        hessian(function)(point).solve(normal(*point.shape), 3.0),
    )


@LIBRARIES
def test_not_a_number_is_an_error(library: str) -> None:
    tensor = hessian(rosenbrock)(MAKE[library](normal(200)))
    with pytest.raises(np.linalg.LinAlgError, match="NaN"):
        tensor.solve(MAKE[library](np.full(200, np.nan)))


def test_singular_systems_in_traces_are_nan() -> None:
    function, point = SINGULAR["block-diagonal, rank one blocks"]
    right = normal(*point.shape)
    found = jax.jit(lambda x, g: hessian(function)(x).solve(g))(point, right)
    assert np.isnan(found).all()
    assert np.isnan(jax.grad(lambda x: hessian(function)(x).solve(right).sum())(point)).all()
    batch = torch.func.vmap(lambda x: hessian(function)(x).solve(torch.as_tensor(right)))(
        torch.as_tensor(point)[None]
    )
    assert torch.isnan(batch).all()


def wide_band(x: Any) -> Any:
    """A chain in which every third is joined to the next two."""
    return np.sum((x[3:] - np.sin(x[:-3]) + x[1:-2] * x[2:-1]) ** 2) + np.sum(x**2)


@LIBRARIES
@pytest.mark.parametrize("function", [rosenbrock, wide_band])
@pytest.mark.parametrize("size", [300, 1001])
def test_long_bands(library: str, function: Callable[..., Any], size: int) -> None:
    point, right = normal(size), normal(size, 2, seed=1)
    tensor = hessian(function)(MAKE[library](point))
    assert tensor.solve_method() == "banded"
    expected = hessian(function)(point).solve(right)
    assert_same(tensor.solve(MAKE[library](right)), expected, "banded", 1e-9)


@pytest.mark.parametrize("size", [100, 129, 700])
@pytest.mark.parametrize("widths", [(2, 2), (1, 3), (0, 2), (11, 4)])
@LIBRARIES
def test_block_cyclic_reduction(library: str, widths: tuple[int, int], size: int) -> None:
    """The method itself: no dense matrix steps in for it."""
    xp = target_named(library).algebra
    lower, upper = widths
    rows, columns = np.indices((size, size))
    is_inside = (rows - columns <= lower) & (columns - rows <= upper)
    matrix = is_inside * normal(size, size) + 8.0 * np.eye(size)
    bands = np.zeros((lower + upper + 1, size))
    bands[upper + (rows - columns)[is_inside], columns[is_inside]] = matrix[is_inside]
    right = normal(size, 2, seed=1)
    solve = xp.compiled(solve_bands, widths)
    found = solve(MAKE[library](bands), MAKE[library](right), 0.5)
    assert_same(found, np.linalg.solve(matrix + 0.5 * np.eye(size), right), "bands", 1e-11)
    bands[:, 7] = 0.0
    assert np.isnan(np.asarray(solve(MAKE[library](bands), MAKE[library](right), 0.0))).all()


@LIBRARIES
def test_bands_with_singular_blocks_are_solved_all_the_same(library: str) -> None:
    """The second block of eight is zero, but its neighbours are joined to it."""
    weights, joints = np.ones(300), np.full(296, 3.0)
    weights[8:16] = joints[8:12] = 0.0

    def function(x: Any) -> Any:
        return np.sum(weights * x**2) + np.sum(joints * x[4:] * x[:-4])

    point = normal(300)
    tensor = hessian(function)(MAKE[library](point))
    assert tensor.solve_method() == "banded"
    right = normal(300, seed=1)
    expected = np.linalg.solve(hesse.hessian(function)(point), right)
    assert_same(tensor.solve(MAKE[library](right)), expected, "banded", 1e-9)


@LIBRARIES
def test_large_sparse_systems_by_conjugate_gradients(library: str) -> None:
    point, right = normal(80, 80) + 2, normal(80, 80, seed=1)
    tensor = hessian(stencil)(MAKE[library](point))
    assert tensor.solve_method() == "sparse"
    assert_same(tensor.solve(MAKE[library](right)), hessian(stencil)(point).solve(right), "sparse", 1e-9)
    with pytest.raises(np.linalg.LinAlgError, match="symmetric positive definite"):
        tensor.solve(MAKE[library](right), damping=-60.0)


@LIBRARIES
def test_single_precision(library: str) -> None:
    for name in ("Rosenbrock", "blocks", "log-determinant", "logistic, few examples"):
        system = SYSTEMS[name]
        right = normal(*system.point.shape).astype(np.float32)
        found = system.derivative(MAKE[library](system.point.astype(np.float32))).solve(
            MAKE[library](right), damping=20.0
        )
        assert str(found.dtype).endswith("float32")
        assert_same(found, system.tensor().solve(right.astype(float), 20.0), name, 1e-4)


def test_short_floats_are_solved_in_single_precision() -> None:
    tensor = hessian(lambda x: np.sum(x**4))(torch.ones(3, dtype=torch.bfloat16))
    found = tensor.solve(torch.full((3,), 12.0, dtype=torch.bfloat16))
    assert found.dtype == torch.float32
    assert_same(found, np.ones(3))


DIFFERENTIATED: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "diagonal": (lambda x: np.sum(np.exp(x)), normal(6)),
    "blocks": (lambda u: masked_factorisation(u) + np.sum(u**4), normal(8, 3)),
    "banded": (rosenbrock, 1 + normal(20) / 9),
    "long band": (control, normal(60, 3)),
    "kronecker": (log_determinant, positive(4)),
    "low rank": (logistic(normal(3, 12)), normal(12)),
    "dense": (lambda x: np.prod(x) + np.sum(x**2), normal(5)),
}


def scalar(function: Callable[..., Any], right: Any, damping: float) -> Callable[[Any], Any]:
    """A number that depends on the point through a solution, a product and a trace."""

    def value(x: Any) -> Any:
        tensor = hessian(function)(x)
        return (tensor.solve(right, damping) * right).sum() + (tensor @ right).sum() + tensor.trace()

    return value


def slope(function: Callable[..., Any], point: np.ndarray, direction: np.ndarray) -> float:
    """The derivative along a direction by a difference of fourth order."""
    step = 1e-5
    values = [float(function(point + k * step * direction)) for k in (-2, -1, 1, 2)]
    return float(np.dot(values, [1, -8, 8, -1])) / (12 * step)


@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("name", DIFFERENTIATED)
@LIBRARIES
def test_derivatives(library: str, name: str, damping: float) -> None:
    function, point = DIFFERENTIATED[name]
    right, direction = normal(*point.shape, seed=3), normal(*point.shape, seed=4)
    expected = slope(scalar(function, right, damping), point, direction)
    if library == "jax":
        gradient = jax.grad(scalar(function, jnp.asarray(right), damping))(jnp.asarray(point))
    else:
        x = torch.tensor(point, requires_grad=True)
        (gradient,) = torch.autograd.grad(scalar(function, torch.as_tensor(right), damping)(x), x)
    assert float((np.asarray(gradient) * direction).sum()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("damping", [0.0, 0.7])
def test_derivatives_by_parts_that_happen_to_be_symmetric(damping: float) -> None:
    """Cholesky's method and eigenvectors would only see the symmetric part of a change of the matrix."""
    size = 140
    one, other = positive(size), positive(3, seed=1)
    for factor, point in ((one, normal(size)), (other, normal(3, 3))):
        matrix = torch.tensor(factor, requires_grad=True)
        apply = jacobian(lambda x, a: a @ x if x.ndim == 1 else a @ x @ other)
        right = torch.as_tensor(normal(*point.shape, seed=1))
        tensor = apply(torch.as_tensor(point), matrix)
        weights = torch.as_tensor(normal(*point.shape, seed=2))
        (found,) = torch.autograd.grad((tensor.solve(right, damping) * weights).sum(), matrix)
        again = torch.tensor(factor, requires_grad=True)
        whole = again if point.ndim == 1 else torch.kron(again, torch.as_tensor(other.T.copy()))
        eye = torch.eye(len(whole), dtype=torch.float64)
        solution = torch.linalg.solve(whole + damping * eye, right.reshape(-1))
        (expected,) = torch.autograd.grad((solution * weights.reshape(-1)).sum(), again)
        assert_same(found, expected, "gradient", 1e-8)


def test_second_derivatives_through_conjugate_gradients() -> None:
    point, right = normal(72, 72) + 2, normal(72, 72, seed=1)

    def energy(u: Any, c: Any) -> Any:
        return np.sum((u[1:] - u[:-1]) ** 2) + np.sum((u[:, 1:] - u[:, :-1]) ** 2) + np.exp(c) * np.sum(u**4)

    derivative = hesse.hessian(energy, form="structured")

    def value(c: Any, u: Any = point, g: Any = right) -> Any:
        return (derivative(u, c).solve(g) * g).sum()

    at = np.array(0.3)
    first, second = slope(value, at, np.array(1.0)), slope_of_slope(value, at)
    x, u, g = (
        torch.tensor(0.3, dtype=torch.float64, requires_grad=True),
        *map(torch.as_tensor, (point, right)),
    )
    (gradient,) = torch.autograd.grad(value(x, u, g), x, create_graph=True)
    assert float(gradient.detach()) == pytest.approx(first, rel=1e-7)
    assert float(torch.autograd.grad(gradient, x)[0]) == pytest.approx(second, rel=1e-4)
    in_jax = lambda c: value(c, jnp.asarray(point), jnp.asarray(right))  # noqa: E731
    assert float(jax.grad(in_jax)(0.3)) == pytest.approx(first, rel=1e-7)
    assert float(jax.grad(jax.grad(in_jax))(0.3)) == pytest.approx(second, rel=1e-4)


def slope_of_slope(function: Callable[..., Any], at: np.ndarray) -> float:
    """The second derivative by a difference."""
    step = 1e-2
    values = [float(function(at + k * step)) for k in (-2, -1, 0, 1, 2)]
    return float(np.dot(values, [-1, 16, -30, 16, -1])) / (12 * step**2)


@pytest.mark.parametrize(
    "name", ["equal blocks", "Rosenbrock", "optimal control", "log-determinant", "softmax"]
)
def test_out_of_into_and_inside_of_jit(name: str) -> None:
    system = SYSTEMS[name]
    right = normal(*system.point.shape, seed=1)
    outside = jax.jit(system.derivative)(system.point)
    assert isinstance(outside, Structured)
    expected = system.tensor()
    assert_same(outside.dense(), expected.dense())
    traces = []  # counted here: JAX's own count of entries depends on what else ran in the process

    @jax.jit
    def solve(tensor: Structured, g: Any) -> Any:
        traces.append(g)
        return tensor.solve(g, 0.5)

    solution = expected.solve(right, 0.5)
    assert_same(solve(outside, right), solution, "into", 1e-9)
    assert_same(
        jax.jit(lambda x, g: system.derivative(x).solve(g, 0.5))(system.point, right), solution, "", 1e-9
    )
    closed = system.derivative(jnp.asarray(system.point))
    single = right.astype(np.float32)  # cast inside of the trace, and again outside of it
    assert_same(jax.jit(lambda g: closed @ g)(single), closed @ single, "closed over", 1e-6)
    solve(jax.jit(system.derivative)(system.point * 1.1), right)
    assert len(traces) == 1, "equal patterns are traced once"


def test_pytrees() -> None:
    tensor = hessian(rosenbrock)(jnp.asarray(normal(9)))
    leaves, structure = jax.tree.flatten(tensor)
    assert len(leaves) == len(tensor.parts) == 2
    again = jax.tree.unflatten(structure, leaves)
    assert again.node is tensor.node and again.groups == tensor.groups and again.dtype == tensor.dtype
    assert jax.tree.structure(hessian(rosenbrock)(jnp.asarray(normal(9, seed=1)))) == structure
    assert jax.tree.unflatten(structure, [None, object()]).shape == (9, 9)
    assert_same(jax.tree.map(lambda leaf: 2 * leaf, tensor).dense(), 2 * np.asarray(tensor))
    shapes = jax.eval_shape(hessian(rosenbrock), jnp.ones(9))
    assert isinstance(shapes, Structured) and shapes.shape == (9, 9)


def test_vmap() -> None:
    points, rights = normal(4, 150) / 9 + 1, normal(4, 150, seed=1)
    derivative = hessian(rosenbrock)
    tensors = jax.vmap(derivative)(points)
    assert {leaf.shape[0] for leaf in jax.tree.leaves(tensors)} == {4}
    expected = np.stack([derivative(x).solve(g) for x, g in zip(points, rights, strict=True)])
    assert_same(jax.vmap(lambda tensor, g: tensor.solve(g))(tensors, rights), expected, "vmap", 1e-9)
    products = np.stack([derivative(x) @ g for x, g in zip(points, rights, strict=True)])
    assert_same(jax.vmap(lambda tensor, g: tensor @ g)(tensors, rights), products)
    in_torch = torch.func.vmap(lambda x, g: derivative(x).solve(g))(
        torch.as_tensor(points), torch.as_tensor(rights)
    )
    assert_same(in_torch, expected, "torch", 1e-9)


def test_gradient_by_a_tensor() -> None:
    point, vector = positive(3), normal(3, 3, seed=1)
    tensor = hessian(log_determinant)(jnp.asarray(point))
    gradient = jax.grad(lambda matrix: (vector * (matrix @ vector)).sum())(tensor)
    assert isinstance(gradient, Structured) and gradient.node is tensor.node
    (inverse,) = tensor.parts.values()
    expected = jax.grad(lambda c: -jnp.einsum("jk,li,ij,kl->", c, c, vector, vector))(inverse)
    assert_same(next(iter(gradient.parts.values())), expected)


@LIBRARIES
def test_sparse_formats(library: str) -> None:
    tensor = hessian(rosenbrock)(MAKE[library](normal(7)))
    for layout, kind in {
        "torch": {"coo": torch.sparse_coo, "csr": torch.sparse_csr, "csc": torch.sparse_csc},
        "jax": {"coo": jax.experimental.sparse.BCOO, "csr": jax.experimental.sparse.BCSR},
    }[library].items():
        matrix = tensor.to_sparse(layout)
        assert kind == matrix.layout if library == "torch" else type(matrix) is kind
        assert_same(dense_of(matrix), np.asarray(tensor))
        stored = matrix._nnz() if library == "torch" else matrix.nse
        assert stored == 3 * 7 - 2, "repeated positions are added up"
    with pytest.raises(ArgumentError, match="format must be one of 'coo', 'cs"):
        tensor.to_sparse("lil")


def test_sparse_matrices_in_jit() -> None:
    matrix = jax.jit(lambda x: hessian(rosenbrock)(x).to_sparse())(normal(7))
    assert_same(matrix.todense(), hessian(rosenbrock)(normal(7)).dense())


@LIBRARIES
def test_linear_operators_are_of_numpy(library: str) -> None:
    with pytest.raises(ArgumentError, match=f"take NumPy arrays, but the parts are of {library}"):
        hessian(rosenbrock)(MAKE[library](normal(7))).to_linear_operator()


def test_devices() -> None:
    tensor = hessian(rosenbrock)(torch.as_tensor(normal(7)))
    assert_same(tensor.to("cpu").dense(), tensor.dense())
    moved = tensor.to("meta")
    assert all(part.device.type == "meta" for part in moved.parts.values())
    with pytest.raises(ArgumentError, match="only PyTorch's are moved"):
        hessian(rosenbrock)(normal(7)).to("cpu")


@LIBRARIES
def test_texts_and_arrays(library: str) -> None:
    tensor = hessian(rosenbrock)(MAKE[library](normal(9)))
    numpy = hessian(rosenbrock)(normal(9))
    assert repr(tensor) == repr(numpy)
    assert [term.pattern for term in tensor.terms] == [term.pattern for term in numpy.terms]
    assert all(is_of(library, factor) for term in tensor.terms for factor in term.factors)
    watched = torch.tensor(normal(9), requires_grad=True)
    assert_same(np.asarray(hessian(rosenbrock)(watched)), numpy.dense())


def test_libraries_are_not_mixed() -> None:
    one, other = (hessian(rosenbrock)(make(normal(9))) for make in MAKE.values())
    with pytest.raises(ArgumentError, match="cannot add tensors with arrays of torch and of jax"):
        one + other
    with pytest.raises(ArgumentError, match="convert them"):
        one.solve(jnp.ones(9))
