// SPDX-License-Identifier: Apache-2.0
// Errors of CUDA's calls.
//
// A launch that is refused fails at once. The failure of a kernel that is running is reported by
// the next call, whichever that is, and by every later one, and CUDA does not report which kernel
// it was. So each stream has a log of the launches that are not known to have finished: the number
// of kernels, and the operators of the first and the last one. The log is cleared when a thread has
// waited for the stream, or for an event at its end. A mark in memory after every kernel would be
// exact, but would double the number of commands; with CUDA_LAUNCH_BLOCKING=1 the launch itself
// fails.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/cuda_internal.h"

// ---- What may have failed ----

void sr_cuda_log_begin(const sr_device *device, sr_cuda_log *log) {
    sr_cuda_device *d = sr_cuda_state(device);
    (void)pthread_mutex_lock(&d->log_lock);
    *log = (sr_cuda_log){.next = d->logs, .stream = ++d->streams};
    d->logs = log;
    (void)pthread_mutex_unlock(&d->log_lock);
}

void sr_cuda_log_end(const sr_device *device, const sr_cuda_log *log) {
    sr_cuda_device *d = sr_cuda_state(device);
    (void)pthread_mutex_lock(&d->log_lock);
    sr_cuda_log **at = &d->logs;
    while (*at != log)
        at = &(*at)->next;
    *at = log->next;
    (void)pthread_mutex_unlock(&d->log_lock);
}

void sr_cuda_log_launch(const sr_device *device, sr_cuda_log *log, const sr_kernel_site *site) {
    sr_cuda_device *d = sr_cuda_state(device);
    (void)pthread_mutex_lock(&d->log_lock);
    if (log->launched == log->reached)
        log->first = *site;
    log->last = *site;
    log->launched++;
    if (d->blocking)
        log->reached = log->launched;
    (void)pthread_mutex_unlock(&d->log_lock);
}

void sr_cuda_log_mark(const sr_device *device, const sr_cuda_log *log, sr_cuda_mark *out) {
    sr_cuda_device *d = sr_cuda_state(device);
    (void)pthread_mutex_lock(&d->log_lock);
    *out = (sr_cuda_mark){log->stream, log->launched};
    (void)pthread_mutex_unlock(&d->log_lock);
}

sr_cuda_mark sr_cuda_log_read(const sr_device *device, const sr_cuda_mark *mark) {
    sr_cuda_device *d = sr_cuda_state(device);
    (void)pthread_mutex_lock(&d->log_lock);
    const sr_cuda_mark now = *mark;
    (void)pthread_mutex_unlock(&d->log_lock);
    return now;
}

// The operator after a mark that is not at the end of the stream is not known, so such marks are
// ignored.
void sr_cuda_log_reached(const sr_device *device, sr_cuda_mark mark) {
    sr_cuda_device *d = sr_cuda_state(device);
    (void)pthread_mutex_lock(&d->log_lock);
    for (sr_cuda_log *log = d->logs; log; log = log->next)
        if (log->stream == mark.stream && log->launched == mark.launched)
            log->reached = mark.launched;
    (void)pthread_mutex_unlock(&d->log_lock);
}

const char *sr_cuda_site_text(const sr_kernel_site *site, char out[SR_CUDA_SITE]) {
    if (site->file)
        (void)snprintf(out, SR_CUDA_SITE, "%s:%d: %s", site->file, site->line, site->what);
    else
        (void)snprintf(out, SR_CUDA_SITE, "%s", site->what);
    return out;
}

// Writes the kernels of all logs of which one may have failed, as "conv2d", "one of 12 kernels,
// from conv2d to sgd"; "" if there are none. Returns their number.
static int64_t find_suspects(const sr_device *device, char *out, size_t bytes) {
    sr_cuda_device *d = sr_cuda_state(device);
    char first[SR_CUDA_SITE], last[SR_CUDA_SITE];
    int64_t all = 0;
    size_t used = 0;
    out[0] = '\0';
    (void)pthread_mutex_lock(&d->log_lock);
    for (const sr_cuda_log *log = d->logs; log && used < bytes; log = log->next) {
        const int64_t count = log->launched - log->reached;
        const char *or_else = all > 0 ? ", or " : "";
        sr_cuda_site_text(&log->first, first);
        if (count == 1)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s", or_else, first);
        else if (count > 1)
            used += (size_t)snprintf(out + used, bytes - used,
                                     "%sone of %lld kernels, from %s to %s", or_else,
                                     (long long)count, first, sr_cuda_site_text(&log->last, last));
        all += count;
    }
    (void)pthread_mutex_unlock(&d->log_lock);
    return all;
}

// ---- Messages ----

bool sr_cuda_is_lost(const sr_device *device, cudaError_t *error) {
    const sr_cuda_device *d = sr_cuda_state(device);
    *error = d && d->copies ? cudaStreamQuery(d->copies) : cudaSuccess;
    return *error != cudaSuccess && *error != cudaErrorNotReady;
}

static sr_status fail(cudaError_t error, const char *what) {
    (void)cudaGetLastError(); // of this thread; a lasting error is reported again
    return SR_FAIL(error == cudaErrorMemoryAllocation ? SR_E_DEVICE_MEMORY : SR_E_DEVICE,
                   "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

sr_status sr_cuda_fail(const sr_device *device, cudaError_t error, const char *format, ...) {
    char what[1024];
    cudaError_t lost;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (device && sr_cuda_is_lost(device, &lost))
        return sr_cuda_fail_lost(device, lost);
    return fail(error, what);
}

sr_status sr_cuda_fail_lost(const sr_device *device, cudaError_t error) {
    char what[1024];
    int used = snprintf(what, sizeof what, "%s: ", device->properties.name);
    const size_t left = sizeof what - (size_t)used;
    const int64_t suspects = find_suspects(device, what + used, left);
    const size_t length = strlen(what);
    if (suspects > 1)
        (void)snprintf(what + length, sizeof what - length,
                       " (CUDA_LAUNCH_BLOCKING=1 finds which one)");
    else if (suspects == 0)
        what[used - 2] = '\0'; // the name alone
    return fail(error, what);
}
