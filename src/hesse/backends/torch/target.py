"""PyTorch as a target: straight-line functions, on whichever device the tensors are."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from hesse.backends.guarded import Function, Other, attempted, most_allowed
from hesse.backends.kernels import has
from hesse.backends.numpy.target import NumpyTarget
from hesse.backends.records import Namespace
from hesse.backends.target import Target, host_bytes
from hesse.backends.torch import elementwise
from hesse.backends.torch.algebra import ALGEBRA
from hesse.backends.torch.fused import Fused
from hesse.backends.torch.graphs import Graphed, is_worth_capturing
from hesse.backends.torch.hosted import Hosted, has_foreign_code, is_worth_hosting
from hesse.backends.torch.lanes import is_worth_lanes
from hesse.backends.torch.machine import TORCH_MACHINE, TorchMachine
from hesse.backends.torch.records import is_hidden, without_gradient
from hesse.backends.torch.runtime import transformed_zeros
from hesse.backends.torch.tensors import as_tensor, has_only_a_default_device
from hesse.backends.torch.writer import LanedWriter, TorchWriter
from hesse.backends.writer import Compiled
from hesse.errors import ArgumentError
from hesse.plan.batches import batches_first
from hesse.plan.layout import aligned
from hesse.plan.program import Load, Program

KINDS = {torch.bool: "b", torch.uint8: "u", torch.uint16: "u", torch.uint32: "u", torch.uint64: "u"}


@dataclass(frozen=True)
class TorchTarget(Target):
    """PyTorch.

    On CUDA short programs are captured as a graph after the first call, unless `graph` is False; their
    results are copied out of it, unless `copies` is False: then the next call writes over them. `fuse` sends
    programs through `torch.compile`, which takes seconds and fuses element-wise operations; its first results
    are compared with those of the program as it is.
    """

    name: ClassVar[str] = "torch"
    graph: bool = True
    copies: bool = True
    fuse: bool = False
    machine: TorchMachine = TORCH_MACHINE

    def has_row(self, name: str) -> bool:
        return has(elementwise.kernel, name)

    def passes(self, program: Program) -> Program:
        return batches_first(aligned(program))

    def compile(
        self,
        program: Program,
        inputs: Sequence[str],
        dtype: torch.dtype,
        in_order: bool,
        shared: Collection[str],
    ) -> Compiled:
        written = functools.partial(TorchWriter, program, dtype, self.machine, shared, is_fused=self.fuse)
        # A function may hold tensors that its derivative does not read: parameters that are replaced.
        loaded = {item.name for item in program.instructions if isinstance(item, Load)}
        read = [k for k, name in enumerate(inputs) if name in loaded]
        names = [inputs[k] for k in read]
        on_host = functools.partial(self._hosted, program, names, dtype, in_order, shared)
        finished = functools.partial(self._finished, program, dtype, on_host)
        source = written(torch.device("cpu")).compiled(names).source
        is_own = not has_foreign_code(program)
        known: dict[tuple[torch.device, bool], Callable[..., tuple[Tensor, ...]]] = {}

        def run(given: Sequence[Tensor]) -> tuple[Tensor, ...]:
            arrays = given if len(read) == len(given) else [given[k] for k in read]
            key = _device(given), any(map(is_functorch_wrapped_tensor, arrays))
            if key not in known:
                device, is_transformed = key
                plain = written(device, is_transformed).compiled(names).function
                laned = functools.partial(self._laned, program, names, dtype, shared, device)
                known[key] = plain if is_transformed else finished(plain, device.type, laned)
            return known[key](*arrays)

        def function(*given: Tensor) -> tuple[Tensor, ...]:
            # what a program makes, it makes on the device of the arrays
            if is_own and has_only_a_default_device(given):
                with torch._C.DisableTorchFunction():
                    return run(given)
            return run(given)

        return Compiled(function, tuple(inputs), source)

    def _finished(
        self,
        program: Program,
        dtype: torch.dtype,
        on_host: Callable[[], Callable[..., Sequence[Any]]],
        function: Callable[..., tuple[Tensor, ...]],
        device: str,
        laned: Callable[[], Callable[..., tuple[Tensor, ...]]],
    ) -> Callable[..., tuple[Tensor, ...]]:
        if self.fuse:
            function = Fused(function)
        elif device == "cpu" and is_worth_hosting(program, dtype):
            return Hosted(function, on_host())
        if self.graph and device == "cuda" and is_worth_capturing(program, dtype.itemsize, self.machine):
            has_lanes = not self.fuse and is_worth_lanes(program, dtype.itemsize, self.machine)
            return Graphed(function, laned if has_lanes else lambda: function, self.copies)
        return function

    def _laned(
        self,
        program: Program,
        inputs: Sequence[str],
        dtype: torch.dtype,
        shared: Collection[str],
        device: torch.device,
    ) -> Callable[..., tuple[Tensor, ...]]:
        """The same program, over several streams."""
        return LanedWriter(program, dtype, self.machine, shared, device).compiled(inputs).function

    def _hosted(
        self,
        program: Program,
        inputs: Sequence[str],
        dtype: torch.dtype,
        in_order: bool,
        shared: Collection[str],
    ) -> Callable[..., Sequence[Any]]:
        """The same program, compiled for NumPy."""
        target = NumpyTarget()
        compiled = target.compile(target.passes(program), inputs, self.numpy_dtype(dtype), in_order, shared)
        return compiled.function

    def kind(self, array: Tensor) -> str:
        if array.dtype.is_floating_point:
            return "f" if array.dtype.itemsize > 1 else "V"  # nothing can be computed with eight bits
        return "c" if array.dtype.is_complex else KINDS.get(array.dtype, "i")

    def dtype(self, dtypes: Sequence[Any], as_numpy: bool = False) -> torch.dtype:
        if not dtypes:
            return torch.float64 if as_numpy else torch.get_default_dtype()
        return functools.reduce(torch.promote_types, map(_torch_dtype, dtypes))

    def defaults(self) -> Any:
        return torch.get_default_dtype()

    def itemsize(self, dtype: torch.dtype) -> int:
        return int(dtype.itemsize)

    def converted(self, values: Sequence[Any], dtypes: Sequence[torch.dtype | None]) -> list[Tensor]:
        device = next((value.device for value in values if isinstance(value, Tensor)), None)
        return [
            (value if dtype is None else value.to(dtype))
            if isinstance(value, Tensor)
            else as_tensor(value).to(device, dtype)
            for value, dtype in zip(values, dtypes, strict=True)
        ]

    def numpy_dtype(self, dtype: torch.dtype) -> np.dtype[Any]:
        return np.dtype(str(dtype).removeprefix("torch."))

    def may_be_kept(self, arrays: Sequence[Any]) -> bool:
        return not any(
            array.requires_grad or array.is_inference() or is_functorch_wrapped_tensor(array)
            for array in arrays
            if isinstance(array, Tensor)
        )

    def copied(self, array: Any) -> Any:
        return array.clone() if isinstance(array, Tensor) else np.array(array)

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype, beside: Sequence[Tensor]) -> Tensor:
        if any(map(is_functorch_wrapped_tensor, beside)):
            return transformed_zeros(shape, *beside).to(dtype)
        return torch.zeros(shape, dtype=dtype, device=_device(beside))

    def added(self, array: Tensor, index: Any, value: Tensor) -> Tensor:
        array[index] += value
        return array

    def guarded(self, function: Function, doubts: int, other: Other) -> Function:
        eager = super().guarded(function, doubts, other)

        @functools.wraps(function)
        def run(*arrays: Tensor) -> tuple[Any, ...]:
            if not is_hidden(*map(without_gradient, arrays)):
                return eager(*arrays)
            if other is not None:
                return other()(*arrays)
            results = attempted(function, arrays, other) or ()
            limits = [most_allowed(torch.finfo(result.dtype).eps, other) for result in results[-doubts:]]
            fine = [(doubt <= limit).all() for doubt, limit in zip(results[-doubts:], limits, strict=True)]
            is_fine = functools.reduce(torch.logical_and, fine)
            return tuple(torch.where(is_fine, result, math.nan) for result in results[:-doubts])

        return run

    def call(self, compiled: Compiled, arrays: Sequence[Tensor], as_numpy: bool) -> Sequence[Any]:
        results = compiled.function(*arrays)
        return [result.numpy() for result in results] if as_numpy else results

    def direct(self, compiled: Compiled, as_numpy: bool) -> Callable[..., Sequence[Any]] | None:
        return None if as_numpy else compiled.function

    def on_host(self, array: Tensor) -> np.ndarray:
        if not is_functorch_wrapped_tensor(array):
            return array.detach().cpu().numpy()  # type: ignore[no-any-return]
        with torch._C._DisableFuncTorch():
            return without_gradient(array).detach().cpu().numpy()  # type: ignore[no-any-return]

    @property
    def algebra(self) -> Namespace:
        return ALGEBRA

    def free_bytes(self) -> int:
        if torch.cuda.is_available():
            return int(torch.cuda.mem_get_info()[0])
        return host_bytes()


def _device(arrays: Sequence[Tensor]) -> torch.device:
    """The device of all arrays, which have all of their entries there."""
    if not arrays:
        return torch.device("cpu")
    device = arrays[0].device
    for array in arrays:
        if array.device != device:
            raise ArgumentError(f"tensors are on {device} and on {array.device}; move them to one device")
        if array.layout != torch.strided:
            raise ArgumentError("a tensor is sparse; pass a dense one (x.to_dense())")
    return device


def _torch_dtype(dtype: Any) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        return dtype
    found: torch.dtype | None = getattr(torch, np.dtype(dtype).name, None)
    if found is None:
        raise ArgumentError(f"PyTorch has no {np.dtype(dtype).name}; pass arrays of float64")
    return found


TARGET = TorchTarget()
