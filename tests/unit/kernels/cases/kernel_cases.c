// SPDX-License-Identifier: Apache-2.0
// Problems for every kernel that another provider than the reference implements (see
// kernel_cases.h).
#include "tests/unit/kernels/cases/kernel_case_builders.h"

bool kernel_cases_of_digests;

static void case_normalize(sr_kernel_id kernel) {
    for (int64_t channels = 1; channels <= SR_NORMALIZE_MAX_CHANNELS; channels++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_normalize_params params = {
                channels == 3 ? 22001 : 21, channels, {123, 116, 103, 7}, {0.017, 0.018, 2, 3}};
            problem c = problem_of(kernel, 2, &params, sizeof params);
            set(&c, 0, BYTES, types[t], params.rows * channels);
            set_output(&c, 1, ACTIVATION, types[t], params.rows * channels);
            check_problem(&c);
        }
    }
}

static void case_dropout(sr_kernel_id kernel) {
    static const double rates[] = {0, 0.1, 0.5, 0.999};
    for (int k = 0; k < 4; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_dropout_params params = {k == 1 ? 66001 : 130 + k, rates[k], 77, 0};
            problem c = problem_of(kernel, 3, &params, sizeof params);
            set(&c, 0, ACTIVATION, types[t], params.count);
            set(&c, 1, KEY, types[t], 4);
            set_output(&c, 2, ACTIVATION, types[t], params.count);
            check_problem(&c);
        }
    }
}

static void case_drop_path(sr_kernel_id kernel) {
    static const int64_t shapes[][2] = {{1, 1}, {13, 7}, {9, 48}, {3, 30001}, {66001, 1}};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_drop_path_params params = {shapes[k][0], shapes[k][1], 0.4, 77, 0};
            problem c = problem_of(kernel, 3, &params, sizeof params);
            set(&c, 0, ACTIVATION, types[t], params.samples * params.size);
            set(&c, 1, KEY, types[t], 4);
            set_output(&c, 2, ACTIVATION, types[t], params.samples * params.size);
            check_problem(&c);
        }
    }
}

static void case_reduce_sum(sr_kernel_id kernel) {
    static const int64_t counts[] = {1, 17, 1024, 65536, 200003};
    for (int k = 0; k < 5; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_count_params params = {counts[k]};
            problem c = problem_of(kernel, 2, &params, sizeof params);
            set(&c, 0, ACTIVATION, types[t], counts[k]);
            set_output(&c, 1, PARAMETER, types[t], 1);
            c.terms = (double)counts[k];
            check_problem(&c);
        }
    }
}

// Pieces of arrays that begin at an element of the flat space, with two rows: the last of five has
// 'last' elements.
static sr_update_params pieces_params(int64_t last) {
    enum { PIECES = 5, ROWS = 2, MAP = ROWS * SR_UPDATE_ROW, PIECES_AT = MAP + 8 };
    return (sr_update_params){.count = 16 + 48 + 160 + 336 + last,
                              .pieces = PIECES,
                              .first = 32,
                              .map_at = MAP,
                              .pieces_at = PIECES_AT,
                              .words = PIECES_AT + PIECES * 4,
                              .apart = 2};
}

static const int64_t pieces_last[] = {5003, SR_UPDATE_PIECE};
enum { PIECES_LASTS = sizeof pieces_last / sizeof pieces_last[0] };

// With one to three states; the second moment of adam and rmsprop is never negative. The last
// argument is the numbers.
static void check_update(sr_kernel_id kernel, const sr_update_params *params, int64_t row) {
    int args;
    const sr_kernel_argument *arguments = sr_kernel_arguments(kernel, &args);
    problem c = problem_of(kernel, args, params, sizeof *params);
    for (int i = 0; i + 1 < args; i++) {
        const bool square = strcmp(arguments[i].name, "v") == 0 ||
                            strcmp(arguments[i].name, "top") == 0 ||
                            strcmp(arguments[i].name, "square") == 0;
        set(&c, i, square ? POSITIVE : PARAMETER, SR_F32, params->count);
        c.arg[i].updated = arguments[i].role == SR_ARG_UPD;
    }
    set(&c, args - 1, params->pieces > 0 ? TABLE : HYPER, SR_F32, sr_update_words(params, row));
    check_problem(&c);
}

static void case_update(sr_kernel_id kernel, int64_t row) {
    const sr_update_params plain = {.count = 65536 + 19};
    check_update(kernel, &plain, row);
    for (int k = 0; k < PIECES_LASTS && !kernel_cases_of_digests; k++) {
        const sr_update_params pieces = pieces_params(pieces_last[k]);
        check_update(kernel, &pieces, row);
    }
}

