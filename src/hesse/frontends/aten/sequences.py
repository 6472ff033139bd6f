"""Sequences of several lengths of ATen: packed by steps, and padded to one length."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hesse.frontends.aten.indexing import entries
from hesse.frontends.aten.table import aten
from hesse.frontends.aten.tensor import known

WAY_OUT = "Make the lengths inside of the function: torch.tensor([3, 2])."


@aten("_pack_padded_sequence")
def packed(x: Any, lengths: Any, batch_first: bool) -> Any:
    """The entries of sequences by steps, the longest sequence first, and how many have each step."""
    sizes = entries(lengths, WAY_OUT)
    counts = (sizes > np.arange(sizes[0])[:, None]).sum(1)
    steps = np.repeat(np.arange(len(counts)), counts)
    which = np.concatenate([np.arange(count) for count in counts])
    return x[(which, steps) if batch_first else (steps, which)], known(torch.tensor(counts))


@aten("_pad_packed_sequence")
def padded(x: Any, batch_sizes: Any, batch_first: bool, padding_value: float, total_length: int) -> Any:
    """The entries of packed sequences with numbers after the shorter ones, and the lengths."""
    counts = entries(batch_sizes, WAY_OUT)
    counts = np.pad(counts, (0, max(0, total_length - len(counts))))
    which = np.arange(counts[0])
    is_inside = which < counts[:, None]
    places = np.where(is_inside, (np.cumsum(counts) - counts)[:, None] + which, 0)
    wide = is_inside.reshape(*is_inside.shape, *[1] * (x.ndim - 1))
    found = np.where(wide, x[places], padding_value)
    lengths = known(torch.tensor(is_inside.sum(0)))
    return np.swapaxes(found, 0, 1) if batch_first else found, lengths
