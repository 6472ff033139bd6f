"""Names of sizes that a text uses as numbers."""

from __future__ import annotations

from collections.abc import Sequence

from hesse.errors import NotationError
from hesse.frontends.language.reader import read
from hesse.frontends.language.source import Source
from hesse.frontends.language.syntax import Call, Name, postorder
from hesse.ir import size_names


def unknown_numbers(text: str, sizes: Sequence[str]) -> list[str]:
    """The sizes that a text uses as numbers and nowhere as the size of a tensor.

    >>> unknown_numbers("m*eye(n)/n", ["m", "n"])
    ['m']
    """
    try:
        document = read(Source(text))
    except NotationError:  # a form that has no notation in the language
        return []
    terms = postorder([definition.term for definition in (document.result, *document.definitions)])
    used = {term.name for term in terms if isinstance(term, Name)}
    calls = [term for term in terms if isinstance(term, Call)]
    given = {name for call in calls for size in call.sizes for name in size_names(size)}
    defined = {definition.name for definition in document.definitions}
    return [name for name in sizes if name in used and name not in given | defined]
