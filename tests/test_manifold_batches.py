"""Batches of trains, against their trains one by one."""

import jax
import numpy as np
import pytest
from tests.manifold_cases import RANK, SHAPE, VALUES, WHERE, A, F, close, point
from tests.test_trains import in_library

import hesse
from hesse import tt
from hesse.errors import ArgumentError
from hesse.manifolds import TensorTrains
from hesse.tt import compiler, positions
from hesse.tt.merged import best_groups

COUNT = 3
TARGETS = np.random.default_rng(5).standard_normal((COUNT, len(VALUES))) * 0.1


def batch_of_trains(shape=SHAPE, rank=RANK, dtype="f8"):
    generator, cores = np.random.default_rng(0), tt.random(shape, rank, rng=0).cores
    return tt.TensorTrain([generator.standard_normal((COUNT, *c.shape)).astype(dtype) * 0.5 for c in cores])


def completion(targets):
    """The squares of residuals, which differ from train to train, and something that is not linear."""
    return lambda X: ((tt.gather(X, WHERE) - targets) ** 2).sum() + (tt.gather(X, WHERE) ** 4).sum()


FUNCTIONS = {
    "completion": lambda k: completion(TARGETS[k]),
    "beside a form": lambda k: lambda X: np.sum(np.sin(tt.gather(X, WHERE))) * 0.1 + np.sum(tt.dot(A @ X, X)),
    "entries of products": lambda k: lambda X: np.sum(tt.gather(X * X - F, WHERE) * VALUES),
    "stopped": lambda k: (
        lambda X: np.sum(tt.gather(hesse.stop_gradient(X), WHERE) * tt.gather(X, WHERE) * TARGETS[k])
    ),
}


def check(make, batch, tolerance, exact=True):
    """Values and derivatives of `make(slice(None))` are those of `make(k)` for each train."""
    f = make(slice(None))
    Z = TensorTrains(batch.shape, batch.ranks[1:-1]).random_tangent(batch, rng=0)
    value, G = hesse.manifolds.value_and_grad(f)(batch)
    found = {"grad": G, "hvp": hesse.manifolds.hvp(f)(batch, Z)}
    if exact:
        found["exact"] = hesse.manifolds.hvp(f, exact=True)(batch, Z)
    total = 0.0
    for k in range(COUNT):
        X = tt.TensorTrain([np.asarray(core[k]) for core in batch.cores])
        own, g = hesse.manifolds.value_and_grad(make(k))(X)
        z = TensorTrains(X.shape, X.ranks[1:-1]).project(X, np.asarray(Z.dense())[k])
        total += own
        wanted = {"grad": g, "hvp": hesse.manifolds.hvp(make(k))(X, z)}
        if exact:
            wanted["exact"] = hesse.manifolds.hvp(make(k), exact=True)(X, z)
        for name, tangent in found.items():
            close(np.asarray(tangent.dense())[k], wanted[name].dense(), tolerance)
    assert np.isclose(float(value), float(total), rtol=max(tolerance, 1e-12))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_entries_of_batches(name):
    check(FUNCTIONS[name], batch_of_trains(), 1e-10)


@pytest.mark.parametrize("shape", [(30, 20), (7,)])
@pytest.mark.parametrize("kernel", [True, False])
def test_entries_of_batches_of_short_trains(shape, kernel, monkeypatch):
    if not kernel:
        monkeypatch.setattr(compiler, "is_installed", lambda: False)
    where = np.random.default_rng(0).integers(0, shape, (50, len(shape)))
    check(
        lambda k: lambda X: (tt.gather(X, where) ** 4).sum(),
        batch_of_trains(shape, 2 if len(shape) > 1 else 1),
        1e-10,
    )


