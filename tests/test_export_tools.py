"""Exported MATLAB, Julia and C++ code is run by Octave, Julia and g++, where they are installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import export_cases
import export_tools
import hesse
import naive
from hesse.errors import MissingKernelError
from hesse.export import LANGUAGES, export
from hesse.ir import Apply, map_, topological
from hesse.ops.registry import ELEMENTWISE, OPERATIONS, Elementwise, operation

ALL = [
    *export_cases.classics(),
    *export_cases.rows(),
    *export_cases.records(),
    *export_cases.affine(),
    *export_cases.constants(),
]
PYTHON = ("numpy", "torch", "jax")
OCTAVE = shutil.which("octave-cli") or shutil.which("octave")

JULIA = shutil.which("julia")
COMPILER = shutil.which("g++")

REFUSED = {
    "matlab": {
        "cumulative_product_by_c": "the operation path_products",
        "expm_by_X": "the operation expm_chain",
        "gathered_rows": "gather of rows by a matrix of indices",
        "chosen_index": "the operation integer_multiply",
        "inverse_batch": "inverse of a batch of matrices",
        "number_of_index": "the operation integer_quotient",
        "part_of_index": "the operation integer_entries",
        "row_log_ndtr": "the function log_ndtr",
        "row_ndtri": "the function ndtri",
        "searched_index": "the operation searchsorted",
        "shifted_index": "the operation integer_multiply",
        "triangular_batch": "triangular_solve of a batch of matrices",
        "truncated_index": "the operation as_integer",
        "largest_of_rows": "argmax of rows",
        "largest_of_rows_by_D": "argmax of rows",
        "scattered": "the operation scatter",
        "solve_batch": "solve of a batch of matrices",
        "sorted": "argsort of rows",
    },
}
REFUSED["julia"] = REFUSED["matlab"]
REFUSED["cpp"] = {
    **REFUSED["matlab"],
    **dict.fromkeys(["chosen_index", "number_of_index", "shifted_index"], "the array of indices i"),
    "part_of_index": "the array of indices q",
    "gathered": "the array of indices i",
    "gathered_rows": "the array of indices j",
    "largest_of_rows": "argmax of a matrix",
    "largest_of_rows_by_D": "argmax of a matrix",
    "product": "product of a matrix",
    "product_by_c": "cumulative_product of a matrix",
    "row_digamma": "the function digamma",
    "row_erfinv": "the function erfinv",
    "row_polygamma": "the function polygamma",
    "scattered": "the array of indices i",
    "sorted": "the operation argsort",
}
"""Cases that a language refuses, and why."""


@pytest.mark.parametrize(
    ("language", "name", "reason"),
    [(language, name, reason) for language, refused in REFUSED.items() for name, reason in refused.items()],
)
def test_what_cannot_be_written_is_refused(language, name, reason):
    (case,) = [case for case in ALL if case.name == name]
    message = re.escape(f"{reason} cannot be written in {language} code; export to numpy, torch")
    with pytest.raises(MissingKernelError, match=message):
        export(case.expression.node, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_function_that_no_language_has(language: str, log_cosh: Elementwise):
    """It is written by its definition; one without a definition is refused, with the way out."""
    x = hesse.variable("x", ("n",)).node
    node = map_("log_cosh", x)
    if log_cosh.definition is not None:
        code = export(node, language)
        assert "log_cosh" not in code.split("Returns")[1]
        assert "softplus" in code or "logaddexp" in code
        if language == "numpy":
            namespace: dict[str, Any] = {}
            exec(code, namespace)
            points = np.linspace(-3, 3, 7)
            np.testing.assert_allclose(namespace["f"](points), np.log(np.cosh(points)), atol=1e-15)
        return
    module = f"hesse.export.{'python' if language in PYTHON else language}_tables"
    remedy = f"enter it into ELEMENTWISE of {module}, or give its row a definition"
    message = f"the function log_cosh cannot be written in {language} code; {remedy}"
    with pytest.raises(MissingKernelError, match=f"^{re.escape(message)}$"):
        export(node, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_operation_that_no_language_has(language: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(OPERATIONS, "schur", replace(OPERATIONS["inverse"], name="schur"))
    node = operation("schur", hesse.variable("X", ("n", "n")).node)
    message = f"the operation schur cannot be written in {language} code; enter it into OPERATIONS of hesse"
    with pytest.raises(MissingKernelError, match=message):
        export(node, language)


def test_definitions_agree_with_their_rows():
    defined = [row for row in ELEMENTWISE.values() if row.definition is not None]
    assert {"relu", "clip"} <= {row.name for row in defined}
    random = np.random.default_rng(3)
    for row in defined:
        operands = [hesse.variable(f"x{k}", (5,)).node for k in range(row.arity)]
        values = {f"x{k}": random.uniform(-2, 2, 5) for k in range(row.arity)}
        found = naive.evaluate(row.definition(*operands), values)
        np.testing.assert_allclose(found, naive.evaluate(map_(row.name, *operands), values), rtol=1e-14)


def test_every_record_is_in_a_case():
    """So that every row and record is executed, or refused by name, in every language."""
    nodes = [node for case in ALL for node in topological([case.expression.node])]
    in_programs = {
        "adjugate",
        "minors",
    }  # of back ends only: languages write the determinant times the inverse
    like_others = {"argmin"}  # the line of argmax
    executed = {node.name for node in nodes if isinstance(node, Apply)}
    assert executed >= set(OPERATIONS) - in_programs - like_others
    rows = {case.name for case in export_cases.rows()}
    assert rows >= {f"row_{name}" for name in ELEMENTWISE}


@pytest.mark.parametrize("language", REFUSED)
def test_all_other_cases_are_written(language):
    for case in _written(language):
        assert export(case.expression.node, language)


def _written(language: str) -> list[export_cases.Case]:
    return [case for case in ALL if case.name not in REFUSED[language]]


def _compare(results: dict[str, np.ndarray], cases: list[export_cases.Case]) -> None:
    for case in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            expected = case.value()
        np.testing.assert_allclose(results[case.name], expected, rtol=1e-9, atol=1e-11, err_msg=case.name)


@pytest.mark.skipif(OCTAVE is None, reason="Octave is not installed: MATLAB code is written but not run")
def test_matlab_code_agrees(tmp_path: Path):
    cases = _written("matlab")
    _compare(export_tools.run_octave(cases, tmp_path, str(OCTAVE)), cases)


NEED_A_PACKAGE = {f"row_{name}" for name in ("digamma", "erf", "erfc", "lgamma", "polygamma")}
"""Rows for which Julia needs the package SpecialFunctions."""


@pytest.mark.skipif(JULIA is None, reason="Julia is not installed: Julia code is written but not run")
def test_julia_code_agrees(tmp_path: Path):
    cases = [case for case in _written("julia") if case.name not in NEED_A_PACKAGE]
    _compare(export_tools.run_julia(cases, tmp_path, str(JULIA)), cases)


@pytest.mark.skipif(JULIA is None, reason="Julia is not installed: Julia code is written but not run")
def test_julia_code_checks_its_arguments(tmp_path: Path):
    A, x = hesse.variable("A", ("m", "n")), hesse.variable("x", ("n",))
    (tmp_path / "guarded.jl").write_text(export((A @ x).node, "julia", "guarded"))
    script = 'include("guarded.jl"); try guarded(ones(2, 3), ones(2)) catch problem; print(problem.msg) end'
    command = [str(JULIA), "--startup-file=no", "-e", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "x must have size (n,) = (3,), not (2,)"


def test_julia_code_names_the_package_it_needs():
    code = export(hesse.erf(hesse.variable("x", ("n",))).node, "julia")
    assert code.startswith("using LinearAlgebra\nusing SpecialFunctions\n")
    assert "return SpecialFunctions.erf.(x)" in code


COMPILED = {
    *("quadratic_by_x", "quadratic_by_S_x", "norm_by_x_x", "logistic_by_x_x", "log_determinant_by_X"),
    *("cross_entropy_by_W", "factorisation_by_U_U", "cubic_form_by_x", "softmax_by_x", "kinks_by_x"),
    *("powers_by_x_x", "diagonal_by_x", "trace_by_X", "broadcast", "batch", "transpose", "condition_by_x"),
    *("rosenbrock_by_x_x", "convolved", "selected", "largest_entry", "softmax_rows", "cumulative_sum"),
    *("stacked_by_A", "kron_by_B", "largest_of_all_by_A"),
    *("identity", "zero", "ones", "count_by_x", "table", "infinite"),
}
"""The cases that are compiled besides the rows: compiling all of them takes more than a minute."""


@pytest.mark.skipif(
    COMPILER is None or export_tools.EIGEN is None,
    reason="g++ or Eigen is not installed: C++ code is written but not run",
)
def test_cpp_code_agrees(tmp_path: Path):
    cases = [c for c in _written("cpp") if c.name in COMPILED or c.name.startswith("row_")]
    _compare(export_tools.run_cpp(cases, tmp_path, str(COMPILER)), cases)


@pytest.mark.skipif(OCTAVE is None, reason="Octave is not installed: MATLAB code is written but not run")
def test_matlab_code_checks_its_arguments(tmp_path: Path):
    A, x = hesse.variable("A", ("m", "n")), hesse.variable("x", ("n",))
    C, s = hesse.variable("C", ("n", "n", 2)), hesse.variable("s", ())
    expression = s * (A @ x) @ (A @ x) + np.sum(C)
    (tmp_path / "guarded.m").write_text(export(expression.node, "matlab", "guarded"))
    calls = {
        "guarded(ones(2, 3), ones(3, 3, 2), 1, ones(3, 1))": "36",
        "guarded(ones(2, 3), ones(3, 3, 2), 1, ones(2, 1))": "x must be a column vector (n) = [3 1]",
        "guarded(ones(2, 3), ones(3, 4, 2), 1, ones(3, 1))": "C must be an array of 3 axes (n, n, 2) = [",
        "guarded(ones(2, 3), ones(3, 3, 2), [1 2], ones(3, 1))": "s must be a scalar, but its size is [1 2]",
        "guarded(ones(2, 3, 2), ones(3, 3, 2), 1, ones(3, 1))": "A must be a matrix (m, n), but its size is",
    }
    lines = [f"try, disp({call}); catch problem, disp(problem.message); end" for call in calls]
    (tmp_path / "run_guarded.m").write_text("\n".join(lines) + "\n")
    command = [str(OCTAVE), "--no-gui", "--norc", "--quiet", "run_guarded.m"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    for line, expected in zip(done.stdout.splitlines(), calls.values(), strict=True):
        assert expected in line
