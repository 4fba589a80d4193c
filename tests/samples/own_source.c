// SPDX-License-Identifier: Apache-2.0
// An engine on custom data, with initial weights and an average; the recipe has `ema`. mpirun -np 2
// ./own_source RECIPE [WEIGHTS.safetensors]; a picture's class is its bright quarter.
#include <serried.h>
#include <stdio.h>

enum { CLASSES = 4, MOST = 64, LANES = 8, BATCH = 64, SIDE = 32, BYTES = SIDE * SIDE * 3 };

typedef struct source {
    int64_t step;
    sr_engine *engine;
    struct samples {
        _Alignas(64) uint8_t image[MOST][BYTES];
        _Alignas(64) int32_t label[MOST];
    } lanes[LANES]; // read until 'done'
} source;

// A function of (step, lane), so that it is the same on any number of ranks.
static sr_slot draw(uint32_t step, uint32_t lane, int64_t n, struct samples *to) {
    sr_rng rng;
    sr_rng_init(&rng, 7, step, lane, 0);
    for (int64_t i = 0; i < n; i++) {
        to->label[i] = (int32_t)sr_rng_below(&rng, CLASSES);
        for (int k = 0; k < BYTES; k++) {
            int part = (k / 3 / SIDE >= SIDE / 2) * 2 + (k / 3 % SIDE >= SIDE / 2);
            to->image[i][k] = (uint8_t)(sr_rng_below(&rng, 128) + (part == to->label[i] ? 96 : 0));
        }
    }
    const sr_array image = {"image", SR_U8, 4, {n, SIDE, SIDE, 3}, n, to->image, NULL};
    const sr_array label = {"label", SR_I32, 1, {n}, n, to->label, NULL};
    return (sr_slot){.arrays = 2, .array = {image, label}};
}

static sr_status get(void *user, int lane, sr_slot *out) {
    source *s = (source *)user;
    *out = draw((uint32_t)s->step, (uint32_t)lane, BATCH / LANES, &s->lanes[lane]);
    return SR_OK;
}

static void done(void *user, int lane) { // the lane's buffers may be refilled
    (void)user, (void)lane;
}

static sr_status evaluate(sr_engine *e, const char *of) {
    static struct samples seen;
    sr_task_outputs outputs; // of classification, the logits alone
    int n = 0;
    const sr_slot slot = draw(UINT32_MAX, 0, MOST, &seen);
    SR_TRY(sr_engine_infer(e, &slot, &outputs));
    const float *row = outputs.item[0].data;
    for (int i = 0, better = 0; i < MOST; i++, better = 0, row += CLASSES) {
        for (int k = 0; k < CLASSES; k++)
            better += row[k] > row[seen.label[i]];
        n += better == 0;
    }
    printf("rank %d, %s: %d of %d right\n", sr_comm_rank(sr_engine_get_info(e).comm), of, n, MOST);
    return SR_OK;
}

static sr_status load(sr_engine *engine, const char *path) {
    const sr_string_list reset = {.items = (const char *[]){"fc"}, .count = 1}; // other classes
    sr_safetensors *file;
    SR_TRY(sr_checkpoint_open_weights(path, &file));
    sr_status status = sr_state_load_weights(engine, file, NULL, &reset); // starts the average
    sr_safetensors_free(file);
    return status;
}

static sr_status train(const sr_recipe *r, source *s, const char *weights) {
    const sr_lane_source lanes = {.get = get, .done = done, .user = s};
    sr_phase *phase = sr_engine_get_phase(s->engine, 0);
    const sr_ema_settings ema = {.decay = r->ema.decay, .due = true};
    SR_TRY(weights ? load(s->engine, weights)
                   : sr_param_set_start_average(sr_engine_get_set(s->engine, 0)));
    for (s->step = 0; s->step < r->steps; s->step++) {
        sr_phase_set_step(phase, s->step, s->step * BATCH, 0.05, 1.0 / BATCH, ema);
        SR_TRY(sr_engine_step(s->engine, 0, s->step, &lanes));
    }
    SR_TRY(evaluate(s->engine, "parameters"));
    SR_TRY(sr_engine_use_average(s->engine, true)); // all ranks
    return evaluate(s->engine, "average");
}

int main(int argc, char **argv) {
    static source s;
    sr_engine_options o = {.threads = 1, .classes = CLASSES, .lanes = LANES, .batch = BATCH};
    o.image_height = o.image_width = SIDE;
    sr_status status = argc < 2 ? SR_E_USAGE : sr_recipe_load(argv[1], NULL, 0, &o.recipe);
    if (status == SR_OK && (status = sr_recipe_check(o.recipe)) == SR_OK &&
        (status = sr_choose_task(o.recipe, &o.task)) == SR_OK &&
        (status = sr_comm_create(NULL, &o.comm)) == SR_OK &&
        (status = sr_engine_create(&o, &s.engine)) == SR_OK)
        status = train(o.recipe, &s, argv[2]);
    if (status != SR_OK && o.comm)
        sr_comm_abort(o.comm, status, sr_error_message());
    sr_engine_free(s.engine);
    sr_comm_free(o.comm);
    sr_recipe_free(o.recipe);
    return sr_status_exit_code(status);
}
