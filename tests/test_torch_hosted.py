"""Small programs on the processor run on NumPy, and nobody notices."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch.utils._device import DeviceContext

import hesse
from hesse.backends.torch.hosted import MOST_ENTRIES, Hosted

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # of torch.func


@pytest.fixture
def calls(monkeypatch):
    """How many calls NumPy computed."""
    counted = []
    once = Hosted.__call__

    def counting(self, *arrays):
        plain = self._function
        self._function = lambda *given: counted.append("torch") or plain(*given)
        try:
            result = once(self, *arrays)
        finally:
            self._function = plain
        counted.append("call")
        return result

    monkeypatch.setattr(Hosted, "__call__", counting)
    return counted


def net(x, weight):
    return torch.sum(torch.tanh(x @ weight) ** 2 * torch.nn.functional.softplus(x).sum(1, keepdim=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_it_computes_what_torch_computes(calls, dtype):
    x, weight = torch.randn(5, 3, dtype=dtype), torch.randn(3, 4, dtype=dtype)
    found = [hesse.value_and_grad(net)(x, weight) for _ in range(2)]
    hessian = hesse.hessian(net)(x, weight)
    assert "torch" not in calls and len(calls) == 3
    assert hessian.dtype == dtype and type(hessian) is torch.Tensor
    tolerance = 1e-12 if dtype == torch.float64 else 1e-4
    for value, gradient in found:
        torch.testing.assert_close(value, net(x, weight), rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(gradient, torch.func.grad(net)(x, weight), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(hessian, torch.func.hessian(net)(x, weight), rtol=tolerance, atol=tolerance)


def test_autograd_is_served_by_torch(calls):
    x, weight = torch.randn(5, 3), torch.randn(3, 4, requires_grad=True)
    gradient = hesse.grad(net)
    gradient(x, weight).sum().backward()
    assert calls == ["torch", "call"]
    assert weight.grad is not None
    with torch.no_grad():
        assert not gradient(x, weight).requires_grad
    assert calls[2:] == ["call"]
    _, tangent = torch.func.jvp(lambda x: gradient(x, weight), (x,), (torch.ones_like(x),))
    expected = hesse.hvp(net)(x, weight, torch.ones_like(x))
    torch.testing.assert_close(tangent, expected, rtol=1e-4, atol=1e-4)


class Marked(torch.Tensor):
    """A tensor that is more than an array."""


def test_what_is_no_plain_tensor_is_left_to_torch(calls):
    gradient = hesse.grad(lambda x: torch.sum(x**3))
    x = torch.arange(3.0)
    gradient(x)
    marked = gradient(x.as_subclass(Marked))
    torch.testing.assert_close(marked.as_subclass(torch.Tensor), 3 * x**2)
    negated = torch.conj(torch.view_as_complex(torch.randn(3, 2))).imag
    assert negated.is_neg()
    torch.testing.assert_close(gradient(negated), 3 * negated**2)
    expanded = torch.tensor(2.0).expand(3)
    torch.testing.assert_close(gradient(expanded), torch.full((3,), 12.0))
    assert calls.count("torch") >= 2


def test_results_are_memory_of_their_own():
    x = torch.arange(1.0, 4.0)
    identity = hesse.grad(lambda x: 0.5 * (x @ x))
    first = identity(x)
    first += 1.0
    torch.testing.assert_close(x, torch.arange(1.0, 4.0))
    torch.testing.assert_close(identity(x), torch.arange(1.0, 4.0))
    second = identity(x)
    identity(2 * x)
    torch.testing.assert_close(second, torch.arange(1.0, 4.0))
    x.zero_()
    torch.testing.assert_close(second, torch.arange(1.0, 4.0))


def test_errors_and_warnings_are_those_of_torch():
    with pytest.raises(torch.linalg.LinAlgError):
        hesse.grad(lambda a: torch.linalg.cholesky(a).sum())(-torch.eye(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient = hesse.grad(lambda x: torch.sum(torch.log(x)))(torch.zeros(2))
    assert torch.isinf(gradient).all()


def test_large_programs_and_foreign_functions_stay_with_torch(calls):
    hesse.grad(lambda x: torch.sum(torch.sin(x)))(torch.ones(MOST_ENTRIES + 1))
    hesse.grad(lambda x: torch.sum(torch.sin(x)))(torch.ones(3, dtype=torch.bfloat16))

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * gradient

    value, gradient = hesse.value_and_grad(lambda x: Cube.apply(x).sum())(torch.ones(3))
    assert float(value) == 3.0
    np.testing.assert_allclose(gradient.numpy(), 3.0)
    assert "call" not in calls


def test_it_can_be_traced():
    gradient = hesse.grad(lambda x: torch.sum(torch.sin(x)))
    x = torch.arange(4.0)
    expected = gradient(x)
    with torch.inference_mode():
        torch.testing.assert_close(gradient(x), expected)
    exported = torch.fx.experimental.proxy_tensor.make_fx(gradient)(x)
    torch.testing.assert_close(exported(x + 1), torch.cos(x + 1))


def test_a_default_device_changes_nothing(calls):
    gradient = hesse.grad(lambda x: torch.sum(torch.sin(x)))
    x = torch.arange(4.0)
    with torch.device("cpu"):
        torch.testing.assert_close(gradient(x), torch.cos(x))
    assert calls == ["call"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_default_device_does_not_decide_where_programs_run(monkeypatch, dtype):
    """Neither is it asked function by function: that takes longer than the functions."""
    x, weight = torch.randn(5, 3, dtype=dtype), torch.randn(3, 4, dtype=dtype)
    hessian = hesse.hessian(lambda x: torch.sum(torch.tanh(x @ weight) ** 2))
    expected = hessian(x)
    asked = []
    once = DeviceContext.__torch_function__
    monkeypatch.setattr(
        DeviceContext,
        "__torch_function__",
        lambda *given, **options: asked.append(0) or once(*given, **options),
    )
    with torch.device("meta"):
        found = hessian(x)
        count = len(asked)
        differentiated = hessian(x.clone().requires_grad_(True))
    assert count < 10
    assert found.device == differentiated.device == x.device
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(differentiated, expected)
    assert differentiated.requires_grad


def test_a_default_device_holds_inside_of_foreign_functions():
    seen = []

    @hesse.custom_derivative(native=True, shape=lambda shape: shape)
    def doubled(x):
        seen.append(torch.zeros(1).device.type)
        return 2.0 * x

    doubled.defjvp(lambda primals, tangents: 2.0 * tangents[0])
    function = hesse.compile(lambda x: torch.sum(doubled(x) * x))
    x = torch.ones(3)
    expected = function(x)
    with torch.device("meta"):
        found = function(x)
    assert seen[-1] == "meta"
    torch.testing.assert_close(found, expected)


def test_a_mode_that_looks_at_functions_sees_those_of_torch(calls):
    class Watching(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), options=None):
            return function(*arguments, **(options or {}))

    gradient = hesse.grad(lambda x: torch.sum(torch.sin(x)))
    x = torch.arange(4.0)
    gradient(x)
    with Watching(), torch.device("cpu"):
        torch.testing.assert_close(gradient(x), torch.cos(x))
    assert calls.count("torch") == 1
