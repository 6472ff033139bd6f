"""The server behind the page: answers, limits, and what it does with requests that mean harm."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import pytest

import hesse
from hesse import web
from hesse.answers import Question, cost, derivative_of
from hesse.answers.notations import ALL_NOTATIONS
from hesse.errors import ArgumentError, MissingPackageError
from hesse.web.application import ROUTES
from hesse.web.tasks import TASKS
from web_server import GOOD, Server, assert_serving, running

STATIC = Path(str(files("hesse.web") / "static"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("seconds=20.0") as found:
        yield found


def test_derivative(server: Server) -> None:
    """The answer has the types, the derivative in text and LaTeX, its shape, and convexity."""
    reply = server.ask("derive", formula="x'*A*x", by=["x"], types={"A": "psd matrix"})
    assert reply.status == 200
    assert reply.data["derivative"] == "2*A*x"
    assert reply.data["derivative_latex"] == "2 A x"
    assert reply.data["title"] == "Gradient by x"
    assert reply.data["shape"] == ["n"]
    assert reply.data["variables"] == [
        {"name": "A", "type": "psd matrix", "sizes": ["n", "n"], "declared": False},
        {"name": "x", "type": "vector", "sizes": ["n"], "declared": False},
    ]
    assert [(c["variable"], c["verdict"]) for c in reply.data["convexity"]] == [("x", "convex")]


def test_matrix_form(server: Server) -> None:
    """A derivative of order 4 comes with its matrix; a gradient has none."""
    reply = server.ask("derive", formula="norm2(T - U*V')^2", by=["U", "U"])
    assert reply.data["kronecker"] == {
        "name": "M",
        "matrix": "2*kron(V'*V, eye(m))",
        "matrix_latex": r"2 \left(V^{\top} V\right) \otimes I_{m}",
        "note": "vec(dG) = M*vec(dU), where G is the gradient by U and vec stacks the columns of a matrix",
    }
    assert server.ask("derive", formula="x'*A*x", by=["x"]).data["kronecker"] is None


def test_reading(server: Server) -> None:
    """A formula alone is read: types, sizes, and which of them the text declares."""
    data = server.ask("read", formula="symmetric matrix A; A*x + b*y").data
    found = {v["name"]: (v["type"], v["sizes"], v["declared"]) for v in data["variables"]}
    assert found == {
        "A": ("symmetric matrix", ["n", "n"], True),
        "b": ("scalar", [], False),
        "x": ("vector", ["n"], False),
        "y": ("vector", ["n"], False),
    }
    assert data["sizes"] == ["n"]


@pytest.mark.parametrize("notation", ALL_NOTATIONS)
def test_every_notation(server: Server, notation: str) -> None:
    """The code on the page is that of `Formula.to`."""
    formula, name = ("A*X*B", "X") if notation == "kronecker" else ("norm2(A*x - y)^2", "x")
    reply = server.ask("render", formula=formula, by=[name], notation=notation)
    expected = hesse.parse(formula).diff(name).to(notation)
    assert reply.data == {"notation": notation, "text": expected}


def test_graph(server: Server) -> None:
    """The graph is a drawing that a browser can read."""
    data = server.ask("graph", **GOOD).data
    root = ElementTree.fromstring(data["svg"])
    assert root.tag.endswith("svg")
    assert (data["nodes"], data["edges"]) == (3, 3)


def test_structure(server: Server) -> None:
    """The Hessian by a factor is block-diagonal, and the drawing shows the blocks."""
    data = server.ask("structure", formula="norm2(T - U*V')^2", by=["U", "U"]).data["structure"]
    assert data["summary"].startswith("block-diagonal")
    assert data["patterns"] == ["ijik"]
    block = data["sizes"]["k"]
    for y, row in enumerate(data["cells"]):
        assert [cell >= 0 for cell in row] == [x // block == y // block for x in range(len(row))]


def test_structure_of_a_gradient(server: Server) -> None:
    """A gradient has no matrix view."""
    assert server.ask("structure", formula="x'*A*x", by=["x"]).data == {"structure": None}


def test_cost(server: Server) -> None:
    """The estimate is that of the library for the same sizes."""
    sizes = {"m": 2000, "n": 1000, "k": 20}
    question = {"formula": "norm2(M.*(T - U*V'))^2", "by": ["U", "U"]}
    data = server.ask("cost", **question, sizes=sizes).data
    expected = asdict(cost(derivative_of(Question(question["formula"], ("U", "U"))), sizes))
    assert data == json.loads(json.dumps(expected))
    assert data["dense_bytes"] == 8 * (2000 * 20) ** 2
    assert data["structured_bytes"] < data["dense_bytes"] / 1000


def test_about(server: Server) -> None:
    """The page learns from the server what can be asked."""
    data = server.request("GET", "/api/about").data
    assert data["version"] == hesse.__version__
    assert data["notations"] == list(ALL_NOTATIONS)
    for words in data["types"]:
        assert hesse.parse("Q", Q=words).variables[0].name == "Q"


def test_schema(server: Server) -> None:
    """The interface describes itself, with the types of requests and answers."""
    schema = server.request("GET", "/openapi.json").data
    assert set(ROUTES) == set(TASKS) == {"read", "derive", "steps", "render", "graph", "structure", "cost"}
    assert set(schema["paths"]) == {f"/api/{task}" for task in ["about", *ROUTES]}
    answer = schema["paths"]["/api/derive"]["post"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]
    name = answer["$ref"].rpartition("/")[2]
    assert {"derivative", "derivative_latex", "shape"} <= set(
        schema["components"]["schemas"][name]["properties"]
    )
    reply = server.ask("derive", **GOOD).data
    assert set(reply) == set(schema["components"]["schemas"][name]["properties"])


PROBLEMS = [
    ({"formula": "x'*(A"}, "the formula ends too early"),
    ({"formula": ""}, "the formula ends too early"),
    ({"formula": "A*x + A'*y*0 + z'"}, "[Ss]hape|size|column|row|vector"),
    ({"formula": "x'*x", "by": ["y"]}, "there is no variable y"),
    ({"formula": "x'*x", "by": ["x"], "types": {"q": "vector"}}, "there is no variable q"),
    ({"formula": "x'*x", "types": {"x": "thing"}}, "thing is no type"),
    ({"formula": "matrix A(99999,99999); tr(A)", "by": ["A"]}, "too many for the check"),
    ({"formula": "x" * 2001}, "at most 2000 characters"),
    ({"formula": "sin(" * 300 + "x" + ")" * 300}, "nested at most 200 deep"),
    ({"formula": "x'*x", "by": ["x"] * 7}, "at most 6 items"),
    ({"formula": "x'*x", "by": ["x y"]}, "by.0: String should match pattern"),
    ({"formula": "x'*x", "by": "x"}, "by: Input should be a valid list"),
    ({"formula": 5}, "formula: Input should be a valid string"),
    ({"formula": None}, "formula: Input should be a valid string"),
    ({"formula": "\ud800"}, "formula: Input should be a valid string"),
    ({}, "formula: Field required"),
    ({"formula": "x'*x", "more": 1}, "more: Extra inputs are not permitted"),
    ({"formula": "x'*x", "symmetric": "very"}, "symmetric: Input should be 'free', 'projected' or 'half'"),
    ({"formula": "x'*x", "types": {"x": "v" * 81}}, "at most 80 characters"),
    ({"formula": "x'*x", "types": {f"x{k}": "vector" for k in range(41)}}, "at most 40 items"),
]


@pytest.mark.parametrize(("question", "message"), PROBLEMS, ids=lambda value: str(value)[:30])
def test_problems_are_answered(server: Server, question: dict[str, object], message: str) -> None:
    """A question that cannot be answered gets a 422 that says why."""
    reply = server.ask("derive", **question)
    assert reply.status == 422
    assert re.search(message, reply.message), reply.message


def test_position(server: Server) -> None:
    """An error in the text says where, with carets below the place."""
    error = server.ask("derive", formula="x + * y").data["error"]
    assert (error["kind"], error["position"]) == ("NotationError", 4)
    assert error["message"].splitlines()[1:] == ["  x + * y", "      ^"]


def test_sizes_are_checked(server: Server) -> None:
    """Sizes have limits and names."""
    for sizes, message in [
        ({"n": 0}, "greater than or equal to 1"),
        ({"n": 10**12}, "less than or equal to"),
        ({"n": 1.5}, "valid integer"),
        ({"q": 2}, "there is no size q"),
    ]:
        reply = server.ask("cost", **GOOD, sizes=sizes)
        assert reply.status == 422
        assert message in reply.message


def test_notation_is_checked(server: Server) -> None:
    """Only known notations are asked for."""
    reply = server.ask("render", **GOOD, notation="cobol")
    assert reply.status == 422
    assert "notation: String should match pattern" in reply.message


def test_page_asks_nobody_else(server: Server) -> None:
    """Nothing in the page's own files points to another host, and there are no inline scripts or styles."""
    for path in [*STATIC.glob("*.html"), *STATIC.glob("*.css"), *STATIC.glob("*.js")]:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.", text), path.name
    page = server.request("GET", "/").body.decode()
    assert not re.search(r"<style|style=|<script(?![^>]*src=)|\son[a-z]+=", page)
    for link in re.findall(r'(?:src|href)="([^"#]+)"', page):
        assert server.request("GET", f"/{link}").status == 200, link