static void case_update8(sr_kernel_id kernel) {
    case_update(kernel, 8);
}

static void case_update16(sr_kernel_id kernel) {
    case_update(kernel, 16);
}

// More lanes than a power of two, values with a gap between them, and one value of all lanes; parts
// behind each other, in another order, with gaps between them, and as many as there may be.
static void case_fold_lanes(sr_kernel_id kernel) {
    static const sr_fold_params list[] = {
        {.parts = 1, .lanes = 8, .part = {{65536 + 19, 65536 + 32, 0}}},
        {.parts = 1, .lanes = 7, .adds = 1, .part = {{1003, 1003, 0}}},
        {.parts = 1, .lanes = 21, .part = {{64, 0, 0}}},
        {.parts = 1, .lanes = 1, .part = {{5, 0, 0}}},
        {.parts = 1, .lanes = 256, .part = {{3, 4, 0}}},
        {.parts = 2, .lanes = 7, .adds = 1, .part = {{1003, 1003, 0}, {2048, 2051, 1003}}},
        {.parts = 3, .lanes = 21, .part = {{64, 0, 1056}, {1024, 1024, 0}, {7, 7, 1025}}},
        {.parts = SR_FOLD_PARTS,
         .lanes = 3,
         .part = {{1024, 1024, 0},
                  {1, 1, 1024},
                  {1023, 1040, 1025},
                  {1025, 1040, 2048},
                  {5, 16, 3100},
                  {2047, 2048, 4096},
                  {3, 3, 6143},
                  {64, 64, 6150},
                  {1200, 0, 7000},
                  {8, 16, 8200},
                  {9, 16, 8208},
                  {10, 16, 8217},
                  {1024, 1024, 9000},
                  {2, 2, 10024},
                  {4099, 4099, 10026}}},
    };
    for (size_t k = 0; k < problems(sizeof list / sizeof *list, 3); k++) {
        problem c = problem_of(kernel, SR_FOLD_PARTS + 1, &list[k], sizeof list[k]);
        for (int i = 0; i < SR_FOLD_PARTS; i++)
            set(&c, sr_fold_input(i), i < list[k].parts ? PARAMETER : NONE, SR_F32,
                sr_fold_input_elements(&list[k], i));
        set(&c, SR_FOLD_OUTPUT, PARAMETER, SR_F32, sr_fold_output_elements(&list[k]));
        c.arg[SR_FOLD_OUTPUT].updated = true;
        c.terms = (double)list[k].lanes;
        check_problem(&c);
    }
}

static void check_add_squares(sr_kernel_id kernel, const sr_update_params *params) {
    problem c = problem_of(kernel, 3, params, sizeof *params);
    set(&c, 0, PARAMETER, SR_F32, params->count);
    set(&c, 1, DOUBLE, SR_F32, params->pieces > 0 ? (params->pieces - 1) * params->apart + 1 : 1);
    set(&c, 2, params->pieces > 0 ? TABLE : NONE, SR_F32, sr_update_words(params, 0));
    c.arg[1].updated = true;
    c.terms = (double)params->count;
    check_problem(&c);
}

static void case_add_squares(sr_kernel_id kernel) {
    static const int64_t counts[] = {1, 17, 1024, 65536, 200003};
    for (int k = 0; k < 5; k++) {
        const sr_update_params params = {.count = counts[k]};
        check_add_squares(kernel, &params);
    }
    for (int k = 0; k < PIECES_LASTS && !kernel_cases_of_digests; k++) {
        const sr_update_params pieces = pieces_params(pieces_last[k]);
        check_add_squares(kernel, &pieces);
    }
}

static void pool(sr_kernel_id kernel, sr_pool_params p, sr_dtype t) {
    const int64_t in = p.n * p.h * p.w * p.c, out = p.n * p.p * p.q * p.c;
    const bool index = kernel == SR_KERNEL_maxpool2d || kernel == SR_KERNEL_maxpool2d_grad;
    const bool gradient = kernel == SR_KERNEL_maxpool2d_grad || kernel == SR_KERNEL_avgpool2d_grad;
    problem c = problem_of(kernel, index ? 3 : 2, &p, sizeof p);
    set(&c, 0, ACTIVATION, t, gradient ? out : in);
    if (kernel == SR_KERNEL_maxpool2d) {
        set_output(&c, 1, ACTIVATION, t, out);
        set_output(&c, 2, BYTES, t, out);
    } else if (index) {
        set(&c, 1, INDEX, t, out);
        set_output(&c, 2, ACTIVATION, t, in);
    } else {
        set_output(&c, 1, ACTIVATION, t, gradient ? in : out);
    }
    check_problem(&c);
}

