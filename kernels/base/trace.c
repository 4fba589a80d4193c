// SPDX-License-Identifier: Apache-2.0
// Traces (see trace.h). Format: "Trace Event Format" of Google's catapult project: metadata events
// "M" name processes and threads, complete events "X" have a begin and a duration in microseconds.
#include "kernels/base/trace.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>

#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"

struct sr_trace_label {
    const char *name, *args;
};

typedef struct span {
    const sr_trace_label *label;
    int64_t begin, end, busy; // busy: sum over its parts
    uint32_t parts;
} span;

struct sr_trace_row {
    sr_trace_row *next;
    const char *name;
    span *spans;
    size_t count, capacity;
    bool open; // the last span may be extended
};

struct sr_trace {
    pthread_mutex_t lock;
    sr_arena arena; // labels, rows, their texts
    int process;
    const char *name;
    int64_t start_ns;
    sr_trace_row *first, *last;
};

sr_status sr_trace_create(int process, const char *name, sr_trace **out) {
    sr_trace *t = sr_alloc(sizeof *t, "trace");
    if (!t)
        return SR_E_MEMORY;
    (void)pthread_mutex_init(&t->lock, NULL);
    sr_arena_init(&t->arena);
    t->process = process;
    t->start_ns = sr_clock_ns();
    t->name = sr_arena_strdup(&t->arena, name);
    if (!t->name) {
        sr_trace_free(t);
        return SR_E_MEMORY;
    }
    *out = t;
    return SR_OK;
}

void sr_trace_free(sr_trace *t) {
    if (!t)
        return;
    for (sr_trace_row *row = t->first; row; row = row->next)
        sr_free(row->spans);
    sr_arena_release(&t->arena);
    (void)pthread_mutex_destroy(&t->lock);
    sr_free(t);
}

sr_status sr_trace_add_label(sr_trace *t, const char *name, const char *args,
                             const sr_trace_label **out) {
    (void)pthread_mutex_lock(&t->lock);
    sr_trace_label *label = sr_arena_alloc(&t->arena, sizeof *label);
    if (label) {
        label->name = sr_arena_strdup(&t->arena, name);
        label->args = sr_arena_strdup(&t->arena, args);
    }
    (void)pthread_mutex_unlock(&t->lock);
    if (!label || !label->name || !label->args)
        return SR_E_MEMORY;
    *out = label;
    return SR_OK;
}

sr_status sr_trace_add_row(sr_trace *t, const char *name, size_t spans, sr_trace_row **out) {
    (void)pthread_mutex_lock(&t->lock);
    sr_trace_row *row = sr_arena_alloc(&t->arena, sizeof *row);
    const char *copy = row ? sr_arena_strdup(&t->arena, name) : NULL;
    if (copy) {
        row->name = copy;
        if (t->last)
            t->last->next = row;
        else
            t->first = row;
        t->last = row;
    }
    (void)pthread_mutex_unlock(&t->lock);
    if (!copy)
        return SR_E_MEMORY;
    SR_TRY(sr_trace_reserve(row, spans));
    *out = row;
    return SR_OK;
}

sr_status sr_trace_reserve(sr_trace_row *row, size_t spans) {
    void *array = row->spans;
    SR_TRY(sr_grow(&array, &row->capacity, row->count + spans, sizeof *row->spans, "trace"));
    row->spans = array;
    return SR_OK;
}

void sr_trace_span(sr_trace_row *row, const sr_trace_label *label, int64_t begin, int64_t end) {
    if (row->spans == NULL || row->count == row->capacity)
        return;
    row->spans[row->count++] =
        (span){.label = label, .begin = begin, .end = end, .busy = end - begin, .parts = 1};
    row->open = true;
}

void sr_trace_part(sr_trace_row *row, const sr_trace_label *label, int64_t begin, int64_t end) {
    span *last = row->open && row->count > 0 ? &row->spans[row->count - 1] : NULL;
    if (!last || last->label != label) {
        sr_trace_span(row, label, begin, end);
        return;
    }
    last->end = end;
    last->busy += end - begin;
    last->parts++;
}

void sr_trace_close(sr_trace_row *row) {
    row->open = false;
}

// ---- Writing ----

// Microseconds with all their nanoseconds.
static void add_time(sr_text *out, const char *key, int64_t ns) {
    sr_text_add(out, "\"%s\": %" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void add_name(sr_text *out, const char *kind, int process, int row, const char *name) {
    sr_text_add(out, "{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"args\": ", kind,
                process, row);
    sr_text_add(out, "{\"name\": ");
    sr_text_add_json_string(out, name);
    sr_text_add(out, "}}");
}

static void add_span(sr_text *out, int process, int row, const span *s, int64_t start) {
    sr_text_add(out, ",\n{\"ph\": \"X\", \"name\": ");
    sr_text_add_json_string(out, s->label->name);
    sr_text_add(out, ", \"pid\": %d, \"tid\": %d, ", process, row);
    add_time(out, "ts", s->begin - start);
    sr_text_add(out, ", ");
    add_time(out, "dur", s->end - s->begin);
    sr_text_add(out, ", \"args\": {\"parts\": %" PRIu32 ", ", s->parts);
    add_time(out, "busy_us", s->busy);
    sr_text_add(out, "%s%s}}", s->label->args[0] ? ", " : "", s->label->args);
}

void sr_trace_add_events(const sr_trace *t, sr_text *out) {
    int number = 0;
    add_name(out, "process_name", t->process, 0, t->name);
    for (const sr_trace_row *row = t->first; row; row = row->next) {
        sr_text_add(out, ",\n");
        add_name(out, "thread_name", t->process, ++number, row->name);
        sr_text_add(out,
                    ",\n{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": %d, "
                    "\"tid\": %d, \"args\": {\"sort_index\": %d}}",
                    t->process, number, number);
        for (size_t i = 0; i < row->count; i++)
            add_span(out, t->process, number, &row->spans[i], t->start_ns);
    }
}

sr_status sr_trace_write(const sr_trace *t, const char *path) {
    sr_text out;
    sr_text_init(&out);
    sr_text_add(&out, SR_TRACE_HEAD);
    sr_trace_add_events(t, &out);
    sr_text_add(&out, SR_TRACE_TAIL);
    sr_status status = sr_text_check(&out);
    if (status == SR_OK)
        status = sr_file_write_atomic(path, out.data, out.length);
    sr_text_release(&out);
    return status;
}
