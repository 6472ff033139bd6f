"""Tests run in double precision, and PyTorch on one thread: there is a worker for each core."""

import gc
import math
from collections.abc import Iterator

import jax
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hesse.ir import Node
from hesse.ops.registry import ELEMENTWISE, Elementwise, elementwise

jax.config.update("jax_enable_x64", True)
torch.set_num_threads(1)


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


def _log_cosh(x: Node) -> Node:
    return x + elementwise("softplus", x * -2.0) - math.log(2.0)


@pytest.fixture(params=[False, True], ids=["undefined", "defined"])
def log_cosh(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Elementwise:
    """The row of the contributing guide, for which no library has a kernel and no language a function."""
    definition = _log_cosh if request.param else None
    row = Elementwise("log_cosh", (lambda y, x: elementwise("tanh", x),), "{}", definition=definition)
    monkeypatch.setitem(ELEMENTWISE, row.name, row)
    return row