static void case_pool(sr_kernel_id kernel) {
    static const sr_pool_params shapes[] = {
        {2, 9, 11, 5, 4, 5, 3, 3, 2, 2, 0, 0, 0, 0, 0, 0},
        {2, 8, 8, 16, 4, 4, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0},
        {1, 5, 5, 67, 1, 1, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0},
        {3, 12, 7, 32, 12, 7, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0},
        {2, 40, 40, 48, 20, 20, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0},
        // added: windows beyond the end; gaps of maxpool2d, also in windows without a pixel
        {2, 5, 6, 8, 3, 3, 2, 3, 2, 2, 0, 0, 0, 0, 0, 0},
        {2, 7, 11, 8, 3, 3, 2, 3, 2, 3, 1, 1, 1, 1, 2, 1},
        {1, 2, 2, 3, 1, 1, 2, 2, 1, 1, 1, 1, 1, 1, 2, 2},
        // sums of more terms than a leaf has, forward and back, of vectors and of single channels
        {2, 7, 9, 16, 1, 1, 7, 9, 7, 9, 0, 0, 0, 0, 0, 0},
        {1, 14, 15, 8, 7, 8, 8, 8, 1, 1, 0, 0, 0, 0, 0, 0},
        {1, 20, 21, 8, 10, 11, 6, 6, 1, 1, 0, 0, 0, 0, 1, 1},
        {1, 25, 27, 3, 1, 1, 25, 27, 25, 27, 0, 0, 0, 0, 0, 0},
        {1, 47, 47, 2, 24, 24, 24, 24, 1, 1, 0, 0, 0, 0, 0, 0},
        // steps of two pixels, which begin in the padding or have no whole window
        {2, 11, 8, 16, 6, 4, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0},
        {1, 10, 9, 8, 4, 4, 3, 3, 2, 2, 0, 0, 0, 0, 0, 0},
        {2, 7, 6, 24, 3, 3, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0},
        {1, 7, 6, 3, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0},
    };
    const bool max = kernel == SR_KERNEL_maxpool2d || kernel == SR_KERNEL_maxpool2d_grad;
    for (size_t k = 0; k < problems(sizeof shapes / sizeof shapes[0], 7); k++) {
        const bool fits =
            max ? shapes[k].window_h * shapes[k].window_w <= UINT8_MAX : shapes[k].gap_h == 0;
        for (int t = 0; t < TYPES && fits; t++) {
            sr_pool_params p;
            memcpy(&p, &shapes[k], sizeof p);
            pool(kernel, p, types[t]);
        }
    }
}

static void case_upsample(sr_kernel_id kernel) {
    static const sr_pool_params shapes[] = {
        {.n = 2, .h = 3, .w = 4, .c = 5, .stride_h = 2, .stride_w = 2},
        {.n = 1, .h = 2, .w = 1, .c = 16, .stride_h = 6, .stride_w = 7}, // more than a leaf
        {.n = 1, .h = 1, .w = 2, .c = 3, .stride_h = 30, .stride_w = 20},
    };
    const bool gradient = kernel == SR_KERNEL_upsample2d_grad;
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            sr_pool_params p = shapes[k];
            p.p = p.h * p.stride_h;
            p.q = p.w * p.stride_w;
            const int64_t in = p.n * p.h * p.w * p.c, out = p.n * p.p * p.q * p.c;
            problem c = problem_of(kernel, 2, &p, sizeof p);
            set(&c, 0, ACTIVATION, types[t], gradient ? out : in);
            set_output(&c, 1, ACTIVATION, types[t], gradient ? in : out);
            check_problem(&c);
        }
    }
}

typedef struct conv_shape {
    int n, h, w, c, k, r, s, stride, pad, dilation, groups;
    int pad_more; // at the bottom and on the right
} conv_shape;

