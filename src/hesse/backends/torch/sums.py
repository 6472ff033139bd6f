"""Sums whose terms are products: PyTorch multiplies and adds in one pass over memory, with one launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hesse.backends.text import Dialect, Labels, dense_labels
from hesse.plan.program import Combine, Contract, Placed, Program, Ref, Scale, sources

MOST_NESTED = 50
"""So many terms are added in one expression of calls; Python reads 200 parentheses inside each other."""


class Term(NamedTuple):
    """A dense term of a sum: a number times one value, or two; each by name with its axes aligned."""

    factor: float
    parts: tuple[str, ...]

    def added_to(self, total: str, is_flat: bool) -> str:
        """The sum with this term; flat ones call nothing for it.

        `torch.compile` forgets `alpha` where the term is a product of matrices (PyTorch 2.11 and 2.13).
        """
        if len(self.parts) == 2:
            return f"torch.addcmul({total}, {', '.join(self.parts)}, value={self.factor!r})"
        (part,) = self.parts
        if abs(self.factor) == 1:
            return f"{total} {'-' if self.factor < 0 else '+'} {part}"
        if is_flat:
            return f"{total} + {self.alone}"
        return f"torch.add({total}, {part}, alpha={self.factor!r})"

    @property
    def alone(self) -> str:
        """The term where nothing stands before it."""
        text = " * ".join(self.parts)
        if self.factor == 1:
            return text
        return f"-{text}" if self.factor == -1 else f"{self.factor!r} * {text}"


class Sums:
    """The multiples and the products that only one sum reads: they are not made themselves."""

    def __init__(self, program: Program, is_fused: bool = False) -> None:
        self.program, self.is_fused = program, is_fused
        read = [source for item in program.instructions for source in sources(item)]
        self.reads = Counter([*read, *program.results])
        self.inside: set[Ref] = set()
        for k, item in enumerate(program.instructions):
            if isinstance(item, Combine):
                self.inside.update(self._taken(item, program.shapes[k]))

    def _taken(self, item: Combine, shape: tuple[int, ...]) -> Iterator[Ref]:
        dense = [term for term in item.terms if term.is_dense(shape)]
        if not 2 <= len(dense) <= MOST_NESTED:
            return
        insides = [self._unscaled(term) for term in dense]
        products = [(ref, factor) for ref, factor in insides if self._is_product(ref)]
        if len(products) == len(dense):  # something must be there that products are added to
            products.remove(min(products, key=lambda product: product[1] != 1))
        yield from (ref for ref, _ in products)
        yield from (term.source for term, (ref, _) in zip(dense, insides, strict=True) if ref != term.source)

    def _unscaled(self, term: Placed) -> tuple[Ref, float]:
        item = self.program.instructions[term.source]
        if isinstance(item, Scale) and self.reads[term.source] == 1:
            return item.source, term.factor * item.factor
        return term.source, term.factor

    def _is_product(self, ref: Ref) -> bool:
        item = self.program.instructions[ref]
        return isinstance(item, Contract) and self.reads[ref] == 1 and not item.is_sum

    def read(self, ref: Ref) -> Iterator[Ref]:
        """What an instruction reads, through what is not made itself."""
        for source in sources(self.program.instructions[ref]):
            if source in self.inside:
                yield from self.read(source)
            else:
                yield source

    def last_uses(self) -> dict[Ref, int]:
        """For each value the last instruction that reads it."""
        last = {source: k for k in range(len(self.program.instructions)) for source in self.read(k)}
        return last | {result: len(self.program.instructions) for result in self.program.results}

    def text(self, terms: list[Placed], names: Mapping[Ref, str] | list[str], dialect: Dialect) -> str:
        """Dense terms added up: first what is no product, beginning with a positive one."""
        found = [self._term(term, names, dialect) for term in terms]
        found.sort(key=lambda term: (len(term.parts), abs(term.factor) != 1, term.factor < 0))
        is_flat = self.is_fused or len(found) > MOST_NESTED
        total = found[0].alone
        for term in found[1:]:
            total = term.added_to(total, is_flat)
        return total

    def _term(self, term: Placed, names: Mapping[Ref, str] | list[str], dialect: Dialect) -> Term:
        output = dense_labels(term)
        ref, factor = term.source, term.factor
        item = self.program.instructions[ref]
        if ref in self.inside and isinstance(item, Scale):
            ref, factor = item.source, factor * item.factor
            item = self.program.instructions[ref]
        if ref not in self.inside:
            return Term(factor, (dialect.aligned(names[ref], term.labels, output),))
        assert isinstance(item, Contract)
        renamed = dict(zip(item.labels, term.labels, strict=True))
        sides = ((item.left, item.left_labels), (item.right, item.right_labels))
        parts = [dialect.aligned(names[k], _renamed(labels, renamed), output) for k, labels in sides]
        return Term(factor, tuple(parts))


def _renamed(labels: Labels, names: Mapping[int, int]) -> Labels:
    return tuple(names[label] for label in labels)
