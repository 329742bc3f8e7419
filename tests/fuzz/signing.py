"""Model files changed as a forger would: whatever is in them, their digest is their own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tether.foundation.atomic import read_tensors, write_tensors

Arrays = dict[str, np.ndarray]


def sign(path: Path, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Writes a file whose digest is its own."""
    tensors = {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()}
    metadata = {key: value for key, value in metadata.items() if key != "digest"}
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].dtype}{tuple(tensors[name].shape)}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    write_tensors(path, tensors, metadata | {"digest": digest.hexdigest()})


def rewrite(path: Path, change: Callable[[Arrays, dict[str, Any]], None]) -> None:
    """A model file with arrays and words changed in place."""
    tensors, metadata = read_tensors(path)
    arrays = {name: values.numpy().copy() for name, values in tensors.items()}
    change(arrays, metadata)
    sign(path, arrays, metadata)
