/* What bench_export.py measures an exported file by. */
#include "model.c"
#include <time.h>

static double now(void)
{
    struct timespec moment;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &moment);
    return (double)moment.tv_sec + 1e-9 * (double)moment.tv_nsec;
}

void all_rows(long count, const REAL *rows, REAL *next, REAL *delta, int *inside)
{
    for (long k = 0; k < count; ++k) {
        const REAL *x = rows + k * model_INPUTS;
        inside[k] = model_predict(x, x + model_STATES, next + k * model_OUTPUTS, 0, 0, delta + k * model_OUTPUTS);
    }
}

/* The least seconds of one input: all of it, the network alone, the Jacobian. */
void latency(long count, int rounds, const REAL *rows, double *seconds)
{
    REAL x[model_INPUTS], next[model_OUTPUTS], lower[model_OUTPUTS], upper[model_OUTPUTS], delta[model_OUTPUTS];
    REAL by_state[model_OUTPUTS * model_STATES], by_control[model_OUTPUTS * model_CONTROLS + 1];
    NET features[model_FEATURES], units[model_UNITS], outputs[model_RAW];
    volatile double kept = 0;
    for (int round = 0; round < rounds; ++round)
        for (int way = 0; way < 3; ++way) {
            const double begun = now();
            double taken;
            for (long k = 0; k < count; ++k) {
                const REAL *row = rows + k * model_INPUTS;
                if (way == 0) {
                    model_predict(row, row + model_STATES, next, lower, upper, delta);
                    kept += next[0];
                } else if (way == 1) {
                    model_enter(row, row + model_STATES, x);
                    model_features(x, features);
                    model_network(features, units, outputs);
                    kept += outputs[0];
                } else {
                    model_jacobian(row, row + model_STATES, next, by_state, by_control);
                    kept += by_state[0];
                }
            }
            taken = (now() - begun) / (double)count;
            if (taken < seconds[way]) seconds[way] = taken;
        }
}

/* All rollouts a step at a time; `states` and `next` hold one state of each. */
void mppi(long rollouts, long steps, int rounds, const REAL *controls, REAL *states, REAL *next, double *seconds)
{
    for (int round = 0; round < rounds; ++round) {
        const double begun = now();
        for (long k = 0; k < rollouts * model_STATES; ++k) states[k] = 0;
        for (long t = 0; t < steps; ++t) {
            model_predict_many(rollouts, states, controls + t * rollouts * model_CONTROLS, next, 0, 0, 0, 0);
            for (long k = 0; k < rollouts * model_STATES; ++k) states[k] = next[k];
        }
        if (now() - begun < seconds[0]) seconds[0] = now() - begun;
    }
}
