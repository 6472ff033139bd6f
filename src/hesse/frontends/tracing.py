"""Errors about user code: what cannot be traced, where it stands, and what to write instead."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hesse.errors import TracingError

_LIBRARIES = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(np.__file__).parent))


def user_location() -> str:
    """`file:line` of the innermost stack frame outside hesse and NumPy."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def untraceable(construct: str, way_out: str, location: str | None = None) -> TracingError:
    """The error to raise for a construct that cannot become part of an expression."""
    return TracingError(f"{construct} cannot be traced (at {location or user_location()}). {way_out}")


@contextmanager
def assignments_explained() -> Iterator[None]:
    """Around user code: our error instead of NumPy's where a traced value is put into an array.

    For `a[0] = x` NumPy asks x for a number, and turns the refusal into a bare ValueError ("setting an array
    element with a sequence"), since x has a length and entries. Nothing of x is asked after that.
    """
    try:
        yield
    except ValueError as error:
        if not isinstance(error.__cause__, TracingError):
            raise
        raise untraceable(
            "the assignment of a traced value to an entry of a NumPy array (a[i] = x, a.fill(x))",
            "Such an array holds numbers and would not record how x was computed. "
            "Build the result with np.stack, np.concatenate or np.where.",
            _raised_at(error),
        ) from error


def _raised_at(error: Exception) -> str:
    """`file:line` of the innermost line outside hesse and NumPy from which an error came."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    file, line = next((at for at in reversed(frames) if not at[0].startswith(_LIBRARIES)), frames[-1])
    return f"{file}:{line}"
