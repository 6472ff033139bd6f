"""The structured tensor."""

from hesse.structured.base import Form
from hesse.structured.chunks import check_chunk, chunk_elements
from hesse.structured.storage import Storage, stored
from hesse.structured.tensor import Structured

__all__ = ["Form", "Storage", "Structured", "check_chunk", "chunk_elements", "stored"]
