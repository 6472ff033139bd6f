"""JAX as a target: pure functions, jitted, which JAX can batch, differentiate and shard."""

from __future__ import annotations

import contextlib
import functools
import math
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hesse.backends.guarded import Function, Other, most_allowed
from hesse.backends.jax import elementwise
from hesse.backends.jax.algebra import ALGEBRA
from hesse.backends.jax.jitted import compiler_options, jitted
from hesse.backends.jax.machine import JAX_MACHINE, JaxMachine
from hesse.backends.jax.processor import is_processor
from hesse.backends.jax.runtime import is_looked_up
from hesse.backends.jax.sharding import distributed
from hesse.backends.jax.turns import turned
from hesse.backends.jax.writer import JaxWriter
from hesse.backends.kernels import has
from hesse.backends.named import new_name, note_call
from hesse.backends.records import Namespace
from hesse.backends.target import Target, host_bytes
from hesse.backends.writer import Compiled
from hesse.errors import ArgumentError
from hesse.plan.origins import Origins, origins
from hesse.plan.program import Program
from hesse.plan.rejoined import rejoined
from hesse.plan.scalings import scaled_before
from hesse.plan.sliced import SlicedProgram
from hesse.plan.slices import sliced
from hesse.plan.stacks import stacked
from hesse.plan.supports import trimmed

COPIED_BYTES = 65_536
"""Results of at most so many bytes are copied for NumPy: that takes less time than to hand them over."""

MOST_FACTORS = {8: 2.0**64, 4: 2.0**10}
"""By bytes of an entry: factors that may be moved into products, which stay far inside of the range then."""


@dataclass(frozen=True)
class JaxTarget(Target):
    """JAX; `jit=False` leaves the function as it is, to be looked at or jitted by a function around it.

    `variables` says of which variables the axes of results are, for arrays that are distributed.
    """

    name: ClassVar[str] = "jax"
    jit: bool = True
    machine: JaxMachine = JAX_MACHINE
    variables: tuple[Origins, ...] = ()

    def distributing(self, variables: Sequence[Origins]) -> Target:
        has_any = any(place is not None for places in variables for place in places)
        return replace(self, variables=tuple(variables)) if has_any and jax.device_count() > 1 else self

    def has_row(self, name: str) -> bool:
        return has(elementwise.kernel, name)

    def passes(self, program: Program) -> SlicedProgram:
        ordered = stacked(trimmed(program))
        if not is_processor():
            return SlicedProgram.of(ordered)
        return sliced(turned(ordered), self.machine, SlicedProgram)

    def compile(
        self,
        program: Program,
        inputs: Sequence[str],
        dtype: np.dtype[Any],
        in_order: bool,
        shared: Collection[str],
    ) -> Compiled:
        runnable = program if isinstance(program, SlicedProgram) else SlicedProgram.of(program)
        if runnable.slices is None:
            runnable = SlicedProgram.of(rejoined(runnable, is_looked_up))
        if runnable.slices is None and dtype.itemsize in MOST_FACTORS:
            runnable = SlicedProgram.of(scaled_before(runnable, MOST_FACTORS[dtype.itemsize]))
        compiled = JaxWriter(runnable, dtype, self.machine).compiled(inputs)
        function = compiled.function
        everywhere = origins(program)
        found = [everywhere[ref] for ref in program.results]
        own = self.variables or [(None,) * len(places) for places in found]
        function = distributed(function, *([_numbered(p, inputs) for p in ps] for ps in (own, found)))
        if self.jit:
            function.__name__ = new_name()
            function = jitted(function, compiler_options(program, self.machine, dtype))
        else:
            function = _not_jitted(function)
        return Compiled(function, compiled.inputs, compiled.source)

    def kind(self, array: Any) -> str:
        for kind, parent in (("f", jnp.floating), ("u", jnp.unsignedinteger), ("i", jnp.integer)):
            if jnp.issubdtype(array.dtype, parent):
                return kind if kind != "f" or array.dtype.itemsize > 1 else "V"  # eight bits are too short
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            return "O"
        return "b" if array.dtype == np.bool_ else str(np.dtype(array.dtype).kind)

    def on_host(self, array: Any) -> np.ndarray:
        is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(array) if is_key else array)

    def dtype(self, dtypes: Sequence[Any], as_numpy: bool = False) -> np.dtype[Any]:
        if as_numpy:  # also where JAX is told not to use 64 bits: that is its habit, not NumPy's
            common: np.dtype[Any] = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
            return _known(common)
        allowed = [jax.dtypes.canonicalize_dtype(_known(dtype)) for dtype in dtypes or [float]]
        promoted: np.dtype[Any] = functools.reduce(jnp.promote_types, allowed)
        return promoted

    def defaults(self) -> bool:
        return bool(jax.config.x64_enabled)

    def itemsize(self, dtype: np.dtype[Any]) -> int:
        return dtype.itemsize

    def converted(self, values: Sequence[Any], dtypes: Sequence[np.dtype[Any] | None]) -> list[Any]:
        return [
            (value if dtype is None or value.dtype == dtype else value.astype(dtype))
            if isinstance(value, jax.Array)
            else np.asarray(value, dtype)  # jitted functions take it, in 64 bits if that is allowed then
            for value, dtype in zip(values, dtypes, strict=True)
        ]

    def may_be_kept(self, arrays: Sequence[Any]) -> bool:
        return not any(isinstance(array, jax.core.Tracer) for array in arrays)

    def copied(self, array: Any) -> Any:
        return array if isinstance(array, jax.Array) else np.array(array)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any], beside: Sequence[Any]) -> Any:
        return jnp.zeros(shape, dtype)

    def added(self, array: Any, index: Any, value: Any) -> Any:
        return array.at[index].add(value)

    def guarded(self, function: Function, doubts: int, other: Other) -> Function:
        eager = super().guarded(function, doubts, other)

        @functools.wraps(function)
        def run(*arrays: Any) -> tuple[Any, ...]:
            if not any(isinstance(array, jax.core.Tracer) for array in arrays):
                return eager(*arrays)
            # apart, so that derivatives of the results do not go through inverses that do not exist
            found = function(*map(lax.stop_gradient, arrays))[-doubts:]
            limits = [most_allowed(float(jnp.finfo(doubt.dtype).eps), other) for doubt in found]
            fine = [(doubt <= limit).all() for doubt, limit in zip(found, limits, strict=True)]
            is_fine = functools.reduce(jnp.logical_and, fine)
            if other is None:
                results = function(*arrays)[:-doubts]
                return tuple(jnp.where(is_fine, result, jnp.nan) for result in results)
            return tuple(
                lax.cond(
                    is_fine,
                    lambda *arrays: tuple(function(*arrays)[:-doubts]),
                    lambda *arrays: tuple(other()(*arrays)),
                    *arrays,
                )
            )

        return run

    def call(self, compiled: Compiled, arrays: Sequence[Any], as_numpy: bool) -> Sequence[Any]:
        note_call(compiled.function)
        is_double = not jax.config.x64_enabled and any(array.dtype == np.float64 for array in arrays)
        with jax.enable_x64(True) if is_double else contextlib.nullcontext():
            results = compiled.function(*arrays)
        return _as_numpy(results, arrays) if as_numpy else results

    def dispatched(
        self, method: Callable[..., Any], program: Program, dtype: np.dtype[Any]
    ) -> Callable[..., Any] | None:
        if not self.jit:
            return None
        held = weakref.WeakMethod(method)

        def run(*arrays: Any) -> Any:
            found = held()
            assert found is not None, "its object calls it"
            return found(*arrays)

        return jitted(run, compiler_options(program, self.machine, dtype))

    @property
    def algebra(self) -> Namespace:
        return ALGEBRA

    def free_bytes(self) -> int:
        statistics = jax.devices()[0].memory_stats()
        if not statistics:  # the processor
            return host_bytes()
        return int(statistics["bytes_limit"] - statistics["bytes_in_use"])


