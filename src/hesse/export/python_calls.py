"""Functions and operations in Python: calls by the tables of names."""

from __future__ import annotations

import keyword
import math
import re
from dataclasses import dataclass
from typing import cast

from hesse.backends.text import tuple_text
from hesse.errors import MissingKernelError
from hesse.export.helpers import HELPERS
from hesse.export.languages import record, row
from hesse.export.python_tables import MATRIX_EXPONENTIAL
from hesse.export.terms import Call, Function, Number, Term
from hesse.export.writer import SIGNS, Level, Piece, Signature, Writer, is_plain_number
from hesse.ir import Shape, Size


@dataclass(frozen=True)
class Dialect:
    """What differs between the array libraries."""

    language: str
    module: str
    imports: str
    axis: str
    """The keyword for axes."""
    permute: str
    """The method that permutes axes."""
    copy: str
    """What is appended to copy an array that will be changed."""

    @property
    def is_torch(self) -> bool:
        """Whether this is PyTorch, which needs types for new arrays."""
        return self.language == "torch"


DIALECTS = {
    "numpy": Dialect("numpy", "np", "import numpy as np", "axis", "transpose", ".copy()"),
    "torch": Dialect("torch", "torch", "import torch", "dim", "permute", ".clone()"),
    "jax": Dialect("jax", "jnp", "import jax.numpy as jnp", "axis", "transpose", ""),
}


SOLVERS = ("solve", "triangular_solve")
"""Operations whose right-hand sides the libraries take for matrices where a batch is solved."""


class PythonCalls(Writer):
    """What of a Python writer calls functions of the array library."""

    signs = SIGNS

    def __init__(self, dialect: Dialect, root: Term, given: Signature) -> None:
        self.dialect = dialect
        self.reserved = {
            *HELPERS[dialect.language],
            *keyword.kwlist,
            *("np", "torch", "jnp", "jax", "scipy", "math", "itertools", "dtype", "device"),
            *("float", "int", "range", "len", "ValueError"),
        }
        self.indices: dict[tuple[str, int], str] = {}
        super().__init__(root, given)

    def assign(self, name: str, term: Term) -> None:
        self.lines.append(f"{name} = {self.pieces[term].text}")

    def infinite(self, value: float) -> str:
        return f"{self.dialect.module}.{'nan' if math.isnan(value) else 'inf'}"

    def shape(self, shape: Shape) -> str:
        """A shape as a tuple."""
        return tuple_text(self.size(size) for size in shape)

    def call(self, function: str, *arguments: str) -> Piece:
        """A call of a function of the array library."""
        return Piece(f"{self.dialect.module}.{function}({', '.join(arguments)})")

    def made(self, function: str, *arguments: str) -> Piece:
        """A call of a function that makes an array out of nothing, and so needs a type in PyTorch."""
        if self.dialect.is_torch:
            arguments = (*arguments, "dtype=dtype", "device=device")
        return self.call(function, *arguments)

    def function(self, term: Function) -> Piece:
        name = term.name
        if name in self.signs:
            holds = self.condition(term)
            if self.dialect.is_torch:
                return Piece(f"({holds}).to(dtype)")
            return self.call("where", holds, "1.0", "0.0")
        if name == "where":
            condition, *choices = term.arguments
            texts = [self.operand(choice) for choice in choices]
            return self.call("where", self.condition(condition), *texts)
        if name == "power":
            base, exponent = term.arguments
            return Piece(f"{self.text(base, Level.ATOM)}**{self.text(exponent, Level.ATOM)}", Level.POWER)
        if name == "stop_gradient" and self.dialect.language == "numpy":
            return self.pieces[term.arguments[0]]
        texts = [self.operand(operand) for operand in term.arguments]
        if name == "polygamma" and self.dialect.is_torch:
            texts[0] = self._order(term.arguments[0])
        return self._template(row(name, self.dialect.language), texts)

    def _order(self, term: Term) -> str:
        if not isinstance(term, Number):
            raise MissingKernelError(
                "PyTorch has polygamma only for a fixed order, not for a tensor of orders"
            )
        return str(int(term.value))

    def operand(self, term: Term) -> str:
        """An operand of a function; PyTorch takes numbers only as tensors."""
        text = self.text(term)
        if self.dialect.is_torch and is_plain_number(term):
            return self.made("tensor", text).text
        return text

    def operation(self, term: Call) -> Piece:
        template = record(term.name, self.dialect.language)
        if term.name == "expm_chain" and term.params == (1,):
            return self._template(MATRIX_EXPONENTIAL[self.dialect.language], [self.text(term.arguments[0])])
        if term.name == "expm_chain" and term.arguments[0].rank > 2:
            raise MissingKernelError("derivatives of expm of a batch of matrices cannot be written as code")
        level = Level.ATOM if term.name in ("gather", "reshape", "vec") else Level.SUM
        texts = [self.text(operand, level) for operand in term.arguments]
        if term.name == "vec":  # the columns one below the other
            order = ", ".join(map(str, (1, 0, *range(2, term.arguments[0].rank))))
            texts[0] += ".T" if term.arguments[0].rank == 2 else f".{self.dialect.permute}({order})"
        if term.name in ("reshape", "vec"):
            return self._template(template, texts, shape=self.shape(term.shape))
        if term.name in SOLVERS and 2 < term.arguments[0].rank != term.arguments[1].rank:
            texts[1] = f"{self.text(term.arguments[1], Level.ATOM)}[..., None]"
            template += "[..., 0]"
        if term.name == "searchsorted":
            return self._template(template, texts, p0=str(term.params[0]))
        sizes = {f"p{k}": self.size(cast(Size, param)) for k, param in enumerate(term.params)}
        return self._template(template, texts, **sizes)

    def _template(self, template: str, texts: list[str], **places: str) -> Piece:
        head = re.match(r"(\w+)\(", template)
        if head and head[1] in HELPERS[self.dialect.language]:
            self.helpers[head[1]] = None
        return Piece(template.format(*texts, **places))
