"""One header and one source file of a model, which `verify` can tell from any others.

All that a source file holds follows from what is written into it as comments: what was asked for, the
certificate, and the model file itself. So a file is genuine if writing it again gives it, byte for byte.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.export.c.layers import layers_of
from tether.export.c.network import network_code
from tether.export.c.numbers import literal, table
from tether.export.c.rooms import ROOM, STRUCT, across_code, compensation, room_code
from tether.export.exporting import IDENTIFIER
from tether.model import Model

FORMAT = 1
_KINDS = {"float64": "double", "float32": "float"}
_MATHEMATICS = {"FABS": "fabs", "SIN": "sin", "COS": "cos", "EXP": "exp"}


@dataclass(frozen=True, eq=False)
class Form:
    """What a source file is made from.

    Attributes:
        name: what files and functions are called.
        dtype: `float64` or `float32`.
        certificate: as its file has it; empty where there is none.
        file: the model file.
        digest: that it states of itself.
        sealed: SHA-256 of the certificate; by default as it is.
    """

    name: str
    dtype: str
    certificate: Mapping[str, Any]
    file: bytes
    digest: str
    sealed: str = ""

    def __post_init__(self) -> None:
        own = _digest(_document(self.certificate))
        if self.sealed not in ("", own):
            raise ValueError("its certificate is not the one that it was written with")
        object.__setattr__(self, "sealed", own)


def source(model: Model, form: Form) -> str:
    """The source file."""
    kind = _KINDS[form.dtype]
    code = _named(_code(model, form, kind), form.name, kind)
    about = {
        "tether_c": FORMAT,
        "name": form.name,
        "dtype": form.dtype,
        "model_sha256": form.digest,
        "tables_sha256": _digest(code),
        "certificate_sha256": form.sealed,
        "inputs": list(model.schema.inputs),
        "outputs": list(model.schema.outputs),
    }
    return "".join(
        [
            f"/* about\n{_document(about)}\n*/\n\n/* certificate\n{_document(form.certificate)}\n*/\n\n",
            code,
            f"\n/* model file, base64\n{_encoded(form.file)}\n*/\n",
        ]
    )


def header(model: Model, form: Form) -> str:
    """The header file."""
    schema = model.schema
    words = {
        "NSTATES": str(len(schema.states)),
        "NCONTROLS": str(len(schema.controls)),
        "NOUTPUTS": str(len(schema.outputs)),
        "UPPER": form.name.upper(),
    }
    text = re.sub("|".join(words), lambda found: words[found[0]], _HEADER)
    return _named(text, form.name, _KINDS[form.dtype])


def read(text: str) -> Form:
    """What a source file says that it was made from.

    Raises:
        ValueError: it does not say so as :func:`source` does.
    """
    found = re.fullmatch(
        r"/\* about\n(.*)\n\*/\n\n/\* certificate\n(.*)\n\*/\n\n#include.*"
        r"\n/\* model file, base64\n([A-Za-z0-9+/=\n]*)\n\*/\n",
        text,
        re.DOTALL,
    )
    if found is None:
        raise ValueError("it does not begin and end as an export of Tether does")
    about, certificate = json.loads(found[1]), json.loads(found[2])
    if not isinstance(about, dict) or not isinstance(certificate, dict):
        raise ValueError("it says of itself what no export does")
    if about.get("tether_c") != FORMAT:
        raise ValueError(f"it has format {about.get('tether_c')!r:.40}, and this Tether writes {FORMAT}")
    keys = ("name", "dtype", "model_sha256", "certificate_sha256")
    name, dtype, digest, sealed = (about.get(key) for key in keys)
    texts = all(isinstance(own, str) for own in (name, digest, sealed))
    # A name that is none could bring code of its own.
    if not (texts and dtype in _KINDS and re.fullmatch(IDENTIFIER, str(name))):
        raise ValueError("it says of itself what no export does")
    file = base64.b64decode(found[3].replace("\n", ""))
    return Form(str(name), str(dtype), certificate, file, str(digest), str(sealed))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _document(content: Mapping[str, Any]) -> str:
    """JSON that begins and ends no comment."""
    return json.dumps(content, indent=1).replace("/", "\\/")


def _encoded(content: bytes) -> str:
    return "\n".join(textwrap.wrap(base64.b64encode(content).decode(), 108))


def _named(text: str, name: str, kind: str) -> str:
    suffix = "f" if kind == "float" else ""
    words = {"REAL": kind} | {word: own + suffix for word, own in _MATHEMATICS.items()}
    text = re.sub(r"\b(" + "|".join(words) + r")\b", lambda found: words[found[0]], text)
    return text.replace("@", name)


def _code(model: Model, form: Form, kind: str) -> str:
    schema, frame = model.schema, model.frame
    layers = layers_of(model.network)
    net = "float" if kind == "float" or layers[0].weight.dtype == np.float32 else "double"
    plain, turning = np.flatnonzero(~schema.input_angles), np.flatnonzero(schema.input_angles)
    increments = frame.target == "increment"
    room = room_code(model, kind)
    own, times, half_turn = compensation(model, kind)
    sizes = {
        "STATES": len(schema.states),
        "CONTROLS": len(schema.controls),
        "INPUTS": len(schema.inputs),
        "OUTPUTS": len(schema.outputs),
        "PLAIN": len(plain),
        "TURNING": len(turning),
        "FEATURES": len(plain) + 2 * len(turning),
        # What the network's outputs are padded to.
        "RAW": max(16, -(-len(schema.outputs) // 16) * 16),
    }
    output_tables = (
        []
        if model.operator == "sigmoid"
        else [
            table(kind, "@_out_center", _as(frame.outputs.center, kind)),
            table(kind, "@_out_scale", _as(frame.outputs.scale, kind)),
        ]
    )
    tables = [
        table("int", "@_plain", plain),
        table("int", "@_turning", turning),
        table("int", "@_round", schema.output_angles.astype(np.int64)),
        table("int", "@_advanced", schema.advanced if increments else np.full(len(schema.outputs), -1)),
        table(kind, "@_in_center", _as(frame.inputs.center[plain], kind)),
        table(kind, "@_in_scale", _as(frame.inputs.scale[plain], kind)),
        *output_tables,
    ]
    constants = ", ".join(f"@_{name} = {value}" for name, value in sizes.items())
    wraps = _WRAPS if kind == "double" else _WRAPS_NOT
    end = _END.replace("RAISED", _RAISED[model.operator]).replace("STEEPER", _STEEPER[model.operator])
    if model.operator == "sigmoid":
        end = _SIGMOID + end
    if kind == "double":
        end = end.replace("DELTA_OF", "room->delta[q]").replace("HALF_TURN", literal(half_turn))
    else:
        row = f"(room->delta[q] + {literal(own, kind)} * FABS(value)) * {literal(float(times), kind)}"
        end = end.replace("DELTA_OF", row).replace("HALF_TURN", literal(half_turn, kind))
    return "".join(
        [
            _BEGIN.replace("DIGEST", form.digest),
            f"enum {{ {constants} }};\n",
            *tables,
            STRUCT,
            room + ROOM,
            network_code(layers, net),
            wraps.replace("TWO_PI", literal(2 * np.pi)).replace("HALF_PI2", literal(np.pi)),
            across_code(model, kind),
            end.replace("NET", net),
        ]
    )


def _as(values: np.ndarray, kind: str) -> np.ndarray:
    return values.astype(np.float32) if kind == "float" else values


_HEADER = """#ifndef UPPER_H
#define UPPER_H

