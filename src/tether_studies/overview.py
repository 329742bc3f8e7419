"""How far the runs of one or several studies are: what is done, what runs, how long it will take."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tether_studies.tasks import Task


@dataclass(frozen=True)
class Overview:
    """A glance at a number of tasks.

    Attributes:
        studies: by name, how many tasks are done, have failed, and exist.
        running: names of the tasks that run, and what share of each is done.
        share: of all work, estimated by steps and widths of the networks.
        seconds_left: at the pace so far, None before there is one.
    """

    studies: dict[str, tuple[int, int, int]]
    running: tuple[tuple[str, float], ...]
    share: float
    seconds_left: float | None


class Watcher:
    """Looks at the files that tasks leave; what was seen done is not read again."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._waiting = list(tasks)
        self._done: list[Task] = []
        self._began = time.monotonic()
        self._first: float | None = None

    def look(self) -> Overview:
        """How things stand."""
        finished = [task.done for task in self._waiting]
        self._done += [task for task, done in zip(self._waiting, finished, strict=True) if done]
        self._waiting = [task for task, done in zip(self._waiting, finished, strict=True) if not done]
        failed = [task for task in self._waiting if task.failure.exists()]
        shares = [(task, _share(task)) for task in self._waiting if not task.failure.exists()]
        running = [(task, share) for task, share in shares if share is not None]
        everything = self._done + self._waiting
        done = _work(self._done + failed) + sum(task.work * share for task, share in running)
        share = done / max(_work(everything), 1.0)
        counts = [Counter(task.study for task in some) for some in (self._done, failed, everything)]
        return Overview(
            {name: (counts[0][name], counts[1][name], total) for name, total in counts[2].items()},
            tuple((task.name, share) for task, share in running),
            share,
            self._seconds_left(share),
        )

    def _seconds_left(self, share: float) -> float | None:
        if self._first is None:
            self._first = share
        gained = share - self._first
        return (time.monotonic() - self._began) * (1 - share) / gained if gained > 0 else None


def _work(tasks: Sequence[Task]) -> float:
    return sum(task.work for task in tasks)


def _share(task: Task) -> float | None:
    """What a running task says of itself; None where it says nothing, or is just writing."""
    try:
        return float(json.loads(task.progress.read_text(encoding="utf-8"))["share"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
