"""The matrix language: text in, node out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hesse.ir import Node, Variable


def read_formula(text: str, types: Mapping[str, str]) -> tuple[Node, tuple[Variable, ...]]:
    """The node that a formula means, and its variables; `types` are types of variables by name, in words.

    A variable that the text names may be missing in the node: `x - x` is zero.
    """
    # the parser and lark take a while to import, and most programs never read a formula
    from hesse.frontends.language.elaborate import elaborate  # noqa: PLC0415

    return elaborate(text, types)
