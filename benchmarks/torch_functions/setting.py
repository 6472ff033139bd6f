"""Where something is measured, what is measured, and how results of several libraries are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.gpu.cases import Measurement
from benchmarks.gpu.setting import jax_alone, torch_alone
from benchmarks.speed.libraries import Jax, Torch

Thunk = Callable[[], Any]


@dataclass(frozen=True)
class Setting:
    """A device and a precision; without JAX only torch takes part."""

    torch: Torch
    jax: Jax | None
    dtype: str = "float32"

    def tensor(self, *shape: int, seed: int = 0, scale: float = 1.0) -> Any:
        """Random numbers that depend on the shape and the seed only."""
        return self.to_torch(np.random.default_rng(seed).normal(size=shape) * scale)

    def to_torch(self, array: np.ndarray) -> Any:
        """A tensor on the device, in the precision."""
        return self.torch.array(array.astype(self.dtype))

    def to_jax(self, tensors: Iterable[Any]) -> list[Any]:
        """The same numbers in JAX."""
        assert self.jax is not None
        return [self.jax.array(tensor.detach().cpu().numpy()) for tensor in tensors]

    def in_double(self) -> Setting:
        """The setting of the reference."""
        return replace(self, dtype="float64", jax=None)


def setting_on(device: str, dtype: str, threads: int, with_jax: bool = True) -> Setting:
    """The libraries on a device; on a processor torch has so many threads, in each process."""
    torch = torch_alone(device)
    if device == "cpu":
        torch.xp.set_num_threads(threads)
    return Setting(torch, jax_alone(device) if with_jax else None, dtype)


class Candidate(NamedTuple):
    """A way to a result: `make` gives a function without arguments, `entries` what is compared."""

    name: str
    make: Callable[[], Thunk]
    entries: Callable[[Any], Any] = lambda result: result
    is_compiled: bool = False
    """Whether torch.compile takes part: that takes long and is left to another process."""


class Case(NamedTuple):
    """A problem with its sizes on a processor and on a device; the first candidate is the reference."""

    group: str
    problem: str
    size_is: str
    sizes: dict[str, tuple[int, ...]]
    candidates: Callable[[Setting, int], list[Candidate]]


@dataclass
class Row:
    """All candidates of a case at one size."""

    group: str
    problem: str
    size_is: str
    size: int
    device: str
    dtype: str
    measurements: list[Measurement] = field(default_factory=list)

    def times(self) -> dict[str, float]:
        """Seconds of each candidate that was timed, the median."""
        return {m.name: m.seconds for m in self.measurements if m.samples}


def in_one_vector(torch: Any, result: Any) -> Any:
    """All tensors of nested tuples one after the other, in double precision."""
    return torch.cat([leaf.reshape(-1).double() for leaf in _leaves(torch, result)])


def _leaves(torch: Any, result: Any) -> list[Any]:
    if isinstance(result, Sequence):
        return [leaf for part in result for leaf in _leaves(torch, part)]
    if not isinstance(result, torch.Tensor):
        result = torch.from_dlpack(result)
    return [result.detach()]
