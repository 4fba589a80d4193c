// SPDX-License-Identifier: Apache-2.0
// Counts of the software GPU: events by kind, for faults on demand and for tests; and launches,
// with the bytes that they moved.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

enum { KINDS = 24, KERNELS = 4096 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const char *kind;
    unsigned long count;
} counts[KINDS];

static struct {
    const char *kernel;
    unsigned long launches;
    uint64_t loaded, stored;
} launched[KERNELS]; // in the order of the first launch

unsigned long soft_count(const char *kind) {
    size_t i = 0;
    (void)pthread_mutex_lock(&mutex);
    while (i < KINDS && counts[i].kind && strcmp(counts[i].kind, kind) != 0)
        i++;
    if (i == KINDS)
        soft_mistake("more than %d kinds of events", KINDS);
    counts[i].kind = kind;
    const unsigned long number = ++counts[i].count;
    (void)pthread_mutex_unlock(&mutex);
    return number;
}

unsigned long soft_gpu_count(const char *kind) {
    unsigned long count = 0;
    (void)pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < KINDS && counts[i].kind; i++)
        if (strcmp(counts[i].kind, kind) == 0)
            count = counts[i].count;
    (void)pthread_mutex_unlock(&mutex);
    return count;
}

void soft_count_launch(const char *kernel, uint64_t loaded, uint64_t stored) {
    size_t i = 0;
    (void)pthread_mutex_lock(&mutex);
    while (i < KERNELS && launched[i].kernel && launched[i].kernel != kernel)
        i++;
    if (i == KERNELS)
        soft_mistake("more than %d kernels", KERNELS);
    launched[i].kernel = kernel;
    launched[i].launches++;
    launched[i].loaded += loaded;
    launched[i].stored += stored;
    (void)pthread_mutex_unlock(&mutex);
}

void soft_gpu_traffic(uint64_t *loaded, uint64_t *stored) {
    *loaded = *stored = 0;
    (void)pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < KERNELS && launched[i].kernel; i++) {
        *loaded += launched[i].loaded;
        *stored += launched[i].stored;
    }
    (void)pthread_mutex_unlock(&mutex);
}

// SOFT_GPU_LAUNCHES: a file to which each process that has launched something appends a line for
// each kernel.
__attribute__((destructor)) static void write_launches(void) {
    const char *path = getenv("SOFT_GPU_LAUNCHES");
    FILE *file = path && *path && launched[0].kernel ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    for (size_t i = 0; i < KERNELS && launched[i].kernel; i++)
        (void)fprintf(file, "%s %lu %llu %llu\n", launched[i].kernel, launched[i].launches,
                      (unsigned long long)launched[i].loaded,
                      (unsigned long long)launched[i].stored);
    (void)fclose(file);
}

// SOFT_GPU_COUNTS: a file to which each process that has counted something appends a line.
__attribute__((destructor)) static void write_counts(void) {
    const char *path = getenv("SOFT_GPU_COUNTS");
    FILE *file = path && *path && counts[0].kind ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    for (size_t i = 0; i < KINDS && counts[i].kind; i++)
        (void)fprintf(file, "%s%s %lu", i ? " " : "", counts[i].kind, counts[i].count);
    (void)fputc('\n', file);
    (void)fclose(file);
}
