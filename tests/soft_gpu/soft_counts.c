// SPDX-License-Identifier: Apache-2.0
// Counts of the software GPU: events by kind, for faults on demand and for tests.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

enum { KINDS = 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const char *kind;
    unsigned long count;
} counts[KINDS];

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
