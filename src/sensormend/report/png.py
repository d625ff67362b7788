"""A picture of few colours as PNG, written by hand: a pixel per cell, a few bytes per row."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_uri", "palette_png"]


def palette_png(cells: NDArray[np.integer], colours: Sequence[str]) -> bytes:
    r"""Return a PNG of cells (row, column) that count in colours like `#d55e00`.

    Examples
    --------
    >>> palette_png(np.zeros((2, 3), dtype=int), ["#ffffff"])[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    height, width = cells.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each line begins with its filter: none
    lines[:, 1:] = cells
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    palette = b"".join(bytes.fromhex(colour.removeprefix("#")) for colour in colours)
    parts = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def as_uri(png: bytes) -> str:
    """Return an image as the address that is the image."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
