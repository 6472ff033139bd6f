"""Modules of PyTorch as functions of their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from hesse.errors import ArgumentError

Tensors = dict[str, Tensor]
"""Parameters or buffers of a module, by the names that PyTorch gives them."""


def parameters_of(module: nn.Module) -> Tensors:
    """The parameters of a module, to call `functional(module)` with."""
    return {name: value.detach() for name, value in _checked(module).named_parameters()}


def buffers_of(module: nn.Module) -> Tensors:
    """The buffers of a module that hold real numbers, to call `functional(module)` with."""
    found = _checked(module).named_buffers()
    return {name: value.detach() for name, value in found if value.dtype.is_floating_point}


def functional(module: nn.Module, loss: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A module as a function of its parameters and its inputs: `f(parameters, *inputs)`.

    `parameters` is a dict by names; buffers may be among them, and what it does not name is as in the module.
    With a `loss`, the function is `f(parameters, *inputs, target)`, the loss of the result and the target.
    Derivatives by the parameters are dicts of blocks.

    >>> import torch, hesse, hesse.torch
    >>> net = torch.nn.Linear(2, 1, bias=False).double()
    >>> f = hesse.torch.functional(net, torch.nn.functional.mse_loss)
    >>> x, y = torch.tensor([[1.0, 2.0]]).double(), torch.tensor([[3.0]]).double()
    >>> hesse.hessian(f)(hesse.torch.parameters_of(net), x, y)["weight"]["weight"].reshape(2, 2)
    tensor([[2., 4.],
            [4., 8.]], dtype=torch.float64)
    """
    known = {name for name, _ in _checked(module).named_parameters()}
    known |= {name for name, _ in module.named_buffers()}

    def call(parameters: Mapping[str, Any], *inputs: Any, **options: Any) -> Any:
        unknown = sorted(set(parameters) - known)
        if unknown:
            raise ArgumentError(
                f"{type(module).__name__} has no parameter or buffer {', '.join(unknown)}; "
                f"it has {', '.join(sorted(known)) or 'none'}"
            )
        if loss is None:
            return functional_call(module, dict(parameters), inputs, options)
        if not inputs:
            raise ArgumentError("a function with a loss takes the inputs of the module and then the target")
        return loss(functional_call(module, dict(parameters), inputs[:-1], options), inputs[-1])

    call.__name__ = call.__qualname__ = type(module).__name__
    return call


def _checked(module: Any) -> nn.Module:
    if not isinstance(module, nn.Module):
        raise ArgumentError(f"a torch.nn.Module is needed, not a {type(module).__name__}")
    return module
