"""Taylor mode: every row and record along a direction, summed and mixed, against nested JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import test_elementwise_table as table
import test_operation_records as records
from hesse.calculus import Parameter, Propagation
from hesse.ir import Node, constant, delta, uniform, variable
from hesse.ops.elementwise import function
from hesse.rewrite import simplify
from oracles import evaluate_jax

ORDER = 4


def along(node: Node, x: Node, v: Node, order: int = ORDER) -> list[Node]:
    """The value and the derivatives along a direction."""
    propagation = Propagation([Parameter(order)], {x: {(1,): v}})
    return [propagation.coefficient(node, (k,)) for k in range(order + 1)]


def values(nodes: Sequence[Node], **inputs: np.ndarray) -> list[np.ndarray]:
    return [records.compiled(node, **inputs) for node in simplify(nodes)]


@pytest.mark.parametrize(("name", "sample"), table.CASES)
def test_rows(name: str, sample: tuple[table.Interval, ...]) -> None:
    rows, slopes = table.points(sample), table.slopes(name, len(sample))
    t = variable("t", (table.COUNT,))
    moved = [constant(row) + t * slope for row, slope in zip(rows, slopes, strict=True)]
    found = values(along(function(name)(*moved), t, uniform(1.0, t.shape)), t=np.zeros(table.COUNT))

    def in_jax(t: Any, *row: Any) -> Any:
        return table.reference(name)(*(entry + t * slope for entry, slope in zip(row, slopes, strict=True)))

    def all_orders(*rows: Any) -> list[Any]:
        return jax.vmap(lambda *row: nested_jvp(lambda t: in_jax(t, *row), ORDER))(*rows)

    for order, expected in enumerate(evaluate_jax(all_orders, *rows)):
        np.testing.assert_allclose(found[order], expected, rtol=1e-9, atol=1e-11, err_msg=f"order {order}")


@pytest.mark.parametrize("case", records.CASES, ids=lambda case: case.name)
def test_records(case: records.Case) -> None:
    """Along a direction to order 3, and the sum over all directions of the second derivatives."""
    x = variable("x", case.point.shape)
    node = case.function(x)
    direction = np.random.default_rng(3).normal(size=case.point.shape)
    found = values(along(node, x, constant(direction), 3), x=case.point)
    laplacian = Propagation([Parameter(2, x.shape, True)], {x: {(1,): delta(x.shape)}}).coefficient(
        node, (2,)
    )
    found += values([laplacian], x=case.point)
    for part, expected in zip(found, _nested(case, direction), strict=True):
        records._close(part, expected, 10 * case.tolerance)


def _nested(case: records.Case, direction: np.ndarray) -> list[Any]:
    """The same by nested `jax.jvp`, along the direction and along the unit tensors."""
    directions = np.concatenate([direction[None], np.eye(direction.size).reshape(-1, *direction.shape)])

    def in_jax(x: Any) -> list[Any]:
        by_order = jax.vmap(lambda v: nested_jvp(lambda t: case.reference(x + t * v), 3))(directions)
        return [*(part[0] for part in by_order), by_order[2][1:].sum(0)]

    return evaluate_jax(in_jax, case.point)  # type: ignore[no-any-return]


def nested_jvp(function: Callable[[Any], Any], order: int) -> list[Any]:
    """The value and the derivatives at 0 of a function of one number."""
    for _ in range(order):
        function = partial(lambda inner, t: jax.jvp(inner, (t,), (jnp.ones(()),)), function)
    leaves = jax.tree.leaves(function(jnp.zeros(())))
    return [leaves[2**k - 1] for k in range(order + 1)]
