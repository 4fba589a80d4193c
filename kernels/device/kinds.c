// SPDX-License-Identifier: Apache-2.0
// The table of kinds of devices: those of device_list.def, followed by those of modules, and the
// numbers of the kinds of kernels that they run.
//
// Kernels are for a kind of device, which several rows may share: those of "cpu" run on
// "cpu-async", too. A module provides the name of its kind; requests contain its number, which is
// assigned when the module is opened and differs from process to process.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/base/table.h"
#include "kernels/base/text.h"
#include "kernels/device/device_internal.h"

static sr_status check_ops(const void *descriptor);

static const sr_device_ops *const built_in[] = {
#define SR_DEVICE(ops) &ops,
#include "kernels/device/device_list.def"
#undef SR_DEVICE
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sr_table table = {.what = "device", // guarded by the lock
                         .struct_size = sizeof(sr_device_ops),
                         .abi = SR_DEVICE_ABI,
                         .built_in = built_in,
                         .built_in_count = sizeof built_in / sizeof built_in[0],
                         .check = check_ops};

// Names of kinds by number; written under the lock, before the count is raised.
static const char *names[SR_DEVICE_KINDS] = {[SR_DEVICE_CPU] = "cpu"};
static atomic_uint name_count = 1;

const char *sr_device_kind_name(sr_device_kind kind) {
    return kind < atomic_load_explicit(&name_count, memory_order_acquire) ? names[kind] : "?";
}

// With the lock held.
static sr_device_kind number_of(const char *kernels) {
    const unsigned count = atomic_load_explicit(&name_count, memory_order_relaxed);
    unsigned i = 0;
    while (i < count && strcmp(names[i], kernels) != 0)
        i++;
    return i;
}

// Assigns a number to its kind of kernels, if that is new. Called with the lock held.
static sr_status check_ops(const void *descriptor) {
    const sr_device_ops *ops = descriptor;
    if (!ops->kernels || !ops->describe || !ops->numerics || !ops->identity)
        return SR_FAIL(SR_E_UNSUPPORTED, "does not say what it is");
    const unsigned number = number_of(ops->kernels);
    if (number < atomic_load_explicit(&name_count, memory_order_relaxed))
        return SR_OK;
    if (number == SR_DEVICE_KINDS)
        return SR_FAIL(SR_E_LIMIT, "kernels of at most %u kinds can be in use", SR_DEVICE_KINDS);
    names[number] = ops->kernels;
    atomic_store_explicit(&name_count, number + 1, memory_order_release);
    return SR_OK;
}

sr_status sr_device_add_kinds(const sr_device_ops *const *list, const char *origin) {
    (void)pthread_mutex_lock(&lock);
    const sr_status status = sr_table_add(&table, list, origin);
    (void)pthread_mutex_unlock(&lock);
    return status;
}

const sr_device_ops *sr_device_find_kind(const char *name, sr_device_kind *kind) {
    (void)pthread_mutex_lock(&lock);
    const sr_device_ops *ops = sr_table_find(&table, name);
    *kind = ops ? number_of(ops->kernels) : SR_DEVICE_CPU;
    (void)pthread_mutex_unlock(&lock);
    return ops;
}

sr_status sr_device_fail_unknown(const char *name) {
    const void *none;
    (void)pthread_mutex_lock(&lock);
    const sr_status status = sr_table_choose(&table, name, &none);
    (void)pthread_mutex_unlock(&lock);
    return status;
}

const sr_device_ops *sr_device_kind_at(size_t i) {
    size_t count;
    (void)pthread_mutex_lock(&lock);
    const sr_device_ops *const *all = sr_table_all(&table, &count);
    const sr_device_ops *ops = i < count ? all[i] : NULL;
    (void)pthread_mutex_unlock(&lock);
    return ops;
}
