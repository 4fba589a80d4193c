// SPDX-License-Identifier: Apache-2.0
// What the piecewise functions of a network choose: the sides of ReLUs, the places of maxima.
//
// A gradient is not continuous where they choose, so that a run that rounds and an exact one differ
// by whole elements. An exact run that takes the choices of the rounded one is a continuous
// function of the rounding: their difference is rounding alone, and small.
//
// Linked into a program, network_choices.c stands before sr_relu, sr_leaky_relu, sr_maxpool2d and
// sr_global_maxpool of the library (the dynamic linker takes the program's functions first), so the
// models themselves run unchanged. One thread at a time.
#ifndef SR_TESTS_NETWORK_CHOICES_H
#define SR_TESTS_NETWORK_CHOICES_H

#include "graph/context.h"

typedef struct choices choices;

choices *choices_create(void); // NULL: no memory
void choices_free(choices *c);
// From here to choices_end, calls of one step note what they choose, which the step's
// sr_context_run fills in. Forgets what was noted before.
void choices_note(choices *c);
// From here to choices_end, f64 calls of this context in the same order take what was noted: a ReLU
// is a product with a mask, a maximum takes elements from given places.
void choices_give(choices *c, sr_context *context);
void choices_end(void);
// Whether since choices_give every noted choice was taken, and no more were asked for.
bool choices_all_given(const choices *c);

#endif
