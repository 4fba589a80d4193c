// SPDX-License-Identifier: Apache-2.0
// Whether the model can be evaluated as the recipe says (inputs.h), before a step is trained for
// it.
#include <inttypes.h>
#include <stdio.h>

#include "dataio/jpeg/decode.h"
#include "kernels/base/text.h"
#include "trainer/run/inputs.h"
#include "trainer/run/training_internal.h"
#include "trainer/tasks/eval_view.h"

sr_status sr_inputs_check_eval_batch(sr_recipe *r) {
    const int64_t batch = r->eval.batch, lanes = r->lanes, below = batch / lanes * lanes;
    if (batch % lanes == 0)
        return SR_OK;
    char other[48] = "";
    if (below > 0)
        (void)snprintf(other, sizeof other, "%" PRId64 " or ", below);
    return sr_recipe_fail(r, "eval.batch",
                          "eval.batch %" PRId64 " cannot be divided into %" PRId64
                          " equal lanes; give %s%" PRId64,
                          batch, lanes, other, below + lanes);
}

// The smallest that a picture can become. A longer one may still be too large.
static sr_status check_resize(sr_recipe *r) {
    const int64_t height = r->eval.resize_height,
                  width = r->eval.resize_width > 0 ? r->eval.resize_width : height;
    if (height * width <= SR_DECODE_MAX_PIXELS)
        return SR_OK;
    return sr_recipe_fail(r, "eval.resize",
                          "eval.resize makes pictures of at least %" PRId64 " x %" PRId64
                          ", over the limit of %" PRId64 " pixels; lower it",
                          height, width, SR_DECODE_MAX_PIXELS);
}

// Turns what the model or the data pipeline refuses into a mistake at a key of the recipe.
static sr_status refuse(sr_recipe *recipe, const char *key, sr_status status) {
    char message[768];
    if (status != SR_E_USAGE && status != SR_E_SHAPE && status != SR_E_LIMIT)
        return status;
    (void)snprintf(message, sizeof message, "%s", sr_error_message());
    return sr_recipe_fail(recipe, key, "evaluation: %s", message);
}

sr_status sr_inputs_check_evaluation(sr_engine *engine, const sr_inputs *in,
                                     sr_evaluation_needs *out) {
    const sr_engine_info e = sr_engine_get_info(engine);
    sr_recipe *r = e.recipe;
    sr_eval_view view;
    sr_plan *plan;
    *out = (sr_evaluation_needs){0};
    if (!in->val_path[0])
        return SR_OK;
    SR_TRY(sr_inputs_check_eval_batch(r));
    e.task->view(r, e.task_options, &view);
    const int64_t samples = view.whole ? 1 : r->eval.batch / r->lanes;
    SR_TRY(refuse(r, view.whole ? "eval.resize" : "eval.crop",
                  sr_engine_compile_inference(
                      engine, samples, view.whole ? in->val_extent.height : view.height,
                      view.whole ? in->val_extent.width : view.width, &plan)));
    out->activations = sr_plan_peak_bytes(plan);
    SR_TRY(check_resize(r));
    return refuse(r, "eval.batch",
                  sr_evaluation_measure(engine, in->val_path, &in->val_extent, &out->slots));
}