#ifdef __cplusplus
extern "C" {
#endif

#define UPPER_STATES NSTATES
#define UPPER_CONTROLS NCONTROLS
#define UPPER_OUTPUTS NOUTPUTS

/* SHA-256 of the model that this was made from, as its file states it. */
extern const char @_model_sha256[65];

/* The next state, and where it may be: with any weights of the network between `lower` and `upper`, and
 * within `delta` of the trusted model. Returns 1 where that is guaranteed, and 0 elsewhere: there `delta` is
 * infinite, and where an input is not finite all are NaN. `lower`, `upper` and `delta` may be null. */
int @_predict(const REAL *state, const REAL *control, REAL *next, REAL *lower, REAL *upper, REAL *delta);

/* The same of many rows, which is faster: several pass through the network at once. `in_domain` has what
 * `predict` returns of each, and may be null as well. */
void @_predict_many(long rows, const REAL *states, const REAL *controls, REAL *next, REAL *lower, REAL *upper,
                    REAL *delta, int *in_domain);

/* Derivatives of the next state, row by row: by the states, and by the controls. Returns what `predict` does.
 * `next`, `by_state` and `by_control` may be null. */
int @_jacobian(const REAL *state, const REAL *control, REAL *next, REAL *by_state, REAL *by_control);

/* The same for controllers, who want to know where steps of their size lead: between leaves the model jumps,
 * and along inputs that leaves are cut along, this is its slope over several of them. */
int @_jacobian_across(const REAL *state, const REAL *control, REAL *next, REAL *by_state, REAL *by_control);

#ifdef __cplusplus
}
#endif

