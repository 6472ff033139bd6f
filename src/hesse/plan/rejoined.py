"""Products that fell into pieces at the borders of a result are one product again.

Windows that hang over an edge are cut there: the Jacobian of a padded convolution is a sum of nine products
of parts of the same two arrays, one for the inside and eight for the borders. A library that computes each
entry of a sum from its position can take the whole product, and leave out what lies outside of the result.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hesse.ir import Axis
from hesse.plan.program import (
    Combine,
    Contract,
    Draft,
    Instruction,
    Load,
    Placed,
    Program,
    Ref,
    Sizes,
    View,
    reordered,
    sources,
)

MOST_POSITIONS = 2**16
"""Combinations of positions along joint axes up to which it is counted how many lie inside of a result."""

Range = tuple[int, int]


class Part(NamedTuple):
    """A factor of a term: the value that it is read from, and where, by the axes of the term."""

    root: Ref
    axes: tuple[Axis, ...]


class Piece(NamedTuple):
    """A term of a sum: its factors, its size, and where it is put, by its own axes."""

    term: Placed
    parts: tuple[Part, ...]
    sizes: Sizes
    output: tuple[Axis, ...]


class Whole(NamedTuple):
    """The product that pieces are parts of: their axes become positions in the values they are read from.

    `first` says for each axis in which factor, and along which axis of that, the position is read.
    """

    main: Piece
    first: tuple[tuple[int, int], ...]
    starts: tuple[int, ...]
    output: tuple[Axis, ...]

    @classmethod
    def of(cls, main: Piece) -> Whole | None:
        """The product that a piece is a part of."""
        places = [(p, a) for p, part in enumerate(main.parts) for a in range(len(part.axes))]
        found = [
            next((place for place in places if _axis(main, place).labels() == [k]), None)
            for k in range(len(main.sizes))
        ]
        first = tuple([place for place in found if place is not None])
        if len(first) < len(found):
            return None
        starts = tuple([_axis(main, place).offset for place in first])
        back = [-start for start in starts]
        return cls(main, first, starts, tuple([_at(axis, back) for axis in main.output]))

    def box(self, piece: Piece) -> list[Range] | None:
        """The positions that a piece has of the product; None if it is another one."""
        own = [_axis(piece, place) for place in self.first]
        starts = [axis.offset for axis in own]
        moved = [start - before for start, before in zip(starts, self.starts, strict=True)]
        names = {k: axis.label for k, axis in enumerate(own) if axis.terms}
        if sorted(names.values()) != [*range(len(piece.sizes))]:
            return None

        def there(axis: Axis, by: Sequence[int]) -> Axis:
            terms = tuple(sorted((names[k], step) for k, step in axis.terms if k in names))
            return _at(axis, by)._replace(terms=terms)

        whole = [*itertools.chain(*(part.axes for part in self.main.parts))]
        read = [*itertools.chain(*(part.axes for part in piece.parts))]
        if read != [there(axis, moved) for axis in whole]:
            return None
        if [*piece.output] != [there(axis, starts) for axis in self.output]:
            return None
        sizes = [piece.sizes[names[k]] if k in names else 1 for k in range(len(own))]
        return [(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def rejoined(program: Program, is_found: Callable[[Placed, Sizes], bool]) -> Program:
    """The program with one term for pieces of a product, if it can be put there (`is_found`)."""
    new = _New(program)
    for ref, item in enumerate(program.instructions):
        if not isinstance(item, Combine):
            continue
        terms = list(item.terms)
        for pieces in _alike(program, item):
            found = _joined(pieces, program.shapes[ref])
            if found is not None and is_found(found[1], program.shapes[ref]):
                old = [piece.term for piece in pieces]
                terms = [each for each in terms if each not in old]
                terms.append(new.read(ref, *found))
        new.instructions[ref] = replace(item, terms=tuple(terms))
    return new.read_program() if new.before else program


class _New(Draft):
    """A program to which instructions are added."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.old = program
        for item, shape, work in zip(program.instructions, program.shapes, program.flops, strict=True):
            self.add(item, shape, work)
        self.before: defaultdict[Ref, list[Ref]] = defaultdict(list)
        """The instructions to insert before each."""

    def read(self, before: Ref, views: Sequence[View], term: Placed) -> Placed:
        """The term with one view, or the product of two, as its value."""
        sizes = [tuple([term.ranges[label] for label in view.labels]) for view in views]
        refs = [self._inserted(before, view, shape, 0.0) for view, shape in zip(views, sizes, strict=True)]
        if len(refs) > 1:
            left, right = views
            product = Contract(refs[0], refs[1], left.labels, right.labels, term.labels)
            refs = [self._inserted(before, product, term.ranges, float(math.prod(term.ranges)))]
        return replace(term, source=refs[0])

    def _inserted(self, before: Ref, item: Instruction, shape: Sizes, work: float) -> Ref:
        ref = self.add(item, shape, work)
        self.before[before].append(ref)
        return ref

    def read_program(self) -> Program:
        """The program, without what nothing reads any more."""
        items = self.instructions
        order = [k for ref in range(len(self.old.instructions)) for k in (*self.before.get(ref, ()), ref)]
        read = {*self.old.results, *(k for k in order if isinstance(items[k], Load))}
        for k in reversed(order):
            read.update(sources(items[k]) if k in read else ())
        whole = self.program(self.old.results, self.old.node_count)
        return reordered(whole, [k for k in order if k in read])


