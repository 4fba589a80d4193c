// SPDX-License-Identifier: Apache-2.0
// The sizes of evaluation: their defaults follow the image, and so do those of a base whose image a
// layer changes.
#include <stdlib.h>
#include <string.h>

#include "dataio/image/canvas.h"
#include "trainer/recipe/recipe_internal.h"

typedef struct sides {
    int64_t height, width; // 0: none
} sides;

static bool is_square(sides s) {
    return s.height == s.width;
}

// ---- while layers are merged --------------------------------------------------------------------

static int64_t number_of(const sr_recipe_node *node) {
    char *end = NULL;
    if (!node || node->kind != SR_RECIPE_NODE_TEXT || !node->text)
        return 0;
    const long value = strtol(node->text, &end, 10);
    return value > 0 && value <= 65536 && *end == '\0' ? value : 0;
}

// Of one number, or of [height, width]; zeros for anything else.
static sides sides_of(const sr_recipe_node *node) {
    if (!node || node->kind == SR_RECIPE_NODE_MAP)
        return (sides){0, 0};
    const bool list = node->kind == SR_RECIPE_NODE_LIST;
    const sides s = {number_of(list ? node->first : node), number_of(list ? node->last : node)};
    const bool valid = s.height > 0 && s.width > 0 && (!list || node->count <= 2);
    return valid ? s : (sides){0, 0};
}

static int64_t scaled(int64_t side, int64_t to, int64_t from) {
    return (side * to + from / 2) / from;
}

static int64_t shorter(sides s) {
    return s.height < s.width ? s.height : s.width;
}

static bool are_alike(sides a, sides b) {
    return a.height * b.width == a.width * b.height;
}

static void scale(sr_recipe_internal *in, sr_recipe_node *node, sides from, sides to) {
    const sides side = sides_of(node);
    if (node->kind == SR_RECIPE_NODE_TEXT) {
        node->text = sr_recipe_format(in, "%lld",
                                      (long long)scaled(side.height, shorter(to), shorter(from)));
        node->reshaped = node->reshaped || !are_alike(from, to);
        return;
    }
    node->kind = SR_RECIPE_NODE_TEXT;
    node->text =
        sr_recipe_format(in, "[%lld, %lld]", (long long)scaled(side.height, to.height, from.height),
                         (long long)scaled(side.width, to.width, from.width));
}

void sr_recipe_scale_evaluation(sr_recipe_internal *in, sr_recipe_node *below,
                                sr_recipe_node *layer) {
    static const char *const keys[] = {"eval.resize", "eval.crop"};
    const sr_recipe_node *image = sr_recipe_node_child(layer, "image");
    const sides from = sides_of(sr_recipe_node_child(below, "image")), to = sides_of(image);
    for (size_t i = 0; from.height && to.height && i < sizeof keys / sizeof *keys; i++) {
        sr_recipe_node *node = sr_recipe_node_find(below, keys[i]);
        if (sides_of(node).height == 0 || sr_recipe_node_find(layer, keys[i]))
            continue;
        if (node->at.source && node->at.source->is_override && !node->scaled)
            continue;
        scale(in, node, from, to);
        node->scaled = true;
        node->at = image->at;
    }
}

static const char *format(sr_recipe_internal *in, sides s) {
    return is_square(s)
               ? sr_recipe_format(in, "%lld", (long long)s.height)
               : sr_recipe_format(in, "[%lld, %lld]", (long long)s.height, (long long)s.width);
}

// ---- while values are derived -------------------------------------------------------------------

static bool was_reshaped(const sr_recipe_internal *in, const char *path) {
    const sr_recipe_node *node = sr_recipe_node_find(in->written, path);
    return node && node->reshaped;
}

// One number is printed and counted as such, not as a list of one. One that was meant for pictures
// of another shape becomes two, in proportion to 'shape'.
static bool read_sides(sr_recipe_internal *in, const char *path, const sr_int_list *list,
                       sides shape, sides *out) {
    sr_recipe_node *node = sr_recipe_node_find(in->resolved, path);
    const bool mixed = list->count == 2 && (list->items[0] == 0) != (list->items[1] == 0);
    if (list->count == 0 || list->count > 2 || mixed) {
        if (node->at.source)
            sr_recipe_mistake(in, node->at, "'%s' must be one number or [height, width]", path);
        return false;
    }
    *out = (sides){list->items[0], list->items[list->count - 1]};
    if (list->count == 1 && out->height > 0 && shorter(shape) > 0 && was_reshaped(in, path))
        *out = (sides){scaled(out->height, shape.height, shorter(shape)),
                       scaled(out->width, shape.width, shorter(shape))};
    if (list->count == 1)
        node->text = format(in, *out);
    return true;
}

static void derive(sr_recipe_internal *in, const char *path, sides s, const char *note) {
    sr_recipe_node *node = sr_recipe_node_find(in->resolved, path);
    node->text = format(in, s);
    node->note = note;
}

static sides read_crop(sr_recipe_internal *in) {
    const sr_recipe *r = &in->v.recipe;
    const sides image = {r->image_height, r->image_width};
    sides crop = image;
    if (!read_sides(in, "eval.crop", &in->v.raw_crop, image, &crop))
        derive(in, "eval.crop", crop, "default (image)");
    else // a square in brackets has the identity of one number
        sr_recipe_node_find(in->resolved, "eval.crop")->counts_as = format(in, crop);
    return crop;
}

// 256 for 224, as in torchvision; small images are not enlarged before the crop.
static sides usual_resize(sr_recipe_internal *in, sides crop) {
    const int64_t shorter = crop.height < crop.width ? crop.height : crop.width;
    const bool small = shorter <= 64;
    const sides s = small ? crop : (sides){(crop.height * 8 + 3) / 7, (crop.width * 8 + 3) / 7};
    derive(in, "eval.resize", s, small ? "default (eval.crop)" : "default (8/7 of eval.crop)");
    return s;
}

void sr_recipe_read_evaluation(sr_recipe_internal *in) {
    sr_recipe *r = &in->v.recipe;
    const sides crop = read_crop(in);
    sides resize;
    if (!read_sides(in, "eval.resize", &in->v.raw_resize, crop, &resize))
        resize = usual_resize(in, crop);
    const bool shorter_side = is_square(resize) && in->v.raw_resize.count < 2;
    r->eval.crop_height = crop.height;
    r->eval.crop_width = crop.width;
    r->eval.resize_height = resize.height;
    r->eval.resize_width = shorter_side ? 0 : resize.width;
}
