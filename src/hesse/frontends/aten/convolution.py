"""Convolutions, windows and padding of ATen: views and a contraction, whose derivatives keep the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hesse.frontends.aten.table import aten, enter
from hesse.frontends.expression import Expression
from hesse.frontends.operands import as_node
from hesse.frontends.windows import correlated, padded, windows
from hesse.ir import combine, place, plain_axes, view
from hesse.ops.structural import unfold as unfold_node


def each(value: Any, rank: int) -> tuple[int, ...]:
    """A setting for each of the axes, where one may stand for all."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * rank if len(values) == 1 else values


def _with_bias(result: Any, bias: Any) -> Any:
    return result if bias is None else np.add(result, np.reshape(bias, (-1, *(1,) * (result.ndim - 2))))


def _same(kernel: Sequence[int], dilation: Sequence[int]) -> list[tuple[int, int]]:
    """Margins with which a result is as large as the operand."""
    totals = [gap * (size - 1) for gap, size in zip(dilation, kernel, strict=True)]
    return [(total // 2, total - total // 2) for total in totals]


@aten("conv1d", "conv2d", "conv3d")
def convolution(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """A kernel at all places of an image, as a correlation."""
    rank = weight.ndim - 2
    if x.ndim == rank + 1:
        return convolution(x[None], weight, bias, stride, padding, dilation, groups)[0]
    kernel, stride, dilation = weight.shape[2:], each(stride, rank), each(dilation, rank)
    if padding == "valid":
        padding = 0
    widths = _same(kernel, dilation) if padding == "same" else [(n, n) for n in each(padding, rank)]
    return _with_bias(correlated(padded(x, widths), weight, stride, dilation, groups), bias)


@aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed_convolution(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The transpose of a convolution: entries are set apart, and the kernel runs backwards over them."""
    rank = weight.ndim - 2
    if x.ndim == rank + 1:
        options = stride, padding, output_padding, groups, dilation
        return transposed_convolution(x[None], weight, bias, *options)[0]
    steps, dilation = each(stride, rank), each(dilation, rank)
    spread = [step * (size - 1) + 1 for step, size in zip(steps, x.shape[2:], strict=True)]
    apart = place(as_node(x), (*x.shape[:2], *spread), [0] * x.ndim, [1, 1, *steps])
    settings = zip(weight.shape[2:], dilation, each(padding, rank), each(output_padding, rank), strict=True)
    widths = [(gap * (size - 1) - cut, gap * (size - 1) - cut + extra) for size, gap, cut, extra in settings]
    inputs, outputs = weight.shape[:2]
    kernel = np.reshape(weight, (groups, inputs // groups, *weight.shape[1:]))
    kernel = np.flip(np.swapaxes(kernel, 1, 2), tuple(range(3, 3 + rank)))
    kernel = np.reshape(kernel, (groups * outputs, inputs // groups, *weight.shape[2:]))
    result = correlated(padded(Expression(apart), widths), kernel, (1,) * rank, dilation, groups)
    return _with_bias(result, bias)


@aten("convolution")
def any_convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    """A convolution or a transposed one."""
    if transposed:
        return transposed_convolution(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return convolution(x, weight, bias, stride, padding, dilation, groups)


@aten("unfold")
def unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    """Windows along an axis."""
    return Expression(unfold_node(as_node(x), dimension, size, step))


@aten("im2col")
def im2col(x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Windows of images as columns."""
    seen = windows(padded(x, [(n, n) for n in padding]), kernel, stride, dilation)
    columns = np.moveaxis(seen, (-2, -1), (-4, -3))
    count = int(np.prod(seen.shape[-4:-2]))
    return np.reshape(columns, (*x.shape[:-3], x.shape[-3] * int(np.prod(kernel)), count))


@aten("col2im")
def col2im(x: Any, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Windows added up at their places in images."""
    total = [n + 2 * margin for n, margin in zip(size, padding, strict=True)]
    settings = zip(total, kernel, dilation, stride, strict=True)
    counts = [(n - gap * (width - 1) - 1) // step + 1 for n, width, gap, step in settings]
    lead, channels = x.shape[:-2], x.shape[-2] // int(np.prod(kernel))
    shape = (*lead, channels, *kernel, *counts)
    axes = plain_axes(len(shape))
    u, v, i, j = axes[-4:]
    output = [
        *axes[:-4],
        combine([(dilation[0], u), (stride[0], i)]),
        combine([(dilation[1], v), (stride[1], j)]),
    ]
    found = view(as_node(np.reshape(x, shape)), axes, output, (*lead, channels, *total), shape)
    return padded(Expression(found), [(-n, -n) for n in padding])


def _pairs(pad: Sequence[int]) -> list[tuple[int, int]]:
    """PyTorch's widths of margins, which begin with the last axis, in the order of the axes."""
    return [(pad[k], pad[k + 1]) for k in range(len(pad) - 2, -1, -2)]


@aten("constant_pad_nd")
def constant_pad(x: Any, pad: Sequence[int], value: float = 0) -> Any:
    """Margins of one number."""
    return padded(x, _pairs(pad), value)


def _repeated(mode: Any) -> Any:
    """Margins of entries repeated by one of NumPy's modes."""

    def handler(x: Any, pad: Sequence[int]) -> Any:
        widths = _pairs(pad)
        if min(pad) < 0:
            return NotImplemented
        return np.pad(x, [(0, 0)] * (x.ndim - len(widths)) + widths, mode=mode)

    return handler


for _rank in (1, 2, 3):
    enter([f"reflection_pad{_rank}d"], _repeated("reflect"))
    enter([f"replication_pad{_rank}d"], _repeated("edge"))
enter(["_pad_circular"], _repeated("wrap"))
