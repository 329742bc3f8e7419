"""FMI 3.0 for co-simulation; the types are declared here as the standard names them."""

from __future__ import annotations

import platform
import struct
import sys
from xml.sax.saxutils import quoteattr

from tether.export.fmu.standard import Standard, interface, sources
from tether.export.fmu.variables import Variables


def system() -> str:
    """What this platform is called."""
    arm = platform.machine().lower() in ("arm64", "aarch64")
    machine = "aarch64" if arm else {4: "x86", 8: "x86_64"}[struct.calcsize("P")]
    return f"{machine}-{ {'win32': 'windows', 'darwin': 'darwin'}.get(sys.platform, 'linux') }"


def description(variables: Variables, name: str, digest: str) -> str:
    """modelDescription.xml."""
    listed = "".join(
        f'    <Float64 name={quoteattr(own.name)} valueReference="{k}" {own.attributes}'
        f"{f' unit={quoteattr(own.unit)}' if own.unit else ''} description={quoteattr(own.text)}/>\n"
        for k, own in enumerate(variables.reals)
    )
    # A state is what it is, whatever the controls are now.
    states = "".join(f'    <Output valueReference="{k}" dependencies=""/>\n' for k in range(variables.states))
    outputs = "".join(f'    <Output valueReference="{k}"/>\n' for k in variables.computed)
    begun = "".join(f'    <InitialUnknown valueReference="{k}"/>\n' for k in variables.computed)
    defined = "".join(f"    <Unit name={quoteattr(unit)}/>\n" for unit in variables.units)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="3.0" modelName={quoteattr(name)} instantiationToken={quoteattr(digest)}
    generationTool="Tether" variableNamingConvention="flat">
  <CoSimulation modelIdentifier={quoteattr(name)} canHandleVariableCommunicationStepSize="true"
      providesDirectionalDerivatives="true" providesAdjointDerivatives="true"/>
  <UnitDefinitions>
{defined}  </UnitDefinitions>
  <DefaultExperiment stepSize="1"/>
  <ModelVariables>
{listed}    <Float64 name="time" valueReference="{variables.time}" causality="independent"
        variability="continuous" unit="s" description="Time."/>
    <Boolean name="in_domain" valueReference="{variables.inside}" causality="output" variability="discrete"
        initial="calculated" description="Whether the guarantee covers a step from here."/>
  </ModelVariables>
  <ModelStructure>
{states}{outputs}{begun}  </ModelStructure>
</fmiModelDescription>
"""


def build(variables: Variables, name: str, digest: str) -> str:
    """How the sources are compiled."""
    del variables, digest
    files = "".join(f"      <SourceFile name={quoteattr(part)}/>\n" for part in sources(name))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiBuildDescription fmiVersion="3.0">
  <BuildConfiguration modelIdentifier={quoteattr(name)}>
    <SourceFileSet language="C99">
{files}    </SourceFileSet>
  </BuildConfiguration>
</fmiBuildDescription>
"""


def functions(variables: Variables, name: str, digest: str) -> str:
    """The source file."""
    return interface(_CODE + _absent(), variables, name, digest)


