"""What tests of walked graphs have in common: points, references and how they are compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from hesse.torch import Controller


@pytest.fixture(autouse=True)
def in_double_precision() -> Iterator[None]:
    """Numbers in functions, which torch.func takes in the default dtype, are exact to 1e-16."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def leaves(
    shapes: Sequence[tuple[int, ...]], seed: int = 0, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """Leaves with random entries."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def nested(function: Callable[..., Tensor], points: Sequence[Tensor], key: Sequence[int]) -> Tensor:
    """The derivative by some arguments, one after the other."""
    for k in key:
        function = torch.func.jacrev(function, argnums=k)
    return function(*(point.detach() for point in points))


def hessian(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    found: Callable[[Tensor], Tensor] = torch.func.jacrev(torch.func.jacrev(function))
    return found


def keys(count: int, order: int) -> Iterator[tuple[int, ...]]:
    """All blocks up to an order."""
    for o in range(1, order + 1):
        yield from itertools.product(range(count), repeat=o)


def check(
    controller: Controller, function: Any, points: Sequence[Tensor], order: int, limit: float = 1e-8
) -> None:
    """Compare all blocks, in the shape that they have."""
    size = controller.tensor.numel()
    for key in keys(len(points), order):
        value, (shapes, indeps, vperm) = controller.fetch_hgrad([points[k] for k in key])
        assert value.shape == (size, *(n for k in key for n in points[k].shape))
        assert shapes == tuple(tuple(points[k].shape) for k in key)
        assert indeps == ((),) * len(key)
        assert vperm == tuple(range(len(key)))
        expected = nested(function, points, key).reshape(value.shape)
        scale = max(1.0, float(expected.abs().max()))
        assert float((value - expected).abs().max()) <= limit * scale, key
