"""Autograd graphs as expressions: against nested `torch.func.jacrev`, and the table of nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchgen
from tests.torch_graph_cases import CASES
from tests.torch_graph_tools import check, hessian, in_double_precision, keys, leaves, nested
from torch import Tensor

import hesse.torch
from hesse.errors import DifferentiationError
from hesse.frontends.aten.graph_nodes import CHOSEN, FREE, INVERSES, PREIMAGES, RENAMED, ROWS
from hesse.frontends.aten.graph_special import SPECIAL
from hesse.torch import backward

__all__ = ["in_double_precision"]  # a fixture for all tests here

pytestmark = [
    pytest.mark.filterwarnings("ignore:hesse has no rule for"),  # some are differentiated by PyTorch's own
    pytest.mark.filterwarnings("ignore:There is a performance drop"),  # of the references
    pytest.mark.filterwarnings("ignore:index_reduce\\(\\) is in beta"),
    pytest.mark.filterwarnings("ignore:torch.(lu_solve|triangular_solve) is deprecated"),
]


@pytest.mark.parametrize("name", CASES)
def test_a_graph_has_the_derivatives_of_its_function(name: str) -> None:
    function, shapes, order, reference = CASES[name]
    points = leaves(shapes)
    controller = backward(function(*points), order, crossings=True)
    check(controller, reference or function, points, order)
    for k, point in enumerate(points):
        assert len(point.hgrad) == order
        pure = controller.fetch_hgrad([point] * order)[0]
        assert torch.equal(point.hgrad[order - 1], pure), k
    again = leaves(shapes, seed=1)
    controller = backward(function(*again), 2, crossings=True)
    check(controller, reference or function, again, 2)
    with hesse.torch.record() as recording:
        recorded = backward(function(*again), 2, crossings=True)
    for key in keys(len(again), 2):
        variables = [again[k] for k in key]
        torch.testing.assert_close(recorded.fetch_hgrad(variables)[0], controller.fetch_hgrad(variables)[0])
    assert recording.knows(recorded.tensor)


def test_a_second_graph_of_the_same_form_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        return torch.tanh(x @ w + 0.3) * data

    data = torch.randn(2, 3)
    points = leaves([(2, 3), (3, 3)])
    backward(function(*points), 2, crossings=True)

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("planned again")

    monkeypatch.setattr("hesse.torch.blocks.sorted_blocks", refused)
    monkeypatch.setattr("hesse.backends.target.make_plan", refused)
    data, points = torch.randn(2, 3), leaves([(2, 3), (3, 3)], seed=5)
    controller = backward(function(*points), 2, crossings=True)
    check(controller, function, points, 2)
    with pytest.raises(AssertionError, match="planned again"):
        backward(function(*points).sum(), 2, crossings=True)


def test_single_precision_stays_single() -> None:
    x, w = leaves([(2, 3), (3, 3)], dtype=torch.float32)
    controller = backward(torch.tanh(x @ w + 0.25), 2, crossings=True)
    value, _ = controller.fetch_hgrad((x, w))
    assert value.dtype == torch.float32
    expected = nested(lambda x, w: torch.tanh(x @ w + 0.25), [x, w], (0, 1))
    torch.testing.assert_close(value.reshape(expected.shape), expected)


@pytest.mark.parametrize("constant", [0.0, 0.1])
def test_a_chain_of_a_thousand_operations(constant: float) -> None:
    def chain(x: Tensor) -> Tensor:
        for _ in range(500):
            x = torch.sin(x) + constant if constant else torch.sin(x).mul(1.01)
        return x.sum()

    (x,) = leaves([(2,)])
    backward(chain(x), 2)
    torch.testing.assert_close(x.hgrad[0][0], torch.func.grad(chain)(x.detach()))
    torch.testing.assert_close(x.hgrad[1][0], hessian(chain)(x.detach()))


DATA = torch.tensor([0.7, 1.9, 0.4, 1.2, 2.5, 0.8], dtype=torch.float64)
PLACES = torch.tensor([0, 2])
WINDOW = torch.tensor([0.1, 0.5, 0.9, 0.4], dtype=torch.float64)
MATRIX_FACTORS = torch.linalg.lu_factor(torch.tensor([[0.5, 2.0], [1.5, -1.0]], dtype=torch.float64))


def square(x: Tensor) -> Tensor:
    """A matrix whose rows are exchanged when it is factored."""
    return x[:4].reshape(2, 2) + torch.tensor([[0.5, 3.0], [2.0, -0.5]])


GRAPHS: dict[str, Any] = {
    "rrelu": lambda x: F.rrelu(x + 0.1) ** 3,
    "block_diag": lambda x: torch.block_diag(x[:2].exp(), x[2:].reshape(2, 2), x[:1]) ** 3,
    "windows of a leaf": lambda x: x.as_strided((4, 3), (1, 1)).prod(1),
    "lu": lambda x: sum(part.sin().sum() for part in torch.linalg.lu(x[:4].reshape(2, 2) + 0.5)[1:]),
    "lu_factor": lambda x: torch.linalg.lu_factor(square(x))[0] ** 2,
    "lu_factor of a shifted matrix": lambda x: torch.linalg.lu_factor(x.reshape(3, 2) + 0.5)[0] ** 2,
    "lu_unpack": lambda x: sum(p.sin().sum() for p in torch.lu_unpack(*torch.linalg.lu_factor(square(x)))),
    "lu_solve": lambda x: torch.lu_solve(x[:2, None] + 1, *torch.linalg.lu_factor(square(x))),
    "lu_solve from the right": lambda x: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(square(x)), x.reshape(3, 2), left=False
    ),
    "lu_solve, adjoint": lambda x: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(square(x)), x[:2, None], adjoint=True
    ),
    "lu_solve of data": lambda x: torch.linalg.lu_solve(*MATRIX_FACTORS, x.reshape(2, 3).sin() + 1) ** 2,
    "triangular_solve": lambda x: torch.triangular_solve(x[:2, None], square(x), transpose=True)[0],
    "a known sign": lambda x: x.exp().copysign(-1.0) ** 3,
    "a side that is data": lambda x: torch.hypot(x.exp(), torch.arange(12.0).reshape(2, 6)) ** 3,
    "a side that is data, first": lambda x: torch.hypot(torch.tensor(-2.0, dtype=x.dtype), x + 1.0) ** 3,
    "signs of data": lambda x: x.exp().copysign(torch.tensor([1.0, -1.0] * 3)) ** 3,
    "signs of variables": lambda x: torch.tensor([2.0, 3.0] * 3).copysign(x) * x**2,
    "divisors that are data": lambda x: (x * 3).fmod(DATA).exp() + torch.remainder(x * 3, DATA) ** 2 * x,
    "powers of two": lambda x: torch.ldexp(x.sin() + 1.0, DATA) ** 2 + torch.ldexp(DATA, x + 1.0) ** 2,
    "added at places": lambda x: x.sin().index_add(0, PLACES, DATA[:2], alpha=2.0) ** 3,
    "added at places by scatter": lambda x: x.sin().scatter_add(0, PLACES, DATA[:2]) ** 3,
    "put": lambda x: x.put(PLACES, DATA[:2]) ** 3 + DATA.put(PLACES, x[:2] + 1.0, accumulate=True) ** 3,
    "copied to places": lambda x: x.reshape(3, 2).index_copy(0, PLACES, DATA[:4].reshape(2, 2)) ** 3,
    "scattered data": lambda x: x.scatter(0, PLACES, DATA[:2]) ** 3,
    "selected data": lambda x: torch.select_scatter(x.reshape(3, 2), DATA[:2], 0, -1) ** 3,
    "a slice of data": lambda x: torch.slice_scatter(x, DATA[:2], 0, 1, 5, 2) ** 3,
    "a diagonal of data": lambda x: torch.diagonal_scatter(x.reshape(2, 3), DATA[:2], 1) ** 3,
    "two sides": lambda x: torch.hypot(x, x.sin() + 2.0) ** 3,
    "conv_tbc": lambda x: torch.conv_tbc(x.reshape(3, 1, 2).sin(), x[:4].reshape(2, 2, 1), x[:1]) ** 2,
    "stft": lambda x: torch.stft(x + 1, 4, 2, window=WINDOW, return_complex=True).abs() ** 2,
    "windows of a padded tensor": lambda x: F.pad(x.sin(), (1, 1)).as_strided((4, 3), (1, 2)) ** 2,
    "lstsq": lambda x: torch.linalg.lstsq(x.reshape(3, 2).exp(), x[:3, None].sin()).solution,
    "lstsq of data": lambda x: torch.linalg.lstsq(x.reshape(3, 2) + 0.5, torch.ones(3, 1)).solution ** 2,
    "a constant copied": lambda x: (x.sin().copy_(torch.arange(6.0)) + 1.0) * 2.0 + x**3,
    "a copy": lambda x: x.sin().copy_(x[0] ** 2) ** 2 + torch.matrix_power(x.reshape(2, 3)[:, :2], 0).sum(),
    "an offset": lambda x: x.as_strided((2, 2), (2, 1), 1).exp(),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_further_nodes(name: str) -> None:
    for seed in range(2):
        points = leaves([(6,)], seed)
        check(backward(GRAPHS[name](*points), 3), GRAPHS[name], points, 3)


def test_slopes_in_training_mode_are_those_that_were_drawn() -> None:
    (x,) = leaves([(20,)])
    y = F.rrelu(x, training=True)
    slopes = y.detach() / x.detach()
    backward((y**3).sum(), 2)
    torch.testing.assert_close(x.hgrad[1][0], torch.diag(6 * slopes**3 * x.detach()))


def test_what_nodes_do_not_keep_of_blocks_and_of_memory() -> None:
    (x,) = leaves([(4,)])
    with pytest.raises(DifferentiationError, match="constant blocks, whose sizes"):
        backward(torch.block_diag(x, torch.ones(2, 2)), 2)
    with pytest.raises(DifferentiationError, match="unless it is a contiguous leaf"):
        backward(x.reshape(2, 2).T.as_strided((2,), (1,)), 2)
    with hesse.torch.record():
        y = x.reshape(2, 2).as_strided((3, 2), (1, 1)).prod(1)
    check(backward(y, 2), lambda x: x[:3] * x[1:], [x], 2)


# The table of nodes.


def _differentiated() -> dict[str, tuple[str, set[str], list[str]]]:
    """What PyTorch's own table of derivatives says of nodes: the operation, what is kept, the operands."""
    from torchgen.packaged.autograd.load_derivatives import load_derivatives  # noqa: PLC0415  slow

    home = Path(torchgen.__file__).parent / "packaged"
    found, _ = load_derivatives(
        str(home / "autograd/derivatives.yaml"),
        str(home / "ATen/native/native_functions.yaml"),
        str(home / "ATen/native/tags.yaml"),
    )
    infos = [info for by_key in found.values() for info in by_key.values() if info.op is not None]
    return {
        info.op: (
            str(info.func.func.name),
            {str(getattr(saved.nctype.name, "name", saved.nctype.name)) for saved in info.all_saved_inputs},
            [argument.name for argument in info.args_with_derivatives],
        )
        for info in infos
    }


