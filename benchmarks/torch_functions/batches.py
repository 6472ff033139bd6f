"""THOAD's benchmarks (its figures 3, 4, 6 and 7) with tanh: Hessians of batches, and by all parameters."""

from __future__ import annotations

from functools import partial
from typing import Any

import hesse
from benchmarks.torch_functions.setting import Candidate, Case, Setting

INPUTS = "Hessians by the inputs of a batch"
CROSSINGS = "Hessians by inputs and parameters, with crossings"
WIDTH, BATCH, LAYERS = 10, 10, 3
DENSE_ENTRIES = 10**8
"""Dense Hessians with more entries are not formed."""


def net(xp: Any, x: Any, *weights: Any) -> Any:
    """The sum of all outputs of a net."""
    for weight in weights[:-1]:
        x = xp.tanh(x @ weight)
    return xp.tanh(x @ weights[-1]).sum()


def _data(setting: Setting, batch: int, width: int, layers: int) -> tuple[Any, list[Any]]:
    weights = [setting.tensor(width, width, seed=k + 1, scale=width**-0.5) for k in range(layers)]
    return setting.tensor(batch, width), weights


def by_inputs(setting: Setting, batch: int, width: int) -> list[Candidate]:
    """Dense results (B, d, B, d) where they fit, and the blocks (B, d, d)."""
    torch, func = setting.torch.xp, setting.torch.xp.func
    x, weights = _data(setting, batch, width, LAYERS)
    direction = setting.tensor(batch, width, seed=99)

    def f(x: Any) -> Any:
        return net(torch, x, *weights)

    def blocks_product(blocks: Any) -> Any:
        return torch.einsum("bij,bj->bi", blocks, direction)

    def dense_product(dense: Any) -> Any:
        return torch.einsum("bicj,cj->bi", dense, direction)

    mapped = func.vmap(func.hessian(f))
    found = [
        Candidate("vmap(hessian)", lambda: lambda: mapped(x), blocks_product),
        Candidate("vmap(hessian) compiled", lambda: _compiled(torch, mapped, x), blocks_product, True),
        *_by_hesse(setting, f, x, "structured", lambda result: result @ direction),
    ]
    if (batch * width) ** 2 <= DENSE_ENTRIES:
        whole = func.hessian(f)
        ways = {
            "torch.func.hessian": lambda: whole(x),
            "torch.autograd.functional.hessian": lambda: torch.autograd.functional.hessian(f, x),
        }
        if batch * width <= 2000:  # slower ones would take seconds
            found += [Candidate(name, partial(_same, way), dense_product) for name, way in ways.items()]
            found.append(
                Candidate(
                    "torch.func.hessian compiled", lambda: _compiled(torch, whole, x), dense_product, True
                )
            )
        found += _by_hesse(setting, f, x, "dense", dense_product)
    if setting.jax is not None:
        jax = setting.jax.jax
        y, *others = setting.to_jax([x, *weights])
        axes = (0, *[None] * LAYERS)
        jitted = jax.jit(jax.vmap(jax.hessian(lambda y, *rest: net(setting.jax.xp, y, *rest)), axes))
        found.append(
            Candidate(
                "JAX vmap(hessian) jitted",
                lambda: lambda: jitted(y, *others),
                lambda blocks: blocks_product(torch.from_dlpack(blocks)),
            )
        )
    return found


def _same(way: Any) -> Any:
    return way


def _compiled(torch: Any, function: Any, *arguments: Any) -> Any:
    made = torch.compile(function, dynamic=False)
    return lambda: made(*arguments)


def _by_hesse(setting: Setting, f: Any, x: Any, form: str, entries: Any) -> list[Candidate]:
    def eager() -> Any:
        derivative = hesse.hessian(f, form=form).compile(backend="torch", graph=False)
        return lambda: derivative(x)

    def default() -> Any:
        derivative = hesse.hessian(f, form=form)
        return lambda: derivative(x)

    def fused() -> Any:
        derivative = hesse.hessian(f, form=form).compile(backend="torch", fuse=True)
        return lambda: derivative(x)

    found = [Candidate(f"hesse {form}", default, entries)]
    if setting.torch.device != "cpu":
        found.append(Candidate(f"hesse {form}, eager", eager, entries))
        found.append(Candidate(f"hesse {form}, fused", fused, entries, True))
    return found


def with_crossings(setting: Setting, batch: int, layers: int) -> list[Candidate]:
    """All second derivatives by inputs and all weights."""
    torch, func = setting.torch.xp, setting.torch.xp.func
    x, weights = _data(setting, batch, WIDTH, layers)
    arguments = [x, *weights]
    numbers = tuple(range(len(arguments)))
    f = partial(net, torch)
    whole = func.hessian(f, argnums=numbers)

    def by_hesse(**settings: Any) -> Any:
        derivative = hesse.hessian(f, argnums=numbers)
        made = derivative.compile(backend="torch", **settings) if settings else derivative
        return lambda: made(*arguments)

    found = [
        Candidate("torch.func.hessian", lambda: lambda: whole(*arguments)),
        Candidate(
            "torch.autograd.functional.hessian",
            lambda: lambda: torch.autograd.functional.hessian(f, tuple(arguments)),
        ),
        Candidate(
            "torch.func.hessian compiled", lambda: _compiled(torch, whole, *arguments), is_compiled=True
        ),
        Candidate("hesse dense", by_hesse),
    ]
    if setting.torch.device != "cpu":
        found.append(Candidate("hesse dense, eager", partial(by_hesse, graph=False)))
    found.append(Candidate("hesse dense, fused", partial(by_hesse, fuse=True), is_compiled=True))
    if setting.jax is not None:
        jitted = setting.jax.jax.jit(setting.jax.jax.hessian(partial(net, setting.jax.xp), argnums=numbers))
        copies = setting.to_jax(arguments)
        found.append(Candidate("JAX hessian jitted", lambda: lambda: jitted(*copies)))
    return found


CASES = (
    Case(
        INPUTS,
        f"width {WIDTH}, {LAYERS} layers",
        "batch",
        {"cpu": (1, 10, 40, 100, 1000), "cuda": (100, 1000, 10_000, 100_000)},
        lambda setting, batch: by_inputs(setting, batch, WIDTH),
    ),
    Case(
        INPUTS,
        f"batch {BATCH}, {LAYERS} layers",
        "width",
        {"cpu": (10, 40, 100), "cuda": (40, 100)},
        lambda setting, width: by_inputs(setting, BATCH, width),
    ),
    Case(
        CROSSINGS,
        f"width {WIDTH}, {LAYERS} layers",
        "batch",
        {"cpu": (10, 40, 80), "cuda": (80,)},
        lambda setting, batch: with_crossings(setting, batch, LAYERS),
    ),
    Case(
        CROSSINGS,
        f"width {WIDTH}, batch {BATCH}",
        "layers",
        {"cpu": (2, 4, 6), "cuda": (6,)},
        lambda setting, layers: with_crossings(setting, BATCH, layers),
    ),
)
