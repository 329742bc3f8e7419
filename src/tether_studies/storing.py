"""Data and arrays of a study's runs in files of NumPy's own format, whole or absent."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tether.data import Probes, Schema, Transitions
from tether.files.modelfile import SCHEMA
from tether.foundation.arrays import read_arrays as read_arrays
from tether.foundation.atomic import write_bytes
from tether.foundation.documents import parse
from tether.foundation.errors import StorageError
from tether_studies.study import StudyData

_ARRAYS = ("schema", "states", "controls", "next_states", "episodes", "probe_states", "probe_controls")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """One compressed file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_bytes(path, buffer.getvalue())


def write_data(path: Path, data: StudyData) -> None:
    """D and Ω in one file, with what their columns mean."""
    transitions, probes = data.transitions, data.probes
    schema = np.frombuffer(json.dumps(asdict(transitions.schema)).encode(), np.uint8)
    arrays = {
        "schema": schema,
        "states": transitions.states,
        "controls": transitions.controls,
        "next_states": transitions.next_states,
        "episodes": transitions.episodes,
        "probe_states": probes.states,
        "probe_controls": probes.controls,
    }
    write_arrays(path, arrays)


def read_data(path: Path) -> StudyData:
    """What :func:`write_data` wrote."""
    arrays = read_arrays(path)
    missing = [name for name in _ARRAYS if name not in arrays]
    if missing:
        raise StorageError(f"`{path}` must be data of a study; `{missing[0]}` is missing. Remove it.")
    try:
        return _data(arrays, parse(arrays["schema"].tobytes(), SCHEMA, path, "data of a study", "schema"))
    except StorageError:
        raise
    except (TypeError, ValueError) as error:
        raise StorageError(f"`{path}` must be data of a study; {error} Remove it.") from None


def _data(arrays: Mapping[str, Any], fields: dict[str, Any]) -> StudyData:
    plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    schema = Schema(**plain)
    transitions = Transitions.from_arrays(
        arrays["states"],
        arrays["controls"],
        arrays["next_states"],
        episodes=arrays["episodes"],
        schema=schema,
    )
    return StudyData(
        transitions, Probes.from_arrays(arrays["probe_states"], arrays["probe_controls"], schema=schema)
    )
