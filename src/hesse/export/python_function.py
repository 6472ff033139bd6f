"""The Python function around the lines of a term: imports, helpers, documentation, argument checks."""

from __future__ import annotations

import re
import textwrap

from hesse.backends.text import tuple_text
from hesse.export.checks import Check, checks
from hesse.export.helpers import helper
from hesse.export.python import PythonWriter
from hesse.export.writer import is_plain_number

STANDARD_MODULES = ("itertools", "math")


def python_file(writer: PythonWriter, documentation: str) -> str:
    """A file with one function and the helpers that it calls."""
    result = writer.run().text
    language, names = writer.dialect.language, writer.names
    if is_plain_number(writer.root):
        result = writer.made("tensor" if language == "torch" else "asarray", f"float({result})").text
    variables = writer.given.variables
    parameters = [names.arguments[v.name] for v in variables] + [
        names.sizes[size] for size in writer.given.sizes
    ]
    body = [
        *_docstring(documentation),
        *(_converted(writer, names.arguments[v.name], v.kind) for v in variables),
        *(line for check in checks(writer.given, writer.used_sizes) for line in _check(writer, check)),
        *_types(writer, [*writer.lines, result]),
        *writer.lines,
        f"return {result}",
    ]
    source = f"def {names.function}({', '.join(parameters)}):\n" + textwrap.indent("\n".join(body), "    ")
    helpers = [helper(name, language) for name in writer.helpers]
    whole = "\n\n\n".join([*helpers, source])
    return "\n".join([*_imports(writer, whole), "", "", whole, ""])


def _imports(writer: PythonWriter, source: str) -> list[str]:
    modules = [
        name
        for name in (*STANDARD_MODULES, "jax", "scipy.linalg", "scipy.special")
        if re.search(rf"(?<!\.)\b{re.escape(name)}\.", source)
    ]
    standard = [f"import {name}" for name in modules if name in STANDARD_MODULES]
    others = sorted(
        [f"import {name}" for name in modules if name not in STANDARD_MODULES] + [writer.dialect.imports]
    )
    return [*standard, "", *others] if standard else others


def _docstring(text: str) -> list[str]:
    first, *rest = text.replace("\\", "\\\\").replace('"""', "'''").split("\n")
    return [f'"""{first}', *rest, '"""']


def _converted(writer: PythonWriter, name: str, kind: str) -> str:
    if writer.dialect.language == "torch":
        return f"{name} = torch.as_tensor({name})"
    return (
        f"{name} = {writer.dialect.module}.asarray({name}, dtype={'int' if kind == 'integer' else 'float'})"
    )


def _types(writer: PythonWriter, lines: list[str]) -> list[str]:
    """New tensors of PyTorch get the type and the device of an argument."""
    used = [fact for fact in ("dtype", "device") if any(re.search(rf"\b{fact}[,)]", line) for line in lines)]
    if not writer.dialect.is_torch or not used:
        return []
    real = [variable for variable in writer.given.variables if variable.kind == "real"]
    if not real:
        return ["dtype, device = torch.float64, None"]
    name = writer.names.arguments[max(real, key=lambda variable: variable.rank).name]
    return [f"{', '.join(used)} = {', '.join(f'{name}.{fact}' for fact in used)}"]


def _check(writer: PythonWriter, check: Check) -> list[str]:
    shape, sizes = check.variable.shape, writer.names.sizes
    name = writer.names.arguments[check.variable.name]
    declared = tuple_text(writer.names.size(size) for size in shape)
    lines = []
    if check.new or not check.is_fixed:
        wanted = f"{len(shape)} axes {declared}" if len(shape) > 1 else f"1 axis {declared}"
        lines += [f"if {name}.ndim != {len(shape)}:", _raised(name, wanted)]
    if check.new and len(check.new) == len(shape):
        targets = ", ".join(sizes[size] for size, _ in check.new)
        lines.append(f"{targets} = {name}.shape" if len(shape) > 1 else f"{targets} = {name}.shape[0]")
    else:
        lines += [f"{sizes[size]} = {name}.shape[{axis}]" for size, axis in check.new]
    if not check.is_fixed:
        return lines
    known = {k: size for k, size in enumerate(shape) if isinstance(size, int) or check.knows(size)}
    value = ""
    if len(known) == len(shape):
        expected = tuple_text(writer.names.size(size) for size in shape)
        wrong = f"{name}.shape != {expected}"
        value = f" = {{{expected}}}" if any(isinstance(size, str) for size in shape) else ""
    else:
        parts = [f"{name}.shape[{k}] != {writer.names.size(size)}" for k, size in known.items()]
        wrong = " or ".join([f"{name}.ndim != {len(shape)}", *parts] if not check.new else parts)
        values = [
            f"{writer.names.size(size)} = {{{writer.names.size(size)}}}"
            for size in known.values()
            if isinstance(size, str)
        ]
        value = f" with {', '.join(dict.fromkeys(values))}" if values else ""
    return [*lines, f"if {wrong}:", _raised(name, f"shape {declared}{value}")]


def _raised(name: str, expected: str) -> str:
    return f'    raise ValueError(f"{name} must have {expected}, not shape {{tuple({name}.shape)}}")'
