"""Functions and modules of PyTorch that networks are made of, with arguments.

Arguments of floating-point numbers are differentiated by, all of them; integers and masks are not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import optree
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

import hesse
from hesse.frontends.aten import tracer
from torch_nested import assert_equal, nested


class Case(NamedTuple):
    """A function with its arguments, and the highest order that is compared.

    The `reference` is another way to write it, where PyTorch cannot differentiate it or is wrong.
    """

    function: Callable[..., Any]
    arguments: tuple[Tensor, ...]
    order: int = 2
    reference: Callable[..., Any] | None = None

    @property
    def argnums(self) -> tuple[int, ...]:
        """The arguments to differentiate by."""
        return tuple(k for k, value in enumerate(self.arguments) if value.dtype.is_floating_point)


@contextmanager
def routes() -> Iterator[set[str]]:
    """The names of operations without a handler that are traced: "decomposed: …" or "foreign: …"."""
    found: set[str] = set()

    def recorded(kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(operation: Any, *arguments: Any, **options: Any) -> Any:
            found.add(f"{kind}: {operation._schema.name.removeprefix('aten::')}")
            return original(operation, *arguments, **options)

        return call

    class Table(dict[Any, Any]):
        def __getitem__(self, operation: Any) -> Any:
            found.add(f"decomposed: {operation._schema.name.removeprefix('aten::')}")
            return super().__getitem__(operation)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpOverload, "decompose", recorded("decomposed", OpOverload.decompose))
        patch.setattr(tracer, "decomposition_table", Table(tracer.decomposition_table))
        patch.setattr(tracer, "applied", recorded("foreign", tracer.applied))
        yield found


def check(case: Case) -> set[str]:
    """Value and derivatives of all orders and blocks, in two calls; how operations were traced."""
    reference = case.reference or case.function
    others = tuple(value * 1.01 if value.dtype.is_floating_point else value for value in case.arguments)
    with routes() as found, warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH):
        warnings.simplefilter("ignore")  # PyTorch's own about vmap, and ours about foreign operations
        assert_equal(hesse.compile(case.function)(*case.arguments), reference(*case.arguments))
        for order in range(1, case.order + 1):
            derivative = hesse.derivative(case.function, order, case.argnums)
            for point in (case.arguments, others):
                assert_equal(derivative(*point), nested(reference, order, case.argnums)(*point))
    return found


_generator = torch.Generator().manual_seed(12)


def normal(*shape: int) -> Tensor:
    """Random numbers."""
    return torch.randn(shape, generator=_generator, dtype=torch.float64)


def uniform(*shape: int) -> Tensor:
    """Random numbers between 1/2 and 3/2."""
    return torch.rand(shape, generator=_generator, dtype=torch.float64) + 0.5


def integers(*entries: Any) -> Tensor:
    """Known integers."""
    return torch.tensor(entries)


def bent(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function whose second derivatives are not zero, after one that may be linear."""
    return lambda *arguments: torch.tanh(function(*arguments))


