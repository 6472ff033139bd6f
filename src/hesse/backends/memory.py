"""Memory that programs free stays with the process, so that the next call need not ask for it again.

A program makes its arrays anew in every call. glibc gives what is freed back to the operating system as soon
as that is more than a few hundred kilobytes, and each page that is then touched for the first time costs as
much as computing its entries several times: calls that work on a few megabytes take two to four times as
long. How much glibc keeps depends on the largest array that has been freed so far, up to 32 MiB; so one of
that size, which is never written to, settles it.
"""

from __future__ import annotations

import functools

import numpy as np

LARGEST = 2**25 - 2**13
"""Bytes of the largest array that glibc takes as a sign; it adds a few for itself."""


@functools.cache
def keep_freed_memory() -> None:
    """Have the C library keep up to 64 MiB that are freed; elsewhere than with glibc nothing happens."""
    np.empty(LARGEST, np.uint8)
