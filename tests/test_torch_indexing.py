"""Reading and writing torch tensors by integers and masks: derivatives as PyTorch has them, and refusals."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import grad

import hesse
from hesse.errors import DifferentiationError, TracingError
from torch_indexing_cases import CASES, MASK, ORDER, TABLE
from torch_module_cases import Case, check, integers, normal
from torch_nested import assert_agrees, assert_equal

DECOMPOSED = {"decomposed: argsort"}
"""Operations that PyTorch takes apart; all others have handlers, and none is foreign."""


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_nested_jacrev(case: Case) -> None:
    """All blocks of the derivatives; what is not in the table is said above."""
    assert check(case) <= DECOMPOSED


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "mask": (lambda x: x[x > 0].sum(), r"index.* which needs the entries of a traced tensor.*torch.where"),
    "masked_select": (lambda x: torch.masked_select(x, x > 0).sum(), "a mask whose entries must be known"),
    "write by a mask": (lambda x: x.index_put((x > 0,), x[:1]).sum(), "a mask whose entries must be known"),
    "masked_scatter": (lambda x: x.masked_scatter(x > 0, x).sum(), "a mask whose entries must be known"),
    "unique": (lambda x: torch.unique(x).sum(), "_unique2.* which needs the entries of a traced tensor"),
    "nonzero": (lambda x: torch.nonzero(x).sum() * x.sum(), "nonzero.* which needs the entries"),
    "one_hot": (
        lambda x: F.one_hot(x.argmax(0)).double().sum() * x.sum(),
        r"Say how many classes.*one_hot\(i, n\)",
    ),
    "frequencies": (
        lambda x: F.embedding(TABLE, x[:, None], scale_grad_by_freq=True).sum(),
        "an embedding with scale_grad_by_freq",
    ),
    "number as an index": (lambda x: torch.arange(3)[x].sum(), "a traced real number as an index"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """What depends on entries of x is said, with a way out."""
    function, message = REFUSED[name]
    with pytest.raises((TracingError, IndexError), match=message):
        hesse.grad(function)(normal(3))


def test_indices_out_of_range() -> None:
    """As in PyTorch, in the first call and in later ones, known and traced."""
    x = normal(3)
    with pytest.raises(Exception, match=r"out of (range|bounds)"):
        hesse.grad(lambda x: x[torch.tensor([0, 3])].sum())(x)
    derivative = hesse.grad(lambda x, i: x[i].square().sum())
    assert_equal(derivative(x, integers(0, -3)), 4 * x * integers(1, 0, 0))
    with pytest.raises(Exception, match=r"out of (range|bounds)"):
        derivative(x, integers(0, 3))


def test_other_integers_and_masks_in_later_calls() -> None:
    """One derivative for all integers, and one for each mask."""
    x, y = normal(4, 2), normal(3, 2)
    functions: list[tuple[Callable[..., Tensor], list[tuple[Tensor, ...]]]] = [
        (lambda x, i: x[i].sin().sum(), [(x, ORDER), (x, integers(1, 1, 3, -4))]),
        (lambda x, mask: x[mask].sin().sum(), [(x, x > 0), (x, x < 1), (x, x > 0)]),
        (
            lambda x, y, i: x.index_add(0, i, y).sin().sum(),
            [(x, y, integers(0, 0, 1)), (x, y, integers(3, 2, 1))],
        ),
        (
            lambda x, y, i: x.index_copy(0, i, y).sin().sum(),
            [(x, y, integers(0, 2, 1)), (x, y, integers(3, 2, 1))],
        ),
        (lambda x, i: F.embedding(i, x).sin().sum(), [(x, TABLE), (x, TABLE + 1)]),
    ]
    for function, calls in functions:
        derivative = hesse.grad(function)
        for arguments in calls:
            assert_equal(derivative(*arguments), grad(function)(*arguments))


def test_captured_integers_and_masks_that_change() -> None:
    """Written to in place, or rebound, between two calls."""
    place, mask, x = integers(0, 2), MASK.clone(), normal(2, 3)

    def function(x: Tensor) -> Tensor:
        return x[:, place].sin().sum() + x[mask].square().sum()

    derivative = hesse.grad(function)
    assert_equal(derivative(x), grad(function)(x))
    place[0] = 1
    assert_equal(derivative(x), grad(function)(x))
    mask[0, 1] = True
    assert_equal(derivative(x), grad(function)(x))
    mask = ~MASK
    assert_equal(derivative(x), grad(function)(x))


def test_small_integers() -> None:
    """Indices of 32 bits, and bytes as a mask of writing."""
    x = normal(4, 2)
    for function in (lambda x, i: x[i].sin().sum(), lambda x, i: x.index_select(0, i).sin().sum()):
        assert_equal(hesse.grad(function)(x, ORDER[:2].int()), grad(function)(x, ORDER[:2]))


def test_places_that_meet_by_the_data_are_nan() -> None:
    """Which of two values counts is not known; where they do not meet, there is no doubt."""

    def function(x: Tensor) -> Tensor:
        return torch.zeros(3, dtype=x.dtype).scatter(0, x.argmax(1), x[:, 0] ** 2)

    apart = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]], dtype=torch.float64)
    together = torch.tensor([[1.0, 0.0, 0.0], [3.0, 0.0, 2.0]], dtype=torch.float64)
    value = hesse.compile(function)
    assert_equal(value(apart), function(apart))
    assert_equal(hesse.jacobian(function)(apart), torch.func.jacrev(function)(apart))
    assert torch.isnan(value(together)[0])
    slope = hesse.jacobian(function)(together)
    assert torch.isnan(slope[0, 0, 0])
    assert not slope[1:].any()


def test_single_precision() -> None:
    """Results have the dtype of the arguments."""
    for name in ("x[i, j]", "gather", "scatter_add", "x[i] = y", "embedding_bag mean"):
        case = CASES[name]
        arguments = [v.float() if v.dtype.is_floating_point else v for v in case.arguments]
        for argnum in case.argnums:
            found = hesse.jacobian(case.function, argnum)(*arguments)
            expected = hesse.jacobian(case.function, argnum)(*case.arguments)
            assert_equal(found, expected.float(), 1e-5)


def test_renormalised_embeddings_are_refused() -> None:
    """`max_norm` changes the table in place, by what PyTorch has no derivative of."""
    message = "embedding_renorm has no rule in hesse, and PyTorch's own fails"
    with pytest.raises(DifferentiationError, match=message), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hesse.grad(lambda w: F.embedding(TABLE, w, max_norm=1.0).sum())(normal(4, 2))


def _every_other_written(x: Tensor) -> Tensor:
    y = torch.zeros(6, dtype=x.dtype)
    y.as_strided((3,), (2,)).copy_(x[:3] ** 3)
    y.as_strided((2,), (3,), 1).mul_(x[1:3])
    return y * x


def _blocks_written(x: Tensor) -> Tensor:
    y = x * 2
    y.as_strided((2, 2), (3, 1)).copy_(x[:4].reshape(2, 2) ** 2)
    return y**2


def _columns_copied(x: Tensor) -> Tensor:
    columns = x.reshape(2, 3).T.clone(memory_format=torch.contiguous_format)
    return columns.as_strided((2, 2), (1, 3)) ** 3


KNOWN = torch.arange(6.0, dtype=torch.float64)
STRIDED: dict[str, Callable[[Tensor], Tensor]] = {
    "overlapping windows": lambda x: torch.as_strided(x, (4, 3), (1, 1)).sin().prod(1),
    "an offset": lambda x: x.as_strided((2, 2), (2, 1), 1) ** 3,
    "a matrix": lambda x: x.reshape(2, 3).as_strided((3, 2), (1, 3)).exp() @ x[:2],
    "a part": lambda x: x[2:].as_strided((3, 2), (1, 1)) ** 3,
    "repeated": lambda x: x.as_strided((3, 4), (2, 0)) ** 3 * KNOWN[:4],
    "a number": lambda x: x.as_strided((), (), 4) ** 3,
    "nothing": lambda x: x.as_strided((0, 2), (1, 1)).sum() + x.prod(),
    "one entry": lambda x: x.as_strided((1,), (3,)) ** 3,
    "known entries": lambda x: x[:4] ** 2 * KNOWN.as_strided((4,), (1,), 2),
    "a result": lambda x: (x**2).as_strided((4, 3), (1, 1)).prod(1),
    "every other entry written": _every_other_written,
    "blocks written": _blocks_written,
    "columns copied": _columns_copied,
}


@pytest.mark.parametrize("name", STRIDED)
def test_strides(name: str) -> None:
    x = torch.tensor([0.3, -0.8, 1.2, 0.5, -0.4, 0.9], dtype=torch.float64)
    assert_agrees(STRIDED[name], x, order=3)


def test_strides_in_modules_of_other_layouts() -> None:
    """A captured tensor that is a part of another has memory that begins before it."""
    base = torch.arange(8.0, dtype=torch.float64)
    part, shifted = base[2:], base[2:].as_strided((3,), (2,), 1)
    x = torch.tensor([0.3, -0.8, 1.2], dtype=torch.float64)
    assert_agrees(lambda x: x**2 * (part * 1).as_strided((3,), (2,)), x)
    assert_agrees(lambda x: x**2 * shifted, x)
    assert_agrees(lambda x: x**2 * part.as_strided((3,), (2,), 1), x)
    with pytest.raises(TracingError, match="with a storage_offset, of a tensor that is a part of another"):
        hesse.grad(lambda x: x.as_strided((3,), (1,), 1).sum())(part)
    assert_agrees(lambda x: x**2 * torch.arange(8.0)[2:].as_strided((3,), (2,), 0), x)
