"""Why something else is faster than hesse, by problem and comparison; the page prints them."""

from __future__ import annotations

REASONS: dict[tuple[str, str], str] = {}
