"""What a version of FMI asks for around the C file, and the C that all versions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tether.export.fmu.variables import Variables

Write = Callable[[Variables, str, str], str]
"""A text from the variables, the FMU's name and the digest of its model."""


@dataclass(frozen=True)
class Standard:
    """A version of FMI.

    Attributes:
        texts: what writes each text beside the C file, by where it is; `@` stands for the FMU's name.
        system: what this platform is called.
    """

    texts: Mapping[str, Write]
    system: Callable[[], str]

    def written(self, variables: Variables, name: str, digest: str) -> dict[str, str]:
        """All texts."""
        return {path: write(variables, name, digest) for path, write in self.named(name).items()}

    def named(self, name: str) -> dict[str, Write]:
        """What writes each text, by where it is in an FMU of that name."""
        return {path.replace("@", name): write for path, write in self.texts.items()}


def sources(name: str) -> list[str]:
    """What is compiled."""
    return [f"{name}.c", f"{name}_fmu.c"]


def interface(text: str, variables: Variables, name: str, digest: str) -> str:
    """The source file: what all versions share, and the functions of one."""
    words = {
        "NSTATES": variables.states,
        "NCONTROLS": variables.controls,
        "NSTEP": variables.step,
        "NTIME": variables.time,
        "NINSIDE": variables.inside,
    }
    advances = variables.schema.advances
    # Outputs are in an order of their own; variables in that of the states they advance.
    order = ", ".join(str(advances.index(k)) for k in range(variables.states))
    text = text.replace("SHARED", _SHARED).replace("@", name).replace("DIGEST", digest)
    text = text.replace("ORDER", order)
    for word, value in words.items():
        text = text.replace(word, str(value))
    return text


_SHARED = """#include <math.h>
#include <stddef.h>
#include <string.h>

#include "@.h"

#ifdef _WIN32
#define FMI __declspec(dllexport)
#else
#define FMI
#endif

enum { STATES = NSTATES, CONTROLS = NCONTROLS, STEP = NSTEP, TIME = NTIME, INSIDE = NINSIDE };

/* Variables in the order of their references: states, controls, next, lower, upper, delta, step, time. */
struct model {
    double reals[TIME + 1];
    int inside, fresh, begun;
};

static const int order[STATES] = {ORDER};

static void reset(struct model *own)
{
    int k;
    for (k = 0; k <= TIME; ++k) own->reals[k] = 0;
    own->reals[STEP] = 1;
    own->fresh = own->begun = 0;
}

/* What a step from here gives, computed when it is asked for. */
static void refresh(struct model *own)
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

/* These return why they refuse, or NULL. */
static const char *begin(struct model *own)
{
    own->begun = 1;
    return own->reals[STEP] > 0 ? NULL : "`step` must be positive.";
}

static const char *get(struct model *own, const unsigned int *which, size_t n, double *values)
{
    size_t k;
    for (k = 0; k < n; ++k) {
        if (which[k] > TIME) return "there is no such variable to read.";
        if (which[k] >= STATES + CONTROLS && which[k] < STEP) refresh(own);
        values[k] = own->reals[which[k]];
    }
    return NULL;
}

static const char *set(struct model *own, const unsigned int *which, size_t n, const double *values)
{
    size_t k;
    own->fresh = 0; /* also where only some of them can be set */
    for (k = 0; k < n; ++k) {
        const int begun = own->begun && (which[k] < STATES || which[k] == STEP);
        if (begun || (which[k] >= STATES + CONTROLS && which[k] != STEP))
            return "states and `step` are set before the first step, and results not at all.";
        own->reals[which[k]] = values[k];
    }
    return NULL;
}

/* Of what a step from here gives, by states and controls here: along seeds of what is known, or backwards. */
static const char *derive(const struct model *own, const unsigned int *unknown, size_t unknowns,
                          const unsigned int *known, size_t knowns, const double *seeds, double *values,
                          int backwards)
{
    double by_state[STATES * STATES], by_control[STATES * CONTROLS + 1];
    size_t k, j;
    @_jacobian_across(own->reals, own->reals + STATES, NULL, by_state, by_control);
    for (k = 0; k < (backwards ? knowns : unknowns); ++k) values[k] = 0;
    for (k = 0; k < unknowns; ++k) {
        const int next = unknown[k] >= STATES + CONTROLS && unknown[k] < 2 * STATES + CONTROLS;
        if (!next && unknown[k] >= STATES) return "derivatives are of `next` and of states.";
        for (j = 0; j < knowns; ++j) {
            double slope;
            if (known[j] >= STATES + CONTROLS) return "derivatives are by states and controls.";
            if (!next)
                slope = known[j] == unknown[k] ? 1 : 0;
            else {
                const int row = order[unknown[k] - STATES - CONTROLS];
                slope = known[j] < STATES ? by_state[row * STATES + known[j]]
                                          : by_control[row * CONTROLS + known[j] - STATES];
            }
            values[backwards ? j : k] += slope * seeds[backwards ? k : j];
        }
    }
    return NULL;
}

static const char *advance(struct model *own, double time, double length)
{
    const double steps = floor(length / own->reals[STEP] + 0.5);
    double done;
    int k;
    if (!(steps >= 1 && fabs(length - steps * own->reals[STEP]) <= 1e-6 * length))
        return "a step must take `step` seconds, or a multiple of that.";
    for (done = 0; done < steps; ++done) {
        refresh(own);
        for (k = 0; k < STATES; ++k) own->reals[k] = own->reals[STATES + CONTROLS + k];
        own->fresh = 0;
    }
    own->reals[TIME] = time + length;
    return NULL;
}
"""
