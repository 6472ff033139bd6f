"""MATLAB (and Octave)."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence

from hesse.export.checks import Check, checks
from hesse.export.columns import ColumnWriter
from hesse.export.languages import row
from hesse.export.matlab_tables import ELEMENTWISE, HELPERS, OPERATIONS, WORDS
from hesse.export.terms import Argument, Call, Diagonal, Function, Identity, Literal, Number, Sum, Term, View
from hesse.export.writer import SIGNS, Level, Piece, Signature
from hesse.ir import Shape


class MatlabWriter(ColumnWriter):
    """Writes terms in MATLAB."""

    language = "matlab"
    end = ";"
    signs: Mapping[str, str] = {**SIGNS, "not_equal": "~="}

    def __init__(self, root: Term, given: Signature) -> None:
        called = re.findall(
            r"([a-z]\w+)\(", " ".join([*ELEMENTWISE.values(), *OPERATIONS.values(), *HELPERS.values()])
        )
        self.reserved = {*called, *MATLAB_WORDS}
        super().__init__(root, given)
        self.result = self.names.fresh("result")
        # Octave does not broadcast against the diagonal matrices that eye and diag are there.
        mixed = [t for t in self.order if isinstance(t, Sum) and any(s.shape != t.shape for s in t.summands)]
        self.full = {
            part for term in mixed for summand in term.summands for part in (summand, *summand.operands)
        }

    def render(self, term: Term) -> Piece:
        piece = super().render(term)
        if isinstance(term, Identity | Diagonal) and term in self.full:
            return Piece(f"full({piece.text})")
        return piece

    def target(self, term: Term) -> str:
        return self.result if term is self.root else self.names.numbered("t")

    def infinite(self, value: float) -> str:
        return "NaN" if math.isnan(value) else "Inf"

    def permuted(self, text: str, order: Sequence[int]) -> str:
        return f"permute({text}, [{' '.join(str(k + 1) for k in order)}])"

    def reshaped(self, text: str, shape: Sequence[str]) -> str:
        return super().reshaped(text, shape if len(shape) > 1 else [*shape, "1"])

    def filled(self, term: Term, shape: Shape) -> str:
        sizes = ", ".join([*self.dims(shape), "1"] if len(shape) == 1 else self.dims(shape))
        if isinstance(term, Number) and term.value in (0, 1):
            return f"{'zeros' if term.value == 0 else 'ones'}({sizes})"
        if not term.rank:
            return f"repmat({self.text(term)}, {sizes})"
        return f"{self.text(term, Level.PRODUCT)} + zeros({sizes})"

    def literal(self, term: Literal) -> str:
        value = term.value + 1 if term.kind == "integer" else term.value
        if value.ndim <= 2:
            rows = value.reshape(len(value), -1).tolist() if value.ndim else [[value.item()]]
            return f"[{'; '.join(' '.join(map(self._entry, row)) for row in rows)}]"
        flat = " ".join(map(self._entry, value.ravel(order="F").tolist()))
        return self.reshaped(f"[{flat}]", [str(size) for size in value.shape])

    def _entry(self, value: float) -> str:
        return f"-{self.number(-value)}" if value < 0 else self.number(value)

    def total(self, term: Term) -> str:
        if term.rank == 1:
            return f"sum({self.text(term)})"
        if isinstance(term, Argument) or term in self.named:
            return f"sum({self.text(term)}(:))"
        return f"sum(reshape({self.text(term)}, [], 1))"

    def summed_over(self, text: str, rank: int, axes: tuple[int, ...], shape: Shape) -> str:
        for axis in axes:
            text = f"sum({text}, {axis + 1})"
        if min(axes) >= len(shape):  # the last axes disappear by themselves
            return text
        return f"{text}'" if rank == 2 else self.reshaped(text, self.dims(shape))

    def word(self, name: str, *arguments: str) -> str:
        return f"{WORDS[name]}({', '.join(arguments)})"

    def loop(self, index: str, size: str) -> str:
        return f"for {index} = 1:{size}"

    def slice_of(self, name: str, index: str, term: View) -> str:
        fixed = [k for k, axis in enumerate(term.axes) if not axis.terms]
        text = f"{name}({index})"
        if not fixed or not term.rank or min(fixed) >= term.rank:
            return text
        return self.reshaped(text, self.dims(term.shape))

    def added(self, name: str, index: str, value: str, negative: bool) -> str:
        return f"{name}({index}) = {name}({index}) {'-' if negative else '+'} {value};"

    def source_slice(self, name: str, index: str, shape: Sequence[str | None], whole: bool) -> str:
        sizes = [size or "1" for size in shape]
        if ":" not in index:
            return f"{name}({index})"
        if not set(index) <= set(":, "):
            return self.reshaped(f"{name}({index})", sizes)
        return self.reshaped(name, sizes) if "1" in sizes else name

    def function(self, term: Function) -> Piece:
        if term.name in self.signs:
            return Piece(f"double({self.condition(term)})")
        if term.name == "where":
            condition, *choices = term.arguments
            texts = [self.condition(condition), *map(self.text, choices)]
            return self.template(row(term.name, self.language), texts)
        if term.name == "power":
            base, exponent = term.arguments
            text = (
                f"{self.text(base, Level.ATOM)}{'.^' if term.rank else '^'}{self.text(exponent, Level.ATOM)}"
            )
            return Piece(text, Level.POWER)
        if term.name == "stop_gradient":
            return self.pieces[term.arguments[0]]
        return self.template(
            row(term.name, self.language), [self.text(operand) for operand in term.arguments]
        )

    def template(self, template: str, texts: list[str], **places: str) -> Piece:
        """A filled template; a helper that it calls comes along."""
        for name in re.findall(r"(\w+)\(", template):
            if name in HELPERS:
                self.helpers[name] = None
        return Piece(template.format(*texts, **places))

    def called(self, term: Call, template: str) -> Piece:
        texts = [self.text(operand) for operand in term.arguments]
        piece = self.template(template, texts, axis=str(term.arguments[0].rank))
        if term.name == "product" and term.rank:
            return Piece(self.reshaped(piece.text, self.dims(term.shape)))
        return piece

    def gathered(self, term: Call) -> Piece:
        source, index = term.arguments
        more = ", :" * (source.rank - 1)
        text = f"{self.name(source)}({self.text(index)}{more})"
        return Piece(text if index.rank or source.rank == 1 else self.reshaped(text, self.dims(term.shape)))


MATLAB_WORDS = {
    *("break", "case", "catch", "continue", "else", "elseif", "end", "error", "for", "function", "global"),
    *("if", "otherwise", "persistent", "return", "switch", "try", "while", "size", "ndims", "isequal"),
    *("reshape", "permute", "repmat", "zeros", "ones", "eye", "diag", "trace", "sum", "double", "mat2str"),
    *("isscalar", "Inf", "NaN", "full"),
}


def matlab_file(writer: MatlabWriter, documentation: str) -> str:
    """A file with one function, and the helpers that it calls after it."""
    result = writer.run().text
    names = writer.names
    parameters = [names.arguments[v.name] for v in writer.given.variables]
    parameters += [names.sizes[size] for size in writer.given.sizes]
    body = [
        *(line for check in checks(writer.given, writer.used_sizes) for line in _check(writer, check)),
        *writer.lines,
        *([] if result == writer.result else [f"{writer.result} = {result};"]),
    ]
    source = [
        f"function {writer.result} = {names.function}({', '.join(parameters)})",
        *(f"% {line}".rstrip() for line in documentation.split("\n")),
        textwrap.indent("\n".join(body), "    "),
        "end",
    ]
    helpers = [HELPERS[name].strip() for name in writer.helpers]
    return "\n\n".join(["\n".join(source), *helpers]) + "\n"


def _check(writer: MatlabWriter, check: Check) -> list[str]:
    shape, sizes = check.variable.shape, writer.names.sizes
    name = writer.names.arguments[check.variable.name]
    declared = f"({', '.join(writer.names.size(size) for size in shape)})"
    if not shape:
        return _error(f"~isscalar({name})", name, "be a scalar", "")
    lines = []
    kind = {1: "a column vector", 2: "a matrix"}.get(len(shape), f"an array of {len(shape)} axes")
    if check.new or not check.is_fixed:
        wrong = (
            f"size({name}, 2) ~= 1 || ndims({name}) > 2"
            if len(shape) == 1
            else f"ndims({name}) > {len(shape)}"
        )
        lines += _error(wrong, name, f"be {kind} {declared}", "")
    lines += [f"{sizes[size]} = size({name}, {axis + 1});" for size, axis in check.new]
    if check.is_fixed:
        parts = [
            writer.names.size(size)
            if isinstance(size, int) or check.knows(size)
            else f"size({name}, {k + 1})"
            for k, size in enumerate(shape)
        ]
        found = f"[{', '.join(f'size({name}, {k + 1})' for k in range(len(shape)))}]"
        expected = f"[{', '.join(parts)}]"
        if len(shape) <= 2:
            found, expected = f"size({name})", f"[{', '.join([*parts, '1'][:2])}]"
        lines += _error(
            f"~isequal({found}, {expected})", name, f"be {kind} {declared} = %s", f"mat2str({expected}), "
        )
    return lines


def _error(condition: str, name: str, wanted: str, values: str) -> list[str]:
    return [
        f"if {condition}",
        f"    error('{name} must {wanted}, but its size is %s', {values}mat2str(size({name})));",
        "end",
    ]
