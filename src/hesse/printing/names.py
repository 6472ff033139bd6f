"""Names for parts of formulas, and letters for indices.

Names respect the default types of the matrix language: a-g are scalars, h-z vectors, A-Z matrices.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Collection, Iterable, Iterator

from hesse.ir import Add, Apply, Map, Node, Variable, size_names, topological

SCALARS = "cdefgab"
VECTORS = "pqrstuvwzhxy"
MATRICES = "BCDEFGKLMPQRSUVWZAHJXYT"
TENSORS = "TRSUVWBCDEFG"
NUMBERED = "ctTT"
MEANINGS = {"softmax": "p", "sigmoid": "s", "exp": "u", "sum": "r", "inverse": "C", "tanh": "t"}
"""Letters for the results of some functions; a matrix takes the upper case."""
AXES = "ijklmnopqrstuvwxyzabcdefgh"
SUMMED = "pqrstuvwxyzmnabcdefghijklo"
LEFT_SIDES = {1: "ghu", 2: "HGB", 3: "TRS"}
"""Names for the left sides of formulas with indices, by the number of indices."""


class Names:
    """The names in use in a formula: those of variables, sizes that are printed, parts and indices."""

    def __init__(self, roots: Iterable[Node], taken: Iterable[str] = ()) -> None:
        order = topological(roots)
        self._sizes = {name for node in order for size in node.shape for name in size_names(size)}
        self._taken = {node.name for node in order if isinstance(node, Variable)} | set(taken)
        self._letters: set[str] = set()
        self._numbered = {prefix: _numbered(prefix) for prefix in ("c", *NUMBERED)}

    def name(self, node: Node) -> str:
        """A new name for a node."""
        letters = (SCALARS, VECTORS, MATRICES, TENSORS)[min(node.rank, 3)]
        meant = MEANINGS.get(_kind(node), "")
        meant = meant.upper() if node.rank > 1 else meant
        wished = meant if node.rank and (meant.isupper() == (node.rank > 1)) else ""
        return self._first(itertools.chain(wished, letters, self._numbered[NUMBERED[min(node.rank, 3)]]))

    def constant(self) -> str:
        """A new name for an array of numbers."""
        return self._first(self._numbered["c"])

    def left_side(self, rank: int) -> str:
        """A name for a result with indices."""
        wished = LEFT_SIDES.get(rank, "HTG")
        name = next(name for name in itertools.chain(wished, _numbered("H")) if name not in self._taken)
        self._taken.add(name)
        return name

    def indices(self) -> set[str]:
        """The letters that indices have."""
        return self._letters

    def axes(self, rank: int) -> tuple[str, ...]:
        """Letters for the axes of a tensor."""
        free = (letter for letter in _letters(AXES) if letter not in self._taken)
        found = tuple(itertools.islice(free, rank))
        self._letters.update(found)
        return found

    def summed(self, count: int, axes: Collection[str]) -> tuple[str, ...]:
        """Letters for indices that are summed over, besides those of the axes."""
        free = (letter for letter in _letters(SUMMED) if letter not in self._taken and letter not in axes)
        found = tuple(itertools.islice(free, count))
        self._letters.update(found)
        return found

    def _first(self, wished: Iterable[str]) -> str:
        used = (self._taken, self._sizes, self._letters, "ijkl")
        name = next(name for name in wished if not any(name in names for names in used))
        self._taken.add(name)
        return name


def _kind(node: Node) -> str:
    match node:
        case Add():
            return "sum"
        case Map() | Apply():
            return node.name
    return ""


def _numbered(prefix: str) -> Iterator[str]:
    return (f"{prefix}{number}" for number in itertools.count(1))


def _letters(first: str) -> Iterator[str]:
    yield from first
    for number in itertools.count(1):
        yield from (f"{letter}{number}" for letter in string.ascii_lowercase)
