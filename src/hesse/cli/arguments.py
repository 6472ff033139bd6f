"""The commands and their options. The bare form `hesse FORMULA VARIABLE ...` is the command `diff`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence

import hesse
from hesse.api.formula import SYMMETRIC_MODES

DESCRIPTION = "Derivatives of matrix and tensor formulas, of any order, as formulas and as code."
EXAMPLES = """\
examples:
  hesse "x'*A*x" x                             the gradient
  hesse "x'*A*x" x x --type A="symmetric matrix"
  hesse "psd matrix A(n,n); logdet(A)" A A     types in the text
  hesse "sum[i,j,k](T[i,j,k]*x[i]*x[j]*x[k])" x x --type "T=tensor(3)"
  hesse "norm2(X*w - y)^2" w w --to numpy -o hessian.py
  hesse "norm2(X*w - y)^2" w --steps           the derivation, rule by rule
  hesse check "tr(A*inv(X))" X                 against finite differences
  hesse explain "norm2(M.*(T - U*V'))^2" U U --sizes m=2000,n=1000,k=20
  hesse graph "x'*A*x" x -o dag.svg
  hesse serve --open                           the same as a local web page

Put formulas into double quotes. Names a to g are scalars, h to z vectors, A to Z matrices, unless declared.
The page needs pip install 'hesse[web]'; with pip install 'hesse[cli]' the output has colours.
"""
COMMANDS = {
    "diff": "the derivative of a formula (may be left out: hesse FORMULA VARIABLE ...)",
    "check": "compare a derivative with finite differences at random points",
    "explain": "formula, structure, operations and memory for given sizes",
    "graph": "a picture of the expression graph",
    "serve": "the local web page",
}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line; wrong usage ends the program with status 2."""
    if not arguments or arguments[0] in ("-h", "--help", "--version"):
        parser = _top_parser()
        if not arguments:
            parser.print_help(sys.stderr)
            parser.exit(2)
        parser.parse_args(arguments)  # prints and exits
    given = list(arguments)
    command = given.pop(0) if given[0] in COMMANDS else "diff"
    parser = _PARSERS[command]()
    options = parser.parse_intermixed_args([_shielded(parser, item) for item in given])
    options.command = command
    if "formula" in options:
        options.formula = options.formula.removeprefix(" ")
        options.types = dict(options.types)
    return options


def _shielded(parser: argparse.ArgumentParser, item: str) -> str:
    """A formula may begin with a minus sign: one that is no option gets a space, which argparse lets pass."""
    is_option = item.partition("=")[0] in parser._option_string_actions or item == "--"
    return f" {item}" if item.startswith("-") and not is_option and not re.match(r"-[-a-z]+$", item) else item


def _top_parser() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {name:<9} {text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="hesse",
        usage="hesse FORMULA [VARIABLE ...] [options]\n       hesse COMMAND ... [options]",
        description=f"{DESCRIPTION}\n\ncommands (hesse COMMAND --help says more):\n{listing}",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hesse {hesse.__version__}")
    return parser


def _command_parser(name: str, example: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog="hesse" if name == "diff" else f"hesse {name}",
        description=COMMANDS[name].split(" (")[0] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _formula_parser(name: str, example: str) -> argparse.ArgumentParser:
    parser = _command_parser(name, example)
    parser.add_argument("formula", metavar="FORMULA", help="the formula, in quotes")
    parser.add_argument(
        "by", metavar="VARIABLE", nargs="*", help="differentiate by it; twice for the second derivative"
    )
    parser.add_argument(
        "--type",
        dest="types",
        metavar='NAME="WORDS"',
        action="append",
        default=[],
        type=_typed_name,
        help='the type of a variable: A="symmetric matrix", x="positive vector", T="tensor(3)"',
    )
    parser.add_argument(
        "--symmetric",
        choices=SYMMETRIC_MODES,
        default="free",
        help="what a derivative by a symmetric matrix means: all entries free (default), "
        "the projection (G+G')/2, or by the independent half",
    )
    parser.add_argument("--json", action="store_true", help="the answer as JSON, for machines")
    return parser


def _diff_parser() -> argparse.ArgumentParser:
    parser = _formula_parser("diff", 'hesse "norm2(X*w - y)^2" w w --to numpy -o hessian.py')
    parser.add_argument(
        "--to",
        metavar="NOTATION",
        help="print the derivative in this notation only: matrix (or text), index, latex, einsum, "
        "kronecker (order 3 and 4), numpy, torch, jax, matlab, julia, cpp",
    )
    parser.add_argument("--steps", action="store_true", help="show the derivation, rule by rule")
    parser.add_argument("-o", "--output", metavar="FILE", help="write what --to prints into a file")
    return parser


def _check_parser() -> argparse.ArgumentParser:
    return _formula_parser("check", 'hesse check "tr(A*inv(X))" X X')


def _explain_parser() -> argparse.ArgumentParser:
    parser = _formula_parser("explain", 'hesse explain "norm2(X*w - y)^2" w w --sizes m=2000,n=1000')
    parser.add_argument(
        "--sizes",
        metavar="NAME=NUMBER,...",
        type=_sizes,
        default={},
        help="numbers for the sizes; 100 for those left out",
    )
    return parser


def _graph_parser() -> argparse.ArgumentParser:
    parser = _formula_parser("graph", 'hesse graph "x\'*A*x" x -o dag.svg')
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="an .svg or .dot file; without it DOT text is printed"
    )
    return parser


def _serve_parser() -> argparse.ArgumentParser:
    parser = _command_parser("serve", "hesse serve --port 8000 --open")
    parser.add_argument("--port", type=_port, default=8642, help="the port on 127.0.0.1 (default 8642)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    return parser


_PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "diff": _diff_parser,
    "check": _check_parser,
    "explain": _explain_parser,
    "graph": _graph_parser,
    "serve": _serve_parser,
}


def _typed_name(text: str) -> tuple[str, str]:
    name, equals, words = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise argparse.ArgumentTypeError(f'{text!r} is not of the form NAME="WORDS"')
    return name.strip(), words


def _sizes(text: str) -> dict[str, int]:
    sizes = {}
    for part in text.split(","):
        found = re.fullmatch(r"\s*([A-Za-z]\w*)\s*=\s*([0-9]{1,10})\s*", part)
        if found is None:
            raise argparse.ArgumentTypeError(f"{part!r} is not of the form NAME=NUMBER")
        sizes[found[1]] = int(found[2])
    return sizes


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 <= int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)
