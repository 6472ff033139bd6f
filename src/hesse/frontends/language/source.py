"""The text of a formula: places in it, errors that point at them, and limits on its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from hesse.errors import NotationError, ShapeError

LONGEST_TEXT = 10_000
MOST_TERMS = 2_000
"""Operators, names, numbers and calls in one formula."""
DEEPEST_NESTING = 200
WIDEST_LINE = 100
"""Errors show at most this many characters of a line."""

Located = TypeVar("Located", NotationError, ShapeError)


class Span(NamedTuple):
    """A piece of the text: from `start` up to, but not including, `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """A text that is being read."""

    text: str

    def error(self, kind: type[Located], message: str, *spans: Span) -> Located:
        """An error that shows the text with carets under the given places, and carries the first of them."""
        problem = kind("\n".join([message, *self._pictures(spans)]))
        problem.position = spans[0].start
        return problem

    def words(self, span: Span) -> str:
        """The text of a place, shortened if it is long."""
        words = " ".join(self.text[span.start : span.end].split())
        return words if len(words) <= 40 else f"{words[:37]}..."

    def _pictures(self, spans: tuple[Span, ...]) -> list[str]:
        lines: list[str] = []
        by_line: dict[int, list[Span]] = {}
        for span in spans:
            by_line.setdefault(self.text.rfind("\n", 0, span.start) + 1, []).append(span)
        for start, places in sorted(by_line.items()):
            line = self.text[start:].split("\n", 1)[0]
            first = min(span.start for span in places) - start
            left = max(0, first - WIDEST_LINE // 2) if len(line) > WIDEST_LINE else 0
            shown = line[left : left + WIDEST_LINE]
            marks = [" "] * (len(shown) + 1)
            for span in places:
                begin = span.start - start - left
                for place in range(begin, max(begin + 1, span.end - start - left)):
                    if 0 <= place < len(marks):
                        marks[place] = "^"
            lines += [f"  {shown.replace(chr(9), ' ')}", f"  {''.join(marks).rstrip()}"]
        return lines
