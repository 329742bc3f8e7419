"""Ways to damage a file: blindly, and knowing what it is."""

from __future__ import annotations

import csv
import io
import json
import struct
import zipfile
from copy import deepcopy
from typing import Any

import numpy as np
import safetensors.torch
import torch

from tether.foundation.atomic import content_digest

Random = np.random.Generator
HOSTILE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e-320, 1e308, -1e308, 1e154, 2**31, 2**63, 10**30, 10**400, "", "x", "[/red]",
    "\x1b[31m", "../../etc/passwd", "\u202e", "x" * 5000, [], {}, [[]], [None], [1, 2], {"a": 1}, [[[[[[[[[[]]]]]]]]]],
    "nan", "proved", "statistical", "custom", "monotone", "float16", "next_state", 1e-12, 0.5, 10**12, 200_000,
]  # fmt: skip
RAW = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "[" * 2000 + "]" * 2000,
    "0" * 50,
    "9" * 5000,
    '"\\ud800"',
    "{",
    "nul",
]


def flip(random: Random, content: bytes) -> bytes:
    """A few bits."""
    changed = bytearray(content or b"\0")
    for _ in range(int(random.integers(1, 9))):
        changed[int(random.integers(len(changed)))] ^= 1 << int(random.integers(8))
    return bytes(changed)


def cut(random: Random, content: bytes) -> bytes:
    """Only the beginning, or only the end."""
    place = int(random.integers(len(content) + 1))
    return content[:place] if random.random() < 0.8 else content[place:]


def overwrite(random: Random, content: bytes) -> bytes:
    """A span of something else."""
    start, length = int(random.integers(len(content) + 1)), int(random.integers(1, 200))
    filling = (b"\0" * length, b"\xff" * length, random.bytes(length), b"[" * length, b'"')[
        int(random.integers(5))
    ]
    return content[:start] + filling + content[start + length * int(random.integers(2)) :]


def remove(random: Random, content: bytes) -> bytes:
    """A span left out, or said twice."""
    start, length = int(random.integers(len(content) + 1)), int(random.integers(1, 400))
    span = content[start : start + length]
    return content[:start] + (span * 2 if random.random() < 0.5 else b"") + content[start + length :]


def blind(random: Random, content: bytes) -> bytes:
    """Any of these."""
    if random.random() < 0.02:
        return b""
    return (flip, cut, overwrite, remove)[int(random.integers(4))](random, content)