#endif
"""

_BEGIN = """#include <float.h>
#include <math.h>

#include "@.h"

/* What is guaranteed rests on IEEE 754: every operation rounded once, to its own precision. Fused products
 * are allowed for, another order of sums and numbers that are not finite by decree are not. */
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "compile without -ffast-math"
#endif
#if FLT_EVAL_METHOD != 0
#error "compile for arithmetic that does not exceed the precision of its numbers (x86: -mfpmath=sse -msse2)"
#endif

typedef char @_int_is_wide[sizeof(int) >= 4 ? 1 : -1];

const char @_model_sha256[65] = "DIGEST";

"""

_WRAPS = """
/* An angle in [-pi, pi), as the library has it to the last bit: no product is fused with the difference. */
static REAL @_wrapped(REAL angle)
{
    volatile REAL turned;
    if (angle >= -HALF_PI2 && angle < HALF_PI2) return angle;
    turned = TWO_PI * floor((angle + HALF_PI2) / TWO_PI);
    angle -= turned;
    return angle >= -HALF_PI2 && angle < HALF_PI2 ? angle : -HALF_PI2;
}
"""

_WRAPS_NOT = """
/* Angles are taken as they are given; beyond [-pi, pi) they are outside the domain. */
static REAL @_wrapped(REAL angle) { return angle; }
"""

_RAISED = {
    "clip": "return room->anchor[q] + (@_out_center[q] + @_out_scale[q] * raw);",
    "project": "(void)room;\n    return @_out_center[q] + @_out_scale[q] * raw;",
    "sigmoid": "return room->lower[q] + @_sigmoid(raw) * (room->upper[q] - room->lower[q]);",
}
_STEEPER = {
    "clip": "anchor[d] + @_out_scale[q] * by[d]",
    "project": "@_out_scale[q] * by[d]",
    "sigmoid": (
        "middle[d] + (2 * @_sigmoid(raw) - 1) * width[d]\n"
        "                        + @_sigmoid(raw) * @_sigmoid(-raw) * open * by[d]"
    ),
}
_SIGMOID = "static REAL @_sigmoid(REAL value) { return 1 / (1 + EXP(-value)); }\n\n"

_END = """
/* The inputs as the library has them; 0 where one is not finite. */
static int @_enter(const REAL *state, const REAL *control, REAL *x)
{
    int d, finite = 1;
    for (d = 0; d < @_STATES; ++d) x[d] = state[d];
    for (d = @_STATES; d < @_INPUTS; ++d) x[d] = control[d - @_STATES];
    for (d = 0; d < @_INPUTS; ++d)
        if (!isfinite(x[d])) finite = 0;
    for (d = 0; d < @_TURNING; ++d) x[@_turning[d]] = @_wrapped(x[@_turning[d]]);
    return finite;
}

