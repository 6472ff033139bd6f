"""What a classic problem is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax.numpy as jnp


class Problem(NamedTuple):
    """A formula, the function in JAX, and its derivatives as text by the variables they are taken by."""

    text: str
    function: Callable[..., Any]
    derivatives: Mapping[str, str]
    types: Mapping[str, str] = MappingProxyType({})
    scales: Mapping[str, float] = MappingProxyType({})
    """Factors for the random values of some variables, to stay in the domain."""


def norm(x: Any) -> Any:
    return jnp.sqrt(jnp.sum(x * x))


def logdet(x: Any) -> Any:
    return jnp.linalg.slogdet(x)[1]


inv = jnp.linalg.inv
