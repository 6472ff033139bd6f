"""Plans of the benchmark problems are as recorded: nodes, FLOPs and peak entries.

They may not become larger, and what has become smaller is to be recorded, so that it stays.

`python -m tests.test_plan_guards` writes the table anew.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hesse
from benchmarks.speed.candidates import derivative_of, has_structured
from benchmarks.speed.harness import check_small
from benchmarks.speed.problem import Problem
from benchmarks.speed.problems import PROBLEMS

TABLE = Path(__file__).with_name("plan_guards.json")
REGENERATE = "python -m tests.test_plan_guards"
QUANTITIES = ("nodes", "flops", "peak")


def plans(problem: Problem) -> dict[str, dict[str, int]]:
    """The counts of the plans of a problem, by form."""
    arguments = problem.data(problem.sizes.guard)
    forms = ("dense", "structured") if has_structured(problem) else ("dense",)
    if problem.derivative == "newton":
        f = problem.function_for("numpy", np)
        return {"structured": counts(hesse.hessian(f, form="structured"), arguments)}
    return {form: counts(derivative_of(problem, form), arguments) for form in forms}


def counts(derivative: Any, arguments: tuple[np.ndarray, ...]) -> dict[str, int]:
    """Nodes of the expression, floating-point operations and peak entries of the plan."""
    explanation = derivative.explain(*arguments)
    return {
        "nodes": explanation.nodes,
        "flops": round(explanation.flops),
        "peak": explanation.program.peak_elements(),
    }


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_plans_are_as_recorded(problem: Problem) -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    assert problem.name in table, f"{problem.name} has no guard; run {REGENERATE}"
    found, recorded = plans(problem), table[problem.name]
    assert found.keys() == recorded.keys()
    larger, smaller = [], []
    for form, quantity in ((form, quantity) for form in found for quantity in QUANTITIES):
        now, before = found[form][quantity], recorded[form][quantity]
        text = f"{quantity} of the {form} plan: {before} before, {now} now"
        (larger if now > before else smaller if now < before else []).append(text)
    assert not larger, f"the plan of {problem.name} has become larger: {'; '.join(larger)}"
    assert not smaller, (
        f"the plan of {problem.name} is better now, record it ({'; '.join(smaller)}): {REGENERATE}"
    )


def test_every_guard_belongs_to_a_problem() -> None:
    assert set(json.loads(TABLE.read_text(encoding="utf-8"))) == {problem.name for problem in PROBLEMS}


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_problems_agree_with_their_closed_forms(problem: Problem) -> None:
    check_small(problem)


def main() -> None:
    """Write the table, and say what has changed."""
    before = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    table = {problem.name: plans(problem) for problem in PROBLEMS}
    for name, found in table.items():
        if name in before and found != before[name]:
            print(f"{name}: {before[name]} -> {found}")
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
