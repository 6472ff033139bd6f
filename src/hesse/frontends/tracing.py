"""Errors about user code: what cannot be traced, where it stands, and what to write instead."""

from __future__ import annotations

import os
import sys
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


def untraceable(construct: str, way_out: str) -> TracingError:
    """The error to raise for a construct that cannot become part of an expression."""
    return TracingError(f"{construct} cannot be traced (at {user_location()}). {way_out}")
