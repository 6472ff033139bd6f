"""Where the boxes of a graph go: layers by depth, few crossings, no overlaps (Sugiyama's method, in small).

An edge over several layers runs through *waypoints*, boxes without width that keep its way clear.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

SWEEPS = 12
"""Rounds of ordering and of placing; each looks down and up once."""
WAYPOINT_LIMIT = 4000
"""With more waypoints than this, long edges run straight."""
GAP = 24.0
LAYER_HEIGHT = 84.0


class Layout(NamedTuple):
    """Centres of the boxes, and the points of each edge from its first to its last box."""

    centres: list[tuple[float, float]]
    paths: list[list[tuple[float, float]]]
    width: float
    height: float


def layered(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place boxes of given widths; edges point from boxes to later boxes."""
    depths = _depths(len(widths), edges)
    boxes = list(widths)
    ways = _waypoints(boxes, depths, edges)
    links = [link for way in ways for link in itertools.pairwise(way)]
    lower: list[list[int]] = [[] for _ in boxes]
    upper: list[list[int]] = [[] for _ in boxes]
    for start, end in dict.fromkeys(links):
        lower[end].append(start)
        upper[start].append(end)
    layers: list[list[int]] = [[] for _ in range(max(depths, default=0) + 1)]
    for box, depth in enumerate(depths):
        layers[depth].append(box)
    _order(layers, lower, upper)
    across = _place(layers, lower, upper, boxes)
    left = min((x - w / 2 for x, w in zip(across, boxes, strict=True)), default=0.0)
    down = [(depth + 0.5) * LAYER_HEIGHT for depth in depths]
    centres = [(x - left + GAP, y) for x, y in zip(across, down, strict=True)]
    width = max((x + w / 2 for (x, _), w in zip(centres, boxes, strict=True)), default=0.0) + GAP
    paths = [[centres[box] for box in way] for way in ways]
    return Layout(centres[: len(widths)], paths, width, len(layers) * LAYER_HEIGHT)


def _depths(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Longest ways from the sources; sources stand directly above their first use."""
    depths = [0] * count
    for start, end in sorted(edges, key=lambda edge: edge[1]):
        depths[end] = max(depths[end], depths[start] + 1)
    first: dict[int, int] = {}
    for start, end in edges:
        first[start] = min(first.get(start, depths[end]), depths[end])
    inner = {end for _, end in edges}
    return [depths[box] if box in inner or box not in first else first[box] - 1 for box in range(count)]


def _waypoints(boxes: list[float], depths: list[int], edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The boxes on the way of each edge, waypoints appended to `boxes` and `depths`."""
    straight = sum(depths[end] - depths[start] - 1 for start, end in edges) > WAYPOINT_LIMIT
    ways = []
    for start, end in edges:
        between = [] if straight else list(range(depths[start] + 1, depths[end]))
        ways.append([start, *range(len(boxes), len(boxes) + len(between)), end])
        boxes += [0.0] * len(between)
        depths += between
    return ways


def _order(layers: list[list[int]], lower: list[list[int]], upper: list[list[int]]) -> None:
    """Sort each layer by the mean position of its neighbours, down and up in turn."""
    position = {box: float(k) for layer in layers for k, box in enumerate(layer)}
    for _ in range(SWEEPS):
        for neighbours, rows in ((lower, layers), (upper, layers[::-1])):
            for layer in rows:
                wished = {
                    box: _mean([position[other] for other in neighbours[box]], position[box]) for box in layer
                }
                layer.sort(key=wished.__getitem__)
                position.update((box, float(k)) for k, box in enumerate(layer))


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _place(
    layers: list[list[int]], lower: list[list[int]], upper: list[list[int]], boxes: Sequence[float]
) -> list[float]:
    """Coordinates along each layer: as near to the neighbours as the order and the widths allow."""
    across = [0.0] * len(boxes)
    for _ in range(SWEEPS):
        for neighbours, rows in ((lower, layers), (upper, layers[::-1])):
            for layer in rows:
                wished = [_mean([across[other] for other in neighbours[box]], across[box]) for box in layer]
                for box, x in zip(layer, _spread(wished, [boxes[box] for box in layer]), strict=True):
                    across[box] = x
    return across


def _spread(wished: Sequence[float], widths: Sequence[float]) -> list[float]:
    """The coordinates nearest to the wished ones (least squares) at which the boxes do not overlap.

    Less the room that all boxes before it need, a box must not stand left of the one before it: that is
    isotonic regression, solved by pooling neighbours that violate the order.
    """
    offsets = [0.0]
    for left, right in itertools.pairwise(widths):
        offsets.append(offsets[-1] + (left + right) / 2 + GAP)
    pools: list[tuple[float, int]] = []
    for wish, offset in zip(wished, offsets, strict=False):
        total, count = wish - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            total, count = total + pools[-1][0], count + pools.pop()[1]
        pools.append((total, count))
    means = [total / count for total, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=False)]
