"""A run on disk: what identifies it, saved and taken up again to the same bits."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tether.foundation.atomic import content_digest, read_tensors, write_tensors
from tether.foundation.documents import at_least_zero, checked, items, maybe, number, record, whole
from tether.foundation.errors import StorageError
from tether.learning.config import TrainingConfig
from tether.learning.examples import Examples
from tether.learning.history import Evaluation
from tether.learning.losses import Multipliers
from tether.learning.run import Run
from tether.model import Model


def run_digest(model: Model, config: TrainingConfig, seed: int, parts: list[Examples]) -> str:
    """Identifies a run: a checkpoint of another one must not be resumed."""
    settings = {key: value for key, value in asdict(config).items() if key != "checkpoint_seconds"}
    settings["seed"] = seed
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(repr(model.network).encode())
    scaling = (model.frame.inputs, model.frame.outputs)
    for values in (part for scales in scaling for part in (scales.center, scales.scale)):
        digest.update(np.ascontiguousarray(values).tobytes())
    for part in parts:
        for values in (part.inputs, part.trusted, part.target):
            digest.update(b"-" if values is None else np.ascontiguousarray(values).tobytes())
        for values in (part.fold, part.weight):
            if values is not None:
                digest.update(np.ascontiguousarray(values).tobytes())
    limits = model.limits(parts[0].inputs)
    for values in (limits.lower, limits.upper, limits.anchor):
        digest.update(np.ascontiguousarray(values).tobytes())
    digest.update(f"{model.tether.kind} {model.operator}".encode())
    return digest.hexdigest()


def save(run: Run, path: Path, digest: str) -> None:
    """The run as it stands, under the digest that it is known by."""
    tensors = {f"network.{name}": value for name, value in run.model.network.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in run.best.items()}
    tensors |= {f"average.{place}": value for place, value in enumerate(run.averages)}
    for parameter, state in run.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{parameter}.{name}": value for name, value in state.items()}
    tensors |= {"sums": run.sums, "random_state": torch.random.get_rng_state()}
    # A violation not yet measured is infinite, which JSON has no word for.
    multipliers = [[m.multiplier, m.penalty, None if math.isinf(m.last) else m.last] for m in run.multipliers]
    metadata = {
        "digest": digest,
        "step": run.step,
        "best_step": run.best_step,
        "seconds": run.seconds,
        "multipliers": multipliers,
        "evaluations": [asdict(e) for e in run.evaluations],
    }
    write_tensors(path, tensors, metadata | {"contents": content_digest(tensors, metadata)})


_CHECKPOINT = record(
    {
        "step": whole(),
        "best_step": whole(),
        "seconds": at_least_zero,
        "multipliers": items(items(maybe(number), count=3), count=2),
        "evaluations": items(record({field.name: number for field in fields(Evaluation)})),
    }
)


def restore(run: Run, path: Path, digest: str) -> None:
    """Takes a run up where its checkpoint left it.

    Raises:
        StorageError: the file is of another run, or damaged.
    """
    tensors, metadata = read_tensors(path)
    if metadata.get("digest") != digest:
        raise StorageError(
            f"`{path}` must be a checkpoint of this run; it belongs to other data or settings. "
            "Resume with the same arguments, or choose another output folder."
        )
    if metadata.pop("contents", None) != content_digest(tensors, metadata):
        raise StorageError(f"`{path}` must match its own digest; it is damaged. Remove it to begin anew.")
    checked(metadata, _CHECKPOINT, path, "a checkpoint of Tether")
    try:
        _take_up(run, tensors, metadata)
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise StorageError(
            f"`{path}` must be a complete checkpoint; {type(error).__name__}: {reason:.200}. Remove it."
        ) from None


def _take_up(run: Run, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    _load(run.model.network, tensors, "network.")
    run.best = {n.removeprefix("best."): v for n, v in tensors.items() if n.startswith("best.")}
    device = next(iter(run.parameters)).device
    run.averages = [tensors[f"average.{place}"].to(device) for place in range(len(run.averages))]
    if [v.shape for v in run.averages] not in ([], [v.shape for v in run.parameters]):
        raise ValueError("the means of the weights are not those of this network")
    own = run.model.network.state_dict()
    if {n: v.shape for n, v in run.best.items()} != {n: v.shape for n, v in own.items()}:
        raise ValueError("the best weights are not those of this network")
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, parameter, key = name.split(".")
            state.setdefault(int(parameter), {})[key] = value
    groups = run.optimizer.state_dict()["param_groups"]
    for place, parameter in enumerate(run.optimizer.param_groups[0]["params"]):
        shapes = {value.shape for key, value in state[place].items() if key != "step"}
        if shapes != {parameter.shape}:
            raise ValueError("the optimizer's state is not that of this network")
    run.optimizer.load_state_dict({"state": state, "param_groups": groups})
    run.sums, run.random_state = tensors["sums"], tensors["random_state"]
    torch.Generator().set_state(run.random_state)
    if run.sums.shape != (2,) or run.sums.dtype != torch.float64:
        raise ValueError("its sums are not two numbers")
    run.step, run.best_step, run.seconds = metadata["step"], metadata["best_step"], metadata["seconds"]
    run.multipliers = [
        Multipliers(m, p, math.inf if last is None else last) for m, p, last in metadata["multipliers"]
    ]
    run.evaluations = [Evaluation(**line) for line in metadata["evaluations"]]


def _load(network: nn.Module, tensors: dict[str, Tensor], prefix: str) -> None:
    network.load_state_dict({n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)})
