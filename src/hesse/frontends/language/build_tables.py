"""Writes `tables.py`: the parse tables of the grammar, so that no program has to compute them.

Run `python -m hesse.frontends.language.build_tables` after a change to `grammar.lark`; a test compares them.
"""

from __future__ import annotations

import hashlib
import textwrap
from pathlib import Path

import lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

HEADER = '''"""The parse tables of `grammar.lark`, written by `build_tables.py`. Do not edit."""

# ruff: noqa
# fmt: off
from typing import Any

LARK_VERSION = "{version}"
GRAMMAR_DIGEST = "{digest}"
TABLES: Any = {tables}
'''


def grammar() -> str:
    """The text of the grammar."""
    return Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")


def parser() -> lark.Lark:
    """The parser, made from the grammar."""
    return lark.Lark(grammar(), parser="lalr", propagate_positions=True, maybe_placeholders=False)


def digest() -> str:
    """A digest of the grammar."""
    return hashlib.blake2b(grammar().encode(), digest_size=16).hexdigest()


def source() -> str:
    """The text of `tables.py`."""
    data, memo = parser().memo_serialize([TerminalDef, Rule])
    text = repr({"data": data, "memo": memo})
    tables = textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)
    return HEADER.format(version=lark.__version__, digest=digest(), tables=tables)


if __name__ == "__main__":
    Path(__file__).with_name("tables.py").write_text(source(), encoding="utf-8")
