"""A target: an array library that runs programs, and what hesse must know about its arrays.

A target is found by the arrays that are given, or by its name. Libraries are imported only when one of their
arrays or names is met.
"""

from __future__ import annotations

import importlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hesse.backends.guarded import Function, Other, guarded
from hesse.backends.optional import optional
from hesse.backends.records import Namespace
from hesse.backends.writer import Compiled
from hesse.cost import PLAIN_MACHINE, Machine
from hesse.errors import ArgumentError
from hesse.ir import Node
from hesse.plan import make_plan
from hesse.plan.origins import Origins
from hesse.plan.program import Program
from hesse.rewrite import expanded

Array = Any
"""An array of whichever library a target stands for."""
DType = Any
"""What that library calls the type of entries."""

ARRAY_CLASSES = {"torch": ("torch", "Tensor"), "jax": ("jax", "Array")}
"""For each library besides NumPy: its module and the class of its arrays."""
BACKENDS = ("numpy", *ARRAY_CLASSES)


class Target(ABC):
    """An array library that runs programs."""

    name: ClassVar[str]
    machine: Machine = PLAIN_MACHINE
    """What its programs cost; targets with habits of their own have a setting of this name."""

    def configured(self, **settings: Any) -> Target:
        """The target with other settings."""
        known = [field.name for field in fields(self)]  # type: ignore[arg-type]
        for name in settings:
            if name not in known:
                listed = f"it has {', '.join(known)}" if known else "it has none"
                raise ArgumentError(f"the backend {self.name!r} has no setting {name}; {listed}")
        return replace(self, **settings)  # type: ignore[type-var]

    def has_row(self, name: str) -> bool:
        """Whether there is a kernel of this element-wise row."""
        return True

    def planned(self, roots: Sequence[Node]) -> Program:
        """The straight program for some nodes; rows without a kernel are computed by their definitions."""
        return make_plan(expanded(roots, self.has_row), self.machine)

    def passes(self, program: Program) -> Program:
        """The program as this library runs it best."""
        return program

    def distributing(self, variables: Sequence[Origins]) -> Target:
        """The target for results whose axes are those of variables, where arrays may be distributed."""
        return self

    @abstractmethod
    def compile(
        self, program: Program, inputs: Sequence[str], dtype: DType, in_order: bool, shared: Collection[str]
    ) -> Compiled:
        """A function of the inputs, all of this library and of the dtype (index arrays excepted).

        Results are in memory in the order of their axes if that matters (`in_order`) and to this library, and
        are no inputs but those named by `shared`.
        """

    @abstractmethod
    def kind(self, array: Array) -> str:
        """What the entries are, by NumPy's letters: "f", "i", "u", "b", "c", or anything else."""

    @abstractmethod
    def dtype(self, dtypes: Sequence[DType], as_numpy: bool = False) -> DType:
        """The dtype to compute in with floating-point arrays of these dtypes (perhaps none).

        `as_numpy` says that all arrays are NumPy's.
        """

    def defaults(self) -> Any:
        """What decides about the dtype besides the arrays: settings of the library that users change."""
        return None

    @abstractmethod
    def itemsize(self, dtype: DType) -> int:
        """Bytes of an entry."""

    @abstractmethod
    def converted(self, values: Sequence[Any], dtypes: Sequence[DType | None]) -> list[Array]:
        """Arrays and numbers as arrays of this library, cast where a dtype is given."""

    def numpy_dtype(self, dtype: DType) -> np.dtype[Any]:
        """What NumPy calls a dtype of this library."""
        return np.dtype(dtype)

    def may_be_kept(self, arrays: Sequence[Array]) -> bool:
        """Whether what was computed from these arrays, of any library, holds in later calls.

        It does not where the library watches the arrays, to trace or to differentiate this very call.
        """
        return True

    @abstractmethod
    def copied(self, array: Any) -> Any:
        """An array that stays the same when the given one, of this library or of NumPy, is changed."""

    @abstractmethod
    def zeros(self, shape: tuple[int, ...], dtype: DType, beside: Sequence[Array]) -> Array:
        """An array of zeros, where the arrays beside it are."""

    @abstractmethod
    def added(self, array: Array, index: Any, value: Array) -> Array:
        """The array with a value added to the entries at an index; the given one may be changed for it."""

    def guarded(self, function: Function, doubts: int, other: Other) -> Function:
        """A function without its last results, its doubts; where these are large the other one runs.

        Without another one that is an error, or results are nan where values cannot be looked at.
        """

        def on_host(found: Sequence[Any]) -> list[np.ndarray]:
            return [np.asarray(self.on_host(one)) for one in found]

        return guarded(function, doubts, other, on_host)

    @abstractmethod
    def call(self, compiled: Compiled, arrays: Sequence[Array], as_numpy: bool) -> Sequence[Any]:
        """The results of a program; as NumPy arrays if those were given."""

    def direct(self, compiled: Compiled, as_numpy: bool) -> Callable[..., Sequence[Any]] | None:
        """The function of the program, if `call` does nothing but call it."""
        return None

    def dispatched(
        self, method: Callable[..., Any], program: Program, dtype: DType
    ) -> Callable[..., Any] | None:
        """The bound method with a table of signatures that the library keeps, if it has one.

        Its object is not kept alive by that table. `program` is what it will run first.
        """
        return None

    def on_host(self, array: Array) -> np.ndarray:
        """The array as one of NumPy."""
        return np.asarray(array)

    @property
    def algebra(self) -> Namespace:
        """The linear algebra of solvers."""
        raise ArgumentError(f"the backend {self.name!r} has no linear algebra for solve; convert the arrays")

    @abstractmethod
    def free_bytes(self) -> int:
        """Bytes of memory that are free where programs run."""


