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
    fused_matrix: int = 256
    """The same for programs that are fused."""
    fused_product: int = 2**21
    """Multiplications of a stack of larger products that a fused program multiplies and sums."""
    launch_bytes: float = 3e7
    """Bytes that CUDA copies in the time it takes to start one operation (10 µs)."""
    replay_launches: int = 8
    """Operations that are started in the time in which a captured graph is."""


TORCH_MACHINE = TorchMachine()
