"""Modules as functions of their parameters."""

from __future__ import annotations

import subprocess
import sys

import torch
import torch.nn.functional as F
from tests.torch_nested import assert_equal
from torch import nn
from torch.func import functional_call, jacrev

import hesse
import hesse.torch
from hesse.structured import Structured

torch.manual_seed(5)
NET = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
INPUTS, TARGETS = torch.randn(5, 2, dtype=torch.float64), torch.randn(5, 1, dtype=torch.float64)


def test_hessian_by_all_parameters() -> None:
    f = hesse.torch.functional(NET, F.mse_loss)
    parameters = hesse.torch.parameters_of(NET)
    expected = jacrev(jacrev(lambda p: F.mse_loss(functional_call(NET, p, (INPUTS,)), TARGETS)))(parameters)
    derivative = hesse.hessian(f)
    for given in (parameters, dict(NET.named_parameters())):
        found = derivative(given, INPUTS, TARGETS)
        for row in parameters:
            for column in parameters:
                assert_equal(found[row][column].detach(), expected[row][column])


def test_structured_blocks() -> None:
    f = hesse.torch.functional(NET, F.mse_loss)
    parameters = hesse.torch.parameters_of(NET)
    blocks = hesse.hessian(f, form="structured")(parameters, INPUTS, TARGETS)
    dense = hesse.hessian(f)(parameters, INPUTS, TARGETS)
    block = blocks["0.weight"]["2.weight"]
    assert isinstance(block, Structured)
    assert_equal(block.dense(), dense["0.weight"]["2.weight"])


def test_some_parameters_and_inputs() -> None:
    f = hesse.torch.functional(NET)
    some = {"2.weight": NET[2].weight.detach()}
    found = hesse.jacobian(f, argnums=(0, 1))(some, INPUTS)
    expected = jacrev(lambda p, x: functional_call(NET, p, (x,)), argnums=(0, 1))(some, INPUTS)
    assert_equal(found[0]["2.weight"].detach(), expected[0]["2.weight"].detach())
    assert_equal(found[1].detach(), expected[1].detach())


class Centred(nn.Module):
    """With buffers of numbers and of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.full((2,), 0.5, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean) ** 2 / self.count


def test_buffers() -> None:
    net = Centred()
    buffers = hesse.torch.buffers_of(net)
    assert set(buffers) == {"mean"}
    found = hesse.jacobian(hesse.torch.functional(net))(buffers, INPUTS)
    expected = jacrev(lambda b: functional_call(net, b, (INPUTS,)))(buffers)
    assert_equal(found["mean"], expected["mean"])


def test_hesse_does_not_import_torch() -> None:
    code = "import hesse, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
