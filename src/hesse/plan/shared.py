"""Orders that share: products of three and more tensors are multiplied so that their intermediates coincide.

Each product has a cheapest order of its own, and often several that cost nearly the same. In `A·B·C` and
`B·C·D` the product `B·C` is worth a detour: it is made once. So pairs of operands that several products have
are compared by what they save all of them together, and those that save most become nodes of their own. A
pair is known by its core, so it is the same one however its axes lie.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from hesse.cost import Machine, einsum_cost
from hesse.ir import (
    Einsum,
    Node,
    core,
    core_and_pattern,
    einsum_of,
    first_labels,
    label_axis,
    labels_of,
    rebuild,
    remembered,
    symmetries,
    topological,
)

LEAST_TIME = 1e4
"""Operations from which it is worth looking for another order of a product."""
Pair = tuple[int, int]
Forms = dict[Einsum, Einsum]


def with_shared_factors(roots: Sequence[Node], machine: Machine) -> list[Node]:
    """The roots with products of several tensors taken apart where they share a factor."""
    order = topological(roots)
    cores = dict.fromkeys([core(node) for node in order if isinstance(node, Einsum)])
    products = [node for node in cores if isinstance(node, Einsum) and len(node.operands) > 1]
    search = _Search(products, [node for node in products if _is_open(node, machine)], machine)
    while search.improve():
        pass
    return _rewritten(order, roots, search.forms) if search.forms else list(roots)


def _is_open(node: Einsum, machine: Machine) -> bool:
    """Whether a product may be multiplied in another order (a symmetric matrix is seen as a whole only)."""
    if len(node.operands) < 3 or einsum_cost(node).time(machine) < LEAST_TIME:
        return False
    return not (node.rank == 2 and symmetries(node))


class _Search:
    """Products and the forms that were found for them, with nodes as they were for operands."""

    def __init__(self, products: Sequence[Einsum], long: Sequence[Einsum], machine: Machine) -> None:
        self.products = products
        self.long = long
        self.machine = machine
        self.forms: Forms = {}
        self.factors: set[Node] = {node for node in products if len(node.operands) == 2}
        """Products of two tensors that are computed anyway."""

    def improve(self) -> bool:
        """Give products a factor that saves most, each one at most once; False if there is none.

        A factor that another one has taken a product from waits: there may be a better one in its place then.
        """
        savings = sorted(self._savings(), key=lambda found: -found[0]) if self.long else []
        taken: set[Einsum] = set()
        for _, factor, forms in savings:
            if taken.isdisjoint(forms):
                self.forms.update(forms)
                self.factors.update([factor, *[core(form) for form in forms.values()]])
                taken.update(forms)
        return bool(taken)

    def _savings(self) -> Iterator[tuple[float, Node, Forms]]:
        for factor, forms in self._candidates().items():
            saved = self._saved(factor, forms)
            if saved > 0:
                yield saved, factor, forms

    def _saved(self, factor: Node, forms: Forms) -> float:
        """What a factor saves the products that are given with the forms they take by it."""
        saved = sum(self._time(self._form(node)) - self._time(form) for node, form in forms.items())
        return saved if factor in self.factors else saved - self._time(factor)

    def _candidates(self) -> dict[Node, Forms]:
        """Factors that several products have, each with the forms of the products that gain by it."""
        forms = [self._form(node) for node in self.products]
        counts = Counter(pair for form in forms for pair in _names(form).values())
        found: defaultdict[Node, Forms] = defaultdict(dict)
        for node in self.long:
            form = self._form(node)
            if len(form.operands) < 3:
                continue
            for pair, names in _names(form).items():
                other = _factored(form, pair) if counts[names] > 1 else None
                if other is not None and self._time(other[1]) < self._time(form):
                    found[other[0]].setdefault(node, _again(*other, names))
        return found

    def _form(self, node: Einsum) -> Einsum:
        return self.forms.get(node, node)

    def _time(self, node: Node) -> float:
        return einsum_cost(node).time(self.machine) if isinstance(node, Einsum) else 0.0


def _names(node: Einsum) -> dict[Pair, frozenset[Node]]:
    """The pairs of operands by which two products may have a factor in common."""
    return {
        (a, b): frozenset((node.operands[a], node.operands[b]))
        for a, b in combinations(range(len(node.operands)), 2)
    }


@remembered  # most forms are the same in the next round, and in other plans for the same
def _factored(node: Einsum, pair: Pair) -> tuple[Node, Einsum] | None:
    """The core of two operands of a product, and the product with it; None if they are better apart."""
    product = node.product
    one, two = (labels_of(product.axes[k]) for k in pair)
    if not one & two:
        return None  # an outer product is not formed
    rest = product.only([k for k in range(len(product.operands)) if k not in pair])
    part = product.only(pair)._replace(scale=1.0)
    kept = [
        label for label in first_labels([axis for row in part.axes for axis in row]) if label in rest.used
    ]
    axes = tuple(map(label_axis, kept))
    whole = einsum_of(part._replace(output=axes).compact(), product.sizes(kept))
    if not isinstance(whole, Einsum):
        return None
    rest = rest.times(whole, axes)
    found = einsum_of(rest.without(product.used - rest.used), node.shape)
    inside = core(whole)
    return (inside, found) if isinstance(found, Einsum) and inside in found.operands else None


def _again(factor: Node, form: Einsum, names: frozenset[Node]) -> Einsum:
    """A product with a factor in all places where it has it: `tr(A·B·A·B)` holds `A·B` twice."""
    for pair, others in _names(form).items():
        other = _factored(form, pair) if others == names else None
        if other is not None and other[0] is factor:
            return _again(factor, other[1], names)
    return form


def _rewritten(order: Sequence[Node], roots: Sequence[Node], forms: Forms) -> list[Node]:
    new: dict[Node, Node] = {}

    def made(node: Node) -> Node:
        if node not in new:  # a factor
            new[node] = rebuild(node, tuple(map(made, node.operands)))
        return new[node]

    for node in order:
        inside, pattern = core_and_pattern(node) if isinstance(node, Einsum) else (node, None)
        if pattern is not None and inside in forms:
            new[node] = einsum_of(pattern.with_operand(0, made(forms[inside])), node.shape)
        else:
            operands = tuple([new[operand] for operand in node.operands])
            new[node] = node if operands == node.operands else rebuild(node, operands)
    return [new[root] for root in roots]
