"""Formulas regrouped for reading; printers use it, nothing computes with the result.

Reading asks for other forms than computing: products are multiplied out whoever else uses them, powers of one
base are collected (`x./x` is 1, wherever x is not zero), and sums are merged into the sums around them.
"""

from __future__ import annotations

import math
from collections import Counter

from hesse.ir import (
    Add,
    Apply,
    Axis,
    Einsum,
    Map,
    Node,
    Product,
    Size,
    add,
    connected,
    einsum,
    einsum_of,
    is_sparse,
    labels_of,
    map_,
    opened,
    plain_axes,
    rebuild,
    reciprocal,
    symmetries,
    topological,
    uniform,
    uniform_value,
    unscaled,
)
from hesse.ops.linalg import inverse
from hesse.ops.normalization import softmax
from hesse.ops.registry import elementwise
from hesse.ops.spectra import expm
from hesse.printing.conditions import choices, complements, guards, signs, steps, unguarded
from hesse.rewrite.matrix_rules import inverse_times_matrix
from hesse.rewrite.size_rules import sizes_cancelled

MOST_FACTORS = 16
"""Products are multiplied out up to this many factors …"""
LARGEST, FEWER_FACTORS = 500, 4
"""… and in expressions of more nodes than this, which nobody reads as a whole, up to that many."""
MOST_REPEATS = 8
"""Powers up to this one are written as repeated factors, larger ones as the function `power`."""
MOST_TERMS = 12
"""Products are distributed over sums up to this many terms."""
LONGEST_SUM = 24
"""Sums are merged into the sums around them up to this many terms: others may use them too."""

Axes = tuple[Axis, ...]


def present(root: Node, distribute: bool = False) -> Node:
    """The node with its products and sums multiplied out and collected; products also over sums, if asked."""
    new: dict[Node, Node] = {}
    root = steps(complements(guards(choices(root))))
    order = topological([root])
    most = MOST_FACTORS if len(order) <= LARGEST else FEWER_FACTORS
    for node in order:
        operands = tuple(new[operand] for operand in node.operands)
        rebuilt = node if operands == node.operands else rebuild(node, operands)
        new[node] = _regrouped(rebuilt, distribute, most)
    return new[root]


def _regrouped(node: Node, distribute: bool, most: int) -> Node:
    match node:
        case Einsum():
            product = multiplied_out(trace_of_exponential(node), distribute, most)
            if isinstance(product, Add) and product.operands:
                terms = [_regrouped(term, distribute, most) for term in product.operands]
                return merged(add(terms, node.shape))
            return collected(sizes_cancelled(inverse_times_matrix(product) or product))
        case Map():
            found = named_function(node)
            return collected(found) if isinstance(found, Map | Einsum) else found
        case Add():
            return merged(node)
        case Apply(name="solve"):
            return solved(node)
        case Apply(name="log_softmax"):
            return map_("log", softmax(node.operands[0]))
    return node


def merged(node: Node) -> Node:
    """a + (b + c) = a + b + c."""
    if not isinstance(node, Add):
        return node
    sums = [term for term in node.operands if isinstance(unscaled(term)[0], Add)]
    count = len(node.operands) + sum(len(unscaled(term)[0].operands) for term in sums)
    return signs(add(node.operands, node.shape, flatten=sums) if sums and count <= LONGEST_SUM else node)


def multiplied_out(node: Node, distribute: bool = False, most: int = MOST_FACTORS) -> Node:
    """A*(B*x) = A*B*x, up to a number of factors; the square of a product is left a square.

    Sums that have no matrix notation, or all sums if asked, are multiplied out as well.
    """
    if not isinstance(node, Einsum) or _is_square(node):
        return node
    sizes = [len(part.operands) if isinstance(part, Einsum) else 1 for part in node.operands]
    products = [k for k, size in enumerate(sizes) if size > 1] if sum(sizes) <= most else []
    sums = [
        k
        for k, part in enumerate(node.operands)
        if isinstance(part, Add) and (distribute or _is_better_opened(part, node.rank))
    ]
    if math.prod(len(node.operands[k].operands) for k in sums) > MOST_TERMS:
        sums = []
    if not products and not sums:
        return node
    return opened(node, [*products, *sums])


