// SPDX-License-Identifier: Apache-2.0
// Pictures of a run or of `show`, each drawn by a child process.
//
// cairo, Pango and GLib end their process when a thread or memory is refused. A picture must never
// end a run, so it is the child that ends; a picture that was not drawn is a warning with its
// reason. The run does not wait for a picture between its steps.
#ifndef SR_TRAINER_DRAWING_H
#define SR_TRAINER_DRAWING_H

#include <stdbool.h>

#include "trainer/draw/figure.h"
#include "trainer/draw/samples_picture.h"

#ifdef __cplusplus
extern "C" {
#endif

// One thread at a time: the children end with it.
typedef struct sr_drawing sr_drawing;

// SR_E_MEMORY.
SR_NODISCARD sr_status sr_drawing_create(sr_drawing **out);
// Ends a child that is still drawing. NULL is legal here and below, and draws nothing.
void sr_drawing_free(sr_drawing *drawing);
// Called after a picture was written as FOLDER/NAME; 'step' is that of sr_drawing_set_step when the
// picture was asked for.
typedef void (*sr_drawing_drawn)(void *user, const char *folder, const char *name, int64_t step);
// Has 'drawn' called, by any of the functions below.
void sr_drawing_notify(sr_drawing *drawing, sr_drawing_drawn drawn, void *user);
// The step that pictures asked for from now on show.
void sr_drawing_set_step(sr_drawing *drawing, int64_t step);

// Has FOLDER/NAME.png and FOLDER/NAME.svg drawn. This and the next copy what they need and return;
// a picture that is asked for again while it waits for an earlier one is drawn once, from the newer
// data.
void sr_drawing_figure(sr_drawing *drawing, const sr_figure *figure, const char *name,
                       const char *folder);
// Has a sheet drawn to 'path', as sr_samples_write.
void sr_drawing_samples(sr_drawing *drawing, const sr_samples *sheet, const char *path);

// Draws a sheet as sr_samples_draw and waits for it. If the child fails, this process draws it with
// a bitmap font after a warning; 'name' is for messages.
SR_NODISCARD sr_status sr_drawing_sheet(const sr_samples *sheet, const char *name, sr_raster *out);

// Reports a child that has ended, ends one that is past its deadline, and starts the next. Cheap:
// to be called after each step.
void sr_drawing_poll(sr_drawing *drawing);
// Waits until all pictures are drawn, at most this long. Whether all that were asked for were.
bool sr_drawing_finish(sr_drawing *drawing, double seconds);

// For a program whose main function passes "--draw" on to sr_drawing_main; in others, pictures are
// drawn in the process itself.
void sr_drawing_allow_children(void);
// Draws one picture; returns the exit code.
int sr_drawing_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
