"""What hesse offers users of PyTorch beyond the functions that take any array; `import hesse.torch`."""

from hesse.torch.backward import backward
from hesse.torch.controller import Controller
from hesse.torch.functional import buffers_of, functional, parameters_of
from hesse.torch.recording import record

__all__ = ["Controller", "backward", "buffers_of", "functional", "parameters_of", "record"]
