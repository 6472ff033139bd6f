"""Nodes of autograd whose operations are put together in their own way."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hesse.errors import DifferentiationError
from hesse.frontends.aten.graph_data import BESIDE_DATA
from hesse.frontends.aten.graph_linalg import LINALG
from hesse.frontends.aten.graph_nodes import CHOSEN, ROWS, Row, node_name
from hesse.frontends.aten.graph_parts import WAYS_OUT, Call, Edge, Unknown, edges_of, saved_values

if TYPE_CHECKING:
    from hesse.frontends.aten.graph import Walk


def _copied_slices(walk: Walk, node: Any) -> Call:
    raise DifferentiationError(
        "a part of a tensor was changed in place (x[0] = …), and autograd's node for that (CopySlices) does "
        f"not tell how. {WAYS_OUT}; or build the tensor with torch.where, torch.cat or torch.stack"
    )


def _chosen(walk: Walk, node: Any) -> Call:
    """Entries along an axis, at places that were kept."""
    saved = saved_values(node)
    dim, indices = saved["dim"], saved["indices"]
    (edge,) = edges_of(node)
    operand = walk.operand(node, saved.get("self"), edge)
    is_shifted = walk.is_shifted(operand)
    rank = len(walk.shape(operand))
    is_kept = saved.get("keepdim", True)
    if not is_kept and rank:
        indices = indices.unsqueeze(dim)
    call = Call(torch.ops.aten.gather.default, [operand, dim, indices], {}, is_shifted)
    if is_kept or not rank:
        return call
    return Call(torch.ops.aten.squeeze.dim, [walk.inner(call), dim], {}, is_shifted)


def _plus_product(walk: Walk, node: Any) -> Call:
    """A tensor plus a product; of a product of constants autograd keeps nothing, not even the shapes."""
    summand, *factors = edges_of(node)
    if any(edge is not None for edge in factors):
        return walk.called(node, ROWS[node_name(node)])
    aten, shape = torch.ops.aten, list(node._input_metadata[0].shape)
    operand = walk.operand(node, None, summand)
    scaled = walk.inner(Call(aten.mul.Scalar, [operand, node._saved_beta], {}, walk.is_shifted(operand)))
    return Call(aten.expand.default, [scaled, shape], {}, True)


def _indexed(walk: Walk, node: Any) -> Call:
    """Entries at places, or a tensor with others there; masks as the places where they hold."""
    places: list[Any] = []
    for index in saved_values(node)["indices"]:
        is_mask = isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)
        places += index.nonzero(as_tuple=True) if is_mask else [index]
    return walk.called(node, ROWS[node_name(node)], indices=places)


def _packed_sequence(walk: Walk, node: Any) -> Call:
    """Entries of sequences by steps; how many sequences have each step was kept."""
    saved, (edge,) = saved_values(node), edges_of(node)
    operand, counts = walk.operand(node, None, edge), saved["result1"]
    steps = torch.repeat_interleave(counts)
    which = torch.cat([torch.arange(int(count)) for count in counts])
    places = [which, steps] if saved["batch_first"] else [steps, which]
    return Call(torch.ops.aten.index.Tensor, [operand, places], {}, walk.is_shifted(operand))


def _masked(walk: Walk, node: Any) -> Call:
    """Entries where a mask holds."""
    saved = saved_values(node)
    (edge,) = edges_of(node)
    operand = walk.operand(node, saved["self"], edge)
    shape = torch.broadcast_shapes(saved["self"].shape, saved["mask"].shape) or (1,)
    whole = walk.inner(Call(torch.ops.aten.expand.default, [operand, list(shape)], {}, False))
    places = list(saved["mask"].broadcast_to(shape).nonzero(as_tuple=True))
    return Call(torch.ops.aten.index.Tensor, [whole, places], {}, False)


def _scattered(walk: Walk, node: Any) -> Call:
    """A tensor with the first entries of another one where a mask holds."""
    target, source = (walk.operand(node, None, edge) for edge in edges_of(node))
    shape = tuple(node._input_metadata[0].shape)
    places = list(node._saved_mask.broadcast_to(shape).nonzero(as_tuple=True))
    count = len(places[0]) if places else 1
    is_shifted = any(isinstance(part, Unknown) or walk.is_shifted(part) for part in (target, source))
    aten = torch.ops.aten
    if isinstance(target, Unknown):
        target = Unknown(shape)
    else:
        target = walk.inner(Call(aten.expand.default, [target, list(shape)], {}, is_shifted))
    if isinstance(source, Unknown):
        entries: Any = Unknown((count,))
    else:
        flat = walk.inner(Call(aten.reshape.default, [source, [-1]], {}, is_shifted))
        entries = walk.inner(Call(aten.slice.Tensor, [flat, 0, 0, count], {}, is_shifted))
    return Call(aten.index_put.default, [target, places, entries], {}, is_shifted)


def _layer_norm(walk: Walk, node: Any) -> Call:
    """Layer norm; what is added to the variance follows from what was kept of it."""
    x, deviation = node._saved_input.detach().double(), node._saved_result2.double()
    axes = tuple(range(-len(node._saved_normalized_shape), 0))
    row = Row(torch.ops.aten.layer_norm.default, ("input", "weight", "bias"))
    if not x.numel():
        return walk.called(node, row, eps=0.0)
    variances = x.var(axes, correction=0, keepdim=True)
    least = int(variances.argmin())
    found = float(deviation.flatten()[least] ** -2 - variances.flatten()[least])
    plain = float(f"{found:.1e}")
    noise = 32 * torch.finfo(node._saved_input.dtype).eps * float(variances.flatten()[least])
    eps = plain if abs(plain - found) <= noise + 1e-3 * abs(found) else found
    return walk.called(node, row, eps=eps)


def _leaky(walk: Walk, node: Any) -> Call:
    """`rrelu`: in training mode a product with slopes that were kept, else with the mean of their bounds."""
    saved, (edge,) = saved_values(node), edges_of(node)
    operand = walk.operand(node, saved["self"], edge)
    if saved["training"]:
        return Call(torch.ops.aten.mul.Tensor, [operand, saved["noise"]], {}, False)
    slope = (saved["lower"] + saved["upper"]) / 2
    return Call(torch.ops.aten.leaky_relu.default, [operand, slope], {}, False)


def _block_diagonal(walk: Walk, node: Any) -> Call:
    """Matrices along a diagonal; the sizes of constant ones were not kept."""
    operands = [walk.operand(node, None, edge) for edge in edges_of(node)]
    if any(isinstance(operand, Unknown) for operand in operands):
        raise DifferentiationError(
            f"torch.block_diag has constant blocks, whose sizes autograd does not tell. {WAYS_OUT}"
        )
    is_shifted = any(walk.is_shifted(operand) for operand in operands)
    return Call(torch.ops.aten.block_diag.default, [operands], {}, is_shifted)


def _strided(walk: Walk, node: Any) -> Call:
    """Entries by steps in memory: of a leaf or after padding; autograd does not tell how others lie there."""
    saved, (edge,) = saved_values(node), edges_of(node)
    if edge is None or not _is_in_order(edge.node):
        raise DifferentiationError(
            "as_strided reads the memory of a tensor, and autograd does not tell how that lies there, "
            f"unless it is a contiguous leaf or was just padded. Use slices or Tensor.unfold. {WAYS_OUT}"
        )
    operand = walk.operand(node, None, edge)
    places = [saved[name] for name in ("size", "stride", "storage_offset")]
    return Call(torch.ops.aten.as_strided.default, [operand, *places], {}, walk.is_shifted(operand))


def _is_in_order(node: Any) -> bool:
    """Whether a result is certain to lie in memory in the order of its axes, and alone."""
    while node_name(node) in SAME_MEMORY:
        node = node.next_functions[0][0]
    leaf = getattr(node, "variable", None)
    if leaf is not None:
        return bool(leaf.is_contiguous() and not leaf.storage_offset())
    return node_name(node) in PADDED and len(node._input_metadata[0].shape) < 4


SAME_MEMORY = frozenset({"SqueezeBackward1", "UnsqueezeBackward0", "ViewBackward0"})
"""Nodes of views that show all entries in the order in which they lie in memory."""
PADDED = frozenset({"ConstantPadNdBackward0", "ReflectionPad1DBackward0", "ReplicationPad1DBackward0"})
"""Nodes of operations whose results of less than four axes are new and in order."""


def _cat(walk: Walk, node: Any) -> Call:
    """Tensors one after the other; the size of a constant part is what the others leave."""
    shape, dim = list(node._input_metadata[0].shape), saved_values(node)["dim"]
    parts: list[Any] = []
    for edge in edges_of(node):
        if edge is not None:
            parts.append(walk.operand(node, None, edge))
        elif not parts or parts[-1] is not None:
            parts.append(None)
    edges = [part for part in parts if part is not None]
    shapes = [walk.shape(edge) for edge in edges]
    missing = shape[dim] - sum(found[dim] for found in shapes if len(found) == len(shape))
    if parts.count(None) > 1 and missing:
        raise DifferentiationError(
            f"torch.cat has several constant parts, whose sizes autograd does not tell. {WAYS_OUT}"
        )
    shape[dim] = missing
    tensors = [Unknown(tuple(shape)) if part is None else part for part in parts]
    is_shifted = len(edges) < len(parts) or any(walk.is_shifted(edge) for edge in edges)
    return Call(torch.ops.aten.cat.default, [tensors, dim], {}, is_shifted)


def _dropped(walk: Walk, node: Any) -> Call:
    """Dropout: a product with a mask that was kept."""
    (edge,) = edges_of(node)
    operand = walk.operand(node, None, edge)
    scale = 0.0 if node._saved_p == 1 else 1 / (1 - node._saved_p)
    mask = node._saved_result1.to(node._input_metadata[0].dtype) * scale
    return Call(torch.ops.aten.mul.Tensor, [operand, mask], {}, walk.is_shifted(operand))


def _transformed_back(walk: Walk, node: Any) -> Call:
    """A Fourier transform to real numbers; how many there are is seen from the result."""
    size = node._input_metadata[0].shape[saved_values(node)["dim"][-1]]
    row = Row(torch.ops.aten._fft_c2r.default, ("self",))
    return walk.called(node, row, last_dim_size=int(size))


def _polar(walk: Walk, node: Any) -> Call:
    """Complex numbers of sizes and angles; constant ones follow from the result."""
    result = saved_values(node)["result"].detach()
    parts = zip(edges_of(node), (result.abs(), result.angle()), strict=True)
    operands = [walk.operand(node, part, edge) for edge, part in parts]
    return Call(torch.ops.aten.polar.default, operands, {}, False)


def _placed(shape: list[int], count: int, values: Tensor, places: Tensor) -> Tensor:
    zeros = values.new_zeros([*shape[:-count], math.prod(shape[-count:])])
    return zeros.scatter(-1, places.flatten(-count), values.flatten(-count)).reshape(shape)


def _unpooled(walk: Walk, node: Any) -> Call:
    """Values at places of an image of zeros."""
    (edge,) = edges_of(node)
    place = functools.partial(_placed, list(node._input_metadata[0].shape), 3)
    operand = walk.operand(node, None, edge)
    return Call(place, [operand, node._saved_indices], {}, walk.is_shifted(operand))


def _picked(count: int, values: Tensor, places: Tensor) -> Tensor:
    return values.flatten(-count).gather(-1, places.flatten(-count)).reshape(places.shape)


def _pooled(walk: Walk, node: Any) -> Call:
    """Entries of an image at places that were kept, those of the maxima."""
    saved, (edge,) = saved_values(node), edges_of(node)
    operand = walk.operand(node, saved["self"], edge)
    pick = functools.partial(_picked, 3 if "3D" in node_name(node) else 2)
    return Call(pick, [operand, saved["result1"]], {}, False)


def _largest(weight: Tensor, places: Tensor, is_empty: Tensor) -> Tensor:
    return torch.where(is_empty, 0.0, weight.gather(0, places))


def _summed(
    count: int, weight: Tensor, weights: Tensor, indices: Tensor, bags: Tensor, sizes: Tensor
) -> Tensor:
    rows = weight[indices] * weights[:, None]
    return rows.new_zeros([count, rows.shape[1]]).index_add(0, bags, rows) / sizes


def _bags(walk: Walk, node: Any) -> Call:
    """Sums, means or maxima of rows of a table, by the numbers of the bags that they go to."""
    saved, (table, given) = saved_values(node), (*edges_of(node), None)[:2]
    indices, offsets, mode = saved["indices"], saved["offsets"], saved["mode"]
    count = int(node._input_metadata[0].shape[0])
    operand = walk.operand(node, saved["weight"], table)
    if isinstance(operand, Unknown):
        raise DifferentiationError(f"the constant table of an embedding_bag was not kept. {WAYS_OUT}")
    bags = torch.searchsorted(offsets, torch.arange(len(indices), device=offsets.device), right=True) - 1
    is_counted = indices != saved["padding_idx"]
    sizes = torch.zeros_like(offsets, dtype=torch.int64).index_add(0, bags, is_counted.long())[:count, None]
    is_shifted = isinstance(operand, Edge) and walk.is_shifted(operand)
    if mode == MAXIMA:
        places = saved["result3"].clamp(min=0)
        return Call(functools.partial(_largest), [operand, places, sizes == 0], {}, is_shifted)
    dtype = node._input_metadata[0].dtype
    weights = is_counted.to(dtype)
    if given is not None or saved["per_sample_weights"] is not None:
        weights = walk.operand(node, saved["per_sample_weights"], given)
        if not bool(is_counted.all()):
            raise DifferentiationError(f"an embedding_bag with padding and weights is not known. {WAYS_OUT}")
    divisors = (sizes.clamp(min=1) if mode == MEANS else torch.ones_like(sizes)).to(dtype)
    sum_up = functools.partial(_summed, count)
    return Call(sum_up, [operand, weights, indices, bags, divisors], {}, is_shifted)


MEANS, MAXIMA = 1, 2
"""Modes of `embedding_bag`."""

SPECIAL: dict[str, Callable[[Walk, Any], Call]] = {
    **LINALG,
    **BESIDE_DATA,
    **dict.fromkeys(CHOSEN, _chosen),
    **dict.fromkeys(
        ("AddbmmBackward0", "AddmmBackward0", "AddmvBackward0", "AddrBackward0", "BaddbmmBackward0"),
        _plus_product,
    ),
    "AsStridedBackward0": _strided,
    "BlockDiagBackward0": _block_diagonal,
    "CatBackward0": _cat,
    "CopySlices": _copied_slices,
    "EmbeddingBagBackward0": _bags,
    "FftC2RBackward0": _transformed_back,
    "FractionalMaxPool2DBackward0": _pooled,
    "FractionalMaxPool3DBackward0": _pooled,
    "IndexBackward0": _indexed,
    "IndexPutBackward0": _indexed,
    "MaskedScatterBackward0": _scattered,
    "MaskedSelectBackward0": _masked,
    "MaxUnpool3DBackward0": _unpooled,
    "NativeDropoutBackward0": _dropped,
    "NativeLayerNormBackward0": _layer_norm,
    "PackPaddedSequenceBackward0": _packed_sequence,
    "PolarBackward0": _polar,
    "RreluWithNoiseBackward0": _leaky,
    "UnsafeIndexBackward0": _indexed,
    "UnsafeIndexPutBackward0": _indexed,
}
"""Nodes that are put together in their own way."""
