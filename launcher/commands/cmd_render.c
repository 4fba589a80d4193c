// SPDX-License-Identifier: Apache-2.0
// serried render: draws a small labelled picture set, ten shapes with random positions, sizes,
// angles and colours on gradients with noise and clutter.
//
// Every picture is a function of (class, number) alone, so two runs and two machines get the same
// files. A shape is a test for points inside, in its own coordinates, sampled 3 x 3 times per
// pixel. The data are for trying a training run from end to end; they are not a benchmark.
#include <argp.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
// jpeglib.h needs stdio.h before it.
#include <jpeglib.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/image/mask_png.h"
#include "kernels/base/file.h"
#include "kernels/base/math.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "kernels/base/text.h"
#include "launcher/commands/command.h"
#include "trainer/draw/palette.h"

#define PI 3.14159265358979323846
#define SEED 20240501u
#define MAX_SIDE 64
#define DEFAULT_COUNT 220

// ---- shapes: is (x, y) inside? All are about as large as the unit circle. ----------------------

typedef struct point {
    double x, y;
} point;

static bool in_polygon(const point *corner, int count, double x, double y) {
    bool inside = false;
    for (int i = 0, j = count - 1; i < count; j = i++) {
        if ((corner[i].y > y) == (corner[j].y > y))
            continue;
        double slope = (corner[j].x - corner[i].x) / (corner[j].y - corner[i].y);
        inside ^= x < corner[i].x + slope * (y - corner[i].y);
    }
    return inside;
}

// Corners at the angles 2 pi i / corners, on circles of alternating radii.
static bool in_star(const point *unit, int corners, double inner, double x, double y) {
    point corner[16];
    for (int i = 0; i < corners; i++) {
        double radius = i % 2 ? inner : 1.0;
        corner[i] = (point){radius * unit[i].x, radius * unit[i].y};
    }
    return in_polygon(corner, corners, x, y);
}

#define S3 0.86602540378443865
#define C36 0.80901699437494742
#define S36 0.58778525229247313
#define C72 0.30901699437494742
#define S72 0.95105651629515357

static const point triangle_corners[] = {{1, 0}, {-0.5, S3}, {-0.5, -S3}};
static const point hexagon_corners[] = {{1, 0},  {0.5, S3},   {-0.5, S3},
                                        {-1, 0}, {-0.5, -S3}, {0.5, -S3}};
static const point star_corners[] = {{1, 0},  {C36, S36},   {C72, S72},   {-C72, S72}, {-C36, S36},
                                     {-1, 0}, {-C36, -S36}, {-C72, -S72}, {C72, -S72}, {C36, -S36}};
static const point arrow_corners[] = {{-0.95, -0.2}, {0.1, -0.2}, {0.1, -0.7}, {0.95, 0},
                                      {0.1, 0.7},    {0.1, 0.2},  {-0.95, 0.2}};

static bool circle(double x, double y) {
    return x * x + y * y < 0.8;
}

static bool square(double x, double y) {
    return x > -0.72 && x < 0.72 && y > -0.72 && y < 0.72;
}

static bool triangle(double x, double y) {
    return in_polygon(triangle_corners, 3, x, y);
}

static bool star(double x, double y) {
    return in_star(star_corners, 10, 0.42, x, y);
}

static bool cross(double x, double y) {
    double u = x < 0 ? -x : x, v = y < 0 ? -y : y;
    return (u < 0.25 && v < 0.95) || (v < 0.25 && u < 0.95);
}

static bool ring(double x, double y) {
    double r = x * x + y * y;
    return r < 0.9 && r > 0.35;
}

static bool crescent(double x, double y) {
    return x * x + y * y < 0.95 && (x - 0.45) * (x - 0.45) + y * y > 0.6;
}

static bool hexagon(double x, double y) {
    return in_polygon(hexagon_corners, 6, x, y);
}

static bool arrow(double x, double y) {
    return in_polygon(arrow_corners, 7, x, y);
}

// The sextic (u^2 + v^2 - 1)^3 = u^2 v^3.
static bool heart(double x, double y) {
    double u = 1.25 * x, v = 0.15 - 1.25 * y, r = u * u + v * v - 1;
    return r * r * r - u * u * v * v * v < 0;
}

static const struct {
    const char *name;
    bool (*inside)(double x, double y);
} classes[] = {
    {"arrow", arrow}, {"circle", circle},     {"crescent", crescent}, {"cross", cross},
    {"heart", heart}, {"hexagon", hexagon},   {"ring", ring},         {"square", square},
    {"star", star},   {"triangle", triangle},
};
#define CLASSES ((int)(sizeof classes / sizeof *classes))

// ---- one picture -------------------------------------------------------------------------------

typedef struct picture {
    int side;
    uint8_t mask[MAX_SIDE * MAX_SIDE]; // 0: background, 1 + class, SR_MASK_VOID on its edge
    double rgb[MAX_SIDE * MAX_SIDE][3];
} picture;

