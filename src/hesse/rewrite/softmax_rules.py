"""Laws that find softmax, log_softmax and logsumexp in the exponentials that they are written with.

The table is applied with that of `rules`.
"""

from __future__ import annotations

import functools
import itertools
import math

from hesse.ir import (
    Add,
    Apply,
    Einsum,
    Map,
    Node,
    einsum_of,
    is_sparse,
    label_axis,
    number,
    opened,
    plain_axes,
    rebuild,
    reshape,
    uniform,
    uniform_value,
    unscaled,
    view,
)
from hesse.ops.registry import elementwise
from hesse.rewrite.rules import Head, Rule, argument, exp_argument, exp_times_sigmoid, read_through
from hesse.rewrite.shift_rules import normalised

MOST_LEVELS = 3
"""How deep in products of products an exponential is looked for."""


def log_of_added_exps(node: Node) -> Node | None:
    """log(exp(a) + exp(b)) = logaddexp(a, b).

    There may be more terms, with positive factors, and positive constants: c exp(a) is exp(a + log(c)).
    """
    inside = argument(node, "log")
    if not isinstance(inside, Add) or not inside.operands:
        return None
    logarithms = [x for term in inside.operands if (x := _logarithm(term)) is not None]
    if len(logarithms) < len(inside.operands):
        return None
    return functools.reduce(lambda x, y: elementwise("logaddexp", x, y), logarithms)


def _logarithm(term: Node) -> Node | None:
    """`log(term)` where it is known without taking it: of c, c exp(x) and c sum(exp(x)) for c > 0."""
    value = uniform_value(term)
    if value is not None:
        return uniform(math.log(value), term.shape) if value > 0 else None
    base, factor = unscaled(term)
    x = exp_argument(base)
    if x is not None and factor > 0:
        return x + math.log(factor)
    return log_of_sum_of_exp(elementwise("log", term))


def log_of_sum_of_exp(node: Node) -> Node | None:
    """log(c * sum(exp(x))) = logsumexp(x) + log(c), for c > 0."""
    inside = argument(node, "log")
    if not isinstance(inside, Einsum) or len(inside.operands) != 1 or inside.scale <= 0 or is_sparse(inside):
        return None
    summed = inside.summed
    x = argument(inside.operands[0], "exp")
    if x is None or not summed or not inside.inside.issuperset(summed):
        return None
    if len(summed) > 1 and any(isinstance(inside.ranges[label], str) for label in summed):
        return None  # the axes can be merged into one only when their sizes are numbers
    result = normalised("logsumexp", _sum_axes_last(inside, x, summed))
    return result + uniform(math.log(inside.scale), result.shape)


def _sum_axes_last(sum_node: Einsum, x: Node, summed: list[int]) -> Node:
    """x read as the sum reads its operand, summed labels merged into one last axis."""
    sizes = [sum_node.ranges[label] for label in summed]
    shape = sum_node.shape + tuple(sizes)
    output = (*sum_node.output, *map(label_axis, summed))
    moved = view(x, sum_node.axes[0], output, shape, sum_node.ranges)
    return moved if len(sizes) == 1 else reshape(moved, (*sum_node.shape, math.prod(sizes)))


def log_of_softmax(node: Node) -> Node | None:
    """log(softmax(x)) = log_softmax(x), also through a view of the softmax."""
    return _of_another(node, "log", "softmax", "log_softmax")


def exp_of_log_softmax(node: Node) -> Node | None:
    """exp(log_softmax(x)) = softmax(x), also through a view."""
    return _of_another(node, "exp", "log_softmax", "softmax")


def _of_another(node: Node, outer: str, inner: str, name: str) -> Node | None:
    """`name(x)` if the node is `outer(inner(x))`."""
    inside = argument(node, outer)
    source, again = read_through(inside) if inside is not None else (node, None)
    if again is None or not isinstance(source, Apply) or source.name != inner:
        return None
    return again(normalised(name, source.operands[0]))


def log_of_picked_softmax(node: Node) -> Node | None:
    """log(softmax(x)[index]) = log_softmax(x)[index]."""
    inside = argument(node, "log")
    if not isinstance(inside, Apply) or inside.name != "gather":
        return None
    logarithms = log_of_softmax(elementwise("log", inside.operands[0]))
    return None if logarithms is None else rebuild(inside, (logarithms, *inside.operands[1:]))


