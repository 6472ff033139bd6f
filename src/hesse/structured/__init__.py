"""The structured tensor."""

from hesse.structured.chunks import check_chunk, chunk_elements
from hesse.structured.storage import Storage, stored
from hesse.structured.tensor import Structured

__all__ = ["Storage", "Structured", "check_chunk", "chunk_elements", "stored"]
