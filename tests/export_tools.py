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
        lines.append(f'println("{case.name} ", join(case_{case.name}.f({arguments}), " "))')
    (folder / "run.jl").write_text("\n".join(lines) + "\n")
    command = [julia, "--startup-file=no", "--compile=min", "-O0", "run.jl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
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
