"""Entries of trains, computed in all ways."""

import os
import signal
import warnings

import jax
import numpy as np
import pytest
from tests.manifold_cases import (
    FUNCTIONS,
    SHAPE,
    Dense,
    close,
    point,
)
from tests.test_trains import dense, in_library

import hesse
from hesse import tt
from hesse.manifolds import TensorTrains
from hesse.manifolds.derivatives import Objective
from hesse.tt import compiler, entries_kernel, merged, positions, runs, threads

jnp = jax.numpy


@pytest.mark.parametrize("shape", [(5, 5, 5, 5), (30, 20), (7,)])
@pytest.mark.parametrize("kernel", [True, False])
def test_entries_with_and_without_a_compiler(shape, kernel, monkeypatch):
    if not kernel:
        monkeypatch.setattr(compiler, "is_installed", lambda: False)
    monkeypatch.setattr(positions, "CHUNK", 700)
    monkeypatch.setattr(entries_kernel, "ALONE", 500)
    rank = 1 if len(shape) == 1 else 3
    M = TensorTrains(shape, rank)
    X = M.random_point(0)
    Z = M.random_tangent(X, 1)
    for count in (0, 1, 50, 2000):
        where = tuple(np.random.default_rng(count).integers(0, shape, (count, len(shape))).T)
        weights = np.random.default_rng(1).standard_normal(count)
        f = lambda X: np.sum(weights * np.sin(tt.gather(X, where)))  # noqa: B023, E731
        project = Dense(dense(X), X.ranks)
        x, z = dense(X)[where], Z.dense()[where]
        for found, wanted in (
            (hesse.manifolds.grad(f)(X), weights * np.cos(x)),
            (hesse.manifolds.hvp(f)(X, Z), -weights * np.sin(x) * z),
        ):
            spread = np.zeros(shape)
            np.add.at(spread, where, wanted)
            close(found.dense(), project(spread), 1e-12)


@pytest.mark.parametrize("library", ["numpy", "compiled", "torch", "jax"])
@pytest.mark.parametrize("table", [1, 80, 2**18])
@pytest.mark.parametrize("near", [100, 4096])
@pytest.mark.parametrize("count", [7, 3000])
def test_entries_with_merged_axes_in_tiles(library, table, near, count, monkeypatch):
    """Each axis alone, two axes as one, half of them as one; sorted by places, or too few for that."""
    if library == "compiled":
        pytest.importorskip("numba")
        monkeypatch.setattr(runs, "WORTH", 0)
        library = "numpy"
    elif library != "numpy":
        pytest.importorskip(library)
    monkeypatch.setattr(merged, "TABLE", table)
    monkeypatch.setattr(positions, "NEAR", near)
    monkeypatch.setattr(threads, "processors", lambda: 3)
    merged.best_groups.cache_clear()
    shape = (3, 4, 3, 2, 3, 4)
    M = TensorTrains(shape, 3)
    X, where = M.random_point(0), tuple(np.random.default_rng(0).integers(0, shape, (count, 6)).T)
    Z, weights = M.random_tangent(X, 1), np.random.default_rng(1).standard_normal(count)
    x, z = dense(X)[where], Z.dense()[where]
    project = Dense(dense(X), X.ranks)
    Y = in_library(X, library)
    T = M.project(Y, in_library(Z.to_tt(), library))
    values = Y.library.like(weights, Y.cores[0])
    f = lambda X: (values * tt.gather(X, where) ** 2).sum()  # noqa: E731
    objective = Objective(f)
    for found, wanted in (
        (objective.value_and_grad(Y)[1], 2.0 * weights * x),
        (objective.hvp(Y, T), 2.0 * weights * z),
        (objective.hvp(Y, 3.0 * T), 6.0 * weights * z),  # rows are kept from here on
        (objective.hvp(Y, 5.0 * T), 10.0 * weights * z),
        (objective.value_and_grad(Y)[1], 2.0 * weights * x),
    ):
        spread = np.zeros(shape)
        np.add.at(spread, where, wanted)
        close(found.dense(), project(spread), 1e-12)
    close(objective.value(Y), (weights * x**2).sum(), 1e-12)
    merged.best_groups.cache_clear()


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("kernel", ["compiled", "numpy"])
def test_entries_of_trains_with_many_ranks(kernel, dtype, monkeypatch):
    """Ranks differ, points follow each other, and one axis has a single place."""
    if kernel == "compiled":
        pytest.importorskip("numba")
        monkeypatch.setattr(runs, "WORTH", 0)
    monkeypatch.setattr(positions, "NEAR", 300)
    monkeypatch.setattr(merged, "TABLE", 1)
    merged.best_groups.cache_clear()
    generator = np.random.default_rng(2)
    shape, ranks = (4, 5, 1, 3, 6), (1, 2, 4, 4, 6, 1)
    where = tuple(generator.integers(0, shape, (1500, 5)).T)
    weights = generator.standard_normal(1500).astype(dtype)
    objective = Objective(lambda X: np.sum(weights * np.sin(tt.gather(X, where))))
    assert runs.serves(tt.random(shape, ranks[1:-1], rng=0), 1500) == (kernel == "compiled")
    for seed in (0, 1):
        X = tt.TensorTrain([core.astype(dtype) for core in tt.random(shape, ranks[1:-1], rng=seed).cores])
        x, project = dense(X).astype("f8")[where], Dense(dense(X).astype("f8"), X.ranks)
        value, found = objective.value_and_grad(X)
        spread = np.zeros(shape)
        np.add.at(spread, where, weights * np.cos(x))
        tolerance = {"f8": 1e-12, "f4": 3e-5}[dtype]
        assert found.deltas[1].dtype == dtype
        close(value, (weights * np.sin(x)).sum(), tolerance)
        close(found.dense(), project(spread), tolerance)
        again = objective.hvp(X, found)
        np.add.at(spread := np.zeros(shape), where, -weights * np.sin(x) * found.dense()[where])
        close(again.dense(), project(spread), tolerance)
    merged.best_groups.cache_clear()


