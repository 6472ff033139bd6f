"""Operators that are sums, found by zeros of their cores: right whether they are taken apart or not."""

import jax
import numpy as np
import pytest
from tests.manifold_cases import RANK, SHAPE, Dense, close, exact_product, is_gauged, point
from tests.test_trains import dense, in_library

import hesse
from hesse import tt
from hesse.manifolds import TensorTrains
from hesse.manifolds.derivatives import Objective
from hesse.tt import summands

PAIRS = [(5, 5)] * 4
M, N = (tt.random_matrix(PAIRS, rank, rng=rank) for rank in (2, 3))
F = tt.random(SHAPE, 2, rng=3)


def matrix(operator):
    """The operator as a dense matrix, by Kronecker products."""
    found = np.ones((1, 1, 1))
    for core in map(np.asarray, operator.cores):
        rows, columns = found.shape[0] * core.shape[1], found.shape[1] * core.shape[2]
        found = np.einsum("IJa,aijb->IiJjb", found, core).reshape(rows, columns, -1)
    return found[:, :, 0]


def one_site(k, seed):
    """An operator of rank one."""
    own = np.random.default_rng(seed).standard_normal((5, 5))
    return tt.TTMatrix([(own if j == k else np.eye(5))[None, :, :, None] for j in range(4)])


def shuffled(operator, seed=0):
    """The same operator, the values of whose bonds are in another order."""
    generator = np.random.default_rng(seed)
    cores = [np.array(core) for core in operator.cores]
    for k in range(len(cores) - 1):
        order = generator.permutation(cores[k].shape[3])
        cores[k], cores[k + 1] = cores[k][..., order], cores[k + 1][order]
    return tt.TTMatrix(cores)


def total(operators):
    first, *others = operators
    for operator in others:
        first = first + operator
    return first


SITES = [one_site(k, seed=k) for k in range(4)]
SYMMETRIC = one_site(1, 5) + one_site(1, 5).T
OPERATORS = {
    "one": (M, 1),
    "not symmetric": (M + N, 2),
    "with its transpose": (M + M.T, 1),
    "transpose first": (N.T + N, 1),
    "two pairs": (M + N + M.T + N.T, 2),
    "a pair and others": (0.5 * (M + M.T) + N + tt.eye(SHAPE), 3),
    "symmetric ones": (tt.eye(SHAPE) + one_site(2, 1) @ one_site(2, 1).T, 2),
    "symmetric as a whole": (N + N.T + SYMMETRIC, 2),
    "nearly a transpose": (M + 2.0 * M.T, 2),
    "shuffled": (shuffled(M + N), 2),
    "nothing at some values": (M + 0.0 * N, 2),
    "many of rank one": (total([*SITES, *(site.T for site in SITES)]), 4),
    "more than allowed": (total(one_site(k % 4, seed=10 + k) for k in range(9)), 5),
}
"""And how many forms ⟨AX, X⟩ consists of when they are taken apart."""


@pytest.fixture(params=["by cost", "always"])
def split(request, monkeypatch):
    if request.param == "always":
        monkeypatch.setattr(summands, "CALLS", 0)
    return request.param


def renewed(operator):
    """One of which nothing is known."""
    return tt.TTMatrix(operator.cores)


@pytest.mark.parametrize("name", OPERATORS)
def test_quadratic_forms(name, split):
    given, count = OPERATORS[name]
    A, a = renewed(given), matrix(given)
    X, manifold = point(), TensorTrains(SHAPE, RANK)
    Z = manifold.random_tangent(X, rng=1)
    x, z, project = dense(X).ravel(), Z.dense().ravel(), Dense(dense(X), X.ranks)
    objective = Objective(lambda X: tt.dot(A @ X, X))
    for _ in range(2):
        value, G = objective.value_and_grad(X)
        assert np.isclose(value, x @ a @ x, rtol=1e-12, atol=1e-12)
        close(G.dense(), project((a + a.T) @ x))
        is_gauged(G)
        close(objective.hvp(X, Z).dense(), project((a + a.T) @ z))
    if name in ("not symmetric", "a pair and others"):
        close(objective.hvp(X, Z, exact=True).dense(), exact_product(lambda x: x @ a @ x, Z))
    if split == "always":
        assert len(objective._recorded._last.functionals) == count
        for part in summands.summands(A, RANK, 8):
            assert part.operator.dtype == A.dtype


