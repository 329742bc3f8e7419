"""Files that are either whole or absent: every write goes to a temporary name, then is renamed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tether.foundation.documents import load_json, require_file, shorten
from tether.foundation.errors import StorageError
from tether.foundation.limits import LARGEST_FILE, LARGEST_HEADER

_ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8, "F16": 2, "BF16": 2, "F32": 4, "F64": 8,
}  # fmt: skip


def write_bytes(path: Path, content: bytes) -> None:
    """Writes `content` to `path`, whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a result is meant to be read by whoever may read its folder.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, content: str) -> None:
    """Writes text as UTF-8, whole or not at all."""
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    """Writes JSON for people and programs: indented, and never with NaN or infinity in it."""
    write_text(path, _dumps(path, content, indent=2, ensure_ascii=False) + "\n")


def _dumps(path: Path, content: Any, **layout: Any) -> str:
    try:
        return json.dumps(content, allow_nan=False, **layout)
    except ValueError as error:
        raise ValueError(
            f"numbers of `{path.name}` must be finite; {error}. Where data are huge, change their units."
        ) from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """Writes a safetensors file whose metadata are JSON values; the same bytes for the same content."""
    text = {key: _dumps(path, value) for key, value in metadata.items()}
    # Copies, because the format refuses tensors that share memory.
    whole = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, _in_order(safetensors.torch.save(whole, text)))


def _in_order(content: bytes) -> bytes:
    """With sorted metadata: safetensors writes them in an order that each process draws anew."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header.get("__metadata__", {}).items()))
    ordered = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    ordered += b" " * (-len(ordered) % 8)  # as the format pads it, so that numbers are aligned
    return len(ordered).to_bytes(8, "little") + ordered + content[8 + size :]


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and metadata of a safetensors file; nothing is ever unpickled.

    What the file says of its own sizes is compared with what it has before anything is made of it.
    """
    try:
        check_header(path)
        with safe_open(path, framework="pt") as file:
            metadata = {key: load_json(value) for key, value in (file.metadata() or {}).items()}
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except StorageError:
        raise
    except (
        SafetensorError,
        ValueError,
        OSError,
        KeyError,
        RuntimeError,
        OverflowError,
        MemoryError,
    ) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> StorageError:
    """What to say of a file that is no safetensors file of ours."""
    return StorageError(
        f"`{path}` must be a safetensors file written by Tether; it cannot be read ({shorten(error)}). "
        "It may be damaged or of another kind."
    )


def check_header(path: Path) -> None:
    """Raises unless names, kinds, shapes and places of the tensors fit one another and the file."""
    require_file(path)
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise StorageError(f"`{path}` must have at most {LARGEST_FILE:,} bytes; got {size:,}.")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LARGEST_HEADER):
            raise ValueError("its header is longer than the file or than any of ours")
        header = load_json(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no table")
    for name, entry in header.items():
        if name != "__metadata__":
            _check_entry(name, entry, size - 8 - length)


def _check_entry(name: str, entry: Any, room: int) -> None:
    fields = entry if isinstance(entry, dict) else {}
    kind: Any = fields.get("dtype")
    shape: Any = fields.get("shape")
    place: Any = fields.get("data_offsets")
    whole = all(
        isinstance(part, list) and all(type(k) is int and 0 <= k <= LARGEST_FILE for k in part)
        for part in (shape, place)
    )
    if not isinstance(kind, str) or kind not in _ITEM_BYTES or not whole:
        raise ValueError(f"its header says of {name!r:.60} what cannot be")
    if len(place) != 2 or not place[0] <= place[1] <= room:
        raise ValueError(f"its header says of {name!r:.60} what cannot be")
    if math.prod(shape) * _ITEM_BYTES[kind] != place[1] - place[0]:
        raise ValueError(f"its header gives {name!r:.60} another shape than room")


def content_digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> str:
    """SHA-256 of every number and every word: the evidence level and the record are part of the claim too."""
    # As read back: JSON makes lists of tuples and text of keys.
    plain = json.loads(json.dumps(metadata))
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}{values.dtype}{tuple(values.shape)}".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
