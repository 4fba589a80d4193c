// SPDX-License-Identifier: Apache-2.0
// Online hard example mining (Shrivastava et al. 2016) of pixels: the cross-entropy of those whose
// label has a probability below a threshold, which rises where fewer than a number of pixels would
// be left (mmsegmentation's OHEMPixelSampler). All pictures of a lane are chosen from together.
//
// Probabilities are compared as cross-entropies, which the loss needs anyway: p < t where -log p >
// -log t.
#include <stddef.h>

#include "kernels/base/math.h"
#include "trainer/losses/loss.h"
#include "trainer/losses/losses_internal.h"

enum { VALID, ALL, KEPT };

typedef struct loss_options {
    double thresh;
    int64_t min_kept;
    int count;
} loss_options;

static const char *const counts[] = {[VALID] = "valid", [ALL] = "all", [KEPT] = "kept", NULL};

static const sr_option rows[] = {
    {.name = "thresh",
     .help = "probability of the label below which a pixel is kept; 0: the min_kept hardest alone",
     .type = SR_OPT_FLOAT,
     .offset = offsetof(loss_options, thresh),
     .default_text = "0.7",
     .max = 1},
    {.name = "min_kept",
     .help = "pixels for each picture of a lane that are kept at least, the hardest of the lane",
     .type = SR_OPT_INT,
     .offset = offsetof(loss_options, min_kept),
     .default_text = "100000",
     .min = 1,
     .max = 1 << 24},
    {.name = "count",
     .help = "what the sum of a lane's losses is divided by: valid: the number of pixels with a "
             "class; all: that of all; kept: that of those that are kept",
     .type = SR_OPT_ENUM,
     .offset = offsetof(loss_options, count),
     .default_text = "valid",
     .choices = counts},
};

static const sr_option_table table = {.name = "loss.ohem",
                                      .options = rows,
                                      .count = sizeof rows / sizeof rows[0],
                                      .struct_size = sizeof(loss_options)};

// The cross-entropy above which a pixel is kept, [1,1]: of losses [1,P] and 1 where one counts.
static sr_tensor limit_of(sr_tensor losses, sr_tensor valid, const loss_options *o, int64_t kept,
                          int64_t pixels) {
    const sr_tensor none = sr_losses_filled(losses, 1e30);
    sr_tensor limit = sr_min_over(sr_where(valid, losses, none), 1, true).value;
    if (kept < pixels) {
        // The next one after those that are kept; -1 where there are fewer with a class.
        const sr_tensor counted = sr_where(valid, losses, sr_losses_filled(losses, -1.0));
        const sr_tensor first = sr_topk(counted, kept + 1, false).value;
        const sr_tensor next = sr_slice(first, 1, kept, 1, 1);
        limit = sr_where(sr_greater(sr_losses_filled(next, 0.0), next), limit, next);
    }
    return o->thresh > 0 ? sr_minimum(limit, sr_losses_filled(limit, -sr_log_f64(o->thresh)))
                         : limit;
}

static sr_tensor record_map(sr_context *context, sr_tensor logits, sr_tensor labels,
                            const void *options) {
    const loss_options *o = options;
    const sr_label_opts opts = {.has_ignored = false};
    const sr_tensor loss = sr_loss_cross_entropy(logits, labels, 0.0, opts);
    sr_info info;
    (void)context;
    if (!sr_tensor_info(loss, &info))
        return loss;
    const int64_t row[2] = {1, sr_info_count(&info)};
    const sr_tensor flat = sr_reshape(loss, 2, row);
    const sr_tensor valid = sr_reshape(sr_losses_valid(labels, info.dtype, &opts), 2, row);
    const sr_tensor limit = limit_of(flat, valid, o, o->min_kept * info.dim[0], row[1]);
    const sr_tensor hard = sr_losses_shaped(sr_greater(flat, limit), labels, 0);
    const sr_tensor kept = sr_mul(loss, hard); // an ignored pixel's loss is 0, as is its gradient
    if (o->count == KEPT)
        return sr_losses_pictures(kept, hard);
    return sr_losses_counted_by(o->count == ALL ? SR_COUNT_ALL : SR_COUNT_VALID, kept, labels, opts,
                                SR_NONE);
}

extern const sr_loss_desc sr_loss_row_ohem;
const sr_loss_desc sr_loss_row_ohem = {
    .struct_size = sizeof(sr_loss_desc),
    .abi = SR_LOSS_ABI,
    .name = "ohem",
    .help = "cross-entropy of the hardest pixels (Shrivastava et al. 2016)",
    .options = &table,
    .record_map = record_map};