def test_many_entries_of_batches(monkeypatch):
    """In several chunks and by compiled loops; the second product takes rows that were kept, if any fit."""
    where = np.random.default_rng(0).integers(0, SHAPE, (9000, len(SHAPE)))
    make = lambda k: lambda X: (tt.gather(X, where) ** 2).sum()  # noqa: E731
    for installed in (True, False):
        if not installed:
            monkeypatch.setattr(compiler, "is_installed", lambda: False)
            monkeypatch.setattr(positions, "CHUNK", 700)
        batch, f = batch_of_trains(), make(0)
        Z = TensorTrains(SHAPE, RANK).random_tangent(batch, rng=0)
        product = hesse.manifolds.hvp(f)
        first, second = product(batch, Z), [product(batch, Z) for _ in range(2)][-1]
        close(second.dense(), first.dense(), 1e-12)
        check(make, batch, 1e-10, exact=False)


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_entries_of_batches_in_libraries(library, dtype):
    pytest.importorskip(library)
    batch = batch_of_trains((6, 5), 2, dtype)
    where = np.random.default_rng(0).integers(0, (6, 5), (20, 2))
    with jax.enable_x64(dtype == "f8"):
        given = in_library(batch, library)
        found = tt.gather(given, where)
        assert type(found) is type(given.cores[0]) and str(found.dtype).endswith(f"float{8 * int(dtype[1])}")
        check(
            lambda k: lambda X: (tt.gather(X, where) ** 4).sum(),
            given,
            {"f8": 1e-10, "f4": 1e-4}[dtype],
        )


def test_jax_compiles_entries_of_batches():
    batch = batch_of_trains((6, 5), 2)
    where = np.random.default_rng(0).integers(0, (6, 5), (20, 2))
    gradient = hesse.manifolds.grad(lambda X: (tt.gather(X, where) ** 4).sum())
    with jax.enable_x64(True):
        compiled = jax.jit(lambda cores: gradient(tt.TensorTrain(cores)).to_tt().cores)
        found = tt.TensorTrain(compiled(in_library(batch, "jax").cores))
        close(found.dense(), gradient(batch).dense(), 1e-12)


def test_code_that_reads_cores_and_entries_of_batches():
    make = lambda k: lambda X: (tt.gather(X, WHERE) ** 2).sum() * len(X.cores)  # noqa: E731
    check(make, batch_of_trains(), 1e-10)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_gather_of_batches(library, monkeypatch):
    batch = in_library(batch_of_trains(dtype="f4"), library)
    wanted = np.asarray(batch.dense())[(slice(None), *WHERE)]
    for size in (16384, 50):
        monkeypatch.setattr(hesse.tt.train, "CHUNK", size)
        for found in (tt.gather(batch, WHERE), batch.gather(*WHERE)):
            assert found.shape == (COUNT, len(VALUES))
            close(found, wanted, 1e-5)


def test_one_train_of_a_batch():
    batch = batch_of_trains()
    close(batch.train(1).dense(), np.asarray(batch.dense())[1], 1e-14)
    with pytest.raises(ArgumentError, match="train 3 of a batch of 3"):
        batch.train(3)
    with pytest.raises(ArgumentError, match="this is a single train"):
        point().train(0)


def test_rows_of_all_trains_share_what_may_be_kept(monkeypatch):
    """Against a batch of one train, whose rows may all be kept."""
    monkeypatch.setattr(compiler, "is_installed", lambda: False)
    axes = len(best_groups(SHAPE, (1, RANK, RANK, RANK, 1), len(VALUES))) - 1
    numbers = 2 * (axes - 1) * len(VALUES) * RANK
    kept = {}
    for count in (1, COUNT):
        monkeypatch.setattr("hesse.tt.each_train.KEPT", numbers)
        batch = tt.TensorTrain([core[:count] for core in batch_of_trains().cores])
        M = TensorTrains(SHAPE, RANK)
        objective = hesse.manifolds.derivatives.Objective(completion(TARGETS[:count]))
        for seed in range(3):
            objective.hvp(batch, M.random_tangent(batch, rng=seed))
        (functional,) = objective._recorded._last.functionals
        kept[count] = sum(len(own._kept) for own in functional._own)
    assert kept[1] > 0 and kept[COUNT] == 0


def test_a_batch_of_no_trains():
    batch = tt.TensorTrain([core[:0] for core in batch_of_trains().cores])
    assert tt.gather(batch, WHERE).shape == (0, len(VALUES))
    value, G = hesse.manifolds.value_and_grad(lambda X: (tt.gather(X, WHERE) ** 2).sum())(batch)
    assert value == 0.0 and [delta.shape for delta in G.deltas] == [core.shape for core in batch.cores]
