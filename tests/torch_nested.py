"""Derivatives of torch functions by nested `torch.func.jacrev`, and the comparison with hesse's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.func import jacrev
from torch.utils._pytree import tree_leaves

import hesse


def nested(function: Callable[..., Any], order: int, argnums: tuple[int, ...]) -> Callable[..., Any]:
    """The derivative of an order, by PyTorch alone."""
    for _ in range(order):
        function = jacrev(function, argnums=argnums)
    return function


def assert_equal(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """The same leaves: shapes, dtypes and values."""
    leaves = tree_leaves(found), tree_leaves(expected)
    assert len(leaves[0]) == len(leaves[1])
    for ours, theirs in zip(*leaves, strict=True):
        assert isinstance(ours, torch.Tensor)
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def assert_agrees(
    function: Callable[..., Any],
    *arguments: torch.Tensor,
    order: int = 2,
    reference: Callable[..., Any] | None = None,
) -> None:
    """hesse's derivatives of all orders up to this one, all blocks, in a first and in a second call.

    The `reference` is the same function written so that PyTorch can differentiate it.
    """
    argnums = tuple(range(len(arguments)))
    reference = reference or function
    assert_equal(hesse.compile(function)(*arguments), reference(*arguments))
    others = [argument * 1.001 for argument in arguments]
    for k in range(1, order + 1):
        ours, theirs = hesse.derivative(function, k, argnums=argnums), nested(reference, k, argnums)
        for point in (arguments, others):
            assert_equal(ours(*point), theirs(*point))