@pytest.mark.parametrize("name", ["with its transpose", "a pair and others", "shuffled", "many of rank one"])
def test_sums_in_larger_nets(name, split):
    given = OPERATORS[name][0]
    A, a, f, n = renewed(given), matrix(given), dense(F).ravel(), matrix(N)
    X = point()
    x, project = dense(X).ravel(), Dense(dense(X), X.ranks)
    Z = TensorTrains(SHAPE, RANK).random_tangent(X, rng=2)
    z = Z.dense().ravel()
    gram = lambda X: tt.dot(A @ X, A.T @ X)  # noqa: E731
    close(hesse.manifolds.grad(gram)(X).dense(), project((a @ a + (a @ a).T) @ x))
    close(hesse.manifolds.hvp(gram)(X, Z).dense(), project((a @ a + (a @ a).T) @ z))
    residual = hesse.manifolds.project_residual(A, N, F)
    close(residual(X).dense(), project(n @ (a @ x - f)))
    close(hesse.manifolds.project_residual(N, A.T, F)(X).dense(), project(a.T @ (n @ x - f)))
    close(
        hesse.manifolds.grad(lambda X: tt.dot(A @ (A @ X - F), X - F))(X).dense(),
        project((a @ a + (a @ a).T) @ x - a @ f - (a @ a).T @ f),
    )


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_sums_in_other_libraries(library, monkeypatch):
    monkeypatch.setattr(summands, "CALLS", 0)
    size, given = (5, 5, 5), tt.random_matrix([(5, 5)] * 3, 2, rng=0)
    operator = given + given.T + tt.eye(size)
    X, a = tt.random(size, 2, rng=1), matrix(operator)
    Z = TensorTrains(size, 2).random_tangent(X, rng=1)
    project = Dense(dense(X), X.ranks)
    with jax.enable_x64(True):
        Y, A = in_library(X, library), in_library(operator, library)
        W = TensorTrains(size, 2).project(Y, in_library(Z.to_tt(), library))
        objective = Objective(lambda X: tt.dot(A @ X, X))
        G = objective.value_and_grad(Y)[1]
        assert len(objective._recorded._last.functionals) == 2
        close(G.dense(), project(2.0 * a @ dense(X).ravel()))
        close(objective.hvp(Y, W).dense(), project(2.0 * a @ Z.dense().ravel()))
        if library == "torch":
            exact = exact_product(lambda x: x @ a @ x, Z)
            close(objective.hvp(Y, W, exact=True).dense(), exact)


def test_sums_in_functions_that_are_compiled(monkeypatch):
    """Parts that are found while a function is compiled serve when another one is compiled, too."""
    monkeypatch.setattr(summands, "CALLS", 0)
    operator, a = M + M.T + N, matrix(M + M.T + N)
    with jax.enable_x64(True):
        A = in_library(operator, "jax")
        for seed in (0, 1):
            gradient = hesse.manifolds.grad(lambda X: tt.dot(A @ X, X))
            compiled = jax.jit(lambda cores, g=gradient: g(tt.TensorTrain(cores)).to_tt().cores)
            X = point(seed)
            for found in (compiled(in_library(X, "jax").cores), gradient(in_library(X, "jax")).to_tt().cores):
                wanted = Dense(dense(X), X.ranks)((a + a.T) @ dense(X).ravel())
                close(tt.TensorTrain(found).dense(), wanted)


def test_operators_that_are_compiled_for_stay_whole(monkeypatch):
    monkeypatch.setattr(summands, "CALLS", 0)
    a = matrix(M + N)
    with jax.enable_x64(True):
        X = in_library(point(), "jax")

        @jax.jit
        def residual(cores):
            A = tt.TTMatrix(cores)
            return hesse.manifolds.grad(lambda X: tt.dot(A @ X, in_library(F, "jax")))(X).to_tt().cores

        found = tt.TensorTrain(residual(in_library(M + N, "jax").cores))
        close(found.dense(), Dense(dense(X), X.ranks)(a.T @ dense(F).ravel()))


