"""The C++ function around the lines of a term: includes, helpers, documentation, argument checks."""

from __future__ import annotations

import re
import textwrap

from hesse.export.checks import Check, checks
from hesse.export.cpp import CppWriter
from hesse.export.cpp_tables import HELPERS
from hesse.ir import Shape

TENSOR = "template <int order>\nusing Tensor = Eigen::Tensor<double, order>;\n"


def cpp_file(writer: CppWriter, documentation: str) -> str:
    """A file with one function, and the helpers that it calls before it."""
    writer.run()
    result = writer.whole(writer.root)
    names, given = writer.names, writer.given
    parameters = [
        f"const {writer.type_of(v.shape)}& {names.arguments[v.name]}"
        if v.rank
        else f"double {names.arguments[v.name]}"
        for v in given.variables
    ]
    parameters += [f"Index {names.sizes[size]}" for size in given.sizes]
    body = [
        *(line for check in checks(given, writer.used_sizes) for line in _check(writer, check)),
        *writer.lines,
        f"return {result};",
    ]
    source = [
        *(f"// {line}".rstrip() for line in documentation.split("\n")),
        f"{writer.type_of(given.shape)} {names.function}({', '.join(parameters)})",
        "{",
        textwrap.indent("\n".join(body), "    "),
        "}",
    ]
    helpers = [HELPERS[name].strip() for name in writer.helpers]
    whole = "\n\n".join([*helpers, "\n".join(source)]) + "\n"
    names_used = [f"using Eigen::{name};" for name in ("Index", "MatrixXd", "VectorXd") if name in whole]
    tensor = [TENSOR] if "Tensor<" in whole else []
    return "\n".join([*_includes(whole), "", *names_used, "", *tensor, whole])


def _includes(source: str) -> list[str]:
    found = {
        "<cmath>": r"std::(?!numeric_limits|invalid_argument|to_string)",
        "<limits>": "std::numeric_limits",
        "<stdexcept>": "std::invalid_argument",
        "<string>": "std::to_string",
    }
    standard = [f"#include {header}" for header, sign in found.items() if re.search(sign, source)]
    eigen = ["#include <Eigen/Dense>"]
    eigen += ["#include <unsupported/Eigen/CXX11/Tensor>"] if "Tensor<" in source else []
    eigen += ["#include <unsupported/Eigen/MatrixFunctions>"] if ".exp()" in source else []
    return [*standard, *([""] if standard else []), *eigen]


def _axis(name: str, shape: Shape, axis: int) -> str:
    """The size of an argument along an axis."""
    if len(shape) > 2:
        return f"{name}.dimension({axis})"
    return f"{name}.size()" if len(shape) == 1 else f"{name}.{('rows', 'cols')[axis]}()"


def _check(writer: CppWriter, check: Check) -> list[str]:
    shape, sizes = check.variable.shape, writer.names.sizes
    name = writer.names.arguments[check.variable.name]
    lines = [f"const Index {sizes[size]} = {_axis(name, shape, axis)};" for size, axis in check.new]
    taken = set(check.new)
    fixed = [
        (_axis(name, shape, axis), writer.names.size(size))
        for axis, size in enumerate(shape)
        if isinstance(size, int) or (check.knows(size) and (size, axis) not in taken)
    ]
    if fixed:
        declared = ", ".join(writer.names.size(size) for size in shape)
        found = ' + ", " + '.join(f"std::to_string({_axis(name, shape, axis)})" for axis in range(len(shape)))
        condition = " || ".join(f"{left} != {right}" for left, right in fixed)
        message = f'"{name} must have size ({declared}), not (" + {found} + ")"'
        lines += [f"if ({condition})", f"    throw std::invalid_argument({message});"]
    return lines
