"""Files that are either whole or absent: every write goes to a temporary name, then is renamed."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tether.errors import StorageError


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
    write_text(path, json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """Writes a safetensors file whose metadata are JSON values."""
    text = {key: json.dumps(value, allow_nan=False) for key, value in metadata.items()}
    # Copies, because the format refuses tensors that share memory.
    whole = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, safetensors.torch.save(whole, text))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and metadata of a safetensors file; nothing is ever unpickled."""
    if not path.is_file():
        raise StorageError(f"`{path}` must be a file; there is none. Check the path.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise StorageError(
            f"`{path}` must be a safetensors file written by Tether; it cannot be read ({error}). "
            "It may be damaged or of another kind."
        ) from None