typedef struct color {
    double c[3];
} color;

static color any_color(sr_rng *rng) {
    color k;
    for (int i = 0; i < 3; i++)
        k.c[i] = sr_rng_uniform(rng, 20, 235);
    return k;
}

static double difference(color a, color b) {
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += a.c[i] > b.c[i] ? a.c[i] - b.c[i] : b.c[i] - a.c[i];
    return sum;
}

static void draw_background(picture *p, sr_rng *rng, color from, color to) {
    double angle = sr_rng_uniform(rng, 0, 2 * PI), noise = sr_rng_uniform(rng, 2, 14);
    double dx = sr_cos(angle) / p->side, dy = sr_sin(angle) / p->side;
    for (int y = 0; y < p->side; y++) {
        for (int x = 0; x < p->side; x++) {
            double t = 0.5 + dx * (x - p->side / 2.0) + dy * (y - p->side / 2.0);
            t = t < 0 ? 0 : t > 1 ? 1 : t;
            for (int i = 0; i < 3; i++)
                p->rgb[y * p->side + x][i] =
                    from.c[i] + t * (to.c[i] - from.c[i]) + noise * sr_rng_normal(rng);
        }
    }
}

// Short lines and dots that belong to no shape.
static void draw_clutter(picture *p, sr_rng *rng) {
    uint32_t strokes = 2 + sr_rng_below(rng, 6);
    for (uint32_t s = 0; s < strokes; s++) {
        color ink = any_color(rng);
        double x = sr_rng_uniform(rng, 0, p->side), y = sr_rng_uniform(rng, 0, p->side);
        double angle = sr_rng_uniform(rng, 0, 2 * PI);
        double dx = sr_cos(angle), dy = sr_sin(angle);
        uint32_t length = 1 + sr_rng_below(rng, 12);
        for (uint32_t i = 0; i < length; i++, x += dx, y += dy) {
            if (x < 0 || y < 0 || x >= p->side || y >= p->side)
                continue;
            memcpy(p->rgb[(int)y * p->side + (int)x], ink.c, sizeof ink.c);
        }
    }
}

// Of a pixel that has so many of nine samples inside the shape.
static uint8_t mask_of(int class, int hits) {
    const int value = hits == 0 ? 0 : hits == 9 ? 1 + class : SR_MASK_VOID;
    return (uint8_t)value;
}

static void draw_shape(picture *p, sr_rng *rng, int class, color ink) {
    double radius = p->side * sr_rng_uniform(rng, 0.22, 0.42);
    double cx = sr_rng_uniform(rng, 0.8 * radius, p->side - 0.8 * radius);
    double cy = sr_rng_uniform(rng, 0.8 * radius, p->side - 0.8 * radius);
    double angle = sr_rng_uniform(rng, 0, 2 * PI);
    double cosine = sr_cos(angle) / radius, sine = sr_sin(angle) / radius;
    for (int y = 0; y < p->side; y++) {
        for (int x = 0; x < p->side; x++) {
            int hits = 0;
            for (int s = 0; s < 9; s++) {
                double u = x + (s % 3) / 3.0 + 1 / 6.0 - cx;
                double v = y + (s - s % 3) / 9.0 + 1 / 6.0 - cy;
                hits += classes[class].inside(u * cosine + v * sine, v * cosine - u * sine);
            }
            p->mask[y * p->side + x] = mask_of(class, hits);
            for (int i = 0; i < 3 && hits > 0; i++) {
                double *value = &p->rgb[y * p->side + x][i];
                *value += hits / 9.0 * (ink.c[i] - *value);
            }
        }
    }
}

static void draw(picture *p, int class, int number) {
    sr_rng rng;
    sr_rng_init(&rng, SEED, (uint32_t) class, (uint32_t)number, 0);
    p->side = 48 + (int)sr_rng_below(&rng, 3) * 8;
    color from = any_color(&rng), to = any_color(&rng), ink = any_color(&rng);
    for (int i = 0; i < 50 && (difference(ink, from) < 150 || difference(ink, to) < 150); i++)
        ink = any_color(&rng);
    draw_background(p, &rng, from, to);
    draw_clutter(p, &rng);
    draw_shape(p, &rng, class, ink);
}

// ---- files -------------------------------------------------------------------------------------

static void compress(const picture *p, int quality, unsigned char **data, unsigned long *bytes) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    uint8_t row[3 * MAX_SIDE];
    JSAMPROW rows[1] = {row};
    jpeg.err = jpeg_std_error(&errors); // only memory can fail here: it prints and exits
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, data, bytes);
    jpeg.image_width = jpeg.image_height = (JDIMENSION)p->side;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < p->side; y++) {
        for (int i = 0; i < 3 * p->side; i++) {
            double value = p->rgb[y * p->side + i / 3][i % 3] + 0.5;
            row[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
        }
        (void)jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
}

static sr_status write_picture(const picture *p, const char *path, int number) {
    unsigned char *data = NULL;
    unsigned long bytes = 0;
    compress(p, 85 + number % 10, &data, &bytes);
    sr_status status = sr_file_write_quickly(path, data, bytes);
    free(data);
    return status;
}

static sr_status write_labelled(const picture *p, const char *target, int class, int number) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/%04d.jpg", target, classes[class].name, number);
    return write_picture(p, path, number);
}

