"""The naive evaluator knows every operation, and says no to positions outside a tensor."""

from __future__ import annotations

import numpy as np
import pytest

import hesse.ops.elementwise
import hesse.ops.linalg
import hesse.ops.normalization
import hesse.ops.structural  # noqa: F401
import naive
from hesse.ir import add, delta, multiply, pairwise, uniform, variable
from hesse.ops.registry import ELEMENTWISE, OPERATIONS


def test_it_covers_the_tables() -> None:
    assert set(naive.ELEMENTWISE) == set(ELEMENTWISE)
    assert set(naive.OPERATIONS) == set(OPERATIONS)


def test_einsum_sum_and_leaves() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4) - 5.0
    product = pairwise("ij,jk->ik", variable("a", (2, 3)), variable("b", (3, 4)))
    node = add([product, multiply(product, product), uniform(3.0, (2, 4))], (2, 4))
    np.testing.assert_allclose(naive.evaluate(node, {"a": a, "b": b}), a @ b + (a @ b) ** 2 + 3.0)


def test_repeated_outputs_add_up() -> None:
    np.testing.assert_array_equal(naive.evaluate(delta((3,))), np.eye(3))
    x = variable("x", ("n",))
    outer = pairwise("i,j->ij", x, x)
    assert naive.evaluate(outer, {"x": [1.0, 2.0]}, {"n": 2}).tolist() == [[1.0, 2.0], [2.0, 4.0]]


def test_wrong_shapes_are_noticed() -> None:
    with pytest.raises(AssertionError, match="evaluates to the shape"):
        naive.evaluate(variable("x", (3,)), {"x": np.zeros(4)})
