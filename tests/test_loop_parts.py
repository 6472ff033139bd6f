"""How loops are taken apart: leaves that do not wait for each other, narrow places, linear recurrences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hesse
from hesse.backends.numpy.recurrence import diagonal_recurrence
from hesse.ir import topological
from hesse.ops.foreign import FOREIGN, rule_of
from scan_cases import layers, narrow, normal


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("shape", [(1,), (3,), (2, 2)])
@pytest.mark.parametrize("count", [1, 5, 16, 17, 100])
@pytest.mark.parametrize("size", [1.0, 1e-40, 1e40, 0.0])
def test_linear_recurrences_by_blocks(
    size: float, count: int, shape: tuple[int, ...], is_reversed: bool
) -> None:
    """Products of factors may leave the range of numbers where carries do not."""
    factors, added = normal(count, *shape, seed=1), normal(count, *shape, seed=2)
    factors[count // 3 :: 7] *= size
    added[: count // 2] = 0.0
    carries = np.zeros((count + 1, *shape))
    if is_reversed:
        factors, added, carries = factors[::-1], added[::-1], carries[::-1]
    expected = np.zeros(carries.shape)
    with np.errstate(all="ignore"):
        for k in range(count):
            expected[k + 1] = factors[k] * expected[k] + added[k]
        diagonal_recurrence(carries[1:], carries[0], factors, added)
    np.testing.assert_allclose(carries, expected, rtol=1e-11)


def loops(function: Any, *arguments: Any) -> list[tuple[tuple[int, ...], bool]]:
    """The shapes of the carries of all loops, and whether they are linear recurrences."""
    order = topological(hesse.grad(function).explain(*arguments).roots)
    nodes = [node for node in order if getattr(node, "name", "") == FOREIGN]
    return sorted((node.operands[0].shape, rule_of(node).body.is_diagonal) for node in nodes)


def test_leaves_that_do_not_wait_for_each_other_are_loops_of_their_own() -> None:
    found = loops(layers(hesse.scan, np), normal(7, 2))
    assert found == [((2,), False), ((2,), False), ((2,), True), ((2,), True)]


def test_the_narrowest_value_of_a_step_is_carried() -> None:
    assert loops(narrow(hesse.scan, np), normal(7, 2), normal(4)) == [((2,), False), ((2,), True)]


def test_linear_recurrences_are_found() -> None:
    def smoothed(x: Any) -> Any:
        return np.sum(hesse.scan(lambda s, x: (0.9 * s + np.sin(x), s), x[0], x)[1] ** 2)

    assert loops(smoothed, normal(7, 3)) == [((3,), True), ((3,), True)]
