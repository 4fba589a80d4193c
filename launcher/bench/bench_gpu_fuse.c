// SPDX-License-Identifier: Apache-2.0
// Levels of fusion: which kernels become one, and what they no longer read and write
// (bench_gpu_internal.h).
//
//   i      the kernels that exist, but nothing computed twice to save memory, and gradients of
//          weights of all lanes in one launch
//   ii     the sums of a batch norm come from the epilogue of what wrote its x or dy
//   iii-a  every next convolution normalises and clips x as it reads it, and nobody writes that;
//   the
//          batch norm of a shortcut is applied where the shortcut is added
//   iii-b  the end of a block is in the 1x1 convolution that reads it; gradients of convolutions
//          read dy and x of the batch norm behind them, and nobody writes its dx
//   iii-c  the two gradients of a convolution are one kernel
//
// A level that does not apply to a kernel leaves it as it is. Kernels of these levels do not exist;
// a convolution with a prologue or an epilogue is taken to need no more time than it does now, but
// for its bytes.
#include <assert.h>
#include <string.h>

#include "launcher/bench/bench_gpu_internal.h"

enum { NONE = -1 };

// ---- Uses ----

static int find_use(const sr_gpu_use *uses, int count, int value) {
    for (int i = 0; i < count; i++)
        if (uses[i].value == value)
            return i;
    return NONE;
}

static bool reads(const sr_gpu_kernel *k, int value) {
    return !k->gone && find_use(k->reads, k->read_count, value) >= 0;
}

static bool writes(const sr_gpu_kernel *k, int value) {
    return !k->gone && find_use(k->writes, k->write_count, value) >= 0;
}

// Adds a value that the kernel reads 'times' times; it is listed once.
static void set_read(sr_gpu_kernel *k, int value, double times) {
    int i = find_use(k->reads, k->read_count, value);
    if (i < 0) {
        assert(k->read_count < SR_GPU_USES);
        i = k->read_count++;
    }
    k->reads[i] = (sr_gpu_use){.value = value, .times = times};
}

static void drop_read(sr_gpu_kernel *k, int value) {
    const int i = find_use(k->reads, k->read_count, value);
    if (i < 0)
        return;
    for (int j = i + 1; j < k->read_count; j++)
        k->reads[j - 1] = k->reads[j];
    k->read_count--;
}

static void set_write(sr_gpu_kernel *k, int value) {
    if (find_use(k->writes, k->write_count, value) >= 0)
        return;
    assert(k->write_count < SR_GPU_USES);
    k->writes[k->write_count++] = (sr_gpu_use){.value = value, .times = 1};
}

static void drop_write(sr_gpu_kernel *k, int value) {
    const int i = find_use(k->writes, k->write_count, value);
    if (i < 0)
        return;
    for (int j = i + 1; j < k->write_count; j++)
        k->writes[j - 1] = k->writes[j];
    k->write_count--;
}

static int reader_count(const sr_gpu_program *p, int value) {
    int count = 0;
    for (int n = 0; n < p->kernel_count; n++)
        count += reads(&p->kernels[n], value);
    return count;
}

// NULL: it is given.
static sr_gpu_kernel *writer_of(const sr_gpu_program *p, int value) {
    for (int n = 0; n < p->kernel_count; n++)
        if (writes(&p->kernels[n], value))
            return &p->kernels[n];
    return NULL;
}

static bool is(const sr_gpu_kernel *k, sr_kernel_id id) {
    return k && !k->gone && k->id == id;
}

// ---- i ----

// What a kernel that is gone wrote beside its first output, which was computed again: signs, which
// the kernel writes that has computed that first.
static void keep_signs(sr_gpu_program *p, const sr_gpu_kernel *again) {
    const int y = p->values[again->writes[0].value].original;
    for (int i = 1; i < again->write_count; i++) {
        set_write(writer_of(p, y), again->writes[i].value);
        p->values[y].mask = again->writes[i].value;
    }
}

static sr_status keep_values(sr_gpu_program *p) {
    for (int n = 0; n < p->kernel_count; n++) {
        sr_gpu_kernel *k = &p->kernels[n];
        k->gone = k->family == SR_GPU_AGAIN;
        if (k->gone)
            keep_signs(p, k);
        if (k->raw >= 0)
            k->raw = p->values[k->raw].original;
        for (int i = 0; i < k->read_count; i++)
            k->reads[i].value = p->values[k->reads[i].value].original;
        if (k->measured > 0)
            k->repeats = 1;
    }
    return SR_OK;
}

// ---- ii ----

static bool is_batchnorm(const sr_gpu_kernel *k) {
    return is(k, SR_KERNEL_batchnorm_train) || is(k, SR_KERNEL_batchnorm_grad) ||
           is(k, SR_KERNEL_batchnorm_train_relu_maxpool) ||
           is(k, SR_KERNEL_batchnorm_relu_maxpool_grad);
}

// What remains of a batch norm: from sums to factors.
static void leave_factors(sr_gpu_kernel *b) {
    b->functions = 1;
}

