"""A model file's tensors and words, read from its bytes and compared with the rules of the format."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, deserialize

from tether.data import Array
from tether.files.modelfile import check_numbers, check_tensors, check_words
from tether.foundation.atomic import check_header, unreadable
from tether.foundation.documents import load_json
from tether.foundation.errors import StorageError

_TORCH_NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
}  # fmt: skip
_NUMBERS = {"F64": "<f8", "I64": "<i8"}


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and words; what the header says was compared with the file before."""
    try:
        check_header(path)
        content = path.read_bytes()  # once, so that arrays and words are of the same file
        tensors = dict(deserialize(content))
        header = load_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
        words = header.get("__metadata__", {})
        return tensors, {key: load_json(value) for key, value in words.items()}
    except StorageError:
        raise
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, MemoryError) as error:
        raise unreadable(path, error) from None


class _Held(NamedTuple):
    """A tensor as the rules of the format see it."""

    dtype: str
    shape: tuple[int, ...]


def checked_arrays(path: Path, tensors: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Array]:
    """The arrays beside the weights, in a file that `load` would read too."""
    check_words(path, metadata)
    held = {name: _Held(_TORCH_NAMES[own["dtype"]], tuple(own["shape"])) for name, own in tensors.items()}
    check_tensors(path, metadata, held)
    arrays = {
        name: np.frombuffer(own["data"], dtype=_NUMBERS[own["dtype"]]).reshape(own["shape"])
        for name, own in tensors.items()
        if not name.startswith("network.")
    }
    check_numbers(path, arrays)
    return arrays


def digest_of(tensors: dict[str, Any], metadata: dict[str, Any]) -> str:
    """SHA-256 of the metadata as sorted JSON, then of name, type, shape and bytes of every tensor."""
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        kind = _TORCH_NAMES.get(tensor["dtype"], tensor["dtype"])
        digest.update(f"{name}torch.{kind}{tuple(tensor['shape'])}".encode())
        digest.update(bytes(tensor["data"]))
    return digest.hexdigest()
