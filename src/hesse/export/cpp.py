"""C++ with Eigen: products of matrices are written as such, everything else as loops over entries."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from hesse.export.cpp_entries import Entry, EntryWriter, Indices, Texts
from hesse.export.cpp_tables import BY_ROWS, HELPERS
from hesse.export.languages import record, row
from hesse.export.terms import (
    Argument,
    Broadcast,
    Call,
    Contract,
    Count,
    Diagonal,
    Dot,
    Expand,
    Function,
    Identity,
    Literal,
    MatrixProduct,
    Number,
    Outer,
    Permute,
    Place,
    Product,
    Reduce,
    Sum,
    Term,
    View,
)
from hesse.export.writer import Level, Piece
from hesse.ir import Size


class CppWriter(EntryWriter):
    """Writes terms in C++."""

    def render(self, term: Term) -> Piece:
        match term:
            case Argument():
                if term.kind == "integer":
                    raise self.unsupported(f"the array of indices {term.name}")
                return self.named_piece(self.names.arguments[term.name], term)
            case Number():
                return self.literal_number(term.value)
            case Count():
                return Piece(f"double({self.size(term.size)})")
            case Literal():
                return self._literal(term)
            case Function():
                return self._elementwise(term, lambda indices: self._function(term, indices))
            case Sum():
                return self._sum(term)
            case Product():
                return self._product(term)
            case Expand():
                self.kept(term.operand)
                return self.by_entries(
                    term, lambda i: self.entry(term.operand, [i[k] for k in term.positions])
                )
            case Permute():
                return self._permute(term)
            case Broadcast():
                return self._elementwise(term, lambda indices: self.entry(term.operand, indices))
            case View():
                return self._elementwise(term, lambda indices: self._view(term, indices))
            case Diagonal():
                return Texts(f"MatrixXd({self.whole(term.operand, Level.ATOM)}.asDiagonal())")
            case Identity():
                size = self.size(term.shape[0])
                return Texts(f"MatrixXd::Identity({size}, {size})")
            case MatrixProduct() | Outer() | Dot():
                return self._matrix_product(term)
            case Reduce():
                return self._reduce(term)
            case Contract():
                return self._contract(term)
            case Place():
                return self._place(term)
            case Call():
                return self._call(term)
        raise AssertionError(f"no text for {term}")

    def _elementwise(self, term: Term, entry: Entry) -> Piece:
        return self.by_entries(term, entry) if term.rank else entry(())

    def _function(self, term: Function, indices: Indices) -> Piece:
        if term.name in self.signs:
            return Piece(f"({self._condition(term, indices)} ? 1.0 : 0.0)")
        if term.name == "stop_gradient":
            return self.entry(term.arguments[0], indices)
        texts = [self.entry(operand, indices).text for operand in term.arguments]
        if term.name == "where":
            texts[0] = self._condition(term.arguments[0], indices)
            texts[1:] = [self.entry(operand, indices).at(Level.SUM) for operand in term.arguments[1:]]
        return self.template(row(term.name, self.language), texts)

    def _condition(self, term: Term, indices: Indices) -> str:
        return self.condition(term, lambda operand: self.entry(operand, indices).text)

    def template(self, template: str, texts: list[str]) -> Piece:
        """A filled template; a helper that it calls comes along."""
        for name in re.findall(r"(?<![:.\w])(\w+)\(", template):
            self.help(name)
        return Piece(template.format(*texts))

    def help(self, name: str) -> None:
        """Take a helper along, and those that it calls before it."""
        if name in HELPERS and name not in self.helpers:
            for inner in re.findall(r"(?<![:.\w])(\w+)\(", HELPERS[name]):
                if inner != name:
                    self.help(inner)
            self.helpers[name] = None

    def _sum(self, term: Sum) -> Piece:
        def entry(indices: Indices) -> Piece:
            return self.joined([self.entry(summand, indices) for summand in term.summands])

        pieces = [self.pieces[summand] for summand in term.summands]
        same = all(summand.shape == term.shape for summand in term.summands)
        whole = all(not isinstance(piece, Texts) or piece.is_whole for piece in pieces)
        if term.rank > 2 or (term.rank and not (same and whole)):
            return self.by_entries(term, entry)
        joined = self.joined(pieces)
        return Texts(joined.text, joined.level, entry=entry) if term.rank else joined

    def _product(self, term: Product) -> Piece:
        def entry(indices: Indices) -> Piece:
            read = lambda part: self.entry(part, indices)  # noqa: E731
            return self._multiplied(term, read)

        if not term.rank:
            return entry(())
        arrays = [(part, power) for part, power in term.factors + term.divisors if part.rank]
        piece = self.pieces[arrays[0][0]]
        whole = not isinstance(piece, Texts) or piece.is_whole
        single = len(arrays) == 1 and arrays[0][1] == 1 and arrays[0] in term.factors
        if term.rank <= 2 and whole and single:
            multiplied = self._multiplied(term, lambda part: self.pieces[part])
            return Texts(multiplied.text, multiplied.level, multiplied.negative, entry=entry)
        return self.by_entries(term, entry)

    def _multiplied(self, term: Product, read: Callable[[Term], Piece]) -> Piece:
        factor = abs(term.factor)
        factors = sorted(term.factors, key=lambda pair: pair[0].rank)
        if factor == 1 and len(factors) == 1 and factors[0][1] == 1 and not term.divisors:
            return self.signed(term.factor, read(factors[0][0]).at(Level.PRODUCT))
        parts = [self._power(read(part), power) for part, power in factors]
        if factor != 1 or not parts:
            parts.insert(0, self.number(factor))
        divisors = [self._power(read(part), power) for part, power in term.divisors]
        text = " * ".join(parts) + "".join(f" / {divisor}" for divisor in divisors)
        return self.signed(term.factor, text, Level.PRODUCT if len(parts) + len(divisors) > 1 else Level.ATOM)

    def _power(self, piece: Piece, power: int) -> str:
        if power == 1:
            return piece.at(Level.NEGATION)
        if power == 2:
            self.help("square")
            return f"square({piece.text})"
        return f"std::pow({piece.text}, {power})"

    def _permute(self, term: Permute) -> Piece:
        def entry(indices: Indices) -> Piece:
            return self.entry(term.operand, [indices[term.order.index(k)] for k in range(term.rank)])

        piece = self.pieces[term.operand]
        if term.rank == 2 and isinstance(piece, Texts) and piece.is_whole:
            return Texts(f"{self.name(term.operand)}.transpose()", entry=entry)
        return self.by_entries(term, entry)

    def _view(self, term: View, indices: Indices) -> Piece:
        positions = [self.affine(axis, list(indices), first=0) for axis in term.axes]
        return self.entry(term.operand, positions)

    def _matrix_product(self, term: MatrixProduct | Outer | Dot) -> Piece:
        if isinstance(term, Dot):
            return Piece(f"{self.whole(term.left, Level.ATOM)}.dot({self.whole(term.right)})")
        if isinstance(term, Outer):
            return Texts(
                f"{self.whole(term.left, Level.ATOM)} * {self.name(term.right)}.transpose()", Level.PRODUCT
            )
        left, right = self.whole(term.left, Level.ATOM), self.whole(term.right, Level.ATOM)
        return Texts(f"{left} * {right}", Level.PRODUCT)

    def _reduce(self, term: Reduce) -> Piece:
        operand = term.operand
        piece = self.pieces[operand]
        whole = isinstance(piece, Texts) and piece.is_whole and operand.rank <= 2
        if whole and not term.rank:
            return Piece(f"{piece.at(Level.ATOM)}.sum()")
        if whole:
            direction = "rowwise" if term.axes == (1,) else "colwise"
            turned = "" if term.axes == (1,) else ".transpose()"
            return Texts(f"{piece.at(Level.ATOM)}.{direction}().sum(){turned}")
        indices = self.names.indices(operand.rank)
        kept = [index for k, index in enumerate(indices) if k not in term.axes]
        sizes = [self.size(size) for size in operand.shape]
        return self._accumulated(
            term, list(zip(indices, sizes, strict=True)), kept, self.entry(operand, indices)
        )

    def _contract(self, term: Contract) -> Piece:
        a, b = term.left_labels, term.right_labels
        sizes = dict(zip(a + b, term.left.shape + term.right.shape, strict=True))
        order = list(dict.fromkeys((*term.labels, *a, *b)))
        letters = dict(zip(order, self.names.indices(len(order)), strict=True))
        for operand in term.operands:
            self.kept(operand)
        left = self.entry(term.left, [letters[label] for label in a]).at(Level.PRODUCT)
        right = self.entry(term.right, [letters[label] for label in b]).at(Level.NEGATION)
        loops = [(letters[label], self.size(sizes[label])) for label in order]
        return self._accumulated(
            term, loops, [letters[label] for label in term.labels], Piece(f"{left} * {right}")
        )

    def _accumulated(self, term: Term, loops: list[tuple[str, str]], kept: list[str], value: Piece) -> Piece:
        """A sum over loops, entry by entry."""
        name = self.names.numbered("t")
        self.zeros(name, term.shape)
        target = f"{name}({', '.join(kept)})" if kept else name
        self.looped(loops, f"{target} += {value.text};")
        self.named[term] = name
        return self.named_piece(name, term)

    def _place(self, term: Place) -> Piece:
        name = self.target(term)
        if term.base is None:
            self.zeros(name, term.shape)
        elif isinstance(piece := self.pieces[term.base], Texts) and not piece.is_whole:
            self._filled(name, term.base)
        else:
            self.lines.append(f"{self.type_of(term.shape)} {name} = {self.whole(term.base)};")
        for source, placement in zip(term.sources, term.placements, strict=True):
            letters = self.names.indices(len(placement.ranges))
            if len(placement.labels) < len(letters):
                self.kept(source)
            value = self.entry(source, [letters[label] for label in placement.labels])
            index = ", ".join(self.affine(axis, letters, first=0) for axis in placement.output)
            sizes = [self.size(size) for size in placement.ranges]
            sign, text = ("-", value.text.removeprefix("-")) if value.negative else ("+", value.text)
            self.looped(list(zip(letters, sizes, strict=True)), f"{name}({index}) {sign}= {text};")
        self.named[term] = name
        return self.named_piece(name, term)

    def _call(self, term: Call) -> Piece:
        first = term.arguments[0]
        template = record(term.name, self.language)
        if term.name in ("vec", "reshape", "kron"):
            return self._entrywise_call(term)
        if term.name == "max":
            return self._largest(term)
        if term.name == "expm_chain" and term.params != (1,):
            raise self.unsupported("the operation expm_chain")
        if any(operand.rank > 2 for operand in term.arguments):
            raise self.unsupported(f"{term.name} of a batch of matrices")
        if term.name in OF_VECTORS and first.rank > 1:
            raise self.unsupported(f"{term.name} of a matrix")
        name = self.name(first)
        others = [self.whole(operand) for operand in term.arguments[1:]]
        if term.name in BY_ROWS and first.rank == 2:
            template = f"{term.name}_rows({{0}})"
        piece = self.template(template, [name, *others])
        return Texts(piece.text) if term.rank else piece

    def _entrywise_call(self, term: Call) -> Piece:
        """Operations that move entries about: where each entry comes from."""
        first = term.arguments[0]
        self.kept(first)

        def entry(indices: Indices) -> Piece:
            if term.name == "vec":
                row = self.size(first.shape[0])
                return self.entry(first, [f"{indices[0]} % {row}", f"{indices[0]} / {row}", *indices[1:]])
            if term.name == "reshape":
                return self.entry(first, self._unravelled(term, indices))
            sizes = [self._factor(size) for size in term.arguments[1].shape]
            outer = [f"{index} / {size}" for index, size in zip(indices, sizes, strict=True)]
            inner = [f"{index} % {size}" for index, size in zip(indices, sizes, strict=True)]
            left, right = self.entry(first, outer), self.entry(term.arguments[1], inner)
            return Piece(f"{left.at(Level.PRODUCT)} * {right.at(Level.NEGATION)}", Level.PRODUCT)

        return self.by_entries(term, entry)

    def _factor(self, size: Size) -> str:
        text = self.size(size)
        return f"({text})" if "*" in text else text

    def _unravelled(self, term: Call, indices: Indices) -> list[str]:
        """The indices of the operand of a reshape, both counted with the last axis first."""
        operand, old, new = term.arguments[0], term.params[0], len(term.params) - 1
        flat = indices[0] if new else "0"
        for index, size in zip(indices[1:new], term.shape[1:new], strict=True):
            flat = (
                f"({flat}) * {self._factor(size)} + {index}"
                if " " in flat
                else f"{flat} * {self._factor(size)} + {index}"
            )
        found = []
        for axis in range(old):
            stride = " * ".join(self._factor(size) for size in operand.shape[axis + 1 : old])
            text = f"({flat}) / ({stride})" if stride else f"({flat})"
            found.append(f"{text} % {self._factor(operand.shape[axis])}" if axis else text)
        return [*found, *indices[new:]]

    def _largest(self, term: Call) -> Piece:
        operand = term.arguments[0]
        indices = self.names.indices(operand.rank)
        value = self.entry(operand, indices).text
        name = self.names.numbered("t")
        self.help("maximum")
        self.lines.append(f"double {name} = -{self.infinite(math.inf)};")
        sizes = [self.size(size) for size in operand.shape]
        self.looped(list(zip(indices, sizes, strict=True)), f"{name} = maximum({name}, {value});")
        self.named[term] = name
        return Piece(name)

    def _literal(self, term: Literal) -> Piece:
        if term.kind == "integer":
            raise self.unsupported("a constant array of indices")
        sizes = ", ".join(map(str, term.shape))
        if term.rank <= 2:
            entries = ", ".join(self.literal_number(value).text for value in term.value.ravel().tolist())
            return Texts(f"({self.type_of(term.shape)}({sizes}) << {entries}).finished()")
        name = self.names.numbered("c")
        nested = re.sub(r"[\[\]]", lambda found: "{" if found[0] == "[" else "}", repr(term.value.tolist()))
        self.lines += [f"{self.type_of(term.shape)} {name}({sizes});", f"{name}.setValues({nested});"]
        self.named[term] = name
        return self.named_piece(name, term)


OF_VECTORS = ("argmax", "argmin", "gather", "cumulative_sum", "cumulative_product", "product")
"""Operations that are written for vectors only."""
