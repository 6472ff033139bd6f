"""Arrays in C++ with Eigen: whole, or one entry as a function of indices.

Vectors and matrices are `VectorXd` and `MatrixXd`. Everything that works on entries, and all tensors of
higher order, are loops, so a term has up to two texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hesse.errors import MissingKernelError
from hesse.export.cpp_tables import CPP_WORDS, HELPERS
from hesse.export.terms import Function, Term
from hesse.export.writer import SIGNS, Level, Piece, Signature, Writer
from hesse.ir import Shape

Indices = Sequence[str]
Entry = Callable[[Indices], Piece]


@dataclass(frozen=True)
class Texts(Piece):
    """The text of a whole array, or (where `is_whole` is false) of one of its entries."""

    is_whole: bool = True
    entry: Entry | None = None


class EntryWriter(Writer):
    """Writes terms as whole arrays or entry by entry."""

    language = "cpp"
    signs: Mapping[str, str] = {**SIGNS, "logical_and": "&&", "logical_or": "||", "logical_not": "!"}

    def __init__(self, root: Term, given: Signature) -> None:
        self.reserved = {*HELPERS, *CPP_WORDS}
        self.costly: set[Term] = set()
        super().__init__(root, given)

    def infinite(self, value: float) -> str:
        return f"std::numeric_limits<double>::{'quiet_NaN' if math.isnan(value) else 'infinity'}()"

    def number(self, value: float) -> str:
        return repr(float(value)) if math.isfinite(value) else self.infinite(value)

    def unsupported(self, what: str) -> MissingKernelError:
        """The error for what cannot be written."""
        return MissingKernelError(f"{what} cannot be written in cpp code; export to numpy, torch or jax")

    def type_of(self, shape: Shape) -> str:
        """The type of an array."""
        return ("double", "VectorXd", "MatrixXd")[len(shape)] if len(shape) < 3 else f"Tensor<{len(shape)}>"

    def whole(self, term: Term, level: Level = Level.SUM) -> str:
        """The text of a whole array; where there is none the array gets a name."""
        piece = self.pieces[term]
        return piece.at(level) if not isinstance(piece, Texts) or piece.is_whole else self.name(term)

    def entry(self, term: Term, indices: Indices) -> Piece:
        """The text of an entry; where there is none the array gets a name."""
        if not term.rank:
            return self.pieces[term]
        piece = self.pieces[term]
        if not isinstance(piece, Texts) or piece.entry is None:
            self.name(term)
            piece = self.pieces[term]
        assert isinstance(piece, Texts) and piece.entry is not None
        return piece.entry(indices)

    def named_piece(self, name: str, term: Term) -> Piece:
        return (
            Texts(name, entry=lambda indices: Piece(f"{name}({', '.join(indices)})"))
            if term.rank
            else Piece(name)
        )

    def kept(self, term: Term) -> None:
        """Give a term a name if its entries are expensive and would be computed many times."""
        if term in self.costly and term.rank and term not in self.named:
            self.name(term)

    def by_entries(self, term: Term, entry: Entry) -> Texts:
        """A term that is written entry by entry."""
        if isinstance(term, Function) or any(t in self.costly and t not in self.named for t in term.operands):
            self.costly.add(term)
        dummy = entry(self.names.indices(term.rank))
        return Texts(dummy.text, dummy.level, dummy.negative, is_whole=False, entry=entry)

    def assign(self, name: str, term: Term) -> None:
        piece = self.pieces[term]
        if isinstance(piece, Texts) and not piece.is_whole:
            self._filled(name, term)
        elif term.rank == 0 and getattr(term, "name", "") in ("argmax", "argmin"):
            self.lines.append(f"const Index {name} = {piece.text};")
        else:
            self.lines.append(f"const {self.type_of(term.shape)} {name} = {piece.text};")

    def _filled(self, name: str, term: Term) -> None:
        """Declare an array and fill it entry by entry."""
        indices = self.names.indices(term.rank)
        value = self.entry(term, indices).text
        sizes = [self.size(size) for size in term.shape]
        self.lines.append(f"{self.type_of(term.shape)} {name}({', '.join(sizes)});")
        self.looped(list(zip(indices, sizes, strict=True)), f"{name}({', '.join(indices)}) = {value};")

    def zeros(self, name: str, shape: Shape) -> None:
        """Declare an array of zeros."""
        kind, sizes = self.type_of(shape), ", ".join(self.size(size) for size in shape)
        if not shape:
            self.lines.append(f"double {name} = 0.0;")
        elif len(shape) <= 2:
            self.lines.append(f"{kind} {name} = {kind}::Zero({sizes});")
        else:
            self.lines += [f"{kind} {name}({sizes});", f"{name}.setZero();"]

    def looped(self, loops: list[tuple[str, str]], statement: str) -> None:
        """A statement inside loops."""
        for depth, (index, size) in enumerate(loops):
            self.lines.append(f"{self.indent * depth}for (Index {index} = 0; {index} < {size}; ++{index})")
        self.lines.append(self.indent * len(loops) + statement)
