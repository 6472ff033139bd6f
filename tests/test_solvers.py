"""Solvers on manifolds: known minima, recovery from samples, histories and messages."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest
from tests.test_trains import in_library

import hesse
from hesse import tt
from hesse.errors import ArgumentError, ConvergenceError
from hesse.manifolds import FixedRankMatrices, TensorTrains
from hesse.manifolds.derivatives import Objective
from hesse.manifolds.tangent import Tangent
from hesse.solvers import METHODS, minimize
from hesse.tt import positions
from hesse.tt.point import point_of


def sampled(shape, rank, oversampling, seed):
    """A train, its entries at random positions, and the misfit of another one there."""
    target = tt.random(shape, rank, rng=100 + seed)
    count = int(oversampling * TensorTrains(shape, rank).dimension)
    where = np.random.default_rng(seed).integers(0, shape, (count, len(shape)))
    values = tt.gather(target, where)
    return target, lambda X: ((tt.gather(X, where) - values) ** 2).sum()


def error(found, target):
    return float((found - target).norm() / target.norm())


def near(target, seed):
    """A train near another one: 5 % noise in each core."""
    rng = np.random.default_rng(seed)
    return tt.TensorTrain(
        [c + 0.05 * np.linalg.norm(c) / np.sqrt(c.size) * rng.standard_normal(c.shape) for c in target.cores]
    )


@pytest.mark.parametrize(
    ("shape", "rank", "oversampling"), [((200, 200), 5, 3), ((40,) * 3, 3, 12), ((20,) * 4, 3, 32)]
)
def test_recovery_from_random_starts(shape, rank, oversampling):
    for seed in range(3):
        target, misfit = sampled(shape, rank, oversampling, seed)
        result = minimize(misfit, tt.random(shape, rank, rng=50 + seed))
        assert error(result.point, target) < 1e-4


@pytest.mark.parametrize("seed", [22, 24, 32, 49])
def test_recovery_from_starts_of_another_size(seed):
    """Random starts whose size alone led to minima with a few large entries."""
    target, misfit = sampled((200, 200), 5, 3, seed)
    result = minimize(misfit, tt.random((200, 200), 5, rng=50 + seed))
    assert error(result.point, target) < 1e-4


def test_first_steps_along_the_point_itself():
    """For matrices, to the best multiple, if there is one that pays."""
    target, start = tt.random((5, 6), 2, rng=0), tt.random((5, 6), 2, rng=1)
    result = minimize(lambda X: tt.dot(X - target, X - target), start, steps=1)
    best = float(tt.dot(start, target))
    np.testing.assert_allclose(result.point.dense(), best * np.asarray(start.dense()), atol=1e-12)
    A = tt.random_matrix([(n, n) for n in (5, 6)], 2, rng=2)
    f = lambda X: tt.dot((A + A.T) @ X, X) / tt.dot(X, X)  # noqa: E731
    found = minimize(f, start, steps=1).point
    assert abs(tt.dot(found, start)) < (1.0 - 1e-6) * found.norm()


@pytest.mark.parametrize("seed", range(10))
def test_conjugate_directions_from_near_starts(seed):
    target, misfit = sampled((20,) * 4, 3, 2, seed)
    result = minimize(misfit, near(target, seed), steps=250, tol=1e-11)
    assert error(result.point, target) < 1e-9


@pytest.mark.parametrize(("method", "steps"), [("gauss-newton", 6), ("trust-region", 8), ("cg", 250)])
def test_warm_starts(method, steps):
    target, misfit = sampled((20,) * 4, 3, 2, seed=0)
    result = minimize(misfit, near(target, 0), method=method, steps=steps, tol=1e-10)
    assert error(result.point, target) < 1e-8 and result.steps <= steps
    assert method == "cg" or error(result.point, target) < 1e-9


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("shape", [(7,), (6, 5), (3, 4, 5, 3)])
@pytest.mark.parametrize("count", [0, 40, 3000])
def test_diagonals_of_hessians(library, shape, count, monkeypatch):
    """Against derivatives along each entry of a delta, one by one; a form beside entries is left out."""
    pytest.importorskip(library)
    monkeypatch.setattr(positions, "CHUNK", 1000)
    X = tt.random(shape, 1 if len(shape) == 1 else 2, rng=0)
    point = point_of(X)
    where = np.random.default_rng(1).integers(0, shape, (count, len(shape)))
    weights = np.random.default_rng(2).standard_normal(count)
    f = lambda X: tt.dot(X, X) + (weights * tt.gather(X, where) ** 3).sum()  # noqa: E731
    found = Objective(f).diagonal(in_library(X, library))
    second = np.maximum(6.0 * weights * tt.gather(X, where), 0.0)
    for k, delta in enumerate(found):
        wanted = np.zeros(delta.shape)
        for place in np.ndindex(*delta.shape):
            deltas = [np.zeros(core.shape) for core in point.left.cores]
            deltas[k][place] = 1.0
            wanted[place] = second @ Tangent(point, deltas).dense()[tuple(where.T)] ** 2
        np.testing.assert_allclose(np.asarray(delta), wanted, atol=1e-12 * max(1.0, wanted.max()))


def test_only_entries_have_diagonals():
    X = tt.random((3, 4), 2, rng=0)
    assert Objective(lambda X: tt.dot(X, X)).diagonal(X) is None
    reads_cores = Objective(lambda X: (X.cores[0] ** 2).sum())
    reads_cores.value(X)
    assert reads_cores.diagonal(X) is None
    zero = Objective(lambda X: tt.gather(X, [[0, 0], [1, 2]]).sum())
    assert all((np.asarray(entries) == 0.0).all() for entries in zero.diagonal(X))
    result = minimize(lambda X: (tt.gather(X, [[0, 0], [1, 2]]) ** 2).sum(), X, steps=30)
    assert result.value < 1e-12


@pytest.mark.parametrize("method", METHODS)
def test_linear_systems(method):
    size, count = 4, 3
    rng = np.random.default_rng(0)
    local = [np.diag(rng.random(size) + 1.0) for _ in range(count)]
    A = tt.TTMatrix([m[None, :, :, None] for m in local]) + tt.eye((size,) * count)
    solution = tt.random((size,) * count, 2, rng=1)
    F = A @ solution
    start = tt.random((size,) * count, 2, rng=2)
    result = minimize(lambda X: tt.dot(A @ X, X) - 2.0 * tt.dot(F, X), start, method=method, steps=2000)
    assert result.converged and error(result.point, solution) < 1e-6


@pytest.mark.parametrize("method", ["cg", "trust-region"])
def test_smallest_eigenvalue(method):
    size, count = 6, 4
    second = 2.0 * np.eye(size) - np.eye(size, k=1) - np.eye(size, k=-1)
    laplacian = None
    for k in range(count):
        term = tt.TTMatrix([(second if j == k else np.eye(size))[None, :, :, None] for j in range(count)])
        laplacian = term if laplacian is None else laplacian + term
    result = minimize(
        lambda X: tt.dot(laplacian @ X, X) / tt.dot(X, X),
        tt.random((size,) * count, 2, rng=0),
        method=method,
        steps=300,
    )
    wanted = count * np.linalg.eigvalsh(second)[0]
    assert abs(result.value - wanted) < 1e-8 * wanted


def test_matrix_completion_stays_factored():
    m, rank = 2000, 4
    M = FixedRankMatrices(m, m, rank)
    target = M.random_point(0) * m
    rows, columns = np.random.default_rng(1).integers(0, m, (2, 6 * M.dimension))
    values = target.gather(rows, columns)
    result = minimize(lambda X: ((X.gather(rows, columns) - values) ** 2).sum(), M.random_point(2), steps=60)
    assert error(result.point, target) < 1e-3


def test_histories():
    target, misfit = sampled((10,) * 3, 2, 6, seed=1)
    seen = []
    result = minimize(misfit, near(target, 1), steps=5, callback=lambda X, step: seen.append((X, step)))
    assert result.steps == 5 == len(seen) and not result.converged and result.message == "5 steps are taken"
    assert [step.number for step in result.history] == list(range(6))
    values = [step.value for step in result.history]
    assert all(after < before for before, after in itertools.pairwise(values))
    assert np.isclose(result.value, misfit(result.point)) and seen[-1][0] is result.point
    assert np.isclose(result.gradient_norm, float(hesse.manifolds.grad(misfit)(result.point).norm()))
    lengths = [float((b - a).norm()) for (a, _), (b, _) in itertools.pairwise(seen)]
    np.testing.assert_allclose(lengths, [step.length for step in result.history[2:]])
    stopped = minimize(misfit, near(target, 1), callback=lambda X, step: step.number == 2)
    assert stopped.steps == 2 and stopped.message == "stopped by the callback"
    done = minimize(misfit, target)
    assert done.value < 1e-25


def test_plots():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    target, misfit = sampled((10,) * 3, 2, 6, seed=1)
    result = minimize(misfit, near(target, 1), steps=5)
    ax = result.plot()
    assert ax.get_yscale() == "log" and len(ax.lines) == 2
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [step.value for step in result.history])
    assert result.plot(ax) is ax
    matplotlib.pyplot.close(ax.figure)


@pytest.mark.parametrize("with_rich", [True, False])
def test_progress(with_rich, capsys, monkeypatch):
    if with_rich:
        pytest.importorskip("rich")
    else:
        found = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda n, *a: None if n == "rich" else found(n, *a))
    target, misfit = sampled((10,) * 3, 2, 6, seed=1)
    minimize(misfit, near(target, 1), steps=10, progress=True, tol=0.0)
    shown = capsys.readouterr().err
    assert "cg" in shown and "gradient" in shown and ("10/10" in shown or "step 10" in shown)
    minimize(misfit, near(target, 1), steps=10, progress=False)
    assert capsys.readouterr().err == ""


def test_torch():
    torch = pytest.importorskip("torch")
    target = tt.TensorTrain([torch.tensor(np.array(core)) for core in tt.random((4, 5, 6), 2, rng=0).cores])
    start = tt.TensorTrain([torch.tensor(np.array(core)) for core in tt.random((4, 5, 6), 2, rng=1).cores])
    result = minimize(lambda X: tt.dot(X - target, X - target), start)
    assert float((result.point - target).norm()) < 1e-6 and isinstance(result.value, float)


@pytest.mark.parametrize(
    ("run", "kind", "message"),
    [
        (
            lambda X: minimize(lambda X: tt.dot(X, X), X, method="newton"),
            ArgumentError,
            "method must be one of",
        ),
        (lambda X: minimize(lambda X: tt.dot(X, X), X, tol=-1.0), ArgumentError, "tol must not be negative"),
        (
            lambda X: minimize(lambda X: tt.dot(X, X), X.dense()),
            ArgumentError,
            "the start is a tt.TensorTrain",
        ),
        (lambda X: minimize(lambda X: tt.dot(X, X) * np.inf, X), ConvergenceError, "is not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_errors(run, kind, message):
    with pytest.raises(kind, match=message):
        run(tt.random((3, 4), 2, rng=0))


@pytest.mark.parametrize("name", ["ConjugateGradient", "SteepestDescent", "TrustRegions"])
def test_optimisers_of_pymanopt(name):
    pymanopt = pytest.importorskip("pymanopt")
    optimizers = pytest.importorskip("pymanopt.optimizers")
    M = TensorTrains((6, 5, 4), 2)
    target = M.random_point(0)
    manifold = hesse.manifolds.to_pymanopt(M)
    decorated = pymanopt.function.numpy(manifold)
    f = lambda X: tt.dot(X - target, X - target)  # noqa: E731
    problem = pymanopt.Problem(
        manifold,
        decorated(f),
        riemannian_gradient=decorated(hesse.manifolds.grad(f)),
        riemannian_hessian=decorated(hesse.manifolds.hvp(f)),
    )
    start = M.random_point(1)
    options = {"max_iterations": 200, "verbosity": 0, "min_gradient_norm": 1e-7}
    result = getattr(optimizers, name)(**options).run(problem, initial_point=start)
    assert error(result.point, target) < 1e-4
    assert manifold.dim == M.dimension
    assert np.isclose(manifold.dist(start, target), float((start - target).norm()))


def test_examples(tmp_path):
    path = Path(__file__).parents[1] / "examples" / "tensor_trains.py"
    spec = importlib.util.spec_from_file_location("tensor_trains_example", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    chain, equation, machine = (curve.errors for curve in example.main(small=True, folder=tmp_path))
    assert chain["cg"][-1] < 1e-2 and chain["trust-region"][-1] < 1e-2
    assert equation["with preconditioner"][-1] < 1e-3 and equation["without"][-1] > 0.1
    assert machine["wrong on new data"][-1] < 0.1 < machine["wrong on new data"][0]
    pictures = Path(__file__).parents[1] / "docs" / "images"
    for made in ("ground-state.svg", "linear-system.svg", "exponential-machine.svg"):
        assert (tmp_path / made).stat().st_size > 1000 and (pictures / made).exists()
    assert np.isclose(np.linalg.eigvalsh(example.heisenberg(10).dense())[0], -4.258035207, atol=1e-9)
