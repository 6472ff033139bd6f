"""Operations recorded from the start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.torch_graph_tools import check, in_double_precision, leaves, nested
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import hesse.torch
from hesse.errors import ArgumentError, TracingError
from hesse.torch import Controller, backward

__all__ = ["in_double_precision"]  # a fixture for all tests here

pytestmark = [
    pytest.mark.filterwarnings("ignore:hesse has no rule for"),  # some are differentiated by PyTorch's own
    pytest.mark.filterwarnings("ignore:There is a performance drop"),  # of the references
]


def _written(x: Tensor) -> Tensor:
    y = torch.zeros(3, 3)
    y[0] = x[0]
    y[1:, :2] = x[:, 1:] ** 2
    y[2] *= x[1]
    part = y[:, 0]
    part.add_(1.5)
    return torch.cat([torch.ones(1, 3), y.sin(), torch.ones(2, 3)]) ** 2


def _chosen_by_values(x: Tensor) -> Tensor:
    while x.abs().sum() > 3:
        x = x * 0.7
    return x[x > 0].exp() if bool(x[0, 0] > -10) else x


def _partly_without_graph(x: Tensor) -> Tensor:
    with torch.no_grad():
        scale = x.exp() + 1
    return (x.sin() * scale + x.detach() ** 2) * x


def _with_integers(x: Tensor) -> Tensor:
    often = x[0].repeat_interleave(torch.tensor([1, 2, 3]))
    often = often[torch.unique(torch.tensor([4, 0, 1, 4, 3, 5, 2]))]
    places = (x.flatten().sigmoid() * 3).long()
    return torch.cat([often**2, torch.quantile(x, 0.3)[None] ** 2, often[places] * x.flatten() ** 2])


class _Twice(torch.autograd.Function):
    """Has a rule that is not the derivative."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        """exp(x)."""
        context.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(context: Any, cotangent: Tensor) -> Tensor:
        """Twice the derivative."""
        (x,) = context.saved_tensors
        return 2 * cotangent * x.exp()


def _with_own_rule(x: Tensor) -> Tensor:
    with torch.no_grad():
        scale = _Twice.apply(x)
    return _Twice.apply(x * x) * x + scale * x


def test_functions_with_rules_of_their_own_are_recorded_as_one_operation() -> None:
    (x,) = leaves([(2, 3)])
    with hesse.torch.record() as recording:
        y = _with_own_rule(x).sum()
        z = checkpoint(lambda x: (x * x).sin(), x, use_reentrant=True).sum()
    assert recording.knows(y)
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x)
    backward(y, 2)
    torch.testing.assert_close(x.hgrad[0][0], slope.detach())
    torch.testing.assert_close(x.hgrad[1][0].sum((2, 3)), bend)
    backward(z, 1)
    torch.testing.assert_close(x.hgrad[0][0], (torch.cos(x * x) * 2 * x).detach())


@pytest.mark.parametrize("function", [_written, _chosen_by_values, _partly_without_graph, _with_integers])
def test_what_a_graph_does_not_tell_is_recorded(function: Callable[[Tensor], Tensor]) -> None:
    for seed in range(2):
        (x,) = leaves([(2, 3)], seed)
        with hesse.torch.record() as recording:
            y = function(x)
        controller = backward(y, 3)
        assert recording.knows(y)
        first = torch.autograd.functional.jacobian(function, x).reshape(x.hgrad[0].shape)  # values decide
        torch.testing.assert_close(x.hgrad[0], first)
        second = torch.autograd.functional.jacobian(
            lambda x: torch.autograd.functional.jacobian(function, x, create_graph=True), x.detach()
        )
        torch.testing.assert_close(controller.fetch_hgrad((x, x))[0], second.reshape(x.hgrad[1].shape))


def test_dropout_is_recorded_with_its_mask() -> None:
    (x,) = leaves([(4, 5)])
    with hesse.torch.record() as recording:
        y = F.dropout(x.sin(), 0.5).sum()
    backward(y, 2)
    mask = torch.autograd.grad(y, x)[0] / x.cos()
    assert 0 < int((mask == 0).sum()) < 20
    torch.testing.assert_close(torch.diagonal(x.hgrad[1].reshape(20, 20)), (-mask * x.sin()).flatten())
    assert recording.knows(y)


def test_buffers_that_are_written_to_are_recorded_as_they_were() -> None:
    (x,) = leaves([(3,)])
    buffer = torch.arange(3.0)
    with hesse.torch.record() as recording:
        buffer.mul_(2)
        y = (x * buffer).exp()
        buffer.zero_()
    backward(y, 2)
    diagonal = (torch.arange(3.0) * 2) ** 2 * y.detach()
    torch.testing.assert_close(x.hgrad[1], torch.diag_embed(torch.diag_embed(diagonal)))
    assert recording.knows(y)


def test_recorded_tensors_inside() -> None:
    x, w = leaves([(2, 3), (3, 3)])
    with hesse.torch.record() as recording:
        inner = x @ w
        output = torch.exp(inner) * w.sum()
    controller = Controller(output)
    controller.require_grad_((inner, w))
    controller.backward(2)
    mixed = nested(lambda t, w: torch.exp(t) * w.sum(), [inner, w], (0, 1))
    torch.testing.assert_close(controller.fetch_hgrad((inner, w))[0].reshape(mixed.shape), mixed)
    assert recording.knows(inner)


def test_what_was_computed_before_the_recording() -> None:
    (x,) = leaves([(2, 3)])
    before = x.sin()
    with hesse.torch.record() as recording:
        y = before.exp()
    with pytest.raises(ArgumentError, match=r"of shape \(2, 3\) was computed before the recording began"):
        backward(y, 2)
    del recording  # without it the graph is walked
    check(backward(y, 2), lambda x: x.sin().exp(), [x], 2)


def test_operations_that_change_further_tensors_are_refused() -> None:
    (x,) = leaves([(2, 3)])
    with hesse.torch.record() as recording:
        y = F.rrelu(x)
    assert recording.knows(y)
    with pytest.raises(TracingError, match=r"rrelu_with_noise.* changes a tensor in place"):
        backward(y, 2)