def _is_better_opened(node: Add, rank: int) -> bool:
    """Whether a sum reads better multiplied out, in a product of so many axes."""
    return rank > 0 and (node.rank > 2 or _has_rows(node) or (rank > 2 and _is_symmetric_update(node)))


def _is_symmetric_update(node: Add) -> bool:
    """Whether a sum is `A - x*x'` with A' = A: `A[i,j]*x[k]` and its like show a symmetry that it hides."""
    if node.rank != 2 or len(node.operands) != 2 or any(map(is_sparse, node.operands)):
        return False
    return sum(map(_is_outer_product, node.operands)) == 1 and bool(symmetries(node))


def _is_outer_product(node: Node) -> bool:
    """Whether a matrix is a column times a row."""
    if not isinstance(node, Einsum):
        return False
    return sum(bool(labels & node.placed) for _, labels in connected(map(labels_of, node.axes))) == 2


def _has_rows(node: Add) -> bool:
    """Whether a term repeats a vector along an axis, as no matrix that people write does."""
    products = [term for term in node.operands if isinstance(term, Einsum)]
    return any(0 < len(product.placed - product.inside) < node.rank for product in products)


def _is_square(node: Einsum) -> bool:
    """Whether the node is the sum of the squares of a tensor."""
    counts = Counter(zip(node.operands, node.axes, strict=True))
    return node.rank == 0 and bool(node.ranges) and all(count % 2 == 0 for count in counts.values())


def trace_of_exponential(node: Einsum) -> Node:
    """sum[p](T[p,i,j,p]) = expm(X)[j,i], T being the derivative of expm(X)."""
    for k, (part, axes) in enumerate(zip(node.operands, node.axes, strict=True)):
        if not isinstance(part, Apply) or (part.name, part.params) != ("expm_chain", (2,)) or part.rank != 4:
            continue
        closed = axes[0] == axes[3] and axes[0].is_label
        tables = (*node.axes[:k], (axes[2], axes[1]), *node.axes[k + 1 :])
        product = node.product.with_operand(k, expm(part.operands[0]))._replace(axes=tables)
        if closed and axes[0].label not in product.used:
            return einsum_of(product.without([axes[0].label]), node.shape)
    return node


def solved(node: Apply) -> Node:
    """solve(A, b) = inv(A)*b."""
    matrix, right = node.operands
    labels = plain_axes(node.rank + 1)
    batch, (row, *columns, inner) = labels[: matrix.rank - 2], labels[matrix.rank - 2 :]
    axes = [(*batch, row, inner), (*batch, inner, *columns)]
    return einsum([inverse(matrix), right], axes, labels[:-1], node.shape, [*node.shape, matrix.shape[-1]])


def named_function(node: Map) -> Node:
    """max(x, 0) = relu(x), log1p(x) = log(1 + x), and others by functions that have a shorter name."""
    match node.name:
        case "maximum" | "fmax":
            first, second = node.operands
            if uniform_value(second) == 0:
                return map_("relu", first)
            if uniform_value(first) == 0:
                return map_("relu", second)
        case "power":
            base, exponent = node.operands
            return map_("power", base, unguarded(exponent, base))
        case "log":
            return map_("log", unguarded(node.operands[0], node.operands[0]))
        case "log1p":
            return map_("log", node.operands[0] + 1.0)
        case "expm1":
            return map_("exp", node.operands[0]) - 1.0
    return node


