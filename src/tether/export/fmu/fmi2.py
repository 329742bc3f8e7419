"""FMI 2.0 for co-simulation; the types are declared here as the standard names them."""

from __future__ import annotations

import platform
import struct
import sys
from xml.sax.saxutils import quoteattr

from tether.export.fmu.standard import Standard, interface, sources
from tether.export.fmu.variables import Variables


def system() -> str:
    """What this platform is called."""
    own = {"win32": "win", "darwin": "darwin"}.get(sys.platform, "linux") + str(8 * struct.calcsize("P"))
    if platform.machine().lower() in ("arm64", "aarch64"):
        return {"linux64": "aarch64-linux"}.get(own, own)
    return own


def description(variables: Variables, name: str, digest: str) -> str:
    """modelDescription.xml."""
    reals, states = variables.reals, variables.states
    listed = "".join(
        f"    <ScalarVariable name={quoteattr(own.name)} valueReference={_number(k)} "
        f"{own.attributes.partition(' start=')[0]} description={quoteattr(own.text)}>"
        f"<Real{_unit(own.unit)}{_start(own.attributes)}/></ScalarVariable>\n"
        for k, own in enumerate(reals)
    )
    inside = (
        f"    <ScalarVariable name={quoteattr('in_domain')} valueReference={_number(variables.inside)} "
        'causality="output" variability="discrete" initial="calculated" '
        'description="Whether the guarantee covers a step from here."><Boolean/></ScalarVariable>\n'
    )
    # Places are counted from 1; the time is not listed.
    unknown = [k + 1 if k < len(reals) else len(reals) + 1 for k in variables.computed]
    outputs = "".join(
        f'      <Unknown index="{k}"{_none(k <= states)}/>\n' for k in [*range(1, states + 1), *unknown]
    )
    begun = "".join(f'      <Unknown index="{k}"/>\n' for k in unknown)
    files = "".join(f"      <File name={quoteattr(part)}/>\n" for part in sources(name))
    defined = "".join(f"    <Unit name={quoteattr(unit)}/>\n" for unit in variables.units)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="2.0" modelName={quoteattr(name)} guid={quoteattr(digest)}
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


def functions(variables: Variables, name: str, digest: str) -> str:
    """The source file."""
    return interface(_CODE, variables, name, digest)


