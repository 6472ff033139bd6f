"""Products of three values, entry by entry: the two that others multiply too come first.

`w[i] r[n] a[i,n]` and `w[i] r[n] b[i,n]`, as the gradient of a net has them, share `w[i] r[n]`. Each product
by itself could as well begin with `w[i] a[i,n]`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

from hesse.plan.program import Contract, Draft, Instruction, Program, Ref, sources, with_sources

Labels = tuple[int, ...]


class Operand(NamedTuple):
    """A value in a product, with the labels of its axes there."""

    ref: Ref
    labels: Labels


Operands = tuple[Operand, Operand, Operand]


class Triple(NamedTuple):
    """Three operands; the first two are multiplied first, by an instruction that nobody else reads."""

    operands: Operands
    inner: Ref


def with_shared_pairs(program: Program) -> Program:
    """The program in which products of three values begin with what others have too, if that saves work."""
    triples = _triples(program)
    counts: Counter[Contract] = Counter()
    for triple in triples.values():
        counts.update({_product(*pair) for pair in combinations(triple.operands, 2)})
    orders = {k: _best_first(triple.operands, counts) for k, triple in triples.items()}
    if all(counts[_product(*order[:2])] == 1 for order in orders.values()):
        return program
    found = _rewritten(program, triples, orders)
    added = found.peak_elements() - program.peak_elements()  # what is shared lives longer
    return found if program.total_flops - found.total_flops > 2 * max(added, 0) else program


def _operands(item: Contract) -> tuple[Operand, Operand]:
    return Operand(item.left, item.left_labels), Operand(item.right, item.right_labels)


def _is_elementwise(item: Instruction) -> bool:
    return isinstance(item, Contract) and not item.is_sum


def _triples(program: Program) -> dict[Ref, Triple]:
    """Products with a product that nobody else reads; those are no triples themselves."""
    reads = Counter([source for item in program.instructions for source in sources(item)])
    reads.update(program.results)
    found: dict[Ref, Triple] = {}
    for k, item in enumerate(program.instructions):
        if not isinstance(item, Contract) or not _is_elementwise(item):
            continue
        for one, other in (_operands(item), _operands(item)[::-1]):
            inner = program.instructions[one.ref]
            if not isinstance(inner, Contract) or not _is_elementwise(inner):
                continue
            if reads[one.ref] == 1 and one.ref not in found:
                names = dict(zip(inner.labels, one.labels, strict=True))
                first, second = (
                    Operand(ref, tuple(names[label] for label in labels)) for ref, labels in _operands(inner)
                )
                found[k] = Triple((first, second, other), one.ref)
                break
    return found


def _labels(one: Operand, other: Operand) -> Labels:
    """The labels of the product of two operands, in the order in which it has them."""
    first, second = sorted((one, other))
    return tuple(dict.fromkeys(first.labels + second.labels))


def _product(one: Operand, other: Operand) -> Contract:
    """The product of two operands; it looks the same in whatever product it stands."""
    first, second = sorted((one, other))
    names = {label: n for n, label in enumerate(_labels(one, other))}
    left, right = (tuple(names[label] for label in operand.labels) for operand in (first, second))
    return Contract(first.ref, second.ref, left, right, tuple(names.values()))


def _best_first(operands: Operands, counts: Mapping[Contract, int]) -> Operands:
    """The operands with the most frequent pair first, of those with no more axes than the pair that was."""
    a, b, c = operands
    rank = len(_labels(a, b))
    pairs = [(a, b, c), (a, c, b), (b, c, a)]
    return max(
        (pair for pair in pairs if len(_labels(*pair[:2])) <= rank),
        key=lambda pair: counts[_product(*pair[:2])],
    )


def _rewritten(program: Program, triples: Mapping[Ref, Triple], orders: Mapping[Ref, Operands]) -> Program:
    """The program with products in these orders; equal pairs are one instruction."""
    inner = {triple.inner for triple in triples.values()}
    draft = Draft()
    new: dict[Ref, Ref] = {}
    pairs: dict[Contract, Ref] = {}
    for k, item in enumerate(program.instructions):
        if k in inner:
            continue
        if k in orders:
            assert isinstance(item, Contract)
            one, other, last = orders[k]
            pair, labels = _product(one, other), _labels(one, other)
            if pair not in pairs:
                sizes = dict(zip(item.labels, program.shapes[k], strict=True))
                shape = tuple(sizes[label] for label in labels)
                read = with_sources(pair, [new[pair.left], new[pair.right]])
                pairs[pair] = draft.add(read, shape, float(math.prod(shape)))
            item = Contract(pairs[pair], new[last.ref], labels, last.labels, item.labels)  # noqa: PLW2901
        else:
            item = with_sources(item, [new[source] for source in sources(item)])  # noqa: PLW2901
        new[k] = draft.add(item, program.shapes[k], program.flops[k])
    return draft.program([new[k] for k in program.results], program.node_count)
