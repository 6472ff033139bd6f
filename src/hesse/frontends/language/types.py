"""Types of variables: declared in words, given by keyword, or following from the first letter of the name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hesse.errors import NotationError
from hesse.frontends.language.source import Source, Span
from hesse.ir.attributes import ATTRIBUTES, STRUCTURES, with_implied

RANKS: dict[str, int | None] = {"scalar": 0, "vector": 1, "matrix": 2, "tensor": None}
KEYWORDS = frozenset({*RANKS, *ATTRIBUTES, "where"})
MOST_AXES = 16

Sizes = tuple[int | str, ...]


@dataclass(frozen=True)
class Type:
    """The type of a variable: its number of axes, their sizes as far as they are given, and facts."""

    rank: int | None
    sizes: Sizes | None = None
    attributes: frozenset[str] = frozenset()


def default_rank(name: str) -> int:
    """a to g are scalars, h to z vectors, A to Z matrices; longer names go by their first letter."""
    return 2 if name[0].isupper() else 0 if name[0] in "abcdefg" else 1


def declared_type(
    source: Source, spans: tuple[Span, Span], words: Sequence[str], name: str, sizes: Sizes | None
) -> Type:
    """The type that the words of a declaration say; `spans` are the places of the name and the words."""
    span, words_span = spans
    kinds = [word for word in words if word in RANKS]
    unknown = [word for word in words if word not in RANKS and word not in ATTRIBUTES]
    if unknown or len(kinds) > 1:
        problem = f"{unknown[0]} is no type" if unknown else f"{' and '.join(kinds)} are two types"
        known = ", ".join([*ATTRIBUTES, *RANKS])
        raise source.error(NotationError, f"{problem}; a type is made of the words {known}", words_span)
    rank = RANKS[kinds[0]] if kinds else default_rank(name)
    if kinds == ["tensor"]:
        if sizes is None:
            raise source.error(
                NotationError,
                f"a tensor needs its order or its sizes: tensor({name}) is tensor(3) or tensor(n,n,n)",
                span,
            )
        rank, sizes = _tensor(sizes)
    attributes = with_implied(word for word in words if word in ATTRIBUTES)
    if rank is None or rank > MOST_AXES:
        raise source.error(NotationError, f"a tensor has at most {MOST_AXES} axes", span)
    if sizes is not None and len(sizes) != rank:
        raise source.error(
            NotationError,
            f"{name} has {counted(rank, 'axis')} and so needs {counted(rank, 'size')}, not {len(sizes)}",
            span,
        )
    if "antisymmetric" in attributes and len(attributes) > 1:
        others = " and ".join(word for word in words if word in ATTRIBUTES and word != "antisymmetric")
        raise source.error(NotationError, f"an antisymmetric matrix cannot be {others} too", words_span)
    if attributes & STRUCTURES and rank != 2:
        fact = next(word for word in words if word in STRUCTURES)
        raise source.error(
            NotationError, f"only a matrix can be {fact}, and {name} has {counted(rank, 'axis')}", span
        )
    return Type(rank, sizes, attributes)


def counted(count: int, noun: str) -> str:
    """`1 axis`, `2 axes`, `1 size`, `2 sizes`."""
    return f"{count} {noun if count == 1 else {'axis': 'axes'}.get(noun, noun + 's')}"


def _tensor(sizes: Sizes) -> tuple[int, Sizes | None]:
    """`tensor(3)` is a tensor with three axes; `tensor(n,n,n)` says their sizes."""
    if len(sizes) == 1 and isinstance(sizes[0], int):
        return sizes[0], None
    return len(sizes), sizes


def type_from_text(name: str, text: str) -> Type:
    """The type that a keyword says: "symmetric matrix", "tensor(3)", "positive vector", "matrix(m,n)"."""
    source = Source(text)
    whole = Span(0, max(1, len(text)))
    found = re.fullmatch(r"\s*([a-z]+(?:\s+[a-z]+)*)\s*(?:\(([^()]*)\))?\s*", text)
    if found is None:
        raise source.error(
            NotationError,
            f'the type of {name} is words and sizes, such as "symmetric matrix", "vector(n)" or "tensor(3)"',
            whole,
        )
    words, inside = found[1].split(), found[2]
    sizes = (
        None if inside is None else tuple(_size(source, whole, part.strip()) for part in inside.split(","))
    )
    return declared_type(source, (whole, whole), words, name, sizes)


def _size(source: Source, span: Span, text: str) -> int | str:
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", text):
        return text
    if re.fullmatch(r"[1-9][0-9]{0,8}", text):
        return int(text)
    raise source.error(NotationError, f"a size is a name or a whole number above 0, not {text!r}", span)