def test_groups_of_axes():
    """Those at the ends are rows, and may be longer; many entries pay for larger tables."""
    assert merged.best_groups((20,) * 10, (1, *[10] * 9, 1), 200_000) == (0, 3, 5, 7, 10)
    assert merged.best_groups((20,) * 10, (1, *[10] * 9, 1), 10) == tuple(range(11))
    assert merged.best_groups((100_000, 100_000), (1, 10, 1), 6_000_000) == (0, 1, 2)
    assert merged.best_groups((7,), (1, 1), 5) == (0, 1, 1)


def test_entries_along_long_axes_are_sorted(monkeypatch):
    monkeypatch.setattr(entries_kernel, "TILE", 8)
    M = TensorTrains((30, 7, 20), 3)
    X, where = M.random_point(0), tuple(np.random.default_rng(0).integers(0, (30, 7, 20), (500, 3)).T)
    Z, weights = M.random_tangent(X, 1), np.random.default_rng(1).standard_normal(500)
    f = lambda X: np.sum(weights * np.sin(tt.gather(X, where)))  # noqa: E731
    x, z = dense(X)[where], Z.dense()[where]
    project = Dense(dense(X), X.ranks)
    for found, wanted in (
        (hesse.manifolds.grad(f)(X), weights * np.cos(x)),
        (hesse.manifolds.hvp(f)(X, Z), -weights * np.sin(x) * z),
    ):
        spread = np.zeros(M.shape)
        np.add.at(spread, where, wanted)
        close(found.dense(), project(spread), 1e-12)


def test_positions_that_are_written_to():
    """They are kept for other points, but not if they change."""
    where = np.array([[0, 1, 2, 3], [4, 3, 2, 1]])
    gradient = hesse.manifolds.grad(lambda X: np.sum(tt.gather(X, where)))
    for _ in range(2):
        X = point(seed=int(where[0, 0]))
        spread = np.zeros(SHAPE)
        np.add.at(spread, tuple(where.T), 1.0)
        close(gradient(X).dense(), Dense(dense(X), X.ranks)(spread), 1e-12)
        where[:] = where[:, ::-1].copy()


def test_threads_after_a_fork(monkeypatch):
    monkeypatch.setattr(threads, "processors", lambda: 2)
    assert threads.on_threads(lambda part: part.stop, threads.shares(10)) == [5, 10]
    if not hasattr(os, "fork"):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads and forks, which is what this is about
        child = os.fork()
    if child == 0:
        signal.alarm(30)  # rather than to wait for threads that are not there
        os._exit(threads.on_threads(lambda part: part.stop, threads.shares(10)) != [5, 10])
    assert os.waitpid(child, 0)[1] == 0


def test_entries_in_parts_on_several_threads(monkeypatch):
    monkeypatch.setattr(entries_kernel, "ALONE", 10)
    monkeypatch.setattr(threads, "processors", lambda: 3)
    f = FUNCTIONS["completion"][0]
    X = point()
    found = hesse.manifolds.grad(f)(X)
    monkeypatch.setattr(threads, "processors", lambda: 1)
    close(found.dense(), hesse.manifolds.grad(f)(X).dense(), 1e-13)
