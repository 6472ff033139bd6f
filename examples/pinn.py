"""A physics-informed net for the bent beam, u'''' = q, trained with derivatives from hesse.

Run it with `python examples/pinn.py`. The beam rests on both ends, u = u'' = 0 at 0 and 1, and the
load q = pi**4 sin(pi x) bends it into u = sin(pi x). The whole step, the loss with its fourth derivatives
and the gradient by all parameters, is one program that is made at the first call.
"""

from __future__ import annotations

import itertools
import math
import time

import torch

import hesse

WIDTH, POINTS = 32, 100


def parameters_of_net(seed: int = 0) -> list[torch.Tensor]:
    """Weights and biases in turns: three layers of tanh, then a linear one."""
    generator = torch.Generator().manual_seed(seed)
    widths = [1, WIDTH, WIDTH, WIDTH, 1]
    found = []
    for inputs, outputs in itertools.pairwise(widths):
        found.append(torch.randn(outputs, inputs, generator=generator, dtype=torch.float64) / inputs**0.5)
        found.append(torch.zeros(outputs, dtype=torch.float64))
    return found


def net(parameters: tuple[torch.Tensor, ...], x: torch.Tensor) -> torch.Tensor:
    """A column of values that are 0 at both ends."""
    y = x
    for k in range(0, len(parameters) - 2, 2):
        y = torch.tanh(torch.nn.functional.linear(y, parameters[k], parameters[k + 1]))
    return x * (1 - x) * torch.nn.functional.linear(y, parameters[-2], parameters[-1])


def loss(*arguments: torch.Tensor) -> torch.Tensor:
    """The errors of the equation inside and of u'' = 0 at the ends; these points are the last arguments."""
    *parameters, inside, ends = arguments

    def total(x: torch.Tensor) -> torch.Tensor:
        return net(tuple(parameters), x).sum()

    bending = hesse.diagonal(total, order=4)(inside) / math.pi**4
    moment = hesse.diagonal(total, order=2)(ends) / math.pi**2
    return ((bending - torch.sin(math.pi * inside)) ** 2).mean() + (moment**2).mean()


def train(steps: int = 1500, points: int = POINTS) -> tuple[list[float], float]:
    """The losses of all steps, and the largest error of the solution."""
    parameters = [parameter.requires_grad_(True) for parameter in parameters_of_net()]
    inside = torch.linspace(0.0, 1.0, points, dtype=torch.float64)[:, None]
    ends = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    step = hesse.value_and_grad(loss, argnums=tuple(range(len(parameters))))
    optimiser = torch.optim.Adam(parameters, lr=2e-3)
    losses = []
    for _ in range(steps):
        with torch.no_grad():
            value, gradients = step(*parameters, inside, ends)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimiser.step()
        losses.append(float(value))
    error = net(tuple(parameters), inside) - torch.sin(math.pi * inside)
    return losses, float(error.detach().abs().max())


def main() -> None:
    """Train, and say what came of it."""
    start = time.perf_counter()
    losses, error = train()
    for k in range(0, len(losses), len(losses) // 10):
        print(f"step {k:5d}  loss {losses[k]:.3e}")
    print(f"{len(losses)} steps in {time.perf_counter() - start:.1f} s; largest error of u: {error:.1e}")


if __name__ == "__main__":
    main()