_KINDS = "Float32 Int8 UInt8 Int16 UInt16 Int32 UInt32 Int64 UInt64 String"
_WHICH = "const fmi3ValueReference *"
_ABSENT: tuple[tuple[str, tuple[str, ...]], ...] = (
    *((f"Get{kind}", (_WHICH, "size_t", f"fmi3{kind} *", "size_t")) for kind in _KINDS.split()),
    *((f"Set{kind}", (_WHICH, "size_t", f"const fmi3{kind} *", "size_t")) for kind in _KINDS.split()),
    ("SetBoolean", (_WHICH, "size_t", "const fmi3Boolean *", "size_t")),
    ("GetBinary", (_WHICH, "size_t", "size_t *", "fmi3Binary *", "size_t")),
    ("SetBinary", (_WHICH, "size_t", "const size_t *", "const fmi3Binary *", "size_t")),
    ("GetClock", (_WHICH, "size_t", "fmi3Clock *")),
    ("SetClock", (_WHICH, "size_t", "const fmi3Clock *")),
    ("GetNumberOfVariableDependencies", ("fmi3ValueReference", "size_t *")),
    (
        "GetVariableDependencies",
        (
            "fmi3ValueReference",
            "size_t *",
            "fmi3ValueReference *",
            "size_t *",
            "fmi3DependencyKind *",
            "size_t",
        ),
    ),
    ("GetFMUState", ("fmi3FMUState *",)),
    ("SetFMUState", ("fmi3FMUState",)),
    ("FreeFMUState", ("fmi3FMUState *",)),
    ("SerializedFMUStateSize", ("fmi3FMUState", "size_t *")),
    ("SerializeFMUState", ("fmi3FMUState", "fmi3Byte *", "size_t")),
    ("DeserializeFMUState", ("const fmi3Byte *", "size_t", "fmi3FMUState *")),
    ("EnterConfigurationMode", ()),
    ("ExitConfigurationMode", ()),
    ("GetIntervalDecimal", (_WHICH, "size_t", "fmi3Float64 *", "fmi3IntervalQualifier *")),
    ("GetIntervalFraction", (_WHICH, "size_t", "fmi3UInt64 *", "fmi3UInt64 *", "fmi3IntervalQualifier *")),
    ("GetShiftDecimal", (_WHICH, "size_t", "fmi3Float64 *")),
    ("GetShiftFraction", (_WHICH, "size_t", "fmi3UInt64 *", "fmi3UInt64 *")),
    ("SetIntervalDecimal", (_WHICH, "size_t", "const fmi3Float64 *")),
    ("SetIntervalFraction", (_WHICH, "size_t", "const fmi3UInt64 *", "const fmi3UInt64 *")),
    ("SetShiftDecimal", (_WHICH, "size_t", "const fmi3Float64 *")),
    ("SetShiftFraction", (_WHICH, "size_t", "const fmi3UInt64 *", "const fmi3UInt64 *")),
    ("EvaluateDiscreteStates", ()),
    ("UpdateDiscreteStates", (*(("fmi3Boolean *",) * 5), "fmi3Float64 *")),
    ("EnterEventMode", ()),
    ("EnterStepMode", ()),
    ("GetOutputDerivatives", (_WHICH, "size_t", "const fmi3Int32 *", "fmi3Float64 *", "size_t")),
    ("EnterContinuousTimeMode", ()),
    ("CompletedIntegratorStep", ("fmi3Boolean", "fmi3Boolean *", "fmi3Boolean *")),
    ("SetTime", ("fmi3Float64",)),
    ("SetContinuousStates", ("const fmi3Float64 *", "size_t")),
    ("GetContinuousStateDerivatives", ("fmi3Float64 *", "size_t")),
    ("GetEventIndicators", ("fmi3Float64 *", "size_t")),
    ("GetContinuousStates", ("fmi3Float64 *", "size_t")),
    ("GetNominalsOfContinuousStates", ("fmi3Float64 *", "size_t")),
    ("GetNumberOfEventIndicators", ("size_t *",)),
    ("GetNumberOfContinuousStates", ("size_t *",)),
    ("ActivateModelPartition", ("fmi3ValueReference", "fmi3Float64")),
)
"""Functions that every FMU must have and this one has no use for, and what they take beside the instance."""


def _absent() -> str:
    """They refuse, but where they are asked for nothing."""
    parts = []
    for name, types in _ABSENT:
        given = "".join(f", {kind}{'' if kind.endswith('*') else ' '}a{k}" for k, kind in enumerate(types))
        unused = "".join(f"    (void)a{k};\n" for k in range(len(types)))
        why = '"this FMU has nothing of the kind."'
        if types[:2] == (_WHICH, "size_t"):
            why = f"a1 ? {why} : NULL"
        parts.append(
            f"FMI fmi3Status fmi3{name}(fmi3Instance c{given})\n{{\n{unused}    return ended(c, {why});\n}}\n"
        )
    return "\n" + "".join(parts)


