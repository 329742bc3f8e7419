"""What a model that is there already reads from logs: inputs of every row, or more transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.data import Probes, Schema, Transitions
from tether.data.logs.gaps import drop_repeated, split_at_gaps
from tether.data.logs.history import has_history, with_histories
from tether.data.logs.reading import read_log
from tether.data.logs.rows import Rows, drop_invalid, read_rows
from tether.data.logs.settings import LogConfig, older_names
from tether.data.logs.sources import find_sources
from tether.foundation.documents import shorten


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs in the order of the log, and where each is from.

    Attributes:
        probes: the inputs.
        tables: (N,) names of the tables.
        rows: (N,) row numbers in them.
        left_out: rows that are no inputs, because a value is missing or they have too few older ones.
    """

    probes: Probes
    tables: NDArray[np.str_]
    rows: NDArray[np.int64]
    left_out: int


def read_inputs(source: Any, schema: Schema, **settings: Any) -> Inputs:
    """The inputs that `schema` names, from all rows of a log.

    Args:
        source: as for :func:`tether.read_log`.
        schema: of the model.
        settings: `episode`, `time`, `tolerance`, `drop_invalid` and `history` of :class:`LogConfig`.
    """
    config = _config_of(schema, settings)
    history = config.history
    rows, count = read_rows(find_sources(source), config)
    rows = _in_stretches(rows, config)
    usable = np.flatnonzero(has_history(rows, max(history.values(), default=0)))
    order = usable[np.lexsort((rows.places[usable], rows.tables[usable]))]
    dx = len(config.states)
    probes = Probes.from_arrays(
        with_histories(rows, config, 0, dx)[order],
        with_histories(rows, config, dx, len(config.columns))[order],
        schema=schema,
    )
    return Inputs(probes, np.array(rows.names)[rows.tables[order]], rows.places[order], count - len(order))


def read_more(source: Any, schema: Schema, **settings: Any) -> Transitions:
    """Transitions of another log, in the columns that `schema` names.

    Args:
        source: as for :func:`tether.read_log`.
        schema: of the model.
        settings: fields of :class:`LogConfig` but for what the schema says.
    """
    config = _config_of(schema, settings, angles=schema.angles, units=schema.units)
    found = read_log(source, config=config)
    if found.schema.outputs != schema.outputs:
        raise ValueError(
            f"`next_states` must make the outputs of the model ({shorten(', '.join(schema.outputs))}); got "
            f"{shorten(', '.join(found.schema.outputs))}. Name the columns of the outcome."
        )
    return replace(found, schema=schema)


def _config_of(schema: Schema, settings: Mapping[str, Any], **known: Any) -> LogConfig:
    """Settings with the columns of a schema; those of a history are not in the log."""
    history: Mapping[str, int] = settings.get("history") or {}
    older = {each for name, count in history.items() for each in older_names(name, count)}
    plain = {name: _without(values, older) for name, values in known.items()}
    config = LogConfig(
        states=[name for name in schema.states if name not in older],
        controls=[name for name in schema.controls if name not in older],
        **plain,
        **settings,
    )
    made = config.schema.inputs
    if made != schema.inputs:
        raise ValueError(
            f"`history` must make the inputs of the model ({shorten(', '.join(schema.inputs))}); got "
            f"{shorten(', '.join(made))}. Give the one that it was fitted with."
        )
    return config


def _without(values: Any, older: set[str]) -> Any:
    """Names, or what is known by name, but for those of a history."""
    if isinstance(values, Mapping):
        return {name: value for name, value in values.items() if name not in older}
    return [name for name in values if name not in older]


def _in_stretches(rows: Rows, config: LogConfig) -> Rows:
    if config.drop_invalid:
        rows = drop_invalid(rows)
    if config.time is None or len(rows) == 0:
        return rows
    rows, _ = drop_repeated(rows, config.time)
    return split_at_gaps(rows, config.time, tolerance=config.tolerance, step=None).rows
