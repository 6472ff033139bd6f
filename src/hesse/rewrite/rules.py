"""Laws for element-wise functions and products, most of them for numerical stability.

A rule is a function `node -> node | None`. Its docstring states the law; `RULES` is the table, and each
rule has a tested example.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

from hesse.ir import (
    Add,
    Apply,
    Einsum,
    Map,
    Node,
    Product,
    Shape,
    add,
    einsum,
    einsum_of,
    has_delta,
    is_sparse,
    is_zero,
    label_axis,
    number,
    opened,
    plain_axes,
    rebuild,
    reshape,
    scale,
    sum_pieces,
    uniform,
    uniform_value,
    unscaled,
    view,
    zero,
)
from hesse.ops.normalization import log_softmax, logsumexp, softmax
from hesse.ops.registry import elementwise

Rule = Callable[[Node], Node | None]


def _argument(node: Node, name: str) -> Node | None:
    """`x` if the node is `name(x)`."""
    return node.operands[0] if isinstance(node, Map) and node.name == name else None


def _one_plus_exp(node: Node) -> Node | None:
    """`z` if the node is `1 + exp(z)`."""
    if not isinstance(node, Add) or len(node.operands) != 2:
        return None
    for one, other in (node.operands, node.operands[::-1]):
        if uniform_value(one) == 1:
            return _exp_argument(other)
    return None


def _exp_argument(node: Node) -> Node | None:
    """`z` if the node is `exp(z)`, also through a view (a transposed or repeated exp)."""
    direct = _argument(node, "exp")
    if direct is not None or not isinstance(node, Einsum) or len(node.operands) != 1 or node.scale != 1:
        return direct
    inner = _argument(node.operands[0], "exp")
    if inner is None or is_sparse(node) or node.summed:
        return None
    return view(inner, node.axes[0], node.output, node.shape, node.ranges)


def log_of_one_plus_exp(node: Node) -> Node | None:
    """log(1 + exp(z)) = softplus(z)."""
    inside = _argument(node, "log")
    z = None if inside is None else _one_plus_exp(inside)
    return None if z is None else elementwise("softplus", z)


def log1p_of_exp(node: Node) -> Node | None:
    """log1p(exp(z)) = softplus(z)."""
    inside = _argument(node, "log1p")
    z = None if inside is None else _exp_argument(inside)
    return None if z is None else elementwise("softplus", z)


def log_of_added_exps(node: Node) -> Node | None:
    """log(exp(a) + exp(b)) = logaddexp(a, b).

    There may be more terms, with positive factors, and positive constants: c exp(a) is exp(a + log(c)).
    """
    inside = _argument(node, "log")
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
    x = _exp_argument(base)
    if x is not None and factor > 0:
        return x + math.log(factor)
    return log_of_sum_of_exp(elementwise("log", term))


def log_of_exp(node: Node) -> Node | None:
    """log(exp(x)) = x."""
    inside = _argument(node, "log")
    return None if inside is None else _exp_argument(inside)


def exp_of_log(node: Node) -> Node | None:
    """exp(log(x)) = x, for x in the domain of log."""
    inside = _argument(node, "exp")
    return None if inside is None else _argument(inside, "log")


def reciprocal_of_reciprocal(node: Node) -> Node | None:
    """1 / (1 / x) = x."""
    inside = _argument(node, "reciprocal")
    return None if inside is None else _argument(inside, "reciprocal")


def reciprocal_of_one_plus_exp(node: Node) -> Node | None:
    """1 / (1 + exp(z)) = sigmoid(-z)."""
    inside = _argument(node, "reciprocal")
    z = None if inside is None else _one_plus_exp(inside)
    return None if z is None else elementwise("sigmoid", scale(z, -1.0))


def log_of_sum_of_exp(node: Node) -> Node | None:
    """log(c * sum(exp(x))) = logsumexp(x) + log(c), for c > 0."""
    inside = _argument(node, "log")
    if not isinstance(inside, Einsum) or len(inside.operands) != 1 or inside.scale <= 0 or is_sparse(inside):
        return None
    summed = inside.summed
    x = _argument(inside.operands[0], "exp")
    if x is None or not summed or not inside.inside.issuperset(summed):
        return None
    if len(summed) > 1 and any(isinstance(inside.ranges[label], str) for label in summed):
        return None  # the axes can be merged into one only when their sizes are numbers
    result = logsumexp(_sum_axes_last(inside, x, summed))
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
    inside = _argument(node, "log")
    if isinstance(inside, Apply) and inside.name == "softmax":
        return log_softmax(inside.operands[0])
    if not isinstance(inside, Einsum) or len(inside.operands) != 1 or inside.scale != 1 or is_sparse(inside):
        return None
    source = inside.operands[0]
    if not isinstance(source, Apply) or source.name != "softmax" or inside.summed:
        return None
    return view(log_softmax(source.operands[0]), inside.axes[0], inside.output, inside.shape, inside.ranges)


def function_of_blocks(node: Node) -> Node | None:
    """f(blocks) = blocks of f, for disjoint blocks that fill the tensor or a function with f(0) = 0."""
    if not isinstance(node, Map) or len(node.operands) != 1 or not isinstance(node.operands[0], Add):
        return None
    blocks = sum_pieces(node.operands[0])
    if not blocks:  # the exact zero, perhaps of a symbolic size
        folded = elementwise(node.name, node.operands[0])
        return None if folded is node else folded
    if len(blocks) == 1 or any(map(has_delta, blocks)) or not all(map(is_sparse, blocks)):
        return None
    boxes = [block.product for block in blocks]
    entries = sum(math.prod(map(number, box.sizes(box.placed))) for box in boxes)
    fills = entries == math.prod(map(number, node.shape))
    if not fills and not is_zero(elementwise(node.name, zero(()))):
        return None
    return add([_on_block(node.name, box, node.shape) for box in boxes], node.shape)


def _on_block(name: str, block: Product, shape: Shape) -> Node:
    """f(inside) at the place of a block."""
    ranges = block.ranges[: len(block.placed)]  # labels are numbered output first
    place = plain_axes(len(ranges))
    inside = einsum_of(block._replace(output=place), ranges)
    return einsum([elementwise(name, inside)], [place], block.output, shape, ranges)


def log_of_picked_softmax(node: Node) -> Node | None:
    """log(softmax(x)[index]) = log_softmax(x)[index]."""
    inside = _argument(node, "log")
    if not isinstance(inside, Apply) or inside.name != "gather":
        return None
    logarithms = log_of_softmax(elementwise("log", inside.operands[0]))
    return None if logarithms is None else rebuild(inside, (logarithms, *inside.operands[1:]))


def log_of_sigmoid(node: Node) -> Node | None:
    """log(sigmoid(z)) = -softplus(-z)."""
    inside = _argument(node, "log")
    z = None if inside is None else _argument(inside, "sigmoid")
    return None if z is None else scale(elementwise("softplus", scale(z, -1.0)), -1.0)


def one_minus_sigmoid(node: Node) -> Node | None:
    """1 - sigmoid(z) = sigmoid(-z)."""
    if not isinstance(node, Add) or len(node.operands) != 2:
        return None
    for one, other in (node.operands, node.operands[::-1]):
        base, factor = unscaled(other)
        z = _argument(base, "sigmoid")
        if z is not None and factor == -1 and uniform_value(one) == 1:
            return elementwise("sigmoid", scale(z, -1.0))
    return None


def _replace_two(node: Einsum, pair: tuple[int, int], operand: Node | None) -> Node:
    """The product with two operands of the same axes replaced by one (or by nothing)."""
    rest = node.product.only([k for k in range(len(node.operands)) if k not in pair])
    if operand is not None:
        rest = rest.times(operand, node.axes[pair[0]])
    return einsum_of(rest, node.shape)


def _pairs(node: Node) -> list[tuple[int, int]]:
    if not isinstance(node, Einsum):
        return []
    count = len(node.operands)
    return [(a, b) for a in range(count) for b in range(count) if a != b and node.axes[a] == node.axes[b]]


def exp_times_sigmoid(node: Node) -> Node | None:
    """exp(z) * sigmoid(-z) = sigmoid(z)."""
    for a, b in _pairs(node):
        z, minus_z = _argument(node.operands[a], "exp"), _argument(node.operands[b], "sigmoid")
        if z is not None and minus_z is not None and minus_z is scale(z, -1.0):
            assert isinstance(node, Einsum)
            return _replace_two(node, (a, b), elementwise("sigmoid", z))
    return None


def sqrt_times_sqrt(node: Node) -> Node | None:
    """sqrt(x) * sqrt(x) = x."""
    for a, b in _pairs(node):
        x = _argument(node.operands[a], "sqrt")
        if x is not None and node.operands[a] is node.operands[b]:
            assert isinstance(node, Einsum)
            return _replace_two(node, (a, b), x)
    return None


def exp_of_part_over_sum_of_exp(node: Node) -> Node | None:
    """exp(x[k]) / sum_j exp(x[j]) = exp(x)[k] / sum_j exp(x[j]), so that the softmax is seen."""
    for a, b in itertools.permutations(range(len(node.operands)), 2) if isinstance(node, Einsum) else ():
        part, total = _argument(node.operands[a], "exp"), _argument(node.operands[b], "reciprocal")
        if not isinstance(part, Einsum) or len(part.operands) != 1 or part.scale != 1 or is_sparse(part):
            continue
        whole = elementwise("exp", part.operands[0])
        if isinstance(total, Einsum) and total.operands == (whole,) and not part.summed:
            assert isinstance(node, Einsum)
            moved = view(whole, part.axes[0], part.output, part.shape, part.ranges)
            operands = [moved if k == a else operand for k, operand in enumerate(node.operands)]
            return rebuild(node, tuple(operands))
    return None


def exp_over_sum_of_exp(node: Node) -> Node | None:
    """exp(x[i]) / sum_j exp(x[j]) = softmax(x)[i]."""
    if not isinstance(node, Einsum):
        return None
    for a, numerator in enumerate(node.operands):
        x = _argument(numerator, "exp")
        for b, denominator in enumerate(node.operands):
            total = _argument(denominator, "reciprocal")
            if x is None or not isinstance(total, Einsum) or total.operands != (numerator,):
                continue
            softened = _softmax_like(node, a, b, x, total)
            if softened is not None:
                return softened
    return None


def _softmax_like(node: Einsum, a: int, b: int, x: Node, total: Einsum) -> Node | None:
    """The product with exp(x) at `a` and 1/sum(exp(x)) at `b` replaced by a softmax, if the sum fits."""
    summed = total.summed
    plain = plain_axes(x.rank)
    names = {axis.label: k for k, axis in enumerate(total.axes[0]) if axis.is_label}
    whole = len(names) == x.rank and [total.ranges[axis.label] for axis in total.axes[0]] == list(x.shape)
    if not whole or total.scale <= 0 or is_sparse(total) or not summed or len(summed) != len(set(summed)):
        return None
    if len(summed) > 1 and any(isinstance(total.ranges[label], str) for label in summed):
        return None  # the axes can be merged into one only when their sizes are numbers
    kept = [axis.label for axis in total.output if axis.is_label]
    aligned = all(node.axes[a][names[label]] == node.axes[b][k] for k, label in enumerate(kept))
    if len(kept) != total.rank or not aligned:
        return None
    order = [names[label] for label in kept + summed]
    moved = view(x, plain, [plain[k] for k in order], [x.shape[k] for k in order], x.shape)
    lead = moved.shape[: len(kept)]
    if len(summed) > 1:
        soft = reshape(softmax(reshape(moved, (*lead, math.prod(moved.shape[len(kept) :])))), moved.shape)
    else:
        soft = softmax(moved)
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


MOST_LEVELS = 3
"""How deep in products of products an exponential is looked for."""


def _is_denominator(node: Node) -> bool:
    return isinstance(node, Map) and node.name in ("sigmoid", "reciprocal")


def _holds_exp(node: Node, levels: int) -> bool:
    """Whether the node is a product with an exponential as a factor."""
    return isinstance(node, Einsum) and any(
        _argument(operand, "exp") is not None or (levels > 1 and _holds_exp(operand, levels - 1))
        for operand in node.operands
    )


RULES: tuple[Rule, ...] = (
    log_of_one_plus_exp,
    log1p_of_exp,
    log_of_added_exps,
    log_of_exp,
    exp_of_log,
    reciprocal_of_reciprocal,
    reciprocal_of_one_plus_exp,
    log_of_sum_of_exp,
    log_of_softmax,
    log_of_picked_softmax,
    log_of_sigmoid,
    one_minus_sigmoid,
    exp_times_sigmoid,
    sqrt_times_sqrt,
    function_of_blocks,
    exp_of_part_over_sum_of_exp,
    exp_over_sum_of_exp,
    exp_inside_a_product,
)
