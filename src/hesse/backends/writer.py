"""A program as the text of a Python function: what all targets share, and what each says for itself.

One line for each instruction, values by name, functions and constants in a namespace. The function can be
read, and is compiled once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np

from hesse.backends.text import Dialect, affine_text, placed_labels, tuple_text
from hesse.ops.foreign import FOREIGN
from hesse.plan.program import (
    CallApply,
    CallMap,
    Combine,
    Contract,
    Count,
    Instruction,
    Literal,
    Load,
    Placed,
    Program,
    Reduce,
    Ref,
    Scale,
    View,
    sources,
)
from hesse.plan.sliced import SlicedProgram, Slices

Terms = list[tuple[Placed, str]]
"""Terms of a sum, and the names of their values."""


@dataclass(frozen=True)
class Compiled:
    """A function of the arrays named by `inputs`, and its source."""

    function: Callable[..., tuple[Any, ...]]
    inputs: tuple[str, ...]
    source: str


class Writer(ABC):
    """Writes the lines of a program, instruction by instruction."""

    dialect: Dialect

    def __init__(self, program: Program) -> None:
        self.program = program
        self.namespace: dict[str, Any] = {}
        self.names: list[str] = []
        self.lines: list[str] = []
        self.functions: list[str] = []
        """The sources of functions that the lines call."""

    def compiled(self, inputs: Sequence[str], name: str = "program") -> Compiled:
        """The function of the inputs in the given order."""
        arguments = {label: f"x{k}" for k, label in enumerate(inputs)}
        results = self.written(arguments)
        renamed = [(label, argument) for label, argument in arguments.items() if label != argument]
        comments = [f"    # {argument} = {label}" for label, argument in renamed]
        body = [*comments, *(f"    {line}" for line in self.lines), f"    return {tuple_text(results)}"]
        return self.defined(inputs, name, [f"def {name}({', '.join(arguments.values())}):", *body])

    def written(self, arguments: Mapping[str, str]) -> list[str]:
        """Write all lines, where inputs have these names, and give the names of the results."""
        for k, item in enumerate(self.program.instructions):
            self._write(k, item, arguments)
        return [self.result(result) for result in self.program.results]

    def defined(self, inputs: Sequence[str], name: str, lines: Sequence[str]) -> Compiled:
        """The function that some lines define."""
        source = "\n".join(lines) + "\n"
        exec(compile(source, "<hesse program>", "exec"), self.namespace)
        function = self.namespace.pop(name)  # no cycle: the constants in its namespace are freed with it
        return Compiled(function, tuple(inputs), "\n".join([*self.functions, source]))

    def _write(self, k: Ref, item: Instruction, arguments: Mapping[str, str]) -> None:
        if isinstance(item, Load):
            self.names.append(arguments[item.name])
        elif isinstance(item, Literal):
            self.namespace[f"c{k}"] = self.literal(item.value)
            self.names.append(f"c{k}")
        else:
            self.names.append(f"t{k}")
            self.instruction(k, item)

    def set(self, k: Ref, text: str) -> None:
        """The line of value k."""
        self.lines.append(f"t{k} = {text}")

    def parameters(self, k: Ref, item: CallApply) -> str:
        """The parameters of a record, which reach the kernel as they are."""
        if all(isinstance(value, int | str) for value in item.params):
            return repr(item.params)
        self.namespace[f"p{k}"] = item.params
        if item.name == FOREIGN:
            self.lines.append(f"# p{k} = {item.params[0]!r}")
        return f"p{k}"

    def slice_functions(self, slices: Slices, make: Callable[[SlicedProgram], Writer]) -> str:
        """The names of the functions for a slice and for the last one, which are compiled."""
        compiled = [
            make(program).compiled(
                [item.name for item in program.instructions if isinstance(item, Load)], name
            )
            for name, program in (("rows", slices.body), ("last_rows", slices.last))
            if program is not None
        ]
        if len({part.source.partition("\n")[2] for part in compiled}) == 1:
            compiled = compiled[:1]  # no number of rows is written there
        self.functions += [part.source for part in compiled]
        self.namespace.update({part.function.__name__: part.function for part in compiled})
        return ", ".join([compiled[0].function.__name__, compiled[-1].function.__name__])

    @abstractmethod
    def literal(self, value: np.ndarray) -> Any:
        """A constant as the target has it."""

    @abstractmethod
    def instruction(self, k: Ref, item: Instruction) -> None:
        """The lines of an instruction that computes something."""

    @abstractmethod
    def result(self, ref: Ref) -> str:
        """A result as it is given back."""


class FunctionalWriter(Writer):
    """For libraries that fuse, or that differentiate: every value is an expression of earlier ones.

    The namespace must hold the library under the name of the dialect, `dtype`, and two functions: an
    `affine_view` of an array and a `place` for a value in an array of zeros. `frees` says that values are
    computed line by line, so that it helps to forget those that are done with.
    """

    frees = False

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.last = program.last_uses()

    def instruction(self, k: Ref, item: Instruction) -> None:
        match item:
            case View():
                self.set(k, self.view(item, self.names[item.source], self.program.shapes[item.source]))
            case Reduce():
                self.set(k, self.dialect.summed(self.names[item.source], item.positions))
            case Scale():
                source = self.names[item.source]
                self.set(k, f"-{source}" if item.factor == -1 else f"{item.factor!r} * {source}")
            case Contract():
                self.set(k, self._product(item))
            case Combine():
                self.combine(k, item)
            case CallMap():
                self.namespace[item.name] = self.elementwise(item.name)
                self.set(k, f"{item.name}({', '.join(self.names[source] for source in item.sources)})")
            case CallApply():
                self.namespace[item.name] = self.record(item.name)
                operands = [self.parameters(k, item), *(self.names[source] for source in item.sources)]
                self.set(k, f"{item.name}({', '.join(operands)})")
            case Load() | Literal() | Count():
                raise AssertionError("leaves have no lines")
            case _:
                assert_never(item)
        if self.frees:
            self._release(k)

    def read(self, k: Ref) -> Iterable[Ref]:
        """The values that the line of an instruction reads."""
        return sources(self.program.instructions[k])

    def _release(self, k: Ref) -> None:
        """Forget what is done with, so that its memory can be used again."""
        done = dict.fromkeys(source for source in self.read(k) if self.last[source] == k)
        dead = [self.names[s] for s in done if not isinstance(self.program.instructions[s], Load | Literal)]
        if dead and k + 1 < len(self.program.instructions):
            self.lines.append(f"del {', '.join(dead)}")

    def _product(self, item: Contract) -> str:
        write = self.contract if item.is_sum else self.dialect.multiplied
        return write(item, self.names[item.left], self.names[item.right])

    def result(self, ref: Ref) -> str:
        return self.names[ref]

    def view(self, item: View, name: str, shape: tuple[int, ...]) -> str:
        """A value read through affine axes: an index expression where one exists, else `affine_view`."""
        text = self.dialect.indexed(item, name, shape)
        return text or f"affine_view({name}, {affine_text(item.axes, item.labels, item.ranges)})"

    def contract(self, item: Contract, left: str, right: str) -> str:
        """A product that is summed."""
        return self.dialect.einsum(item, left, right)

    def combine(self, k: Ref, item: Combine) -> None:
        """The lines of a sum: dense terms, and others put in their places by `place`.

        Those added to a few entries have a line each: Python allows 200 parentheses around something.
        """
        shape, module = self.program.shapes[k], self.dialect.module
        terms = [(term, self.names[term.source]) for term in item.terms]
        dense = [(term, name) for term, name in terms if term.is_dense(shape)]
        parts = [self.dialect.dense_sum(dense)] if dense else []
        if item.missing(shape):
            parts = [f"{module}.broadcast_to({parts[0]}, {tuple_text(shape)})"]
        placed = [(term, name) for term, name in terms if not term.is_dense(shape)]
        side_by_side = self.dialect.concatenated(placed, shape) if placed else None
        whole, local = ([], []) if side_by_side else self.split(placed, shape)
        parts += [side_by_side] if side_by_side else []
        parts += self.placed(whole, shape)
        text = " + ".join(parts) if parts else f"{module}.zeros({tuple_text(shape)}, dtype)"
        self.set(k, text)
        self.add(k, local, shape)

    def split(self, placed: Terms, shape: tuple[int, ...]) -> tuple[Terms, Terms]:
        """Terms that are put into arrays of zeros and added, and those added to a few entries of the sum."""
        return placed, []

    def add(self, k: Ref, local: Terms, shape: tuple[int, ...]) -> None:
        """The lines that add terms to a few entries of a sum."""
        assert not local, "whoever splits terms adds them"

    def placed(self, terms: Terms, shape: tuple[int, ...]) -> list[str]:
        """Arrays that hold terms, and zeros beside them."""
        return [f"place({self.places(*each)}, {tuple_text(shape)})" for each in terms]

    def places(self, term: Placed, name: str) -> str:
        """What is placed, and the offsets, strides and ranges of its labels."""
        labels = placed_labels(term)
        value = self.dialect.aligned(name, term.labels, labels)
        value = value if term.factor == 1 else f"{term.factor!r} * {value}"
        return f"{value}, {affine_text(term.output, labels, term.ranges)}"

    @abstractmethod
    def elementwise(self, name: str) -> Callable[..., Any]:
        """The kernel of a row."""

    @abstractmethod
    def record(self, name: str) -> Callable[..., Any]:
        """The kernel of a record."""
