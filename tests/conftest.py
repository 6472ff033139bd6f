"""Tests run in double precision."""

import gc
from collections.abc import Iterator

import jax
import pytest

jax.config.update("jax_enable_x64", True)


@pytest.fixture(autouse=True, scope="module")
def _collections_skip_what_is_kept() -> Iterator[None]:
    """What libraries keep for a module (millions of objects in the end) is not looked through ever after."""
    yield
    gc.collect()
    gc.freeze()
