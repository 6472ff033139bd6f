"""Running exported code of compiled and other languages: all cases in one process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from export_cases import Case
from hesse.export import export


def _octave_array(array: np.ndarray) -> str:
    shape = [*array.shape, 1, 1][: max(2, array.ndim)]
    entries = " ".join(repr(float(value)) for value in array.ravel(order="F"))
    return f"reshape([{entries}], [{' '.join(map(str, shape))}])"


def _results(output: str, cases: list[Case]) -> dict[str, np.ndarray]:
    """The printed results: the name of a case, then all entries, first axis first."""
    found = {}
    shapes = {case.name: case.value().shape for case in cases}
    for line in output.splitlines():
        name, *entries = line.split()
        values = np.array([float(entry) for entry in entries])
        found[name] = values.reshape(shapes[name], order="F")
    return found


def _julia_array(array: np.ndarray, kind: str) -> str:
    convert = repr if kind == "real" else lambda value: str(int(value) + 1)
    entries = ", ".join(convert(value) for value in array.ravel(order="F").tolist())
    return entries if not array.ndim else f"reshape([{entries}], {', '.join(map(str, array.shape))})"


def run_julia(cases: list[Case], folder: Path, julia: str) -> dict[str, np.ndarray]:
    """The results of all cases, computed by one Julia process; each file is a module of its own."""
    lines = []
    for case in cases:
        (folder / f"{case.name}.jl").write_text(export(case.expression.node, "julia", "f"))
        arrays = case.arrays()
        given = [_julia_array(arrays[v.name], v.kind) for v in case.expression.variables]
        arguments = ", ".join([*given, *map(str, case.sizes().values())])
        lines.append(f'module case_{case.name}; include("{case.name}.jl"); end')
        shape = "".join(f"{size}," for size in case.value().shape)
        lines.append(f"r = case_{case.name}.f({arguments})")
        lines.append(f'size(r) == ({shape}) || error("{case.name} has size $(size(r))")')
        lines.append(f'println("{case.name} ", join(r, " "))')
    (folder / "run.jl").write_text("\n".join(lines) + "\n")
    command = [julia, "--startup-file=no", "--compile=min", "-O0", "run.jl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return _results(done.stdout, cases)


CPP_MAIN = """
static void print(const char* name, const double* entries, long count)
{
    std::printf("%s", name);
    for (long k = 0; k < count; ++k) std::printf(" %.17g", entries[k]);
    std::printf("\\n");
}
[[maybe_unused]] static void show(const char* name, double x) { print(name, &x, 1); }
template <typename Array>
static void show(const char* name, const Array& x) { print(name, x.data(), x.size()); }
template <typename Array>
static Array filled(Array x, std::initializer_list<double> entries)
{
    std::copy(entries.begin(), entries.end(), x.data());
    return x;
}
"""


def _cpp_array(array: np.ndarray) -> str:
    if not array.ndim:
        return repr(float(array))
    kinds = {1: "Eigen::VectorXd", 2: "Eigen::MatrixXd"}
    kind = kinds.get(array.ndim, f"Eigen::Tensor<double, {array.ndim}>")
    entries = ", ".join(repr(value) for value in array.ravel(order="F").tolist())
    return f"filled({kind}({', '.join(map(str, array.shape))}), {{{entries}}})"


def cpp_program(cases: list[Case]) -> str:
    """One program that prints the results of all cases; each function is in a namespace of its own."""
    includes = {"#include <cstdio>", "#include <unsupported/Eigen/CXX11/Tensor>", "#include <Eigen/Dense>"}
    bodies, calls = [], []
    for case in cases:
        lines = export(case.expression.node, "cpp", "f").splitlines()
        includes.update(line for line in lines if line.startswith("#include"))
        body = "\n".join(line for line in lines if not line.startswith("#include"))
        bodies.append(f"namespace case_{case.name} {{\n{body}\n}}")
        arrays = case.arrays()
        given = [_cpp_array(arrays[v.name]) for v in case.expression.variables]
        arguments = ", ".join([*given, *map(str, case.sizes().values())])
        calls.append(f'    show("{case.name}", case_{case.name}::f({arguments}));')
    return "\n".join([*sorted(includes), *bodies, CPP_MAIN, "int main()", "{", *calls, "}"]) + "\n"


EIGEN = next((p for p in map(Path, ("/usr/include/eigen3", "/usr/local/include/eigen3")) if p.exists()), None)
"""The folder of the headers of Eigen."""


def run_cpp(cases: list[Case], folder: Path, compiler: str) -> dict[str, np.ndarray]:
    """The results of all cases, computed by one program, which compiles without a warning."""
    (folder / "cases.cpp").write_text(cpp_program(cases))
    warnings = ["-Wall", "-Wextra", "-Werror"]
    build = [compiler, "-std=c++17", "-O0", *warnings, "-isystem", str(EIGEN), "-o", "cases", "cases.cpp"]
    built = subprocess.run(build, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(folder / "cases")], capture_output=True, text=True, timeout=60, check=True)
    return _results(done.stdout, cases)


def run_octave(cases: list[Case], folder: Path, octave: str) -> dict[str, np.ndarray]:
    """The results of all cases, computed by one Octave process."""
    lines = ["warning('off', 'all');"]
    for case in cases:
        function = f"case_{case.name}"
        (folder / f"{function}.m").write_text(export(case.expression.node, "matlab", function))
        arrays = {
            variable.name: case.arrays()[variable.name] + (variable.kind == "integer")
            for variable in case.expression.variables
        }
        arguments = ", ".join([*map(_octave_array, arrays.values()), *map(str, case.sizes().values())])
        lines.append(
            f"r = {function}({arguments}); printf('{case.name}'); printf(' %.17g', r); printf('\\n');"
        )
    script = folder / "run_all_cases.m"
    script.write_text("\n".join(lines) + "\n")
    command = [octave, "--no-gui", "--norc", "--quiet", script.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return _results(done.stdout, cases)
