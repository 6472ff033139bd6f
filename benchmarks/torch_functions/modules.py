"""A transformer block as a module, its Hessian times a vector and in blocks; the papers' problems."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import hesse
from benchmarks.gpu.cases import problems_by_name
from benchmarks.speed.closed_forms import forms
from benchmarks.torch_functions.setting import Candidate, Case, Setting

TRANSFORMER = "A transformer block (attention and a perceptron, mean squared error)"
PAPERS = "The papers' problems as torch functions (dense Hessians)"
HEADS, BATCH, LENGTH = 2, 8, 16
SIZES = {
    "quadratic": (1000, 10_000),
    "logistic regression": (1000, 4000),
    "factorisation, k = 5": (200, 2000),
    "ten-layer ReLU net, first layer": (20, 100),
}


def block_class(torch: Any) -> Any:
    """The module."""
    linear = torch.nn.Linear

    class Block(torch.nn.Module):  # type: ignore[misc,name-defined]
        """Attention of some heads, then a perceptron, both added to what goes in."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.qkv, self.out = linear(width, 3 * width), linear(width, width)
            self.up, self.down = linear(width, 2 * width), linear(2 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            parts = self.qkv(x).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
            q, k, v = parts.unbind(0)
            weights = torch.softmax(q @ k.transpose(-1, -2) * (width // HEADS) ** -0.5, -1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
            return x + self.down(torch.tanh(self.up(x)))

    return Block


class Transformer:
    """The block with data: its loss as a function of its parameters, one argument each."""

    def __init__(self, setting: Setting, width: int) -> None:
        self.torch = setting.torch.xp
        self.module = block_class(self.torch)(width).to(setting.torch.device)
        self.names = [name for name, _ in self.module.named_parameters()]
        self.parameters = [
            setting.tensor(*parameter.shape, seed=k, scale=width**-0.5)
            for k, parameter in enumerate(self.module.parameters())
        ]
        self.tangents = [
            setting.tensor(*parameter.shape, seed=k + 20) for k, parameter in enumerate(self.parameters)
        ]
        self.x, self.y = (setting.tensor(BATCH, LENGTH, width, seed=k) for k in (40, 41))

    def loss(self, *parameters: Any) -> Any:
        """The mean squared error."""
        named = dict(zip(self.names, parameters, strict=True))
        found = self.torch.func.functional_call(self.module, named, (self.x,))
        return ((found - self.y) ** 2).mean()

    def loss_of(self, k: int, parameter: Any) -> Any:
        """The loss as a function of one parameter."""
        return self.loss(*self.parameters[:k], parameter, *self.parameters[k + 1 :])


def _jax_loss(xp: Any, jax: Any, x: Any, y: Any, *parameters: Any) -> Any:
    qkv, qkv_bias, out, out_bias, up, up_bias, down, down_bias = parameters
    batch, length, width = x.shape
    parts = (x @ qkv.T + qkv_bias).reshape(batch, length, 3, HEADS, width // HEADS)
    q, k, v = xp.transpose(parts, (2, 0, 3, 1, 4))
    weights = jax.nn.softmax(q @ xp.swapaxes(k, -1, -2) * (width // HEADS) ** -0.5, -1)
    x = x + xp.swapaxes(weights @ v, 1, 2).reshape(batch, length, width) @ out.T + out_bias
    found = x + xp.tanh(x @ up.T + up_bias) @ down.T + down_bias
    return ((found - y) ** 2).mean()


def products(setting: Setting, width: int) -> list[Candidate]:
    """The Hessian by all parameters, as one vector, times a vector."""
    case = Transformer(setting, width)
    torch, func = case.torch, case.torch.func
    at, along = (torch.cat([p.reshape(-1) for p in some]) for some in (case.parameters, case.tangents))
    shapes = [tuple(p.shape) for p in case.parameters]
    counts = [p.numel() for p in case.parameters]

    def loss(flat: Any) -> Any:
        return case.loss(*(part.view(s) for part, s in zip(flat.split(counts), shapes, strict=True)))

    def by_func(flat: Any, direction: Any) -> Any:
        return func.jvp(func.grad(loss), (flat,), (direction,))[1]

    def by_autograd() -> Any:
        leaf = at.clone().requires_grad_(True)

        def product() -> Any:
            (first,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
            return torch.autograd.grad(first, leaf, along)[0]

        return product

    def by_hesse(**settings: Any) -> Any:
        derivative = hesse.hvp(loss)
        made = derivative.compile(backend="torch", **settings) if settings else derivative
        return lambda: made(at, along)

    found = [
        Candidate("torch.func, forward over reverse", lambda: lambda: by_func(at, along)),
        Candidate("nested autograd", by_autograd),
        Candidate(
            "torch.func compiled",
            lambda: partial(torch.compile(by_func, dynamic=False), at, along),
            is_compiled=True,
        ),
        *_ways_of_hesse(setting, by_hesse),
    ]
    if setting.jax is not None:
        jax, xp = setting.jax.jax, setting.jax.xp
        x, y, *copies = setting.to_jax([case.x, case.y, at, along])
        ends = list(itertools.accumulate(counts))[:-1]

        def jax_loss(flat: Any) -> Any:
            parts = zip(xp.split(flat, ends), shapes, strict=True)
            return _jax_loss(xp, jax, x, y, *(part.reshape(s) for part, s in parts))

        jitted = jax.jit(lambda flat, direction: jax.jvp(jax.grad(jax_loss), (flat,), (direction,))[1])
        found.append(Candidate("JAX jitted", lambda: lambda: jitted(*copies)))
    return found


def _ways_of_hesse(setting: Setting, make: Any) -> list[Candidate]:
    found = [Candidate("hesse", make)]
    if setting.torch.device != "cpu":
        found.append(Candidate("hesse, eager", partial(make, graph=False)))
        found.append(Candidate("hesse, fused", partial(make, fuse=True), is_compiled=True))
    return found


def layers(setting: Setting, width: int) -> list[Candidate]:
    """The Hessian by each weight and bias alone, all of them together where a library can."""
    case = Transformer(setting, width)
    torch, func = case.torch, case.torch.func
    losses = [partial(case.loss_of, k) for k in range(len(case.names))]

    def each(derivatives: list[Any], arguments: list[Any]) -> Any:
        def all_blocks() -> Any:
            return [derivative(argument) for derivative, argument in zip(derivatives, arguments, strict=True)]

        return all_blocks

    def by_hesse(**settings: Any) -> Any:
        names = [name.replace(".", "_") for name in case.names]  # what has no common beginning is a layer
        derivative = hesse.hessian(lambda named: case.loss(*named.values()), blocks="layer")
        made = derivative.compile(backend="torch", **settings) if settings else derivative
        named = dict(zip(names, case.parameters, strict=True))

        def all_blocks() -> Any:
            found = made(named)
            return [found[name][name][name] for name in names]

        return all_blocks

    by_func = [func.hessian(loss) for loss in losses]
    found = [
        Candidate("torch.func.hessian", lambda: each(by_func, case.parameters)),
        Candidate(
            "torch.func.hessian compiled",
            lambda: each([torch.compile(way, dynamic=False) for way in by_func], case.parameters),
            is_compiled=True,
        ),
        *_ways_of_hesse(setting, by_hesse),
    ]
    if setting.jax is not None:
        jax = setting.jax.jax
        x, y = setting.to_jax([case.x, case.y])
        copies = setting.to_jax(case.parameters)
        loss = partial(_jax_loss, setting.jax.xp, jax, x, y)
        jitted = jax.jit(
            lambda *parameters: [jax.hessian(loss, k)(*parameters) for k in range(len(parameters))]
        )
        found.append(Candidate("JAX jitted", lambda: lambda: jitted(*copies)))
    return found


def paper(name: str, setting: Setting, size: int) -> list[Candidate]:
    """The dense Hessian of a problem of the papers, written in torch."""
    problem = problems_by_name()[name]
    torch = setting.torch.xp
    arguments = [setting.to_torch(array) for array in problem.data(size)]
    f = problem.function_for("torch", torch)
    whole = torch.func.hessian(f)

    def by_hesse(**settings: Any) -> Any:
        derivative = hesse.hessian(f)
        made = derivative.compile(backend="torch", **settings) if settings else derivative
        return lambda: made(*arguments)

    closed = forms(setting.torch)[name].dense
    found = [
        Candidate("closed form", lambda: lambda: closed(*arguments)),
        Candidate("torch.func.hessian", lambda: lambda: whole(*arguments)),
        Candidate(
            "torch.func.hessian compiled",
            lambda: partial(torch.compile(whole, dynamic=False), *arguments),
            is_compiled=True,
        ),
        *_ways_of_hesse(setting, by_hesse),
    ]
    if setting.jax is not None:
        jitted = setting.jax.jax.jit(setting.jax.jax.hessian(problem.function_for("jax", setting.jax.xp)))
        copies = setting.to_jax(arguments)
        found.append(Candidate("JAX jitted", lambda: lambda: jitted(*copies)))
    return found


CASES = (
    Case(TRANSFORMER, "Hessian times a direction", "width", {"cpu": (16, 64), "cuda": (64, 256)}, products),
    Case(TRANSFORMER, "Hessian by each parameter", "width", {"cpu": (8,), "cuda": (16, 32)}, layers),
    *(
        Case(PAPERS, name, "size", {"cpu": (), "cuda": sizes}, partial(paper, name))
        for name, sizes in SIZES.items()
    ),
)
