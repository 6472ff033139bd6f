"""Reading and writing torch tensors by integers and masks: derivatives as PyTorch has them, and refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import hesse
from hesse.errors import TracingError
from torch_indexing_cases import CASES
from torch_module_cases import Case, check, normal
from torch_nested import assert_equal, nested

DECOMPOSED: set[str] = set()
"""What has no handler of its own."""


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_nested_jacrev(case: Case) -> None:
    """All blocks of the derivatives; what is not in the table is said above."""
    assert check(case) <= DECOMPOSED
