"""An independent reader of printed formulas with affine axes, which the matrix language does not have."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


class Reader:
    """Evaluates printed formulas. Vectors are columns; a value is an array and its number of axes."""

    def __init__(self, values: Mapping[str, np.ndarray], shape: Sequence[int], placed: bool = False) -> None:
        self.values = {name: (np.asarray(value), np.ndim(value)) for name, value in values.items()}
        self.shape = tuple(shape)
        self.placed = placed
        """Whether all products with indices have the shape of the result, which the text does not tell."""

    def read(self, formula: str) -> np.ndarray:
        formula, _, definitions = formula.partition(" where ")
        for definition in filter(None, definitions.split("; ")):
            name, _, body = definition.partition(" = ")
            self.values[name] = self.whole(body)
        return np.broadcast_to(self.whole(formula)[0], self.shape)

    def whole(self, body: str) -> tuple[np.ndarray, int]:
        self.tokens = re.findall(r"->|\.[*/^]|\d+(?:\.\d+)?(?:e[+-]?\d+)?|[A-Za-z]\w*|\S", body)
        found = self.expression()
        assert not self.tokens
        return found

    def take(self, *expected: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in expected else None

    def expression(self) -> tuple[np.ndarray, int]:
        depths = itertools.accumulate({"(": 1, ")": -1}.get(token, 0) for token in self.tokens)
        inside = itertools.takewhile(lambda pair: pair[0] >= 0, zip(depths, self.tokens, strict=True))
        return self.arrow() if (0, "->") in list(inside) else self.sum()

    def sum(self) -> tuple[np.ndarray, int]:
        value, rank = self.product(-1.0 if self.take("-") else 1.0)
        while sign := self.take("+", "-"):
            term, term_rank = self.product(1.0 if sign == "+" else -1.0)
            value, rank = value + term, max(rank, term_rank)
        return value, rank

    def product(self, sign: float) -> tuple[np.ndarray, int]:
        value, rank = self.power()
        value = sign * value
        while operator := self.take("*", "/", ".*", "./"):
            other, other_rank = self.power()
            if operator == "*" and rank and other_rank:
                value, rank = self.matrix_product(value, rank, other, other_rank)
                continue
            assert operator.startswith(".") or not (rank and other_rank)
            assert operator != "/" or not other_rank
            value = value * other if "*" in operator else value / other
            rank = max(rank, other_rank)
        return value, rank

    @staticmethod
    def matrix_product(left: np.ndarray, rank: int, right: np.ndarray, other: int) -> tuple[np.ndarray, int]:
        assert other == 1 or right.ndim == 2
        if left.ndim == 1 and right.ndim == 2:
            assert right.shape[0] == 1  # only an outer product has a column on its left
            return np.outer(left, right), 2
        if right.ndim == 1 and left.shape[0] == 1:
            return left[0] @ right, 0
        return left @ right, right.ndim

    def power(self) -> tuple[np.ndarray, int]:
        value, rank = self.atom()
        while operator := self.take("'", "^", ".^"):
            if operator == "'":
                value, rank = (value[None, :], 2) if rank == 1 else (value.T, rank)
            else:
                exponent, _ = self.atom()
                value = value**exponent
                assert (operator == "^") == (rank == 0)
        return value, rank

    def atom(self) -> tuple[np.ndarray, int]:
        token = self.tokens.pop(0)
        if token == "(":
            found = self.expression()
            assert self.take(")")
            return found
        if token[0].isdigit():
            return np.asarray(float(token)), 0
        if not self.take("("):
            return self.values[token]
        arguments = [self.expression()[0]]
        while self.take(","):
            arguments.append(self.expression()[0])
        assert self.take(")")
        value = np.asarray(FUNCTIONS[token](*arguments))
        return value, value.ndim

    def arrow(self) -> tuple[np.ndarray, int]:
        factors = []
        while not self.take("->"):
            value, rank = self.atom()
            factors.append((value, self.axes() if rank else []))
        output = self.axes()
        ranges: dict[str, int] = {}
        sized = [pair for value, axes in factors for pair in zip(axes, value.shape, strict=True)]
        inside = {letter for (strides, _), _ in sized for letter in strides}
        if len(output) == len(self.shape):
            placed = zip(output, self.shape, strict=True)
            sized += [(a, size) for a, size in placed if a not in [({letter: 1}, 0) for letter in inside]]
        for (strides, offset), size in sized:
            if len(strides) == 1:
                ((letter, stride),) = strides.items()
                reach = (size - 1 - offset) // stride + 1 if stride > 0 else offset // -stride + 1
                ranges[letter] = min(ranges.get(letter, reach), reach)
        while self.take(","):
            letter = self.tokens.pop(0)
            assert self.take("<")
            ranges[letter] = int(self.tokens.pop(0))
        return self.contract(factors, output, ranges)

    def contract(self, factors: Any, output: Any, ranges: Mapping[str, int]) -> tuple[np.ndarray, int]:
        plain = all(offset == 0 and list(strides.values()) == [1] for strides, offset in output)
        names = ["".join(strides) for strides, _ in output]
        own = plain and len(set(names)) == len(names) and not self.placed
        result = np.zeros([ranges[name] for name in names] if own else self.shape)
        for point in itertools.product(*map(range, ranges.values())):
            at = dict(zip(ranges, point, strict=True))
            term = 1.0
            for value, axes in factors:
                term = term * value[tuple(place(axis, at) for axis in axes)]
            result[tuple(place(axis, at) for axis in output)] += term
        return result, result.ndim

    def axes(self) -> list[tuple[dict[str, int], int]]:
        """Strides by letter and the offset of each axis in brackets."""
        assert self.take("[")
        found: list[tuple[dict[str, int], int]] = []
        body = ""
        while not self.take("]"):
            body += self.tokens.pop(0)
        for axis in filter(None, body.split(",")):
            strides, offset = {}, 0
            for sign, number, letter in re.findall(r"([+-]?)(\d*)([a-z]?)", axis):
                size = int(sign + (number or "1")) if number or letter else 0
                if letter:
                    strides[letter] = size
                else:
                    offset += size
            found.append((strides, offset))
        return found


def place(axis: tuple[dict[str, int], int], at: Mapping[str, int]) -> int:
    strides, offset = axis
    return offset + sum(stride * at[letter] for letter, stride in strides.items())


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "sin": np.sin,
    "maximum": np.maximum,
    "sigmoid": lambda value: 1 / (1 + np.exp(-value)),
    "diag": np.diag,
    "diagonal": np.diagonal,
    "sum": np.sum,
    "tr": np.trace,
    "eye": lambda size: np.eye(int(size)),
    "ones": lambda *sizes: np.ones([int(size) for size in sizes]),
    "zeros": lambda *sizes: np.zeros([int(size) for size in sizes]),
}
