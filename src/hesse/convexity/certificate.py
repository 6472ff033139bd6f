"""Certificates of convexity, from the symbolic Hessian and from rules of composition.

The idea is that of "Convexity certificates from Hessians" (Klaus, Merk, Wiedom, Laue, Giesen, 2022): bring
the symbolic Hessian into a normal form and read off that it is positive semidefinite. A Hessian says nothing
at a kink and nothing about the domain; there `curvature` decides. Nothing is claimed on numerical evidence.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from hesse.calculus import differentiate
from hesse.convexity.curvature import Analysis, analyse
from hesse.convexity.facts import Facts
from hesse.convexity.reflection import Outline
from hesse.convexity.semidefinite import Proof
from hesse.errors import ArgumentError
from hesse.ir import Einsum, Map, Node, Variable, is_zero, topological
from hesse.printing import text
from hesse.rewrite import simplify

Verdict = Literal["convex", "concave", "unknown"]
MOST_HESSIANS = 4
"""How many inner functions are looked at by their Hessian where composition does not decide."""
LARGEST_GRAPH = 150
"""Hessians of expressions with more nodes are not analysed: multiplied out they are too large."""
LONGEST_FORMULA = 100
LARGEST_FORMULA = 14
"""Hessians of more characters, or nodes, are not written out in a reason."""


class Convexity(NamedTuple):
    """Whether a function is convex in a variable, and why; "unknown" says that nothing was shown."""

    verdict: Verdict
    reason: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.reason}"


def convexity(node: Node, variable: Variable) -> Convexity:
    """Whether a scalar function is convex or concave in a variable, for all values of the other variables.

    The function is taken on its natural domain, on which what is declared of the variables holds: a
    `positive` variable is positive, a `psd` one positive definite where it is inverted. An affine function is
    called convex.

    >>> import numpy as np, hesse
    >>> from hesse.convexity import convexity
    >>> A, x = hesse.variable("A", ("m", "n")), hesse.variable("x", ("n",))
    >>> print(convexity(np.sum(np.exp(A @ x)).node, x.node))
    convex: the Hessian A'*diag(exp(A*x))*A has the form B'*D*B with D >= 0
    """
    if node.rank:
        raise ArgumentError(
            f"convexity is a property of a scalar function, but this one has shape {node.shape}; "
            "ask for the sum of its entries or for one of them"
        )
    (node,) = simplify([node])
    hessians = _Hessians(variable)
    analysis = analyse(node, variable, hessians.facts)
    if analysis.curvature == "constant":
        return Convexity("convex", f"affine: it does not depend on {variable.name}")
    found = hessians.analysis(node) if analysis.smooth and analysis.convex_domain else None
    if found is None and analysis.curvature == "unknown":
        found = analyse(node, variable, hessians.facts, hessians.analysis)
    return _verdict(found or analysis, hessians)


def _verdict(analysis: Analysis, hessians: _Hessians) -> Convexity:
    match analysis.curvature:
        case "affine" | "constant":
            return Convexity("convex", "affine: the Hessian is zero and there are no kinks")
        case "convex" | "concave":
            return Convexity(analysis.curvature, analysis.reason)
    if analysis.convex_domain and analysis.smooth:
        return Convexity("unknown", hessians.undecided or analysis.reason)
    return Convexity("unknown", analysis.reason)


class _Hessians:
    """Second derivatives by one variable, each looked at once."""

    def __init__(self, variable: Variable) -> None:
        self.variable, self.facts = variable, Facts()
        self.undecided = ""
        self._known: dict[Node, Analysis | None] = {}

    def analysis(self, node: Node) -> Analysis | None:
        """What the second derivative shows of a smooth function (of each entry); None if nothing."""
        if node not in self._known:
            inner = self._weighed(node)
            if isinstance(inner, Map) and self._known.get(inner, node) is None:
                return None  # sums of entries, unlike y'*inv(X)*y, have no more structure than the entries
            if len(self._known) > MOST_HESSIANS or len(topological([node])) > LARGEST_GRAPH:
                return None
            self._known[node] = self._derived(node)
            if self._known[node] is None and inner is not None:
                self._known[inner] = None  # a sum of Hessians of known signs would have shown it
        return self._known[node]

    def _weighed(self, node: Node) -> Node | None:
        """`u` if the node is a sum of entries of u times constants."""
        if not isinstance(node, Einsum):
            return None
        moving = [part for part in node.operands if self.variable in topological([part])]
        return moving[0] if len(moving) == 1 else None

    def _derived(self, node: Node) -> Analysis | None:
        (gradient,) = differentiate(node, [self.variable], "reverse")
        (hessian,) = differentiate(gradient, [self.variable], "reverse")
        if is_zero(hessian):
            return Analysis("affine", reason="affine")
        written = _written(hessian) if node.rank == 0 and hessian.rank <= 2 else ""
        outline = self._outline(node.rank)
        proof = self.facts.proof(hessian, outline)
        if proof is not None:
            verdict: Verdict = "convex" if proof.sign > 0 else "concave"
            return Analysis(verdict, reason=f"the Hessian{written} {_form(hessian, proof)}")
        self.undecided = self.undecided or f"the sign of the Hessian{written} is not known"
        return None

    def _outline(self, lead: int) -> Outline:
        rank = self.variable.rank
        order = tuple(range(rank))
        # Of symmetric matrices only: the form sees V' and V alike.
        swapped = [order[::-1]] if "symmetric" in self.variable.attributes else []
        return Outline(lead, rank, (order, *swapped))


def _written(hessian: Node) -> str:
    if len(topological([hessian])) > LARGEST_FORMULA:
        return ""
    formula = text(hessian)
    return f" {formula}" if len(formula) <= LONGEST_FORMULA else ""


def _form(hessian: Node, proof: Proof) -> str:
    is_positive = proof.sign > 0
    form = f"{'' if is_positive else '-'}B'*D*B with D >= 0"
    if hessian.rank == 0:
        return f"is not {'negative' if is_positive else 'positive'}"
    if proof.laws:
        return f"is {'positive' if is_positive else 'negative'} semidefinite since {' and '.join(proof.laws)}"
    return f"is a sum of terms of the form {form}" if proof.terms > 1 else f"has the form {form}"
