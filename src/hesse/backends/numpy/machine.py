"""What the NumPy back end knows about NumPy, BLAS and the processor."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hesse.plan.sliced import SliceMachine


@dataclass(frozen=True)
class NumpyMachine(SliceMachine):
    """The thresholds of the NumPy back end; sizes are in array entries.

    `python -m benchmarks.calibrate` measures them and says how far these values are off.
    """

    smallest_halved: float = 288
    halved_share: float = 5 / 8
    """10 of 4 by 4 blocks."""
    large_sum: float = 2**14
    largest_aligned: int = 2**15
    """Up to so many entries, an array outside the fastest cache begins with a line of the cache."""
    cache_entries: int = 2**19
    """Programs that need fewer entries at once than this stay in the cache in whatever order they are run."""
    # what NumPy's loops and BLAS like
    short_axis: int = 8
    """An axis with fewer entries than this is too short to be the innermost loop."""
    large_array: int = 2**12
    """Arrays of fewer entries than this fit into the fastest cache: their order in memory hardly matters."""
    small_block: int = 12
    """Blocks with at most this many columns are multiplied with vectors all at once."""
    many_rows: int = 100
    """Rows from which a small transposed matrix on the right of a product is copied."""
    small_matrix: int = 2**10
    """Entries of the largest matrix that is copied."""
    small_product: int = 10**6
    """Multiplications of the largest product for which it is copied, and that BLAS takes for a small one."""
    most_parts: int = 16
    """Products with a small matrix are computed in at most so many parts that are small."""
    short_dot: int = 32
    """Entries from which many rows are multiplied with rows by dot products, not by one einsum."""
    narrow_matrix: int = 3
    """Rows and columns up to which stacks of products are dot products of rows: BLAS is slow for so few."""
    narrow_dot: int = 64
    """Entries from which those rows are multiplied so."""
    longest_dot: float = math.inf
    """Entries of the longest vectors multiplied by BLAS: its threads may wait busily for more."""
    longest_row: int = 2**12
    """Entries of the longest rows that are summed by a product with ones; NumPy adds longer ones in pairs."""
    symmetric_blocks: int = 4
    """Symmetric products are computed in this many rows of blocks."""
    buffer_entries: int = 2**10
    """Entries of the buffers into which NumPy repeats rows that are broadcast, if two or more of them fit."""
    large_broadcast: int = 2**14
    """Entries of a value for which it pays to tell NumPy how large its buffers are."""


NUMPY_MACHINE = NumpyMachine()
"""The record as it is shipped."""