static const conv_shape conv_shapes[] = {
    {1, 5, 6, 3, 8, 3, 3, 1, 1, 1, 1, 0},       {9, 7, 7, 32, 48, 3, 3, 1, 1, 1, 1, 0},
    {4, 9, 8, 16, 24, 1, 1, 1, 0, 1, 1, 0},     {5, 9, 8, 33, 17, 1, 1, 2, 0, 1, 1, 0},
    {3, 11, 9, 16, 16, 3, 3, 2, 1, 1, 1, 0},    {2, 23, 21, 3, 16, 7, 7, 2, 3, 1, 1, 0},
    {2, 12, 12, 24, 10, 3, 3, 1, 2, 2, 1, 0},   {2, 8, 8, 32, 32, 3, 3, 1, 1, 1, 4, 0},
    {2, 8, 8, 32, 32, 3, 3, 1, 1, 1, 32, 0},    {2, 10, 10, 7, 5, 2, 3, 1, 0, 1, 1, 0},
    {2, 28, 14, 64, 64, 3, 3, 1, 1, 1, 1, 0},   {1, 15, 15, 4, 8, 5, 5, 3, 2, 1, 1, 0},
    {8, 14, 14, 32, 128, 1, 1, 1, 0, 1, 1, 0},  {2, 7, 7, 16, 512, 1, 1, 1, 0, 1, 1, 0},
    {25, 7, 7, 24, 40, 3, 3, 1, 1, 1, 1, 0},    {2, 31, 30, 33, 72, 3, 3, 1, 0, 1, 1, 0},
    {24, 8, 8, 129, 130, 3, 3, 1, 1, 1, 1, 0},  {2, 8, 7, 48, 32, 3, 3, 2, 1, 1, 2, 0},
    {1, 4, 70, 16, 20, 3, 3, 1, 0, 1, 1, 0},    {2, 9, 8, 8, 8, 3, 3, 2, 1, 1, 8, 0},
    {2, 7, 9, 6, 6, 3, 3, 1, 1, 1, 6, 0},       {2, 13, 12, 40, 40, 5, 5, 2, 2, 1, 40, 0},
    {1, 9, 17, 48, 48, 7, 7, 1, 3, 1, 48, 0},   {3, 15, 15, 24, 24, 7, 7, 2, 3, 1, 24, 0},
    {40, 9, 30, 18, 18, 3, 3, 1, 1, 1, 18, 0},  {2, 11, 10, 20, 20, 3, 3, 1, 2, 2, 20, 0},
    {1, 12, 9, 16, 16, 4, 2, 3, 1, 1, 16, 0},   {1, 5, 6, 17, 17, 5, 5, 2, 5, 1, 17, 0},
    {3, 12, 8, 48, 72, 1, 1, 2, 1, 1, 1, 0},    {3, 12, 8, 48, 72, 1, 1, 2, 0, 1, 1, 1},
    {3, 12, 11, 16, 32, 2, 2, 3, 1, 1, 1, 0},   {2, 12, 11, 20, 12, 2, 1, 3, 1, 2, 2, 2},
    {3, 33, 35, 3, 40, 16, 16, 16, 0, 1, 1, 0}, {4, 23, 22, 3, 16, 4, 4, 4, 0, 1, 1, 0},
    {3, 19, 18, 3, 33, 3, 3, 2, 1, 1, 1, 0},    {2, 17, 15, 20, 24, 3, 1, 2, 1, 2, 1, 0},
    {130, 1, 1, 70, 40, 1, 1, 1, 0, 1, 1, 0},   {5, 1, 1, 40, 70, 1, 1, 1, 0, 1, 1, 0},
    {4, 11, 15, 72, 40, 3, 3, 1, 2, 2, 1, 0},   {4, 11, 15, 140, 130, 3, 3, 1, 2, 2, 1, 0},
    {2, 7, 9, 40, 36, 3, 3, 1, 6, 6, 1, 0},     {2, 9, 8, 36, 40, 3, 3, 2, 5, 5, 1, 0},
    {1, 5, 6, 34, 33, 3, 3, 1, 18, 18, 1, 0},   {2, 6, 11, 12, 12, 5, 5, 1, 2, 1, 12, 0},
    {2, 2, 3, 16, 16, 7, 7, 1, 3, 1, 16, 0},    {1, 8, 15, 9, 9, 7, 7, 1, 3, 1, 9, 0},
};

static sr_conv_params conv_params(const conv_shape *s) {
    sr_conv_params p = {
        .n = s->n, .h = s->h, .w = s->w, .c = s->c, .k = s->k, .r = s->r, .s = s->s};
    p.stride_h = p.stride_w = s->stride;
    p.pad_top = p.pad_left = s->pad;
    p.pad_bottom = p.pad_right = s->pad + s->pad_more;
    p.dilation_h = p.dilation_w = s->dilation;
    p.groups = s->groups;
    const int padding = 2 * s->pad + s->pad_more;
    p.p = (s->h + padding - s->dilation * (s->r - 1) - 1) / s->stride + 1;
    p.q = (s->w + padding - s->dilation * (s->s - 1) - 1) / s->stride + 1;
    return p;
}

