"""Sequences of several lengths: packed, through a recurrent net and padded again, against one by one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hesse.torch
from torch_module_cases import normal
from torch_nested import assert_equal, nested

NET = nn.GRU(1, 2, batch_first=True, dtype=torch.float64)


def packed(x: Tensor) -> nn.utils.rnn.PackedSequence:
    """The first two entries of the first sequence, and all three of the second."""
    lengths = torch.tensor([2, 3])
    return nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)


def each(x: Tensor) -> list[Tensor]:
    """The sequences, cut to their lengths."""
    return [x[:1, :2], x[1:]]


CASES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], bool]] = {
    "packed": (
        lambda x: packed(x + 1.0).data ** 2,
        lambda x: (x[[1, 0, 1, 0, 1], [0, 0, 1, 1, 2]] + 1.0) ** 2,
        True,
    ),
    "last states": (
        lambda x: NET(packed(x**2))[1],
        lambda x: torch.cat([NET(part)[1] for part in each(x**2)], 1),
        True,
    ),
    "padded again": (
        lambda x: nn.utils.rnn.pad_packed_sequence(NET(packed(x))[0], True, 0.5, 4)[0].sin(),
        lambda x: torch.cat(
            [F.pad(NET(part)[0], (0, 0, 0, 4 - part.shape[1]), value=0.5) for part in each(x)]
        ).sin(),
        False,
    ),
    "padded again, steps first": (
        lambda x: nn.utils.rnn.pad_packed_sequence(packed(x.exp()))[0],
        lambda x: x.exp().transpose(0, 1) * torch.tensor([[1, 1], [1, 1], [0, 1]])[..., None],
        False,
    ),
}
"""A function, the same one by one, and whether autograd's graph tells what it computes."""


@pytest.mark.parametrize("name", CASES)
def test_sequences_of_several_lengths(name: str) -> None:
    function, reference, is_in_graph = CASES[name]
    x = normal(2, 3, 1)
    expected = nested(reference, 2, (0,))(x)[0][0]
    assert_equal(hesse.compile(function)(x), reference(x))
    assert_equal(hesse.hessian(function)(x), expected)
    for context in (hesse.torch.record, nullcontext)[: 1 + is_in_graph]:
        leaf = x.clone().requires_grad_()
        with context():
            y = function(leaf)
        found = hesse.torch.backward(y, 2).fetch_hgrad((leaf, leaf))[0]
        assert_equal(found.reshape(expected.shape), expected)


def test_lengths_may_be_others_in_later_calls() -> None:
    def function(x: Tensor, lengths: Tensor) -> Tensor:
        return (nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True).data ** 2).sum()

    derivative, x = hesse.grad(function), normal(2, 3, 1)
    for sizes in ([3, 2], [2, 1], [3, 3]):
        is_inside = torch.arange(3) < torch.tensor(sizes)[:, None]
        assert_equal(derivative(x, torch.tensor(sizes)), 2 * x * is_inside[..., None])
