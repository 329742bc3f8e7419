"""CasADi: a shared library from the C file, which ``casadi.external`` loads with its Jacobian."""

from __future__ import annotations

from tether.export.c import files as c_files
from tether.export.compiling import library_suffix, shared_library
from tether.export.exporting import Request, in_double


def files(request: Request) -> dict[str, bytes]:
    """The C files, what CasADi calls, and the library."""
    in_double(request)
    name, schema = request.name, request.model.schema
    words = {
        "NSTATES": len(schema.states),
        "NCONTROLS": len(schema.controls),
        "NOUTPUTS": len(schema.outputs),
    }
    text = _CODE.replace("@", name)
    for word, size in words.items():
        text = text.replace(word, str(size))
    found = c_files(request) | {f"{name}_casadi.c": text.encode()}
    library = shared_library(found, [f"{name}.c", f"{name}_casadi.c"])
    return found | {f"{name}{library_suffix()}": library}


_CODE = """/* What CasADi calls: `@` (state, control -> next) with its Jacobian, and `@_details`, which has
 * what is guaranteed beside it and no derivatives. Load with casadi.external("@", "./@.so"). */
#include "@.h"

#ifdef _WIN32
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED
#endif

typedef long long int whole;

static const whole dense_state[3] = {NSTATES, 1, 1};
static const whole dense_control[3] = {NCONTROLS, 1, 1};
static const whole dense_output[3] = {NOUTPUTS, 1, 1};
static const whole empty_output[4] = {NOUTPUTS, 1, 0, 0};
static const whole one_number[3] = {1, 1, 1};
static const whole dense_by_state[3] = {NOUTPUTS, NSTATES, 1};
static const whole dense_by_control[3] = {NOUTPUTS, NCONTROLS, 1};

/* Without a number in them: rows, columns, and where columns begin. */
static const whole empty_by_state[3 + NSTATES] = {NOUTPUTS, NSTATES};
static const whole empty_by_control[3 + NCONTROLS] = {NOUTPUTS, NCONTROLS};
static const whole state_state[3 + NSTATES] = {NOUTPUTS * NSTATES, NSTATES};
static const whole state_control[3 + NCONTROLS] = {NOUTPUTS * NSTATES, NCONTROLS};
static const whole state_output[3 + NOUTPUTS] = {NOUTPUTS * NSTATES, NOUTPUTS};
static const whole control_state[3 + NSTATES] = {NOUTPUTS * NCONTROLS, NSTATES};
static const whole control_control[3 + NCONTROLS] = {NOUTPUTS * NCONTROLS, NCONTROLS};
static const whole control_output[3 + NOUTPUTS] = {NOUTPUTS * NCONTROLS, NOUTPUTS};

static const double none[NSTATES + NCONTROLS + 1] = {0};

/* Inputs that CasADi leaves out are zero. */
static const double *given(const double *values) { return values ? values : none; }

EXPORTED int @(const double **arg, double **res, whole *iw, double *w, int mem);
EXPORTED whole @_n_in(void);
EXPORTED whole @_n_out(void);
EXPORTED const char *@_name_in(whole i);
EXPORTED const char *@_name_out(whole i);
EXPORTED const whole *@_sparsity_in(whole i);
EXPORTED const whole *@_sparsity_out(whole i);
EXPORTED int jac_@(const double **arg, double **res, whole *iw, double *w, int mem);
EXPORTED whole jac_@_n_in(void);
EXPORTED whole jac_@_n_out(void);
EXPORTED const whole *jac_@_sparsity_in(whole i);
EXPORTED const whole *jac_@_sparsity_out(whole i);
EXPORTED int jac_jac_@(const double **arg, double **res, whole *iw, double *w, int mem);
EXPORTED whole jac_jac_@_n_in(void);
EXPORTED whole jac_jac_@_n_out(void);
EXPORTED const whole *jac_jac_@_sparsity_in(whole i);
EXPORTED const whole *jac_jac_@_sparsity_out(whole i);
EXPORTED int @_details(const double **arg, double **res, whole *iw, double *w, int mem);
EXPORTED whole @_details_n_in(void);
EXPORTED whole @_details_n_out(void);
EXPORTED const char *@_details_name_in(whole i);
EXPORTED const char *@_details_name_out(whole i);
EXPORTED const whole *@_details_sparsity_in(whole i);
EXPORTED const whole *@_details_sparsity_out(whole i);

int @(const double **arg, double **res, whole *iw, double *w, int mem)
{
    double next[NOUTPUTS];
    (void)iw;
    (void)w;
    (void)mem;
    @_predict(given(arg[0]), given(arg[1]), res[0] ? res[0] : next, 0, 0, 0);
    return 0;
}

whole @_n_in(void) { return 2; }
whole @_n_out(void) { return 1; }
const char *@_name_in(whole i) { return i == 0 ? "state" : i == 1 ? "control" : 0; }
const char *@_name_out(whole i) { return i == 0 ? "next" : 0; }
const whole *@_sparsity_in(whole i) { return i == 0 ? dense_state : i == 1 ? dense_control : 0; }
const whole *@_sparsity_out(whole i) { return i == 0 ? dense_output : 0; }

/* Column by column, as CasADi keeps matrices. */
int jac_@(const double **arg, double **res, whole *iw, double *w, int mem)
{
    double by_state[NOUTPUTS * NSTATES + 1], by_control[NOUTPUTS * NCONTROLS + 1];
    int q, d;
    (void)iw;
    (void)w;
    (void)mem;
    @_jacobian_across(given(arg[0]), given(arg[1]), 0, by_state, by_control);
    for (q = 0; q < NOUTPUTS; ++q) {
        for (d = 0; d < NSTATES; ++d)
            if (res[0]) res[0][d * NOUTPUTS + q] = by_state[q * NSTATES + d];
        for (d = 0; d < NCONTROLS; ++d)
            if (res[1]) res[1][d * NOUTPUTS + q] = by_control[q * NCONTROLS + d];
    }
    return 0;
}

whole jac_@_n_in(void) { return 3; }
whole jac_@_n_out(void) { return 2; }
const whole *jac_@_sparsity_in(whole i) { return i == 2 ? empty_output : @_sparsity_in(i); }
const whole *jac_@_sparsity_out(whole i) { return i == 0 ? dense_by_state : i == 1 ? dense_by_control : 0; }

/* Second derivatives, taken for zero: between the kinks of a ReLU network and the leaves of its
 * tether that leaves out the curvature of sines, and of the room where it opens. A solver that asks for a
 * Hessian gets that of Gauss and Newton. */
int jac_jac_@(const double **arg, double **res, whole *iw, double *w, int mem)
{
    (void)arg;
    (void)res;
    (void)iw;
    (void)w;
    (void)mem;
    return 0;
}

whole jac_jac_@_n_in(void) { return 5; }
whole jac_jac_@_n_out(void) { return 6; }
const whole *jac_jac_@_sparsity_in(whole i)
{
    return i == 3 ? empty_by_state : i == 4 ? empty_by_control : jac_@_sparsity_in(i);
}
const whole *jac_jac_@_sparsity_out(whole i)
{
    static const whole *const blocks[6] = {state_state, state_control, state_output,
                                           control_state, control_control, control_output};
    return i >= 0 && i < 6 ? blocks[i] : 0;
}

int @_details(const double **arg, double **res, whole *iw, double *w, int mem)
{
    double next[NOUTPUTS];
    int inside;
    (void)iw;
    (void)w;
    (void)mem;
    inside = @_predict(given(arg[0]), given(arg[1]), res[0] ? res[0] : next, res[1], res[2], res[3]);
    if (res[4]) res[4][0] = inside;
    return 0;
}

whole @_details_n_in(void) { return 2; }
whole @_details_n_out(void) { return 5; }
const char *@_details_name_in(whole i) { return @_name_in(i); }
const char *@_details_name_out(whole i)
{
    static const char *const names[5] = {"next", "lower", "upper", "delta", "in_domain"};
    return i >= 0 && i < 5 ? names[i] : 0;
}
const whole *@_details_sparsity_in(whole i) { return @_sparsity_in(i); }
const whole *@_details_sparsity_out(whole i)
{
    return i == 4 ? one_number : i >= 0 && i < 4 ? dense_output : 0;
}
"""
