"""The functions of FMI 2.0 around the C file; the types are declared here as the standard names them."""

from __future__ import annotations

from tether.export.fmu.description import Variables


def interface(variables: Variables, name: str, guid: str) -> str:
    """The source file."""
    words = {
        "NSTATES": variables.states,
        "NCONTROLS": variables.controls,
        "NREALS": len(variables.reals),
        "NSTEP": variables.step,
    }
    advances = variables.schema.advances
    text = _CODE.replace("@", name).replace("GUID", guid)
    # Outputs are in an order of their own; variables in that of the states they advance.
    text = text.replace("ORDER", ", ".join(str(advances.index(k)) for k in range(variables.states)))
    for word, value in words.items():
        text = text.replace(word, str(value))
    return text


_CODE = """/* FMI 2.0 for co-simulation around @.c. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "@.h"

#ifdef _WIN32
#define FMI __declspec(dllexport)
#else
#define FMI
#endif

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

enum { STATES = NSTATES, CONTROLS = NCONTROLS, REALS = NREALS, STEP = NSTEP, NAMED = 100 };

/* Variables in the order of their value references: states, controls, next, lower, upper, delta, step. */
struct instance {
    double reals[REALS];
    int inside, fresh, stepped;
    char name[NAMED];
    const fmi2CallbackFunctions *functions;
};

static const int order[STATES] = {ORDER};

static void reset(struct instance *own)
{
    int k;
    for (k = 0; k < REALS; ++k) own->reals[k] = 0;
    own->reals[STEP] = 1;
    own->fresh = own->stepped = 0;
}

/* What a step from here gives, computed when it is asked for. */
static void refresh(struct instance *own)
{
    double found[4][STATES];
    double *first = own->reals + STATES + CONTROLS;
    int k, part;
    if (own->fresh) return;
    own->inside = @_predict(own->reals, own->reals + STATES, found[0], found[1], found[2], found[3]);
    for (part = 0; part < 4; ++part)
        for (k = 0; k < STATES; ++k) first[part * STATES + k] = found[part][order[k]];
    own->fresh = 1;
}

static fmi2Status refuse(struct instance *own, const char *why)
{
    const fmi2CallbackFunctions *to = own->functions;
    if (to && to->logger) to->logger(to->componentEnvironment, own->name, fmi2Error, "error", "%s", why);
    return fmi2Error;
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
    if (type != fmi2CoSimulation || !guid || strcmp(guid, "GUID") != 0) return NULL;
    if (!functions || !functions->allocateMemory || !functions->freeMemory) return NULL;
    own = (struct instance *)functions->allocateMemory(1, sizeof(struct instance));
    if (!own) return NULL;
    own->functions = functions;
    strncpy(own->name, name ? name : "", NAMED - 1);
    own->name[NAMED - 1] = 0;
    reset(own);
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

fmi2Status fmi2ExitInitializationMode(fmi2Component c)
{
    struct instance *own = (struct instance *)c;
    own->stepped = 1;
    return own->reals[STEP] > 0 ? fmi2OK : refuse(own, "`step` must be positive.");
}

fmi2Status fmi2Terminate(fmi2Component c)
{
    (void)c;
    return fmi2OK;
}

fmi2Status fmi2Reset(fmi2Component c)
{
    reset((struct instance *)c);
    return fmi2OK;
}

fmi2Status fmi2GetReal(fmi2Component c, const fmi2ValueReference which[], size_t n, fmi2Real values[])
{
    struct instance *own = (struct instance *)c;
    size_t k;
    for (k = 0; k < n; ++k) {
        if (which[k] >= REALS) return refuse(own, "there is no such variable to read.");
        if (which[k] >= STATES + CONTROLS) refresh(own);
        values[k] = own->reals[which[k]];
    }
    return fmi2OK;
}

fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference which[], size_t n, const fmi2Real values[])
{
    struct instance *own = (struct instance *)c;
    size_t k;
    own->fresh = 0; /* also where only some of them can be set */
    for (k = 0; k < n; ++k) {
        const int begun = own->stepped && (which[k] < STATES || which[k] == STEP);
        if (begun || (which[k] >= STATES + CONTROLS && which[k] != STEP))
            return refuse(own, "states and `step` are set before the first step, and results not at all.");
        own->reals[which[k]] = values[k];
    }
    return fmi2OK;
}

fmi2Status fmi2GetBoolean(fmi2Component c, const fmi2ValueReference which[], size_t n, fmi2Boolean values[])
{
    struct instance *own = (struct instance *)c;
    size_t k;
    for (k = 0; k < n; ++k) {
        if (which[k] != 0) return refuse(own, "there is no such Boolean to read.");
        refresh(own);
        values[k] = own->inside;
    }
    return fmi2OK;
}

#define NONE(NAME, TYPE) \\
    fmi2Status NAME(fmi2Component c, const fmi2ValueReference which[], size_t n, TYPE values[]) \\
    { \\
        (void)which; \\
        (void)values; \\
        return n ? refuse((struct instance *)c, "there is no such variable.") : fmi2OK; \\
    }
NONE(fmi2GetInteger, fmi2Integer)
NONE(fmi2GetString, fmi2String)
NONE(fmi2SetInteger, const fmi2Integer)
NONE(fmi2SetBoolean, const fmi2Boolean)
NONE(fmi2SetString, const fmi2String)

/* Of what a step from here gives, by states and controls here. */
fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, const fmi2ValueReference unknown[], size_t unknowns,
                                        const fmi2ValueReference known[], size_t knowns,
                                        const fmi2Real seeds[], fmi2Real values[])
{
    struct instance *own = (struct instance *)c;
    double by_state[STATES * STATES], by_control[STATES * CONTROLS + 1];
    size_t k, j;
    @_jacobian_across(own->reals, own->reals + STATES, NULL, by_state, by_control);
    for (k = 0; k < unknowns; ++k) {
        const int next = unknown[k] >= STATES + CONTROLS && unknown[k] < 2 * STATES + CONTROLS;
        values[k] = 0;
        if (!next && unknown[k] >= STATES) return refuse(own, "derivatives are of `next` and of states.");
        for (j = 0; j < knowns; ++j) {
            double slope;
            if (known[j] >= STATES + CONTROLS) return refuse(own, "derivatives are by states and controls.");
            if (!next)
                slope = known[j] == unknown[k] ? 1 : 0;
            else {
                const int row = order[unknown[k] - STATES - CONTROLS];
                slope = known[j] < STATES ? by_state[row * STATES + known[j]]
                                          : by_control[row * CONTROLS + known[j] - STATES];
            }
            values[k] += slope * seeds[j];
        }
    }
    return fmi2OK;
}

fmi2Status fmi2SetRealInputDerivatives(fmi2Component c, const fmi2ValueReference which[], size_t n,
                                       const fmi2Integer order_of[], const fmi2Real values[])
{
    (void)which;
    (void)order_of;
    (void)values;
    return n ? refuse((struct instance *)c, "controls are constant over a step.") : fmi2OK;
}

fmi2Status fmi2GetRealOutputDerivatives(fmi2Component c, const fmi2ValueReference which[], size_t n,
                                        const fmi2Integer order_of[], fmi2Real values[])
{
    (void)which;
    (void)order_of;
    (void)values;
    return n ? refuse((struct instance *)c, "there are no derivatives by time.") : fmi2OK;
}

fmi2Status fmi2DoStep(fmi2Component c, fmi2Real time, fmi2Real length, fmi2Boolean no_return)
{
    struct instance *own = (struct instance *)c;
    const double steps = floor(length / own->reals[STEP] + 0.5);
    double done;
    int k;
    (void)time;
    (void)no_return;
    if (!(steps >= 1 && fabs(length - steps * own->reals[STEP]) <= 1e-6 * length))
        return refuse(own, "a step must take `step` seconds, or a multiple of that.");
    for (done = 0; done < steps; ++done) {
        refresh(own);
        for (k = 0; k < STATES; ++k) own->reals[k] = own->reals[STATES + CONTROLS + k];
        own->fresh = 0;
    }
    return fmi2OK;
}

fmi2Status fmi2CancelStep(fmi2Component c) { return refuse((struct instance *)c, "no step is under way."); }

#define NO_STATE "the state of this FMU is that of its variables."
fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate *state)
{
    (void)state;
    return refuse((struct instance *)c, NO_STATE);
}
fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate state)
{
    (void)state;
    return refuse((struct instance *)c, NO_STATE);
}
fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate *state)
{
    (void)state;
    return refuse((struct instance *)c, NO_STATE);
}
fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, fmi2FMUstate state, size_t *size)
{
    (void)state;
    (void)size;
    return refuse((struct instance *)c, NO_STATE);
}
fmi2Status fmi2SerializeFMUstate(fmi2Component c, fmi2FMUstate state, fmi2Byte bytes[], size_t size)
{
    (void)state;
    (void)bytes;
    (void)size;
    return refuse((struct instance *)c, NO_STATE);
}
fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte bytes[], size_t size, fmi2FMUstate *state)
{
    (void)bytes;
    (void)size;
    (void)state;
    return refuse((struct instance *)c, NO_STATE);
}

#define NO_STATUS(NAME, TYPE) \\
    fmi2Status NAME(fmi2Component c, const fmi2StatusKind kind, TYPE *value) \\
    { \\
        (void)kind; \\
        (void)value; \\
        return refuse((struct instance *)c, "no step is under way."); \\
    }
NO_STATUS(fmi2GetStatus, fmi2Status)
NO_STATUS(fmi2GetRealStatus, fmi2Real)
NO_STATUS(fmi2GetIntegerStatus, fmi2Integer)
NO_STATUS(fmi2GetBooleanStatus, fmi2Boolean)
NO_STATUS(fmi2GetStringStatus, fmi2String)
"""
