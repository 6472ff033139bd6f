"""The command line: answers for people and machines, files, and every way to use it wrongly."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import hesse
from hesse import web
from hesse.answers.notations import ALL_NOTATIONS
from hesse.cli import main
from hesse.cli.arguments import EXAMPLES

Capture = pytest.CaptureFixture[str]


def output(capsys: Capture, *arguments: str) -> str:
    """What a command prints; it must succeed."""
    status = main(arguments)
    printed = capsys.readouterr()
    assert (status, printed.err) == (0, "")
    return printed.out


def failure(capsys: Capture, *arguments: str) -> str:
    """The error of a command, which prints nothing else."""
    status = main(arguments)
    printed = capsys.readouterr()
    assert (status, printed.out) == (1, "")
    return printed.err


def usage_error(capsys: Capture, *arguments: str) -> str:
    """What is said about a wrong usage; the status is 2."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    return capsys.readouterr().err


def rows(text: str) -> dict[str, str]:
    """The labelled lines of an answer."""
    return dict(re.split(r"  +", line, maxsplit=1) for line in text.splitlines() if not line.startswith(" "))


def test_bare_form(capsys: Capture) -> None:
    """A formula and a variable give the gradient, with types, layout and convexity."""
    found = rows(output(capsys, "norm2(A*x - y)^2", "x"))
    assert found["formula"] == "norm2(A*x - y)^2"
    assert found["Gradient by x"] == "2*A'*(A*x - y)"
    assert found["types"] == "A: matrix(m,n), x: vector(n), y: vector(m)"
    assert found["layout"].startswith("the gradient has the shape of x")
    assert found["in x"].startswith("convex: ")


def test_diff_is_the_bare_form(capsys: Capture) -> None:
    """The command may be written out."""
    assert output(capsys, "diff", "x'*A*x", "x") == output(capsys, "x'*A*x", "x")


@pytest.mark.parametrize(
    ("arguments", "title", "derivative"),
    [
        (["x'*A*x", "x", "x"], "Hessian by x", "A + A'"),
        (["x'*A*x", "x", "--type", "A=symmetric matrix"], "Gradient by x", "2*A*x"),
        (["--type", "A=symmetric matrix", "x'*A*x", "x"], "Gradient by x", "2*A*x"),
        (["x'*A*x", "--type=A=symmetric matrix", "x", "x"], "Hessian by x", "2*A"),
        (["symmetric matrix A; x'*A*x", "x"], "Gradient by x", "2*A*x"),
        (["A*x", "x"], "Jacobian by x", "A"),
        (["a^3", "a"], "Derivative by a", "3*a^2"),
        (["-x'*x", "x"], "Gradient by x", "-2*x"),
        (["a*x'*x", "x", "a"], "Derivative of order 2 by x, a", "2*x"),
        (["diff", "serve'*serve", "serve"], "Gradient by serve", "2*serve"),
        (
            ["tr(A*X)", "X", "--type", "X=symmetric matrix", "--symmetric", "projected"],
            "Gradient by X",
            "0.5*(A + A')",
        ),
    ],
)
def test_derivatives(capsys: Capture, arguments: list[str], title: str, derivative: str) -> None:
    """Orders, types by option and in the text, options before and after, formulas that begin with a minus."""
    found = rows(output(capsys, *arguments))
    assert found[title] == derivative


def test_matrix_form(capsys: Capture) -> None:
    """A derivative of order 4 is shown as a matrix too, by a name that no variable has."""
    found = rows(output(capsys, "A*M*B", "M"))
    assert found["Jacobian by M"] == "H[i,j,k,l] = A[i,k]*B[l,j]"
    assert found["as a matrix"] == "J = kron(B', A)"
    assert found["matrix"].startswith("vec(dF) = J*vec(dM), where F is the function")
    assert "as a matrix" not in rows(output(capsys, "A*x", "x"))
    data = json.loads(output(capsys, "A*X*B", "X", "--json"))
    assert data["kronecker"]["matrix"] == "kron(B', A)"
    assert data["kronecker"]["matrix_latex"] == r"B^{\top} \otimes A"
    assert main(["expm(X)", "X", "--to", "kronecker"]) == 1
    assert "use the notation index" in capsys.readouterr().err


def test_no_variables(capsys: Capture) -> None:
    """A formula alone is shown as it was understood, and what to do next."""
    found = rows(output(capsys, "log(det(X))"))
    assert found["formula"] == "logdet(X)"
    assert found["next"] == "name the variables to differentiate by after the formula"