_CODE = """/* FMI 2.0 for co-simulation around @.c. */
SHARED
typedef void *fmi2Component;
typedef void *fmi2ComponentEnvironment;
typedef void *fmi2FMUstate;
typedef unsigned int fmi2ValueReference;
typedef double fmi2Real;
typedef int fmi2Integer;
typedef int fmi2Boolean;
typedef char fmi2Char;
typedef char fmi2Byte;
typedef const fmi2Char *fmi2String;
typedef enum { fmi2OK, fmi2Warning, fmi2Discard, fmi2Error, fmi2Fatal, fmi2Pending } fmi2Status;
typedef enum { fmi2ModelExchange, fmi2CoSimulation } fmi2Type;
typedef int fmi2StatusKind;
typedef struct {
    void (*logger)(fmi2ComponentEnvironment, fmi2String, fmi2Status, fmi2String, fmi2String, ...);
    void *(*allocateMemory)(size_t, size_t);
    void (*freeMemory)(void *);
    void (*stepFinished)(fmi2ComponentEnvironment, fmi2Status);
    fmi2ComponentEnvironment componentEnvironment;
} fmi2CallbackFunctions;

enum { NAMED = 100 };
struct instance {
    struct model model;
    char name[NAMED];
    const fmi2CallbackFunctions *functions;
};

static struct model *model(fmi2Component c) { return &((struct instance *)c)->model; }

/* Says why it is refused, if it is. */
static fmi2Status ended(fmi2Component c, const char *why)
{
    const struct instance *own = (const struct instance *)c;
    const fmi2CallbackFunctions *to = own->functions;
    if (why && to && to->logger)
        to->logger(to->componentEnvironment, own->name, fmi2Error, "error", "%s", why);
    return why ? fmi2Error : fmi2OK;
}

FMI const char *fmi2GetTypesPlatform(void);
FMI const char *fmi2GetVersion(void);
FMI fmi2Status fmi2SetDebugLogging(fmi2Component, fmi2Boolean, size_t, const fmi2String[]);
FMI fmi2Component fmi2Instantiate(fmi2String, fmi2Type, fmi2String, fmi2String, const fmi2CallbackFunctions *,
                                  fmi2Boolean, fmi2Boolean);
FMI void fmi2FreeInstance(fmi2Component);
FMI fmi2Status fmi2SetupExperiment(fmi2Component, fmi2Boolean, fmi2Real, fmi2Real, fmi2Boolean, fmi2Real);
FMI fmi2Status fmi2EnterInitializationMode(fmi2Component);
FMI fmi2Status fmi2ExitInitializationMode(fmi2Component);
FMI fmi2Status fmi2Terminate(fmi2Component);
FMI fmi2Status fmi2Reset(fmi2Component);
FMI fmi2Status fmi2GetReal(fmi2Component, const fmi2ValueReference[], size_t, fmi2Real[]);
FMI fmi2Status fmi2GetInteger(fmi2Component, const fmi2ValueReference[], size_t, fmi2Integer[]);
FMI fmi2Status fmi2GetBoolean(fmi2Component, const fmi2ValueReference[], size_t, fmi2Boolean[]);
FMI fmi2Status fmi2GetString(fmi2Component, const fmi2ValueReference[], size_t, fmi2String[]);
FMI fmi2Status fmi2SetReal(fmi2Component, const fmi2ValueReference[], size_t, const fmi2Real[]);
FMI fmi2Status fmi2SetInteger(fmi2Component, const fmi2ValueReference[], size_t, const fmi2Integer[]);
FMI fmi2Status fmi2SetBoolean(fmi2Component, const fmi2ValueReference[], size_t, const fmi2Boolean[]);
FMI fmi2Status fmi2SetString(fmi2Component, const fmi2ValueReference[], size_t, const fmi2String[]);
FMI fmi2Status fmi2GetFMUstate(fmi2Component, fmi2FMUstate *);
FMI fmi2Status fmi2SetFMUstate(fmi2Component, fmi2FMUstate);
FMI fmi2Status fmi2FreeFMUstate(fmi2Component, fmi2FMUstate *);
FMI fmi2Status fmi2SerializedFMUstateSize(fmi2Component, fmi2FMUstate, size_t *);
FMI fmi2Status fmi2SerializeFMUstate(fmi2Component, fmi2FMUstate, fmi2Byte[], size_t);
FMI fmi2Status fmi2DeSerializeFMUstate(fmi2Component, const fmi2Byte[], size_t, fmi2FMUstate *);
FMI fmi2Status fmi2GetDirectionalDerivative(fmi2Component, const fmi2ValueReference[], size_t,
                                            const fmi2ValueReference[], size_t, const fmi2Real[], fmi2Real[]);
FMI fmi2Status fmi2SetRealInputDerivatives(fmi2Component, const fmi2ValueReference[], size_t,
                                           const fmi2Integer[], const fmi2Real[]);
FMI fmi2Status fmi2GetRealOutputDerivatives(fmi2Component, const fmi2ValueReference[], size_t,
                                            const fmi2Integer[], fmi2Real[]);
FMI fmi2Status fmi2DoStep(fmi2Component, fmi2Real, fmi2Real, fmi2Boolean);
FMI fmi2Status fmi2CancelStep(fmi2Component);
FMI fmi2Status fmi2GetStatus(fmi2Component, const fmi2StatusKind, fmi2Status *);
FMI fmi2Status fmi2GetRealStatus(fmi2Component, const fmi2StatusKind, fmi2Real *);
FMI fmi2Status fmi2GetIntegerStatus(fmi2Component, const fmi2StatusKind, fmi2Integer *);
FMI fmi2Status fmi2GetBooleanStatus(fmi2Component, const fmi2StatusKind, fmi2Boolean *);
FMI fmi2Status fmi2GetStringStatus(fmi2Component, const fmi2StatusKind, fmi2String *);

const char *fmi2GetTypesPlatform(void) { return "default"; }
const char *fmi2GetVersion(void) { return "2.0"; }

fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean on, size_t n, const fmi2String names[])
{
    (void)c;
    (void)on;
    (void)n;
    (void)names;
    return fmi2OK;
}

fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String resources,
                              const fmi2CallbackFunctions *functions, fmi2Boolean visible,
                              fmi2Boolean logging)
{
    struct instance *own;
    (void)resources;
    (void)visible;
    (void)logging;
    if (type != fmi2CoSimulation || !guid || strcmp(guid, "DIGEST") != 0) return NULL;
    if (!functions || !functions->allocateMemory || !functions->freeMemory) return NULL;
    own = (struct instance *)functions->allocateMemory(1, sizeof(struct instance));
    if (!own) return NULL;
    own->functions = functions;
    strncpy(own->name, name ? name : "", NAMED - 1);
    own->name[NAMED - 1] = 0;
    reset(&own->model);
    return own;
}

void fmi2FreeInstance(fmi2Component c)
{
    if (c) ((struct instance *)c)->functions->freeMemory(c);
}

fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean has_tolerance, fmi2Real tolerance, fmi2Real start,
                               fmi2Boolean has_end, fmi2Real end)
{
    (void)c;
    (void)has_tolerance;
    (void)tolerance;
    (void)start;
    (void)has_end;
    (void)end;
    return fmi2OK;
}

fmi2Status fmi2EnterInitializationMode(fmi2Component c)
{
    (void)c;
    return fmi2OK;
}

fmi2Status fmi2ExitInitializationMode(fmi2Component c) { return ended(c, begin(model(c))); }

fmi2Status fmi2Terminate(fmi2Component c)
{
    (void)c;
    return fmi2OK;
}

fmi2Status fmi2Reset(fmi2Component c)
{
    reset(model(c));
    return fmi2OK;
}

fmi2Status fmi2GetReal(fmi2Component c, const fmi2ValueReference which[], size_t n, fmi2Real values[])
{
    return ended(c, get(model(c), which, n, values));
}

fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference which[], size_t n, const fmi2Real values[])
{
    return ended(c, set(model(c), which, n, values));
}

fmi2Status fmi2GetBoolean(fmi2Component c, const fmi2ValueReference which[], size_t n, fmi2Boolean values[])
{
    size_t k;
    for (k = 0; k < n; ++k) {
        if (which[k] != INSIDE) return ended(c, "there is no such Boolean to read.");
        refresh(model(c));
        values[k] = model(c)->inside;
    }
    return fmi2OK;
}

#define NONE(NAME, TYPE) \\
    fmi2Status NAME(fmi2Component c, const fmi2ValueReference which[], size_t n, TYPE values[]) \\
    { \\
        (void)which; \\
        (void)values; \\
        return ended(c, n ? "there is no such variable." : NULL); \\
    }
NONE(fmi2GetInteger, fmi2Integer)
NONE(fmi2GetString, fmi2String)
NONE(fmi2SetInteger, const fmi2Integer)
NONE(fmi2SetBoolean, const fmi2Boolean)
NONE(fmi2SetString, const fmi2String)

fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, const fmi2ValueReference unknown[], size_t unknowns,
                                        const fmi2ValueReference known[], size_t knowns,
                                        const fmi2Real seeds[], fmi2Real values[])
{
    return ended(c, derive(model(c), unknown, unknowns, known, knowns, seeds, values, 0));
}

fmi2Status fmi2SetRealInputDerivatives(fmi2Component c, const fmi2ValueReference which[], size_t n,
                                       const fmi2Integer order_of[], const fmi2Real values[])
{
    (void)which;
    (void)order_of;
    (void)values;
    return ended(c, n ? "controls are constant over a step." : NULL);
}

fmi2Status fmi2GetRealOutputDerivatives(fmi2Component c, const fmi2ValueReference which[], size_t n,
                                        const fmi2Integer order_of[], fmi2Real values[])
{
    (void)which;
    (void)order_of;
    (void)values;
    return ended(c, n ? "there are no derivatives by time." : NULL);
}

fmi2Status fmi2DoStep(fmi2Component c, fmi2Real time, fmi2Real length, fmi2Boolean no_return)
{
    (void)no_return;
    return ended(c, advance(model(c), time, length));
}

fmi2Status fmi2CancelStep(fmi2Component c) { return ended(c, "no step is under way."); }

#define NO_STATE "the state of this FMU is that of its variables."
fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate *state)
{
    (void)state;
    return ended(c, NO_STATE);
}
fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate state)
{
    (void)state;
    return ended(c, NO_STATE);
}
fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate *state)
{
    (void)state;
    return ended(c, NO_STATE);
}
fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, fmi2FMUstate state, size_t *size)
{
    (void)state;
    (void)size;
    return ended(c, NO_STATE);
}
fmi2Status fmi2SerializeFMUstate(fmi2Component c, fmi2FMUstate state, fmi2Byte bytes[], size_t size)
{
    (void)state;
    (void)bytes;
    (void)size;
    return ended(c, NO_STATE);
}
fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte bytes[], size_t size, fmi2FMUstate *state)
{
    (void)bytes;
    (void)size;
    (void)state;
    return ended(c, NO_STATE);
}

#define NO_STATUS(NAME, TYPE) \\
    fmi2Status NAME(fmi2Component c, const fmi2StatusKind kind, TYPE *value) \\
    { \\
        (void)kind; \\
        (void)value; \\
        return ended(c, "no step is under way."); \\
    }
NO_STATUS(fmi2GetStatus, fmi2Status)
NO_STATUS(fmi2GetRealStatus, fmi2Real)
NO_STATUS(fmi2GetIntegerStatus, fmi2Integer)
NO_STATUS(fmi2GetBooleanStatus, fmi2Boolean)
NO_STATUS(fmi2GetStringStatus, fmi2String)
"""

FMI2 = Standard({"modelDescription.xml": description, "sources/@_fmu.c": functions}, system)
