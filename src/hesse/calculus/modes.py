"""Forward, reverse and cross-country mode: the order in which partials are multiplied over the DAG.

All three return, for each variable, the derivative with the axes of the output first and those of the
variable after them. Values are nodes, so a second derivative is the same call on the result.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from hesse.calculus.partial import is_active, partial, pull, push_all
from hesse.cost import PLAIN_MACHINE, Machine, core_entries, core_order, einsum_cost
from hesse.ir import (
    Add,
    Apply,
    Einsum,
    Node,
    Shape,
    Shortcut,
    Variable,
    add,
    delta,
    dependents,
    einsum,
    is_zero,
    plain_axes,
    shortcuts,
    topological,
    zero,
)
from hesse.ops.foreign import FOREIGN, Rule, rule_of

Mode = Callable[[Node, Sequence[Node]], list[Node]]


def forward(output: Node, variables: Sequence[Node]) -> list[Node]:
    """Multiply from the variables to the output."""
    return [push_forward(output, {variable: delta(variable.shape)}, variable.shape) for variable in variables]


def push_forward(
    output: Node, tangents: Mapping[Node, Node], trail: Shape = (), above: Collection[Node] = ()
) -> Node:
    """The tangent of the output for tangents `[variable…, trail…]` of the variables.

    None of the nodes in `above` depends on them.
    """
    return all_pushed([output], tangents, trail, above)[0]


def all_pushed(
    outputs: Sequence[Node], tangents: Mapping[Node, Node], trail: Shape = (), above: Collection[Node] = ()
) -> list[Node]:
    """The tangents of several outputs, in one sweep."""
    order = topological(outputs, above)
    live = dependents(order, tangents)
    known = dict(tangents)
    for node in order:
        if node in live and node not in tangents:
            given = {slot: known[node.operands[slot]] for slot in _live_slots(node, live)}
            known[node] = push_all(node, given, trail)
    return [known.get(output, zero(output.shape + trail)) for output in outputs]


def reverse(output: Node, variables: Sequence[Node]) -> list[Node]:
    """Multiply from the output to the variables, all of them in one sweep."""
    return pull_back(output, delta(output.shape), variables)


def pull_back(
    output: Node, cotangent: Node, variables: Sequence[Node], above: Collection[Node] = ()
) -> list[Node]:
    """The cotangents of the variables for a cotangent `[lead…, output…]` of the output.

    None of the nodes in `above` depends on them.
    """
    order = topological([output], above)
    live = dependents(order, variables)
    lead = cotangent.shape[: cotangent.rank - output.rank]
    # a shortcut passes by the nodes between its ends: none of them may be asked for
    known = shortcuts() if all([isinstance(variable, Variable) for variable in variables]) else {}
    loops = _loops(order, live)
    waiting: dict[Node, dict[Apply, Node]] = {}
    collected: dict[Node, list[Node]] = {output: [cotangent]}
    results = {variable: zero(lead + variable.shape) for variable in variables}
    for node in reversed(order):
        terms = collected.pop(node, None)
        if terms is not None and node in live:
            cotangent = add(terms, lead + node.shape)
            if node in results:
                results[node] = cotangent
            if not is_zero(cotangent) and node in loops:
                waiting.setdefault(loops[node], {})[cast(Apply, node)] = cotangent
            elif not is_zero(cotangent):
                for below, pulled in _pulled(node, cotangent, live, known):
                    collected.setdefault(below, []).append(pulled)
        for below, pulled in _pulled_through(waiting.pop(node, {}), live):
            collected.setdefault(below, []).append(pulled)
    return [results[variable] for variable in variables]


def _loops(order: Sequence[Node], live: set[Node]) -> dict[Node, Node]:
    """For each result of a loop the first one in this order: all others have been reached before it is."""
    first: dict[tuple[Rule, tuple[Node, ...]], Node] = {}
    return {
        node: first.setdefault((rule_of(node), node.operands), node)
        for node in order
        if node in live and isinstance(node, Apply) and node.name == FOREIGN and rule_of(node).is_loop
    }


def _pulled_through(cotangents: Mapping[Apply, Node], live: set[Node]) -> Iterator[tuple[Node, Node]]:
    """The live operands of a loop, each with its share of the cotangents of all results."""
    slots = {slot: node.operands[slot] for node in cotangents for slot in _live_slots(node, live)}
    if slots:
        rule = rule_of(next(iter(cotangents)))
        for slot, pulled in rule.pull_all(cotangents, slots).items():
            yield slots[slot], pulled


def _pulled(
    node: Node, cotangent: Node, live: set[Node], known: Mapping[Node, Sequence[Shortcut]]
) -> Iterator[tuple[Node, Node]]:
    """The nodes below one through which a cotangent goes on, each with its share of it."""
    if node in known:
        for below, change, argument in known[node]:
            if below in live:
                yield below, pull_back(change, cotangent, [argument])[0]
        return
    for slot in _live_slots(node, live):
        yield node.operands[slot], pull(node, slot, cotangent)


def two_sided(output: Node, variables: Sequence[Node]) -> list[Node]:
    """Multiply from the variables up and from the output down, and join in the middle.

    A gradient runs through the function and back. Its two halves have the same products, transposed, so a
    Hessian `J'·S·J` needs the products of `J` only once.
    """
    order = topological([output])
    live = dependents(order, variables)
    upper = _upper_half([node for node in order if node in live], live)
    if output not in upper:
        return forward(output, variables)
    cotangents = _cotangents(output, upper, live)
    return [_joined(output, variable, order, upper, cotangents) for variable in variables]


def _upper_half(order: Sequence[Node], live: set[Node]) -> set[Node]:
    """The live nodes that are nearer to the output than to the variables, by the longest path."""
    depth: dict[Node, int] = {}
    height = dict.fromkeys(order, 0)
    for node in order:
        depth[node] = 1 + max((depth[node.operands[slot]] for slot in _live_slots(node, live)), default=-1)
    for node in reversed(order):
        for slot in _live_slots(node, live):
            operand = node.operands[slot]
            height[operand] = max(height[operand], height[node] + 1)
    return {node for node in order if depth[node] > height[node]}


def _cotangents(output: Node, upper: set[Node], live: set[Node]) -> dict[Node, Node]:
    """The derivatives of the output by the nodes that the upper half reads from the lower one."""
    collected: dict[Node, list[Node]] = {output: [delta(output.shape)]}
    for node in reversed(topological([output])):
        if node in upper and node in collected:
            cotangent = add(collected.pop(node), output.shape + node.shape)
            for slot in _live_slots(node, live):
                collected.setdefault(node.operands[slot], []).append(pull(node, slot, cotangent))
    return {node: add(terms, output.shape + node.shape) for node, terms in collected.items()}


def _joined(
    output: Node, variable: Node, order: Sequence[Node], upper: set[Node], cotangents: Mapping[Node, Node]
) -> Node:
    """The derivative by one variable: tangents pushed through the lower half meet the cotangents."""
    live = dependents(order, [variable])
    tangents = {variable: delta(variable.shape)}
    for node in order:
        if node in live and node not in upper and node is not variable:
            given = {slot: tangents[node.operands[slot]] for slot in _live_slots(node, live)}
            tangents[node] = push_all(node, given, variable.shape)
    terms = [
        _compose(cotangent, tangents[node], node.rank)
        for node, cotangent in cotangents.items()
        if node in tangents
    ]
    return add(terms, output.shape + variable.shape)


def _live_slots(node: Node, live: set[Node]) -> list[int]:
    return [slot for slot, operand in enumerate(node.operands) if operand in live and is_active(node, slot)]


def cross_country(output: Node, variables: Sequence[Node], machine: Machine = PLAIN_MACHINE) -> list[Node]:
    """Eliminate inner nodes one by one, always the cheapest first.

    Costs are those of structured products (what a product of patterns really costs), so two diagonal
    partials are multiplied as vectors before either meets a matrix.
    """
    return _Elimination(output, variables, Products(), machine).run()


def lowest_order_first(output: Node, variables: Sequence[Node]) -> list[Node]:
    """Eliminate inner nodes one by one, those whose products have the lowest order first (paper 3)."""
    return _Elimination(output, variables, Products(), None).run()


PRODUCTS_PER_PARTIAL = 6
"""After this many products for each partial a search has filled the graph in and goes on in reverse order."""


class _Weighed(NamedTuple):
    """A product of two partials with its cost and the entries it leaves."""

    node: Node
    cost: float
    entries: float


class SearchEnded(Exception):
    """A search for a good order of elimination has made as many products as it may."""


class Products:
    """Partials and products of two of them, each made once for all orders of elimination.

    `most_terms` limits the terms of the products that are made: they are what a search spends its time on.
    """

    def __init__(self, most_terms: float = math.inf) -> None:
        self.most_terms = most_terms
        self._partials: dict[tuple[Node, int], Node] = {}
        self._products: dict[tuple[Node, Node, int], Node] = {}

    def partial(self, node: Node, slot: int) -> Node:
        """The partial of a node by an operand."""
        if (node, slot) not in self._partials:
            self._partials[node, slot] = partial(node, slot)
        return self._partials[node, slot]

    def compose(self, left: Node, right: Node, rank: int) -> Node:
        """The product of two partials over so many axes."""
        key = left, right, rank
        if key not in self._products:
            if self.most_terms <= 0:
                raise SearchEnded
            made = self._products[key] = _compose(*key)
            self.most_terms -= len(made.operands) if isinstance(made, Add) else 1
        return self._products[key]


class _Elimination:
    """The linearised DAG: `down[node][operand]` is the partial between them, `up` its mirror.

    Without a machine to say what is cheapest, products of the lowest order come first.
    """

    def __init__(
        self, output: Node, variables: Sequence[Node], made: Products, machine: Machine | None
    ) -> None:
        self.output, self.variables, self.made, self.machine = output, variables, made, machine
        order = topological([output])
        live = dependents(order, variables)
        self.position = {node: k for k, node in enumerate(order)}
        self.down: dict[Node, dict[Node, Node]] = {node: {} for node in order if node in live}
        self.up: dict[Node, dict[Node, None]] = {node: {} for node in order if node in live}
        for node in self.down:
            for slot in _live_slots(node, live):
                self._connect(node, node.operands[slot], made.partial(node, slot))
        self.products: dict[tuple[Node, Node, int], _Weighed] = {}

    def _connect(self, upper: Node, lower: Node, tensor: Node) -> None:
        previous = self.down[upper].get(lower)
        self.down[upper][lower] = tensor if previous is None else add([previous, tensor], tensor.shape)
        self.up[lower][upper] = None

    def run(self) -> list[Node]:
        """The derivatives by the variables."""
        keep = {self.output, *self.variables}
        costs = {node: self._cost(node) for node in self.down if node not in keep}
        queue = [self._entry(node, cost) for node, cost in costs.items()]
        heapq.heapify(queue)
        budget = PRODUCTS_PER_PARTIAL * sum(map(len, self.down.values()))
        while queue and len(self.products) <= budget:
            *cost, _, node = heapq.heappop(queue)
            if costs.get(node) != tuple(cost):
                continue  # eliminated, or its cost has changed since
            del costs[node]
            for neighbour in self._eliminate(node):
                if neighbour in costs:
                    costs[neighbour] = self._cost(neighbour)
                    heapq.heappush(queue, self._entry(neighbour, costs[neighbour]))
        for node in sorted(costs, key=lambda node: -self.position[node]):
            self._eliminate(node)
        return [self._result(variable) for variable in self.variables]

    def _entry(self, node: Node, cost: tuple[float, float]) -> tuple[float, float, int, Node]:
        return (*cost, -self.position[node], node)  # the position breaks ties: as in reverse mode

    def _result(self, variable: Node) -> Node:
        shape = self.output.shape + variable.shape
        if variable is self.output:
            return delta(variable.shape)
        return self.down.get(self.output, {}).get(variable, zero(shape))

    def _product(self, upper: Node, node: Node, lower: Node) -> _Weighed:
        key = self.down[upper][node], self.down[node][lower], node.rank
        found = self.products.get(key)
        if found is None:
            product = self.made.compose(*key)
            cost = core_order(product) if self.machine is None else _time(product, self.machine)
            found = self.products[key] = _Weighed(product, cost, core_entries(product))
        return found

    def _cost(self, node: Node) -> tuple[float, float]:
        """What to eliminate first: the cost of a node's products, and the entries they leave."""
        products = [self._product(upper, node, lower) for upper in self.up[node] for lower in self.down[node]]
        costs = [product.cost for product in products]
        total = max(costs, default=0) if self.machine is None else sum(costs)
        return total, sum([product.entries for product in products])

    def _eliminate(self, node: Node) -> list[Node]:
        uppers, lowers = list(self.up[node]), list(self.down[node])
        for upper in uppers:
            for lower in lowers:
                self._connect(upper, lower, self._product(upper, node, lower).node)
            del self.down[upper][node]
        for lower in lowers:
            del self.up[lower][node]
        del self.up[node], self.down[node]
        return uppers + lowers


