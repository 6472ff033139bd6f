"""Expressions drawn as graphs: operands above, the result at the bottom."""

from __future__ import annotations

import itertools
import re
from html import escape
from pathlib import Path

from hesse.errors import ArgumentError
from hesse.ir import Add, Apply, Constant, Einsum, Map, Node, Variable, topological
from hesse.ops.registry import printed_name
from hesse.printing.describe import describe
from hesse.printing.einsum_text import affine_spec, einsum_spec
from hesse.printing.layout import Layout, layered
from hesse.printing.notation import number_text, shape_text
from hesse.printing.pieces import render

LABEL_LIMIT = 36
"""Longer labels are cut."""
CHARACTER_WIDTH = 7.6
BOX_HEIGHT = 44.0
COLOURS = {
    Variable: "#d7e8fa",
    Constant: "#ececec",
    Einsum: "#fdf1cf",
    Add: "#e3f3dc",
    Map: "#f9ddd6",
    Apply: "#e9def5",
}
STYLE = (
    "text{font-family:Helvetica,Arial,sans-serif;text-anchor:middle;fill:#1a1a1a}.label{font-size:13px}"
    ".shape{font-size:10px;fill:#555}.edge{fill:none;stroke:#777;stroke-width:1.2}"
    ".box{stroke:#444;stroke-width:1}.result{stroke-width:2.4}"
)
ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0,0 L8,4 L0,8 z" fill="#777"/></marker>'
)


class Graph:
    """The graph of an expression: `dot` is Graphviz text, `svg()` a drawing that needs no other program."""

    def __init__(self, node: Node) -> None:
        self.nodes = topological([node])
        number = {part: k for k, part in enumerate(self.nodes)}
        self.edges = [(number[operand], number[part]) for part in self.nodes for operand in part.operands]
        """Pairs of positions in `nodes`, an operand and its user; one for each use."""

    def __repr__(self) -> str:
        return f"<Graph of {len(self.nodes)} nodes and {len(self.edges)} edges>"

    @property
    def dot(self) -> str:
        """The graph in the language of Graphviz."""
        lines = ["digraph expression {", '  node [fontname="Helvetica", style="filled"];']
        for k, node in enumerate(self.nodes):
            form = "box" if node.operands else "ellipse"
            text = rf"{_quoted(label(node))}\n{_quoted(shape_text(node.shape))}"
            lines.append(f'  n{k} [label="{text}", shape={form}, fillcolor="{COLOURS[type(node)]}"];')
        lines += [f"  n{start} -> n{end};" for start, end in self.edges]
        return "\n".join([*lines, "}"]) + "\n"

    def svg(self) -> str:
        """The graph as an SVG document."""
        labels = [label(node) for node in self.nodes]
        shapes = [shape_text(node.shape) for node in self.nodes]
        widths = [CHARACTER_WIDTH * (max(map(len, lines)) + 4) for lines in zip(labels, shapes, strict=True)]
        layout = layered(widths, self.edges)
        size = f'width="{layout.width:.0f}" height="{layout.height:.0f}"'
        view = f'viewBox="0 0 {layout.width:.0f} {layout.height:.0f}"'
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view}>']
        lines += [f"<style>{STYLE}</style>", f"<defs>{ARROW}</defs>"]
        lines += ['<rect width="100%" height="100%" fill="#fff"/>']
        lines += _curves(layout)
        for k, (node, text) in enumerate(zip(self.nodes, labels, strict=True)):
            lines.append(_box(node, text, layout.centres[k], widths[k], result=k == len(self.nodes) - 1))
        return "\n".join([*lines, "</svg>"]) + "\n"

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str | Path) -> None:
        """Write the graph to a file, in the format that its suffix names: `.dot` or `.svg`."""
        path = Path(path)
        if path.suffix not in (".dot", ".svg"):
            raise ArgumentError(f"a graph cannot be saved as {path.name!r}; end the path in .dot or .svg")
        path.write_text(self.dot if path.suffix == ".dot" else self.svg(), encoding="utf-8")


def label(node: Node) -> str:
    """What a node does, in a few characters."""
    match node:
        case Einsum() if node.operands:
            text = einsum_spec(node) or affine_spec(node, [""] * len(node.operands))
            text = text if node.scale == 1 else f"{number_text(node.scale)} * {text}"
        case Add() if node.operands:
            text = "+"
        case Map():
            text = node.name
        case Apply():
            text = printed_name(node.name)
        case _:
            text = render(describe(node), {}).text
    return text if len(text) <= LABEL_LIMIT else text[: LABEL_LIMIT - 1] + "…"


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", " ")


def _printable(text: str) -> str:
    """Text for XML, which has no control characters."""
    return escape(re.sub(r"[\x00-\x1f]", " ", text))


def _curves(layout: Layout) -> list[str]:
    """One curve for each edge, from below its operand to above its user, straight where it passes boxes."""
    half = BOX_HEIGHT / 2
    curves = []
    for path in dict.fromkeys(tuple(path) for path in layout.paths):
        steps = [f"M{path[0][0]:.1f},{path[0][1] + half:.1f}"]
        for (x, y), (next_x, next_y) in itertools.pairwise(path):
            middle = (y + next_y) / 2
            steps.append(f"C{x:.1f},{middle:.1f} {next_x:.1f},{middle:.1f} {next_x:.1f},{next_y - half:.1f}")
            steps.append(f"V{next_y + half:.1f}")
        curves.append(f'<path class="edge" d="{" ".join(steps[:-1])}" marker-end="url(#arrow)"/>')
    return curves


def _box(node: Node, text: str, centre: tuple[float, float], width: float, result: bool) -> str:
    x, y = centre
    style = f'class="box{" result" if result else ""}" fill="{COLOURS[type(node)]}"'
    if node.operands:
        corner = f'x="{x - width / 2:.1f}" y="{y - BOX_HEIGHT / 2:.1f}"'
        outline = f'<rect {corner} width="{width:.1f}" height="{BOX_HEIGHT:.1f}" rx="5" {style}/>'
    else:
        radii = f'rx="{width / 2:.1f}" ry="{BOX_HEIGHT / 2:.1f}"'
        outline = f'<ellipse cx="{x:.1f}" cy="{y:.1f}" {radii} {style}/>'
    lines = [
        f'<text class="{name}" x="{x:.1f}" y="{y + shift:.1f}">{_printable(line)}</text>'
        for name, line, shift in [("label", text, -1.0), ("shape", shape_text(node.shape), 13.0)]
    ]
    return f"<g>{outline}{''.join(lines)}</g>"