def _known(dtype: Any) -> np.dtype[Any]:
    """The dtype in the byte order of this computer, if JAX has it."""
    found: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    if found == np.longdouble and found.itemsize > 8:
        raise ArgumentError(f"JAX has no {found.name}; pass arrays of float64")
    return found


def _numbered(places: Origins, inputs: Sequence[str]) -> list[tuple[int, int] | None]:
    """The same with the numbers of inputs instead of their names."""
    return [place and (inputs.index(place[0]), place[1]) for place in places]


def _not_jitted(program: Callable[..., Sequence[Any]]) -> Callable[..., tuple[Any, ...]]:
    """The function of JAX arrays, with results that share no memory with constants and arguments."""

    @functools.wraps(program)
    def function(*arrays: Any) -> tuple[Any, ...]:
        return tuple(jnp.array(result) for result in program(*map(jnp.asarray, arrays)))

    return function


class _Buffer:
    """The memory of a JAX array, for NumPy to write to."""

    def __init__(self, array: Any) -> None:
        self.array = array  # lives as long as the memory is used
        self.__array_interface__ = {
            **np.asarray(array).__array_interface__,
            "data": (array.unsafe_buffer_pointer(), False),
        }


def _as_numpy(results: Sequence[Any], arguments: Sequence[Any]) -> list[np.ndarray]:
    """Results as NumPy arrays: large ones on the processor are handed over, each buffer to one array."""
    # JAX takes longer for `nbytes` than for a copy
    is_large = [math.prod(result.shape) * result.dtype.itemsize > COPIED_BYTES for result in results]
    taken = {_address(argument) for argument in arguments} if any(is_large) else set[int]()
    return [
        _handed_over(result, taken) if large else np.array(result)
        for result, large in zip(results, is_large, strict=True)
    ]


def _handed_over(result: Any, taken: set[int]) -> np.ndarray:
    """A result as a NumPy array, which has its memory unless that is taken."""
    view = np.asarray(result)
    is_here = result.device.platform == "cpu" and not view.flags.owndata
    is_ours = is_here and _address(view) not in taken
    taken.add(_address(view))
    return np.asarray(_Buffer(result)) if is_ours else np.array(view)


def _address(array: Any) -> int:
    is_numpy = isinstance(array, np.ndarray)
    address: int = array.__array_interface__["data"][0] if is_numpy else array.unsafe_buffer_pointer()
    return address


TARGET = JaxTarget()