def exp_of_part_over_sum_of_exp(node: Node) -> Node | None:
    """exp(x[k]) / sum_j exp(x[j]) = exp(x)[k] / sum_j exp(x[j]), so that the softmax is seen."""
    for a, b in itertools.permutations(range(len(node.operands)), 2) if isinstance(node, Einsum) else ():
        part, total = argument(node.operands[a], "exp"), argument(node.operands[b], "reciprocal")
        if part is None or not isinstance(total, Einsum):
            continue
        source, again = read_through(part)
        whole = elementwise("exp", source)
        if source is not part and total.operands == (whole,):
            operands = [again(whole) if k == a else operand for k, operand in enumerate(node.operands)]
            return rebuild(node, tuple(operands))
    return None


def exp_over_sum_of_exp(node: Node) -> Node | None:
    """exp(x[i]) / sum_j exp(x[j]) = softmax(x)[i]."""
    if not isinstance(node, Einsum):
        return None
    for a, numerator in enumerate(node.operands):
        x = argument(numerator, "exp")
        for b, denominator in enumerate(node.operands):
            total = argument(denominator, "reciprocal")
            if x is None or not isinstance(total, Einsum) or total.operands != (numerator,):
                continue
            softened = _softmax_like(node, a, b, x, total)
            if softened is not None:
                return softened
    return None


def _softmax_like(node: Einsum, a: int, b: int, x: Node, total: Einsum) -> Node | None:
    """The product with exp(x) at `a` and 1/sum(exp(x)) at `b` replaced by a softmax, if the sum fits."""
    summed, plain = total.summed, plain_axes(x.rank)
    long = [k for k in range(x.rank) if x.shape[k] != 1]
    names = {total.axes[0][k].label: k for k in long if total.axes[0][k].is_label}
    whole = len(names) == len(long) and all(total.ranges[label] == x.shape[k] for label, k in names.items())
    if not whole or total.scale <= 0 or is_sparse(total) or not summed or names.keys() != total.used:
        return None
    if len(summed) > 1 and any(isinstance(total.ranges[label], str) for label in summed):
        return None  # the axes can be merged into one only when their sizes are numbers
    kept = {axis.label: k for k, axis in enumerate(total.output) if axis.is_label}
    aligned = all(node.axes[a][names[label]] == node.axes[b][k] for label, k in kept.items())
    if kept.keys() != total.placed or not aligned:
        return None
    order = [names[label] for label in [*kept, *summed]]
    moved = view(x, plain, [plain[k] for k in order], [x.shape[k] for k in order], x.shape)
    lead, sizes = moved.shape[: len(kept)], moved.shape[len(kept) :]
    merged = moved if len(sizes) == 1 else reshape(moved, (*lead, math.prod(map(number, sizes))))
    soft = reshape(normalised("softmax", merged), moved.shape)
    rest = node.product.only([k for k in range(len(node.operands)) if k not in (a, b)])
    product = rest.times(soft, tuple(node.axes[a][k] for k in order))
    return einsum_of(product._replace(scale=node.scale / total.scale), node.shape)


def exp_inside_a_product(node: Node) -> Node | None:
    """(y * exp(z)) * sigmoid(-z) = y * sigmoid(z), and the same for a softmax."""
    denominators = [operand for operand in node.operands if _is_denominator(operand)]
    if not isinstance(node, Einsum) or not denominators:
        return None
    for k, operand in enumerate(node.operands):
        if _holds_exp(operand, MOST_LEVELS):
            merged = opened(node, (k,))
            for rule in (exp_times_sigmoid, exp_over_sum_of_exp, exp_inside_a_product):
                if (found := rule(merged)) is not None:
                    return found
    return None


def _is_denominator(node: Node) -> bool:
    return isinstance(node, Map) and node.name in ("sigmoid", "reciprocal")


def _holds_exp(node: Node, levels: int) -> bool:
    """Whether the node is a product with an exponential as a factor."""
    return isinstance(node, Einsum) and any(
        argument(operand, "exp") is not None or (levels > 1 and _holds_exp(operand, levels - 1))
        for operand in node.operands
    )


SOFTMAX_RULES: dict[Rule, Head] = {
    log_of_added_exps: "log",
    log_of_sum_of_exp: "log",
    log_of_softmax: "log",
    log_of_picked_softmax: "log",
    exp_of_log_softmax: "exp",
    exp_of_part_over_sum_of_exp: frozenset({"reciprocal"}),
    exp_over_sum_of_exp: frozenset({"reciprocal"}),
    exp_inside_a_product: frozenset({"sigmoid", "reciprocal"}),
}
