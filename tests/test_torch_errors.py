"""Torch code that cannot be traced: messages that name the operation, the line and a way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hesse
from hesse.errors import ArgumentError, DifferentiationError, TracingError

VECTOR = torch.tensor([1.0, -2.0, 3.0, 0.5, -1.5], dtype=torch.float64)
ENTRIES = "needs the entries of a traced tensor"
RANDOM = "draws random numbers"


def branch(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x.sum()
    return -x.sum()


def loop(x: Tensor) -> Tensor:
    while x.sum() > 1:
        x = x / 2
    return x.sum()


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str, str]] = {
    "if": (branch, f"aten.is_nonzero.*{ENTRIES}", "torch.where"),
    "while": (loop, f"aten.is_nonzero.*{ENTRIES}", "torch.where"),
    "item": (lambda x: x.sum().item() * x.sum(), f"aten.item.*{ENTRIES}", "torch.where"),
    "float": (lambda x: float(x.sum()) * x.sum(), f"aten.item.*{ENTRIES}", "torch.where"),
    "an index": (lambda x: x[int(x[0])], f"aten.item.*{ENTRIES}", "torch.where"),
    "a mask": (lambda x: x[x > 0].sum(), f"aten.index.*{ENTRIES}", "torch.where"),
    "masked_select": (lambda x: x.masked_select(x > 0).sum(), "entries must be known", "torch.where"),
    "nonzero": (lambda x: x[x.nonzero()].sum(), f"aten.nonzero.*{ENTRIES}", "torch.where"),
    "unique": (lambda x: x.unique().sum(), ENTRIES, "torch.where"),
    "numpy": (lambda x: torch.tensor(x.numpy()).sum(), "numpy", "use torch functions"),
    "tolist": (lambda x: sum(x.tolist()), "tolist", "use torch functions"),
    "data_ptr": (lambda x: x.sum() + x.data_ptr(), "conversion of a traced tensor", "use torch functions"),
    "apply_": (lambda x: x.clone().apply_(abs).sum(), "apply_", "functions of torch"),
    "map_": (lambda x: x.clone().map_(x, max).sum(), "map_", "functions of torch"),
    "backward": (lambda x: x.sum().backward(), "backward", "torch.autograd.grad"),
    "rand": (lambda x: (x * torch.rand(5)).sum(), f"rand.*{RANDOM}", "outside"),
    "randn": (lambda x: (x * torch.randn(5)).sum(), f"randn.*{RANDOM}", "outside"),
    "randn_like": (lambda x: (x * torch.randn_like(x)).sum(), f"randn_like.*{RANDOM}", "outside"),
    "randperm": (lambda x: x[torch.randperm(5)].sum(), f"randperm.*{RANDOM}", "outside"),
    "bernoulli": (lambda x: (x * torch.bernoulli(torch.full((5,), 0.5))).sum(), RANDOM, "outside"),
    "normal_": (lambda x: (x + torch.empty(5).normal_()).sum(), f"normal_.*{RANDOM}", "outside"),
    "multinomial": (lambda x: x[torch.multinomial(x**2, 2)].sum(), f"multinomial.*{RANDOM}", "outside"),
    "dropout": (lambda x: F.dropout(x, 0.5, training=True).sum(), "dropout in training mode", "eval"),
    "long": (lambda x: (x.long() * x).sum(), "conversion of real numbers to torch.int64", "torch.trunc"),
    "int": (
        lambda x: (x.to(torch.int32) * x).sum(),
        "conversion of real numbers to torch.int32",
        "torch.trunc",
    ),
    "eig": (lambda x: torch.linalg.eigvals(torch.outer(x, x)).abs().sum(), "linalg_eig.*complex", "real"),
    "another device": (
        lambda x: (x * torch.ones(5, device="meta")).sum(),
        "aten.mul.*on cpu and on meta",
        "one device",
    ),
    "as_strided of columns": (
        lambda x: (x[:4].reshape(2, 2) * 2).T.as_strided((2,), (1,)).sum(),
        "as_strided of a tensor whose entries may not lie",
        "contiguous_format",
    ),
    "as_strided in a part": (
        lambda x: x[1:].as_strided((2,), (1,), 0).sum(),
        "with a storage_offset, of a tensor that is a part",
        "slices",
    ),
    "as_strided too far": (lambda x: x.as_strided((4, 3), (2, 2)).sum(), "end of a tensor", "strides"),
    "a write to windows": (
        lambda x: x.clone().as_strided((4, 2), (1, 1)).mul_(2).sum(),
        "a view that shows entries more than once",
        "clone",
    ),
    "as_strided_": (lambda x: x.clone().as_strided_((2, 2), (1, 1)).sum(), "as_strided_", "slices"),
    "set_": (lambda x: x.clone().set_(x).sum(), "set_", "copy_"),
    "resize_": (lambda x: x.clone().resize_(2).sum(), "resize_", "slices"),
    "no result": (lambda x: None, "returned None", "return the value"),
}


@pytest.mark.filterwarnings("ignore:hesse has no rule")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, construct, way_out = REFUSED[name]
    derivative = hesse.grad(function)
    for _ in range(2):  # nothing is remembered of the first try
        with pytest.raises(TracingError, match=f"(?s){construct}.*{way_out}") as caught:
            derivative(VECTOR)
        if name != "no result":
            found = re.search(r"test_torch_errors\.py:(\d+)", str(caught.value))
            assert found, "the line of the user is named"
            first = function.__code__.co_firstlineno
            assert first <= int(found.group(1)) <= first + 3


def test_dropout_outside_of_training() -> None:
    net = nn.Sequential(nn.Linear(5, 2), nn.Dropout(0.5)).double()
    with pytest.raises(TracingError, match=r"module\.eval\(\)"):
        hesse.jacobian(net)(VECTOR)
    torch.testing.assert_close(hesse.jacobian(net.eval())(VECTOR), net[0].weight)


def test_tensors_that_leave_the_function() -> None:
    kept: list[Tensor] = []
    hesse.grad(lambda x: (kept.append(x), x.sum())[1])(VECTOR)
    with pytest.raises(ArgumentError, match=r"after the function was left.*test_torch_errors.*Return it"):
        kept[0] * 2


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_integers_are_not_differentiated(dtype: torch.dtype) -> None:
    with pytest.raises(DifferentiationError, match=f"cannot differentiate by x: its dtype is {dtype}"):
        hesse.grad(lambda x: x.sum())(torch.ones(3, dtype=dtype))
    found = hesse.grad(lambda x, n: (x * n).sum())(torch.ones(3), torch.ones(3, dtype=dtype))
    assert found.tolist() == [1.0] * 3


def test_complex_arguments() -> None:
    with pytest.raises(DifferentiationError, match=r"argument x is complex.*real and imaginary parts"):
        hesse.grad(lambda x: x.real.sum())(torch.ones(3, dtype=torch.complex64))


def test_arguments_on_several_devices() -> None:
    elsewhere = torch.ones(5, device="meta")
    for call in (
        lambda: hesse.grad(lambda x, y: (x * y).sum())(VECTOR, elsewhere),
        lambda: hesse.grad(lambda x: (x * elsewhere).sum())(VECTOR),
    ):
        with pytest.raises(ArgumentError, match="tensors are on cpu and on meta; move them to one device"):
            call()


def test_sparse_arguments() -> None:
    with pytest.raises(ArgumentError, match=r"a tensor is sparse; pass a dense one \(x.to_dense\(\)\)"):
        hesse.grad(lambda x: x.sum())(torch.eye(3).to_sparse())


def test_results_without_a_gradient() -> None:
    """What depends on nothing has a derivative of zero; autograd has nothing to say about it."""
    with torch.no_grad():
        constant = VECTOR**2
    assert hesse.grad(lambda x: constant.sum() + 0 * x.sum())(VECTOR).tolist() == [0.0] * 5


def test_changes_after_tracing_are_seen() -> None:
    scale = torch.ones(5, dtype=torch.float64)
    derivative = hesse.grad(lambda x: (scale * x**2).sum())
    x = VECTOR.clone()
    torch.testing.assert_close(derivative(x), 2 * x)
    scale.mul_(3)
    x.add_(1)
    torch.testing.assert_close(derivative(x), 6 * x)


def test_changes_between_a_result_and_its_gradient_are_refused_by_autograd() -> None:
    x = VECTOR.clone().requires_grad_()
    y = x * 1
    result = hesse.hessian(lambda x: (x**4).sum())(y)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_gradients_by_tensors_that_were_changed() -> None:
    def f(x: Tensor) -> Tensor:
        y = x.clone()
        y.mul_(2)
        return torch.autograd.grad((y * y).sum(), y, create_graph=True)[0].sum()

    with pytest.raises(TracingError, match=r"autograd.grad by a tensor that was changed in place.*clone"):
        hesse.grad(f)(VECTOR)


def test_gradients_of_unused_tensors() -> None:
    def f(x: Tensor) -> Tensor:
        y = 2 * x
        return torch.autograd.grad(x.sum(), y)[0].sum()

    with pytest.raises(RuntimeError, match=r"not have been used in the graph.*allow_unused"):
        hesse.grad(f)(VECTOR)


def test_gradients_of_vectors_need_weights() -> None:
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        hesse.grad(lambda x: torch.autograd.grad(x * x, x)[0].sum())(VECTOR)


def test_functional_names_unknown_parameters() -> None:
    import hesse.torch  # noqa: PLC0415  not part of hesse itself

    net = nn.Linear(5, 1).double()
    with pytest.raises(ArgumentError, match="Linear has no parameter or buffer wieght; it has bias, weight"):
        hesse.grad(hesse.torch.functional(net))({"wieght": net.weight}, VECTOR)
    with pytest.raises(ArgumentError, match=r"a torch.nn.Module is needed, not a function"):
        hesse.torch.functional(lambda x: x)


@pytest.mark.parametrize("value", [np.ones(3), [1.0, 2.0], 3.0], ids=["array", "list", "number"])
def test_torch_functions_of_numpy_arrays(value):
    with pytest.raises(
        TracingError, match=r"a function of PyTorch, called with NumPy arrays.*torch.as_tensor"
    ):
        hesse.grad(lambda x: torch.exp(x).sum())(value)


def test_operators_of_functions_are_refused_by_name() -> None:
    def chosen(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda y: y**2, lambda y: y**3, (x,))

    with pytest.raises(TracingError, match=r"operator cond of functions.*torch\.where"):
        hesse.jacobian(chosen)(torch.ones(3))


def test_heads_share_keys_only_on_request() -> None:
    q, k = torch.randn(2, 4, 5, 3), torch.randn(2, 2, 6, 3)
    with pytest.raises(hesse.HesseError):
        hesse.grad(lambda q: torch.nn.functional.scaled_dot_product_attention(q, k, k).sum())(q)


def test_the_way_out_of_integers_is_that_of_the_library() -> None:
    with pytest.raises(
        DifferentiationError, match=r"torch\.int64; pass .* \(x\.double\(\) or x\.float\(\)\)"
    ):
        hesse.grad(lambda x: (x**2).sum())(torch.arange(3))
    with pytest.raises(DifferentiationError, match=r"\(x\.double\(\) or x\.float\(\)\)"):
        hesse.check(lambda x: (x**2).sum(), torch.arange(3))
    with pytest.raises(DifferentiationError, match=r"int32; pass .* \(x\.astype\(float\)\)"):
        hesse.grad(lambda x: (x**2).sum())(np.arange(3, dtype=np.int32))
