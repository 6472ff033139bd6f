"""The structured tensor."""

from hesse.structured.chunks import check_chunk, chunk_elements
from hesse.structured.storage import Storage, stored
from hesse.structured.tensor import Structured
from hesse.structured.terms import Term

__all__ = ["Storage", "Structured", "Term", "check_chunk", "chunk_elements", "stored"]
