"""What a case study is: data, a trusted model, the runs of its tables, its own measurements and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from importlib.util import find_spec
from types import FunctionType
from typing import Any, Literal

from tether.claims.rollout import Step
from tether.data import Array, Probes, Transitions
from tether.fitting import Built, Fit, FitConfig, Method, Problem
from tether.foundation.progress import Reporter
from tether.report.page import Section
from tether.trusted import TrustedModel

Scale = Literal["smoke", "paper"]
Builder = Callable[[Problem, FitConfig, Reporter], Built]
"""Of a tether."""


@dataclass(frozen=True, eq=False)
class StudyData:
    """D and Ω of one seed."""

    transitions: Transitions
    probes: Probes


@dataclass(frozen=True, eq=False)
class Recast:
    """The same rows, said in other outputs that suit a method better; inputs and order of rows stay.

    Attributes:
        data: D and Ω in the other outputs.
        trusted: M in them.
        restore: a step of the study's own outputs, from one of the others.
    """

    data: Callable[[StudyData], StudyData]
    trusted: TrustedModel
    restore: Callable[[Step], Step]


@dataclass(frozen=True)
class Entry:
    """One row of a study's tables, for every seed: a method and how it is fitted.

    Attributes:
        method: tether or none, and the loss.
        memories: for a method with cells.
        changes: fields of :class:`FitConfig` in which it differs from the study's.
        steps: gradient steps.
        training: fields of its :class:`tether.learning.config.TrainingConfig` in which it differs.
        build: a tether of the study's own making; None: the library builds that of `method`.
        noise: standard deviation, in units of an input's scale and by its name, of what is added to the
            network's features while it trains, so that it leans less on an input that M explains.
        recast: name of the outputs in which it is fitted, where they are not the study's own. Its losses
            and the study's measurements are of the study's own all the same.
        seeds: on how many of the seeds it is run, the first ones; None: on all.
    """

    method: Method
    steps: int
    memories: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    build: Builder | None = None
    noise: Mapping[str, float] = field(default_factory=dict)
    recast: str | None = None
    seeds: int | None = None

    @property
    def settings(self) -> str:
        """What it was asked for, in words: a finished run of other settings is not this one."""
        return _described(replace(self, seeds=None))

    @property
    def name(self) -> str:
        """As the tables print it."""
        return f"{self.method.name} ({self.memories})" if self.memories else self.method.name

    def config(self, base: FitConfig, seed: int) -> FitConfig:
        """The settings of this run."""
        training = replace(base.training, steps=self.steps, **self.training)
        config = replace(base, seed=seed, training=training, **self.changes)
        return replace(config, memories=self.memories) if self.memories else config


def _described(value: Any) -> str:
    """The representation of `value`, without fields left at their defaults: new ones change nothing."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_described(item)}' for key, item in value.items())}}}"
    if isinstance(value, FunctionType):
        return value.__qualname__
    if not is_dataclass(value):
        return repr(value)
    told = []
    for each in fields(value):
        own = getattr(value, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if own != default:
            told.append(f"{each.name}={_described(own)}")
    return f"{type(value).__name__}({', '.join(told)})"


def no_rows(scale: Scale) -> tuple[Entry, ...]:
    """Of a study without a matrix."""
    del scale
    return ()


@dataclass(frozen=True, eq=False)
class Measured:
    """What a study measures of one model besides the losses.

    Attributes:
        values: further keys of the run's entry in ``results.json``.
        arrays: what figures are drawn from.
    """

    values: dict[str, float]
    arrays: dict[str, Array]


@dataclass(frozen=True)
class Claim:
    """A verdict: what was said, what was measured, and whether it holds."""

    said: str
    measured: str
    holds: bool


@dataclass(frozen=True, eq=False)
class Outcome:
    """What all runs of a study left behind.

    Attributes:
        scale: of the data and runs.
        runs: entries of ``results.json``.
        arrays: by name of the method and seed, what :class:`Measured` holds.
        options: the study's own, as they were asked for.
        data: D and Ω by seed.
    """

    scale: Scale
    runs: Sequence[dict[str, Any]]
    arrays: Mapping[tuple[str, int], Mapping[str, Array]]
    options: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[int, StudyData] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A case study.

    Attributes:
        name: on the command line.
        title: of its report.
        simulate: D and Ω, by scale, seed and the study's own options.
        trusted: M, which may be fitted to the training part of D.
        config: settings shared by all runs.
        entries: the runs, for each seed.
        measure: the study's own measurements of ``predict``.
        headings: of the columns these add to the tables.
        sections: the study's own figures.
        claims: verdicts.
        options: help text of the study's own options, by name.
        check: raises ValueError where values of these options make no sense; called before anything is run.
        needs: the package that simulates, as it is imported, and what pip installs it by.
        recasts: other outputs in which entries may be fitted, by name.
        inspect: measurements that need more of a fit than its predictions, such as its limits; given the
            problem it was fitted to, and the scale.
        variant: the study that its options ask for, where it is another one: of the authors' data, say; None
            where it is this one.
        matrix: those of the entries that every study has.
        searched: the same as they are before anything was chosen for them: what a search begins with.
        shares: of a row's steps that the search tries.
        authors: options with which the data are the authors', or like theirs, where that needs no files.
    """

    name: str
    title: str
    simulate: Callable[[Scale, int, Mapping[str, str], Reporter], StudyData]
    trusted: Callable[[StudyData, FitConfig], TrustedModel]
    config: Callable[[Scale], FitConfig]
    entries: Callable[[Scale], tuple[Entry, ...]]
    measure: Callable[[Problem, Step], Measured]
    headings: Mapping[str, str]
    sections: Callable[[Outcome], list[Section]]
    claims: Callable[[Outcome], list[Claim]]
    options: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Mapping[str, str]], None] | None = None
    needs: tuple[str, str] | None = None
    recasts: Mapping[str, Recast] = field(default_factory=dict)
    inspect: Callable[[Problem, Fit, Scale], Measured] | None = None
    variant: Callable[[Mapping[str, str]], Study | None] | None = None
    matrix: Callable[[Scale], tuple[Entry, ...]] = no_rows
    searched: Callable[[Scale], tuple[Entry, ...]] = no_rows
    shares: tuple[float, ...] = (1.0,)
    authors: Mapping[str, str] = field(default_factory=dict)

    def with_options(self, options: Mapping[str, str]) -> Study:
        """The study that these options ask for."""
        return (self.variant(options) if self.variant else None) or self

    def check_installed(self) -> None:
        """Raises ValueError where the simulator is missing: said once, not by every run."""
        if self.needs is not None and find_spec(self.needs[0]) is None:
            package, requirement = self.needs
            raise ValueError(
                f"the study '{self.name}' must have the package {package}; it is not installed. "
                f"Run `pip install {requirement}`."
            )

    def check_options(self, options: Mapping[str, str]) -> None:
        """Raises ValueError for an option that the study does not have, or a value that makes no sense."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            known = ", ".join(f"`--{name}`" for name in self.options) or "none"
            raise ValueError(
                f"options of the study '{self.name}' must be among its own ({known}); got `--{unknown[0]}`."
            )
        if self.check is not None:
            self.check(options)
