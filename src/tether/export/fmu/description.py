"""modelDescription.xml: the variables of an FMU, in the order of their value references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from xml.sax.saxutils import quoteattr

from tether.data import Schema


@dataclass(frozen=True)
class Variable:
    """A real variable: its name, unit, what it is to others, and what is said of it."""

    name: str
    unit: str
    attributes: str
    text: str


@dataclass(frozen=True)
class Variables:
    """States, controls, then by state `next`, `lower`, `upper`, `delta`, then the step; and one Boolean."""

    schema: Schema

    @cached_property
    def reals(self) -> tuple[Variable, ...]:
        """All numbers; the place of one is its value reference."""
        return tuple(self._distinct(self._all()))

    def _all(self) -> Iterator[Variable]:
        schema = self.schema
        exact = 'causality="output" variability="continuous" initial="exact" start="0"'
        given = 'causality="input" variability="continuous" start="0"'
        found = 'causality="output" variability="continuous" initial="calculated"'
        for name in schema.states:
            yield Variable(name, schema.unit(name), exact, "State.")
        for name in schema.controls:
            yield Variable(name, schema.unit(name), given, "Control.")
        words = {
            "next": "What it will be after a step from here.",
            "lower": "The least that it may be then.",
            "upper": "The greatest that it may be then.",
            "delta": "How far it will be from the trusted model at most; infinite outside the domain.",
        }
        for word, text in words.items():
            for name in schema.states:
                yield Variable(f"{word}_{name}", schema.unit(name), found, text)
        step = 'causality="parameter" variability="fixed" initial="exact" start="1"'
        yield Variable("step", "s", step, "How long one step of the model is.")

    def _distinct(self, variables: Iterator[Variable]) -> Iterator[Variable]:
        taken = {"in_domain", "time"}
        for own in variables:
            name = " ".join(own.name.split()) or "_"
            while name in taken:
                name += "_"
            taken.add(name)
            yield Variable(name, own.unit, own.attributes, own.text)

    @property
    def states(self) -> int:
        """How many there are."""
        return len(self.schema.states)

    @property
    def controls(self) -> int:
        """How many there are."""
        return len(self.schema.controls)

    @property
    def step(self) -> int:
        """The value reference of the step."""
        return len(self.reals) - 1


def description(variables: Variables, name: str, guid: str, sources: Sequence[str]) -> str:
    """The whole document."""
    reals = variables.reals
    states, controls = variables.states, variables.controls
    units = sorted({own.unit for own in reals if own.unit})
    listed = "".join(
        f"    <ScalarVariable name={quoteattr(own.name)} valueReference={_number(k)} "
        f"{own.attributes.partition(' start=')[0]} description={quoteattr(own.text)}>"
        f"<Real{_unit(own.unit)}{_start(own.attributes)}/></ScalarVariable>\n"
        for k, own in enumerate(reals)
    )
    inside = (
        f"    <ScalarVariable name={quoteattr('in_domain')} valueReference={_number(0)} "
        'causality="output" variability="discrete" initial="calculated" '
        'description="Whether the guarantee covers a step from here."><Boolean/></ScalarVariable>\n'
    )
    first = states + controls + 1
    unknown = [*range(first, first + 4 * states), len(reals) + 1]
    outputs = "".join(
        f'      <Unknown index="{k}"{_none(k <= states)}/>\n' for k in [*range(1, states + 1), *unknown]
    )
    begun = "".join(f'      <Unknown index="{k}"/>\n' for k in unknown)
    files = "".join(f"      <File name={quoteattr(part)}/>\n" for part in sources)
    defined = "".join(f"    <Unit name={quoteattr(unit)}/>\n" for unit in units)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="2.0" modelName={quoteattr(name)} guid={quoteattr(guid)}
    generationTool="Tether" variableNamingConvention="flat">
  <CoSimulation modelIdentifier={quoteattr(name)} canHandleVariableCommunicationStepSize="true"
      providesDirectionalDerivative="true">
    <SourceFiles>
{files}    </SourceFiles>
  </CoSimulation>
  <UnitDefinitions>
{defined}  </UnitDefinitions>
  <DefaultExperiment stepSize="1"/>
  <ModelVariables>
{listed}{inside}  </ModelVariables>
  <ModelStructure>
    <Outputs>
{outputs}    </Outputs>
    <InitialUnknowns>
{begun}    </InitialUnknowns>
  </ModelStructure>
</fmiModelDescription>
"""


def _number(value: int) -> str:
    return f'"{value}"'


def _unit(unit: str) -> str:
    return f" unit={quoteattr(unit)}" if unit else ""


def _start(attributes: str) -> str:
    _, found, value = attributes.partition("start=")
    return f" start={value}" if found else ""


def _none(constant: bool) -> str:
    """Of a state: it is what it is, whatever the controls are now."""
    return ' dependencies=""' if constant else ""
