"""Random expressions in every target: values, gradients and Hessians, dense and structured.

Those of `test_random_graphs`, each with one operation in it for certain, and products of views, windows,
flips and diagonals, whose derivatives place terms that overlap.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import numpy as np
import pytest
import torch

import hesse
from hesse.backends.executable import Executable, executable
from hesse.backends.target import target_named
from hesse.calculus import differentiate
from hesse.frontends.expression import Expression
from hesse.ir import Node, Variable, multiply, substitute, total, variable
from hesse.rewrite import simplify
from libraries import JAX, LIBRARIES, NUMPY, TORCH, Library, plain, values_of
from oracles import assert_close
from test_random_graphs import (
    STEPS,
    Graph,
    Picker,
    Term,
    draw_concatenation,
    draw_einsum,
    draw_sum,
    draw_view,
    make_graph,
)

TOLERANCE = 1e-9
"""Relative; graphs contain inverses of matrices and the like."""


def with_derivatives(node: Node, variables: Sequence[Variable]) -> list[Node]:
    """A node, its first derivatives and its second ones."""
    first = differentiate(node, variables, "reverse")
    second = [d for gradient in first for d in differentiate(gradient, variables, "forward")]
    return simplify([node, *first, *second])


@functools.cache
def drawn(name: str) -> tuple[Graph, list[Variable], dict[str, np.ndarray], list[Node]]:
    """A graph with the named step, its variables, their values, and its node with its derivatives."""
    graph = make_graph(name, seed=1, steps=2)
    variables = [term.node for term in graph.inputs]
    values = {v.name: term.value for v, term in zip(variables, graph.inputs, strict=True)}
    return graph, variables, values, with_derivatives(graph.output.node, variables)


def function_of(node: Node, variables: Sequence[Variable]) -> Callable[..., Expression]:
    """The node as a function of arrays."""

    def function(*arguments: Expression) -> Expression:
        table: dict[Node, Node] = {v: a.node for v, a in zip(variables, arguments, strict=True)}
        return Expression(substitute([node], table)[0])

    return function


def affine_graph(seed: int) -> tuple[Node, np.ndarray, np.ndarray]:
    """Views of views of a vector or a matrix, squared and multiplied: the node, the point and its value."""
    pick = Picker(seed, largest=24)
    shape = pick.one([(4,), (6,), (2, 3), (2, 2, 2), (3, 4), (12,)])
    pool = [Term(variable("x", shape), pick.array(shape, 1.5))]
    for _ in range(pick.integer(2, 4)):
        step = pick.one([draw_einsum, draw_view, draw_view, draw_view, draw_sum, draw_concatenation])
        pool.append(step(pick, pool[-2:]))
    node, value = pool[-1]
    axes = list(range(node.rank))
    return total(multiply(node, node, node), axes), pool[0].value, np.sum(value**3)


@pytest.mark.parametrize("name", STEPS)
def test_graphs(name: str) -> None:
    graph, variables, values, roots = drawn(name)
    expected = values_of(roots, values, NUMPY, "float64")
    assert_close(expected[0], graph.output.value, "NumPy")
    is_compiled = list(STEPS).index(name) % 8 == 0  # XLA takes its time for second derivatives
    for library, count in ((TORCH, len(roots)), (JAX, len(roots) if is_compiled else 1 + len(variables))):
        found = values_of(roots[:count], values, library, "float64")
        for k, (part, reference) in enumerate(zip(found, expected, strict=False)):
            assert_close(plain(part), reference, f"{library.name}, result {k}", TOLERANCE)


@pytest.mark.parametrize("name", STEPS)
def test_autograd_of_graphs(name: str) -> None:
    """Autograd looks into programs for values and gradients: it must find the gradients and Hessians."""
    _, variables, values, roots = drawn(name)
    reference = values_of(roots, values, NUMPY, "float64")
    count = len(variables)
    expected = []
    for k, value in enumerate(values.values()):
        parts = [reference[1 + k], *(reference[1 + count + count * j + k] for j in range(count))]
        expected.append(sum(part.reshape(-1, *value.shape).sum(0) for part in parts))
    given = [torch.tensor(value, requires_grad=True) for value in values.values()]
    results = compiled_in("torch", roots[: 1 + count], list(values))(*given)
    unused = sum(0.0 * value.sum() for value in given)
    found = torch.autograd.grad(sum(result.sum() for result in results) + unused, given)
    for k, (part, value) in enumerate(zip(found, expected, strict=True)):
        assert_close(plain(part), value, f"by {variables[k].name}", TOLERANCE)


@pytest.mark.parametrize("seed", range(28))
def test_views_and_placements(seed: int) -> None:
    """Dense ones in one program, structured ones by their parts, and batches of them."""
    node, point, value = affine_graph(seed)
    x = variable("x", point.shape)
    roots = with_derivatives(node, [x])
    expected = values_of(roots, {"x": point}, NUMPY, "float64")
    assert_close(expected[0], value, "NumPy")
    batch = np.stack([point, 2 * point])
    again = values_of(roots, {"x": 2 * point}, NUMPY, "float64")
    both = [np.stack(pair) for pair in zip(expected, again, strict=True)]
    for library in (TORCH, JAX) if seed % 2 else (TORCH,):
        for k, found in enumerate(values_of(roots, {"x": point}, library, "float64")):
            assert_close(plain(found), expected[k], f"{library.name}, result {k}", TOLERANCE)
    batched = torch.func.vmap(compiled_in("torch", roots))(torch.tensor(batch))
    for k, found in enumerate(batched):
        assert_close(plain(found), both[k], f"torch, batch {k}", TOLERANCE)
    if seed % 4 == 0:
        mapped = jax.jit(jax.vmap(compiled_in("jax", roots)))(batch)
        for k, found in enumerate(mapped):
            assert_close(plain(found), both[k], f"JAX, batch {k}", TOLERANCE)


def compiled_in(backend: str, roots: Sequence[Node], names: Sequence[str] = ("x",)) -> Executable:
    """The nodes as a function of arrays, as the target writes it."""
    target = target_named(backend)
    dtype = torch.float64 if backend == "torch" else np.dtype(float)
    settings = {"jit": False} if backend == "jax" else {}
    return executable(roots, names, dtype, target.configured(**settings))


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
@pytest.mark.parametrize("seed", [3, 8, 15, 24, 32])
def test_structured(seed: int, library: Library) -> None:
    node, point, _ = affine_graph(seed)
    _, _, expected = values_of(
        with_derivatives(node, [variable("x", point.shape)]), {"x": point}, NUMPY, "float64"
    )
    derivative = hesse.hessian(function_of(node, [variable("x", point.shape)]), form="structured")
    tensor = derivative(library.array(point))
    assert isinstance(tensor.dense(), library.array_class)
    assert_close(plain(tensor.dense()), expected, "dense", TOLERANCE)
    assert_close(plain(tensor.dense(chunk=1)), expected, "in chunks", TOLERANCE)
    product = np.tensordot(expected, point, point.ndim)
    assert_close(plain(tensor @ library.array(point)), product, "product", TOLERANCE)
    matrix = expected.reshape(point.size, point.size)
    assert_close(plain(tensor.trace()), np.trace(matrix), "trace", TOLERANCE)
    assert_close(plain(tensor.diagonal()).reshape(-1), np.diagonal(matrix), "diagonal", TOLERANCE)
    quadratic = point.reshape(-1) @ matrix @ point.reshape(-1)
    assert_close(plain(tensor.quadratic(library.array(point))), quadratic, "quadratic", TOLERANCE)
