"""The matrix language: text in, node out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hesse.frontends.language.elaborate import Reading

__all__ = ["read_formula", "sizes_as_numbers"]


def read_formula(text: str, types: Mapping[str, str]) -> Reading:
    """What a formula means; `types` are types of variables by name, in words."""
    # the parser and lark take a while to import, and most programs never read a formula
    from hesse.frontends.language.elaborate import elaborate  # noqa: PLC0415

    return elaborate(text, types)


def sizes_as_numbers(text: str, sizes: Sequence[str]) -> list[str]:
    """The sizes that a text uses as numbers and nowhere as the size of a tensor."""
    from hesse.frontends.language.numbers import unknown_numbers  # noqa: PLC0415

    return unknown_numbers(text, sizes)
