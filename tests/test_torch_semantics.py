"""What torch code means: views and writes, constants, rules of its own, derivatives inside and around."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.torch_nested import assert_agrees, assert_equal
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import jacrev
from torch.utils.checkpoint import checkpoint

import hesse
from hesse.errors import TracingError

_generator = torch.Generator().manual_seed(3)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=_generator)


MATRIX, VECTOR = random(3, 4), random(5)


def squares(x: Tensor) -> Tensor:
    return (x * x).sum()


def waves(x: Tensor) -> Tensor:
    return (x.sin() * x.sum()).sum()


# Views and writes.


def changed(write: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    """The function that changes a copy in place."""

    def function(x: Tensor) -> Tensor:
        y = x.clone()
        write(y)
        return y * y

    return function


def chained_views(x: Tensor) -> Tensor:
    y = x.clone()
    row = y[1]
    row.mul_(2)
    columns = y.t()[0:4:2]
    columns.add_(x.t()[1:4:2])
    y.view(-1)[3] = x.sum()
    y.diagonal().sin_()
    return y * row.sum()


def seen_both_ways(x: Tensor) -> Tensor:
    y = x.clone()
    row = y[0]
    y.mul_(3)
    before = row * 1
    row.zero_()
    return before * 2 + y.sum(0)


def filled_buffer(x: Tensor) -> Tensor:
    buffer = torch.zeros(3, 4, dtype=x.dtype)
    buffer[0] = x[1]
    buffer[1:, 2] = x[0, :2] ** 2
    buffer[2] += x[2]
    return buffer.sin()


def filled_row_by_row(x: Tensor) -> Tensor:
    buffer = torch.empty_like(x)
    for k in range(3):
        buffer[k] = x[k] ** k
    return buffer


def with_steps(x: Tensor) -> Tensor:
    buffer = x.new_zeros(6)
    buffer[::2] = x[0, :3]
    buffer[1:4:2] = x[1, :2]
    return buffer**2


def reshaped_in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y.unsqueeze_(0)
    y.squeeze_(0)
    y.t_()
    y[0] *= 2
    y.transpose_(0, 1)
    return y**2


def written_to(x: Tensor) -> Tensor:
    buffer = torch.empty(3, 4, dtype=x.dtype)
    torch.sin(x, out=buffer)
    torch.mul(buffer, x, out=buffer)
    return buffer


def doubled(x: Tensor) -> Tensor:
    x *= 2
    x += 1
    return x**2


def overwritten(x: Tensor) -> Tensor:
    x[0] = x[1]
    return x**2


def each_row(y: Tensor) -> None:
    for k, row in enumerate(y.unbind(0)):
        row.mul_(k + 1.0)


def converted_mask(x: Tensor) -> Tensor:
    above = torch.triu(torch.ones(3, 4), 1)
    mask = above.bool()
    assert mask.dtype == torch.bool
    bias = torch.zeros_like(mask, dtype=x.dtype).masked_fill_(mask, -float("inf"))
    return torch.softmax(x * x + bias, -1) + above


def written_after_conversion(x: Tensor) -> Tensor:
    steps = torch.arange(4)
    numbers = steps.to(x.dtype)
    numbers[0] = 5.0
    return x * x * numbers + steps


WRITES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor] | None]] = {
    "a fresh tensor": (changed(lambda y: y.mul_(2).sin_()), None),
    "chained views": (chained_views, None),
    "seen both ways": (seen_both_ways, None),
    "a buffer of zeros": (filled_buffer, None),
    "a buffer row by row": (filled_row_by_row, None),
    "a buffer with steps": (with_steps, None),
    "shapes in place": (reshaped_in_place, None),
    "out=": (written_to, lambda x: x.sin() * x),
    "an argument": (doubled, lambda x: (2 * x + 1) ** 2),
    "a row of an argument": (overwritten, lambda x: torch.stack([x[1], x[1], x[2]]) ** 2),
    "a mask": (changed(lambda y: y.masked_fill_(y > 0, 2.0)), None),
    "copy_": (lambda x: torch.zeros(3, 4, dtype=x.dtype).copy_(x**2), None),
    "one row copied to all": (lambda x: torch.zeros(3, 4, dtype=x.dtype).copy_(x[0] ** 2), None),
    "fill_": (changed(lambda y: y[0].fill_(3.0)), None),
    "zero_": (changed(lambda y: y[:, 1].zero_()), None),
    "clamp_": (changed(lambda y: y.clamp_(-0.5, 0.5)), None),
    "pow_": (changed(lambda y: y.pow_(3)), None),
    "addcmul_": (
        changed(lambda y: y.addcmul_(y * 1, y * 2, value=0.5)),
        lambda x: (x + x * x) ** 2,
    ),
    "a diagonal": (changed(lambda y: y.diagonal().fill_(0.0)), None),
    "fill_diagonal_": (changed(lambda y: y.fill_diagonal_(0.0)), None),
    "narrow": (changed(lambda y: y.narrow(1, 1, 2).mul_(3.0)), None),
    "the last column": (
        changed(lambda y: y.__setitem__((slice(None), -1), y[:, 0] * y[:, 1])),
        lambda x: torch.cat([x[:, :3], x[:, :1] * x[:, 1:2]], 1) ** 2,
    ),
    "rows of unbind": (
        changed(each_row),
        lambda x: (x * torch.arange(1.0, 4.0, dtype=x.dtype)[:, None]) ** 2,
    ),
    "parts of chunk": (
        changed(lambda y: [part.mul_(k + 1.0) for k, part in enumerate(y.chunk(2, 1))]),
        lambda x: torch.cat([x[:, :2], 2 * x[:, 2:]], 1) ** 2,
    ),
    "as another tensor": (lambda x: x.view(4, 3).view_as(x) * x.flatten().reshape_as(x), lambda x: x * x),
    "nothing": (changed(lambda y: y.__setitem__(torch.zeros(3, dtype=torch.bool), y[0] * 2)), None),
    "a flat view": (changed(lambda y: y.reshape(-1)[2:5].mul_(2.0)), None),
    "relu in place": (lambda x: F.relu(x * 2, inplace=True) * x, None),
    "expand": (lambda x: x[:, :1].expand(3, 4) * x, None),
    "a known mask converted": (converted_mask, None),
    "known numbers converted": (written_after_conversion, None),
    "contiguous": (lambda x: x.t().contiguous().view(-1)[1:].sin(), None),
}


@pytest.mark.parametrize("name", WRITES)
def test_views_and_writes(name: str) -> None:
    function, reference = WRITES[name]
    before = MATRIX.clone()
    assert_agrees(function, MATRIX, reference=reference or (lambda x: function(x.clone())))
    assert torch.equal(MATRIX, before), "arguments are never changed"


def test_writing_to_captured_tensors_is_not_seen_outside() -> None:
    buffer = torch.zeros(5, dtype=torch.float64)

    def f(x: Tensor) -> Tensor:
        buffer.add_(x)
        return (buffer * x).sum()

    derivative = hesse.grad(f)
    for _ in range(2):
        assert_equal(derivative(VECTOR), 2 * VECTOR)
    assert not buffer.any()


# Constants.


def no_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        square = x**2
    return square * x


CONSTANTS: dict[str, Callable[[Tensor], Tensor]] = {
    "no_grad": no_gradient,
    "detach": lambda x: (x**2).detach() * x,
    "data": lambda x: (x**2).data * x,
    "detach_": lambda x: (x**2).clone().detach_() * x,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    assert_agrees(CONSTANTS[name], VECTOR, reference=lambda x: (x**2).detach() * x)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_derivatives_are_whole_where_autograd_is_off(context: Any) -> None:
    with context():
        found = hesse.hessian(lambda x: (x**3).sum())(VECTOR)
        assert not found.requires_grad
    torch.testing.assert_close(found.clone(), torch.diag(6 * VECTOR))


def test_requires_grad_is_what_it_would_be() -> None:
    seen = []

    def f(x: Tensor) -> Tensor:
        seen.append(
            (x.requires_grad, (2 * x).requires_grad, x.detach().requires_grad, torch.ones(2).requires_grad)
        )
        return squares(x)

    hesse.grad(f)(VECTOR)
    assert set(seen) == {(True, True, False, False)}


# Functions with rules of their own.


class Cube(torch.autograd.Function):
    """With the old interface, for which nested torch.func has no rule."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return cotangent * 3 * x**2


