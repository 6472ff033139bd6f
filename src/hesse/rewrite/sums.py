"""Sums inside sums: `(a + b) + c = a + b + c`, where nobody else uses `a + b`.

What others use stays whole, be it used itself or as a multiple: the k-th of the sums `s = 0.9*s + x[k]` would
hold k terms, all computed again. A sum that grows term by term is built once, not with every term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hesse.ir import Add, Node, add, unscaled
from hesse.rewrite.factor import LARGEST_SUM, factor


class LongSum(NamedTuple):
    """A sum that is not built, because the sum around it will hold its terms."""

    parts: Sequence[Node | LongSum]
    length: int

    def terms(self) -> Iterator[Node]:
        """The terms, those of sums inside included."""
        stack: list[Node | LongSum] = [self]
        while stack:
            part = stack.pop()
            if isinstance(part, LongSum):
                stack += reversed(part.parts)
            else:
                yield part


class Sums:
    """The sums of an expression, merged and factored; `uses` says how often each of its nodes is used."""

    def __init__(self, order: Iterable[Node], uses: Mapping[Node, int]) -> None:
        self.uses = uses
        sums = [node for node in order if isinstance(node, Add)]
        self.inside = {term for node in sums for term in node.operands if uses[term] == 1}
        """What a sum uses, and nobody else."""

    def simplified(self, node: Add, operands: Sequence[Node | LongSum]) -> Node | LongSum:
        """The sum of what its operands have become."""
        pairs = list(zip(node.operands, operands, strict=True))
        parts = [_opened(new) if old in self.inside else new for old, new in pairs]
        count = sum(part.length if isinstance(part, LongSum) else 1 for part in parts)
        if count > max(LARGEST_SUM, len(parts)):
            whole = LongSum(parts, count)
            return whole if node in self.inside else add(whole.terms(), node.shape)
        built = [(old, new) for old, new in pairs if isinstance(new, Node)]  # a LongSum is longer than that
        return self._factored(self._merged(node, built))

    def _merged(self, node: Add, pairs: Sequence[tuple[Node, Node]]) -> Node:
        terms = [new for _, new in pairs]
        alone: list[Node] = []
        shared: list[Node] = []
        for old, new in pairs:
            base, _ = unscaled(new)
            if isinstance(base, Add):  # the terms of a long sum are not multiplied one by one
                is_short = base is new or len(base.operands) + len(terms) <= LARGEST_SUM
                (alone if is_short and self._is_alone(old) else shared).append(new)
        whole = add(terms, node.shape, flatten=alone) if alone or terms != [*node.operands] else node
        for term in shared:  # what cancels is gone, what does not is not computed again
            if len(unscaled(term)[0].operands) <= len(terms):
                merged = add(terms, node.shape, flatten=[*alone, term])
                if _count(merged) <= _count(whole):
                    whole, alone = merged, [*alone, term]
        return whole

    def _is_alone(self, operand: Node) -> bool:
        """Whether nobody else uses an operand of a sum, nor the tensor that it is a multiple of."""
        base, _ = unscaled(operand)
        most = 1 if base is operand else 2  # a multiple uses it as its operand and as its core
        return operand in self.inside and self.uses.get(base, 0) <= most

    def _factored(self, whole: Node) -> Node:
        if not isinstance(whole, Add) or len(whole.operands) < 2:
            return whole
        protected = [term for term in whole.operands if self.uses.get(term, 1) > 1]
        factored = factor([term for term in whole.operands if self.uses.get(term, 1) <= 1], whole.shape)
        if len(factored) + len(protected) == len(whole.operands):
            return whole
        return add([*factored, *protected], whole.shape)


def _opened(part: Node | LongSum) -> Node | LongSum:
    return LongSum(part.operands, len(part.operands)) if isinstance(part, Add) else part


def _count(node: Node) -> int:
    return len(node.operands) if isinstance(node, Add) else 1
