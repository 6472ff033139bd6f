"""Drawings of expressions: complete, and nothing overlaps."""

from __future__ import annotations

import itertools
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from hesse.errors import ArgumentError
from hesse.ir import map_, variable
from hesse.printing import Graph
from printing_cases import hessian, logistic, w


def sample_graph() -> Graph:
    return Graph(hessian(logistic(), w))


def test_dot_has_all_nodes_and_edges() -> None:
    graph = sample_graph()
    nodes = re.findall(r"^  n(\d+) \[label=", graph.dot, re.MULTILINE)
    edges = re.findall(r"^  n(\d+) -> n(\d+);$", graph.dot, re.MULTILINE)
    assert [int(number) for number in nodes] == list(range(len(graph.nodes)))
    assert [(int(a), int(b)) for a, b in edges] == graph.edges
    uses = [(operand, node) for node in graph.nodes for operand in node.operands]
    assert [(graph.nodes[a], graph.nodes[b]) for a, b in graph.edges] == uses


SVG = "{http://www.w3.org/2000/svg}"


def test_svg_boxes_do_not_overlap() -> None:
    root = ElementTree.fromstring(sample_graph().svg())
    boxes = []
    for group in root.iter(f"{SVG}g"):
        shape = {key: float(value) for key, value in group[0].attrib.items() if key not in ("class", "fill")}
        if group[0].tag == f"{SVG}rect":
            boxes.append((shape["x"], shape["y"], shape["x"] + shape["width"], shape["y"] + shape["height"]))
        else:
            cx, cy, rx, ry = (shape[key] for key in ("cx", "cy", "rx", "ry"))
            boxes.append((cx - rx, cy - ry, cx + rx, cy + ry))
    assert len(boxes) == len(sample_graph().nodes)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height for box in boxes)
    for one, two in itertools.combinations(boxes, 2):
        assert one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]


def test_svg_edges_and_labels() -> None:
    graph = Graph(map_("exp", variable('a<b>&"\x01', (2,))))
    root = ElementTree.fromstring(graph.svg())
    labels = [element.text for element in root.iter(f"{SVG}text")]
    assert labels == ['a<b>&" ', "(2,)", "exp", "(2,)"]
    assert sum(path.get("class") == "edge" for path in root.iter(f"{SVG}path")) == 1
    assert {"rect", "ellipse"} <= {group[0].tag.removeprefix(SVG) for group in root.iter(f"{SVG}g")}
    assert graph._repr_svg_() == graph.svg()
    assert r"a<b>&\"" in graph.dot


def test_graph_is_saved(tmp_path: Any) -> None:
    graph = sample_graph()
    for suffix, content in ((".dot", graph.dot), (".svg", graph.svg())):
        graph.save(tmp_path / f"graph{suffix}")
        assert (tmp_path / f"graph{suffix}").read_text(encoding="utf-8") == content
    with pytest.raises(ArgumentError, match=r"cannot be saved as 'graph.png'; end the path in .dot or .svg"):
        graph.save(tmp_path / "graph.png")
