"""Operations recorded from the start."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.torch_graph_tools import check, in_double_precision, leaves, nested
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import hesse.torch
from hesse.errors import ArgumentError
from hesse.frontends.aten.recording import living
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


LABELS, SETS = torch.tensor([0, 3, 5]), torch.tensor([[1, 0, -1], [2, -1, 0]])


def _paths(x: Tensor) -> Tensor:
    lengths = torch.tensor([3, 3]), torch.tensor([2, 1])
    scores = F.log_softmax(torch.stack([x, x * 2, x.sin()]), -1)
    return F.ctc_loss(scores, torch.tensor([[1, 1], [2, 1]]), *lengths)


def _rare_classes() -> Callable[[Tensor], Tensor]:
    module = torch.nn.AdaptiveLogSoftmaxWithLoss(3, 6, [2, 4], 1.0, dtype=torch.float64)
    return lambda x: module(torch.cat([x, x[:1] * 2]), LABELS).loss


def _without_diagonal(x: Tensor) -> Tensor:
    y = x[0].expand(3, 3).clone()
    y.diagonal().zero_()
    return torch.cov(x).fill_diagonal_(0.0).sum() ** 2 + y.fill_diagonal_(2.0).logsumexp(1)


INTEGERS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "lengths": (_paths, 1),
    "integers written in place": (_rare_classes(), 2),
    "labels": (lambda x: F.multilabel_margin_loss(x * x, SETS), 2),
    "padding": (lambda x: F.embedding_bag(SETS + 1, x.repeat(2, 1).sin(), mode="sum", padding_idx=1), 2),
    "views made anew": (_without_diagonal, 2),
    "turned in place": (
        lambda x: torch.stft(
            x.flatten(), 2, 2, window=torch.ones(2), center=False, return_complex=True
        ).abs(),
        2,
    ),
    "conjugates": (lambda x: torch.fft.ifft(x.sin()).imag ** 2, 2),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_and_views_are_recorded(name: str) -> None:
    function, order = INTEGERS[name]
    (x,) = leaves([(2, 3)])
    with hesse.torch.record() as recording:
        y = function(x)
    controller = backward(y, order)
    assert recording.knows(y)
    for k in range(1, order + 1):
        found = controller.fetch_hgrad((x,) * k)[0]
        expected = hesse.derivative(function, k)(x.detach())  # compared with nested jacrev elsewhere
        torch.testing.assert_close(found, expected.reshape(found.shape))
    first = torch.autograd.functional.jacobian(function, x)
    torch.testing.assert_close(controller.fetch_hgrad((x,))[0], first.reshape(x.hgrad[0].shape))


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


def test_what_was_computed_before_the_recording_is_found_in_the_graph() -> None:
    (x,) = leaves([(2, 3)])
    before = x.sin()
    with hesse.torch.record() as recording:
        y = before.exp()
    assert recording.knows(y)
    check(backward(y, 2), lambda x: x.sin().exp(), [x], 2)


def test_what_was_computed_before_the_recording_and_written_to() -> None:
    (x,) = leaves([(2, 3)])
    before = x.sin()
    with hesse.torch.record():
        y = torch.zeros(3, 3)
        y[1:] = before
    with pytest.raises(ArgumentError, match=r"of shape \(2, 3\) was computed before the recording began"):
        backward(y, 2)


def _total(x: Tensor) -> Tensor:
    with hesse.torch.record():
        y = torch.zeros(4)
        y[1:] = x**3
        return y.sum()


def test_a_recording_lives_as_long_as_what_it_computed() -> None:
    for seed in range(2):
        (x,) = leaves([(3,)], seed)
        backward(_total(x), 3)
        torch.testing.assert_close(x.hgrad[1][0], torch.diag(6 * x.detach()))
        assert x.hgrad[2][0].sum() == 18.0


def test_a_view_keeps_the_recording() -> None:
    (x,) = leaves([(3,)])
    with hesse.torch.record():
        y = torch.zeros(4)
        y[1:] = x**3
        part = y[2:]
    del y
    gc.collect()
    backward(part, 2)
    torch.testing.assert_close(x.hgrad[1][0, 1, 1], 6 * x.detach()[1])


@pytest.fixture
def without_collection() -> Iterator[None]:
    """What is freed here is freed at once, without a search for cycles."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collection")
def test_a_recording_is_freed_with_the_last_tensor() -> None:
    (x,) = leaves([(3,)])
    with hesse.torch.record() as recording:
        y = torch.zeros(4)
        y[1:] = x**3
        inner = x.exp()
        total = (y.sum() + inner.sum()) * 2
        total.backward(retain_graph=True)  # its results are no reason to live
    alive = weakref.ref(recording)
    del recording, y, inner
    backward(total, 2)
    assert alive() is not None
    del total
    assert alive() is None
    assert x.hgrad[1].shape == (1, 3, 3)
    torch.testing.assert_close(x.grad, 6 * x.detach() ** 2 + 2 * x.detach().exp())


