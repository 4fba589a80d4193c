// SPDX-License-Identifier: Apache-2.0
// Generative adversarial training with the non-saturating loss (Goodfellow et al. 2014): two
// parameter sets, the critic D and the generator G, and two phases of a step. In phase D the critic
// learns to tell real from generated pictures, in phase G the generator to make the critic take its
// pictures for real. Both phases read both networks; each trains its own. Phase R1, which recipes
// may leave out, keeps the critic smooth: 5 |g|^2 with g the gradient of its result with respect to
// a real picture (Mescheder et al. 2018). It need not run in every step, and counts for as many
// steps as pass from one run to the next (Karras et al. 2020).
#include "autograd/gradients.h"
#include "trainer/tasks/task.h"

enum { SET_D, SET_G };
enum { PHASE_D, PHASE_G, PHASE_R1 };
enum { NOISE = 32 };
enum { IMAGE };    // inputs
enum { PICTURES }; // outputs
enum { REAL, FAKE, SCALARS };

// Numbers of random operators: phases, and inference.
enum { PHASE_NOISE = 0x6e0000, INFERENCE_NOISE = 0x6e1000 };

static sr_tensor noise(const sr_lane_recording *r, int number) {
    return sr_random_normal(r->key, r->dtype, 2, (int64_t[]){r->samples, NOISE}, (uint32_t)number);
}

// [N,1] logits to one loss per sample.
static sr_tensor per_sample(sr_tensor logits, double target) {
    sr_tensor loss = sr_cast(sr_bce_with_logits(logits, target), SR_F32);
    sr_info info;
    if (!sr_tensor_info(loss, &info))
        return SR_NONE;
    return sr_reshape(loss, 1, info.dim);
}

static sr_tensor smoothness(sr_lane_recording *r, sr_tensor real) {
    sr_tensor gradient;
    sr_gradients(sr_task_forward(r, SET_D, &real, "logits", false), SR_NONE, &real, 1, &gradient);
    sr_tensor g = sr_cast(gradient, SR_F32);
    return sr_scale(sr_sum(sr_mul(g, g), (sr_axes){.count = 3, .axis = {1, 2, 3}}),
                    5 * (double)r->every, 0);
}

static void record(sr_lane_recording *r) {
    static const double centre[3] = {0.5, 0.5, 0.5};
    if (r->phase == PHASE_R1) {
        r->loss = smoothness(r, sr_normalize(r->inputs[IMAGE], centre, centre, r->dtype));
        return;
    }
    sr_tensor z = noise(r, PHASE_NOISE + r->phase);
    sr_tensor fake = sr_task_forward(r, SET_G, &z, "picture", r->phase == PHASE_G);
    if (r->phase == PHASE_G) {
        r->loss = per_sample(sr_task_forward(r, SET_D, &fake, "logits", false), 1);
        return;
    }
    sr_tensor real = sr_normalize(r->inputs[IMAGE], centre, centre, r->dtype);
    sr_task_add_loss(r, per_sample(sr_task_forward(r, SET_D, &real, "logits", true), 1), 1, REAL);
    sr_task_add_loss(r, per_sample(sr_task_forward(r, SET_D, &fake, "logits", false), 0), 1, FAKE);
}

// Pictures in 0..1. They depend on the seed and on the position of the slot's first sample.
static void infer(sr_lane_recording *r) {
    sr_tensor z = noise(r, INFERENCE_NOISE);
    sr_tensor picture = sr_cast(sr_task_forward(r, SET_G, &z, "picture", false), SR_F32);
    r->results[PICTURES] = sr_scale(picture, 0.5, 0.5);
}

extern const sr_task_desc sr_task_gan;
const sr_task_desc sr_task_gan = {
    .struct_size = sizeof(sr_task_desc),
    .abi = SR_TASK_ABI,
    .name = "gan",
    .help = "pictures like those of the data, from noise",
    .transformer = "picture",
    .inputs = {[IMAGE] = {.name = "image", .target = true}},
    .sets = {[SET_D] = {.name = "D"}, [SET_G] = {.name = "G"}},
    .phases = {[PHASE_D] = {.name = "D", .set = SET_D},
               [PHASE_G] = {.name = "G", .set = SET_G},
               [PHASE_R1] = {.name = "R1", .set = SET_D, .every = 16, .optional = true}},
    .infers = SET_G,
    .scalar_count = SCALARS,
    .scalars = {[REAL] = {"real", {"real", "real", SR_UNIT_LOSS, SR_BETTER_LOWER}, PHASE_D},
                [FAKE] = {"fake", {"fake", "fake", SR_UNIT_LOSS, SR_BETTER_LOWER}, PHASE_D}},
    .view = sr_eval_view_of,
    .record = record,
    .infer = infer,
    .outputs = {[PICTURES] = "pictures"},
    .generates = "pictures"};