def test_operators_that_are_written_to(monkeypatch):
    """Each time it has other parts: a pair, two, or one; a pair is twice a number, one is that number."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(summands, "CALLS", 0)
    small = [tt.random_matrix(PAIRS, 1, rng=seed) for seed in (1, 2)]
    mixed = tt.random_matrix(PAIRS, 2, rng=3)
    kinds = [small[0] + small[0].T, small[0] + small[1], mixed, small[1] + small[1].T]
    X = in_library(point(), "torch")
    A = in_library(kinds[0], "torch")
    objective = Objective(lambda X: tt.dot(A @ X, X))
    project = Dense(dense(point()), X.ranks)
    for kind in (*kinds, kinds[2], kinds[0], kinds[1], kinds[3]):
        for core, other in zip(A.cores, kind.cores, strict=True):
            core.copy_(torch.tensor(np.array(other)))
        a, x = matrix(kind), dense(point()).ravel()
        value, G = objective.value_and_grad(X)
        assert np.isclose(float(value), x @ a @ x)
        close(G.dense(), project((a + a.T) @ x))
        H = objective.hvp(X, G)
        close(H.dense(), project((a + a.T) @ G.dense().numpy().ravel()))


@pytest.mark.parametrize("calls", [0, summands.CALLS])
@pytest.mark.parametrize("before", ["no_grad", "constant"])
def test_operators_that_are_differentiated_later(before, calls, monkeypatch):
    """What is kept of an operator that nobody differentiates does not serve one that somebody does."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(summands, "CALLS", calls)
    A, X, x = in_library(M + N, "torch"), in_library(point(), "torch"), dense(point()).ravel()
    value_and_grad = hesse.manifolds.value_and_grad(lambda X: tt.dot(A @ X, X))
    if before == "no_grad":
        for core in A.cores:
            core.requires_grad_()
    with torch.no_grad():
        value_and_grad(X)
    for core in A.cores:
        core.requires_grad_()
    value = value_and_grad(X)[0] + sum((core**2).sum() for core in A.cores)
    found = torch.autograd.grad(value, A.cores)
    for k, core in enumerate(found):
        change = [np.array(core.numpy() if j == k else own) for j, own in enumerate((M + N).cores)]
        slope = x @ matrix(tt.TTMatrix(change)) @ x + 2.0 * np.sum((M + N).cores[k] * core.numpy())
        assert np.isclose(float((core**2).sum()), slope)


@pytest.mark.parametrize("entry", [np.nan, np.inf])
def test_what_is_not_finite_is_not_lost(entry, monkeypatch):
    """Also where it is multiplied by zeros only."""
    monkeypatch.setattr(summands, "CALLS", 0)
    cores = [np.array(core) for core in (M + N).cores]
    cores[0][0, 0, 0, 0], cores[1][0] = entry, 0.0
    A = tt.TTMatrix(cores)
    with np.errstate(invalid="ignore"):
        assert np.isnan(hesse.manifolds.value_and_grad(lambda X: tt.dot(A @ X, X))(point())[0])


def test_nothing_is_left_of_zero(monkeypatch):
    monkeypatch.setattr(summands, "CALLS", 0)
    zero = 0.0 * (M + N)
    value, G = hesse.manifolds.value_and_grad(lambda X: tt.dot(zero @ X, X))(point())
    assert value == 0.0 and float(G.norm()) == 0.0


def test_sums_of_matrices_and_of_one_position(monkeypatch):
    monkeypatch.setattr(summands, "CALLS", 0)
    for count in (1, 2):
        one, other = (tt.random_matrix([(6, 6)] * count, 2, rng=seed) for seed in (0, 1))
        A, X = one + other + one.T, tt.random((6,) * count, 2, rng=3)
        a, x = matrix(A), dense(X).ravel()
        G = hesse.manifolds.grad(lambda X, A=A: tt.dot(A @ X, X))(X)
        close(G.dense(), Dense(dense(X), X.ranks)((a + a.T) @ x))


def test_cost_decides():
    """Small operators stay whole, and so do those of which most would be calls."""
    laplacian = total(SITES)
    assert [part.operator for part in summands.summands(laplacian, RANK, 8)] == [laplacian]
    pair = tt.random_matrix([(20, 20)] * 6, 10, rng=0)
    A = pair + pair.T
    first, second = summands.summands(A, 20, 8)
    assert first.operator is second.operator and first.operator.ranks == pair.ranks
    assert [part.operator for part in summands.summands(A, 20, 1)] == [A]
    many = total(tt.random_matrix([(20, 20)] * 6, 2, rng=seed) for seed in range(20))
    found = summands.summands(many, 20, 8)
    assert 2 <= len(found) <= 8 and sum(part.operator.ranks[3] for part in found) == 40
