"""Which sizes the arguments bring along, and what must be checked about their shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from hesse.export.writer import Signature
from hesse.ir import Variable, size_names


@dataclass(frozen=True)
class Check:
    """What to do for one argument: take sizes from its axes, compare its other sizes with known ones."""

    variable: Variable
    new: tuple[tuple[str, int], ...]
    """Sizes to be taken from axes (only those that something needs)."""
    known: frozenset[str]
    """Sizes that have values when the new ones are taken."""

    @property
    def is_fixed(self) -> bool:
        """Whether some size must be a known one."""
        sizes = self.variable.shape
        taken = {size for size, _ in self.new}
        return not sizes or any(
            isinstance(size, int) or (self.knows(size) and (size not in taken or sizes.count(size) > 1))
            for size in sizes
        )

    def knows(self, size: str) -> bool:
        """Whether a size, or all the names of a product, have values."""
        return self.known.issuperset(size_names(size))


def checks(given: Signature, used: Collection[str]) -> list[Check]:
    """The checks for all arguments; `used` are the sizes that the computation needs."""
    counts = Counter(size for variable in given.variables for size in variable.shape)
    products = {size for size in counts if len(size_names(size)) > 1 or size not in size_names(size)}
    used = {*used, *(name for size in products for name in size_names(size))}
    known = set(given.sizes)
    found = []
    for variable in sorted(given.variables, key=lambda variable: not products.isdisjoint(variable.shape)):
        new = tuple(
            (size, variable.shape.index(size))
            for size in dict.fromkeys(variable.shape)
            if isinstance(size, str) and size not in known | products and (size in used or counts[size] > 1)
        )
        known.update(size for size, _ in new)
        found.append(Check(variable, new, frozenset(known)))
    return found
