"""The parser of `grammar.lark`. Its tables are computed once and kept in the user's cache directory.

Computing them takes longer than reading a formula. What is kept is only ever a copy: where it is missing,
damaged, made from another grammar or by another lark, or cannot be written, the tables are computed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import sys
import tempfile
from pathlib import Path

import lark

DIGEST_SIZE = 16


@functools.cache
def parser() -> lark.Lark:
    """The parser, from tables kept earlier if there are any."""
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    made_of = repr((grammar, lark.__version__, sys.version_info))
    kept = _cache_folder() / f"grammar-{_digest(made_of.encode()).hex()}"
    content = b""
    with contextlib.suppress(OSError):
        content = kept.read_bytes()
    tables = content[DIGEST_SIZE:]
    if tables and content == _digest(tables) + tables:
        loaded: lark.Lark = lark.Lark.load(io.BytesIO(tables))
        return loaded
    built = lark.Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)
    with contextlib.suppress(OSError):
        _keep(built, kept)
    return built


def _keep(built: lark.Lark, path: Path) -> None:
    """Writes the tables; other processes see all of the file or none."""
    tables = io.BytesIO()
    built.save(tables)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        new = Path(folder, path.name)
        new.write_bytes(_digest(tables.getvalue()) + tables.getvalue())
        new.replace(path)


def _cache_folder() -> Path:
    """Where hesse may keep files; a folder that cannot exist if the user has no home."""
    named = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    named = named or os.path.expanduser("~/.cache")
    return Path(named if os.path.isabs(named) else os.devnull, "hesse")


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE).digest()