def test_the_table_agrees_with_that_of_pytorch() -> None:
    known, summands = _differentiated(), set()
    for node, (operation, operands) in ROWS.items():
        name, saved, arguments = known[node]
        assert list(operands) == arguments, node
        schema = {argument.name for argument in operation._schema.arguments}
        assert set(operands) <= schema, node
        # what is kept is an argument of the operation that is called instead, or a detail of the derivative
        for kept in saved - schema:
            is_detail = re.search(r"_(info|options|geometry|layout|scalar_type|sym_\w+|dim|args\w*)$", kept)
            renamed = kept in RENAMED.values() or (node, kept) in NOT_NEEDED
            assert is_detail or renamed, (node, name, kept)
        lost = schema - saved - {*operands, *FREE, *RENAMED, "size", "shape", "output_size", "input_sizes"}
        summands |= {(node, argument) for argument in lost}
    assert summands == SUMMANDS
    assert set(INVERSES) | set(PREIMAGES) <= set(ROWS)
    assert CHOSEN | set(SPECIAL) <= {*known, "CopySlices", "CopyBackwards"}


SUMMANDS = {
    *(("AddBackward1", name) for name in ("other", "alpha")),
    *(("SubBackward1", name) for name in ("other", "alpha")),
    ("RsubBackward1", "other"),
    *(("NanToNumBackward0", name) for name in ("nan", "neginf", "posinf")),
    *((f"{name}Backward{k}", "value") for name in ("Fill", "Threshold") for k in (0, 1, 2)),
    *((f"{name}Backward0", "value") for name in ("ConstantPadNd", "IndexFill", "MaskedFill")),
    ("RoundBackward1", "decimals"),
    ("ScatterBackward1", "value"),
} - {("FillBackward1", "value"), ("ThresholdBackward2", "value")}
"""What is lost: numbers that are added, or that entries are replaced by."""
NOT_NEEDED = {
    ("NativeGroupNormBackward0", "N"),
    ("NativeGroupNormBackward0", "C"),
    ("NativeGroupNormBackward0", "HxW"),
}
"""Sizes, which the tensors have."""
