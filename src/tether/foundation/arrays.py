"""Arrays from ``.npz`` files: nothing is unpickled, and nothing unpacked that is larger than it should be."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tether.foundation.errors import StorageError
from tether.foundation.limits import LARGEST_TABLE

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_DAMAGED = (
    OSError, ValueError, TypeError, KeyError, EOFError, SyntaxError, NotImplementedError, RuntimeError,
    OverflowError, MemoryError, RecursionError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a file by name.

    Raises:
        StorageError: it is damaged, holds Python objects, or would not fit into memory.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_total(members)
            return {_name(member): _read(archive, member) for member in members}
    except _DAMAGED as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise StorageError(
            f"`{path}` must be an .npz file of plain arrays; {lines[0].rstrip('.')[:200]}."
        ) from None


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _check_total(members: list[zipfile.ZipInfo]) -> None:
    total = sum(member.file_size for member in members)
    if total > LARGEST_TABLE:
        raise ValueError(f"it holds {total:,} bytes, and at most {LARGEST_TABLE:,} are read")
    names = [_name(member) for member in members]
    if len(set(names)) < len(names):
        raise ValueError("a name occurs twice in it")


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """One array, once its header agrees with the room it takes."""
    with archive.open(member) as file:
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"'{_name(member)}' is of an unknown format {version}")
        shape, by_columns, kind = _HEADERS[version](file)
        if kind.hasobject:
            raise ValueError(f"'{_name(member)}' holds Python objects, which are not read")
        # In Python's own whole numbers, which do not overflow.
        count = 1
        for length in shape:
            count *= int(length)
        if min(shape, default=0) < 0 or count * kind.itemsize != member.file_size - file.tell():
            raise ValueError(f"'{_name(member)}' has another shape than room")
        content = file.read()
    array = np.frombuffer(content, dtype=kind, count=count).copy()
    return array.reshape(shape, order="F" if by_columns else "C")
