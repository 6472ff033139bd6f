"""PyTorch's own entrances: derivatives of tensors after the fact."""

from hesse.torch.backward import backward
from hesse.torch.controller import Controller
from hesse.torch.recording import record

__all__ = ["Controller", "backward", "record"]
