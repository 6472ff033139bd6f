"""Steps of physics-informed nets: the loss and its gradient by all parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import hesse
from benchmarks.torch_functions.setting import Candidate, Case, Setting

GROUP = "Steps of physics-informed nets (loss and gradient)"
WIDTH, HIDDEN = 32, 3

NESTED, FUNC, FUNC_COMPILED = "nested autograd", "torch.func, vmap", "torch.func compiled"
INSIDE, WHOLE, FUSED = "hesse.diagonal, then backward", "hesse.value_and_grad", "hesse.value_and_grad, fused"


class Equation(NamedTuple):
    """A residual of `u`, its first derivatives, a high one by the first coordinate, and a source."""

    name: str
    coordinates: int
    order: int
    residual: Callable[[Any, tuple[Any, ...], Any, Any], Any]

    @property
    def needs_first(self) -> bool:
        """Whether first derivatives occur."""
        return self.coordinates > 1


POISSON = Equation("Poisson, order 2", 1, 2, lambda u, first, high, source: high + source)
BURGERS = Equation(
    "Burgers, order 2", 2, 2, lambda u, first, high, source: first[1] + u * first[0] - 0.01 * high
)
BIHARMONIC = Equation("biharmonic, order 4", 1, 4, lambda u, first, high, source: high - source)


class Points(NamedTuple):
    """Weights and biases in turns, columns of coordinates, and the source."""

    parameters: list[Any]
    columns: list[Any]
    source: Any


def points(setting: Setting, equation: Equation, count: int) -> Points:
    """A net with small random weights, and random points."""
    widths = [equation.coordinates, *[WIDTH] * HIDDEN, 1]
    parameters = []
    for k in range(len(widths) - 1):
        parameters.append(setting.tensor(widths[k + 1], widths[k], seed=k + 1, scale=widths[k] ** -0.5))
        parameters.append(setting.tensor(widths[k + 1], seed=k + 50, scale=0.1))
    random = np.random.default_rng(count)
    columns = [setting.to_torch(random.uniform(size=(count, 1))) for _ in range(equation.coordinates)]
    return Points(parameters, columns, setting.torch.xp.sin(columns[0]))


def net(torch: Any, parameters: list[Any], *columns: Any) -> Any:
    """The values of the net, a column."""
    linear = torch.nn.functional.linear
    x = torch.cat(columns, 1) if len(columns) > 1 else columns[0]
    for k in range(0, len(parameters) - 2, 2):
        x = torch.tanh(linear(x, parameters[k], parameters[k + 1]))
    return linear(x, parameters[-2], parameters[-1])


def nested_loss(torch: Any, equation: Equation, parameters: list[Any], given: Points) -> Any:
    """The loss with derivatives from autograd, as it is usually written."""
    columns = [column.detach().requires_grad_(True) for column in given.columns]
    u = net(torch, parameters, *columns)
    gradients = partial(torch.autograd.grad, create_graph=True)
    first = gradients(u.sum(), columns)
    high = first[0]
    for _ in range(equation.order - 1):
        (high,) = gradients(high.sum(), columns[:1])
    return (equation.residual(u, first, high, given.source) ** 2).mean()


def hesse_loss(torch: Any, equation: Equation, parameters: list[Any], given: Points) -> Any:
    """The loss with derivatives from hesse; it may be traced itself."""

    def total(*columns: Any) -> Any:
        return net(torch, parameters, *columns).sum()

    high = hesse.diagonal(total, order=equation.order)(*given.columns)
    first, u = (), None
    if equation.needs_first:
        first = hesse.grad(total, argnums=tuple(range(equation.coordinates)))(*given.columns)
        u = net(torch, parameters, *given.columns)
    return (equation.residual(u, first, high, given.source) ** 2).mean()


def _func_step(torch: Any, equation: Equation, given: Points) -> tuple[Any, tuple[Any, ...]]:
    """`torch.func.grad_and_value` of derivatives at each point, mapped, and its arguments."""
    func = torch.func

    def at_point(parameters: tuple[Any, ...], *point: Any) -> Any:
        return net(torch, parameters, *(number.view(1, 1) for number in point))[0, 0]

    gradient = func.grad(at_point, argnums=tuple(range(1, 1 + equation.coordinates)))
    high = at_point
    for _ in range(equation.order):
        high = func.grad(high, argnums=1)
    axes = (None, *[0] * equation.coordinates)

    def loss(parameters: tuple[Any, ...], source: Any, *columns: Any) -> Any:
        u = first = None
        if equation.needs_first:
            u = func.vmap(at_point, axes)(parameters, *columns)
            first = func.vmap(gradient, axes)(parameters, *columns)
        found = func.vmap(high, axes)(parameters, *columns)
        return (equation.residual(u, first, found, source) ** 2).mean()

    arguments = tuple(given.parameters), given.source[:, 0], *(column[:, 0] for column in given.columns)
    return func.grad_and_value(loss), arguments


def _jax_step(setting: Setting, equation: Equation, given: Points) -> Callable[[], Any]:
    assert setting.jax is not None
    jax, xp = setting.jax.jax, setting.jax.xp

    def at_point(parameters: list[Any], *point: Any) -> Any:
        x = xp.stack(point)
        for k in range(0, len(parameters) - 2, 2):
            x = xp.tanh(parameters[k] @ x + parameters[k + 1])
        return (parameters[-2] @ x + parameters[-1])[0]

    gradient = jax.grad(at_point, argnums=tuple(range(1, 1 + equation.coordinates)))
    high = at_point
    for _ in range(equation.order):
        high = jax.grad(high, argnums=1)
    axes = (None, *[0] * equation.coordinates)

    def loss(parameters: list[Any], source: Any, *columns: Any) -> Any:
        u = jax.vmap(at_point, axes)(parameters, *columns)
        first = jax.vmap(gradient, axes)(parameters, *columns)
        found = jax.vmap(high, axes)(parameters, *columns)
        return (equation.residual(u, first, found, source) ** 2).mean()

    step = jax.jit(jax.value_and_grad(loss))
    parameters = setting.to_jax(given.parameters)
    rest = setting.to_jax([given.source[:, 0], *(column[:, 0] for column in given.columns)])
    return lambda: step(parameters, *rest)


def whole_step(torch: Any, equation: Equation, given: Points, **settings: Any) -> Callable[..., Any]:
    """The loss and its gradient, of parameters, as one program of hesse."""
    count = len(given.parameters)

    def loss(*arguments: Any) -> Any:
        source, *columns = arguments[count:]
        return hesse_loss(torch, equation, list(arguments[:count]), Points([], columns, source))

    step = hesse.value_and_grad(loss, argnums=tuple(range(count)))
    made = step.compile(backend="torch", **settings) if settings else step
    return lambda parameters: made(*parameters, given.source, *given.columns)


def steps(setting: Setting, equation: Equation, count: int) -> list[Candidate]:
    """Everybody's way to the loss and its gradient."""
    torch = setting.torch.xp
    given = points(setting, equation, count)
    leaves = [parameter.clone().requires_grad_(True) for parameter in given.parameters]

    def by_autograd(loss_of: Callable[..., Any]) -> Callable[[], Any]:
        def step() -> Any:
            loss = loss_of(torch, equation, leaves, given)
            return loss, torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)

        return step

    def by_hesse(**settings: Any) -> Callable[[], Any]:
        step = whole_step(torch, equation, given, **settings)
        return lambda: step(given.parameters)

    def by_func(is_compiled: bool = False) -> Callable[[], Any]:
        step, arguments = _func_step(torch, equation, given)
        step = torch.compile(step, dynamic=False) if is_compiled else step
        return lambda: step(*arguments)

    def exchanged(result: Any) -> Any:
        return result[1], result[0]

    found = [
        Candidate(NESTED, lambda: by_autograd(nested_loss)),
        Candidate(FUNC, by_func, exchanged),
        Candidate(FUNC_COMPILED, partial(by_func, True), exchanged, is_compiled=True),
        Candidate(INSIDE, lambda: by_autograd(_with_one_derivative(torch, equation, leaves))),
        Candidate(WHOLE, by_hesse),
    ]
    if setting.torch.device != "cpu":
        found.append(Candidate(f"{WHOLE}, eager", partial(by_hesse, graph=False)))
    found.append(Candidate(FUSED, partial(by_hesse, fuse=True), is_compiled=True))
    if setting.jax is not None:
        found.append(Candidate("JAX jitted", lambda: _jax_step(setting, equation, given)))
    return found


def _with_one_derivative(torch: Any, equation: Equation, leaves: list[Any]) -> Callable[..., Any]:
    """The loss with derivatives from hesse that are made once; autograd differentiates through them."""

    def total(*columns: Any) -> Any:
        return net(torch, leaves, *columns).sum()

    high = hesse.diagonal(total, order=equation.order)
    first = hesse.grad(total, argnums=tuple(range(equation.coordinates)))

    def loss(torch: Any, equation: Equation, parameters: list[Any], given: Points) -> Any:
        u, gradients = None, ()
        if equation.needs_first:
            u, gradients = net(torch, leaves, *given.columns), first(*given.columns)
        return (equation.residual(u, gradients, high(*given.columns), given.source) ** 2).mean()

    return loss


CASES = tuple(
    Case(
        GROUP,
        equation.name,
        "points",
        {"cpu": (100, 1000), "cuda": (1000, 10_000)},
        lambda setting, count, equation=equation: steps(setting, equation, count),
    )
    for equation in (POISSON, BURGERS, BIHARMONIC)
)
