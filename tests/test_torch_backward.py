"""Derivatives after the fact: `hesse.torch.backward` against nested `torch.func.jacrev`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchgen
from tests.torch_graph_cases import CASES
from torch import Tensor

import hesse.torch
from hesse.errors import ArgumentError, DifferentiationError, NotComputedError
from hesse.frontends.aten.graph_nodes import CHOSEN, FREE, INVERSES, PREIMAGES, RENAMED, ROWS
from hesse.frontends.aten.graph_special import SPECIAL
from hesse.torch import Controller, backward

pytestmark = [
    pytest.mark.filterwarnings("ignore:hesse has no rule for"),  # some are differentiated by PyTorch's own
    pytest.mark.filterwarnings("ignore:There is a performance drop"),  # of the references
]


@pytest.fixture(autouse=True)
def _in_double_precision() -> Iterator[None]:
    """Numbers in functions, which torch.func takes in the default dtype, are exact to 1e-16."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def leaves(
    shapes: Sequence[tuple[int, ...]], seed: int = 0, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """Leaves with random entries."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def nested(function: Callable[..., Tensor], points: Sequence[Tensor], key: Sequence[int]) -> Tensor:
    """The derivative by some arguments, one after the other."""
    for k in key:
        function = torch.func.jacrev(function, argnums=k)
    return function(*(point.detach() for point in points))


def _hessian(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    found: Callable[[Tensor], Tensor] = torch.func.jacrev(torch.func.jacrev(function))
    return found


def keys(count: int, order: int) -> Iterator[tuple[int, ...]]:
    """All blocks up to an order."""
    for o in range(1, order + 1):
        yield from itertools.product(range(count), repeat=o)


def check(
    controller: Controller, function: Any, points: Sequence[Tensor], order: int, limit: float = 1e-8
) -> None:
    """Compare all blocks, in the shape that they have."""
    size = controller.tensor.numel()
    for key in keys(len(points), order):
        value, (shapes, indeps, vperm) = controller.fetch_hgrad([points[k] for k in key])
        assert value.shape == (size, *(n for k in key for n in points[k].shape))
        assert shapes == tuple(tuple(points[k].shape) for k in key)
        assert indeps == ((),) * len(key)
        assert vperm == tuple(range(len(key)))
        expected = nested(function, points, key).reshape(value.shape)
        scale = max(1.0, float(expected.abs().max()))
        assert float((value - expected).abs().max()) <= limit * scale, key


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
    monkeypatch.setattr("hesse.backends.executable.make_plan", refused)
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
    torch.testing.assert_close(x.hgrad[1][0], _hessian(chain)(x.detach()))


# The interface.


def _net(x: Tensor, w: Tensor) -> Tensor:
    return torch.tanh(x @ w)


def test_a_gradient_weights_the_entries_of_the_tensor() -> None:
    x, w = leaves([(2, 3), (3, 2)])
    weights = torch.randn(2, 2)
    controller = backward(_net(x, w), 2, gradient=weights, crossings=True)
    assert x.hgrad[1].shape == (1, 2, 3, 2, 3)

    def weighted(x: Tensor, w: Tensor) -> Tensor:
        return (_net(x, w) * weights).sum()

    for key in keys(2, 2):
        value, _ = controller.fetch_hgrad([(x, w)[k] for k in key])
        torch.testing.assert_close(value[0], nested(weighted, [x, w], key))


def test_only_groups_are_crossed() -> None:
    a, b, c = points = leaves([(2,), (2,), (2,)])
    controller = backward((a * b * c).prod(), 3, groups=[[b, c]])
    value, _ = controller.fetch_hgrad((c, b, c))
    expected = nested(lambda a, b, c: (a * b * c).prod(), points, (2, 1, 2))
    torch.testing.assert_close(value[0], expected)
    for pair in ((a, b), (a, c), (a, a, b)):
        with pytest.raises(NotComputedError, match="crossings=True, or groups"):
            controller.fetch_hgrad(pair)
    with pytest.raises(KeyError):  # what users of other packages catch
        controller.fetch_hgrad((a, c))
    assert len(a.hgrad) == 3


def test_without_crossings_only_pure_derivatives_are_computed() -> None:
    x, w = leaves([(2, 3), (3, 2)])
    controller = backward(_net(x, w), 2)
    check(backward(_net(x, w), 1), _net, [x, w], 1)
    with pytest.raises(NotComputedError, match="of order 2 by these tensors was not computed"):
        controller.fetch_hgrad((x, w))
    with pytest.raises(NotComputedError, match="raise the order"):
        controller.fetch_hgrad((x, x, x))


def test_a_batch_is_one_axis() -> None:
    x, w = leaves([(5, 3), (3, 4)])
    controller = backward(_net(x, w).sum(), 3, crossings=True, keep_batch=True)
    expected = torch.func.vmap(_hessian(lambda row: _net(row, w.detach()).sum()))(x.detach())
    assert x.hgrad[1].shape == (1, 5, 3, 3)
    torch.testing.assert_close(x.hgrad[1][0], expected)
    assert x.hdata[1] == (((5, 3), (5, 3)), ((0,), (0,)), (0, 1))
    assert x.hgrad[2].shape == (1, 5, 3, 3, 3)
    assert x.hgrad[0].shape == (1, 5, 3)
    assert x.hdata[0] == (((5, 3),), ((),), (0,))
    # the columns of w do not interact
    value, (_, indeps, _) = controller.fetch_hgrad((w, w), keep_batch=True)
    assert indeps == ((1,), (1,))
    columns = torch.func.vmap(_hessian(lambda v: torch.tanh(x.detach() @ v).sum()), 1)(w.detach())
    torch.testing.assert_close(value[0], columns)
    # two of x and one of w: the batch is in those of x only
    value, (_, indeps, _) = controller.fetch_hgrad((x, w, x), keep_batch=True)
    assert indeps == ((0,), (None,), (0,))
    dense = nested(lambda x, w: _net(x, w).sum(), [x, w], (0, 1, 0))
    torch.testing.assert_close(value[0], torch.diagonal(dense, 0, 0, 4).movedim(-1, 0))
    # the dense layout from the same call
    dense, metadata = controller.fetch_hgrad((x, x))
    assert metadata == (((5, 3), (5, 3)), ((), ()), (0, 1))
    torch.testing.assert_close(dense[0], nested(lambda x: _net(x, w).sum(), [x], (0, 0)))


def test_a_batch_of_two_leaves_is_one_axis() -> None:
    x, y = leaves([(4, 2), (3, 4)])
    controller = backward((x @ torch.ones(2, 3) * y.T).exp().sum(), 2, crossings=True, keep_batch=True)
    value, (shapes, indeps, _) = controller.fetch_hgrad((y, x), keep_batch=True)
    assert (shapes, indeps) == (((3, 4), (4, 2)), ((1,), (0,)))
    dense, _ = controller.fetch_hgrad((y, x))
    torch.testing.assert_close(value[0], torch.einsum("ibbj->bij", dense[0]))
    assert dense.count_nonzero() == value.count_nonzero()


def test_zero_blocks_have_their_shape() -> None:
    x, y = leaves([(2, 3), (3,)])
    controller = backward((x.sum() + y.sum()), 2, crossings=True)
    assert torch.equal(x.hgrad[1], torch.zeros(1, 2, 3, 2, 3))
    assert torch.equal(controller.fetch_hgrad((y, x))[0], torch.zeros(1, 3, 2, 3))
    batched, (_, indeps, _) = controller.fetch_hgrad((x, x), keep_batch=True)
    assert indeps == ((0, 1), (0, 1))
    assert torch.equal(batched, torch.zeros(1, 2, 3))


def test_schwarz_keeps_the_order_of_computation() -> None:
    x, w = leaves([(2, 3), (3, 2)])
    controller = backward(_net(x, w), 2, crossings=True)
    plain, _ = controller.fetch_hgrad((x, w))
    mirrored, _ = controller.fetch_hgrad((w, x))
    kept, (shapes, _, vperm) = controller.fetch_hgrad((w, x), keep_schwarz=True)
    assert sorted(vperm) == [0, 1]
    assert shapes == ((3, 2), (2, 3))
    groups = [range(1 + 2 * place, 3 + 2 * place) for place in vperm]
    torch.testing.assert_close(kept.permute(0, *groups[0], *groups[1]), mirrored)
    torch.testing.assert_close(plain.permute(0, 3, 4, 1, 2), mirrored)


def test_the_structured_form() -> None:
    x, w = leaves([(50, 3), (3, 3)])
    alone = Controller(_net(x, w).sum()).structured((x, x))
    controller = backward(_net(x, w).sum(), 2, crossings=True, keep_batch=True)
    hessian = controller.structured((x, x))
    torch.testing.assert_close(alone.dense(), hessian.dense())
    assert hessian.nbytes * 10 < 8 * 150 * 150
    assert hessian.groups == (0, 2, 2)
    dense, _ = controller.fetch_hgrad((x, x))
    torch.testing.assert_close(hessian.dense(), dense[0])
    mixed = controller.structured((w, x))
    torch.testing.assert_close(mixed.dense(), controller.fetch_hgrad((w, x))[0][0])


def test_derivatives_by_tensors_inside_of_the_graph() -> None:
    x, w = leaves([(2, 3), (3, 3)])
    inner = torch.sin(x @ w)
    output = torch.exp(inner) * w.sum()
    controller = Controller(output)
    controller.require_grad_((inner, inner))
    controller.require_grad_((w, inner))
    controller.backward(2)
    by_inner = nested(lambda t, w: torch.exp(t) * w.sum(), [inner, w], (0, 0))
    torch.testing.assert_close(controller.fetch_hgrad((inner, inner))[0].reshape(by_inner.shape), by_inner)
    mixed = nested(lambda t, w: torch.exp(t) * w.sum(), [inner, w], (1, 0))
    torch.testing.assert_close(controller.fetch_hgrad((w, inner))[0].reshape(mixed.shape), mixed)
    with pytest.raises(NotComputedError, match="require_grad_"):
        controller.fetch_hgrad((x @ w,))
    with pytest.raises(ArgumentError, match="not in the graph"):
        controller.require_grad_((torch.sin(x),))
    with pytest.raises(ArgumentError, match="only behind another one"):
        controller.require_grad_((inner, x))


def test_a_hook_changes_a_derivative() -> None:
    x, w = leaves([(2, 3), (3, 3)])
    output = _net(x, w)
    seen: list[Any] = []

    def doubled(data: Any, context: dict[Any, set[Tensor]]) -> Any:
        seen.append((data[1:], context))
        return (data[0] * 2, *data[1:])

    controller = Controller(output)
    controller.register_backward_hook((x, x), doubled)
    controller.backward(2)
    expected = nested(_net, [x, w], (0, 0)).reshape(x.hgrad[1].shape)
    torch.testing.assert_close(x.hgrad[1], 2 * expected)
    torch.testing.assert_close(controller.fetch_hgrad((x, x))[0], 2 * expected)
    ((metadata, context),) = seen
    assert metadata == (((2, 3), (2, 3)), ((), ()), (0, 1))
    ((node, tensors),) = context.items()
    assert node.name() == "MmBackward0"
    assert tensors == {x}
    with pytest.raises(ArgumentError, match="a hook has changed this derivative"):
        controller.fetch_hgrad((x, x), keep_batch=True)
    with pytest.raises(ArgumentError, match="a hook has changed this derivative"):
        controller.structured((x, x))
    controller = Controller(output)
    controller.register_backward_hook((x,), lambda data, context: data[0].sum())
    with pytest.raises(ArgumentError, match="a hook must return"):
        controller.backward(1)
    with pytest.raises(ArgumentError, match="derivatives by leaves"):
        controller.register_backward_hook((output,), doubled)


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


def test_rules_for_nodes() -> None:
    (x,) = leaves([(2, 3)])
    output = torch.sin(_Cube.apply(x * 2))
    controller = Controller(output)
    assert not controller.compatible
    with pytest.raises(DifferentiationError, match=r"what _CubeBackward computes.*Controller\.index"):
        controller.backward(2)
    inner = output.grad_fn.next_functions[0][0]  # type: ignore[union-attr]
    controller.index = {type(inner): lambda node, x: x**3}
    assert controller.compatible
    controller.backward(3)
    check(controller, lambda x: torch.sin((x * 2) ** 3), [x], 3)
    controller.index["_CubeBackward"] = lambda node, x: node.saved_tensors[0].detach() * x**2
    with pytest.raises(ArgumentError, match="is no function"):
        controller.index = {"SinBackward0": "sin"}  # type: ignore[dict-item]
    shifted = Controller(_Cube.apply(x + 1.5))
    shifted.index = {"_CubeBackward": lambda node, x: x**3}
    with pytest.raises(DifferentiationError, match="was not kept by autograd"):
        shifted.backward(1)


def test_the_graph_is_displayed(capsys: pytest.CaptureFixture[str]) -> None:
    (x,) = leaves([(2, 3)])
    shared = torch.sin(x)
    Controller(shared * _Cube.apply(shared)).display_graph()
    assert capsys.readouterr().out.splitlines() == [
        "MulBackward0",
        "├─SinBackward0",
        "│ └─AccumulateGrad (2, 3)",
        "└─_CubeBackward (not supported)",
        "  └─join: SinBackward0",
    ]


def test_derivatives_are_taken_away_again() -> None:
    x, w = leaves([(2, 3), (3, 3)])
    controller = backward(_net(x, w), 1)
    assert hasattr(x, "hgrad")
    assert hasattr(w, "hdata")
    controller.clear()
    assert not hasattr(x, "hgrad")
    assert not hasattr(w, "hdata")
    torch.testing.assert_close(
        controller.fetch_hgrad((x,))[0].reshape(2, 3, 2, 3), nested(_net, [x, w], (0,))
    )


def test_derivatives_without_a_graph_and_with_one() -> None:
    x, w = leaves([(2, 3), (3, 3)])
    backward(_net(x, w), 2)
    assert not x.hgrad[1].requires_grad
    backward(_net(x, w), 2, create_graph=True)
    (found,) = torch.autograd.grad((x.hgrad[1] ** 2).sum(), w)

    def squares(w: Tensor) -> Tensor:
        return (_hessian(lambda x: _net(x, w))(x.detach()) ** 2).sum()

    torch.testing.assert_close(found, torch.func.grad(squares)(w.detach()))


def test_the_graph_is_still_there_afterwards() -> None:
    x, w = leaves([(2, 3), (3, 3)])
    output = _net(x, w).sum()
    backward(output, 2)
    output.backward()
    torch.testing.assert_close(x.grad, x.hgrad[0][0])


def test_data_of_other_dtypes() -> None:
    (x,) = leaves([(4, 3)])
    mask, target = torch.tensor([True, False, True, True]), torch.randn(4, 3, dtype=torch.float32)

    def loss(x: Tensor) -> Tensor:
        return (torch.where(mask[:, None], x.sin(), x**2) * target).exp().mean()

    check(backward(loss(x), 3), loss, [x], 3)


def test_modules() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    data, target = torch.randn(5, 3), torch.randn(5, 2)
    loss = F.mse_loss(net(data), target)
    controller = backward(loss, 2, crossings=True)
    parameters = dict(net.named_parameters())

    def value(*tensors: Tensor) -> Tensor:
        found = torch.func.functional_call(net, dict(zip(parameters, tensors, strict=True)), (data,))
        return F.mse_loss(found, target)

    check(controller, value, list(parameters.values()), 2)


@pytest.mark.parametrize(
    "activation",
    [torch.tanh, torch.sigmoid, F.softplus, F.gelu, F.silu, F.elu, lambda t: torch.softmax(t, -1)],
)
def test_graphs_of_derivatives_that_autograd_computed(activation: Callable[[Tensor], Tensor]) -> None:
    data = torch.linspace(-1.0, 1.0, 4)[:, None]

    def value(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return activation(x @ w) @ v

    def residual(w: Tensor, v: Tensor) -> Tensor:
        x = data.clone().requires_grad_()
        u = value(x, w, v)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (curvature,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
        return ((curvature + u) ** 2).mean()

    def expected(w: Tensor, v: Tensor) -> Tensor:
        def total(x: Tensor) -> Tensor:
            return value(x, w, v).sum()

        curvature = torch.func.grad(lambda x: torch.func.grad(total)(x).sum())(data)
        return ((curvature + value(data, w, v)) ** 2).mean()

    points = leaves([(1, 3), (3, 1)])
    controller = backward(residual(*points), 2, crossings=True)
    for key in keys(2, 2):
        found = controller.fetch_hgrad([points[k] for k in key])[0][0]
        torch.testing.assert_close(found, nested(expected, points, key))


def test_the_example_of_the_other_package() -> None:
    x, y = leaves([(3, 4), (4, 5)])
    z = F.scaled_dot_product_attention(query=x, key=y.T, value=y.T)
    controller = Controller(tensor=z)
    controller.backward(order=2, crossings=True)

    def attention(x: Tensor, y: Tensor) -> Tensor:
        return torch.softmax(x @ y / 2.0, -1) @ y.T

    check(controller, attention, [x, y], 2)
    assert [h.shape for h in y.hgrad] == [(12, 4, 5), (12, 4, 5, 4, 5)]


# Bad input.


def test_a_freed_graph() -> None:
    (x,) = leaves([(2, 3)])
    output = torch.sin(x).sum()
    output.backward()
    with pytest.raises(ArgumentError, match=r"graph was freed: SinBackward0.*retain_graph=True"):
        backward(output, 2)


def test_tensors_that_were_changed_in_place() -> None:
    x, w = leaves([(2, 3), (3, 3)])
    output = torch.sin(x)
    with torch.no_grad():
        x += 1
    with pytest.raises(ArgumentError, match="that SinBackward0 kept was changed in place"):
        backward(output, 2)
    data = torch.randn(3, 3)
    output = torch.tanh(w @ data).sum()  # nothing of w is kept here
    with torch.no_grad():
        w += 1
    with pytest.raises(ArgumentError, match="a leaf or the tensor was changed in place"):
        backward(output, 2)
    output = w.sin()
    output.detach().mul_(2)
    with pytest.raises(ArgumentError, match="a leaf or the tensor was changed in place"):
        backward(output, 2)


def test_rounding_is_no_change() -> None:
    x, w = leaves([(50, 8), (8, 3)], dtype=torch.float32)
    target = torch.tanh(x @ w).detach() + 1e-6 * torch.randn(50, 3, dtype=torch.float32)
    loss = ((torch.tanh(x @ w) - target) ** 2).mean()
    for gradient in (None, torch.ones((), dtype=torch.float32)):
        backward(loss, 1, gradient=gradient)
    controller = backward(loss, 1)
    part = controller._parts[frozenset()].blocks
    part._check(loss.detach() * 1.01)  # such a difference is rounding at a minimum
    with pytest.raises(ArgumentError, match="was changed in place"):
        part._check(loss.detach() * 1e4)


def test_assignment_to_a_part() -> None:
    (x,) = leaves([(2, 3)])
    y = x * 2
    y[0] = 1.0
    with pytest.raises(
        DifferentiationError, match=r"CopySlices.*hesse\.hessian.*hesse\.torch\.record.*torch\.where"
    ):
        backward(y.sin(), 2)


def test_several_constant_parts() -> None:
    (x,) = leaves([(2, 3)])
    y = torch.cat([torch.ones(1, 3), x, torch.ones(2, 3)])
    with pytest.raises(DifferentiationError, match=r"torch\.cat has several constant parts"):
        backward(y.sin(), 2)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (torch.no_grad()(torch.sin), "no graph: it was computed under torch.no_grad"),
        (lambda x: x.sin().detach(), "no graph"),
        (lambda x: x, "is a leaf"),
        (lambda x: torch.arange(3), "dtype torch.int64"),
        (lambda x: 3.0, "must be a torch tensor, not float"),
        (lambda x: torch.complex(x, x), "dtype torch.complex128"),
    ],
)
def test_tensors_without_a_graph(made: Any, message: str) -> None:
    (x,) = leaves([(2, 3)])
    with pytest.raises(ArgumentError, match=message):
        backward(made(x), 1)


def test_complex_values_inside() -> None:
    (x,) = leaves([(4,)])
    with pytest.raises(DifferentiationError):
        backward(torch.fft.fft(x).abs().sum(), 2)


def test_wrong_arguments() -> None:
    (x,) = leaves([(2, 3)])
    output = x.sin()
    for order in (0, -1, 1.5, True):
        with pytest.raises(ArgumentError, match="order must be a positive int"):
            backward(output, order)  # type: ignore[arg-type]
    with pytest.raises(
        ArgumentError, match=r"gradient must have the shape of the tensor, \(2, 3\).*\(3, 2\)"
    ):
        backward(output, 1, gradient=torch.ones(3, 2))
    with pytest.raises(ArgumentError, match="it is a list"):
        backward(output, 1, gradient=[1.0])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="give one"):
        backward(output, 1, crossings=True, groups=[[x]])
    with pytest.raises(
        ArgumentError, match=r"groups: a tensor of shape \(3,\) and dtype torch.int64 is not a leaf"
    ):
        backward(output, 1, groups=[[torch.arange(3)]])
    controller = Controller(output)
    with pytest.raises(NotComputedError, match="call backward first"):
        controller.fetch_hgrad((x,))
    controller.backward(1)
    with pytest.raises(
        ArgumentError, match=r"variables: a tensor of shape \(2,\) that does not require grad"
    ):
        controller.fetch_hgrad((torch.ones(2),))
    with pytest.raises(ArgumentError, match="variables must be a tuple of tensors, not Tensor"):
        controller.fetch_hgrad(x)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="variables must be tensors, not int"):
        controller.fetch_hgrad((1,))  # type: ignore[arg-type]
    controller.tensor = x.cos()
    with pytest.raises(NotComputedError, match="call backward first"):
        controller.fetch_hgrad((x,))


def test_everything_is_exported() -> None:
    assert {"Controller", "backward", "record"} <= set(hesse.torch.__all__)


# Recording from the start.


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


@pytest.mark.parametrize("function", [_written, _chosen_by_values, _partly_without_graph])
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
        assert list(operands) == arguments or (node, operands) == ("LinalgEighBackward0", ("self",)), node
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
    *((f"{name}Backward{k}", "value") for name in ("Fill", "Threshold") for k in (0, 1, 2)),
    *((f"{name}Backward0", "value") for name in ("ConstantPadNd", "IndexFill", "MaskedFill")),
    ("ScatterBackward1", "value"),
} - {("FillBackward1", "value"), ("ThresholdBackward2", "value")}
"""What is lost: numbers that are added, or that entries are replaced by."""
NOT_NEEDED = {
    ("NativeGroupNormBackward0", "N"),
    ("NativeGroupNormBackward0", "C"),
    ("NativeGroupNormBackward0", "HxW"),
}
"""Sizes, which the tensors have."""
