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
