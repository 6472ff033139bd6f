"""What a derivative costs for given sizes: operations, and memory of the dense and of the structured form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hesse.api.explain import Explanation
from hesse.api.formula import Formula
from hesse.backends.executable import Executable
from hesse.backends.numpy import TARGET
from hesse.errors import ArgumentError
from hesse.ir import Node, bind_sizes, number
from hesse.rewrite import simplify
from hesse.structured import stored
from hesse.structured.patterns import products, written
from hesse.structured.terms import core_shape, pattern_text

DEFAULT_SIZE = 100
LARGEST_SIZE = 10**9


@dataclass(frozen=True)
class TermAnswer:
    """One term of a derivative: which axes repeat, the numbers it needs, and how often they are written."""

    pattern: str
    core: tuple[int, ...]
    factors: int
    copies: int


@dataclass(frozen=True)
class Cost:
    """Operations and memory of a derivative in double precision, and its structure."""

    sizes: dict[str, int]
    shape: tuple[int, ...]
    flops: float
    structured_flops: float
    dense_bytes: int
    structured_bytes: int
    peak_bytes: int
    bytes_moved: int
    nodes: int
    contractions: tuple[str, ...]
    terms: tuple[TermAnswer, ...]


def cost(derivative: Formula, sizes: Mapping[str, int]) -> Cost:
    """What the derivative costs; sizes that are not given are taken to be 100.

    >>> from hesse import parse
    >>> found = cost(parse("sum(exp(x))").diff("x", "x"), {"n": 1000})
    >>> found.dense_bytes, found.structured_bytes, found.terms[0].pattern
    (8000000, 8000, 'ii')
    """
    bound = bound_sizes(derivative, sizes)
    node = bound_node(derivative, bound)
    storage = stored(node)
    plan = Explanation((node,), Executable(TARGET.planned([node]), (), np.dtype(float), TARGET))
    return Cost(
        sizes=bound,
        shape=tuple(map(number, node.shape)),
        flops=plan.flops,
        structured_flops=TARGET.planned(storage.sources).total_flops if storage.sources else 0.0,
        dense_bytes=8 * math.prod(map(number, node.shape)),
        structured_bytes=8 * storage.entries,
        peak_bytes=plan.peak_bytes,
        bytes_moved=plan.bytes,
        nodes=plan.nodes,
        contractions=plan.contractions,
        terms=_terms(storage.node),
    )


def bound_sizes(derivative: Formula, sizes: Mapping[str, int]) -> dict[str, int]:
    """A number for each size that the formula leaves open."""
    names = derivative.open_sizes
    for name, size in sizes.items():
        if name not in names:
            known = ", ".join(names) or "none"
            raise ArgumentError(f"there is no size {name} in the formula; it has {known}")
        if not 1 <= size <= LARGEST_SIZE:
            raise ArgumentError(f"the size {name} must be from 1 to {LARGEST_SIZE:,}, not {size}")
    return {name: sizes.get(name, DEFAULT_SIZE) for name in names}


def bound_node(derivative: Formula, sizes: Mapping[str, int]) -> Node:
    """The derivative with numbers for sizes."""
    (node,) = bind_sizes(simplify([derivative.node]), sizes)
    return node


def _terms(node: Node) -> tuple[TermAnswer, ...]:
    found = []
    for term in products(node):
        core = core_shape(term.axes, term.output, term.ranges)
        copies = written(term) // math.prod(core)
        found.append(TermAnswer(pattern_text(term.output), core, len(term.operands), copies))
    return tuple(found)
