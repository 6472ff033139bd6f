"""Tests run in double precision."""

import gc
from collections.abc import Iterator

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

jax.config.update("jax_enable_x64", True)


@pytest.fixture(autouse=True, scope="session")
def _generators_are_known() -> None:
    """Hypothesis asks, before its first example, who holds the generators of random numbers.

    It would not find anybody once they are left out of collections.
    """
    given(st.none())(lambda _: None)()


@pytest.fixture(autouse=True, scope="module")
def _collections_skip_what_is_kept() -> Iterator[None]:
    """What libraries keep for a module (millions of objects in the end) is not looked through ever after."""
    yield
    gc.collect()
    gc.freeze()
