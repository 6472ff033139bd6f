"""Whether LaTeX can be read."""

from __future__ import annotations

import re

from matplotlib.mathtext import MathTextParser


def check_latex(formula: str) -> None:
    braces = re.sub(r"\\[{}]", "", formula)
    assert braces.count("{") == braces.count("}")
    assert formula.count(r"\left") == formula.count(r"\right")
    for name, like in ((r"\lor", r"\vee"), (r"\land", r"\wedge"), (r"\lnot", r"\neg")):
        formula = formula.replace(name, like)  # names that the parser of matplotlib does not know
    MathTextParser("path").parse(f"${formula}$")
