"""The structured tensor."""

from hesse.structured.storage import Storage, stored
from hesse.structured.tensor import Structured
from hesse.structured.terms import Term

__all__ = ["Storage", "Structured", "Term", "stored"]
