"""What can be declared of a variable: one record each, in a table that everything else reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

Projection = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Attribute:
    """A fact about the entries of a tensor.

    `project` makes an array that has the attribute from one that need not, `flaw` says what is wrong with an
    array besides what is wrong by the attributes that it `implies`, None if nothing is. Of a square matrix
    with a structure, `swap_sign` is the sign that swapping the axes brings, and `independent` keeps the
    entries that determine the others and sets these to zero.
    """

    name: str
    project: Projection
    flaw: Callable[[np.ndarray], str | None]
    swap_sign: int = 0
    independent: Projection | None = None
    implies: frozenset[str] = frozenset()

    @property
    def is_structure(self) -> bool:
        """Whether entries depend on each other, as only those of square matrices can."""
        return self.swap_sign != 0


def _structure(
    name: str, project: Projection, swap_sign: int, independent: Projection, *implies: str
) -> Attribute:
    """An attribute that an array has if projecting it changes nothing but rounding."""

    def flaw(array: np.ndarray) -> str | None:
        return None if np.allclose(array, project(array), rtol=1e-6, atol=1e-12) else "is not"

    return Attribute(name, project, flaw, swap_sign, independent, frozenset(implies))


def _diagonal(array: np.ndarray) -> np.ndarray:
    return np.diag(np.diagonal(array))


def _definite(array: np.ndarray) -> np.ndarray:
    return np.asarray(array @ array.T / len(array) + 0.3 * np.eye(len(array)))


def _negative_eigenvalue(array: np.ndarray) -> str | None:
    """Whether a symmetric matrix has an eigenvalue that is negative by more than rounding."""
    if not array.size or SYMMETRIC.flaw(array):
        return None
    eigenvalues = np.linalg.eigvalsh(array.astype(float))
    is_negative = eigenvalues[0] < -1e-9 * max(1.0, abs(eigenvalues[-1]))
    return "has a negative eigenvalue" if is_negative else None


def _entry_not_positive(array: np.ndarray) -> str | None:
    return None if (array > 0).all() else "has entries that are not"


SYMMETRIC = _structure("symmetric", lambda array: (array + array.T) / 2, 1, np.tril)

ATTRIBUTES: dict[str, Attribute] = {
    attribute.name: attribute
    for attribute in (
        SYMMETRIC,
        _structure(
            "antisymmetric", lambda array: (array - array.T) / 2, -1, lambda array: np.tril(array, -1)
        ),
        _structure("diagonal", _diagonal, 1, _diagonal, "symmetric"),
        Attribute("psd", _definite, _negative_eigenvalue, 1, np.tril, frozenset({"symmetric"})),
        Attribute("positive", lambda array: np.abs(array) + 0.1, _entry_not_positive),
    )
}
"""General before special: arrays are made and attributes named in the opposite order."""

STRUCTURES = frozenset(name for name, attribute in ATTRIBUTES.items() if attribute.is_structure)
"""Attributes that only square matrices can have."""


def with_implied(names: Iterable[str]) -> frozenset[str]:
    """The attributes with all that follows from them."""
    given = frozenset(names)
    return given.union(*(ATTRIBUTES[name].implies for name in given))


def special_first(names: frozenset[str]) -> list[Attribute]:
    """The records of attributes."""
    return [attribute for name, attribute in reversed(ATTRIBUTES.items()) if name in names]


def stated(names: frozenset[str]) -> list[str]:
    """The fewest attributes from which the others follow."""
    records = special_first(names)
    implied = frozenset().union(*(attribute.implies for attribute in records))
    return [attribute.name for attribute in records if attribute.name not in implied]


def swap_sign(names: frozenset[str]) -> int:
    """1 or -1 if swapping the axes of a matrix with these attributes changes at most its sign, else 0."""
    return next((attribute.swap_sign for attribute in special_first(names) if attribute.is_structure), 0)


def projected(array: np.ndarray, names: frozenset[str]) -> np.ndarray:
    """An array with these attributes, made from one that need not have them."""
    for attribute in special_first(names):
        array = attribute.project(array)
    return array


def independent(array: np.ndarray, names: frozenset[str]) -> np.ndarray:
    """The entries that determine a matrix of this structure, the others set to zero."""
    for attribute in special_first(names):
        array = array if attribute.independent is None else attribute.independent(array)
    return array