def squared(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """One number, after a function with many results."""
    return lambda *arguments: (function(*arguments) ** 2).sum() + function(*arguments).sum()


def convolved(name: str, **options: Any) -> Callable[..., Tensor]:
    """A convolution of `torch.nn.functional`, squared."""
    return squared(lambda *arguments: getattr(F, name)(*arguments, **options))


CONVOLUTIONS = {
    "conv1d": Case(convolved("conv1d"), (normal(2, 2, 6), normal(3, 2, 3), normal(3)), 3),
    "conv1d same": Case(convolved("conv1d", padding="same"), (normal(1, 2, 5), normal(2, 2, 4))),
    "conv1d same, dilation": Case(
        convolved("conv1d", padding="same", dilation=2), (normal(1, 1, 6), normal(2, 1, 3), normal(2))
    ),
    "conv1d strides, dilation": Case(
        convolved("conv1d", padding=3, stride=3, dilation=2), (normal(2, 2, 9), normal(2, 2, 3))
    ),
    "conv1d unbatched": Case(convolved("conv1d", padding=1), (normal(2, 5), normal(2, 2, 3), normal(2))),
    "conv2d": Case(convolved("conv2d"), (normal(1, 2, 4, 4), normal(2, 2, 3, 2), normal(2))),
    "conv2d padding": Case(
        convolved("conv2d", padding=1), (normal(2, 2, 4, 3), normal(2, 2, 3, 3), normal(2))
    ),
    "conv2d same": Case(convolved("conv2d", padding="same"), (normal(1, 1, 4, 5), normal(2, 1, 2, 3))),
    "conv2d valid": Case(
        convolved("conv2d", padding="valid", stride=(1, 2)), (normal(1, 1, 4, 5), normal(2, 1, 2, 3))
    ),
    "conv2d strides, padding": Case(
        convolved("conv2d", padding=(1, 2), stride=(2, 3)),
        (normal(1, 2, 5, 4), normal(2, 2, 3, 3), normal(2)),
    ),
    "conv2d dilation": Case(
        convolved("conv2d", padding=2, dilation=(2, 1)), (normal(1, 1, 4, 3), normal(2, 1, 3, 3))
    ),
    "conv2d groups": Case(
        convolved("conv2d", padding=1, groups=2), (normal(1, 4, 3, 3), normal(6, 2, 2, 2), normal(6))
    ),
    "conv2d depthwise": Case(convolved("conv2d", groups=3), (normal(1, 3, 3, 4), normal(3, 1, 2, 2))),
    "conv2d unbatched": Case(convolved("conv2d", padding=1), (normal(2, 3, 4), normal(2, 2, 3, 3))),
    "conv2d order 3": Case(convolved("conv2d", padding=1), (normal(1, 1, 2, 3), normal(2, 1, 2, 2)), 3),
    "conv3d": Case(
        convolved("conv3d", padding=(1, 0, 1), stride=(2, 1, 1)),
        (normal(1, 1, 3, 2, 3), normal(2, 1, 3, 2, 2)),
    ),
    "conv_transpose1d": Case(
        convolved("conv_transpose1d", stride=2, padding=1, output_padding=1),
        (normal(2, 2, 4), normal(2, 3, 3), normal(3)),
    ),
    "conv_transpose1d unbatched": Case(convolved("conv_transpose1d"), (normal(2, 4), normal(2, 3, 3))),
    "conv_transpose1d wide padding": Case(
        convolved("conv_transpose1d", padding=3), (normal(1, 2, 6), normal(2, 1, 3))
    ),
    "conv_transpose2d": Case(
        convolved("conv_transpose2d", stride=(2, 1), padding=(0, 1), dilation=(1, 2)),
        (normal(1, 2, 3, 3), normal(2, 2, 2, 3), normal(2)),
    ),
    "conv_transpose2d groups": Case(
        convolved("conv_transpose2d", stride=2, groups=2, output_padding=(1, 0)),
        (normal(1, 4, 2, 3), normal(4, 1, 3, 2), normal(2)),
    ),
    "conv_transpose3d": Case(
        convolved("conv_transpose3d", stride=(1, 2, 1)), (normal(1, 1, 2, 2, 2), normal(1, 2, 2, 2, 1))
    ),
}


def pooled(name: str, *arguments: Any, **options: Any) -> Callable[..., Tensor]:
    """A function of `torch.nn.functional` of one tensor, bent."""
    return bent(lambda x: getattr(F, name)(x, *arguments, **options))


def with_indices(x: Tensor) -> Tensor:
    """Maxima of windows and where they are, used to choose."""
    values, places = F.max_pool2d(x, 2, padding=1, return_indices=True)
    return torch.tanh(values) * places + x.flatten(2).gather(2, places.flatten(2)).reshape(values.shape) ** 2


def unpooled(x: Tensor) -> Tensor:
    """Maxima put back to where they were."""
    values, places = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(values, places, 2) ** 2


POOLS = {
    "max_pool1d": Case(pooled("max_pool1d", 3, stride=2, padding=1), (normal(1, 2, 7),)),
    "max_pool1d dilation": Case(pooled("max_pool1d", 2, stride=1, dilation=2), (normal(1, 2, 6),)),
    "max_pool2d": Case(pooled("max_pool2d", 2), (normal(1, 2, 4, 5),)),
    "max_pool2d overlap": Case(pooled("max_pool2d", (3, 2), stride=(2, 1), padding=1), (normal(1, 1, 5, 4),)),
    "max_pool2d ceil": Case(pooled("max_pool2d", 2, ceil_mode=True), (normal(1, 1, 5, 3),)),
    "max_pool2d unbatched": Case(pooled("max_pool2d", 2), (normal(2, 4, 4),)),
    "max_pool2d ties": Case(pooled("max_pool2d", 2), (torch.ones(1, 1, 4, 4, dtype=torch.float64),)),
    "max_pool2d indices": Case(with_indices, (normal(1, 2, 4, 4),)),
    "max_pool3d": Case(pooled("max_pool3d", (2, 1, 2), padding=(1, 0, 0)), (normal(1, 1, 3, 2, 4),)),
    "max_unpool2d": Case(unpooled, (normal(1, 1, 4, 4),)),
    "avg_pool1d": Case(pooled("avg_pool1d", 3, stride=2, padding=1), (normal(1, 2, 7),)),
    "avg_pool1d ceil": Case(
        pooled("avg_pool1d", 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
        (normal(1, 2, 6),),
    ),
    "avg_pool2d": Case(pooled("avg_pool2d", 2), (normal(1, 2, 4, 5),)),
    "avg_pool2d padding": Case(
        pooled("avg_pool2d", 3, stride=2, padding=1, count_include_pad=False), (normal(1, 1, 5, 4),)
    ),
    "avg_pool2d ceil": Case(pooled("avg_pool2d", 2, ceil_mode=True), (normal(1, 1, 5, 3),)),
    "avg_pool2d ceil, padding": Case(
        pooled("avg_pool2d", 3, stride=2, padding=1, ceil_mode=True), (normal(1, 1, 6, 4),)
    ),
    "avg_pool2d divisor": Case(pooled("avg_pool2d", 2, divisor_override=3), (normal(2, 4, 4),)),
    "avg_pool3d": Case(pooled("avg_pool3d", 2, stride=1), (normal(1, 1, 3, 2, 3),)),
    "adaptive_avg_pool1d": Case(pooled("adaptive_avg_pool1d", 3), (normal(1, 2, 7),)),
    "adaptive_avg_pool2d": Case(pooled("adaptive_avg_pool2d", (2, None)), (normal(1, 2, 5, 3),)),
    "adaptive_avg_pool2d global": Case(pooled("adaptive_avg_pool2d", 1), (normal(2, 2, 3, 3),)),
    "adaptive_avg_pool3d": Case(pooled("adaptive_avg_pool3d", (2, 1, 2)), (normal(1, 1, 3, 2, 4),)),
    "adaptive_max_pool1d": Case(pooled("adaptive_max_pool1d", 3), (normal(1, 2, 7),)),
    "adaptive_max_pool2d": Case(pooled("adaptive_max_pool2d", (2, 3)), (normal(1, 1, 5, 4),)),
    "adaptive_max_pool3d": Case(pooled("adaptive_max_pool3d", (2, 1, 2)), (normal(1, 1, 3, 2, 4),)),
    "lp_pool1d": Case(pooled("lp_pool1d", 3, 2), (uniform(1, 2, 5),)),
    "lp_pool2d": Case(pooled("lp_pool2d", 2, 2, stride=1), (uniform(1, 1, 3, 3),)),
    "lp_pool3d": Case(pooled("lp_pool3d", 2, 2), (uniform(1, 1, 2, 2, 4),)),
}


def sampled(**options: Any) -> Callable[..., Tensor]:
    """An image at given places, some of them outside, squared."""
    return squared(lambda x, grid: F.grid_sample(x, grid, **{"align_corners": False} | options))


PADDED = {
    "pad": Case(pooled("pad", (1, 2, 0, 1), value=0.5), (normal(2, 3),)),
    "pad negative": Case(pooled("pad", (-1, 2, 1, -2)), (normal(4, 3),)),
    "pad reflect 1d": Case(pooled("pad", (2, 1), mode="reflect"), (normal(2, 4),)),
    "pad reflect 2d": Case(pooled("pad", (2, 1, 1, 0), mode="reflect"), (normal(1, 1, 3, 4),)),
    "pad reflect 3d": Case(pooled("pad", (1, 0, 1, 1, 0, 1), mode="reflect"), (normal(1, 1, 2, 3, 2),)),
    "pad replicate 1d": Case(pooled("pad", (2, 1), mode="replicate"), (normal(2, 3),)),
    "pad replicate 2d": Case(pooled("pad", (2, 1, 1, 0), mode="replicate"), (normal(1, 1, 3, 2),)),
    "pad replicate 3d": Case(pooled("pad", (1, 0, 1, 1, 0, 1), mode="replicate"), (normal(1, 1, 2, 2, 2),)),
    "pad circular": Case(pooled("pad", (2, 1, 1, 0), mode="circular"), (normal(1, 1, 3, 4),)),
    "unfold": Case(pooled("unfold", (2, 3), padding=1, stride=(1, 2)), (normal(1, 2, 3, 4),)),
    "fold": Case(pooled("fold", (4, 4), (2, 2), stride=(2, 1), padding=(0, 1)), (normal(1, 8, 10),)),
    "Tensor.unfold": Case(bent(lambda x: x.unfold(1, 3, 2)), (normal(2, 7),)),
    "pixel_shuffle": Case(pooled("pixel_shuffle", 2), (normal(1, 4, 2, 3),)),
    "pixel_unshuffle": Case(pooled("pixel_unshuffle", 2), (normal(1, 1, 4, 2),)),
    "channel_shuffle": Case(pooled("channel_shuffle", 2), (normal(1, 4, 2, 2),)),
    "interpolate nearest": Case(pooled("interpolate", scale_factor=2), (normal(1, 1, 2, 3),)),
    "interpolate nearest 3d": Case(pooled("interpolate", size=(2, 3, 1)), (normal(1, 1, 2, 2, 2),)),
    "interpolate nearest-exact": Case(
        pooled("interpolate", size=5, mode="nearest-exact"), (normal(1, 1, 3),)
    ),
    "interpolate linear": Case(pooled("interpolate", size=5, mode="linear"), (normal(1, 2, 3),)),
    "interpolate bilinear": Case(
        pooled("interpolate", scale_factor=1.5, mode="bilinear"), (normal(1, 1, 3, 4),)
    ),
    "interpolate bilinear corners": Case(
        pooled("interpolate", size=(4, 3), mode="bilinear", align_corners=True), (normal(1, 1, 3, 2),)
    ),
    "interpolate antialias": Case(
        pooled("interpolate", size=(2, 2), mode="bilinear", antialias=True), (normal(1, 1, 5, 4),)
    ),
    "interpolate bicubic": Case(pooled("interpolate", size=(4, 5), mode="bicubic"), (normal(1, 1, 3, 3),)),
    "interpolate trilinear": Case(
        pooled("interpolate", size=(3, 2, 3), mode="trilinear"), (normal(1, 1, 2, 2, 2),)
    ),
    "interpolate area": Case(pooled("interpolate", size=(2, 3), mode="area"), (normal(1, 1, 4, 5),)),
    "affine_grid": Case(pooled("affine_grid", (2, 1, 2, 3), align_corners=False), (normal(2, 2, 3),)),
    "grid_sample": Case(sampled(align_corners=True), (normal(1, 1, 3, 4), normal(1, 2, 2, 2))),
    "grid_sample border": Case(sampled(padding_mode="border"), (normal(2, 2, 3, 3), normal(2, 1, 3, 2))),
    "grid_sample reflection": Case(
        sampled(padding_mode="reflection"), (normal(1, 1, 3, 3), normal(1, 1, 4, 2) * 3)
    ),
    "grid_sample nearest": Case(sampled(mode="nearest"), (normal(1, 2, 3, 3), normal(1, 1, 3, 2))),
    "grid_sample bicubic": Case(
        sampled(mode="bicubic", align_corners=True), (normal(1, 1, 4, 4), normal(1, 1, 3, 2))
    ),
    "grid_sample bicubic border": Case(
        sampled(mode="bicubic", padding_mode="border"), (normal(1, 1, 3, 4), normal(1, 1, 3, 2))
    ),
    "grid_sample bicubic reflection": Case(
        sampled(mode="bicubic", padding_mode="reflection"), (normal(1, 1, 3, 3), normal(1, 1, 3, 2) * 2)
    ),
    "grid_sample 3d": Case(sampled(), (normal(1, 1, 2, 3, 2), normal(1, 1, 2, 1, 3))),
}


def attended(**options: Any) -> Callable[..., Tensor]:
    """Attention, squared."""
    return squared(lambda *qkv: F.scaled_dot_product_attention(*qkv[:3], *qkv[3:], **options))


_mask = torch.tensor([[True, False, True, True], [True, True, False, True], [False, False, True, False]])
ATTENTION = {
    "attention": Case(attended(), (normal(2, 3, 2), normal(2, 4, 2), normal(2, 4, 3))),
    "attention order 3": Case(attended(), (normal(2, 2), normal(2, 2), normal(2, 1)), 3),
    "attention causal": Case(attended(is_causal=True), (normal(1, 3, 2), normal(1, 3, 2), normal(1, 3, 2))),
    "attention causal, not square": Case(
        attended(is_causal=True), (normal(2, 2), normal(4, 2), normal(4, 2))
    ),
    "attention scale": Case(
        attended(scale=0.3), (normal(1, 2, 3, 2), normal(1, 2, 4, 2), normal(1, 2, 4, 2))
    ),
    "attention boolean mask": Case(attended(), (normal(1, 3, 2), normal(1, 4, 2), normal(1, 4, 2), _mask)),
    "attention known mask": Case(
        squared(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, _mask)),
        (normal(1, 3, 2), normal(1, 4, 2), normal(1, 4, 2)),
    ),
    "attention added mask": Case(attended(), (normal(3, 2), normal(4, 2), normal(4, 2), normal(3, 4))),
    "attention row without keys": Case(
        attended(), (normal(2, 2), normal(3, 2), normal(3, 2), torch.tensor([[False] * 3, [True] * 3]))
    ),
    "attention groups": Case(
        attended(enable_gqa=True), (normal(1, 4, 2, 2), normal(1, 2, 3, 2), normal(1, 2, 3, 2))
    ),
}


def applied(
    module: nn.Module, *names: str, result: Callable[[Any], Tensor] = lambda y: y
) -> Callable[..., Tensor]:
    """A module as a function of some of its parameters and its input, squared."""

    def function(*arguments: Any) -> Tensor:
        chosen = dict(zip(names, arguments[: len(names)], strict=True))
        found = result(functional_call(module, chosen, arguments[len(names) :]))
        return (found * found).sum() + found.sum()

    return function


def module_case(
    module: nn.Module,
    names: Sequence[str],
    *inputs: Tensor,
    order: int = 2,
    result: Callable[[Any], Tensor] = lambda y: y,
) -> Case:
    """The derivatives of a module by its inputs and parameters with these names."""
    module = module.double()
    generator = torch.Generator().manual_seed(3)
    for parameter in module.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    parameters = dict(module.named_parameters())
    values = tuple(parameters[name].detach().clone() for name in names)
    return Case(applied(module, *names, result=result), (*values, *inputs), order)


def first(results: Any) -> Tensor:
    """The first of several results."""
    return results[0]  # type: ignore[no-any-return]


def all_of(results: Any) -> Tensor:
    """All results as one vector."""
    return torch.cat([leaf.flatten() for leaf in optree.tree_leaves(results)])  # type: ignore[arg-type]


CELLS = {
    "RNNCell": module_case(nn.RNNCell(2, 2), ["weight_hh"], normal(2, 2), normal(2, 2), order=3),
    "RNNCell relu": module_case(
        nn.RNNCell(2, 2, nonlinearity="relu"), ["weight_ih", "bias_hh"], normal(2, 2), normal(2, 2)
    ),
    "LSTMCell": module_case(nn.LSTMCell(2, 2), ["weight_ih", "bias_ih"], normal(1, 2), result=all_of),
    "GRUCell": module_case(nn.GRUCell(2, 2), ["weight_hh", "bias_hh"], normal(2), normal(2)),
    "RNN": module_case(nn.RNN(2, 2, batch_first=True), ["weight_hh_l0"], normal(1, 3, 2), result=first),
    "RNN relu": module_case(nn.RNN(2, 2, nonlinearity="relu"), ["weight_ih_l0"], normal(3, 2), result=first),
    "LSTM": module_case(nn.LSTM(2, 1), ["weight_hh_l0", "bias_ih_l0"], normal(2, 1, 2), result=all_of),
    "LSTM unbatched": module_case(nn.LSTM(2, 1), [], normal(2, 2), result=first),
    "LSTM two layers": module_case(
        nn.LSTM(1, 1, 2, bidirectional=True), ["weight_ih_l1"], normal(2, 1, 1), result=first
    ),
    "LSTM projected": module_case(
        nn.LSTM(2, 2, proj_size=1), ["weight_hr_l0"], normal(2, 1, 2), result=first
    ),
    "GRU": module_case(nn.GRU(2, 1, batch_first=True), ["weight_ih_l0"], normal(1, 2, 2), result=first),
    "GRU both ways": module_case(nn.GRU(1, 1, bidirectional=True), [], normal(3, 1, 1), result=all_of),
}


def attention_case(
    names: Sequence[str], *inputs: Tensor, result: Callable[[Any], Tensor] = all_of, **options: Any
) -> Case:
    """MultiheadAttention of one argument or three, and what it is called with."""
    module = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    case = module_case(module, names, *inputs, result=result)

    def function(*arguments: Any) -> Tensor:
        chosen = dict(zip(names, arguments[: len(names)], strict=True))
        given = arguments[len(names) :]
        given = (*given, *given[-1:] * (3 - len(given)))
        found = result(functional_call(module, chosen, given, options))
        return (found * found).sum() + found.sum()

    return case._replace(function=function)


LAYERS = {
    "MultiheadAttention": attention_case(["in_proj_weight"], normal(1, 3, 4)),
    "MultiheadAttention without weights": attention_case(
        ["out_proj.weight", "in_proj_bias"], normal(1, 3, 4), need_weights=False, result=first
    ),
    "MultiheadAttention of three": attention_case([], normal(1, 2, 4), normal(1, 3, 4), normal(1, 3, 4)),
    "MultiheadAttention causal": attention_case(
        [],
        normal(1, 3, 4),
        attn_mask=torch.ones(3, 3).triu(1).bool(),
        is_causal=True,
        need_weights=False,
        result=first,
    ),
    "MultiheadAttention padding": attention_case(
        [], normal(2, 3, 4), key_padding_mask=torch.tensor([[False, False, True], [False, True, False]])
    ),
    "TransformerEncoderLayer": module_case(
        nn.TransformerEncoderLayer(4, 2, 3, batch_first=True).eval(), ["linear1.weight"], normal(1, 2, 4)
    ),
    "TransformerEncoderLayer norm first": module_case(
        nn.TransformerEncoderLayer(4, 1, 3, norm_first=True, activation="gelu", dropout=0.0),
        ["self_attn.in_proj_bias"],
        normal(2, 1, 4),
    ),
    "TransformerDecoderLayer": module_case(
        nn.TransformerDecoderLayer(2, 1, 3, dropout=0.0), ["linear2.weight"], normal(2, 1, 2), normal(2, 1, 2)
    ),
    "Embedding": module_case(nn.Embedding(3, 2, padding_idx=1), ["weight"], integers(0, 1, 2, 0)),
    "Conv2d circular": module_case(
        nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), ["weight", "bias"], normal(1, 1, 3, 4)
    ),
    "Conv1d reflect": module_case(
        nn.Conv1d(1, 2, 3, padding=2, padding_mode="reflect"), ["weight"], normal(1, 1, 5)
    ),
    "ConvTranspose2d": module_case(
        nn.ConvTranspose2d(1, 2, 2, stride=2), ["weight", "bias"], normal(1, 1, 2, 3)
    ),
    "Bilinear": module_case(nn.Bilinear(2, 3, 2), ["weight"], normal(2, 2), normal(2, 3)),
}

CASES: dict[str, Case] = CONVOLUTIONS | POOLS | PADDED | ATTENTION | CELLS | LAYERS
