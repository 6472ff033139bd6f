"""The matrix language: text in, node out."""

from __future__ import annotations

from collections.abc import Mapping

from hesse.errors import ArgumentError
from hesse.frontends.language.elaborate import elaborate
from hesse.frontends.language.source import Source
from hesse.frontends.language.types import type_from_text
from hesse.ir import Node


def formula_node(text: str, types: Mapping[str, str]) -> Node:
    """The node that a formula means; `types` are types of variables by name, in words."""
    for what, value in [("a formula", text), *((f"the type of {name}", t) for name, t in types.items())]:
        if not isinstance(value, str):
            raise ArgumentError(f"{what} is a text, not {value!r}")
    # lark takes a while to import, and most programs never parse a formula
    from hesse.frontends.language.reader import read  # noqa: PLC0415

    source = Source(text)
    document = read(source)
    return elaborate(source, document, {name: type_from_text(name, words) for name, words in types.items()})