def test_fonts_and_licence_of_katex() -> None:
    """The fonts that formulas use are in the package, in one format, with the licence."""
    fonts = {path.name for path in (STATIC / "katex" / "fonts").iterdir()}
    assert all(name.endswith(".woff2") for name in fonts)
    assert {
        f"KaTeX_{name}.woff2" for name in ("Main-Regular", "Main-Bold", "Math-Italic", "AMS-Regular")
    } <= fonts
    assert {f"KaTeX_Size{k}-Regular.woff2" for k in (1, 2, 3, 4)} <= fonts
    assert "MIT License" in (STATIC / "katex" / "LICENSE").read_text(encoding="utf-8")


def test_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the packages of the page, the error says how to install them."""
    monkeypatch.setattr(web.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"needs fastapi and uvicorn: pip install 'hesse\[web\]'"):
        web.serve(0)


def test_port_in_use(server: Server) -> None:
    """A port that somebody else has is an error that says what to do."""
    with pytest.raises(ArgumentError, match=f"port {server.port} cannot be used: .*; choose another one"):
        web.serve(server.port)


def test_latency(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """The time of an answer, printed; the bound is only there to notice a server that does not keep warm."""
    times = []
    for _ in range(5):
        start = time.monotonic()
        assert_serving(server)
        times.append(time.monotonic() - start)
    with capsys.disabled():
        print(f"\nan answer on the page takes {1000 * sorted(times)[2]:.0f} ms")
    assert sorted(times)[2] < 2


def test_answers_are_sent_at_once() -> None:
    """asyncio turns the delay of small packets (40 ms each) off only where it knows the protocol."""
    with web._listener(0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
        assert listener.getsockname()[0] == "127.0.0.1"
