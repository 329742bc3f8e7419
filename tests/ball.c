/* A ball in air that a force lifts, as an FMU 2.0 for model exchange; it bounces at the ground. */
#include <stdlib.h>
#include "fmi2Functions.h"

typedef struct { double height, speed, force; } Ball;
#define BALL ((Ball *)c)
#define DONE return fmi2OK

const char *fmi2GetTypesPlatform(void) { return fmi2TypesPlatform; }
const char *fmi2GetVersion(void) { return fmi2Version; }
fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean on, size_t n, const fmi2String k[]) { DONE; }
fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String guid, fmi2String place,
                              const fmi2CallbackFunctions *f, fmi2Boolean visible, fmi2Boolean logging) {
  return calloc(1, sizeof(Ball));
}
void fmi2FreeInstance(fmi2Component c) { free(c); }
fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean d, fmi2Real t, fmi2Real s, fmi2Boolean e, fmi2Real x) { DONE; }
fmi2Status fmi2EnterInitializationMode(fmi2Component c) { DONE; }
fmi2Status fmi2ExitInitializationMode(fmi2Component c) { DONE; }
fmi2Status fmi2Terminate(fmi2Component c) { DONE; }
fmi2Status fmi2Reset(fmi2Component c) { *BALL = (Ball){1, 0, 0}; DONE; }
fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Real v[]) {
  for (size_t k = 0; k < n; k++) if (r[k] == 4) BALL->force = v[k];
  DONE;
}
fmi2Status fmi2GetReal(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2Real v[]) { return fmi2Error; }
#define NONE(name, kind) \
  fmi2Status fmi2Get##name(fmi2Component c, const fmi2ValueReference r[], size_t n, kind v[]) { return fmi2Error; } \
  fmi2Status fmi2Set##name(fmi2Component c, const fmi2ValueReference r[], size_t n, const kind v[]) { return fmi2Error; }
NONE(Integer, fmi2Integer)
NONE(Boolean, fmi2Boolean)
NONE(String, fmi2String)
fmi2Status fmi2GetFMUstate(fmi2Component c, fmi2FMUstate *s) { return fmi2Error; }
fmi2Status fmi2SetFMUstate(fmi2Component c, fmi2FMUstate s) { return fmi2Error; }
fmi2Status fmi2FreeFMUstate(fmi2Component c, fmi2FMUstate *s) { return fmi2Error; }
fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, fmi2FMUstate s, size_t *n) { return fmi2Error; }
fmi2Status fmi2SerializeFMUstate(fmi2Component c, fmi2FMUstate s, fmi2Byte b[], size_t n) { return fmi2Error; }
fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte b[], size_t n, fmi2FMUstate *s) { return fmi2Error; }

/* Of the rates 2 (of the height) and 3 (of the speed), by height 0, speed 1, force 4. */
fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, const fmi2ValueReference u[], size_t n,
                                        const fmi2ValueReference k[], size_t m, const fmi2Real by[], fmi2Real d[]) {
  for (size_t i = 0; i < n; i++) {
    d[i] = 0;
    for (size_t j = 0; j < m; j++) {
      double slope = u[i] == 2 ? (k[j] == 1) : k[j] == 1 ? -0.2 * BALL->speed : k[j] == 4;
      d[i] += slope * by[j];
    }
  }
  DONE;
}
fmi2Status fmi2EnterEventMode(fmi2Component c) { DONE; }
fmi2Status fmi2NewDiscreteStates(fmi2Component c, fmi2EventInfo *e) {
  *e = (fmi2EventInfo){0};
  if (BALL->height < 0 && BALL->speed < 0) {
    BALL->height = 0;
    BALL->speed *= -0.7;
    e->valuesOfContinuousStatesChanged = fmi2True;
  }
  DONE;
}
fmi2Status fmi2EnterContinuousTimeMode(fmi2Component c) { DONE; }
fmi2Status fmi2CompletedIntegratorStep(fmi2Component c, fmi2Boolean p, fmi2Boolean *event, fmi2Boolean *end) {
  *event = *end = fmi2False;
  DONE;
}
fmi2Status fmi2SetTime(fmi2Component c, fmi2Real t) { DONE; }
fmi2Status fmi2SetContinuousStates(fmi2Component c, const fmi2Real x[], size_t n) {
  BALL->height = x[0]; BALL->speed = x[1]; DONE;
}
fmi2Status fmi2GetContinuousStates(fmi2Component c, fmi2Real x[], size_t n) {
  x[0] = BALL->height; x[1] = BALL->speed; DONE;
}
fmi2Status fmi2GetDerivatives(fmi2Component c, fmi2Real d[], size_t n) {
  d[0] = BALL->speed; d[1] = -9.81 - 0.1 * BALL->speed * BALL->speed + BALL->force; DONE;
}
fmi2Status fmi2GetEventIndicators(fmi2Component c, fmi2Real z[], size_t n) { z[0] = BALL->height; DONE; }
fmi2Status fmi2GetNominalsOfContinuousStates(fmi2Component c, fmi2Real x[], size_t n) { x[0] = x[1] = 1; DONE; }
