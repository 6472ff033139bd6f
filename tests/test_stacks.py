"""The order of axes of stacks of matrices: values as NumPy computes them, and products without copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hesse
from hesse.backends.jax.machine import JAX_MACHINE
from hesse.backends.target import target_named
from hesse.frontends import Expression
from hesse.ir import variable
from hesse.plan import make_plan
from hesse.plan.program import Contract
from hesse.plan.stacks import stacked
from oracles import assert_close

RANDOM = np.random.default_rng(2)
X, S, W, V = (RANDOM.normal(size=shape) for shape in ((7, 5), (6, 5), (5, 5), (5, 4)))
T = RANDOM.normal(size=(3, 5, 6))


def chain(x: Any) -> Any:
    """Products one after the other, with slopes between them and sums over an axis at the end."""
    stack = np.einsum("qr,br->qrb", x, S)
    first = np.einsum("rt,qrb->tqb", W, stack)
    second = np.einsum("tp,tqb->pqb", V, first * np.tanh(S).T[:, None, :])
    return np.sum(second**2, 1), np.einsum("qr,qrb->rb", x, stack)


def summed(x: Any) -> Any:
    """Sums of stacks that lie differently."""
    stack = np.einsum("qr,br->qrb", x, S)
    turned = np.einsum("rt,qrb->bqt", W, np.sin(stack))
    return np.einsum("bqt,tu->ubq", turned + np.einsum("qtb->bqt", stack) * 2.0 - 0.5, W) + turned[0, 0, 0]


def applied(x: Any) -> Any:
    """Operations on whole stacks, which need their axes as they were."""
    stack = np.einsum("rt,qrb->tqb", W, np.einsum("qr,br->qrb", x, S))
    return hesse.softmax(stack) @ S, np.max(stack, 1), np.sort(stack, 0), stack[1:, ::2].reshape(-1, 6)


def four(x: Any) -> Any:
    """Four axes, two of which are summed over."""
    stack = np.einsum("qr,krb->qkrb", x, T)
    return np.einsum("qkrb,krm->mqb", np.exp(0.1 * stack), T[:, :, :2]) * 3.0


FUNCTIONS: list[Callable[[Any], Any]] = [chain, summed, applied, four]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_values(function: Callable[[Any], Any]) -> None:
    found, expected = hesse.compile(function, backend="jax")(X), function(X)
    for part, reference in zip(
        *[v if isinstance(v, tuple) else (v,) for v in (found, expected)], strict=True
    ):
        assert_close(np.asarray(part), np.asarray(reference))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_programs_compute_the_same(function: Callable[[Any], Any]) -> None:
    """The same instructions, but for views; results have the shapes they had."""
    results = function(Expression(variable("x", X.shape)))
    roots = [result.node for result in (results if isinstance(results, tuple) else (results,))]
    program = make_plan(roots, JAX_MACHINE)
    changed = stacked(program)
    assert changed is not program
    assert changed.total_flops == program.total_flops
    assert [changed.shapes[k] for k in changed.results] == [program.shapes[k] for k in program.results]
    target = target_named("jax")
    for plan in (program, changed):
        compiled = target.compile(plan, ["x"], np.dtype(np.float64), True, ())
        for part, node in zip(compiled.function(X), roots, strict=True):
            assert part.shape == node.shape


def test_products_need_no_copies() -> None:
    """Each stack lies as the next product reads it; without stacks nothing is changed."""

    def rows(x: Any) -> Any:
        for weight in (W, W, W):
            x = np.tanh(x @ weight)
        return np.sum(x, -1)

    source = hesse.laplacian(rows, mode="taylor", backend="jax").explain(X).source
    assert "transpose" not in source and "contracted" in source
    program = make_plan([(np.tanh(Expression(variable("x", X.shape)) @ W) @ V).node], JAX_MACHINE)
    assert stacked(program) is program


def test_outer_products_are_written_as_they_are_read() -> None:
    """The blocks of pairs, the largest array of the program, are not transposed afterwards."""

    def energy(x: Any) -> Any:
        d = x[:, None, :] - x[None, :, :]
        return np.sum(np.exp(-0.5 * np.sum(d * d, axis=-1)))

    node = Expression(variable("x", (40, 3)))
    program = stacked(make_plan([energy(node).diff(node, node).node], JAX_MACHINE))
    made = [
        program.shapes[ref] for ref, item in enumerate(program.instructions) if isinstance(item, Contract)
    ]
    assert (40, 3, 40, 3) in made