static sr_status read_once(sr_gpu_program *p) {
    for (int n = 0; n < p->kernel_count; n++) {
        sr_gpu_kernel *k = &p->kernels[n];
        if (is(k, SR_KERNEL_batchnorm_moments)) {
            drop_read(k, k->raw);
            leave_factors(k);
        }
        if (!is_batchnorm(k))
            continue;
        k->why = NULL;
        k->functions = 2; // what the sums give, and the pass
        drop_read(k, k->shared);
        for (int i = 0; i < k->read_count; i++)
            k->reads[i] = (sr_gpu_use){.value = k->reads[i].value, .times = 1};
    }
    return SR_OK;
}

// ---- iii-a ----

static bool takes_prologue(const sr_gpu_kernel *k) {
    return is(k, SR_KERNEL_conv2d) || is(k, SR_KERNEL_conv2d_dw) || is(k, SR_KERNEL_maxpool2d);
}

// What can clip the gradient that it writes.
static bool takes_epilogue(const sr_gpu_kernel *k) {
    return is(k, SR_KERNEL_conv2d_dx) || is(k, SR_KERNEL_maxpool2d_grad) ||
           is(k, SR_KERNEL_avgpool2d_grad) || is(k, SR_KERNEL_linear_dx);
}

static bool all_readers(const sr_gpu_program *p, int value, bool (*take)(const sr_gpu_kernel *k)) {
    for (int n = 0; n < p->kernel_count; n++)
        if (reads(&p->kernels[n], value) && !take(&p->kernels[n]))
            return false;
    return true;
}

// What writes dy of the batch norm of x reads x and clips.
static void clip_in_epilogue(const sr_gpu_program *p, int x) {
    for (int n = 0; n < p->kernel_count; n++) {
        const sr_gpu_kernel *grad = &p->kernels[n];
        if (!is(grad, SR_KERNEL_batchnorm_grad) || !grad->rectifies || grad->shared >= 0 ||
            grad->raw != x)
            continue;
        for (int i = 0; i < grad->read_count; i++) {
            sr_gpu_kernel *writer = writer_of(p, grad->reads[i].value);
            if (takes_epilogue(writer))
                set_read(writer, x, 1);
        }
    }
}

static void move_to_prologues(const sr_gpu_program *p, sr_gpu_kernel *b) {
    const int y = b->writes[0].value;
    if (!all_readers(p, y, takes_prologue))
        return;
    for (int n = 0; n < p->kernel_count; n++) {
        sr_gpu_kernel *k = &p->kernels[n];
        if (reads(k, y)) {
            drop_read(k, y);
            set_read(k, b->raw, 1);
        }
    }
    clip_in_epilogue(p, b->raw);
    drop_read(b, b->raw);
    drop_write(b, y);
    leave_factors(b);
}

static void apply_to_shortcut(const sr_gpu_program *p, sr_gpu_kernel *b) {
    sr_gpu_kernel *other = writer_of(p, b->residual);
    if (!is(other, SR_KERNEL_batchnorm_train) || other->rectifies ||
        reader_count(p, b->residual) != 1)
        return;
    drop_read(b, b->residual);
    drop_read(other, other->raw);
    drop_write(other, b->residual);
    b->residual = other->raw;
    set_read(b, b->residual, 1);
    leave_factors(other);
}

static sr_status use_prologues(sr_gpu_program *p) {
    for (int n = 0; n < p->kernel_count; n++) {
        sr_gpu_kernel *b = &p->kernels[n];
        if (is(b, SR_KERNEL_batchnorm_moments)) // which convolutions apply already
            clip_in_epilogue(p, b->raw);
        if (!is(b, SR_KERNEL_batchnorm_train) || !b->rectifies)
            continue;
        if (b->residual < 0)
            move_to_prologues(p, b);
        else
            apply_to_shortcut(p, b);
    }
    return SR_OK;
}

// ---- iii-b ----

// The end of a block goes to the first 1x1 convolution that reads it.
static void move_block_end(const sr_gpu_program *p, sr_gpu_kernel *b) {
    const int y = b->writes[0].value, mask = p->values[y].mask;
    for (int n = 0; n < p->kernel_count; n++) {
        sr_gpu_kernel *k = &p->kernels[n];
        if (!reads(k, y) || !is(k, SR_KERNEL_conv2d) || k->family != SR_GPU_POINTWISE ||
            k->stride != 1)
            continue;
        drop_read(k, y);
        set_read(k, b->raw, 1);
        set_read(k, b->residual, 1);
        set_write(k, y);
        if (mask >= 0)
            set_write(k, mask);
        drop_read(b, b->raw);
        drop_read(b, b->residual);
        drop_write(b, y);
        drop_write(b, mask);
        leave_factors(b);
        return;
    }
}

static bool takes_gradient(const sr_gpu_kernel *k) {
    return is(k, SR_KERNEL_conv2d_dx) || is(k, SR_KERNEL_conv2d_dw);
}

