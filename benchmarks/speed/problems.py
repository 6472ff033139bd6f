"""All problems, in the order of the table."""

from __future__ import annotations

from benchmarks.speed import (
    problems_algebra,
    problems_chains,
    problems_gradients,
    problems_nested,
    problems_papers,
    problems_structure,
)

PROBLEMS = [
    *problems_papers.PROBLEMS,
    *problems_structure.PROBLEMS,
    *problems_algebra.PROBLEMS,
    *problems_chains.PROBLEMS,
    *problems_nested.PROBLEMS,
    *problems_gradients.PROBLEMS,
]
