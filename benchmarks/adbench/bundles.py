"""BA: bundle adjustment, where points in space are seen in images; all observations at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.adbench.case import BLOCKS, Case, Function


def objective(xp: Any) -> Function:
    """Weighted errors of the projections, and how far the weights are from one: `(p, 3)`."""

    def rotated(axis: Any, x: Any) -> Any:
        square = xp.sum(axis**2, 1)[:, None]
        angle = xp.sqrt(square)
        cosine, unit = xp.cos(angle), axis / angle
        along = xp.sum(unit * x, 1)[:, None] * (1.0 - cosine)
        return x * cosine + crossed(unit, x) * xp.sin(angle) + unit * along

    def crossed(a: Any, b: Any) -> Any:
        parts = [a[:, i] * b[:, j] - a[:, j] * b[:, i] for i, j in ((1, 2), (2, 0), (0, 1))]
        return xp.stack(parts, 1)

    def errors(cameras: Any, points: Any, weights: Any, seen: Any) -> Any:
        inside = rotated(cameras[:, :3], points - cameras[:, 3:6])
        flat = inside[:, :2] / inside[:, 2:]
        square = xp.sum(flat**2, 1)[:, None]
        bent = flat * (1.0 + cameras[:, 9:10] * square + cameras[:, 10:] * square**2)
        projected = bent * cameras[:, 6:7] + cameras[:, 7:9]
        return xp.concatenate([weights * (projected - seen), 1.0 - weights**2], 1)

    return errors


def by_hand(cameras: Any, points: Any, weights: Any, seen: Any) -> tuple[np.ndarray, ...]:
    """The blocks by cameras, points and weights."""
    count = len(points)
    axis, x, one = cameras[:, :3], points - cameras[:, 3:6], np.eye(3)
    square = (axis**2).sum(1)
    angle = np.sqrt(square)
    cosine, a = np.cos(angle), np.sin(angle) / angle
    b = (1.0 - cosine) / square
    turn = np.zeros((count, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        turn[:, i, j], turn[:, j, i] = -axis[:, k], axis[:, k]
    outer = axis[:, :, None] * axis[:, None, :]
    rotation = cosine[:, None, None] * one + a[:, None, None] * turn + b[:, None, None] * outer
    along, across = (axis * x).sum(1), np.cross(axis, x)
    inside = cosine[:, None] * x + a[:, None] * across + (b * along)[:, None] * axis
    radial = -a[:, None] * x + ((cosine - a) / square)[:, None] * across
    radial += (along * (a - 2.0 * b) / square)[:, None] * axis
    by_axis = radial[:, :, None] * axis[:, None, :] + (b[:, None] * axis)[:, :, None] * x[:, None, :]
    by_axis += (b * along)[:, None, None] * one
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        by_axis[:, i, j] += a * x[:, k]
        by_axis[:, j, i] -= a * x[:, k]
    return _projected(cameras, weights, seen, rotation, inside, by_axis)


def _projected(
    cameras: Any, weights: Any, seen: Any, rotation: Any, inside: Any, by_axis: Any
) -> tuple[np.ndarray, ...]:
    count = len(inside)
    flat = inside[:, :2] / inside[:, 2:]
    square = (flat**2).sum(1)
    first, second, focal = cameras[:, 9], cameras[:, 10], cameras[:, 6]
    bend = 1.0 + first * square + second * square**2
    slope = 2.0 * (first + 2.0 * second * square)
    by_flat = slope[:, None, None] * flat[:, :, None] * flat[:, None, :] + bend[:, None, None] * np.eye(2)
    by_flat *= (focal * weights[:, 0])[:, None, None]
    by_inside = np.empty((count, 2, 3))
    by_inside[:, :, :2] = by_flat / inside[:, 2, None, None]
    by_inside[:, :, 2] = -(by_flat @ flat[:, :, None])[:, :, 0] / inside[:, 2:]
    by_cameras, by_points = np.zeros((count, 3, 11)), np.zeros((count, 3, 3))
    by_points[:, :2] = by_inside @ rotation
    by_cameras[:, :2, :3], by_cameras[:, :2, 3:6] = by_inside @ by_axis, -by_points[:, :2]
    bent = flat * bend[:, None]
    by_cameras[:, :2, 6] = weights * bent
    by_cameras[:, 0, 7] = by_cameras[:, 1, 8] = weights[:, 0]
    scaled = (weights[:, 0] * focal * square)[:, None] * flat
    by_cameras[:, :2, 9], by_cameras[:, :2, 10] = scaled, scaled * square[:, None]
    by_weights = np.empty((count, 3, 1))
    by_weights[:, :2, 0] = bent * focal[:, None] + cameras[:, 7:9] - seen
    by_weights[:, 2] = -2.0 * weights
    return by_cameras, by_points, by_weights


def data(observations: int) -> tuple[np.ndarray, ...]:
    """Random cameras and points, one of each for every observation."""
    random = np.random.default_rng(0)
    cameras = random.random((observations, 11))
    cameras[:, :3] *= 0.3  # so that all points lie before the cameras
    points = random.random((observations, 3)) + np.array([0.0, 0.0, 2.0])
    return cameras, points, random.random((observations, 1)), random.random((observations, 2))


def case(observations: int) -> Case:
    """A row."""
    size = f"p = {observations:,}"
    return Case("BA", size, BLOCKS, objective, data(observations), 3, by_hand=by_hand)


def cases() -> Iterator[Case]:
    """All rows."""
    yield from map(case, (100, 3184, 31_843))