static void @_features(const REAL *x, NET *features)
{
    int d;
    for (d = 0; d < @_PLAIN; ++d) features[d] = (NET)((x[@_plain[d]] - @_in_center[d]) / @_in_scale[d]);
    for (d = 0; d < @_TURNING; ++d) {
        features[@_PLAIN + d] = (NET)SIN(x[@_turning[d]]);
        features[@_PLAIN + @_TURNING + d] = (NET)COS(x[@_turning[d]]);
    }
}

/* What the network says of one output, before it is kept between the limits. */
static REAL @_raised(const struct @_room *room, int q, REAL raw)
{
    RAISED
}

/* Where the next state may be, and what the network says of it, kept there. */
static int @_answer(const REAL *x, int finite, const NET *outputs, struct @_room *room, REAL *next,
                    REAL *lower, REAL *upper, REAL *delta)
{
    int q;
    if (!finite) {
        for (q = 0; q < @_OUTPUTS; ++q) {
            next[q] = NAN;
            if (lower) lower[q] = NAN;
            if (upper) upper[q] = NAN;
            if (delta) delta[q] = NAN;
        }
        return 0;
    }
    @_finish(x, room);
    for (q = 0; q < @_OUTPUTS; ++q)
        if (isnan(outputs[q])) room->inside = 0;
    for (q = 0; q < @_OUTPUTS; ++q) {
        const REAL base = @_advanced[q] < 0 ? 0 : x[@_advanced[q]];
        REAL value = @_raised(room, q, (REAL)outputs[q]), most;
        if (value < room->lower[q]) value = room->lower[q];
        if (value > room->upper[q]) value = room->upper[q];
        value = base + value;
        most = DELTA_OF;
        if (@_round[q] && most > HALF_TURN) most = HALF_TURN;
        next[q] = value;
        if (lower) lower[q] = base + room->lower[q];
        if (upper) upper[q] = base + room->upper[q];
        if (delta) delta[q] = room->inside ? most : INFINITY;
    }
    return room->inside;
}

int @_predict(const REAL *state, const REAL *control, REAL *next, REAL *lower, REAL *upper, REAL *delta)
{
    struct @_room room;
    REAL x[@_INPUTS];
    NET features[@_FEATURES], units[@_UNITS], outputs[@_RAW] = {0};
    const int finite = @_enter(state, control, x);
    if (finite) {
        @_begin(x, &room);
        @_features(x, features);
        @_network(features, units, outputs);
    }
    return @_answer(x, finite, outputs, &room, next, lower, upper, delta);
}

void @_predict_many(long rows, const REAL *states, const REAL *controls, REAL *next, REAL *lower, REAL *upper,
                    REAL *delta, int *in_domain)
{
    REAL x[@_BLOCK][@_INPUTS];
    struct @_room room;
    NET features[@_FEATURES], outputs[@_OUTPUTS];
    NET all_features[@_FEATURES * @_BLOCK], all_outputs[@_RAW * @_BLOCK];
    int finite[@_BLOCK], count, r, k;
    for (; rows > 0; rows -= count) {
        count = rows < @_BLOCK ? (int)rows : @_BLOCK;
        for (r = 0; r < @_BLOCK; ++r) {
            /* A block that is not full has its last row more than once. */
            const int own = r < count ? r : count - 1;
            finite[r] = @_enter(states + own * @_STATES, controls + own * @_CONTROLS, x[r]);
            @_features(x[r], features);
            for (k = 0; k < @_FEATURES; ++k) all_features[k * @_BLOCK + r] = features[k];
        }
        @_network_rows(all_features, all_outputs);
        for (r = 0; r < count; ++r) {
            int inside;
            for (k = 0; k < @_OUTPUTS; ++k) outputs[k] = all_outputs[k * @_BLOCK + r];
            if (finite[r]) @_begin(x[r], &room);
            inside = @_answer(x[r], finite[r], outputs, &room, next, lower, upper, delta);
            if (in_domain) in_domain[r] = inside;
            next += @_OUTPUTS;
            if (lower) lower += @_OUTPUTS;
            if (upper) upper += @_OUTPUTS;
            if (delta) delta += @_OUTPUTS;
        }
        states += (long)count * @_STATES;
        controls += (long)count * @_CONTROLS;
        if (in_domain) in_domain += count;
    }
}

