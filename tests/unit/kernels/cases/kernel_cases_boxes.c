// SPDX-License-Identifier: Apache-2.0
// Problems of the kernels of boxes (see kernel_cases.h): random numbers, so that some boxes are
// empty, reversed, or outside of the picture, and some images are none of the batch.
#include "tests/unit/kernels/cases/kernel_case_builders.h"

void case_nms(sr_kernel_id kernel) {
    static const struct {
        int64_t samples, boxes, capacity;
        double overlap;
        bool classes, only_above;
    } shapes[] = {{1, 1, 1, 0.5, false, false},
                  {3, 65, 70, 0.1, false, false},
                  {2, 700, 300, 0.3, true, true},
                  {5, 33, 4, 0.05, false, true}};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_nms_params p = {.samples = shapes[k].samples,
                                     .boxes = shapes[k].boxes,
                                     .capacity = shapes[k].capacity,
                                     .overlap = shapes[k].overlap,
                                     .above = -1,
                                     .only_above = shapes[k].only_above};
            const int64_t count = p.samples * p.boxes;
            problem c = problem_of(kernel, 6, &p, sizeof p);
            set(&c, 0, ACTIVATION, types[t], 4 * count);
            set(&c, 1, ACTIVATION, types[t], count);
            set(&c, 2, ORDER, types[t], count);
            set(&c, 3, shapes[k].classes ? NUMBERS : NONE, types[t], count);
            c.arg[2].bound = (double)p.boxes;
            c.arg[3].bound = 3;
            set_output(&c, 4, NUMBERS, types[t], p.samples * p.capacity);
            set_output(&c, 5, NUMBERS, types[t], p.samples);
            check_problem(&c);
        }
    }
}

// A bin of one pixel, whole vectors of a device, more boxes than terms of a leaf, fixed samples and
// as many as there are pixels.
void case_roi_align(sr_kernel_id kernel) {
    static const sr_roi_params shapes[] = {
        {1, 1, 1, 1, 1, 1, 1, 1, 0, 1},
        {2, 9, 7, 5, 6, 3, 2, 2.5, 2, 1},
        {3, 8, 5, 16, 4, 2, 7, 3, 0, 0},
        {1, 4, 3, 3, 90, 2, 2, 1, 1, 0},
        {2, 13, 6, 8, 3, 1, 4, 4, 0, 1},
        // bins of more pixels along a side than a leaf has terms, and boxes of more bins
        {1, 40, 45, 8, 3, 1, 1, 40, 0, 0},
        {1, 5, 6, 8, 2, 40, 35, 2.5, 1, 0},
        {1, 2, 700, 3, 2, 1, 2, 600, 0, 0},
    };
    const bool gradient = kernel == SR_KERNEL_roi_align_grad;
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_roi_params *p = &shapes[k];
            const int64_t x = p->n * p->h * p->w * p->c, y = p->rois * p->p * p->q * p->c;
            problem c = problem_of(kernel, 4, p, sizeof *p);
            set(&c, 0, ACTIVATION, types[t], gradient ? y : x);
            set(&c, 1, PARAMETER, types[t], 4 * p->rois);
            set(&c, 2, NUMBERS, types[t], p->rois);
            c.arg[2].bound = (double)p->n;
            set_output(&c, 3, ACTIVATION, types[t], gradient ? x : y);
            check_problem(&c);
        }
    }
}
