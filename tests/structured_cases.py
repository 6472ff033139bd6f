"""Structured tensors to test with: random patterns, and derivatives of the problems everybody knows.

The random tensors are drawn as lists of terms, and their dense form is added up entry by entry from those,
so that the reference shares nothing with the constructors.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import hesse
from hesse import Structured
from hesse.ir import Axis, Node, add, einsum, plain_axes, variable

LARGEST_BOX = 600
"""Terms range over at most this many points."""


class RandomTerm(NamedTuple):
    """A term as it was drawn: shapes and axes of its factors, output axes, label ranges, scale."""

    shapes: tuple[tuple[int, ...], ...]
    axes: tuple[tuple[Axis, ...], ...]
    output: tuple[Axis, ...]
    ranges: tuple[int, ...]
    scale: float


class RandomTensor(NamedTuple):
    """A structured tensor and its dense form."""

    tensor: Structured
    dense: np.ndarray
    groups: tuple[int, ...]


def span(axis: Axis, ranges: Sequence[int]) -> tuple[int, int]:
    """Smallest and largest value of an axis."""
    ends = [stride * (ranges[label] - 1) for label, stride in axis.terms]
    return axis.offset + sum(min(0, end) for end in ends), axis.offset + sum(max(0, end) for end in ends)


class Chooser:
    """Draws terms with all kinds of axes: plain, repeated, shifted, flipped, strided, digits, constant."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ranges: list[int] = []

    def label(self, longest: int) -> int:
        """A label of at most this range: an old one, or a new one (mostly as long as it may be)."""
        fitting = [label for label, size in enumerate(self.ranges) if size <= longest]
        if fitting and self.random.random() < 0.55:
            return self.random.choice(
                [*fitting, *(label for label in fitting if self.ranges[label] == longest)]
            )
        room = LARGEST_BOX // math.prod(self.ranges)
        size = longest if self.random.random() < 0.7 else self.random.randint(1, longest)
        self.ranges.append(min(size, room))
        return len(self.ranges) - 1

    def output(self, size: int) -> Axis:
        """An axis that stays inside of `size`."""
        kind = self.random.choices(["plain", "strided", "digits", "constant"], [6, 3, 2, 1])[0]
        if kind == "constant":
            return Axis((), self.random.randrange(size))
        stride = self.random.choice([1, 1, 2, 3]) if kind == "strided" else 1
        terms = {self.label((size - 1) // stride + 1 if kind != "digits" else max(1, size // 2)): stride}
        if kind == "digits":
            (low,) = terms
            radix = self.ranges[low]
            terms.setdefault(self.label(max(1, size // radix)), radix)
        if kind != "plain" and self.random.random() < 0.4:
            terms = {label: -stride for label, stride in terms.items()}
        low, high = span(Axis(tuple(terms.items()), 0), self.ranges)
        return Axis(tuple(sorted(terms.items())), self.random.randint(0, size - 1 - (high - low)) - low)

    def factor(self) -> tuple[tuple[Axis, ...], tuple[int, ...]]:
        """Axes and shape of a factor: mostly plain labels of the output, some summed."""
        axes, shape = [], []
        for _ in range(self.random.choice([0, 1, 1, 2, 2, 3])):
            terms = {self.label(3): 1}
            if self.ranges and self.random.random() < 0.8:
                terms = {self.random.randrange(len(self.ranges)): self.random.choice([1, 1, 1, 1, -1, 2])}
            if self.random.random() < 0.15:
                terms[self.random.randrange(len(self.ranges))] = self.random.choice([1, -1, 3])
            low, high = span(Axis(tuple(terms.items()), 0), self.ranges)
            slack = self.random.choice([0, 0, 1, 2])
            axes.append(Axis(tuple(sorted(terms.items())), self.random.randint(0, slack) - low))
            shape.append(high - low + 1 + slack)
        return tuple(axes), tuple(shape)

    def term(self, shape: tuple[int, ...]) -> RandomTerm:
        """A term of a tensor of this shape."""
        self.ranges = []
        output = tuple(map(self.output, shape))
        factors = [self.factor() for _ in range(self.random.choice([0, 1, 1, 2, 2, 3]))]
        return RandomTerm(
            tuple(sizes for _, sizes in factors),
            tuple(axes for axes, _ in factors),
            output,
            tuple(self.ranges),
            self.random.choice([1.0, -2.0, 0.5]),
        )

    def shape(self, groups: Sequence[int]) -> tuple[int, ...]:
        """The shape of a derivative: the result's axes, then those of the variable for each order."""
        sizes = [2, 3, 4, 6] if sum(groups) <= 2 else [1, 2, 3, 4]
        one = tuple(self.random.choice(sizes) for _ in range(groups[-1]))
        square = groups[0] == groups[-1] and self.random.random() < 0.5
        lead = one if square else tuple(self.random.choice(sizes) for _ in range(groups[0]))
        return lead + one * (len(groups) - 1)


def random_tensor(seed: int, groups: tuple[int, ...]) -> RandomTensor:
    """A sum of up to three random terms."""
    chooser = Chooser(seed)
    shape = chooser.shape(groups)
    terms = [chooser.term(shape) for _ in range(chooser.random.choice([0, 1, 1, 1, 2, 2, 2, 3, 3, 3]))]
    return assembled(terms, shape, groups, np.random.default_rng(seed))


def assembled(
    terms: Sequence[RandomTerm],
    shape: tuple[int, ...],
    groups: tuple[int, ...],
    generator: np.random.Generator,
) -> RandomTensor:
    """The tensor by the constructors, and the dense one entry by entry."""
    values: dict[str, np.ndarray] = {}
    nodes: list[Node] = []
    dense = np.zeros(shape)
    for term in terms:
        operands: list[Node] = []
        factors: list[np.ndarray] = []
        for sizes in term.shapes:
            operand, parts, factor = drawn_factor(f"part{len(values)}", sizes, generator)
            values.update(parts)
            operands.append(operand)
            factors.append(factor)
        nodes.append(einsum(operands, term.axes, term.output, shape, term.ranges, term.scale))
        for point in itertools.product(*map(range, term.ranges)):
            entry = term.scale
            for factor, axes in zip(factors, term.axes, strict=True):
                entry *= factor[position(axes, point)]
            dense[position(term.output, point)] += entry
    return RandomTensor(Structured.of(add(nodes, shape), values, groups), dense, groups)


def drawn_factor(
    name: str, shape: tuple[int, ...], generator: np.random.Generator
) -> tuple[Node, dict[str, np.ndarray], np.ndarray]:
    """A factor, its parts and its value: a random array, or a difference like `x[i] - y[j]`."""
    if len(shape) < 2 or generator.random() < 0.6:
        value = generator.normal(size=shape)
        return variable(name, shape), {name: value}, value
    axes, node, parts, total = plain_axes(len(shape)), [], {}, np.zeros(shape)
    for missing, sign in ((0, 1.0), (len(shape) - 1, -1.0)):
        kept = [k for k in range(len(shape)) if k != missing]
        part = generator.normal(size=[shape[k] for k in kept])
        parts[f"{name}.{missing}"] = part
        operand = variable(f"{name}.{missing}", part.shape)
        node.append(einsum([operand], [[axes[k] for k in kept]], axes, shape, shape, sign))
        total += sign * np.expand_dims(part, missing)
    return add(node, shape), parts, total


def position(axes: Sequence[Axis], point: Sequence[int]) -> tuple[int, ...]:
    """Where the axes point."""
    return tuple(axis.offset + sum(stride * point[label] for label, stride in axis.terms) for axis in axes)


class Problem(NamedTuple):
    """A derivative of a function at a point."""

    function: Callable[..., Any]
    point: np.ndarray
    order: int = 2

    def structured(self) -> Structured:
        """The structured form."""
        return hesse.derivative(self.function, self.order, form="structured")(self.point)  # type: ignore[no-any-return]

    def dense(self) -> np.ndarray:
        """The dense form."""
        return np.asarray(hesse.derivative(self.function, self.order)(self.point))

    def groups(self) -> tuple[int, ...]:
        """The ranks of the groups of axes."""
        value = np.asarray(self.function(self.point))
        return (value.ndim, *(self.point.ndim,) * self.order)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers that are always the same."""
    return np.random.default_rng(seed).normal(size=shape)


TARGET, RIGHT, MASK = normal(8, 7, seed=1), normal(7, 3, seed=2), (normal(8, 7, seed=3) > -0.5) * 1.0
WIDE, TALL = normal(3, 10, seed=4), normal(40, 10, seed=5)
KERNEL = normal(3, 3, seed=6)
KEYS, VALUES = normal(5, 3, seed=7), normal(5, 2, seed=8)
CUBE, SECOND, THIRD = normal(6, 5, 4, seed=9), normal(5, 3, seed=10), normal(4, 3, seed=11)
DYNAMICS = normal(3, 3, seed=12) / 2
LEFT, OTHER = normal(4, 4, seed=13), normal(5, 5, seed=14)


def factorisation(left: Any) -> Any:
    return np.sum((TARGET - left @ RIGHT.T) ** 2)


def masked_factorisation(left: Any) -> Any:
    return np.sum(MASK * (TARGET - left @ RIGHT.T) ** 2)


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def log_determinant(matrix: Any) -> Any:
    return np.linalg.slogdet(matrix)[1]


def logistic(data: np.ndarray) -> Callable[[Any], Any]:
    return lambda w: np.sum(hesse.softplus(-(data @ w))) + 0.5 * np.sum(w**2)


def pair_potential(points: Any) -> Any:
    difference = points[:, None, :] - points[None, :, :]
    return np.sum(np.exp(-0.5 * np.sum(difference**2, axis=-1)))


def parafac(first: Any) -> Any:
    return np.sum((CUBE - np.einsum("ir,jr,kr->ijk", first, SECOND, THIRD)) ** 2)


def batch_as_sum(x: Any) -> Any:
    return np.sum(np.sum(np.tanh(x) ** 2, axis=-1) ** 2)


def stencil(u: Any) -> Any:
    return np.sum((u[1:] - u[:-1]) ** 2) + np.sum((u[:, 1:] - u[:, :-1]) ** 2) + np.sum(u**4)


def convolution(x: Any) -> Any:
    size = 4
    return np.tanh(sum(KERNEL[a, b] * x[a : a + size, b : b + size] for a in range(3) for b in range(3)))


def attention(queries: Any) -> Any:
    return hesse.softmax(queries @ KEYS.T) @ VALUES


def control(states: Any) -> Any:
    return np.sum((states[1:] - np.tanh(states[:-1]) @ DYNAMICS) ** 2) + np.sum(states**2)


def flattened_factorisation(x: Any) -> Any:
    return masked_factorisation(x.reshape(8, 3)) + np.sum(x**2)


def positive(size: int, seed: int = 0) -> np.ndarray:
    """A symmetric positive definite matrix."""
    matrix = normal(size, size, seed=seed)
    return matrix @ matrix.T + size * np.eye(size)


PROBLEMS: dict[str, Problem] = {
    "factorisation": Problem(factorisation, normal(8, 3)),
    "masked factorisation": Problem(masked_factorisation, normal(8, 3)),
    "Rosenbrock": Problem(rosenbrock, normal(12)),
    "log-determinant": Problem(log_determinant, positive(4)),
    "logistic, few examples": Problem(logistic(WIDE), normal(10)),
    "logistic, many examples": Problem(logistic(TALL), normal(10)),
    "pair potential": Problem(pair_potential, normal(6, 3)),
    "PARAFAC": Problem(parafac, normal(6, 3)),
    "batch as sum": Problem(batch_as_sum, normal(7, 3)),
    "2-d stencil": Problem(stencil, normal(6, 5)),
    "optimal control": Problem(control, normal(9, 3)),
    "flattened factorisation": Problem(flattened_factorisation, normal(24)),
    "third derivative, logistic": Problem(logistic(WIDE), normal(10), order=3),
    "third derivative, Rosenbrock": Problem(rosenbrock, normal(7), order=3),
    "gradient": Problem(rosenbrock, normal(7), order=1),
    "Jacobian, convolution": Problem(convolution, normal(6, 6), order=1),
    "Jacobian, attention": Problem(attention, normal(4, 3), order=1),
    "second derivative, attention": Problem(attention, normal(2, 3), order=2),
    "Jacobian, product": Problem(lambda x: LEFT @ x @ OTHER, normal(4, 5), order=1),
    "zero": Problem(lambda x: np.sum(TALL**2) + 0.0 * np.sum(x), normal(5)),
    "size one": Problem(lambda x: np.sum(x**3) ** 2, normal(1, 1)),
    "column": Problem(lambda u: np.sum((TARGET - u @ RIGHT[:, :1].T) ** 2), normal(8, 1)),
}
