"""The same net trained with derivatives from nested autograd and from hesse: the losses of all steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.torch_functions.pinns import (
    BIHARMONIC,
    BURGERS,
    POISSON,
    Equation,
    nested_loss,
    points,
    whole_step,
)
from benchmarks.torch_functions.setting import Setting

COUNT, STEPS, RATE = 100, 200, 1e-3


@dataclass
class Training:
    """Losses at the first and the last step, by how much two curves differ at most, and seconds of both."""

    equation: str
    steps: int
    first_loss: float
    last_loss: float
    deviation: float
    """The largest difference of two losses relative to the loss."""
    seconds_nested: float
    seconds_hesse: float


def compared(setting: Setting) -> list[Training]:
    """Each equation in double precision."""
    double = setting.in_double()
    return [_compared(double, equation) for equation in (POISSON, BURGERS, BIHARMONIC)]


def _compared(setting: Setting, equation: Equation) -> Training:
    torch = setting.torch.xp
    given = points(setting, equation, COUNT)
    step = whole_step(torch, equation, given)

    def nested(parameters: list[Any]) -> tuple[Any, Any]:
        loss = nested_loss(torch, equation, parameters, given)
        found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        return loss.detach(), found

    def by_hesse(parameters: list[Any]) -> tuple[Any, Any]:
        with torch.no_grad():
            result: tuple[Any, Any] = step(parameters)
            return result

    curve, other = (_trained(setting, given.parameters, way) for way in (nested, by_hesse))
    deviation = max(abs(a - b) / abs(a) for a, b in zip(curve[0], other[0], strict=True))
    return Training(equation.name, STEPS, curve[0][0], curve[0][-1], deviation, curve[1], other[1])


def _trained(
    setting: Setting, start: list[Any], way: Callable[[list[Any]], tuple[Any, Any]]
) -> tuple[list[float], float]:
    """The losses of all steps, and the seconds they took after the first one."""
    torch = setting.torch.xp
    parameters = [parameter.clone().requires_grad_(True) for parameter in start]
    optimiser = torch.optim.Adam(parameters, lr=RATE, fused=True)
    losses, began = [], 0.0
    for k in range(STEPS + 1):
        if k == 1:  # the first one traces and compiles
            began = time.perf_counter()
        loss, gradients = way(parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimiser.step()
        losses.append(float(loss))
    return losses, time.perf_counter() - began
