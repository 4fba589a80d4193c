// SPDX-License-Identifier: Apache-2.0
// The choices of a network's piecewise functions: the sides of ReLUs, the positions of maxima.
//
// Where they choose, a gradient is discontinuous, so a run with rounding and an exact one may
// differ by whole elements. An exact run that replays the choices of the rounded one is a
// continuous function of the rounding errors: the difference between the two is rounding alone, and
// small.
//
// Linked into a program, network_choices.c overrides sr_relu, sr_leaky_relu, sr_maxpool2d and
// sr_global_maxpool of the library (the dynamic linker prefers the program's functions), so the
// models themselves are unchanged. One thread at a time. models themselves run unchanged. One
// thread at a time.
#ifndef SR_TESTS_NETWORK_CHOICES_H
#define SR_TESTS_NETWORK_CHOICES_H

#include "graph/context.h"

typedef struct choices choices;

choices *choices_create(void); // NULL: out of memory
void choices_free(choices *c);
// From here to choices_end, the calls of one step record their choices; the step's sr_context_run
// stores the values. Discards the choices recorded before.
void choices_note(choices *c);
// From here to choices_end, f64 calls of this context in the same order replay the recorded
// choices: a ReLU is a product with a mask, a maximum takes elements from given positions.
void choices_give(choices *c, sr_context *context);
void choices_end(void);
// Whether every recorded choice has been replayed since choices_give, and no more were requested.
bool choices_all_given(const choices *c);

#endif