def test_steps(capsys: Capture) -> None:
    """The derivation, rule by rule."""
    text = output(capsys, "norm2(A*x - y)^2", "x", "--steps")
    assert "(the function)" in text
    assert "(chain rule)" in text
    assert "df/dx = 2*A'*(A*x - y)" in text


def test_steps_of_a_structured_derivative(capsys: Capture) -> None:
    """The last step is the derivative that was asked for."""
    arguments = [
        "tr(A*X)",
        "X",
        "--type",
        "X=symmetric matrix",
        "--symmetric",
        "projected",
        "--json",
        "--steps",
    ]
    steps = json.loads(output(capsys, *arguments))["steps"]
    assert steps[-1]["formula"] == "0.5*(A + A')"
    assert steps[-1]["rule"] == "the part that has the structure of the matrix"


@pytest.mark.parametrize("notation", ALL_NOTATIONS)
def test_every_notation(capsys: Capture, notation: str) -> None:
    """`--to` prints what `Formula.to` gives and nothing else; the help names every notation."""
    formula, name = ("A*X*B", "X") if notation == "kronecker" else ("norm2(A*x - y)^2", "x")
    expected = hesse.parse(formula).diff(name).to(notation)
    assert output(capsys, formula, name, "--to", notation).rstrip() == expected.rstrip()
    with pytest.raises(SystemExit):
        main(["diff", "--help"])
    assert re.search(rf"\b{notation}\b", capsys.readouterr().out)


def test_code_into_a_file(capsys: Capture, tmp_path: Path) -> None:
    """The code that is written runs, and computes the Hessian."""
    path = tmp_path / "hessian.py"
    text = output(capsys, "norm2(X*w - y)^2", "w", "w", "--to", "numpy", "-o", str(path))
    assert text == f"wrote {path}\n"
    names: dict[str, object] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    X = np.random.default_rng(0).normal(size=(5, 3))
    function = names["hessian"]
    assert callable(function)
    np.testing.assert_allclose(function(X=X), 2 * X.T @ X, rtol=1e-12)


def test_json(capsys: Capture) -> None:
    """The answer for machines has these fields and types, and the same content."""
    data = json.loads(output(capsys, "x'*A*x", "x", "--json"))
    schema = {
        "formula": str,
        "formula_latex": str,
        "variables": list,
        "sizes": list,
        "by": list,
        "title": str,
        "derivative": str,
        "derivative_latex": str,
        "shape": list,
        "layout": str,
        "kronecker": type(None),
        "kronecker_problem": str,
        "convexity": list,
    }
    assert {name: type(value) for name, value in data.items()} == schema
    assert data["derivative"] == "(A + A')*x"
    assert data["variables"][0] == {"name": "A", "type": "matrix", "sizes": ["n", "n"], "declared": False}
    assert set(data["convexity"][0]) == {"variable", "verdict", "reason"}


def test_json_of_a_notation(capsys: Capture) -> None:
    """With `--to`, the text and where it was written."""
    data = json.loads(output(capsys, "x'*x", "x", "--to", "latex", "--json"))
    assert data == {"notation": "latex", "text": "2 x", "file": None}