def _alike(program: Program, item: Combine) -> list[list[Piece]]:
    """Terms that are products of parts of the same values, if there are several."""
    groups: defaultdict[tuple[float, tuple[Ref, ...]], list[Piece]] = defaultdict(list)
    for term in item.terms:
        piece = _piece(program, term)
        if piece is not None:
            groups[term.factor, tuple([part.root for part in piece.parts])].append(piece)
    return [pieces for pieces in groups.values() if len(pieces) > 1]


def _piece(program: Program, term: Placed) -> Piece | None:
    item = program.instructions[term.source]
    if isinstance(item, Contract) and not item.is_sum:
        sides = [(item.left, item.left_labels), (item.right, item.right_labels)]
    elif isinstance(item, View):  # of the whole product, perhaps
        sides = [(term.source, item.labels)]
    else:
        return None
    numbers = {label: k for k, label in enumerate(item.labels)}
    parts = [_part(program, ref, [numbers[label] for label in labels]) for ref, labels in sides]
    own = {label: k for k, label in enumerate(term.labels)}
    used = {label for axis in term.output for label in axis.labels()}
    if any(label not in own and term.ranges[label] > 1 for label in used):
        return None
    output = [
        Axis(tuple(sorted((own[label], step) for label, step in axis.terms if label in own)), axis.offset)
        for axis in term.output
    ]
    parts.sort(key=lambda part: part.root)
    return Piece(term, tuple(parts), program.shapes[term.source], tuple(output))


def _part(program: Program, ref: Ref, numbers: Sequence[int]) -> Part:
    """What a factor is read from, through views that are slices."""
    axes = tuple([Axis(((number, 1),), 0) for number in numbers])
    while isinstance(view := program.instructions[ref], View):
        if any(step != 1 for axis in view.axes for _, step in axis.terms):
            break
        if any(len(axis.terms) > 1 for axis in view.axes):
            break
        inside = dict(zip(view.labels, axes, strict=True))
        axes, ref = tuple([_moved(axis, inside) for axis in view.axes]), view.source
    return Part(ref, axes)


def _moved(axis: Axis, inside: Mapping[int, Axis]) -> Axis:
    found = inside[axis.label] if axis.terms else Axis((), 0)
    return found._replace(offset=found.offset + axis.offset)


def _axis(piece: Piece, place: tuple[int, int]) -> Axis:
    part, axis = place
    return piece.parts[part].axes[axis]


def _joined(pieces: Sequence[Piece], shape: Sizes) -> tuple[list[View], Placed] | None:
    """The factors of the whole product, and where it is put; None if pieces of it are missing."""
    main = max(pieces, key=lambda piece: (len(piece.sizes), math.prod(piece.sizes)))
    whole = Whole.of(main)
    boxes = [whole.box(piece) for piece in pieces] if whole is not None else []
    known = [box for box in boxes if box is not None]
    if whole is None or len(known) < len(boxes) or not _are_apart(known):
        return None
    around = [(min(a for a, _ in along), max(b for _, b in along)) for along in zip(*known, strict=True)]
    if sum(map(_entries, known)) != _inside(around, whole.output, shape):
        return None
    starts, sizes = [start for start, _ in around], tuple([stop - start for start, stop in around])
    moves = [start - before for start, before in zip(starts, whole.starts, strict=True)]
    views = [
        View(
            part.root,
            tuple([_at(axis, moves) for axis in part.axes]),
            tuple(sorted({label for axis in part.axes for label in axis.labels()})),
            sizes,
        )
        for part in main.parts
    ]
    output = tuple([_at(axis, starts) for axis in whole.output])
    return views, replace(main.term, labels=tuple(range(len(sizes))), output=output, ranges=sizes)


def _at(axis: Axis, starts: Sequence[int]) -> Axis:
    """An axis whose labels start at other positions."""
    return axis._replace(offset=axis.offset + sum(step * starts[k] for k, step in axis.terms))


def _entries(box: Sequence[Range]) -> int:
    return math.prod(stop - start for start, stop in box)


def _are_apart(boxes: Sequence[Sequence[Range]]) -> bool:
    """Whether no two boxes have an entry in common."""
    return all(
        any(b <= c or d <= a for (a, b), (c, d) in zip(one, other, strict=True))
        for one, other in itertools.combinations(boxes, 2)
    )


def _inside(box: Sequence[Range], output: Sequence[Axis], shape: Sizes) -> int | None:
    """How many entries of a box are put inside of a result; None where there are too many to count."""
    count, rest = 1, set(range(len(box)))
    while rest:
        joint, bounds = {min(rest)}, list[tuple[Axis, int]]()
        while True:
            bounds = [
                (axis, size) for axis, size in zip(output, shape, strict=True) if joint & {*axis.labels()}
            ]
            wider = joint.union(*(axis.labels() for axis, _ in bounds))
            if wider == joint:
                break
            joint = wider
        rest -= joint
        order = sorted(joint)
        if math.prod(box[k][1] - box[k][0] for k in order) > MOST_POSITIONS:
            return None
        grid = dict(zip(order, np.ix_(*(np.arange(*box[k]) for k in order)), strict=True))
        is_inside = np.ones([box[k][1] - box[k][0] for k in order], bool)
        for axis, size in bounds:
            at = axis.offset + sum(step * grid[k] for k, step in axis.terms)
            is_inside &= (at >= 0) & (at < size)
        count *= int(is_inside.sum())
    return count
