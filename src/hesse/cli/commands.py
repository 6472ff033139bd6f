"""What each command does: ask, then print for people or as JSON."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from hesse.answers import (
    Answer,
    Cost,
    KroneckerAnswer,
    Question,
    answer,
    check_orders,
    cost,
    derivation,
    derivative_of,
)
from hesse.cli.display import Row, display
from hesse.errors import ArgumentError
from hesse.plan import bytes_text


def run(options: Namespace) -> None:
    """Run the command that the options name."""
    _COMMANDS[options.command](options)


def _question(options: Namespace) -> Question:
    return Question(options.formula, tuple(options.by), options.types, options.symmetric)


def _diff(options: Namespace) -> None:
    if options.output and not options.to:
        raise ArgumentError("-o needs --to: say which notation or language to write into the file")
    question = _question(options)
    if options.to:
        _written(derivative_of(question).to(options.to), options)
        return
    found = answer(question)
    steps = derivation(derivative_of(question)) if options.steps else ()
    if options.json:
        extra = {"steps": [asdict(step) for step in steps]} if options.steps else {}
        print(json.dumps({**asdict(found), **extra}, indent=2))
        return
    rows = [
        ("formula", found.formula),
        (found.title, found.derivative if found.by else ""),
        ("as a matrix", _equation(found.kronecker) if found.kronecker else ""),
    ]
    lines = "\n".join(f"{step.formula}    ({step.rule})" for step in steps)
    display("hesse", rows, [("steps", lines), *_remarks(found)])


def _written(text: str, options: Namespace) -> None:
    if options.output:
        Path(options.output).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps({"notation": options.to, "text": text, "file": options.output}, indent=2))
    else:
        print(f"wrote {options.output}" if options.output else text.rstrip("\n"))


def _remarks(found: Answer) -> list[Row]:
    types = [f"{v.name}: {v.type}{_sizes_text(v.sizes)}" for v in found.variables]
    layout = found.layout.removeprefix("Layout: ") if found.by else ""
    rows = [("types", ", ".join(types)), ("layout", layout)]
    rows.append(("matrix", found.kronecker.note if found.kronecker else found.kronecker_problem))
    rows += [(f"in {c.variable}", f"{c.verdict}: {c.reason}") for c in found.convexity]
    if not found.by:
        rows.append(("next", "name the variables to differentiate by after the formula"))
    return rows


def _equation(form: KroneckerAnswer) -> str:
    """The matrix with its name, after the declarations: `matrix A(m,n); M = m*kron(B', A)`."""
    declarations = re.match(r"([a-z ]+ \w+\([^()]*\); )*", form.matrix)
    end = declarations.end() if declarations else 0
    return f"{form.matrix[:end]}{form.name} = {form.matrix[end:]}"


def _sizes_text(sizes: tuple[int | str, ...]) -> str:
    return f"({','.join(map(str, sizes))})" if sizes else ""


def _check(options: Namespace) -> None:
    derivative = derivative_of(_question(options))
    orders = check_orders(derivative)
    if options.json:
        print(json.dumps({"ok": True, "orders": [asdict(order) for order in orders]}, indent=2))
        return
    lines = [
        f"order {order.order} by {order.by}, shape {_sizes_text(order.shape) or 'scalar'}: "
        f"relative difference {order.error:.1e}"
        for order in orders
    ]
    display("hesse check", [("derivative", str(derivative))], [("agrees", "\n".join(lines))])


def _explain(options: Namespace) -> None:
    derivative = derivative_of(_question(options))
    found = cost(derivative, options.sizes)
    if options.json:
        print(json.dumps({"derivative": str(derivative), **asdict(found)}, indent=2))
        return
    display("hesse explain", [("derivative", str(derivative))], _cost_rows(found))


def _cost_rows(found: Cost) -> list[Row]:
    terms = [
        f"{term.pattern}: {'core' if term.factors <= 1 else f'{term.factors} factors, core'} "
        f"{_sizes_text(term.core) or 'constant'}" + (f", {term.copies:,} times" if term.copies > 1 else "")
        for term in found.terms
    ]
    return [
        ("sizes", ", ".join(f"{name} = {size:,}" for name, size in found.sizes.items())),
        ("shape", _sizes_text(found.shape) or "scalar"),
        ("structure", "\n".join(dict.fromkeys(terms))),
        ("FLOPs", f"{found.flops:,.0f} dense, {found.structured_flops:,.0f} structured"),
        ("result", f"{bytes_text(found.dense_bytes)} dense, {bytes_text(found.structured_bytes)} structured"),
        ("peak memory", bytes_text(found.peak_bytes)),
        ("contractions", "\n".join(found.contractions)),
    ]


def _graph(options: Namespace) -> None:
    graph = derivative_of(_question(options)).graph()
    if options.output:
        graph.save(options.output)
    if options.json:
        data = {
            "nodes": len(graph.nodes),
            "edges": len(graph.edges),
            "dot": graph.dot,
            "file": options.output,
        }
        print(json.dumps(data, indent=2))
    else:
        print(f"wrote {options.output}" if options.output else graph.dot.rstrip("\n"))


def _serve(options: Namespace) -> None:
    from hesse.web import serve  # noqa: PLC0415 (the other commands start without it)

    serve(options.port, options.open)


_COMMANDS: dict[str, Callable[[Namespace], None]] = {
    "diff": _diff,
    "check": _check,
    "explain": _explain,
    "graph": _graph,
    "serve": _serve,
}