static void conv(sr_kernel_id kernel, const conv_shape *shape, sr_dtype t, bool bias) {
    const sr_conv_params p = conv_params(shape);
    const int64_t x = p.n * p.h * p.w * p.c, y = p.n * p.p * p.q * p.k;
    const int64_t w = p.k * p.c / p.groups * p.r * p.s;
    const double window = (double)(p.r * p.s);
    problem c = problem_of(kernel, kernel == SR_KERNEL_conv2d ? 4 : 3, &p, sizeof p);
    if (kernel == SR_KERNEL_conv2d) {
        set(&c, 0, ACTIVATION, t, x);
        set(&c, 1, PARAMETER, t, w);
        set(&c, 2, bias ? PARAMETER : NONE, t, p.k);
        set_output(&c, 3, ACTIVATION, t, y);
        c.terms = window * (double)(p.c / p.groups);
    } else if (kernel == SR_KERNEL_conv2d_dx) {
        set(&c, 0, ACTIVATION, t, y);
        set(&c, 1, PARAMETER, t, w);
        set_output(&c, 2, ACTIVATION, t, x);
        c.terms = window * (double)(p.k / p.groups);
    } else {
        set(&c, 0, ACTIVATION, t, x);
        set(&c, 1, ACTIVATION, t, y);
        set_output(&c, 2, PARAMETER, t, w);
        c.terms = (double)(p.n * p.p * p.q);
    }
    check_problem(&c);
}

static void case_conv(sr_kernel_id kernel) {
    for (size_t k = 0; k < problems(sizeof conv_shapes / sizeof conv_shapes[0], 29); k++)
        for (int t = 0; t < TYPES; t++)
            conv(kernel, &conv_shapes[k], types[t], (k + (size_t)t) % 2 == 0);
}

static void case_linear(sr_kernel_id kernel) {
    // The last ones have many rows: one, two and four vectors of channels, whole and broken tiles,
    // several passes and pieces.
    static const sr_linear_params shapes[] = {
        {1, 1, 1},    {5, 33, 10},   {17, 200, 300}, {3, 64, 128},   {64, 16, 16},
        {69, 48, 80}, {131, 64, 96}, {1100, 32, 64}, {300, 544, 64}, {75, 32, 832}};
    for (size_t k = 0; k < problems(sizeof shapes / sizeof shapes[0], 6); k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_linear_params p = shapes[k];
            const bool forward = kernel == SR_KERNEL_linear,
                       weights = kernel == SR_KERNEL_linear_dw;
            problem c = problem_of(kernel, forward ? 4 : 3, &p, sizeof p);
            set(&c, 0, ACTIVATION, types[t], p.n * (kernel == SR_KERNEL_linear_dx ? p.k : p.c));
            if (weights)
                set(&c, 1, ACTIVATION, types[t], p.n * p.k);
            else
                set(&c, 1, PARAMETER, types[t], p.k * p.c);
            if (forward) {
                set(&c, 2, k % 2 ? PARAMETER : NONE, types[t], p.k);
                set_output(&c, 3, ACTIVATION, types[t], p.n * p.k);
            } else if (weights) {
                set_output(&c, 2, PARAMETER, types[t], p.k * p.c);
            } else {
                set_output(&c, 2, ACTIVATION, types[t], p.n * p.c);
            }
            c.terms = (double)(forward ? p.c : weights ? p.n : p.k);
            check_problem(&c);
        }
    }
}

// Sizes of a product and of the batches, and along which of these a and b are repeated.
typedef struct matmul_shape {
    int64_t rows, terms, columns, dim[SR_MATMUL_DIMS];
    unsigned repeat_a, repeat_b; // bits
    bool transpose_a, transpose_b;
} matmul_shape;

// Small and large products, several leaves of terms, and columns that fill no vector.
static const matmul_shape matmul_shapes[] = {
    {1, 1, 1, {1, 1, 1}, 0, 0, false, false},     {5, 33, 10, {1, 1, 2}, 0, 0, false, false},
    {37, 200, 130, {1, 1, 1}, 0, 0, true, false}, {101, 40, 64, {1, 2, 2}, 0, 0, false, true},
    {20, 64, 68, {2, 1, 3}, 1, 4, true, true},    {3, 2500, 7, {1, 1, 2}, 0, 4, false, true},
    {9, 1100, 70, {1, 1, 1}, 0, 0, true, false},  {130, 17, 5, {2, 3, 2}, 2, 5, false, false},
    {16, 32, 64, {1, 3, 4}, 6, 0, true, true},
};

// Fills the steps of matrices that are repeated along some dimensions; returns their number.
static int64_t set_steps(const matmul_shape *s, unsigned repeat, int64_t *step) {
    int64_t count = 1;
    for (int d = SR_MATMUL_DIMS - 1; d >= 0; d--) {
        step[d] = repeat >> d & 1 ? 0 : count;
        count *= repeat >> d & 1 ? 1 : s->dim[d];
    }
    return count;
}

