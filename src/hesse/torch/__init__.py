"""PyTorch's own entrances: derivatives of tensors after the fact."""

from hesse.torch.backward import backward
from hesse.torch.controller import Controller

__all__ = ["Controller", "backward"]