def hostile(random: Random) -> Any:
    # A copy: a list put into itself later on is no JSON.
    return deepcopy(HOSTILE[int(random.integers(len(HOSTILE)))])


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a JSON value with each of its keys."""
    found = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = (
            list(holder)
            if isinstance(holder, dict)
            else range(len(holder))
            if isinstance(holder, list)
            else []
        )
        for key in keys:
            found.append((holder, key))
            waiting.append(holder[key])
    return found


def change_value(random: Random, value: Any) -> Any:
    """A JSON value with one to three places changed, at any depth."""
    value = json.loads(json.dumps(value))
    for _ in range(int(random.integers(1, 4))):
        places = _places(value)
        if not places:
            return hostile(random)
        # Shallow places as often as deep ones, of which there are far more.
        if random.random() < 0.5 and isinstance(value, dict) and value:
            holder, key = value, list(value)[int(random.integers(len(value)))]
        else:
            holder, key = places[int(random.integers(len(places)))]
        _change(random, holder, key)
    return value


def _change(random: Random, holder: Any, key: Any) -> None:
    kind = random.random()
    if kind < 0.6:
        holder[key] = hostile(random)
    elif kind < 0.8:
        del holder[key]
    elif isinstance(holder, dict):
        holder[f"{key}_"] = holder.pop(key)
    else:
        holder += [holder[key]] * int(random.integers(1, 30))


def change_json(random: Random, content: bytes) -> bytes:
    """JSON text with values changed, at times into what JSON does not allow."""
    value = change_value(random, json.loads(content))
    text = json.dumps(value)
    if random.random() < 0.2:
        marks = [k for k, character in enumerate(text) if character in ":,["]
        place = marks[int(random.integers(len(marks)))] + 1 if marks else 0
        end = place + int(random.integers(0, 12))
        text = text[:place] + RAW[int(random.integers(len(RAW)))] + text[end:]
    return text.encode(errors="surrogatepass")


def change_lines(random: Random, content: bytes) -> bytes:
    """JSON lines with one of them changed."""
    lines = content.splitlines()
    place = int(random.integers(len(lines)))
    lines[place] = change_json(random, lines[place])
    return b"\n".join(lines)


# --- model files


def change_words(random: Random, content: bytes) -> bytes:
    """A model whose words are changed, and which is signed again."""
    tensors, metadata = _opened(content)
    return _signed(tensors, change_value(random, metadata))


def change_tensors(random: Random, content: bytes) -> bytes:
    """A model whose tensors are changed, and which is signed again."""
    tensors, metadata = _opened(content)
    for _ in range(int(random.integers(1, 3))):
        name = sorted(tensors)[int(random.integers(len(tensors)))]
        tensors |= _changed_tensor(random, name, tensors.pop(name))
    return _signed(tensors, metadata)


def _changed_tensor(random: Random, name: str, tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    kind = int(random.integers(9))
    if kind == 0:
        return {}
    if kind == 1:
        return {f"{name}x": tensor}
    if kind == 2:
        kinds = (torch.float16, torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool)
        return {name: tensor.nan_to_num().to(kinds[int(random.integers(len(kinds)))])}
    if kind == 3:
        shapes = ((-1,), (1, -1), (-1, 1), (1, 1, -1))
        return {name: tensor.reshape(shapes[int(random.integers(len(shapes)))])}
    if kind == 4:
        return {name: tensor[: int(random.integers(len(tensor) + 1))] if tensor.ndim else tensor}
    if kind == 5:
        return {name: torch.cat([tensor, tensor]) if tensor.ndim else tensor[None]}
    if kind == 6:
        return {name: torch.zeros((), dtype=tensor.dtype)}
    values = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, 1e160, 5e-324, 1e-200, 1e18)
    value = values[int(random.integers(len(values)))]
    tensor = tensor.clone()
    flat = tensor.view(-1)
    rows = slice(None) if kind == 7 else int(random.integers(max(1, flat.numel())))
    if flat.numel():
        # As far as the kind goes: larger ones wrap, or become infinite.
        whole = not tensor.dtype.is_floating_point
        largest = (
            np.iinfo(str(tensor.dtype).removeprefix("torch.")).max
            if whole and tensor.dtype != torch.bool
            else 1
        )
        flat[rows] = (
            int(np.clip(np.nan_to_num(value), 0, largest // 2))
            if whole
            else torch.tensor(value).to(tensor.dtype)
        )
    return {name: tensor}


def change_header(random: Random, content: bytes) -> bytes:
    """A safetensors file that says something else of its tensors than it holds."""
    length = struct.unpack("<Q", content[:8])[0]
    header = change_json(random, content[8 : 8 + length])
    said = len(header) if random.random() < 0.9 else int(random.integers(2**63))
    return struct.pack("<Q", said) + header + content[8 + length :]


def _opened(content: bytes) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    length = struct.unpack("<Q", content[:8])[0]
    words = json.loads(content[8 : 8 + length])["__metadata__"]
    return safetensors.torch.load(content), {key: json.loads(value) for key, value in words.items()}


def _signed(tensors: dict[str, torch.Tensor], metadata: Any) -> bytes:
    metadata = metadata if isinstance(metadata, dict) else {"format": metadata}
    for name in ("digest", "contents"):
        if name in metadata:
            plain = {key: value for key, value in metadata.items() if key != name}
            metadata[name] = content_digest(tensors, plain)
    whole = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(whole, {key: json.dumps(value) for key, value in metadata.items()})


# --- tables

CELLS = [
    "",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "1e308",
    "x",
    '"',
    '"open',
    'a"b',
    "\0",
    "1,2",
    "\n",
    "0x10",
    "1_0",
    "[red]",
    "é",
    "9" * 400,
    "9" * 200_000,
]


def change_csv(random: Random, content: bytes) -> bytes:
    """A table with cells, rows or its encoding changed."""
    rows = list(csv.reader(io.StringIO(content.decode())))
    for _ in range(int(random.integers(1, 4))):
        row = rows[int(random.integers(len(rows))) if random.random() < 0.7 else 0]
        place = int(random.integers(len(row))) if row else 0
        kind = int(random.integers(4))
        if kind < 2 and row:
            row[place] = CELLS[int(random.integers(len(CELLS)))]
        elif kind == 2:
            row.insert(place, "1.0")
        elif row:
            del row[place]
    text = "\n".join(",".join(row) for row in rows)
    codes = ("utf-8", "utf-16", "latin-1", "utf-8-sig")
    return text.encode(codes[int(random.integers(4)) if random.random() < 0.2 else 0], errors="replace")


def change_npz(random: Random, content: bytes) -> bytes:
    """An archive with arrays, their headers, or what it says of itself changed."""
    arrays = dict(np.load(io.BytesIO(content)))
    name = sorted(arrays)[int(random.integers(len(arrays)))]
    kind = int(random.integers(6))
    if kind == 0:
        arrays[name] = np.array([{}, []] * 5, dtype=object)
    elif kind == 1:
        wild = (complex, "U5", "S3", "M8[s]", bool, np.float16, np.longdouble, [("a", int)])
        arrays[name] = np.zeros(len(arrays[name]), dtype=wild[int(random.integers(len(wild)))])
    elif kind == 2:
        shapes = ((), (0,), (1, 1, 1), (3, 4), (0, 5), (5, 0))
        arrays[name] = np.zeros(shapes[int(random.integers(len(shapes)))])
    elif kind == 3:
        return _bomb(random, name)
    elif kind == 4:
        arrays[name] = np.where(random.random(arrays[name].shape) < 0.1, np.inf, arrays[name])
    else:
        return _lying(random, content)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _bomb(random: Random, name: str) -> bytes:
    """Little that unpacks to much, or says so."""
    header = io.BytesIO()
    shape = (int(random.choice([10**6, 10**9, 10**12, 2**62])),)
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", header.getvalue() + b"\0" * int(random.choice([0, 100, 8 * 10**6])))
    return buffer.getvalue()


def _lying(random: Random, content: bytes) -> bytes:
    """Central directory entries with other sizes."""
    changed = bytearray(content)
    starts = [k for k in range(len(content) - 4) if content[k : k + 4] == b"PK\x01\x02"]
    start = starts[int(random.integers(len(starts)))]
    field = start + int(random.choice([16, 20, 24, 42]))
    changed[field : field + 4] = random.bytes(4)
    return bytes(changed)


def change_parquet(random: Random, content: bytes) -> bytes:
    """A table with columns of other kinds."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(content))
    rows = table.num_rows
    wild = [
        pyarrow.array([[1, 2]] * rows), pyarrow.array([{"a": 1}] * rows), pyarrow.array([None] * rows),
        pyarrow.array(["x"] * rows), pyarrow.array([b"x"] * rows), pyarrow.array([True] * rows),
        pyarrow.array(np.zeros(rows, "M8[s]")), pyarrow.array(["a", "b"] * (rows // 2)).dictionary_encode(),
        pyarrow.array([None, 1.0] * (rows // 2)),
    ]  # fmt: skip
    column = int(random.integers(table.num_columns))
    name = table.column_names[int(random.integers(table.num_columns))]
    table = table.set_column(column, name, wild[int(random.integers(len(wild)))])
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()
