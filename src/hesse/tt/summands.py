"""Operators as sums of operators of smaller ranks, found by the zeros of their cores.

The cores of a sum are block diagonal, and products with them spend most of their time on zeros. Two values of
bonds belong together if a core has anything but zeros between them; what belongs together is an operator of
its own. Those of which one is the transpose of the other are one operator, read in both directions: of
⟨(M + Mᵀ)X, X⟩ only ⟨MX, X⟩ is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

from hesse.tt.arrays import Array
from hesse.tt.chain import sealed
from hesse.tt.train import TTMatrix

CALLS = 2**19
"""Multiplications that take as long as it takes to call those of one position."""
WIDE_CALLS = 2**27
"""The same on a device."""
UNEVEN = 1.5
"""What a form costs with an operator that is not symmetric, compared with one that is."""

Bonds = list[np.ndarray]
"""For each bond of an operator the values that belong to a summand."""


class Summand(NamedTuple):
    """An operator, or its transpose."""

    operator: TTMatrix
    is_turned: bool


def summands(operator: TTMatrix, rank: int, most: int) -> Sequence[Summand]:
    """At most so many operators whose sum is a given one, so that it is applied with the least work to trains
    of a rank.
    """
    if operator.origin is not None:
        return [made._replace(is_turned=not made.is_turned) for made in summands(operator.origin, rank, most)]
    name = f"at most {most} summands for rank {rank}"
    found: Sequence[Summand] = operator.memo(name, lambda: _Split(operator, rank).best(most))
    return found


class _Split:
    """An operator to be written as a sum."""

    def __init__(self, operator: TTMatrix, rank: int) -> None:
        self.operator = operator
        self.sizes = np.array([rows * columns * rank**2 for rows, columns in operator.sizes], float)
        is_wide = operator.library.is_wide(operator.cores[0])
        self.calls = float((WIDE_CALLS if is_wide else CALLS) * len(operator))

    def best(self, most: int) -> Sequence[Summand]:
        """The operator as it is, or as a sum."""
        whole = [Summand(self.operator, False)]
        if not self._may_pay():
            return whole
        cores = [self.operator.library.host(core) for core in self.operator.cores]
        if not all(np.isfinite(core).all() for core in cores):
            return whole  # zero times infinity is no zero
        components = _components(cores)
        if len(components) < 2:
            return whole
        kinds, limit = _kinds(cores, components), max(self.calls, 1.0)
        grouped = [self._grouped(kind, limit, most) for kind in kinds]
        while (2 * len(grouped[0]) + len(grouped[1]) + len(grouped[2])) > most:
            if max(map(len, grouped)) < 2:
                return whole
            limit *= 2.0
            grouped = [self._grouped(kind, limit, most) for kind in kinds]
        pairs, *singles = ([self._made(group) for group in groups] for groups in grouped)
        found = [Summand(made, is_turned) for made in pairs for is_turned in (False, True)]
        found += [Summand(made, False) for groups in singles for made in groups]
        return min(whole, found, key=self._cost)

    def _may_pay(self) -> bool:
        """Whether cores can be looked at, and are so large that it may be worth it."""
        operator = self.operator
        is_known = operator.batch is None and not any(map(operator.library.is_watched, operator.cores))
        return len(operator) > 1 and is_known and self._work(operator.ranks, operator.ranks) > self.calls

    def _work(self, left: Sequence[int], right: Sequence[int]) -> float:
        """Multiplications for all positions between values of the bonds on their left and right."""
        return float(self.sizes @ (np.array(left[:-1]) * np.array(right[1:])))

    def _cost(self, parts: Sequence[Summand]) -> float:
        """That of a quadratic form, in which an operator and its transpose are one: work and calls."""
        turned = {id(part.operator) for part in parts if part.is_turned}
        own = [part.operator for part in parts if not part.is_turned]
        uneven = (UNEVEN if id(made) in turned or not made.is_symmetric else 1.0 for made in own)
        work = (self._work(made.ranks, made.ranks) + self.calls for made in own)
        return sum(a * b for a, b in zip(uneven, work, strict=True))

    def _grouped(self, components: Sequence[Bonds], limit: float, most: int) -> list[Bonds]:
        """Components in groups, unless there are too many: each where it adds least, if that is not much."""
        groups: list[Bonds] = []
        for component in sorted(components, key=_size, reverse=True):
            costs = [self._between(group, component) for group in groups]
            if costs and min(costs) <= limit:
                k = costs.index(min(costs))
                groups[k] = [np.concatenate(both) for both in zip(groups[k], component, strict=True)]
            else:
                groups.append(component)
            if len(groups) > most:
                break
        return groups

    def _between(self, first: Bonds, second: Bonds) -> float:
        """Multiplications by the zeros between two groups; the outer bonds are common to all."""
        a, b = ([0, *map(len, bonds), 0] for bonds in (first, second))
        return self._work(a, b) + self._work(b, a)

    def _made(self, bonds: Bonds) -> TTMatrix:
        with self.operator.library.eagerly():
            return TTMatrix([*map(sealed, _of_bonds(self.operator.cores, bonds))])


def _size(bonds: Bonds) -> int:
    return sum(map(len, bonds))


def _components(cores: Sequence[np.ndarray]) -> list[Bonds]:
    """The values of bonds that belong together, for all bonds but the outer ones; none without an entry."""
    ranks = [core.shape[3] for core in cores[:-1]]
    starts = np.cumsum([0, *ranks])
    edges = [np.empty((2, 0), int)]
    for core, left, right in zip(cores[1:-1], starts[:-2], starts[1:-1], strict=True):
        edges.append(np.argwhere((core != 0.0).any(axis=(1, 2))).T + np.array([[left], [right]]))
    rows, columns = np.concatenate(edges, axis=1)
    graph = coo_array((np.ones(len(rows), bool), (rows, columns)), shape=(starts[-1],) * 2)
    count, names = connected_components(graph, directed=False)
    by_bond = []
    for own in np.split(names, starts[1:-1]):
        ends = np.cumsum(np.bincount(own, minlength=count))
        by_bond.append(np.split(np.argsort(own, kind="stable"), ends[:-1]))
    return [list(bonds) for bonds in zip(*by_bond, strict=True) if all(map(len, bonds))]


class _Kinds(NamedTuple):
    """Components by what is known of their transposes."""

    pairs: list[Bonds]
    """One of each two that are transposes of each other."""
    symmetric: list[Bonds]
    others: list[Bonds]


def _kinds(cores: Sequence[np.ndarray], components: Sequence[Bonds]) -> _Kinds:
    found = _Kinds([], [], [])
    waiting: dict[bytes, list[Bonds]] = {}
    """Those whose transpose has not come yet, by their first cores."""
    for bonds in components:
        first = cores[0][..., bonds[0]]
        if _are_transposes(cores, bonds, bonds):
            found.symmetric.append(bonds)
            continue
        alike = waiting.get(first.swapaxes(1, 2).tobytes(), [])
        other = next((k for k, other in enumerate(alike) if _are_transposes(cores, bonds, other)), None)
        if other is None:
            waiting.setdefault(first.tobytes(), []).append(bonds)
        else:
            found.pairs.append(alike.pop(other))
    found.others.extend(bonds for alike in waiting.values() for bonds in alike)
    return found


def _are_transposes(cores: Sequence[np.ndarray], first: Bonds, second: Bonds) -> bool:
    """Whether the cores of one component are those of another one with rows and columns exchanged."""
    ours, theirs = _of_bonds(cores, first), _of_bonds(cores, second)
    return all(np.array_equal(a, b.swapaxes(1, 2)) for a, b in zip(ours, theirs, strict=True))


def _of_bonds(cores: Sequence[Array], bonds: Bonds) -> Iterator[Array]:
    """The cores with some values of their bonds only."""
    ends = [np.zeros(1, int)]
    for core, left, right in zip(cores, ends + bonds, bonds + ends, strict=True):
        yield core[left][..., right]