def host_bytes() -> int:
    """Bytes of memory that are free on this computer."""
    table = Path("/proc/meminfo")
    if table.exists():
        for line in table.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def library_of(value: Any) -> str | None:
    """The name of the library whose array this is (None: NumPy, or no array)."""
    for name, (module, cls) in ARRAY_CLASSES.items():
        if module in sys.modules and isinstance(value, getattr(sys.modules[module], cls)):
            return name
    return None


def quick_key(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """What decides about arrays, where nothing has to be converted."""
    if arrays and type(arrays[0]) is not np.ndarray:
        torch = sys.modules.get("torch._C")
        if torch is not None and torch._len_torch_function_stack():
            with torch.DisableTorchFunction():  # a default device sees who asks a tensor for its shape
                return tuple([(type(a), a.shape, a.dtype) for a in arrays])
    return tuple([(type(a), a.shape, a.dtype) for a in arrays])


def target_named(backend: str) -> Target:
    """The target with this name; its library is imported."""
    if backend not in BACKENDS:
        raise ArgumentError(f"there is no backend {backend!r}; choose one of {', '.join(BACKENDS)}")
    if backend in ARRAY_CLASSES:
        optional(ARRAY_CLASSES[backend][0], f"the backend {backend!r}")
    found: Target = importlib.import_module(f"hesse.backends.{backend}").TARGET
    return found


def as_target(backend: str | Target) -> Target:
    """A target, which may be given by its name."""
    if isinstance(backend, str):
        return target_named(backend)
    if not isinstance(backend, Target):
        raise ArgumentError(f"a backend is one of {', '.join(map(repr, BACKENDS))}, not {backend!r}")
    return backend


def target_for(values: Iterable[Any], backend: str | Target | None = None) -> Target:
    """The target that computes with these values: the one that is asked for, else that of their library."""
    found = {name for name in map(library_of, values) if name is not None}
    if len(found) > 1:
        raise ArgumentError("arrays of PyTorch and of JAX are mixed; convert those of one to the other")
    if backend is None:
        return target_named(next(iter(found), "numpy"))
    asked = as_target(backend)
    if found and asked.name not in found:
        (name,) = found
        raise ArgumentError(f"the backend is {asked.name!r}, but arrays of {name} were given; convert them")
    return asked
