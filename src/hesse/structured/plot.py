from typing import Any


def plot(t: Any, ax: Any) -> Any: ...
