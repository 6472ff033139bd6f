"""Nodes of autograd of operations beside data, of which they keep nothing but results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hesse.frontends.aten.graph_nodes import ROWS, node_name
from hesse.frontends.aten.graph_parts import Call, Unknown, edges_of, saved_values

if TYPE_CHECKING:
    from hesse.frontends.aten.graph import Walk


def _up_to_a_constant(walk: Walk, node: Any) -> Call:
    """The operand, from which a constant is subtracted: `x % 2`."""
    (edge,) = edges_of(node)
    return _same(walk, node, edge)


def _overwritten(walk: Walk, node: Any) -> Call:
    """What was copied into a tensor, of which nothing is left."""
    before, source = edges_of(node)
    operand = walk.operand(node, None, before if source is None else source)
    if source is None:  # a constant, which was not kept
        return Call(torch.ops.aten.zeros_like.default, [operand], {}, True)
    return Call(torch.ops.aten.clone.default, [operand], {}, walk.is_shifted(operand))


def _signed(walk: Walk, node: Any) -> Call:
    """Numbers with the sign of others, which the results have; these do not depend smoothly on it."""
    saved, edge = saved_values(node), edges_of(node)[0]
    result = saved["result"].detach()
    operand = result if edge is None else walk.operand(node, saved["self"], edge)
    return Call(torch.ops.aten.copysign.Tensor, [operand, result], {}, False)


def _added_to(walk: Walk, node: Any) -> Call:
    """A tensor with something added, such as a multiple of a divisor; what is constant was not kept."""
    before, other = edges_of(node)
    return walk.called(node, ROWS[node_name(node)]) if other is not None else _same(walk, node, before)


def _same(walk: Walk, node: Any, edge: Any) -> Call:
    return Call(torch.ops.aten.clone.default, [walk.operand(node, None, edge)], {}, True)


def _written(walk: Walk, node: Any) -> Call:
    """A tensor with others at places; of constant ones nothing was kept, but their shape is known."""
    name = node_name(node)
    call = walk.called(node, ROWS[name])
    whole = torch.empty(node._input_metadata[0].shape, device="meta")
    shape = tuple(WRITTEN[name](whole, **saved_values(node)).shape)
    names = [argument.name for argument in ROWS[name].operation._schema.arguments]
    at = names.index(ROWS[name].operands[1])
    arguments = [
        Unknown(shape) if k == at and isinstance(value, Unknown) else value
        for k, value in enumerate(call.arguments)
    ]
    return call._replace(arguments=arguments)


def _times_power(walk: Walk, node: Any) -> Call:
    """A number times a power of two; a constant number was not kept, but it follows from the result."""
    saved, (number, power) = saved_values(node), edges_of(node)
    result = saved["result"].detach()
    if number is None and power is not None:  # a constant that was added to the power is a factor, too
        return Call(torch.ops.aten.ldexp.Tensor, [result / walk.number(power).exp2(), power], {}, False)
    whole = result / saved["other"].detach().exp2()
    operands = [walk.operand(node, whole, number), walk.operand(node, saved["other"], power)]
    return Call(torch.ops.aten.ldexp.Tensor, operands, {}, False)


def _hypotenuse(walk: Walk, node: Any) -> Call:
    """The hypotenuse of two sides; a constant one is not kept, but it follows from the others."""
    saved, edges = saved_values(node), edges_of(node)
    kept = saved["self"], saved["other"]
    sides = [walk.operand(node, side, edge) for side, edge in zip(kept, edges, strict=True)]
    if None in edges:
        known, result = kept[1 - edges.index(None)].detach().abs(), saved["result"].detach()
        sides[edges.index(None)] = ((result - known) * (result + known)).clamp(min=0).sqrt()
    return Call(torch.ops.aten.hypot.default, sides, {}, False)


WRITTEN: dict[str, Callable[..., Tensor]] = {
    "DiagonalScatterBackward0": lambda whole, dim1, dim2, offset, **_: whole.diagonal(offset, dim1, dim2),
    "IndexCopyBackward0": lambda whole, dim, index, **_: whole.narrow(dim, 0, 1).expand(
        *whole.shape[: dim % whole.ndim], index.numel(), *whole.shape[dim % whole.ndim + 1 :]
    ),
    "PutBackward0": lambda whole, index, **_: index,
    "ScatterBackward0": lambda whole, index, **_: index,
    "SelectScatterBackward0": lambda whole, dim, index, **_: whole.select(dim, index),
    "SliceScatterBackward0": lambda whole, dim, start, end, step, **_: torch.ops.aten.slice.Tensor(
        whole, dim, start, end, step
    ),
}
"""Nodes that write to places: what is written, by the tensor that holds it and what was kept."""

BESIDE_DATA: dict[str, Callable[[Walk, Any], Call]] = {
    **dict.fromkeys(WRITTEN, _written),
    **dict.fromkeys(("CopysignBackward0", "CopysignBackward1"), _signed),
    **dict.fromkeys(("FmodBackward0", "RemainderBackward0"), _up_to_a_constant),
    **dict.fromkeys(
        ("FmodBackward1", "IndexAddBackward0", "RemainderBackward1", "ScatterAddBackward0"), _added_to
    ),
    "CopyBackwards": _overwritten,
    "HypotBackward0": _hypotenuse,
    "LdexpBackward0": _times_power,
}
"""Nodes that are put together in their own way, with what is known of the data."""
