// SPDX-License-Identifier: Apache-2.0
// The list of transforms, and chains of them with parsed options.
#include "dataio/transforms/transform.h"

#include <ctype.h>
#include <string.h>

#include "kernels/base/float_control.h"
#include "kernels/base/hash.h"
#include "kernels/base/table.h"

#define SR_TRANSFORM(name) extern const sr_transform sr_transform_##name;
#include "dataio/transforms/transform_list.def"
#undef SR_TRANSFORM

static const sr_transform *const built_in[] = {
#define SR_TRANSFORM(name) &sr_transform_##name,
#include "dataio/transforms/transform_list.def"
#undef SR_TRANSFORM
};

const char *const sr_resize_filter_names[] = {"bilinear", "bicubic", "fast", NULL};

static sr_status check(const void *descriptor) {
    const sr_transform *transform = descriptor;
    if (transform->foreign < 0 || transform->foreign > SR_FOREIGN_MOST)
        return SR_FAIL(SR_E_USAGE, "it asks for %d other samples; at most %d are available",
                       transform->foreign, SR_FOREIGN_MOST);
    return transform->apply ? SR_OK : SR_FAIL(SR_E_USAGE, "it needs a function 'apply'");
}

static sr_table transforms = {.what = "transform",
                              .struct_size = sizeof(sr_transform),
                              .abi = SR_TRANSFORM_ABI,
                              .built_in = built_in,
                              .built_in_count = sizeof built_in / sizeof built_in[0],
                              .check = check};

const sr_transform *const *sr_transforms(size_t *count) {
    return sr_table_all(&transforms, count);
}

sr_status sr_transforms_add(const sr_transform *const *list, const char *origin) {
    return sr_table_add(&transforms, list, origin);
}

typedef struct link {
    const sr_transform *transform;
    const char *origin; // of a plug-in's transform; else NULL
    uint64_t identity;  // hash of name and arguments
    sr_transform_window window;
    void *options;
} link;

struct sr_transform_chain {
    sr_arena arena;
    link *links;
    int count;
};

// Splits the next "key=value" off *text; NULL at the end. Modifies the text.
static char *next_argument(char **text) {
    char *begin = *text;
    while (isspace((unsigned char)*begin))
        begin++;
    if (*begin == '\0')
        return NULL;
    int depth = 0;
    char *end = begin;
    for (; *end && (depth > 0 || !isspace((unsigned char)*end)); end++) {
        if (*end == '[')
            depth++;
        if (*end == ']')
            depth--;
    }
    *text = *end ? end + 1 : end;
    *end = '\0';
    return begin;
}

static sr_status parse_options(sr_transform_chain *chain, link *l, const char *arguments) {
    const sr_option_table *table = &l->transform->options;
    l->options = sr_arena_alloc(&chain->arena, table->struct_size ? table->struct_size : 1);
    char *text = sr_arena_strdup(&chain->arena, arguments ? arguments : "");
    if (!l->options || !text)
        return SR_E_MEMORY;
    SR_TRY(sr_options_defaults(table, l->options, &chain->arena));
    for (char *key; (key = next_argument(&text)) != NULL;) {
        char *value = strchr(key, '=');
        if (!value)
            return SR_FAIL(SR_E_USAGE, "%s: '%s' is not key=value", table->name, key);
        *value++ = '\0';
        SR_TRY(sr_options_set(table, l->options, key, value, &chain->arena));
    }
    return l->transform->check ? l->transform->check(l->options) : SR_OK;
}

static uint64_t identify(const sr_transform_spec *spec) {
    const char *arguments = spec->arguments ? spec->arguments : "";
    return sr_hash64_seed(arguments, strlen(arguments), sr_hash64(spec->name, strlen(spec->name)));
}

// SR_E_USAGE with the nearest name where there is no such transform.
static sr_status find_transform(const char *name, const sr_transform **out) {
    const void *found;
    SR_TRY(sr_table_choose(&transforms, name, &found));
    *out = found;
    return SR_OK;
}

sr_status sr_transform_chain_create(const sr_transform_spec *specs, int count,
                                    sr_transform_chain **out) {
    sr_transform_chain *chain = sr_alloc(sizeof *chain, "transform chain");
    if (!chain)
        return SR_E_MEMORY;
    sr_status status;
    sr_arena_init(&chain->arena);
    chain->links = sr_alloc_array((size_t)count, sizeof *chain->links, "transform chain");
    if (!chain->links) {
        status = SR_E_MEMORY;
        goto fail;
    }
    for (; chain->count < count; chain->count++) {
        link *l = &chain->links[chain->count];
        SR_TRY_GOTO(find_transform(specs[chain->count].name, &l->transform), fail);
        l->identity = identify(&specs[chain->count]);
        l->origin = sr_table_origin(&transforms, specs[chain->count].name);
        SR_TRY_GOTO(parse_options(chain, l, specs[chain->count].arguments), fail);
    }
    *out = chain;
    return SR_OK;
fail:
    sr_transform_chain_free(chain);
    return status;
}

