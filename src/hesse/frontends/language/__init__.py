"""The matrix language: text in, node out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hesse.ir import Node


def formula_node(text: str, types: Mapping[str, str]) -> Node:
    """The node that a formula means; `types` are types of variables by name, in words."""
    # the parser and lark take a while to import, and most programs never read a formula
    from hesse.frontends.language.elaborate import node_of_text  # noqa: PLC0415

    return node_of_text(text, types)
