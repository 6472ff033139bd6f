"""Placeholder until the printers are here."""

from hesse.ir import Node


def text(node: Node) -> str:
    return repr(node)


einsum_text = latex = text


class Graph:
    def __init__(self, node: Node) -> None:
        self.node = node
