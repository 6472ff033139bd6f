"""Curvature of every node by composition: what a function makes of an operand that is convex or concave.

This is the part that knows about kinks (where a Hessian says nothing) and about domains, which must be
convex sets. Entries of a tensor are functions of their own: a tensor is convex if all its entries are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from hesse.convexity.facts import Facts
from hesse.convexity.reflection import Reflection, plain_outline, reflections
from hesse.convexity.terms import Term, TooLarge, constant_exponent, expand
from hesse.ir import Add, Apply, Einsum, Map, Node, reshape, topological, unscaled
from hesse.ops.behaviour import Behaviour, Domain, power_behaviour
from hesse.ops.elementwise import LOGARITHM
from hesse.ops.ranges import NONNEGATIVE, UNKNOWN, Range, product
from hesse.ops.registry import ELEMENTWISE, OPERATIONS, Linear, printed_name, record_of
from hesse.ops.special import X_LOG_X

Curvature = Literal["constant", "affine", "convex", "concave", "unknown"]
FLIPPED: dict[Curvature, Curvature] = {"convex": "concave", "concave": "convex"}
MISSING: dict[Domain, str] = {
    "all": "",
    "upper": "its operand is known neither to be large enough nor to be concave",
    "positive": "its operand is not known to be positive",
    "nonzero": "its operand is not known to be positive or negative",
    "definite": "its operand is not known to be positive definite",
}
"""What must be known of the operand of a function for its domain to be convex."""


class Analysis(NamedTuple):
    """What is known of a node as a function of the variable.

    `smooth` says that it has two continuous derivatives inside its domain, `convex_domain` that its domain
    is known to be a convex set (else `reason` says where it is not).
    """

    curvature: Curvature
    smooth: bool = True
    convex_domain: bool = True
    reason: str = ""


Proof = Callable[[Node], Analysis | None]
CONSTANT = Analysis("constant")


def analyse(root: Node, variable: Node, facts: Facts, second_opinion: Proof | None = None) -> Analysis:
    """The analysis of a node; `second_opinion` is asked where composition does not decide.

    It is asked about the root first, and about the operands of a node only if it does not know the node.
    """
    rules, order = _Rules(variable, facts), topological([root])
    first = rules.composed(order, {})
    if second_opinion is None or not _is_open(first.get(root)):
        return first.get(root, CONSTANT)
    asked, opinions = {root}, {}
    for node in reversed(order):
        if node in asked and _is_open(first.get(node)):
            opinion = second_opinion(node)
            if opinion is None:
                asked.update(node.operands)
            else:
                opinions[node] = opinion
    return rules.composed(order, opinions)[root]


def _is_open(found: Analysis | None) -> bool:
    """Whether a second opinion may help."""
    return found is not None and found.curvature == "unknown" and found.smooth and found.convex_domain


class _Rules:
    """The rules of composition, and what they found; a node that is not in `known` is constant."""

    def __init__(self, variable: Node, facts: Facts) -> None:
        self.variable, self.facts = variable, facts
        self.known: dict[Node, Analysis] = {}

    def composed(self, order: Sequence[Node], given: Mapping[Node, Analysis]) -> Mapping[Node, Analysis]:
        """The analyses of nodes, operands first, by composition where they are not given."""
        self.known = {self.variable: Analysis("affine", reason="affine"), **given}
        for node in order:
            operands = [self.known.get(operand, CONSTANT) for operand in node.operands]
            if node not in given and any(operand.curvature != "constant" for operand in operands):
                self.known[node] = self.of(node, operands)
        return self.known

    def of(self, node: Node, operands: Sequence[Analysis]) -> Analysis:
        """The analysis of a node from those of its operands, of which one at least is not constant."""
        outside = next((operand for operand in operands if not operand.convex_domain), None)
        if outside is not None:
            return outside._replace(curvature="unknown")
        match node:
            case Einsum():
                found = self._product(node, operands)
            case Add():
                found = _sum(operands)
            case Map():
                found = self._map(node, operands)
            case _:
                assert isinstance(node, Apply)
                found = self._operation(node, operands)
        return found._replace(smooth=found.smooth and all(operand.smooth for operand in operands))

    def _product(self, node: Einsum, operands: Sequence[Analysis]) -> Analysis:
        moving = [k for k, operand in enumerate(operands) if operand.curvature != "constant"]
        if len({(node.operands[k], node.axes[k]) for k in moving}) > 1:
            return self._power(node)
        others = [self.facts.range_of(op) for k, op in enumerate(node.operands) if k not in moving]
        inner = operands[moving[0]]
        if len(moving) > 1:
            base = self.facts.range_of(node.operands[moving[0]])
            inner = _composed(f"the power {len(moving)}", power_behaviour(len(moving)), inner, base)
        return _weighted(inner, product(others).scaled(node.scale))

    def _power(self, node: Einsum) -> Analysis:
        """A product of several functions of the variable that is a power of one: t * sqrt(t) = t^1.5."""
        undecided = Analysis("unknown", reason="a product of two functions of the variable")
        try:
            (term,) = expand(node, None)
        except (TooLarge, ValueError):  # too large, or a sum after multiplying out
            return undecided
        term = _gathered(term)
        moving = [factor for factor in term.factors if self._curvature(factor.base) != "constant"]
        if len(moving) != 1 or moving[0].base not in self.known:
            return undecided
        ranges = [self.facts.range_of(f.base).power(f.exponent) for f in term.factors if f not in moving]
        ((base, _, exponent),) = moving
        behaviour = power_behaviour(exponent)
        inner = _composed(f"the power {exponent:g}", behaviour, self.known[base], self.facts.range_of(base))
        return _weighted(inner, product(ranges).scaled(term.scale))

    def _map(self, node: Map, operands: Sequence[Analysis]) -> Analysis:
        ranges = [self.facts.range_of(operand) for operand in node.operands]
        first = operands[0]
        if node.name == "sqrt" and self._is_squared_norm(node.operands[0]):
            smooth = ranges[0].is_positive
            return Analysis("convex", smooth, reason="the Euclidean norm of an affine function is convex")
        if (
            node.name == "log"
            and isinstance(inside := node.operands[0], Apply)
            and inside.name == "determinant"
        ):
            return self._definite_operation("log_determinant", inside, self.known[inside.operands[0]], True)
        exponent = constant_exponent(node) if node.name == "power" else None
        if exponent is not None:
            return _composed(f"the power {exponent:g}", power_behaviour(exponent), first, ranges[0])
        behaviour = ELEMENTWISE[node.name].behaviour
        if behaviour is not None and len(operands) == 1:
            return _composed(node.name, behaviour, first, ranges[0])
        match node.name:
            case "where" if first.curvature == "constant":
                return _sum(operands[1:])  # one of them at each entry: what holds of sums holds of either
            case "xlogy" if node.operands[0] is node.operands[1]:
                return _composed("x*log(x)", X_LOG_X, first, ranges[0])
            case "xlogy" if first.curvature == "constant":
                return _weighted(_composed("log", LOGARITHM, operands[1], ranges[1]), ranges[0])
        return _by_behaviour(node.name, behaviour, operands)

    def _is_squared_norm(self, node: Node) -> bool:
        """Whether the node is |u|^2, in any inner product, for an affine u, perhaps with a constant."""
        try:
            terms = expand(node, None)
        except TooLarge:
            return False
        return all(
            any(
                found.sign * term.scale > 0 and self._has_affine_half(found)
                for found in reflections(term, plain_outline(len(term.output), 0), self.facts.knowledge)
            )
            for term in terms
        )

    def _has_affine_half(self, found: Reflection) -> bool:
        squares = [factor for factor in found.fixed if factor.exponent == 2]
        halves = [*(pair[0]._replace(exponent=2 * pair[0].exponent) for pair in found.pairs), *squares]
        others = [*found.bridges, *(factor for factor in found.fixed if factor.exponent != 2)]
        if any(self._curvature(factor.base) != "constant" for factor in others):
            return False
        moving = [factor for factor in halves if self._curvature(factor.base) != "constant"]
        return len(moving) <= 1 and all(
            factor.exponent == 2 and self._curvature(factor.base) == "affine" for factor in moving
        )

    def _curvature(self, node: Node) -> Curvature:
        """The curvature of any node, one that multiplying out has made included."""
        if node in self.known:
            return self.known[node].curvature
        return "unknown" if self.variable in topological([node]) else "constant"

    def _operation(self, node: Apply, operands: Sequence[Analysis]) -> Analysis:
        first, *others = operands
        rest_is_constant = all(operand.curvature == "constant" for operand in others)
        extremum = _extremum(node)
        if extremum is not None:
            return _increasing("max" if extremum == "convex" else "min", [first], extremum, smooth=False)
        record = record_of(node)
        if record.behaviour is not None and record.behaviour.domain == "definite":
            return self._definite_operation(node.name, node, first, rest_is_constant)
        if node.name == "kron" and (first.curvature == "constant" or rest_is_constant):
            place = 1 if first.curvature == "constant" else 0
            return _weighted(operands[place], self.facts.range_of(node.operands[1 - place]))
        if not rest_is_constant:
            return Analysis("unknown", smooth=False, reason=f"no rule for {node.name}")
        if isinstance(record, Linear):
            # what is linear and makes nothing negative has no negative coefficients
            kept = record.range(NONNEGATIVE, *[UNKNOWN] * len(others))
            return _weighted(first, NONNEGATIVE if kept.is_nonnegative else UNKNOWN)
        return _by_behaviour(node.name, record.behaviour, [first])

    def _definite_operation(
        self, name: str, node: Apply, first: Analysis, rest_is_constant: bool
    ) -> Analysis:
        if first.curvature == "constant":
            return Analysis("affine", reason="affine")  # only the right-hand side of a system varies
        if first.curvature != "affine" or not self.facts.is_semidefinite(node.operands[0]):
            reason = f"{name} is only known to be defined on a convex set for affine psd matrices"
            return Analysis("unknown", convex_domain=False, reason=reason)
        behaviour = OPERATIONS[name].behaviour
        curvature = "unknown" if behaviour is None or not rest_is_constant else behaviour.curvature()
        if curvature == "unknown":
            return Analysis("unknown", reason=f"no rule for {name}")
        reason = f"{printed_name(name)} of positive definite matrices is {curvature}"
        return Analysis(curvature, reason=reason)


def _gathered(term: Term) -> Term:
    """A base that was multiplied out put together again: sum(x^2) * t^0.5 = t^1.5 for t = sum(x^2)."""
    for factor in term.factors:
        rest = term._replace(factors=tuple(other for other in term.factors if other is not factor), scale=1.0)
        if not factor.axes and unscaled(rest.node()) == unscaled(factor.base):
            return term._replace(factors=(factor._replace(exponent=factor.exponent + 1),))
    return term


def _sum(operands: Sequence[Analysis]) -> Analysis:
    kinds = {operand.curvature for operand in operands} - {"constant"}
    if "unknown" in kinds or kinds >= {"convex", "concave"}:
        undecided = [operand.reason for operand in operands if operand.curvature == "unknown"]
        return Analysis("unknown", reason=undecided[0] if undecided else "a convex and a concave term")
    curved = [operand for operand in operands if operand.curvature in ("convex", "concave")]
    if not curved:
        return Analysis("affine", reason="affine")
    reasons = "; ".join(dict.fromkeys(operand.reason for operand in curved))
    return Analysis(curved[0].curvature, reason=reasons)


def _weighted(inner: Analysis, weight: Range) -> Analysis:
    """The analysis of a function times constants in a range."""
    if inner.curvature in ("affine", "unknown") or weight.is_nonnegative:
        return inner
    if weight.is_nonpositive:
        return inner._replace(curvature=FLIPPED[inner.curvature], reason=f"minus: {inner.reason}")
    return inner._replace(curvature="unknown", reason="a factor of unknown sign")


def _increasing(name: str, operands: Sequence[Analysis], curvature: Curvature, smooth: bool) -> Analysis:
    """A function of this curvature that increases in every operand."""
    kinds = {operand.curvature for operand in operands}
    if kinds <= {"constant", "affine", curvature}:
        return Analysis(curvature, smooth, reason=f"{name} is {curvature} and increasing")
    return Analysis("unknown", smooth, reason=f"{name} of functions that are not {curvature}")


def _by_behaviour(name: str, behaviour: Behaviour | None, operands: Sequence[Analysis]) -> Analysis:
    """A function of whole tensors, or of several operands, by what is known of it everywhere."""
    if behaviour is None:
        return Analysis("unknown", smooth=False, reason=f"no rule for {name}")
    curvature = behaviour.curvature()
    if curvature != "unknown" and behaviour.direction() == 1:
        return _increasing(name, operands, curvature, behaviour.smooth)
    if curvature != "unknown" and all(operand.curvature in ("constant", "affine") for operand in operands):
        return Analysis(curvature, behaviour.smooth, reason=f"{name} of an affine function is {curvature}")
    return Analysis("unknown", behaviour.smooth, reason=f"no rule for {name}")


def _composed(name: str, behaviour: Behaviour, inner: Analysis, operand: Range) -> Analysis:
    """f(g(x)): f convex and g affine, f convex and increasing and g convex, and so on."""
    bounded = behaviour.domain == "upper" and inner.curvature in ("affine", "concave")
    if not behaviour.is_defined(operand) and not bounded:
        reason = f"the domain of {name} is not known to be convex: {MISSING[behaviour.domain]}"
        return Analysis("unknown", convex_domain=False, reason=reason)
    inside = not behaviour.closed or behaviour.is_inside(operand) or inner.curvature == "affine"
    smooth = behaviour.smooth and inside
    curvature, direction = behaviour.curvature(operand), behaviour.direction(operand)
    if inner.curvature == "affine" and curvature != "unknown":
        return Analysis(curvature, smooth, reason=f"{name} is {curvature}")
    fits = (inner.curvature == curvature and direction == 1) or (
        inner.curvature == FLIPPED.get(curvature) and direction == -1
    )
    if curvature == "unknown" or not fits:
        return Analysis("unknown", smooth, reason=f"{name} of a function with other curvature")
    trend = "increasing" if direction == 1 else "decreasing"
    return Analysis(
        curvature, smooth, reason=f"{name} is {curvature} and {trend}, its operand {inner.curvature}"
    )


def _extremum(node: Apply) -> Literal["convex", "concave"] | None:
    """Whether the node is a maximum (convex) or a minimum (concave) of entries of its operand."""
    if node.name != "gather":
        return None
    whole, index = node.operands
    if isinstance(index, Apply) and index.name == "flat_index":
        index = index.operands[0]
    if not isinstance(index, Apply) or index.name not in ("argmax", "argmin"):
        return None
    source = index.operands[0]
    if source is not whole and reshape(source, whole.shape) is not whole:
        return None
    return "convex" if index.name == "argmax" else "concave"