static void case_matmul(sr_kernel_id kernel) {
    for (size_t k = 0; k < sizeof matmul_shapes / sizeof matmul_shapes[0]; k++) {
        const matmul_shape *s = &matmul_shapes[k];
        sr_matmul_params p = {.rows = s->rows,
                              .terms = s->terms,
                              .columns = s->columns,
                              .alpha = k % 2 ? 0.3 : 1,
                              .transpose_a = s->transpose_a,
                              .transpose_b = s->transpose_b};
        memcpy(p.dim, s->dim, sizeof p.dim);
        p.a_count = set_steps(s, s->repeat_a, p.a_step);
        p.b_count = set_steps(s, s->repeat_b, p.b_step);
        for (int t = 0; t < TYPES; t++) {
            problem c = problem_of(kernel, 3, &p, sizeof p);
            set(&c, 0, ACTIVATION, types[t], p.a_count * p.rows * p.terms);
            set(&c, 1, ACTIVATION, types[t], p.b_count * p.terms * p.columns);
            set_output(&c, 2, ACTIVATION, types[t], sr_matmul_batches(&p) * p.rows * p.columns);
            c.terms = (double)p.terms;
            check_problem(&c);
        }
    }
}

static void case_rearrange(sr_kernel_id kernel) {
    static const sr_rearrange_params shapes[] = {
        {.dims = 1, .dim = {1}, .end = {1}, .every = {1}, .elements = 1},
        // transposed
        {.dims = 2, .dim = {37, 65}, .step = {1, 37}, .end = {37, 65}, .every = {1, 1}},
        // every third row, columns reversed
        {.dims = 2, .dim = {5, 33}, .step = {99, -1}, .first = 32, .end = {5, 33}, .every = {1, 1}},
        // a picture within zeros; whole vectors of a device; several blocks
        {.dims = 3,
         .dim = {5, 9, 24},
         .step = {96, 16, 1},
         .begin = {0, 1, 8},
         .end = {5, 7, 24},
         .every = {1, 1, 1}},
        {.dims = 3,
         .dim = {2, 300, 301},
         .step = {0, 299, 1},
         .begin = {0, 2, 1},
         .end = {2, 299, 300},
         .every = {1, 1, 1}},
        // zeros between the elements
        {.dims = 5,
         .dim = {2, 3, 7, 2, 5},
         .step = {24, 8, 4, 2, 1},
         .begin = {0, 0, 2, 0, 1},
         .end = {2, 3, 6, 2, 4},
         .every = {1, 1, 3, 1, 2}},
        // channels of each picture first
        {.dims = 3,
         .dim = {4, 16, 6},
         .step = {96, 1, 16},
         .end = {4, 16, 6},
         .every = {1, 1, 1},
         .elements = 4 * 96},
        // rows within zeros
        {.dims = 2,
         .dim = {12, 5},
         .step = {5, 1},
         .begin = {4, 0},
         .end = {8, 5},
         .every = {1, 1},
         .elements = 20},
    };
    const size_t count = problems(sizeof shapes / sizeof shapes[0], 2);
    for (size_t k = 0; k < count; k++) {
        for (int t = 0; t < TYPES; t++) {
            sr_rearrange_params p = shapes[k];
            p.count = 1;
            if (k == 0 || p.elements == 0)
                p.elements = 299 * 301; // enough for all of them
            for (int d = 0; d < p.dims; d++)
                p.count *= p.dim[d];
            problem c = problem_of(kernel, 2, &p, sizeof p);
            set(&c, 0, ACTIVATION, types[t], p.elements);
            set_output(&c, 1, ACTIVATION, types[t], p.count);
            check_problem(&c);
        }
    }
}

static void case_concat(sr_kernel_id kernel) {
    static const sr_concat_params shapes[] = {
        {1, {1, 1}}, {7, {5, 3, 9}}, {3, {1, 2, 3, 4}}, {33, {64, 16, 8, 24}}, {2, {40000, 70001}}};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_concat_params p = shapes[k];
            problem c = problem_of(kernel, SR_CONCAT_INPUTS + 1, &p, sizeof p);
            for (int i = 0; i < SR_CONCAT_INPUTS; i++)
                set(&c, i, p.width[i] > 0 ? ACTIVATION : NONE, types[t], p.rows * p.width[i]);
            set_output(&c, SR_CONCAT_INPUTS, ACTIVATION, types[t], p.rows * sr_concat_width(&p));
            check_problem(&c);
        }
    }
}

