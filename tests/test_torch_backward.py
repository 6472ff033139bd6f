"""Derivatives after the fact: the interface of `hesse.torch.backward`, and bad input."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.torch_graph_tools import check, hessian, in_double_precision, keys, leaves, nested
from torch import Tensor

import hesse.torch
from hesse.errors import ArgumentError, DifferentiationError, NotComputedError
from hesse.torch import Controller, backward

__all__ = ["in_double_precision"]  # a fixture for all tests here

pytestmark = [
    pytest.mark.filterwarnings("ignore:hesse has no rule for"),  # some are differentiated by PyTorch's own
    pytest.mark.filterwarnings("ignore:There is a performance drop"),  # of the references
]


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
    expected = torch.func.vmap(hessian(lambda row: _net(row, w.detach()).sum()))(x.detach())
    assert x.hgrad[1].shape == (1, 5, 3, 3)
    torch.testing.assert_close(x.hgrad[1][0], expected)
    assert x.hdata[1] == (((5, 3), (5, 3)), ((0,), (0,)), (0, 1))
    assert x.hgrad[2].shape == (1, 5, 3, 3, 3)
    assert x.hgrad[0].shape == (1, 5, 3)
    assert x.hdata[0] == (((5, 3),), ((),), (0,))
    # the columns of w do not interact
    value, (_, indeps, _) = controller.fetch_hgrad((w, w), keep_batch=True)
    assert indeps == ((1,), (1,))
    columns = torch.func.vmap(hessian(lambda v: torch.tanh(x.detach() @ v).sum()), 1)(w.detach())
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
        return (hessian(lambda x: _net(x, w))(x.detach()) ** 2).sum()

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


def test_numbers_in_a_graph_are_exact() -> None:
    """A product of two of them would be in the default dtype for PyTorch."""
    (x,) = leaves([(2, 2)])
    output = ((x * 0.1) / 0.3).exp()
    torch.set_default_dtype(torch.float32)
    backward(output, 2)
    exact = (x.detach() / 3).exp().flatten() / 9
    torch.testing.assert_close(
        x.hgrad[1].reshape(4, 4, 4), torch.diag_embed(torch.diag(exact)), rtol=1e-12, atol=0
    )


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


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.exp().sum() + 1,
        lambda x: (x.exp() + 1).sin(),
        lambda x: torch.relu(x.tanh()).sum() - 2,
        lambda x: torch.linalg.cholesky(torch.diag(x)) + 1,
        lambda x: 2 - 1 / x,
    ],
)
def test_leaves_that_were_changed_before_a_constant_was_added(function: Callable[[Tensor], Tensor]) -> None:
    """The value of the tensor is not known from the graph, but what nodes kept of it is."""
    x = torch.linspace(0.5, 1.0, 3).requires_grad_()
    output = function(x)
    backward(output, 1)
    expected = torch.autograd.functional.jacobian(function, x)
    torch.testing.assert_close(x.hgrad[0], expected.reshape(x.hgrad[0].shape))
    with torch.no_grad():
        x += 0.5
    with pytest.raises(ArgumentError, match="kept another result than the leaves give now"):
        backward(output, 1)


def test_tensors_without_entries() -> None:
    x = torch.empty(3, device="meta", requires_grad=True)
    with pytest.raises(ArgumentError, match="on the device meta, where tensors have no entries"):
        backward(x.sin(), 1)


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


def test_norms_of_nothing() -> None:
    norms: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda x, w: F.group_norm(x, 2, w),
        lambda x, w: F.layer_norm(x, (4,), w),
    ]
    for norm in norms:
        x, w = leaves([(0, 4), (4,)])
        backward(norm(x, w).sum() + w.sum(), 2)
        assert x.hgrad[1].shape == (1, 0, 4, 0, 4)
        assert torch.equal(w.hgrad[0], torch.ones(1, 4))


def test_complex_leaves() -> None:
    (x,) = leaves([(4,)])
    z = torch.complex(x.detach(), x.detach()).requires_grad_()
    for way in (nullcontext, hesse.torch.record):
        with way():
            y = z.abs().sum()
        with pytest.raises(ArgumentError, match=r"a leaf of dtype torch.complex128.*torch\.complex\(a, b\)"):
            backward(y, 1)


def test_results_that_are_not_known() -> None:
    (x,) = leaves([(1, 2, 3)])
    for way in (nullcontext, hesse.torch.record):
        with way():
            y = torch.native_group_norm(x, None, None, 1, 2, 3, 2, 1e-3)[1].sum()
        with pytest.raises(
            DifferentiationError, match=r"result 1 of NativeGroupNormBackward0|a result of shape"
        ):
            backward(y, 1)


def test_lower_precision_inside() -> None:
    for shape in ((3,), ()):
        for way in (nullcontext, hesse.torch.record):
            (x,) = leaves([shape])
            with way():
                y = (x.half().sin().double() ** 2).sum()
            backward(y, 2)
            expected = 2 * x.sin() * x.cos()
            torch.testing.assert_close(x.hgrad[0][0], expected.detach())


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
    with pytest.raises(ArgumentError, match=r"gradient must be real.*complex"):
        backward(output, 1, gradient=output.detach() * 1j)
    with pytest.raises(ArgumentError, match="groups must be a list of groups of leaves, not int"):
        backward(output, 1, groups=5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="each group must be a list of leaves, not Tensor"):
        backward(output, 1, groups=[x])
    with pytest.raises(ArgumentError, match="a hook must be a function, not int"):
        Controller(output).register_backward_hook((x,), 5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="this one is empty"):
        Controller(output).require_grad_(())
    with pytest.raises(ArgumentError, match="index must be a dict of rules, not int"):
        Controller(output).index = 5  # type: ignore[assignment]
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


@pytest.mark.parametrize("added", [torch.addmm, torch.addmv, torch.addr, torch.baddbmm, torch.addbmm])
def test_a_tensor_plus_a_product_of_constants(added: Callable[..., Tensor]) -> None:
    """As in a layer whose weight is frozen: autograd keeps nothing of the product."""
    factors = {
        torch.addmv: (torch.ones(2, 3).double(), torch.arange(3.0).double()),
        torch.addr: (torch.arange(2.0).double(), torch.ones(2).double()),
        torch.baddbmm: (torch.ones(2, 2, 3).double(), torch.ones(2, 3, 2).double()),
        torch.addbmm: (torch.ones(2, 2, 3).double(), torch.ones(2, 3, 2).double()),
    }.get(added, (torch.ones(2, 3).double(), torch.arange(6.0).double().reshape(3, 2)))

    def function(bias: Tensor) -> Tensor:
        return torch.sin(added(bias * bias, *factors, beta=0.7, alpha=0.3)).sum()

    bias = torch.tensor([0.3, -1.2], dtype=torch.float64, requires_grad=True)
    hesse.torch.backward(function(bias), 2)
    torch.testing.assert_close(bias.hgrad[0][0], torch.func.grad(function)(bias.detach()))
    second = torch.func.jacrev(torch.func.jacrev(function))(bias.detach())
    torch.testing.assert_close(bias.hgrad[1][0], second)
