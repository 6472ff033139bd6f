"""The ways to a derivative: hesse, JAX, torch, by hand; and how their results are compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import hesse
from benchmarks.adbench.case import BLOCKS, GRADIENT, Case, Function, seeds
from benchmarks.speed.libraries import as_numpy, jax_library

HESSE, SCAN, XLA = "hesse", "hesse.scan", "hesse on JAX arrays"
JAX, TORCH, HAND = "jitted JAX", "compiled torch", "by hand"

Thunk = Callable[[], Any]


class Candidate(NamedTuple):
    """A name, what is called, and the result as products with directions."""

    name: str
    prepare: Callable[[], Thunk]
    products: Callable[[Any], list[np.ndarray]]


def candidates(case: Case, with_compile: bool) -> Iterator[Candidate]:
    """Those that take part in a row, JAX first: the others are compared with it."""
    yield Candidate(JAX, lambda: _jax(case), lambda result: _products(case, result))
    yield Candidate(
        HESSE, lambda: _hesse(case, case.function(np)), lambda result: _own_products(case, result)
    )
    looped = case.function(np) if case.scanned is None else case.scanned(np, hesse.scan)
    if case.scanned is not None:
        yield Candidate(SCAN, lambda: _hesse(case, looped), lambda result: _own_products(case, result))
    yield Candidate(
        XLA, lambda: _hesse(case, looped, _jax_arrays(case)), lambda result: _own_products(case, result)
    )
    if case.by_hand is not None:
        by_hand = case.by_hand
        yield Candidate(
            HAND, lambda: lambda: by_hand(*case.arguments), lambda result: _products(case, result)
        )
    if with_compile and case.is_compiled:
        yield Candidate(TORCH, lambda: _torch(case), lambda result: _products(case, result))


def _jax_arrays(case: Case) -> list[Any]:
    """The arguments where JAX keeps them."""
    return [jax_library().jax.numpy.asarray(array) for array in case.arguments]


def _hesse(case: Case, f: Function, arrays: list[Any] | None = None) -> Thunk:
    if case.derivative == GRADIENT:
        derivative = hesse.grad(f, argnums=case.argnums)
    else:
        form = "structured" if case.derivative == BLOCKS else "dense"
        derivative = hesse.jacobian(f, argnums=case.argnums, form=form)
    if arrays is None:
        return lambda: derivative(*case.arguments)
    finished = jax_library().jax.block_until_ready
    return lambda: finished(derivative(*arrays))


def _jax(case: Case) -> Thunk:
    jax = jax_library().jax
    f = case.scanned(jax.numpy, jax.lax.scan) if case.scanned else case.function(jax.numpy)
    if case.derivative == GRADIENT:
        derivative = jax.grad(f, argnums=case.argnums)
    else:
        derivative = _jacobian(case, f, jax, jax.numpy)
    compiled, values = jax.jit(derivative), _jax_arrays(case)
    return lambda: jax.block_until_ready(compiled(*values))


def _torch(case: Case) -> Thunk:
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    torch = import_module("torch")
    config = import_module("torch._dynamo.config")
    config.recompile_limit = config.accumulated_recompile_limit = 10_000
    func = torch.func
    f = case.function(torch)
    if case.derivative == GRADIENT:
        derivative = func.grad(f, argnums=case.argnums)
    else:
        derivative = _jacobian(case, f, func, torch)
    compiled, values = torch.compile(derivative, dynamic=False), [torch.from_numpy(a) for a in case.arguments]
    return lambda: compiled(*values)


def _jacobian(case: Case, f: Function, library: Any, xp: Any) -> Function:
    """The strongest form that the structure allows in a library with `jacfwd`, `jacrev`, `jvp` and `vmap`."""
    if case.derivative == BLOCKS and not case.shared:  # every point has its own arguments
        one = lambda *rows: f(*(row[None] for row in rows))[0]  # noqa: E731
        mapped: Function = library.vmap(library.jacrev(one, argnums=case.argnums))
        return mapped

    def columns_of_blocks(arguments: Any, position: int) -> Any:
        """Derivatives `[j, n, i]` along one column of the argument for all points at once."""
        array = arguments[position]

        def along(direction: Any) -> Any:
            replaced = lambda a: f(*arguments[:position], a, *arguments[position + 1 :])  # noqa: E731
            return library.jvp(replaced, (array,), (xp.broadcast_to(direction, array.shape),))[1]

        return library.vmap(along)(xp.eye(array.shape[1], dtype=array.dtype))

    def derivative(*arguments: Any) -> tuple[Any, ...]:
        whole = case.argnums[: case.shared] if case.shared else case.argnums
        found = tuple(library.jacfwd(f, argnums=k)(*arguments) for k in whole)
        return found + tuple(columns_of_blocks(arguments, k) for k in case.argnums[len(whole) :])

    return derivative


def _products(case: Case, result: Any) -> list[np.ndarray]:
    """Dense parts times a direction; blocks `[j, n, i]` or `[n, i, j]` times that of their point."""
    found = []
    for position, (part, seed) in enumerate(zip(as_numpy(result), seeds(case.arguments), strict=False)):
        if case.derivative == BLOCKS and position >= case.shared:
            found.append(np.einsum("jni,nj->ni" if case.shared else "nij,nj->ni", part, seed))
        elif case.derivative == GRADIENT:
            found.append(part)
        else:
            found.append(np.tensordot(part, seed, axes=seed.ndim))
    return found


def _own_products(case: Case, result: Any) -> list[np.ndarray]:
    if case.derivative != BLOCKS:
        return _products(case, result)
    return [np.asarray(part @ seed) for part, seed in zip(result, seeds(case.arguments), strict=False)]