// The index has numbers out of range, too.
static void case_gather(sr_kernel_id kernel) {
    static const sr_gather_params shapes[] = {
        {1, 1, 1, 1, 0, 0, 0, 0},       {3, 7, 5, 11, 0, 0, 0, 0},
        {2, 9, 16, 6, 1, 0, 1, 0},      // whole vectors of a device
        {4, 5, 3, 8, 1, 1, 0, 0},       // single elements
        {1, 3, 1027, 70, 0, 1, 0, 0},   // columns, several leaves
        {1, 300, 24, 5000, 0, 0, 0, 0}, // long lists of single elements, several parts
        {2, 2, 40000, 3, 1, 0, 0, 0},   // several blocks
        {1, 3, 8, 500, 0, 0, 0, 0},     // trees of vectors
    };
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_gather_params p = shapes[k];
            const bool gathers = kernel == SR_KERNEL_gather;
            const int64_t all = p.outer * p.n * p.inner, some = p.outer * p.count * p.inner;
            problem c = problem_of(kernel, 3, &p, sizeof p);
            set(&c, 0, ACTIVATION, types[t], gathers ? all : some);
            set(&c, 1, NUMBERS, types[t], sr_gather_lists(&p) * p.count);
            set_output(&c, 2, ACTIVATION, types[t], gathers ? some : all);
            c.arg[1].bound = (double)p.n;
            c.terms = (double)p.count;
            check_problem(&c);
        }
    }
}

// Few and many neighbours, short and long dimensions, several blocks.
static void case_along(sr_kernel_id kernel) {
    static const sr_axis_params shapes[] = {{1, 1, 1, 0, 0},    {7, 3, 1, 0, 0},   {5, 3, 11, 1, 0},
                                            {3, 1000, 1, 1, 0}, {2, 70, 3, 0, 0},  {3, 40, 9, 0, 0},
                                            {900, 90, 1, 0, 0}, {2, 5, 9000, 1, 0}};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_axis_params p = shapes[k];
            const int64_t whole = p.rows * p.n * p.inner, part = p.rows * p.inner;
            const bool finds = kernel == SR_KERNEL_extreme;
            problem c = problem_of(kernel, finds ? 3 : 2, &p, sizeof p);
            set(&c, 0, finds ? ACTIVATION : NUMBERS, types[t], finds ? whole : part);
            c.arg[0].bound = (double)p.n; // of an index
            set_output(&c, 1, ACTIVATION, types[t], finds ? part : whole);
            if (finds)
                set_output(&c, 2, NUMBERS, types[t], part);
            check_problem(&c);
        }
    }
}

// Short rows, whole tiles of a device, and rows of several tiles; all elements and the first ones.
static void case_sort(sr_kernel_id kernel) {
    static const sr_sort_params shapes[] = {
        {1, 1, 1, 0, 0},     {7, 3, 2, 1, 0},       {5, 64, 64, 0, 0},     {33, 100, 5, 1, 0},
        {2, 2048, 10, 0, 0}, {2, 2049, 2049, 1, 0}, {700, 101, 101, 0, 0}, {1, 7001, 3000, 0, 0}};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        for (int t = 0; t < TYPES; t++) {
            const sr_sort_params p = shapes[k];
            problem c = problem_of(kernel, 3, &p, sizeof p);
            set(&c, 0, ACTIVATION, types[t], p.rows * p.n);
            set_output(&c, 1, ACTIVATION, types[t], p.rows * p.k);
            set_output(&c, 2, NUMBERS, types[t], p.rows * p.k);
            check_problem(&c);
        }
    }
}

