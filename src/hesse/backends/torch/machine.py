"""What the PyTorch back end knows about PyTorch and CUDA."""

from __future__ import annotations

from dataclasses import dataclass

from hesse.cost import Machine


@dataclass(frozen=True)
class TorchMachine(Machine):
    """The thresholds of the PyTorch back end, which computes line by line: sums are begun early."""

    large_sum: float = 2**14
    small_matrix: int = 9
    """Many products of so few entries are multiplied and summed, like inner products: else each is a call."""
    fused_stack: int = 2**21
    """Multiplications of a stack of products for which a fused program does the same."""
    fused_product: int = 2**17
    """Multiplications of one product of matrices for which it does."""
    launch_bytes: float = 3e7
    """Bytes that CUDA copies in the time it takes to start one operation (10 µs)."""
    replay_launches: int = 8
    """Operations that are started in the time in which a captured graph is."""
    lanes: int = 6
    """Streams over which the instructions of a captured graph are spread."""
    lane_bytes: float = 2**28
    """Bytes of all values of a program up to which that is done: few of them are freed on the way then."""
    kernel_bytes: float = 4.5e6
    """Bytes that are moved in the time of a small kernel of a graph (1.5 µs)."""
    product_kernels: float = 2.5
    """Small kernels in the time of a product of small matrices, with what is copied for it."""


TORCH_MACHINE = TorchMachine()