def test_json_errors(capsys: Capture) -> None:
    """An error for machines has a kind, a message and a position."""
    assert main(["x + * y", "x", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["position"]) == ("NotationError", 4)
    assert main(["x'*x", "y", "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["position"]) == ("ArgumentError", None)


def test_check(capsys: Capture) -> None:
    """Each order is compared with a finite difference of the order below."""
    text = output(capsys, "check", "tr(A*inv(X))", "X", "X")
    assert re.search(r"order 1 by X, shape \(n,n\): relative difference \d\.\de-\d+", text)
    assert re.search(r"order 2 by X, shape \(n,n,n,n\): relative difference \d\.\de-\d+", text)
    data = json.loads(output(capsys, "check", "sum(exp(x))", "x", "x", "--json"))
    assert data["ok"] is True
    assert [order["order"] for order in data["orders"]] == [1, 2]
    assert all(0 <= order["error"] < 1e-6 for order in data["orders"])


def test_explain(capsys: Capture) -> None:
    """Formula, structure, operations and memory for given sizes."""
    arguments = ["explain", "norm2(M.*(T - U*V'))^2", "U", "U", "--sizes", "m=2000,n=1000,k=20"]
    found = rows(output(capsys, *arguments))
    assert found["derivative"] == str(hesse.parse("norm2(M.*(T - U*V'))^2").diff("U", "U"))
    assert found["sizes"] == "m = 2,000, n = 1,000, k = 20"
    assert found["shape"] == "(2000,20,2000,20)"
    assert found["structure"].startswith("ijik: core (2000,20,20)")
    assert found["result"] == "12.8 GB dense, 6.4 MB structured"
    data = json.loads(output(capsys, *arguments, "--json"))
    assert data["dense_bytes"] == 8 * (2000 * 20) ** 2
    assert data["flops"] > 2 * 2000 * 1000 * 20 * 20
    assert data["terms"][0]["pattern"] == "ijik"


def test_explain_takes_a_hundred_where_nothing_is_said(capsys: Capture) -> None:
    """Sizes that are not given are 100, and are shown."""
    assert rows(output(capsys, "explain", "x'*A*x", "x"))["sizes"] == "n = 100"


def test_graph(capsys: Capture, tmp_path: Path) -> None:
    """The graph as DOT text, and as a file whose suffix says the format."""
    assert output(capsys, "graph", "x'*A*x", "x").startswith("digraph expression {")
    path = tmp_path / "dag.svg"
    assert output(capsys, "graph", "x'*A*x", "x", "-o", str(path)) == f"wrote {path}\n"
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    data = json.loads(output(capsys, "graph", "x'*A*x", "x", "--json"))
    assert data["dot"].startswith("digraph expression {")
    assert data["edges"] == data["dot"].count(" -> ")
    assert data["file"] is None


ERRORS = [
    (["x'*(A", "x"], "error: the formula ends too early"),
    (["x'*x", "y"], "error: there is no variable y in the expression; it has x"),
    (["x'*x", "x", "--type", "x=thing"], "error: thing is no type"),
    (["x'*x", "x", "--type", "q=vector"], "error: there is no variable q"),
    (["x'*x", "x", "--to", "cobol"], "error: there is no notation 'cobol'; choose one of matrix, text"),
    (["x'*x", "x", "-o", "f.txt"], "error: -o needs --to"),
    (["x'*x", "x", "--to", "numpy", "-o", "no/such/folder/f.py"], "error: .*No such file or directory"),
    (["x'*x", *["x"] * 7], "error: the derivative of order 7 was asked for; the highest order is 6"),
    (
        ["matrix A(99999,99999); tr(A)", "A"],
        "error: the sizes in the text make tensors of 9,999,800,001 entries",
    ),
    (
        ["matrix A(900,900); sum(exp(kron(A,A)))", "A"],
        "error: the derivative by A could not be compared with a finite difference: the sizes given",
    ),
    (["check", "x'*x"], "error: a check needs variables"),
    (["explain", "x'*x", "x", "--sizes", "q=3"], "error: there is no size q in the formula; it has n"),
    (["explain", "x'*x", "x", "--sizes", "n=0"], "error: the size n must be from 1 to 1,000,000,000, not 0"),
    (["graph", "x'*x", "x", "-o", "dag.gif"], "error: a graph cannot be saved as 'dag.gif'"),
    (["sqrt(-x'*x - 1)", "x"], "error: the derivative by x could not be compared with a finite difference"),
]


def test_lack_of_memory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(options: object) -> None:
        raise MemoryError

    monkeypatch.setattr("hesse.cli.run", run)
    assert failure(capsys, "x'*x", "x").startswith("error: the formula needs more memory than there is")


@pytest.mark.parametrize(("arguments", "message"), ERRORS, ids=lambda value: str(value)[:40])
def test_errors(capsys: Capture, arguments: list[str], message: str) -> None:
    """A question that cannot be answered: status 1, and what is wrong."""
    assert re.match(message, failure(capsys, *arguments))


def test_errors_show_the_text_with_a_caret(capsys: Capture) -> None:
    """The caret stands below the place, also for a formula that begins with a minus sign."""
    assert failure(capsys, "x + * y", "x").splitlines()[1:] == ["  x + * y", "      ^"]
    assert failure(capsys, "-x + * y", "x").splitlines()[1:] == ["  -x + * y", "       ^"]


USAGE = [
    ([], "usage: hesse FORMULA"),
    (["x'*x", "x", "--nothing"], "unrecognized arguments: --nothing"),
    (["x'*x", "x", "--type", "A"], "argument --type: 'A' is not of the form NAME=\"WORDS\""),
    (["x'*x", "x", "--type", "2=vector"], "'2=vector' is not of the form"),
    (["x'*x", "x", "--symmetric", "very"], "argument --symmetric: invalid choice: 'very'"),
    (["explain", "x'*x", "--sizes", "n"], "argument --sizes: 'n' is not of the form NAME=NUMBER"),
    (["explain", "x'*x", "--sizes", "n=-1"], "'n=-1' is not of the form NAME=NUMBER"),
    (["check"], "the following arguments are required: FORMULA"),
    (["serve", "--port", "70000"], "argument --port: '70000' is not a port from 0 to 65535"),
    (["serve", "--port", "x"], "argument --port: 'x' is not a port"),
    (["serve", "x"], "unrecognized arguments: x"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=lambda value: str(value)[:40])
def test_usage_errors(capsys: Capture, arguments: list[str], message: str) -> None:
    """A command line that cannot be understood: status 2."""
    assert message in usage_error(capsys, *arguments)


def test_help(capsys: Capture) -> None:
    """The help has examples, which run, and says what to install."""
    with pytest.raises(SystemExit) as exit_:
        main(["--help"])
    text = capsys.readouterr().out
    assert exit_.value.code == 0
    assert "hesse[web]" in text
    assert "hesse[cli]" in text
    for command in ("diff", "check", "explain", "graph", "serve"):
        assert re.search(rf"^  {command} ", text, re.MULTILINE)


def test_version(capsys: Capture) -> None:
    """The version is that of the package."""
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"hesse {hesse.__version__}\n"


def test_examples_of_the_help_run(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example of the help is a command that works."""
    monkeypatch.chdir(tmp_path)
    listing = EXAMPLES.partition("examples:")[2]
    examples = re.findall(r"^  hesse (.*?)(?:   +.*)?$", listing, re.MULTILINE)
    assert len(examples) == 10
    for example in examples:
        if not example.startswith("serve"):
            assert output(capsys, *shlex.split(example))
    assert {path.name for path in tmp_path.iterdir()} == {"hessian.py", "dag.svg"}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line as a process of its own."""
    command = [sys.executable, "-m", "hesse", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_colours() -> None:
    """With colours the answer is framed; NO_COLOR and a pipe turn them off."""
    framed = run("x'*A*x", "x", FORCE_COLOR="1")
    assert "╭" in framed.stdout
    assert "(A + A')*x" in framed.stdout
    assert "\x1b[" in framed.stdout
    for plain in (run("x'*A*x", "x"), run("x'*A*x", "x", FORCE_COLOR="1", NO_COLOR="1")):
        assert "\x1b[" not in plain.stdout
    wrong = run("x + * y", "x", FORCE_COLOR="1")
    assert wrong.returncode == 1
    assert "\x1b[" in wrong.stderr
    assert "      ^" in re.sub(r"\x1b\[[\d;]*m", "", wrong.stderr)


def test_documentation_is_what_the_commands_print() -> None:
    """The outputs in the documentation; python docs/command_line.py brings them up to date."""
    script = runpy.run_path(str(Path(__file__).parent.parent / "docs" / "command_line.py"))
    errors = re.compile(r"\d\.\de-\d\d")  # of finite differences: the last digits are rounding
    for path in script["PAGES"]:
        page = path.read_text(encoding="utf-8")
        assert "$ hesse " in page
        assert errors.sub("", script["rewritten"](page)) == errors.sub("", page)


def test_a_reader_that_stops_reading() -> None:
    """`hesse ... | head -1` is no error."""
    command = f"'{sys.executable}' -m hesse graph 'tr(A*inv(X))' X X | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")


def test_answers_come_soon(capsys: Capture) -> None:
    """The time of an answer from the command line, start included, printed; the bound is generous."""
    times = []
    for _ in range(3):
        start = time.monotonic()
        assert run("norm2(A*x - y)^2", "x").returncode == 0
        times.append(time.monotonic() - start)
    with capsys.disabled():
        print(f"\nan answer from the command line takes {min(times):.2f} s")
    assert min(times) < 5


def test_serve_passes_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command starts the server with the port, and opens the page if asked."""
    calls = []
    monkeypatch.setattr(web, "serve", lambda port, open_page: calls.append((port, open_page)))
    assert main(["serve"]) == 0
    assert main(["serve", "--port", "0", "--open"]) == 0
    assert calls == [(8642, False), (0, True)]


def test_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl+C is not an error of the program."""

    def interrupted(port: int, open_page: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(web, "serve", interrupted)
    assert main(["serve"]) == 130