enum { HELD_OUT = 5 }; // every fifth picture with a mask is for validation

static sr_status write_masked(const picture *p, const char *target, int class, int number) {
    const char *split = number % HELD_OUT == HELD_OUT - 1 ? "val" : "train";
    uint32_t colors[1 + CLASSES] = {0};
    char path[PATH_MAX];
    for (int c = 0; c < CLASSES; c++)
        colors[1 + c] = sr_color_class(c);
    snprintf(path, sizeof path, "%s/images/%s/%s-%04d.jpg", target, split, classes[class].name,
             number);
    SR_TRY(write_picture(p, path, number));
    snprintf(path, sizeof path, "%s/masks/%s/%s-%04d.png", target, split, classes[class].name,
             number);
    return sr_mask_png_write(p->mask, p->side, p->side, colors, 1 + CLASSES, path);
}

// The numbers in masks, for `pack --class-map`.
static sr_status write_class_map(const char *target) {
    char path[PATH_MAX];
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "0 background\n");
    for (int c = 0; c < CLASSES; c++)
        sr_text_add(&text, "%d %s\n", 1 + c, classes[c].name);
    sr_text_add(&text, "%d ignore\n", SR_MASK_VOID);
    snprintf(path, sizeof path, "%s/classes.txt", target);
    sr_status status = sr_text_check(&text);
    if (status == SR_OK)
        status = sr_file_write_quickly(path, text.data, text.length);
    sr_text_release(&text);
    return status;
}

static sr_status make_folder(const char *target, const char *name) {
    char *folder = sr_path_join(target, name);
    const sr_status status = folder ? sr_make_folders(folder) : SR_E_MEMORY;
    sr_free(folder);
    return status;
}

static sr_status make_all_folders(const char *target, bool masks) {
    static const char *const masked[] = {"images/train", "images/val", "masks/train", "masks/val"};
    if (strlen(target) > PATH_MAX / 2)
        return SR_FAIL(SR_E_USAGE, "%s: the name is too long", target);
    for (int i = 0; masks && i < 4; i++)
        SR_TRY(make_folder(target, masked[i]));
    for (int c = 0; !masks && c < CLASSES; c++)
        SR_TRY(make_folder(target, classes[c].name));
    return masks ? write_class_map(target) : SR_OK;
}

static sr_status render(const char *target, int count, bool masks) {
    picture *p = sr_alloc(sizeof *p, "a picture");
    if (!p)
        return SR_E_MEMORY;
    sr_status status = make_all_folders(target, masks);
    for (int class = 0; class < CLASSES; class ++) {
        for (int i = 0; status == SR_OK && i < count; i++) {
            draw(p, class, i);
            status =
                masks ? write_masked(p, target, class, i) : write_labelled(p, target, class, i);
        }
    }
    sr_free(p);
    return status;
}

typedef struct render_arguments {
    const char *target;
    int count;
    bool masks;
} render_arguments;

static error_t parse_option(int key, char *value, struct argp_state *state) {
    render_arguments *a = state->input;
    if (key == 'c')
        a->count = atoi(value);
    else if (key == 'm')
        a->masks = true;
    else if (key == ARGP_KEY_ARG && !a->target)
        a->target = value;
    else if (key == ARGP_KEY_END && (!a->target || a->count < 1 || a->count > 9999))
        argp_error(state, "DST is needed, and --count must be from 1 to 9999");
    else if (key != ARGP_KEY_END)
        return ARGP_ERR_UNKNOWN;
    return 0;
}

int sr_cmd_render(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"count", 'c', "N", 0, "pictures per class (default: 220)", 0},
        {"masks", 'm', NULL, 0,
         "with the class of each pixel: DST/images, DST/masks, both with train and val, and "
         "DST/classes.txt",
         0},
        {0}};
    static const struct argp parser = {
        options, parse_option,
        "DST",   "Draw pictures of ten shapes into DST/CLASS/NNNN.jpg, to try serried out.",
        NULL,    NULL,
        NULL};
    render_arguments a = {.count = DEFAULT_COUNT};
    if (argp_parse(&parser, argc, argv, 0, NULL, &a) != 0)
        return 2;
    sr_status status = render(a.target, a.count, a.masks);
    if (status != SR_OK)
        return sr_command_fail(status);
    printf("%d pictures of %d classes in %s\n", CLASSES * a.count, CLASSES, a.target);
    return 0;
}
