"""Layers and modules of PyTorch: derivatives as nested `torch.func.jacrev` has them, and their structure."""

from __future__ import annotations

import pytest

from torch_module_cases import CASES, Case, check

DECOMPOSED: set[str] = set()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_nested_jacrev(case: Case) -> None:
    """All blocks of the derivatives; what is not in the table is said above."""
    assert check(case) <= DECOMPOSED
