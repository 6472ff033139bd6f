"""Julia."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence

from hesse.export.checks import Check, checks
from hesse.export.columns import ColumnWriter
from hesse.export.julia_tables import ELEMENTWISE, HELPERS, OPERATIONS, WORDS
from hesse.export.languages import row
from hesse.export.terms import (
    Argument,
    Call,
    Dot,
    Expand,
    Function,
    Literal,
    Number,
    Permute,
    Sum,
    Term,
    View,
)
from hesse.export.writer import Level, Piece, Signature, is_plain_number
from hesse.ir import Shape

JULIA_WORDS = {
    *("baremodule", "begin", "break", "catch", "const", "continue", "do", "else", "elseif", "end", "export"),
    *("false", "finally", "for", "function", "global", "if", "import", "let", "local", "macro", "module"),
    *(
        "quote",
        "return",
        "struct",
        "true",
        "try",
        "using",
        "while",
        "size",
        "ndims",
        "reshape",
        "fill",
        "zeros",
    ),
    *(
        "ones",
        "sum",
        "vec",
        "dropdims",
        "permutedims",
        "dot",
        "copy",
        "diag",
        "Float64",
        "Int",
        "I",
        "Inf",
        "NaN",
    ),
    *("throw", "DimensionMismatch", "collect"),
}


class JuliaWriter(ColumnWriter):
    """Writes terms in Julia."""

    language = "julia"
    opening, closing = "[]"

    def __init__(self, root: Term, given: Signature) -> None:
        templates = " ".join(
            [*ELEMENTWISE.values(), *OPERATIONS.values(), *WORDS.values(), *HELPERS.values()]
        )
        self.reserved = {*re.findall(r"(\w{2,})(?:\{d\})?\.?\(", templates), *JULIA_WORDS}
        super().__init__(root, given)

    def infinite(self, value: float) -> str:
        return "NaN" if math.isnan(value) else "Inf"

    def dotted(self, term: Term) -> str:
        return "." if term.rank else ""

    def operand(self, term: Term) -> str:
        """Numbers that decide the type of a result are written as floating-point numbers."""
        return repr(term.value) if isinstance(term, Number) and math.isfinite(term.value) else self.text(term)

    def plus(self, term: Sum) -> tuple[str, str]:
        plain = all(summand.shape == term.shape for summand in term.summands)
        return ("+", "-") if plain else (".+", ".-")

    def permuted(self, text: str, order: Sequence[int]) -> str:
        return f"permutedims({text}, ({', '.join(str(k + 1) for k in order)}))"

    def filled(self, term: Term, shape: Shape) -> str:
        sizes = ", ".join(self.dims(shape))
        if isinstance(term, Number) and term.value in (0, 1):
            return f"{'zeros' if term.value == 0 else 'ones'}({sizes})"
        if not term.rank:
            text = self.operand(term) if isinstance(term, Number) else f"Float64({self.text(term)})"
            return f"fill({text}, {sizes})"
        return f"{self.text(term, Level.PRODUCT)} .+ zeros({sizes})"

    def literal(self, term: Literal) -> str:
        value = term.value + 1 if term.kind == "integer" else term.value
        write = str if term.kind == "integer" else self._entry
        if value.ndim == 2 and min(value.shape) > 1:
            return f"[{'; '.join(' '.join(map(write, row)) for row in value.tolist())}]"
        flat = f"[{', '.join(map(write, value.ravel(order='F').tolist()))}]"
        return (
            flat
            if value.ndim == 1
            else f"{flat}[1]"
            if not value.ndim
            else self.reshaped(flat, self.dims(value.shape))
        )

    def _entry(self, value: float) -> str:
        return repr(value) if math.isfinite(value) else ("-" if value < 0 else "") + self.infinite(value)

    def dot(self, term: Dot) -> Piece:
        return Piece(f"dot({self.text(term.left)}, {self.text(term.right)})")

    def total(self, term: Term) -> str:
        return f"sum({self.text(term)})"

    def summed_over(self, text: str, rank: int, axes: tuple[int, ...], shape: Shape) -> str:
        dims = str(axes[0] + 1) if len(axes) == 1 else f"({', '.join(str(axis + 1) for axis in axes)})"
        if len(shape) == 1:
            return f"vec(sum({text}, dims={dims}))"
        return f"dropdims(sum({text}, dims={dims}), dims={dims})"

    def word(self, name: str, *arguments: str) -> str:
        return WORDS[name].format(*arguments)

    def loop(self, index: str, size: str) -> str:
        return f"for {index} in 1:{size}"

    def slice_of(self, name: str, index: str, term: View) -> str:
        return f"{name}[{index}]"

    def added(self, name: str, index: str, value: str, negative: bool) -> str:
        dot = "." if ":" in index else ""
        return f"{name}[{index}] {dot}{'-' if negative else '+'}= {value}"

    def source_slice(self, name: str, index: str, shape: Sequence[str | None], whole: bool) -> str:
        text = name if set(index) <= set(":, ") else f"{name}[{index}]"
        return text if whole or ":" not in index else self.reshaped(text, [size for size in shape if size])

    def fresh(self, term: Term) -> str:
        aliased = term in self.named or isinstance(term, Argument | Permute | Expand)
        return f"copy({self.text(term)})" if aliased else self.text(term)

    def function(self, term: Function) -> Piece:
        dot = self.dotted(term)
        if term.name in self.signs:
            return Piece(f"Float64{dot}({self.condition(term)})")
        if term.name == "power":
            base, exponent = term.arguments
            sign = " .^ " if term.rank else "^"
            return Piece(f"{self.text(base, Level.ATOM)}{sign}{self.text(exponent, Level.ATOM)}", Level.POWER)
        if term.name == "stop_gradient":
            return self.pieces[term.arguments[0]]
        texts = [self.operand(operand) for operand in term.arguments]
        if term.name == "where":
            texts[0] = self.condition(term.arguments[0])
        return self._template(row(term.name, self.language), texts, dot)

    def _template(self, template: str, texts: list[str], dot: str = "") -> Piece:
        for name in re.findall(r"(?<!\.)\b(\w+)(?:\{d\})?\(", template):
            if name in HELPERS:
                self.helpers[name] = None
        return Piece(template.format(*texts, d=dot))

    def gathered(self, term: Call) -> Piece:
        source, index = (self.text(operand, Level.ATOM) for operand in term.arguments)
        return Piece(f"{source}[{index}{', :' * (term.arguments[0].rank - 1)}]")

    def called(self, term: Call, template: str) -> Piece:
        piece = self._template(template, [self.text(operand) for operand in term.arguments])
        if term.name == "product":
            return Piece(f"dropdims({piece.text}, dims=1)" + ("" if term.rank else "[]"))
        return piece


def julia_file(writer: JuliaWriter, documentation: str) -> str:
    """A file with one function, and the helpers that it calls before it."""
    result = writer.run().text
    if is_plain_number(writer.root):
        result = f"Float64({result})"
    names = writer.names
    types = [f"{names.arguments[v.name]}::{_type(v.rank, v.kind)}" for v in writer.given.variables]
    types += [f"{names.sizes[size]}::Integer" for size in writer.given.sizes]
    body = [
        *(line for check in checks(writer.given, writer.used_sizes) for line in _check(writer, check)),
        *writer.lines,
        f"return {result}",
    ]
    quoted = documentation.replace("\\", "\\\\").replace("$", "\\$").replace('"', '\\"')
    source = [
        f'"""\n{quoted}\n"""',
        f"function {names.function}({', '.join(types)})",
        textwrap.indent("\n".join(body), "    "),
        "end",
    ]
    helpers = [HELPERS[name].strip() for name in writer.helpers]
    whole = "\n\n".join([*helpers, "\n".join(source)]) + "\n"
    packages = ["LinearAlgebra"] + (["SpecialFunctions"] if "SpecialFunctions." in whole else [])
    return "\n".join(f"using {package}" for package in packages) + "\n\n" + whole


def _type(rank: int, kind: str) -> str:
    number = "Integer" if kind == "integer" else "Real"
    names = {0: number, 1: f"AbstractVector{{<:{number}}}", 2: f"AbstractMatrix{{<:{number}}}"}
    return names.get(rank, f"AbstractArray{{<:{number},{rank}}}")


def _check(writer: JuliaWriter, check: Check) -> list[str]:
    shape, sizes = check.variable.shape, writer.names.sizes
    name = writer.names.arguments[check.variable.name]
    lines = []
    if check.new and len(check.new) == len(shape) > 1:
        lines.append(f"{', '.join(sizes[size] for size, _ in check.new)} = size({name})")
    else:
        lines += [f"{sizes[size]} = size({name}, {axis + 1})" for size, axis in check.new]
    if shape and check.is_fixed:
        parts = [
            writer.names.size(size)
            if isinstance(size, int) or check.knows(size)
            else f"size({name}, {k + 1})"
            for k, size in enumerate(shape)
        ]
        comma = "," if len(shape) == 1 else ""
        expected = f"({', '.join(parts)}{comma})"
        declared = f"({', '.join(writer.names.size(size) for size in shape)}{comma})"
        message = f"{name} must have size {declared} = $({expected}), not $(size({name}))"
        lines.append(f'size({name}) == {expected} || throw(DimensionMismatch("{message}"))')
    return lines
