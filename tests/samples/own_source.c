// SPDX-License-Identifier: Apache-2.0
// An engine on custom data, with initial weights and an average; the recipe has `ema`. mpirun -np 2
// ./own_source RECIPE [WEIGHTS.safetensors]; a picture's class is its bright quarter.
#include <serried.h>
#include <stdio.h>

enum { CLASSES = 4, MOST = 64, LANES = 8, SIDE = 32, BYTES = SIDE * SIDE * 3 };

typedef struct source {
    int64_t step;
    sr_engine *engine;
    uint8_t image[LANES][MOST * BYTES]; // of each lane: read until 'done'
    int32_t label[LANES][MOST];
} source;

// A function of (step, lane), so that it is the same on any number of ranks.
static void draw(uint32_t step, uint32_t lane, int64_t samples, uint8_t *image, int32_t *label) {
    sr_rng rng;
    sr_rng_init(&rng, 7, step, lane, 0);
    for (int64_t i = 0; i < samples; i++) {
        label[i] = (int32_t)sr_rng_below(&rng, CLASSES);
        for (int k = 0; k < BYTES; k++) {
            int quarter = (k / 3 / SIDE >= SIDE / 2) * 2 + (k / 3 % SIDE >= SIDE / 2);
            *image++ = (uint8_t)(sr_rng_below(&rng, 128) + (quarter == label[i] ? 96 : 0));
        }
    }
}

static sr_status get(void *user, int lane, sr_lane_inputs *out) {
    source *s = (source *)user;
    draw((uint32_t)s->step, (uint32_t)lane, s->engine->lane_samples, s->image[lane],
         s->label[lane]);
    *out = (sr_lane_inputs){.image = s->image[lane], .label = s->label[lane]};
    return SR_OK;
}

static void done(void *user, int lane) { // the lane's buffers may be refilled
    (void)user, (void)lane;
}

static sr_status evaluate(sr_engine *e, const char *what) {
    static uint8_t image[MOST * BYTES];
    static float logits[MOST][CLASSES];
    int32_t label[MOST], hits = 0;
    draw(UINT32_MAX, 0, MOST, image, label);
    SR_TRY(sr_engine_infer(e, MOST, SIDE, SIDE, image, logits[0], sizeof logits));
    for (int i = 0; i < MOST; i++) {
        int better = 0;
        for (int k = 0; k < CLASSES; k++)
            better += logits[i][k] > logits[i][label[i]];
        hits += better == 0;
    }
    printf("rank %d, %s: %d of %d right\n", sr_comm_rank(e->comm), what, (int)hits, MOST);
    return SR_OK;
}

static sr_status load(sr_engine *engine, const char *path) {
    const char *last[] = {"fc"}; // may have other classes there
    const sr_string_list reset = {.items = last, .count = 1};
    sr_safetensors *file;
    SR_TRY(sr_checkpoint_open_weights(path, &file));
    sr_status status = sr_state_load_weights(engine, file, &reset); // also starts the average
    sr_safetensors_free(file);
    return status;
}

static sr_status train(const sr_recipe *r, source *s, const char *weights) {
    const sr_lane_source lanes = {.get = get, .done = done, .user = s};
    sr_phase *phase = s->engine->phases[0];
    const sr_ema_settings ema = {.decay = r->ema.decay, .due = true};
    const int64_t batch = s->engine->batch;
    SR_TRY(sr_phase_start_average(phase));
    if (weights)
        SR_TRY(load(s->engine, weights));
    for (s->step = 0; s->step < r->steps; s->step++) {
        sr_phase_set_step(phase, s->step, s->step * batch, 0.05, 1.0 / (double)batch, ema);
        SR_TRY(sr_engine_step(s->engine, 0, s->step, &lanes));
    }
    SR_TRY(evaluate(s->engine, "parameters"));
    SR_TRY(sr_engine_use_average(s->engine, true)); // all ranks
    return evaluate(s->engine, "average");
}

int main(int argc, char **argv) {
    static source s;
    sr_engine_options o = {.threads = 1, .classes = CLASSES, .lanes = LANES, .batch = LANES * 8};
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