class CubeOnce(Cube):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return cotangent * 3 * x**2


class StraightThrough(torch.autograd.Function):
    """A rule that is no derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.sign()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return cotangent * 2.0


class Exponential(torch.autograd.Function):
    """A rule that reads its result."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        return cotangent * ctx.saved_tensors[0]


class ProductAndSum(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, y: Tensor, factor: float) -> tuple[Tensor, Tensor]:
        return x * y, x + factor * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.factor = inputs[2]

    @staticmethod
    def backward(ctx: Any, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, None]:
        x, y = ctx.saved_tensors
        return first * y + second, first * x + ctx.factor * second, None


class PartlyDetached(torch.autograd.Function):
    """A rule with a constant in it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return cotangent * x * x.detach()


bound_early = Cube.apply


@pytest.mark.parametrize("function", [Cube.apply, bound_early, CubeOnce.apply])
def test_old_functions(function: Any) -> None:
    assert_agrees(function, VECTOR, reference=lambda x: x**3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: StraightThrough.apply(x) * x,
        lambda x: Exponential.apply(x) * x,
        lambda x: torch.stack(ProductAndSum.apply(x, x**2, 3.0)),
        lambda x: PartlyDetached.apply(x) * x,
    ],
)
def test_functions(function: Any) -> None:
    assert_agrees(function, VECTOR)


def test_custom_derivatives_of_hesse() -> None:
    @hesse.custom_derivative
    def square(x: Any) -> Any:
        return np.asarray(x) ** 2

    @hesse.custom_derivative(native=True)
    def native(x: Any) -> Any:
        return torch.as_tensor(x) ** 2

    for function in (square, native):
        function.defjvp(lambda primals, tangents: 2 * primals[0] * tangents[0])
        assert_agrees(lambda x, f=function: torch.sin(f(x)), VECTOR, reference=lambda x: torch.sin(x**2))


def test_functions_of_hesse() -> None:
    assert_agrees(
        lambda x: hesse.softmax(x) * hesse.stop_gradient(x.sin()),
        VECTOR,
        reference=lambda x: torch.softmax(x, -1) * x.sin().detach(),
    )


# Derivatives inside.

NET = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).double()

INSIDE: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "vmap": (torch.vmap(lambda row: row.sin().sum() * row), MATRIX),
    "vmap over other axes": (
        lambda x: torch.vmap(lambda a, b: a @ b, in_dims=(0, 1), out_dims=0)(x, x.t()),
        MATRIX,
    ),
    "grad": (lambda x: torch.func.grad(lambda y: (y**3).sum())(x).sin(), MATRIX),
    "jacrev": (torch.func.jacrev(lambda y: y.sin() * y.sum()), VECTOR),
    "jacfwd": (torch.func.jacfwd(lambda y: y.sin() * y.sum()), VECTOR),
    "hessian": (torch.func.hessian(waves), VECTOR),
    "hessian of a product": (lambda x: torch.func.hessian(lambda y: y.prod() ** 2)(x).sum(0), VECTOR),
    "jvp": (lambda x: torch.func.jvp(lambda y: y.sin() * y.sum(), (x,), (x**2,))[1], VECTOR),
    "vjp": (lambda x: torch.func.vjp(lambda y: y.sin() * y.sum(), x)[1](x**2)[0], VECTOR),
    "vmap of grad": (torch.vmap(torch.func.grad(lambda row: (row**3).sum() * row[0])), MATRIX),
    "grad of vmap": (
        torch.func.grad(lambda y: torch.vmap(lambda r: (r**3).sum() * r[0])(y).sum()),
        MATRIX,
    ),
    "grad with a closure": (lambda x: torch.func.grad(lambda y: (x * y**3).sum())(x), VECTOR),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("name", INSIDE)
def test_torch_func_inside(name: str) -> None:
    function, point = INSIDE[name]
    assert_agrees(function, point)


def burgers(points: Tensor) -> Tensor:
    """A residual by autograd, nested twice, by columns that are put together again."""
    x, t = points[:, 0:1], points[:, 1:2]
    u = NET(torch.cat([x, t], 1))
    ones = torch.ones_like(u)
    (u_x,) = torch.autograd.grad(u, x, ones, create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x, x, ones, create_graph=True)
    (u_t,) = torch.autograd.grad(u, t, ones, create_graph=True)
    return ((u_t + u * u_x - 0.1 * u_xx) ** 2).sum()


def burgers_by_func(points: Tensor) -> Tensor:
    def u(x: Tensor, t: Tensor) -> Tensor:
        return NET(torch.stack([x, t]))[0]

    def residual(point: Tensor) -> Tensor:
        x, t = point
        u_x, u_t = torch.func.grad(u, (0, 1))(x, t)
        return u_t + u(x, t) * u_x - 0.1 * torch.func.grad(torch.func.grad(u))(x, t)

    return sum(residual(point) ** 2 for point in points)  # type: ignore[return-value]


def test_autograd_grad_inside() -> None:
    assert_agrees(burgers, random(3, 2), reference=burgers_by_func)


def by_a_copy(x: Tensor) -> Tensor:
    y = x.clone()
    return torch.autograd.grad((y * x).sum(), y, create_graph=True)[0] ** 2


def by_both(x: Tensor) -> Tensor:
    y = x**2
    z = (y * x).sum()
    first, second = torch.autograd.grad(z, [x, y], create_graph=True)
    return first * second


def by_a_made_tensor(x: Tensor) -> Tensor:
    t = torch.linspace(0, 1, 5, dtype=x.dtype).requires_grad_()
    return torch.autograd.grad((x * t).sin().sum(), t, create_graph=True)[0]


def weighted(x: Tensor) -> Tensor:
    return torch.autograd.grad([x.sin(), x**3], x, [x, x**2], create_graph=True)[0]


def unused(x: Tensor) -> Tensor:
    y = 2 * x
    none, some = torch.autograd.grad(x.sum(), [y, x], create_graph=True, allow_unused=True)
    assert none is None
    return some * x


TIME = torch.linspace(0, 1, 5, dtype=torch.float64)
BY: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "a copy": (by_a_copy, lambda x: x**2),
    "both": (by_both, lambda x: 3 * x**3),
    "a tensor made inside": (by_a_made_tensor, lambda x: x * (x * TIME).cos()),
    "weights": (weighted, lambda x: x * x.cos() + 3 * x**4),
    "unused": (unused, lambda x: x * 1),
    "functional.hessian": (
        lambda x: torch.autograd.functional.hessian(waves, x, create_graph=True),
        torch.func.hessian(waves),
    ),
    "functional.jacobian": (
        lambda x: torch.autograd.functional.jacobian(lambda y: y**3 * y.sum(), x, create_graph=True),
        jacrev(lambda y: y**3 * y.sum()),
    ),
    "functional.vhp": (
        lambda x: torch.autograd.functional.vhp(waves, x, x**2, create_graph=True)[1],
        lambda x: x**2 @ torch.func.hessian(waves)(x),
    ),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("name", BY)
def test_autograd_grad_by(name: str) -> None:
    function, reference = BY[name]
    assert_agrees(function, VECTOR, reference=reference)


def test_autograd_grad_by_captured_tensors() -> None:
    weights = VECTOR.clone().requires_grad_()

    def adapted(x: Tensor) -> Tensor:
        (slope,) = torch.autograd.grad((weights * x).sin().sum(), weights, create_graph=True)
        return (weights - 0.1 * slope) * x

    derivative = hesse.jacobian(adapted)
    for _ in range(2):
        expected = jacrev(lambda x: (weights - 0.1 * x * (weights * x).cos()) * x)(VECTOR)
        assert_equal(derivative(VECTOR).detach(), expected.detach())
        with torch.no_grad():
            weights.add_(1)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant: bool) -> None:
    assert_agrees(
        lambda x: checkpoint(lambda y: y.sin() * y.sum(), x, use_reentrant=reentrant) * x,
        VECTOR,
        reference=lambda x: x.sin() * x.sum() * x,
    )


def test_modules_that_write_in_place() -> None:
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Linear(5, 2)).double()
    assert_agrees(net, MATRIX)


# hesse inside what hesse traces.

H = torch.func.hessian(waves)
NESTED: dict[str, tuple[Callable[[Tensor], Any], Callable[[Tensor], Any]]] = {
    "grad": (lambda x: hesse.grad(waves)(x) * x, lambda x: torch.func.grad(waves)(x) * x),
    "hessian": (lambda x: hesse.hessian(waves)(x) @ x, lambda x: H(x) @ x),
    "laplacian": (lambda x: hesse.laplacian(waves)(x) * x, lambda x: H(x).trace() * x),
    "hvp": (lambda x: hesse.hvp(waves)(x, x**2), lambda x: H(x) @ x**2),
    "jacobian": (
        hesse.jacobian(lambda y: y.sin() * y.sum()),
        jacrev(lambda y: y.sin() * y.sum()),
    ),
    "third derivative": (
        lambda x: hesse.derivative(waves, 3)(x).sum((1, 2)),
        lambda x: jacrev(H)(x).sum((1, 2)),
    ),
    "value_and_grad": (
        lambda x: torch.stack([v * g for v, g in [hesse.value_and_grad(waves)(x)]]),
        lambda x: (waves(x) * torch.func.grad(waves)(x))[None],
    ),
    "compile": (lambda x: hesse.compile(waves)(x) * x, lambda x: waves(x) * x),
    "twice": (
        hesse.grad(hesse.laplacian(waves)),
        torch.func.grad(lambda x: H(x).trace()),
    ),
    "containers": (
        lambda x: hesse.grad(lambda d: (d["a"] * d["b"]).sin().sum())({"a": x, "b": x**2})["b"],
        lambda x: x * (x**3).cos(),
    ),
    "a closure": (
        lambda x: hesse.grad(lambda y: (x * y**3).sum())(x),
        lambda x: 3 * x**3,
    ),
    "a closure at a known point": (
        lambda x: hesse.grad(lambda y: (x * y**3).sum())(torch.ones(5, dtype=x.dtype)),
        lambda x: 3 * x,
    ),
    "a function of NumPy": (lambda x: hesse.grad(lambda y: np.sum(np.sin(y)))(x) * x, lambda x: x.cos() * x),
    "inside vmap": (
        lambda x: torch.vmap(hesse.grad(waves))(torch.stack([x, 2 * x])),
        lambda x: torch.vmap(torch.func.grad(waves))(torch.stack([x, 2 * x])),
    ),
    "inside torch.func.grad": (
        torch.func.grad(hesse.laplacian(lambda y: (y**4).sum())),
        lambda x: 24 * x,
    ),
    "around autograd": (
        hesse.grad(lambda y: torch.autograd.grad((y**3).sum(), y, create_graph=True)[0].sum()),
        lambda x: 6 * x,
    ),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("name", NESTED)
def test_hesse_inside(name: str) -> None:
    function, reference = NESTED[name]
    assert_agrees(function, VECTOR, reference=reference)


def test_hesse_inside_after_calls_outside() -> None:
    by_key = hesse.grad(lambda d: (d["a"] ** 3).sum())
    hessian = hesse.hessian(lambda y: (y**4).sum())
    for _ in range(2):
        assert_equal(by_key({"a": VECTOR})["a"], 3 * VECTOR**2)
        assert_equal(hesse.jacobian(lambda x: by_key({"a": x})["a"])(VECTOR), torch.diag(6 * VECTOR))
        assert_equal(hessian(VECTOR), torch.diag(12 * VECTOR**2))
        assert_equal(hesse.jacobian(lambda x: hessian(x).sum(0))(VECTOR), torch.diag(24 * VECTOR))


def test_tensors_that_nested_functions_read_are_read_at_every_call() -> None:
    weights = VECTOR.clone()

    def f(x: Tensor) -> Tensor:
        return hesse.grad(lambda y: (weights * y**3).sum())(x).sum() + hesse.grad(squares)(weights) @ x

    derivative = hesse.grad(f)
    for _ in range(2):
        assert_equal(derivative(VECTOR), 6 * weights * VECTOR + 2 * weights)
        weights.add_(1)


# Transformations around hesse.


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_torch_func_around() -> None:
    gradient, batch = hesse.grad(waves), torch.stack([VECTOR, 2 * VECTOR])
    assert_equal(torch.vmap(gradient)(batch), torch.vmap(torch.func.grad(waves))(batch))
    assert_equal(torch.vmap(hesse.hessian(waves))(batch), torch.vmap(H)(batch))
    assert_equal(jacrev(gradient)(VECTOR), H(VECTOR))
    assert_equal(torch.func.jacfwd(gradient)(VECTOR), H(VECTOR))
    assert_equal(
        torch.func.grad(hesse.laplacian(waves))(VECTOR), torch.func.grad(lambda x: H(x).trace())(VECTOR)
    )
    assert_equal(gradient(VECTOR), torch.func.grad(waves)(VECTOR))


def test_torch_func_around_a_closure() -> None:
    def slope(z: Tensor) -> Tensor:
        return hesse.grad(lambda y: (z * y**3).sum())(VECTOR)

    assert_equal(jacrev(slope)(VECTOR), torch.diag(3 * VECTOR**2))
    batch = torch.stack([VECTOR, 2 * VECTOR])
    assert_equal(torch.vmap(slope)(batch), batch * 3 * VECTOR**2)
    inner = jacrev(
        lambda z: hesse.grad(lambda y: torch.func.grad(lambda w: (z * w**3).sum())(y).sum())(VECTOR)
    )
    assert_equal(inner(VECTOR), torch.diag(6 * VECTOR))


def test_results_can_be_differentiated_by_autograd() -> None:
    x = VECTOR.clone().requires_grad_()
    (found,) = torch.autograd.grad((hesse.hessian(waves)(x) ** 2).sum(), x)
    (expected,) = torch.autograd.grad((H(x) ** 2).sum(), x)
    assert_equal(found, expected)


def test_results_can_be_differentiated_where_another_branch_has_no_slope() -> None:
    x = (VECTOR**2 + 0.1).requires_grad_()
    (found,) = torch.autograd.grad(hesse.grad(lambda x: torch.special.entr(x).sum())(x).sum(), x)
    assert_equal(found, -1 / x.detach())


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_a_loss_with_derivatives_trains() -> None:
    """The steps of an optimiser are those of nested autograd."""
    points = random(4, 2)

    def laplacian_by_autograd(net: nn.Module, point: Tensor) -> Tensor:
        return torch.func.hessian(lambda z: net(z).squeeze())(point).trace()

    def trained(laplacian: Callable[[nn.Module, Tensor], Tensor]) -> list[float]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double()
        optimiser = torch.optim.SGD(net.parameters(), 0.05)
        losses = []
        for _ in range(4):
            loss = sum((laplacian(net, point) - 1) ** 2 + net(point).squeeze() ** 2 for point in points)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        return losses

    derivatives: dict[int, Any] = {}

    def laplacian(net: nn.Module, point: Tensor) -> Tensor:
        if id(net) not in derivatives:
            derivatives[id(net)] = hesse.laplacian(lambda z: net(z).squeeze())
        result: Tensor = derivatives[id(net)](point)
        return result

    assert trained(laplacian) == pytest.approx(trained(laplacian_by_autograd), rel=1e-9)


# Types, threads, memory.


def test_dtypes_are_those_of_the_arguments() -> None:
    x = VECTOR.float()
    assert hesse.hessian(lambda x: (x**3 * torch.tensor(2.0, dtype=torch.float64)).sum())(x).dtype == x.dtype
    found = hesse.grad(lambda x: (x * VECTOR).sum())(x)
    assert_equal(found, torch.func.grad(lambda x: (x * VECTOR).sum())(x), 1e-6)
    mixed = hesse.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, VECTOR)
    torch.testing.assert_close(mixed[1].double(), x.double(), rtol=1e-6, atol=1e-6)


def test_lower_precision_inside_is_ignored() -> None:
    assert_agrees(lambda x: (x.float() * 2).double().sin(), VECTOR, reference=lambda x: (x * 2).sin())


def test_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert_agrees(lambda x: x * torch.ones(5) * torch.tensor(0.1), VECTOR)
    finally:
        torch.set_default_dtype(torch.float32)


def test_numbers_without_axes() -> None:
    x = torch.tensor(2.0, dtype=torch.float64)
    assert_agrees(lambda x: x**4, x, order=3)
    assert_agrees(lambda x, y: x * y**2, x, 3 * x)
    assert_agrees(lambda x: x * torch.tensor([1.0, 2.0], dtype=torch.float64), x)


def test_integer_arguments() -> None:
    for power in (torch.tensor(3), 3, np.int64(3)):
        assert_equal(hesse.grad(lambda x, n: (x**n).sum())(VECTOR, power), 3 * VECTOR**2)
    assert_equal(hesse.grad(lambda x, n: (x**n).sum())(VECTOR, torch.tensor(2)), 2 * VECTOR)
    assert_agrees(lambda x: x * torch.arange(5) + (x > 0) * x, VECTOR)


def test_threads() -> None:
    failures: list[Any] = []
    is_done = threading.Event()

    def plain() -> None:
        while not is_done.is_set():
            x = VECTOR.clone().requires_grad_()
            (Cube.apply(x) * torch.zeros(5, dtype=x.dtype).add_(1)).sum().backward()
            if not torch.allclose(x.grad, 3 * VECTOR**2):
                failures.append(x.grad)

    def traced(power: int) -> None:
        for _ in range(5):
            found = hesse.grad(lambda x: (Cube.apply(x) * x**power).sum())(VECTOR)
            if not torch.allclose(found, (3 + power) * VECTOR ** (2 + power)):
                failures.append((power, found))

    beside = threading.Thread(target=plain)
    threads = [threading.Thread(target=traced, args=(power,)) for power in (1, 2, 3, 4)]
    for thread in (beside, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    is_done.set()
    beside.join()
    assert not failures


def test_tensors_are_freed() -> None:
    weights, x = random(200, 200), VECTOR.clone()
    references = [weakref.ref(weights), weakref.ref(x)]
    derivative = hesse.grad(lambda x: ((weights[:5, :5] @ x) ** 2).sum())
    derivative(x)
    x = None
    gc.collect()
    assert references[1]() is None
    derivative = weights = None
    gc.collect()
    assert references[0]() is None


@pytest.mark.parametrize("write", ["whole", "part"])
def test_a_reshape_that_may_be_a_copy_stops_later_writes(write: str) -> None:
    """PyTorch copies here, because the product lies in memory column by column."""

    def function(x: Tensor) -> Tensor:
        turned = x.t() * 2
        flat = turned.reshape(-1)
        (turned if write == "whole" else turned[0]).mul_(3)
        return (flat**3).sum()

    with pytest.raises(TracingError, match="was reshaped, where the layout in memory decides"):
        hesse.grad(function)(torch.ones(3, 4))


class TimesTheSum(torch.autograd.Function):
    """A tensor times the sum of an array that is no tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, array: np.ndarray) -> Tensor:
        ctx.factor = float(array.sum())
        return x * ctx.factor

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, None]:
        return cotangent * ctx.factor, None


def test_arguments_of_a_function_that_print_alike_are_different() -> None:
    zeros = np.zeros(5000)
    other = zeros.copy()
    other[2500] = 7.0
    assert repr(zeros) == repr(other)

    def function(x: Tensor) -> Tensor:
        return (TimesTheSum.apply(x, zeros) + 10 * TimesTheSum.apply(x, other)).sum()

    for _ in range(2):
        assert hesse.grad(function)(torch.ones(3)).tolist() == [70.0, 70.0, 70.0]