void sr_transform_chain_free(sr_transform_chain *chain) {
    if (!chain)
        return;
    sr_free(chain->links);
    sr_arena_release(&chain->arena);
    sr_free(chain);
}

int sr_transform_chain_foreign(const sr_transform_chain *chain) {
    int most = 0;
    for (int i = 0; i < chain->count; i++)
        most =
            chain->links[i].transform->foreign > most ? chain->links[i].transform->foreign : most;
    return most;
}

void sr_transform_chain_limit(sr_transform_chain *chain, const sr_transform_window *windows) {
    for (int i = 0; i < chain->count; i++)
        chain->links[i].window = windows[i];
}

static bool is_applied(const link *l, int64_t position) {
    return position >= l->window.begin && (l->window.end == 0 || position < l->window.end);
}

// Adds the origin to errors of a plug-in's transform: the sample may be undamaged.
static sr_status blame(const link *l, sr_status status) {
    if (status != SR_OK && l->origin)
        sr_error_prefix("transform %s of %s", l->transform->name, l->origin);
    return status;
}

sr_status sr_transform_chain_apply(const sr_transform_chain *chain, sr_canvas *canvas) {
    const sr_canvas_identity *identity = sr_canvas_get_identity(canvas);
    for (int i = 0; i < chain->count; i++) {
        sr_rng rng;
        if (!is_applied(&chain->links[i], identity->position))
            continue;
        sr_float_control(); // a plug-in may have changed it
        sr_rng_init(&rng, identity->seed, (uint32_t)identity->position,
                    (uint32_t)((uint64_t)identity->position >> 32), (uint32_t)i);
        sr_transform_call call = {.options = chain->links[i].options, .rng = &rng, .index = i};
        SR_TRY(blame(&chain->links[i], chain->links[i].transform->apply(canvas, &call)));
        // The next word of the stream, which no transform uses, identifies what was drawn.
        sr_canvas_note_draws(canvas, chain->links[i].identity + sr_rng_u32(&rng));
    }
    return sr_canvas_finish(canvas);
}

// ---- Rehearsal ----

// Whether the transforms of a position and of those behind it move pixels.
static bool moves_at(const sr_transform_chain *chain, sr_canvas *canvas, int64_t position,
                     int64_t height, int64_t width) {
    enum { DRAWS = 32 }; // a crop may happen to show no padding
    bool moves = true;
    for (int i = 0; i < DRAWS && moves; i++) {
        const sr_canvas_identity identity = {.position = position + i};
        sr_canvas_open_move(canvas, &identity, height, width, height, width);
        moves = sr_transform_chain_apply(chain, canvas) == SR_OK;
    }
    return moves;
}

sr_status sr_transform_chain_moves(const sr_transform_chain *chain, int64_t height, int64_t width,
                                   bool *out) {
    sr_canvas *canvas;
    bool moves = true;
    for (int i = 0; i < chain->count; i++)
        moves = moves && chain->links[i].transform->moves;
    SR_TRY(sr_canvas_create(1, &canvas));
    moves = moves && moves_at(chain, canvas, 0, height, width);
    for (int i = 0; i < chain->count && moves; i++) {
        const sr_transform_window *w = &chain->links[i].window;
        moves = moves_at(chain, canvas, w->begin, height, width) &&
                moves_at(chain, canvas, w->end, height, width);
    }
    sr_canvas_free(canvas);
    *out = moves;
    return SR_OK;
}

enum { REHEARSED_WIDTH = 301, REHEARSED_HEIGHT = 203 };

static sr_status rehearse(const sr_transform_chain *chain, sr_canvas *canvas, int64_t position,
                          const sr_encoded *picture, int64_t height, int64_t width,
                          uint8_t *target) {
    const sr_canvas_identity identity = {.position = position};
    SR_TRY(sr_canvas_open(canvas, picture, &identity, height, width, target));
    const sr_status status = sr_transform_chain_apply(chain, canvas);
    if (status != SR_OK && position > 0)
        sr_error_prefix("from sample %lld of the run on", (long long)position);
    return status;
}

sr_status sr_transform_chain_rehearse(const sr_transform_chain *chain, int64_t position,
                                      int64_t height, int64_t width) {
    const size_t bytes = (size_t)REHEARSED_WIDTH * REHEARSED_HEIGHT * 3;
    sr_canvas *canvas = NULL;
    uint8_t *pixels = sr_alloc(bytes, "a picture for transforms");
    uint8_t *target = sr_alloc((size_t)(height * width) * 3, "a picture for transforms");
    sr_status status = pixels && target ? sr_canvas_create(1, &canvas) : SR_E_MEMORY;
    const sr_encoded picture = {.data = pixels,
                                .bytes = bytes,
                                .raw = true,
                                .height = REHEARSED_HEIGHT,
                                .width = REHEARSED_WIDTH,
                                .channels = 3};
    if (status == SR_OK)
        status = rehearse(chain, canvas, position, &picture, height, width, target);
    sr_canvas_free(canvas);
    sr_free(target);
    sr_free(pixels);
    return status;
}
