"""What the JAX back end knows about XLA."""

from __future__ import annotations

from dataclasses import dataclass

from hesse.plan.sliced import SliceMachine


@dataclass(frozen=True)
class JaxMachine(SliceMachine):
    """The thresholds of the JAX back end."""

    call_cost: float = 10_000.0
    largest_joined: int = 2**13
    larger_first: bool = True
    least_saved: int = 2**20
    slice_entries: int = 2**18
    largest_whole: int = 2**8
    largest_read: int = 2**8
    largest_sum: int = 2**8
    fuses: bool = True
    short_sum: int = 4
    """Sums of at most so many products are multiplied and summed: XLA fuses them with what is around."""
    short_device_sum: int = 8
    """The same on GPUs, where it takes less to compute something again than to bring it."""
    long_result: int = 4_096
    """Such sums with so many entries are additions: those over axes XLA may join with dots, which is slow."""
    small_matrix: int = 16
    """The same for many products that are matrices of at most so many entries."""
    long_loop: int = 2**15
    """All entries of such matrices are summed in one loop from so many products on: it takes XLA longer."""
    most_pieces: int = 64
    """Overlapping windows of at most this many positions are read, or added up, one position at a time."""
    few_features: int = 8
    """Kernels of at most so many features are convolved; others are multiplied with windows."""
    long_program: int = 100
    """Programs of so many instructions are compiled in the way that takes XLA less time."""
    little_work: int = 100_000
    """They are if they have at most so many operations for each: then it does not matter to their calls."""
    few_placed: int = 2**12
    """So are shorter ones if they place at most so many entries."""
    few_entries: int = 2**20
    """Kernels are written the older way if they compute at most so many entries."""
    much_work: int = 400
    """So they are if there are so many operations for each of these entries."""
    few_exponentials: int = 1_500
    """The same for exponentials, be it those of softmax and its relatives."""
    placed_in_time: int = 60
    """Entries that are placed in far more time than one of them takes longer so: they may be more then."""
    local_share: float = 1 / 8
    """The share of a sum in which a term lies that may be added there alone."""
    many_local: int = 4
    """Such terms from which that is done."""
    layered_share: float = 1 / 2
    """The share of a sum that such terms must fill, in layers of an axis, to be added in one loop."""
    most_layers: int = 12
    """So many layers may be looked at for each entry then."""
    few_looks: int = 4096
    """Terms times entries of a sum up to which that is not done: it would take longer to start them."""
    large_result: int = 10_000
    """In results of so many entries, terms on one diagonal are added up before they are put there."""


JAX_MACHINE = JaxMachine()
