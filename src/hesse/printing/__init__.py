"""Printers: formulas as text and LaTeX, programs as einsum listings, graphs as DOT and SVG."""

from hesse.printing.convention import layout_note, vec_note
from hesse.printing.einsum_text import einsum_text
from hesse.printing.graph import Graph
from hesse.printing.latex import latex
from hesse.printing.text import index_text, text
from hesse.printing.vectorized import KroneckerForm, kronecker_form

__all__ = [
    "Graph",
    "KroneckerForm",
    "einsum_text",
    "index_text",
    "kronecker_form",
    "latex",
    "layout_note",
    "text",
    "vec_note",
]
