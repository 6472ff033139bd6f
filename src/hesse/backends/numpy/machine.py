"""What the NumPy back end knows about NumPy, BLAS and the processor."""

from __future__ import annotations

from dataclasses import dataclass

from hesse.cost import Machine


@dataclass(frozen=True)
class NumpyMachine(Machine):
    """The thresholds of the NumPy back end; sizes are in array entries.

    `python -m benchmarks.calibrate` measures them and says how far these values are off.
    """

    smallest_halved: float = 288
    halved_share: float = 5 / 8
    """10 of 4 by 4 blocks."""
    large_sum: float = 2**14

    # slices
    least_saved: int = 2**17
    """Entries of intermediates that slices must save: fewer than this fit the cache anyway."""
    slice_entries: int = 2**15
    """Entries of the largest intermediate of a slice, if that makes enough slices."""
    smallest_slice: int = 2**13
    """Slices of fewer entries would take longer to call than to compute."""
    small_instruction: int = 2**13
    """Instructions that touch no more entries than this are not worth being cut."""
    largest_whole: int = 2**13
    """Entries of a matrix that a product reads for each slice, and of a sum over all slices."""
    largest_read: int = 2**16
    """The same for a product in a chain of many slices that saves much more than its results have."""
    product_rows: int = 16
    """Slices that are multiplied with such a matrix have a multiple of this many rows."""
    many_slices: int = 8
    """How many of those there must be."""
    fewest_rows: int = 8
    """Rows of a slice, however long they are."""
    fewest_slices: int = 4
    """Slices of fewer rows are made where there would be fewer slices than this."""
    most_seeds: int = 6
    """How many of the largest values are tried as the beginning of what is cut."""

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
    """Multiplications of the largest product for which it is copied."""
    symmetric_blocks: int = 4
    """Symmetric products are computed in this many rows of blocks."""
    buffer_entries: int = 2**10
    """Entries of the buffers into which NumPy repeats rows that are broadcast, if two or more of them fit."""
    large_broadcast: int = 2**14
    """Entries of a value for which it pays to tell NumPy how large its buffers are."""


NUMPY_MACHINE = NumpyMachine()
"""The record as it is shipped."""
