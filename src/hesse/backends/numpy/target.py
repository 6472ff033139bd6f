"""NumPy as a target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from hesse.backends.kernels import has
from hesse.backends.numpy import elementwise
from hesse.backends.numpy.algebra import ALGEBRA
from hesse.backends.numpy.beside import beside_softmax
from hesse.backends.numpy.compiling import compile_program
from hesse.backends.numpy.early import with_early_ends
from hesse.backends.numpy.machine import NUMPY_MACHINE, NumpyMachine
from hesse.backends.numpy.pairs import with_shared_pairs
from hesse.backends.numpy.program import NumpyProgram
from hesse.backends.numpy.scales import with_few_scales
from hesse.backends.numpy.units import without_unit_axes
from hesse.backends.records import Namespace
from hesse.backends.target import Target, host_bytes
from hesse.backends.writer import Compiled
from hesse.plan.batches import batches_first
from hesse.plan.layout import aligned
from hesse.plan.program import Program
from hesse.plan.scalings import scaled_before_picking
from hesse.plan.slices import sliced
from hesse.plan.supports import trimmed


@dataclass(frozen=True)
class NumpyTarget(Target):
    """NumPy: programs with large intermediates sliced, as source that saves memory traffic."""

    name: ClassVar[str] = "numpy"
    machine: NumpyMachine = NUMPY_MACHINE

    def has_row(self, name: str) -> bool:
        return has(elementwise.kernel, name)

    def passes(self, program: Program) -> NumpyProgram:
        lean = with_shared_pairs(with_few_scales(scaled_before_picking(without_unit_axes(trimmed(program)))))
        parted = sliced(beside_softmax(batches_first(aligned(lean))), self.machine, NumpyProgram)
        return with_early_ends(parted, self.machine.cache_entries, NumpyProgram)

    def compile(
        self,
        program: Program,
        inputs: Sequence[str],
        dtype: np.dtype[Any],
        in_order: bool,
        shared: Collection[str],
    ) -> Compiled:
        runnable = cast("NumpyProgram", program)
        return compile_program(runnable, inputs, dtype, in_order, shared, self.machine)

    def kind(self, array: np.ndarray) -> str:
        return array.dtype.kind

    def dtype(self, dtypes: Sequence[np.dtype[Any]], as_numpy: bool = True) -> np.dtype[Any]:
        found = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
        return np.dtype(np.float32) if found == np.float16 else found  # too short to compute in

    def itemsize(self, dtype: np.dtype[Any]) -> int:
        return dtype.itemsize

    def converted(self, values: Sequence[Any], dtypes: Sequence[np.dtype[Any] | None]) -> list[np.ndarray]:
        return [
            np.asarray(value, dtype)  # of a dtype of None: as it is
            for value, dtype in zip(values, dtypes, strict=True)
        ]

    def copied(self, array: np.ndarray) -> np.ndarray:
        return np.array(array)

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype[Any], beside: Sequence[np.ndarray]) -> np.ndarray:
        return np.zeros(shape, dtype)

    def added(self, array: np.ndarray, index: Any, value: np.ndarray) -> np.ndarray:
        array[index] += value
        return array

    def call(self, compiled: Compiled, arrays: Sequence[np.ndarray], as_numpy: bool) -> Sequence[Any]:
        return compiled.function(*arrays)

    def direct(self, compiled: Compiled, as_numpy: bool) -> Callable[..., Sequence[Any]]:
        return compiled.function

    @property
    def algebra(self) -> Namespace:
        return ALGEBRA

    def free_bytes(self) -> int:
        return host_bytes()


TARGET = NumpyTarget()
