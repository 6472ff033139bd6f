"""Laws of softmax, log_softmax and logsumexp: what is constant along their axis does not matter to them.

Careful authors subtract the maximum before they exponentiate. The kernels do that themselves, so it is taken
away here, through views, products and unit axes, and never differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from hesse.ir import (
    Add,
    Apply,
    Axis,
    Constant,
    Einsum,
    Node,
    Product,
    Variable,
    add,
    combine,
    core_and_pattern,
    einsum_of,
    first_labels,
    is_sparse,
    is_zero,
    label_axis,
    labels_of,
    number,
    plain_axes,
    remembered,
    reshape,
    size_product,
    topological,
    view,
    zero,
)
from hesse.ops.registry import operation
from hesse.rewrite.rules import Head, Rule

MOST_LEVELS, MOST_TERMS = 4, 32
"""How deep in sums and products, and in sums of how many terms, a shift is looked for."""


def normalised(name: str, x: Node) -> Node:
    """`softmax`, `log_softmax` or `logsumexp` of the last axis in the form that all spellings of it share."""
    node = operation(name, x)
    for rule in NORMALISATION_RULES:
        found = rule(node)
        node = node if found is None else found
    return node


def _operand(node: Node, *names: str) -> Node | None:
    """`x` if the node is one of these operations on x."""
    return node.operands[0] if isinstance(node, Apply) and node.name in names else None


def shift_of_softmax(node: Node) -> Node | None:
    """softmax(x + c) = softmax(x), for c constant along the axis; the same for log_softmax."""
    x = _operand(node, "softmax", "log_softmax")
    if x is None:
        return None
    rest, shifts = _without_shifts(x)
    if not shifts or is_zero(rest):
        return None
    assert isinstance(node, Apply)
    return operation(node.name, rest)


def other_axes_of_softmax(node: Node) -> Node | None:
    """softmax(x[:, None]) = softmax(x)[:, None], for the axes before the last one.

    Those of size one, those along which x only repeats and the order of the others are left to a view; the
    same for log_softmax and logsumexp.
    """
    x = _operand(node, "softmax", "log_softmax", "logsumexp")
    kept = None if x is None else _batch(x)
    if x is None or kept == list(range(x.rank - 1)):
        return None
    assert isinstance(node, Apply)
    assert kept is not None
    product = x.product
    repeated = {product.output[k].label for k in range(x.rank - 1) if _repeats(x, {k})}
    chosen = [*kept, x.rank - 1]
    inside = product._replace(output=tuple(product.output[k] for k in chosen)).without(repeated)
    result = operation(node.name, einsum_of(inside, tuple(x.shape[k] for k in chosen)))
    read = [label_axis(k) for k in chosen[: result.rank]]
    return view(result, read, plain_axes(node.rank), node.shape, node.shape)


def _batch(x: Node) -> list[int]:
    """The axes before the last one that matter, in the order of the core of x."""
    kept = [k for k in range(x.rank - 1) if x.shape[k] != 1 and not _repeats(x, {k})]
    if isinstance(x, Einsum) and not is_sparse(x) and all(x.output[k].is_label for k in kept):
        _, pattern = core_and_pattern(x)
        order = first_labels(pattern.axes[0])
        kept.sort(key=lambda k: order.index(pattern.output[k].label))
    return kept


def shift_beside_logsumexp(node: Node) -> Node | None:
    """logsumexp(x + c) - c = logsumexp(x), for c constant along the axis.

    A shift that nothing around takes back stays where it is: the sum x + c may have small entries where x and
    c have large ones.
    """
    for term in node.operands if isinstance(node, Add) else ():
        if isinstance(term, Einsum) and len(term.operands) == 1:  # terms that repeat alike are added first
            inner = _taken_back(term.operands[0])
            if inner is not None:
                return _replaced(node, [term], einsum_of(term.product.with_operand(0, inner), node.shape))
    return _taken_back(node)


def _taken_back(node: Node) -> Node | None:
    """The sum without the shift of a logsumexp among its terms, if it has no more terms then."""
    for term in node.operands if isinstance(node, Add) else ():
        terms = _without_shift(term)
        if terms:
            whole = _replaced(node, [term], *terms)
            if not isinstance(whole, Add) or len(whole.operands) <= len(node.operands):
                return whole
    return None


def _replaced(node: Node, gone: Collection[Node], *new: Node) -> Node:
    """The sum with other terms instead of some."""
    return add([*(term for term in node.operands if term not in gone), *new], node.shape)


def _without_shift(term: Node) -> list[Node]:
    """The terms of a product with `logsumexp(x + c)`, multiplied out into `logsumexp(x)` and c."""
    for k, operand in enumerate(_factors(term)):
        x = _operand(operand, "logsumexp")
        if x is None:
            continue
        product = term.product
        rest, shifts = _without_shifts(x)
        if shifts and not is_zero(rest):
            parts = [normalised("logsumexp", rest), *map(_without_last_axis, shifts)]
            return [einsum_of(product.with_operand(k, part), term.shape) for part in parts]
    return []


def _factors(term: Node) -> tuple[Node, ...]:
    """The tensors that a term of a sum is a product of."""
    return term.operands if isinstance(term, Einsum) else (term,)


def _without_last_axis(node: Node) -> Node:
    """One entry along the last axis, along which all are the same."""
    product = node.product
    inside = product._replace(output=product.output[:-1]).without(labels_of(product.output[-1:]))
    return einsum_of(inside, node.shape[:-1])


def difference_from_logsumexp(node: Node) -> Node | None:
    """x - logsumexp(x) = log_softmax(x)."""
    for term in node.operands if isinstance(node, Add) else ():
        for x, product in _readings(term):
            whole = einsum_of(product, node.shape)
            expected = (
                (whole,) if whole in node.operands else whole.operands if isinstance(whole, Add) else ()
            )
            if expected and set(expected) <= set(node.operands):
                found = einsum_of(product.with_operand(0, normalised("log_softmax", x)), node.shape)
                return _replaced(node, [term, *expected], found)
    return None


def _readings(term: Node) -> Iterator[tuple[Node, Product]]:
    """The ways in which `c * logsumexp(x)`, repeated along axes, is `-c * x` without its shift there."""
    if not isinstance(term, Einsum) or len(term.operands) != 1 or is_sparse(term) or term.summed:
        return
    x = _operand(term.operands[0], "logsumexp")
    repeated = [k for k in range(term.rank) if _repeats(term, {k})]
    if x is None or not repeated:
        return
    for chosen in ([repeated] if len(repeated) > 1 else []) + [[k] for k in repeated]:
        last = _merged(term, chosen)
        if last is not None and x.shape[-1] == size_product(term.shape[k] for k in chosen):
            yield x, Product((x,), ((*term.axes[0], last),), term.output, term.ranges, -term.scale)


def _merged(term: Einsum, chosen: Sequence[int]) -> Axis | None:
    """Some axes of the output as one, in row-major order (None if their sizes are names)."""
    if len(chosen) == 1:
        return term.output[chosen[0]]
    if any(isinstance(term.shape[k], str) for k in chosen):
        return None
    sizes = [number(term.shape[k]) for k in chosen]
    return combine([(math.prod(sizes[n + 1 :]), term.output[k]) for n, k in enumerate(chosen)])


def picked_from_logsumexp(node: Node) -> Node | None:
    """x[i, index[i]] - logsumexp(x[i]) = log_softmax(x)[i, index[i]]."""
    for term in node.operands if isinstance(node, Add) else ():
        factors = _factors(term)
        x = _operand(factors[0], "logsumexp") if len(factors) == 1 else None
        for other in node.operands if x is not None else ():
            picked = other.product
            same = picked._replace(operands=factors, scale=-picked.scale) == term.product
            if x is not None and same and _picks_rows(picked.operands[0], x):
                (gathered,) = picked.operands
                assert isinstance(gathered, Apply)
                flat = reshape(normalised("log_softmax", x), gathered.operands[0].shape)
                found = operation("gather", flat, gathered.operands[1])
                return _replaced(node, [term, other], einsum_of(picked.with_operand(0, found), node.shape))
    return None


def _picks_rows(node: Node, x: Node) -> bool:
    """Whether the node is one entry of the last axis of x for each of its rows."""
    flat = _operand(node, "gather")
    if flat is None or any(isinstance(size, str) for size in x.shape):
        return False
    index, rows, size = node.operands[1], x.shape[:-1], number(x.shape[-1])
    if index.shape != rows or flat is not reshape(x, flat.shape):
        return False
    if isinstance(index, Constant):
        return bool(np.array_equal(index.value.reshape(-1) // size, np.arange(index.value.size)))
    return not rows or (
        isinstance(index, Apply) and index.name == "flat_index" and index.params == (size, len(rows))
    )


def _without_shifts(x: Node) -> tuple[Node, list[Node]]:
    """x without terms that are constant along the last axis, and these terms.

    They are made of what is left: of anything else nobody knows that it is finite, and `x - inf` is not x,
    shifted. The maximum of x is infinite only if x is.
    """
    rest, shifts = _apart(x, {x.rank - 1})
    known = _variables(rest)
    strange = [shift for shift in shifts if not _variables(shift) <= known]
    if not strange:
        return rest, shifts
    return add([rest, *strange], x.shape), [shift for shift in shifts if shift not in strange]


@remembered
def _variables(node: Node) -> frozenset[str]:
    """The names of the variables that a node depends on."""
    return frozenset(part.name for part in topological([node]) if isinstance(part, Variable))


def _apart(node: Node, axes: Collection[int], levels: int = MOST_LEVELS) -> tuple[Node, list[Node]]:
    """The node without its terms that are constant along some axes, and these terms."""
    if levels and isinstance(node, Add) and len(node.operands) <= MOST_TERMS:
        parts = [_apart(term, axes, levels - 1) for term in node.operands]
        shifts = [shift for _, found in parts for shift in found]
        return (add([rest for rest, _ in parts], node.shape) if shifts else node), shifts
    if not isinstance(node, Einsum) or is_sparse(node):
        return node, []
    if _repeats(node, axes):
        return (zero(node.shape), [node]) if _is_finite(node) else (node, [])
    labels = labels_of(node.output[k] for k in axes)
    varying = [k for k, row in enumerate(node.axes) if labels & labels_of(row)]
    if not levels or len(varying) != 1:
        return node, []
    (k,) = varying
    inner = {place for place, axis in enumerate(node.axes[k]) if labels & labels_of([axis])}
    rest, shifts = _apart(node.operands[k], inner, levels - 1)
    if not shifts:
        return node, []
    placed: list[Node] = [
        einsum_of(node.product.with_operand(k, part), node.shape) for part in (rest, *shifts)
    ]
    return (placed[0], placed[1:]) if all(_repeats(shift, axes) for shift in placed[1:]) else (node, [])


def _repeats(node: Node, axes: Collection[int]) -> bool:
    """Whether all entries along some axes are the same because the node is a tensor repeated there."""
    if not isinstance(node, Einsum) or not all(node.output[k].is_label for k in axes):
        return False
    labels = {node.output[k].label for k in axes}
    others = labels_of(axis for k, axis in enumerate(node.output) if k not in axes)
    whole = all(node.ranges[node.output[k].label] == node.shape[k] for k in axes)
    return whole and len(labels) == len(axes) and labels.isdisjoint(others | node.inside)


def _is_finite(node: Node) -> bool:
    """Whether no constant is known to be infinite or nan: x - inf is not x, shifted."""
    return not any(
        isinstance(operand, Constant) and not np.isfinite(operand.value).all() for operand in node.operands
    )


NORMALISATION_RULES: dict[Rule, Head] = {
    shift_of_softmax: Apply,
    other_axes_of_softmax: Apply,
}
"""Laws that a normalisation itself obeys, in the order in which they are applied."""

SHIFT_RULES: dict[Rule, Head] = {
    difference_from_logsumexp: Add,
    picked_from_logsumexp: Add,
    shift_beside_logsumexp: Add,
}
"""Laws of sums in which a logsumexp is a term."""