void (*const kernel_cases[SR_KERNEL_COUNT])(sr_kernel_id kernel) = {
    [SR_KERNEL_conv2d] = case_conv,
    [SR_KERNEL_conv2d_dx] = case_conv,
    [SR_KERNEL_conv2d_dw] = case_conv,
    [SR_KERNEL_linear] = case_linear,
    [SR_KERNEL_linear_dx] = case_linear,
    [SR_KERNEL_linear_dw] = case_linear,
    [SR_KERNEL_matmul] = case_matmul,
    [SR_KERNEL_bias_add] = case_rows,
    [SR_KERNEL_channel_sum] = case_rows,
    [SR_KERNEL_channel_dot] = case_channel_dot,
    [SR_KERNEL_batchnorm_train] = case_batchnorm,
    [SR_KERNEL_batchnorm_grad] = case_batchnorm,
    [SR_KERNEL_batchnorm_infer] = case_batchnorm,
    [SR_KERNEL_batchnorm_moments] = case_batchnorm_part,
    [SR_KERNEL_batchnorm_sums] = case_batchnorm_part,
    [SR_KERNEL_batchnorm_dx] = case_batchnorm_part,
    [SR_KERNEL_batchnorm_train_relu] = case_batchnorm_relu,
    [SR_KERNEL_batchnorm_train_pair_relu] = case_batchnorm_relu,
    [SR_KERNEL_batchnorm_infer_relu] = case_batchnorm_relu,
    [SR_KERNEL_batchnorm_relu_grad] = case_batchnorm_relu,
    [SR_KERNEL_batchnorm_add_relu_grad] = case_batchnorm_relu,
    [SR_KERNEL_batchnorm_relu_linear] = case_norm_linear,
    [SR_KERNEL_batchnorm_relu_linear_dw] = case_norm_linear,
    [SR_KERNEL_batchnorm_train_relu_maxpool] = case_norm_pool,
    [SR_KERNEL_batchnorm_infer_relu_maxpool] = case_norm_pool,
    [SR_KERNEL_batchnorm_relu_maxpool_grad] = case_norm_pool,
    [SR_KERNEL_groupnorm] = case_groupnorm,
    [SR_KERNEL_groupnorm_grad] = case_groupnorm,
    [SR_KERNEL_add_groupnorm] = case_groupnorm,
    [SR_KERNEL_groupnorm_add_grad] = case_groupnorm,
#define SR_EXPRESSION(name, ...) [SR_KERNEL_##name] = case_expression,
#include "kernels/expression_list.def"
#undef SR_EXPRESSION
    [SR_KERNEL_sum_to] = case_sum_to,
    [SR_KERNEL_fill_by] = case_fill_by,
    [SR_KERNEL_cast] = case_cast,
    [SR_KERNEL_normalize] = case_normalize,
    [SR_KERNEL_dropout] = case_dropout,
    [SR_KERNEL_drop_path] = case_drop_path,
    [SR_KERNEL_rearrange] = case_rearrange,
    [SR_KERNEL_concat] = case_concat,
    [SR_KERNEL_gather] = case_gather,
    [SR_KERNEL_scatter_add] = case_gather,
    [SR_KERNEL_maxpool2d] = case_pool,
    [SR_KERNEL_maxpool2d_grad] = case_pool,
    [SR_KERNEL_avgpool2d] = case_pool,
    [SR_KERNEL_avgpool2d_grad] = case_pool,
    [SR_KERNEL_upsample2d] = case_upsample,
    [SR_KERNEL_upsample2d_grad] = case_upsample,
    [SR_KERNEL_resize2d] = case_resize,
    [SR_KERNEL_resize2d_grad] = case_resize,
    [SR_KERNEL_gather_sum] = case_gather_sum,
    [SR_KERNEL_scatter_sum] = case_gather_sum,
    [SR_KERNEL_gather_dot] = case_gather_sum,
    [SR_KERNEL_taps2d] = case_taps2d,
    [SR_KERNEL_upfirdn2d] = case_upfirdn2d,
    [SR_KERNEL_move_pixels] = case_move_pixels,
    [SR_KERNEL_nms] = case_nms,
    [SR_KERNEL_roi_align] = case_roi_align,
    [SR_KERNEL_roi_align_grad] = case_roi_align,
    [SR_KERNEL_reduce_sum] = case_reduce_sum,
    [SR_KERNEL_extreme] = case_along,
    [SR_KERNEL_one_hot] = case_along,
    [SR_KERNEL_sort_rows] = case_sort,
    [SR_KERNEL_softmax] = case_softmax,
    [SR_KERNEL_softmax_grad] = case_softmax,
    [SR_KERNEL_log_softmax] = case_softmax,
    [SR_KERNEL_log_softmax_grad] = case_softmax,
    [SR_KERNEL_logsumexp] = case_softmax,
    [SR_KERNEL_softmax_xent] = case_xent,
    [SR_KERNEL_softmax_xent_grad] = case_xent,
    [SR_KERNEL_attention] = case_attention,
    [SR_KERNEL_attention_grad] = case_attention,
    [SR_KERNEL_attention_bias_grad] = case_attention,
    [SR_KERNEL_sgd] = case_update8,
    [SR_KERNEL_adam] = case_update16,
    [SR_KERNEL_rmsprop] = case_update16,
    [SR_KERNEL_lion] = case_update16,
    [SR_KERNEL_lamb] = case_update16,
    [SR_KERNEL_ema] = case_update8,
    [SR_KERNEL_limit] = case_update8,
    [SR_KERNEL_fold_lanes] = case_fold_lanes,
    [SR_KERNEL_add_squares] = case_add_squares,
};
