"""What MATLAB and Julia say in different words, and operations on whole arrays in these words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hesse.errors import MissingKernelError
from hesse.export.languages import record
from hesse.export.terms import Call, Function, Literal, Sum, Term, View
from hesse.export.writer import Level, Piece, Writer
from hesse.ir import Shape, Size
from hesse.ops.registry import OPERATIONS, General


class ColumnWords(Writer):
    """The words of a language of matrices; MATLAB and Julia fill them in."""

    language: str
    opening, closing = "()"
    """The brackets of an index."""
    end = ""
    """What ends a statement."""

    def permuted(self, text: str, order: Sequence[int]) -> str:
        """An array with its axes in another order."""
        raise NotImplementedError

    def filled(self, term: Term, shape: Shape) -> str:
        """An array with the entries of a term that repeats."""
        raise NotImplementedError

    def literal(self, term: Literal) -> str:
        """A constant array."""
        raise NotImplementedError

    def summed_over(self, text: str, rank: int, axes: tuple[int, ...], shape: Shape) -> str:
        """The sum of an array over some axes (not all)."""
        raise NotImplementedError

    def total(self, term: Term) -> str:
        """The sum of all entries."""
        raise NotImplementedError

    def function(self, term: Function) -> Piece:
        """An element-wise function."""
        raise NotImplementedError

    def gathered(self, term: Call) -> Piece:
        """Rows of an array by positions."""
        raise NotImplementedError

    def called(self, term: Call, template: str) -> Piece:
        """An operation as its template says."""
        raise NotImplementedError

    def word(self, name: str, *arguments: str) -> str:
        """A call of one of the few functions that have other names elsewhere."""
        raise NotImplementedError

    def loop(self, index: str, size: str) -> str:
        """The first line of a loop."""
        raise NotImplementedError

    def slice_of(self, name: str, index: str, term: View) -> str:
        """A part of an array that has a name, without the axes that are fixed."""
        raise NotImplementedError

    def added(self, name: str, index: str, value: str, negative: bool) -> str:
        """The statement that adds a value to a part of an array."""
        raise NotImplementedError

    def source_slice(self, name: str, index: str, shape: Sequence[str | None], whole: bool) -> str:
        """A part of a source, in the shape of the part it is added to (`whole`: it has no missing axes).

        Axes of the result that are looped over have no size.
        """
        raise NotImplementedError

    def plus(self, term: Sum) -> tuple[str, str]:
        """The signs of a sum."""
        return "+", "-"

    def dims(self, shape: Iterable[Size]) -> list[str]:
        """The sizes of an array."""
        return [self.size(size) for size in shape]

    def reshaped(self, text: str, shape: Sequence[str]) -> str:
        """The same entries in another shape."""
        return f"reshape({text}, {', '.join(shape)})"

    def unsupported(self, what: str) -> MissingKernelError:
        """The error for what cannot be written."""
        return MissingKernelError(
            f"{what} cannot be written in {self.language} code; export to numpy, torch or jax"
        )

    def check_operation(self, term: Call) -> None:
        """Refuse operands that the function of the language does not take."""
        first = term.arguments[0]
        if term.name == "expm_chain" and term.params != (1,):
            raise self.unsupported("the operation expm_chain")
        known = OPERATIONS[term.name]
        if isinstance(known, General) and known.last_axes == 2 and first.rank > 2:
            raise self.unsupported(f"{term.name} of a batch of matrices")
        if term.name in ("argmax", "argmin", "argsort") and first.rank > 1:
            raise self.unsupported(f"{term.name} of rows")
        if term.name == "gather":
            index = term.arguments[1]
            if index.rank > 1 and first.rank > 1:
                raise self.unsupported("gather of rows by a matrix of indices")
            if isinstance(index, Literal) and (index.value < 0).any():
                raise self.unsupported("gather by positions counted from the end")

    def operation(self, term: Call) -> Piece:
        """An operation on whole arrays."""
        first, template = term.arguments[0], record(term.name, self.language)
        self.check_operation(term)
        match term.name:
            case "gather":
                return self.gathered(term)
            case "solve":
                left, right = (self.text(operand, Level.ATOM) for operand in term.arguments)
                return Piece(f"{left} \\ {right}", Level.PRODUCT)
            case "reshape":
                return self.reshaped_by_rows(term)
            case "vec":
                return Piece(self.reshaped(self.text(first), self.dims(term.shape)))
        return self.called(term, template)

    def reshaped_by_rows(self, term: Call) -> Piece:
        """The same entries, last axis first, in another shape: the axes are reversed before and after."""
        (operand,), old = term.arguments, term.params[0]
        new = len(term.params) - 1
        shape = [*reversed(term.shape[:new]), *term.shape[new:]]
        text = self._reversed(self.text(operand), old, operand.rank)
        return Piece(self._reversed(self.reshaped(text, self.dims(shape)), new, term.rank))

    def _reversed(self, text: str, count: int, rank: int) -> str:
        """An array with its first axes in reverse order."""
        if count < 2:
            return text
        return self.permuted(text, [*reversed(range(count)), *range(count, rank)])