_CODE = """/* FMI 3.0 for co-simulation around @.c. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
SHARED
typedef void *fmi3Instance;
typedef void *fmi3InstanceEnvironment;
typedef void *fmi3FMUState;
typedef uint32_t fmi3ValueReference;
typedef float fmi3Float32;
typedef double fmi3Float64;
typedef int8_t fmi3Int8;
typedef uint8_t fmi3UInt8;
typedef int16_t fmi3Int16;
typedef uint16_t fmi3UInt16;
typedef int32_t fmi3Int32;
typedef uint32_t fmi3UInt32;
typedef int64_t fmi3Int64;
typedef uint64_t fmi3UInt64;
typedef bool fmi3Boolean;
typedef bool fmi3Clock;
typedef char fmi3Char;
typedef uint8_t fmi3Byte;
typedef const fmi3Char *fmi3String;
typedef const fmi3Byte *fmi3Binary;
typedef enum { fmi3OK, fmi3Warning, fmi3Discard, fmi3Error, fmi3Fatal } fmi3Status;
typedef enum {
    fmi3Independent, fmi3Constant, fmi3Fixed, fmi3Tunable, fmi3Discrete, fmi3Dependent
} fmi3DependencyKind;
typedef enum { fmi3IntervalNotYetKnown, fmi3IntervalUnchanged, fmi3IntervalChanged } fmi3IntervalQualifier;
typedef void (*fmi3LogMessageCallback)(fmi3InstanceEnvironment, fmi3Status, fmi3String, fmi3String);
typedef void (*fmi3ClockUpdateCallback)(fmi3InstanceEnvironment);
typedef void (*fmi3IntermediateUpdateCallback)(fmi3InstanceEnvironment, fmi3Float64, fmi3Boolean, fmi3Boolean,
                                               fmi3Boolean, fmi3Boolean, fmi3Boolean *, fmi3Float64 *);
typedef void (*fmi3LockPreemptionCallback)(void);
typedef void (*fmi3UnlockPreemptionCallback)(void);

struct instance {
    struct model model;
    fmi3InstanceEnvironment environment;
    fmi3LogMessageCallback log;
};

static struct model *model(fmi3Instance c) { return &((struct instance *)c)->model; }

/* Says why it is refused, if it is. */
static fmi3Status ended(fmi3Instance c, const char *why)
{
    const struct instance *own = (const struct instance *)c;
    if (why && own->log) own->log(own->environment, fmi3Error, "error", why);
    return why ? fmi3Error : fmi3OK;
}

FMI const char *fmi3GetVersion(void) { return "3.0"; }

FMI fmi3Status fmi3SetDebugLogging(fmi3Instance c, fmi3Boolean on, size_t n, const fmi3String *names)
{
    (void)c;
    (void)on;
    (void)n;
    (void)names;
    return fmi3OK;
}

FMI fmi3Instance fmi3InstantiateCoSimulation(
    fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible, fmi3Boolean logging,
    fmi3Boolean events, fmi3Boolean early, const fmi3ValueReference *intermediate, size_t count,
    fmi3InstanceEnvironment environment, fmi3LogMessageCallback log, fmi3IntermediateUpdateCallback update)
{
    struct instance *own;
    (void)name;
    (void)resources;
    (void)visible;
    (void)logging;
    (void)early;
    (void)intermediate;
    (void)count;
    (void)update;
    if (events || !token || strcmp(token, "DIGEST") != 0) return NULL;
    own = (struct instance *)malloc(sizeof(struct instance));
    if (!own) return NULL;
    own->environment = environment;
    own->log = log;
    reset(&own->model);
    return own;
}

FMI fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources,
                                              fmi3Boolean visible, fmi3Boolean logging,
                                              fmi3InstanceEnvironment environment, fmi3LogMessageCallback log)
{
    (void)name;
    (void)token;
    (void)resources;
    (void)visible;
    (void)logging;
    (void)environment;
    (void)log;
    return NULL;
}

FMI fmi3Instance fmi3InstantiateScheduledExecution(
    fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible, fmi3Boolean logging,
    fmi3InstanceEnvironment environment, fmi3LogMessageCallback log, fmi3ClockUpdateCallback update,
    fmi3LockPreemptionCallback lock, fmi3UnlockPreemptionCallback unlock)
{
    (void)update;
    (void)lock;
    (void)unlock;
    return fmi3InstantiateModelExchange(name, token, resources, visible, logging, environment, log);
}

FMI void fmi3FreeInstance(fmi3Instance c) { free(c); }

FMI fmi3Status fmi3EnterInitializationMode(fmi3Instance c, fmi3Boolean has_tolerance, fmi3Float64 tolerance,
                                           fmi3Float64 start, fmi3Boolean has_end, fmi3Float64 end)
{
    (void)has_tolerance;
    (void)tolerance;
    (void)has_end;
    (void)end;
    model(c)->reals[TIME] = start;
    return fmi3OK;
}

FMI fmi3Status fmi3ExitInitializationMode(fmi3Instance c) { return ended(c, begin(model(c))); }

FMI fmi3Status fmi3Terminate(fmi3Instance c)
{
    (void)c;
    return fmi3OK;
}

FMI fmi3Status fmi3Reset(fmi3Instance c)
{
    reset(model(c));
    return fmi3OK;
}

#define UNEQUAL "there must be as many numbers as variables."
FMI fmi3Status fmi3GetFloat64(fmi3Instance c, const fmi3ValueReference *which, size_t n, fmi3Float64 *values,
                              size_t count)
{
    return ended(c, n == count ? get(model(c), which, n, values) : UNEQUAL);
}

FMI fmi3Status fmi3SetFloat64(fmi3Instance c, const fmi3ValueReference *which, size_t n,
                              const fmi3Float64 *values, size_t count)
{
    return ended(c, n == count ? set(model(c), which, n, values) : UNEQUAL);
}

FMI fmi3Status fmi3GetBoolean(fmi3Instance c, const fmi3ValueReference *which, size_t n, fmi3Boolean *values,
                              size_t count)
{
    size_t k;
    if (n != count) return ended(c, UNEQUAL);
    for (k = 0; k < n; ++k) {
        if (which[k] != INSIDE) return ended(c, "there is no such Boolean to read.");
        refresh(model(c));
        values[k] = model(c)->inside != 0;
    }
    return fmi3OK;
}

FMI fmi3Status fmi3GetDirectionalDerivative(
    fmi3Instance c, const fmi3ValueReference *unknown, size_t unknowns, const fmi3ValueReference *known,
    size_t knowns, const fmi3Float64 *seeds, size_t count, fmi3Float64 *values, size_t most)
{
    if (count != knowns || most != unknowns) return ended(c, UNEQUAL);
    return ended(c, derive(model(c), unknown, unknowns, known, knowns, seeds, values, 0));
}

FMI fmi3Status fmi3GetAdjointDerivative(
    fmi3Instance c, const fmi3ValueReference *unknown, size_t unknowns, const fmi3ValueReference *known,
    size_t knowns, const fmi3Float64 *seeds, size_t count, fmi3Float64 *values, size_t most)
{
    if (count != unknowns || most != knowns) return ended(c, UNEQUAL);
    return ended(c, derive(model(c), unknown, unknowns, known, knowns, seeds, values, 1));
}

FMI fmi3Status fmi3DoStep(fmi3Instance c, fmi3Float64 time, fmi3Float64 length, fmi3Boolean unrepeated,
                          fmi3Boolean *event, fmi3Boolean *stop, fmi3Boolean *early, fmi3Float64 *reached)
{
    const char *why = advance(model(c), time, length);
    (void)unrepeated;
    *event = *stop = *early = false;
    *reached = why ? time : time + length;
    return ended(c, why);
}

/* What there is nothing of here. */"""

FMI3 = Standard(
    {
        "modelDescription.xml": description,
        "sources/@_fmu.c": functions,
        "sources/buildDescription.xml": build,
    },
    system,
)
