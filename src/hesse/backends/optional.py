"""Packages that are only needed for some operations, imported when those are called."""

from __future__ import annotations

import importlib
from typing import Any

from hesse.errors import MissingPackageError


def optional(module: str, what: str) -> Any:
    """The module, or an error that says what needs it and how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError.of(what, module.split(".", maxsplit=1)[0]) from error
