"""Hand tracking: a skinned model of a hand, moved by 26 parameters, against measured points."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.adbench.case import BLOCKS, JACOBIAN, Case, Function

VERTICES, TRIANGLES, FINGERS = 544, 1084, 5


def parents(fingers: int) -> list[int]:
    """What each bone is joined to: the forearm, the wrist, and four bones of each finger."""
    return [
        -1,
        0,
        *(bone for first in range(2, 2 + 4 * fingers, 4) for bone in (0, *range(first, first + 3))),
    ]


def angles_of(theta: Any) -> list[tuple[Any, Any] | None]:
    """The two angles of each bone: fingers bend in three joints and spread in the first of them."""
    found: list[tuple[Any, Any] | None] = [None] * 2
    for bend in range(6, theta.shape[0], 4):
        found += [(theta[bend], theta[bend + 1]), (theta[bend + 2], None), (theta[bend + 3], None), None]
    return found


def bone_rotation(xp: Any, zero: Any, bend: Any, spread: Any) -> Any:
    """A matrix of 4 by 4: a rotation about the first axis, then one about the last."""
    one = zero + 1.0
    c, s = xp.cos(bend), xp.sin(bend)
    k, t = (xp.cos(spread), xp.sin(spread)) if spread is not None else (one, zero)
    rows = ((k, -t * c, t * s, zero), (t, k * c, -k * s, zero), (zero, s, c, zero), (zero, zero, zero, one))
    return xp.stack([xp.stack(row) for row in rows])


def axis_rotation(xp: Any, axis: Any) -> Any:
    """The rotation about an axis by its length."""
    angle = xp.sqrt(xp.sum(axis**2))
    x, y, z = (axis[k] / angle for k in range(3))
    s, c = xp.sin(angle), xp.cos(angle)
    rows = (
        (x * x + (1.0 - x * x) * c, x * y * (1.0 - c) - z * s, x * z * (1.0 - c) + y * s),
        (x * y * (1.0 - c) + z * s, y * y + (1.0 - y * y) * c, y * z * (1.0 - c) - x * s),
        (x * z * (1.0 - c) - y * s, z * y * (1.0 - c) + x * s, z * z + (1.0 - z * z) * c),
    )
    return xp.stack([xp.stack(row) for row in rows])


def vertices(xp: Any, theta: Any, base: Any, inverse: Any, skin: Any) -> Any:
    """Where the vertices are; `skin` are their places at rest, times the weight of each bone."""
    zero, absolute = theta[0] * 0.0, []
    angles_of_bones = angles_of(theta)
    for bone, parent in enumerate(parents(len(angles_of_bones) // 4)):
        angles = angles_of_bones[bone]
        relative = base[bone] if angles is None else base[bone] @ bone_rotation(xp, zero, *angles)
        absolute.append(relative if parent < 0 else absolute[parent] @ relative)
    transforms = xp.stack([matrix @ inverse[bone] for bone, matrix in enumerate(absolute)])
    placed = xp.einsum("bij,vbj->vi", transforms[:, :3], skin)
    return placed @ axis_rotation(xp, theta[:3]).T + theta[3:6]


def simple(xp: Any, corners: np.ndarray) -> Function:
    """Each measured point belongs to a vertex."""
    first = xp.asarray(corners[:, 0])

    def errors(theta: Any, base: Any, inverse: Any, skin: Any, measured: Any) -> Any:
        return measured - vertices(xp, theta, base, inverse, skin)[first]

    return errors


def complicated(xp: Any, corners: np.ndarray) -> Function:
    """Each measured point belongs to a place in a triangle, which is unknown as well."""
    indices = [xp.asarray(corners[:, k]) for k in range(3)]

    def errors(theta: Any, places: Any, base: Any, inverse: Any, skin: Any, measured: Any) -> Any:
        found = vertices(xp, theta, base, inverse, skin)
        a, b, c = (found[index] for index in indices)
        u, v = places[:, :1], places[:, 1:]
        return measured - (u * a + v * b + (1.0 - u - v) * c)

    return errors


def model(fingers: int) -> tuple[np.ndarray, ...]:
    """A random hand: matrices of the bones at rest, their inverses, vertices with weights, triangles."""
    random = np.random.default_rng(0)
    bones = 2 + 4 * fingers
    base = np.tile(np.eye(4), (bones, 1, 1))
    base[:, :3, :3] = np.linalg.qr(random.normal(size=(bones, 3, 3)))[0]
    base[:, :3, 3] = random.normal(size=(bones, 3))
    absolute: list[np.ndarray] = []
    for bone, parent in enumerate(parents(fingers)):
        absolute.append(base[bone] if parent < 0 else absolute[parent] @ base[bone])
    weights = random.random((VERTICES, bones)) ** 8
    weights /= weights.sum(1, keepdims=True)
    resting = np.concatenate([random.normal(size=(VERTICES, 3)), np.ones((VERTICES, 1))], axis=1)
    triangles = random.integers(0, VERTICES, size=(TRIANGLES, 3))
    return base, np.linalg.inv(np.stack(absolute)), weights[:, :, None] * resting[:, None, :], triangles


def case(points: int, is_complicated: bool, fingers: int = FINGERS) -> Case:
    """A row."""
    base, inverse, skin, triangles = model(fingers)
    random = np.random.default_rng(points)
    theta, places = random.normal(size=6 + 4 * fingers) * 0.5, random.random((points, 2)) / 2.0
    corners = triangles[random.integers(0, TRIANGLES, size=points)]
    fixed = base, inverse, skin, random.normal(size=(points, 3))
    size = f"{points:,} points"
    if not is_complicated:
        function = partial(simple, corners=corners)
        return Case("hand, simple", size, JACOBIAN, function, (theta, *fixed), 1, is_compiled=False)
    function = partial(complicated, corners=corners)
    arguments = theta, places, *fixed
    return Case("hand, complicated", size, BLOCKS, function, arguments, 2, shared=1, is_compiled=False)


def cases() -> Iterator[Case]:
    """All rows."""
    for is_complicated in (False, True):
        for points in (100, 800, 6400):
            yield case(points, is_complicated)
