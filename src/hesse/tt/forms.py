"""Multilinear forms: closed nets, and which occurrences of the train a renaming of labels exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hesse.tt.chain import Chain
from hesse.tt.nets import Leaf, Occurrence
from hesse.tt.train import TTMatrix


class Slot(NamedTuple):
    """An occurrence of the train, and all that have the same derivative, itself included."""

    leaf: int
    alike: tuple[int, ...]


class PairOfSlots(NamedTuple):
    """An occurrence to differentiate by after another one, and how many such pairs give the same."""

    open: int
    moved: int
    times: int


class Form:
    """A closed net: a number, or one number for each train of a batch, linear in each of its leaves."""

    def __init__(self, leaves: tuple[Leaf, ...], batch: int | None) -> None:
        self.leaves = leaves
        self.batch = batch
        found = [k for k, leaf in enumerate(leaves) if leaf.source is Occurrence.VARIABLE]
        self.slots = [
            Slot(group[0], tuple(group)) for group in _groups(found, lambda a, b: self.exchanged((a,), (b,)))
        ]
        self.pairs: list[PairOfSlots] = []
        for slot in self.slots:
            others = [k for k in found if k != slot.leaf]
            groups = _groups(others, lambda a, b, o=slot.leaf: self.exchanged((o, a), (o, b)))
            self.pairs += [PairOfSlots(slot.leaf, group[0], len(slot.alike) * len(group)) for group in groups]

    def exchanged(self, these: tuple[int, ...], those: tuple[int, ...]) -> bool:
        """Whether a renaming of labels leads from some leaves to others and changes nothing else."""
        return isomorphic(self.leaves, self.leaves, these, those)

    def same_as(self, other: Form) -> bool:
        """Whether both are the same form but for names of labels."""
        return self.batch == other.batch and isomorphic(self.leaves, other.leaves)


def _groups(items: Sequence[int], same: object) -> list[list[int]]:
    groups: list[list[int]] = []
    for item in items:
        for group in groups:
            if same(group[0], item):  # type: ignore[operator]
                group.append(item)
                break
        else:
            groups.append([item])
    return groups


def isomorphic(
    first: Sequence[Leaf], second: Sequence[Leaf], these: tuple[int, ...] = (), those: tuple[int, ...] = ()
) -> bool:
    """Whether leaves correspond one to one, with some pairs given, under a renaming of labels."""
    if len(first) != len(second):
        return False
    todo = [*these, *(k for k in range(len(first)) if k not in these)]
    wanted = dict(zip(these, those, strict=True))
    return _extended(first, second, todo, wanted, frozenset(those), {})


def _extended(
    first: Sequence[Leaf],
    second: Sequence[Leaf],
    todo: Sequence[int],
    wanted: dict[int, int],
    reserved: frozenset[int],
    names: dict[int, int],
) -> bool:
    """Whether the correspondence can be extended to the leaves that are left (by backtracking)."""
    if not todo:
        return True
    k, *rest = todo
    candidates = [wanted[k]] if k in wanted else [j for j in range(len(second)) if j not in reserved]
    for j in candidates:
        for renamed in _renamings(first[k], second[j], names):
            if _extended(first, second, rest, wanted, reserved | {j}, renamed):
                return True
    return False


def _renamings(one: Leaf, other: Leaf, names: dict[int, int]) -> Iterator[dict[int, int]]:
    """The ways to extend a renaming so that a leaf becomes another: two for symmetric operators."""
    if one.source is not other.source:
        return
    orders = [other.labels]
    if isinstance(one.source, TTMatrix) and other.labels[0] != other.labels[1]:
        orders.append(other.labels[::-1])
    for number, labels in enumerate(orders):
        made = dict(names)
        if all(made.setdefault(a, b) == b for a, b in zip(one.labels, labels, strict=True)):
            is_injective = len(set(made.values())) == len(made)
            if is_injective and (number == 0 or one.source.is_symmetric):  # type: ignore[union-attr]
                yield made


def batch_of(leaf: Leaf, batch: int | None) -> bool:
    """Whether the cores of a leaf have a batch axis, if those of the train do or do not."""
    return batch is not None if isinstance(leaf.source, Occurrence) else _has_batch(leaf.source)


def _has_batch(chain: Chain) -> bool:
    return chain.batch is not None