/* The derivative of what the network says of one output, by the inputs. */
static void @_steeper(const REAL *x, const NET *units, int q, REAL *by)
{
    NET by_features[@_FEATURES];
    int d;
    @_backwards(units, q, by_features);
    for (d = 0; d < @_PLAIN; ++d) by[@_plain[d]] = (REAL)by_features[d] / @_in_scale[d];
    for (d = 0; d < @_TURNING; ++d) {
        const REAL by_sine = (REAL)by_features[@_PLAIN + d], angle = x[@_turning[d]];
        by[@_turning[d]] = by_sine * COS(angle) - (REAL)by_features[@_PLAIN + @_TURNING + d] * SIN(angle);
    }
}

static int @_derive(const REAL *state, const REAL *control, REAL *next, REAL *by_state, REAL *by_control,
                    int across)
{
    REAL steps[@_INPUTS][@_OUTPUTS];
    struct @_room room;
    REAL x[@_INPUTS], by[@_INPUTS], anchor[@_INPUTS], middle[@_INPUTS], width[@_INPUTS];
    NET features[@_FEATURES], units[@_UNITS], outputs[@_RAW];
    const int finite = @_enter(state, control, x);
    int q, d;
    room.inside = 0;
    if (finite) {
        @_room(x, &room);
        @_features(x, features);
        @_network(features, units, outputs);
        for (d = 0; across && d < @_INPUTS; ++d)
            if (@_stride[d] > 0) @_across(x, d, steps[d]);
    }
    for (q = 0; q < @_OUTPUTS; ++q)
        if (finite && isnan(outputs[q])) room.inside = 0;
    for (q = 0; q < @_OUTPUTS; ++q) {
        REAL value = finite ? @_raised(&room, q, (REAL)outputs[q]) : NAN;
        if (isnan(value)) {
            for (d = 0; d < @_INPUTS; ++d) by[d] = NAN;
        } else {
            @_slopes(x, &room, q, anchor, middle, width);
            for (d = 0; across && d < @_INPUTS; ++d)
                if (@_stride[d] > 0) anchor[d] = middle[d] = steps[d][q];
            if (room.lower[q] < value && value < room.upper[q]) {
                const REAL raw = (REAL)outputs[q], open = room.upper[q] - room.lower[q];
                @_steeper(x, units, q, by);
                for (d = 0; d < @_INPUTS; ++d) by[d] = STEEPER;
                (void)raw;
                (void)open;
            } else if (value >= room.upper[q] && room.upper[q] > room.lower[q]) {
                value = room.upper[q];
                for (d = 0; d < @_INPUTS; ++d) by[d] = middle[d] + width[d];
            } else {
                value = room.lower[q];
                for (d = 0; d < @_INPUTS; ++d) by[d] = middle[d] - width[d];
            }
            if (@_advanced[q] >= 0) {
                value = x[@_advanced[q]] + value;
                by[@_advanced[q]] += 1;
            }
        }
        if (next) next[q] = value;
        for (d = 0; d < @_STATES; ++d)
            if (by_state) by_state[q * @_STATES + d] = by[d];
        for (d = @_STATES; d < @_INPUTS; ++d)
            if (by_control) by_control[q * @_CONTROLS + d - @_STATES] = by[d];
    }
    return room.inside;
}

int @_jacobian(const REAL *state, const REAL *control, REAL *next, REAL *by_state, REAL *by_control)
{
    return @_derive(state, control, next, by_state, by_control, 0);
}

int @_jacobian_across(const REAL *state, const REAL *control, REAL *next, REAL *by_state, REAL *by_control)
{
    return @_derive(state, control, next, by_state, by_control, 1);
}
"""