class _Powers:
    """A product as powers of bases: `exponents[base, axes]`."""

    def __init__(self, scale: float = 1.0) -> None:
        self.exponents: dict[tuple[Node, Axes], float] = {}
        self.scale = scale
        self.changed = False

    def multiply(self, node: Node, axes: Axes, exponent: float = 1.0) -> None:
        """Multiply by a power of a node, taken apart into powers of its factors."""
        stack = [(node, exponent)]
        while stack:
            base, power = stack.pop()
            opened = _power(base, power)
            if opened is not None:
                self.changed |= base is not node or not _is_plain_power(base)
                stack.append(opened)
                continue
            factors = _element_wise_factors(base) if power == int(power) and power != 1 else None
            if factors is not None:
                assert isinstance(base, Einsum)
                self.changed = True
                self.scale *= base.scale**power
                stack += [(factor, power) for factor in factors]
                continue
            self.changed |= (base, axes) in self.exponents and self.exponents[base, axes] * power < 0
            self.exponents[base, axes] = self.exponents.get((base, axes), 0.0) + power

    def join_symbolic(self) -> None:
        """c^a / c = c^(a - 1) for an exponent that is no number."""
        for (node, axes), count in list(self.exponents.items()):
            if count != 1 or not isinstance(node, Map) or node.name != "power":
                continue
            base, exponent = node.operands
            inner, unit = _power(base, 1.0) or (base, 1.0)
            times = self.exponents.get((inner, axes), 0.0) / unit
            if times and times == int(times):
                del self.exponents[node, axes], self.exponents[inner, axes]
                total = add([exponent, uniform(times, exponent.shape)], exponent.shape, flatten=[exponent])
                self.exponents[elementwise("power", base, total), axes] = 1.0
                self.changed = True

    def product(self, output: Axes, ranges: tuple[Size, ...]) -> Product:
        """The powers multiplied."""
        operands: list[Node] = []
        axes: list[Axes] = []
        for (base, base_axes), exponent in self.exponents.items():
            factors = _repeated(base, exponent)
            operands += factors
            axes += [base_axes] * len(factors)
        return Product(tuple(operands), tuple(axes), output, ranges, self.scale)


def _power(node: Node, exponent: float) -> tuple[Node, float] | None:
    """A power of a power of a base as one power, or None if the node is no power."""
    if not isinstance(node, Map):
        return None
    inner = {"reciprocal": -1.0, "sqrt": 0.5}.get(node.name)
    if node.name == "power":
        inner = uniform_value(node.operands[1])
    if inner is None or inner == 0:
        return None
    if exponent != int(exponent) and inner % 2 == 0:
        return None  # sqrt(x^2) is abs(x)
    return node.operands[0], inner * exponent


def _is_plain_power(node: Node) -> bool:
    return isinstance(node, Map) and node.name in ("reciprocal", "sqrt")


def _element_wise_factors(node: Node) -> tuple[Node, ...] | None:
    """The factors of a product of tensors of one shape, or of scalars."""
    if not isinstance(node, Einsum) or len(node.ranges) != node.rank:
        return None
    if node.output != plain_axes(node.rank) or node.ranges != node.shape:
        return None
    return node.operands if node.operands and all(axes == node.output for axes in node.axes) else None


def collected(node: Node) -> Node:
    """Powers of one base are collected: x./x = 1, sqrt(c)*c = c^(3/2), 1/(a*b) = 1/a*1/b."""
    if isinstance(node, Map):
        powers = _Powers()
        axes = plain_axes(node.rank)
        powers.multiply(node, axes)
        return einsum_of(powers.product(axes, node.shape), node.shape) if powers.changed else node
    if not isinstance(node, Einsum) or len(node.operands) < 2:
        return node
    powers = _Powers(node.scale)
    factors, moved = scalar_factors(node)
    for part, axes in factors:
        powers.multiply(part, axes)
    powers.join_symbolic()
    halves = [power for power in powers.exponents.values() if power != int(power)]
    if not powers.changed and all(abs(power) == 0.5 for power in halves):
        return node
    return einsum_of(powers.product(node.output, node.ranges).without(moved), node.shape)


def _repeated(base: Node, exponent: float) -> list[Node]:
    """A power as repeated factors: the base, its root, or the reciprocal of one of them."""
    root = 2 * exponent % 2 == 1
    count = abs(2 * exponent if root else exponent)
    if count != int(count) or count > MOST_REPEATS:
        return [elementwise("power", base, exponent)]
    factor = elementwise("sqrt", base) if root else base
    return [factor if exponent > 0 else reciprocal(factor)] * int(count)


def scalar_factors(node: Einsum) -> tuple[list[tuple[Node, Axes]], set[int]]:
    """The operands of a product, those connected by sums that the output has no part in as one scalar.

    With them come the labels that are summed inside these scalars.
    """
    placed = node.placed
    groups = connected(labels_of(axes) - placed for axes in node.axes)
    factors: list[tuple[Node, Axes]] = []
    moved: set[int] = set()
    for members, _ in groups:
        part = node.product.only(members)._replace(output=(), scale=1.0)
        if not part.inside or part.inside & placed or len(groups) == 1:
            factors += zip(part.operands, part.axes, strict=True)
            continue
        factors.append((einsum_of(part.compact(), ()), ()))
        moved |= part.inside
    return factors, moved