@pytest.mark.usefixtures("without_collection")
def test_a_recording_keeps_nothing_that_it_made() -> None:
    (x,) = leaves([(3,)])
    with hesse.torch.record() as recording:
        large = x.detach().repeat(1000)
        memory = weakref.ref(large.untyped_storage())
        y = (large.sum() * x).sum()
        del large
        assert memory() is None
    backward(y, 2)
    assert recording.knows(y)
    assert not x.hgrad[1].any()


@pytest.mark.usefixtures("without_collection")
def test_repeated_recordings_leave_nothing_behind() -> None:
    (x,) = leaves([(3,)])
    buffer = torch.zeros(4)
    for _ in range(3):
        with hesse.torch.record():
            buffer.add_(1.0)
            y = torch.zeros(4)
            y[1:] = x**2
            z = (y * buffer).sum()
        backward(z, 2)
        del y, z
        with torch.no_grad():
            x -= 0.1 * x.hgrad[0][0]
    assert not [recording for recording in living if recording.knows(buffer)]
    torch.testing.assert_close(x.hgrad[1][0], 6 * torch.eye(3))


def test_what_is_written_into_a_tensor_from_outside() -> None:
    (x,) = leaves([(3,)])
    buffer, scale = torch.arange(4.0), torch.ones(3)
    with hesse.torch.record():
        before = (x * buffer[1:]).sum()
        scale[0].mul_(2.0)
        scale[1:].add_(10.0)
        buffer[1:] = x**2
    backward(buffer, 2)
    torch.testing.assert_close(x.hgrad[1][1:], torch.diag_embed(2 * torch.eye(3)))
    backward(before, 1)
    torch.testing.assert_close(x.hgrad[0][0], torch.arange(1.0, 4.0))
    with hesse.torch.record():
        y = (x**2 * scale[1]).sum()
        scale[0].mul_(3.0)
        y = y + (x**2 * scale).sum()
    backward(y, 2)
    torch.testing.assert_close(x.hgrad[1][0], torch.diag(2 * torch.tensor([17.0, 22.0, 22.0])))


def test_leaves_that_are_made_inside() -> None:
    with hesse.torch.record():
        x = torch.randn(3).requires_grad_()
        y = (x.detach() * x**3).sum()
    backward(y, 2)
    torch.testing.assert_close(x.hgrad[1][0], torch.diag(6 * x.detach() ** 2))


def test_recordings_inside_of_each_other() -> None:
    (x,) = leaves([(3,)])
    with hesse.torch.record():
        y = torch.zeros(4)
        with hesse.torch.record():
            y[1:] = x**3
        z = y * x.sum()
    check(backward(z, 2), lambda x: torch.cat([torch.zeros(1), x**3]) * x.sum(), [x], 2)
    backward(y, 2)
    assert x.hgrad[1].shape == (4, 3, 3)


def test_recorded_tensors_are_copied_and_saved() -> None:
    (x,) = leaves([(3,)])
    y = _total(x)
    assert copy.deepcopy(y.detach()) == y
    stream = io.BytesIO()
    torch.save(y.detach(), stream)
    stream.seek(0)
    assert torch.load(stream) == y
    assert pickle.loads(pickle.dumps(y.detach())) == y


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("rectified", [F.rrelu, lambda x, training: F.rrelu_(1.0 * x, training=training)])
def test_slopes_of_rrelu(training: bool, rectified: Callable[..., Tensor]) -> None:
    (x,) = leaves([(2, 3)])
    with hesse.torch.record():
        y = rectified(x, training=training)
        z = (y**3).sum()
    slopes = (y / x).detach()
    assert training == (len(slopes.round(decimals=6).unique()) > 2)
    backward(z, 2)
    torch.testing.assert_close(x.hgrad[0][0], 3.0 * slopes**3 * x.detach() ** 2)
    torch.testing.assert_close(x.hgrad[1].reshape(6, 6), (6.0 * slopes**3 * x.detach()).flatten().diag())


def test_what_was_read_is_changed_afterwards_although_the_result_is_the_same() -> None:
    x, scale = torch.zeros(3, requires_grad=True), torch.ones(3)
    with hesse.torch.record():
        y = (x**2 * scale).sum()
    scale.add_(1.0)
    with pytest.raises(ArgumentError, match=r"of shape \(3,\) was changed in place after the recording"):
        backward(y, 2)
