"""Functions of jax.numpy, jax.lax, jax.scipy and jax.nn, and models: against nested `jax.jacfwd`."""

from __future__ import annotations

import pytest

import jax_algebra_cases
import jax_index_cases
import jax_model_cases
from jax_check import check_derivatives

CASES = jax_index_cases.CASES | jax_algebra_cases.CASES | jax_model_cases.CASES


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    check_derivatives(CASES[name])
