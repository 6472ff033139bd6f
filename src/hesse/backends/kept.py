"""Tables of what was made before, which do not grow without end."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

KEPT = 256
"""So many entries a table has if nothing else is said."""


def keep(table: dict[Key, Value], key: Key, value: Value, most: int = KEPT) -> Value:
    """Enter a value, which is given back; the oldest ones are forgotten where there are too many."""
    while len(table) >= most and key not in table:
        table.pop(next(iter(table)), None)
    table[key] = value
    return value
