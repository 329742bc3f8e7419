"""Where pieces of work are done: here, in processes of this machine, or on a Dask cluster.

Work is cut by its size, never by the number of workers, and comes back in order: what is made of it is the
same, bit by bit, wherever it was done. A worker that is killed loses what it was doing, which is done again.
"""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, TypeVar

import cloudpickle
import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend

from tether.foundation.errors import ClusterError
from tether.foundation.extras import installing

Result = TypeVar("Result")
Piece = tuple[Any, ...]
"""Arguments of a function."""

_ATTEMPTS = 3
"""Times that processes may end in a row before the piece that they were given is blamed."""
_CONNECT_SECONDS = 10
_MOST_AHEAD = 1024
"""Pieces that a cluster is given before the first of them is back."""


class Executor(ABC):
    """Does pieces of work."""

    @abstractmethod
    def map(self, function: Callable[..., Result], pieces: Iterable[Piece]) -> Iterator[Result]:
        """What a function makes of each piece, in their order.

        Args:
            function: pure, because a piece may be done twice; sent to each worker once, with what it holds.
            pieces: its arguments.
        """


class Inline(Executor):
    """In this process, one piece after the other."""

    def map(self, function: Callable[..., Result], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Each when it is asked for."""
        return (function(*piece) for piece in pieces)


class Processes(Executor):
    """In processes of this machine; another backend of joblib takes their place by `joblib.parallel_config`.

    Args:
        jobs: how many, as joblib counts them (-1: all cores).
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def map(self, function: Callable[..., Result], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Where a process ends, all goes on from the first piece that is not back yet."""
        waiting, failures = list(pieces), 0
        while waiting:
            back = 0
            try:
                for result in self._run(function, waiting):
                    back += 1
                    yield result
                return
            except TerminatedWorkerError:
                failures = 1 if back else failures + 1
                if failures == _ATTEMPTS:
                    raise ClusterError(_blame(f"{failures} processes")) from None
                del waiting[:back]

    def _run(self, function: Callable[..., Result], pieces: list[Piece]) -> Iterator[Result]:
        # Sent as they are: Numba would compile anew for arrays that joblib had mapped read-only.
        # Ray's backend gives all results at once or none.
        backend: Any = get_active_backend()[0]
        returned = "generator" if backend.supports_return_generator else "list"
        settings: Any = {"return_as": returned, "max_nbytes": None, "batch_size": 1}
        parallel = joblib.Parallel(n_jobs=self.jobs, **settings)
        found: Any = parallel(joblib.delayed(function)(*piece) for piece in pieces)
        return found


class Cluster(Executor):
    """On the workers of a Dask cluster.

    Args:
        client: of `dask.distributed`.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return str(getattr(self.client.scheduler, "address", "the scheduler"))

    def map(self, function: Callable[..., Result], pieces: Iterable[Piece]) -> Iterator[Result]:
        """A worker that ends costs the piece it had, which another does again."""
        from distributed import KilledWorker

        waiting, ahead, done = iter(pieces), [], 0
        try:
            sent = self._submit(_unpacked, _packed(function))
            while True:
                for piece in islice(waiting, max(0, self._window() - len(ahead))):
                    ahead.append(self._submit(_done, sent, piece))
                if not ahead:
                    return
                result = ahead[0].result()
                done += 1
                del ahead[0]  # so that the cluster forgets it
                yield result
        except KilledWorker:
            raise ClusterError(_blame("several workers")) from None
        except (CancelledError, OSError) as error:
            if isinstance(error, OSError) and self.client.status == "running":
                raise  # of the function's own making
            raise ClusterError(
                f"`scheduler` must stay reachable; {self.address} was lost after {done} pieces. Start it "
                "again and give the same command, a fit with `--resume`: it goes on where it was."
            ) from None

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with warnings.catch_warnings():
            # Of its size: a model with many leaves is large, and goes over once.
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.client.submit(function, *arguments, pure=False)

    def _window(self) -> int:
        """Enough for every worker to have the next piece when it is done with one."""
        threads = sum(worker["nthreads"] for worker in self.client.scheduler_info(-1)["workers"].values())
        return min(2 * threads + 2, _MOST_AHEAD)


def _blame(times: str) -> str:
    return (
        f"a piece of work must not end the process that does it; {times} ended in a row. Is there memory "
        "enough, and does the trusted model leave Python?"
    )


def _packed(function: Callable[..., Any]) -> bytes:
    try:
        return cloudpickle.dumps(function)
    except Exception as error:  # of whatever kind the object that stays behind likes
        raise TypeError(
            f"`trusted` must be able to travel to the workers of a cluster; {type(error).__name__}: {error}. "
            "Make what it holds inside the function."
        ) from None


def _unpacked(packed: bytes) -> Any:
    """On a worker, once: a task and no plain data, so that it is done again where all who have it end."""
    return cloudpickle.loads(packed)


def _done(function: Callable[..., Any], piece: Piece) -> Any:
    return function(*piece)


_here = Inline()
_current: ContextVar[Executor] = ContextVar("executor", default=_here)


def current() -> Executor:
    """Where work is done that can be spread."""
    return _current.get()


def in_processes(jobs: int) -> Executor:
    """The cluster in use; without one, so many processes."""
    cluster = current()
    return cluster if cluster is not _here else _here if jobs == 1 else Processes(jobs)


def is_spread() -> bool:
    """Whether a cluster is in use."""
    return current() is not _here


@contextmanager
def spread_over(client: Any | None) -> Iterator[None]:
    """Has work inside done by a Dask client, or by the scheduler at an address; None: as it would be."""
    if client is None:
        yield
    elif isinstance(client, str):
        with _connected(client) as connected, spread_over(connected):
            yield
    else:
        _check_client(client)
        token = _current.set(Cluster(client))
        try:
            yield
        finally:
            _current.reset(token)


def _check_client(client: Any) -> None:
    if not all(hasattr(client, name) for name in ("submit", "scheduler_info", "scheduler")):
        raise TypeError(
            f"`client` must be a Dask client or the address of a scheduler; got {type(client).__name__}."
        )


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """A client of the scheduler there, which must have a worker."""
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(
            f"`scheduler` must have dask.distributed; it is not installed. Run {installing('distributed')}."
        ) from None
    # What goes wrong is said here, in a line; Dask would say it in dozens.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise ClusterError(
            f"`scheduler` must be the address of a Dask scheduler that runs; got '{address}' "
            f"({type(error).__name__}). Start one with `dask scheduler`."
        ) from None
    try:
        try:
            client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except TimeoutError:
            raise ClusterError(
                f"`scheduler` must have workers; {address} has none. Start one with `dask worker {address}`."
            ) from None
        yield client
    finally:
        client.close(timeout=1)