// Readers of dx read dy and x instead; the kernel reads and writes neither.
static void move_gradient(const sr_gpu_program *p, sr_gpu_kernel *b, int dy) {
    const int dx = b->writes[0].value;
    for (int n = 0; n < p->kernel_count; n++) {
        sr_gpu_kernel *k = &p->kernels[n];
        if (!reads(k, dx))
            continue;
        drop_read(k, dx);
        set_read(k, dy, 1);
        set_read(k, b->raw, 1);
    }
    drop_read(b, b->raw);
    drop_write(b, dx);
    leave_factors(b);
}

// A part of the gradient that nothing else reads.
static bool is_own_part(const sr_gpu_program *p, int value) {
    return takes_epilogue(writer_of(p, value)) && reader_count(p, value) == 1;
}

// A gradient that others read, too: what writes the last part of it (of a sum) reads the other
// parts, bits and x, and writes the clipped sum.
static void move_shared(const sr_gpu_program *p, sr_gpu_kernel *b) {
    sr_gpu_kernel *writer = NULL;
    int part = NONE;
    for (int i = 0; i < b->read_count; i++) {
        sr_gpu_kernel *k = writer_of(p, b->reads[i].value);
        if (is_own_part(p, b->reads[i].value) && (!writer || k > writer)) {
            writer = k;
            part = b->reads[i].value;
        }
    }
    if (!writer || !all_readers(p, b->writes[0].value, takes_gradient))
        return;
    for (int i = b->read_count - 1; i >= 0; i--) {
        const int value = b->reads[i].value;
        if (p->values[value].is_vector)
            continue;
        if (value != part)
            set_read(writer, value, 1);
        if (value != b->raw)
            drop_read(b, value);
    }
    drop_write(writer, part);
    set_write(writer, b->shared);
    drop_write(b, b->shared);
    move_gradient(p, b, b->shared);
}

// A gradient with one reader, or one that another batch norm's kernel shared.
static void move_single(const sr_gpu_program *p, sr_gpu_kernel *b) {
    for (int i = 0; i < b->read_count; i++) {
        const int dy = b->reads[i].value;
        sr_gpu_kernel *writer = writer_of(p, dy);
        if (dy == b->raw || !takes_epilogue(writer) ||
            !all_readers(p, b->writes[0].value, takes_gradient))
            continue;
        set_read(writer, b->raw, 1); // for the sums
        drop_read(b, dy);
        move_gradient(p, b, dy);
        return;
    }
}

static sr_status move_block_ends(sr_gpu_program *p) {
    for (int n = 0; n < p->kernel_count; n++) {
        sr_gpu_kernel *b = &p->kernels[n];
        if (is(b, SR_KERNEL_batchnorm_train) && b->rectifies && b->residual >= 0)
            move_block_end(p, b);
        if (is(b, SR_KERNEL_batchnorm_grad) && b->shared >= 0)
            move_shared(p, b);
    }
    for (int n = 0; n < p->kernel_count; n++) {
        sr_gpu_kernel *b = &p->kernels[n];
        if (is(b, SR_KERNEL_batchnorm_grad) && b->shared < 0)
            move_single(p, b);
    }
    return SR_OK;
}

// ---- iii-c ----

static bool is_same_filter(const sr_info *a, const sr_info *b) {
    return memcmp(a->dim, b->dim, 4 * sizeof *a->dim) == 0;
}

static sr_status join_gradients(sr_gpu_program *p) {
    for (int n = 0; n < p->kernel_count; n++) {
        sr_gpu_kernel *dx = &p->kernels[n];
        for (int m = 0; m < p->kernel_count && is(dx, SR_KERNEL_conv2d_dx); m++) {
            sr_gpu_kernel *dw = &p->kernels[m];
            if (!is(dw, SR_KERNEL_conv2d_dw) || dw->gradient != dx->gradient ||
                !is_same_filter(&dw->filter, &dx->filter))
                continue;
            for (int i = 0; i < dw->read_count; i++)
                set_read(dx, dw->reads[i].value, 1);
            for (int i = 0; i < dw->write_count; i++)
                set_write(dx, dw->writes[i].value);
            dx->flops += dw->flops;
            dx->executed += dw->executed;
            dx->measured += dw->measured;
            dx->fixed += dw->fixed;
            dw->gone = true;
            break;
        }
    }
    return SR_OK;
}

static sr_status as_built(sr_gpu_program *p) {
    (void)p;
    return SR_OK;
}

const sr_gpu_step sr_gpu_steps[SR_GPU_LEVELS] = {
    {"built", "the kernels that exist, as they run", as_built},
    {"i", "nothing recomputed; gradients of weights for all lanes at once", keep_values},
    {"ii", "sums of batch norm in epilogues, so that it reads once", read_once},
    {"iii-a", "batch norm and ReLU in prologues of every next convolution", use_prologues},
    {"iii-b", "block ends in the next 1x1, gradients of batch norm in prologues", move_block_ends},
    {"iii-c", "gradients of x and w in one kernel", join_gradients},
};
