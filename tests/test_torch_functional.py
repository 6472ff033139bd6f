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


def test_buffers() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).double().eval()
    buffers = hesse.torch.buffers_of(net)
    assert set(buffers) == {"1.running_mean", "1.running_var"}
    found = hesse.jacobian(hesse.torch.functional(net))(buffers, INPUTS)
    expected = jacrev(lambda b: functional_call(net, b, (INPUTS,)))(buffers)
    for name in buffers:
        assert_equal(found[name].detach(), expected[name].detach())


def test_hesse_does_not_import_torch() -> None:
    code = "import hesse, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