def _compose(left: Node, right: Node, inner: int) -> Node:
    """`left [a…, m…]` times `right [m…, b…]`."""
    outer = left.rank - inner
    axes = plain_axes(left.rank + right.rank - inner)
    ranges = left.shape + right.shape[inner:]
    output = axes[:outer] + axes[left.rank :]
    shape = left.shape[:outer] + right.shape[inner:]
    return einsum([left, right], [axes[: left.rank], axes[outer:]], output, shape, ranges)


def _time(node: Node, machine: Machine) -> float:
    """The cost of a product of two partials (a sum of products where they have several patterns)."""
    terms = node.operands if isinstance(node, Add) else (node,)
    return sum(einsum_cost(term).time(machine) for term in terms if isinstance(term, Einsum))


MODES: Mapping[str, Mode] = {
    "forward": forward,
    "reverse": reverse,
    "two-sided": two_sided,
    "cross-country": cross_country,
    "lowest-order-first": lowest_order_first,
}
"""The orders of multiplication by name."""
SEARCHES = ("cross-country", "lowest-order-first")
"""Modes that look for an order, whose time is not linear in the size of the expression."""


def derivatives(
    mode: str, output: Node, variables: Sequence[Node], made: Products, machine: Machine
) -> list[Node]:
    """The derivatives in a mode, with partials and products that another mode may have made.

    Raises `SearchEnded` where that takes more products than may be made.
    """
    if mode in SEARCHES:
        return _Elimination(output, variables, made, machine if mode == "cross-country" else None).run()
    return MODES[mode](output, variables)
