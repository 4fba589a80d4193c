// SPDX-License-Identifier: Apache-2.0
// Prints the summary of a model, as text and as JSON.
#include <stdio.h>
#include <string.h>

#include "trainer/report/model_summary.h"

enum { NAME_MIN = 16, NAME_MAX = 48, TYPE_MIN = 8, TYPE_MAX = 24, INFO_BYTES = 96 };

static bool shown(const sr_summary_row *row, int depth) {
    return depth == 0 || row->depth <= depth;
}

static const char *trained_text(const sr_summary_row *row) {
    return row->parameters == 0              ? ""
           : row->trained == row->parameters ? "yes"
           : row->trained == 0               ? "frozen"
                                             : "partly";
}

static int fit(int width, int most) {
    return width < most ? width : most;
}

static void measure(const sr_summary *s, int depth, int *name, int *type, int *output) {
    char text[INFO_BYTES];
    *name = NAME_MIN;
    *type = TYPE_MIN;
    *output = TYPE_MIN;
    for (int i = 0; i < s->count; i++) {
        const sr_summary_row *row = &s->rows[i];
        if (!shown(row, depth))
            continue;
        const int n = 2 * row->depth + (int)strlen(row->name), t = (int)strlen(row->type);
        const int o = row->has_output ? (int)strlen(sr_info_text(&row->output, text)) : 0;
        *name = n > *name ? fit(n, NAME_MAX) : *name;
        *type = t > *type ? fit(t, TYPE_MAX) : *type;
        *output = o > *output ? o : *output;
    }
}

static void add_millions(double value, int width, sr_text *out) {
    if (value > 0)
        sr_text_add(out, " %*.2f", width, value * 1e-6);
    else
        sr_text_add(out, " %*s", width, "");
}

void sr_summary_add_rows(const sr_summary *s, int depth, sr_text *out) {
    int name, type, output;
    char text[INFO_BYTES], number[24];
    measure(s, depth, &name, &type, &output);
    sr_text_add(out, "%-*s  %-*s  %-*s %12s  %-7s %14s\n", name, "layer", type, "type", output,
                "output", "parameters", "trained", "M mult-adds");
    for (int i = 0; i < s->count; i++) {
        const sr_summary_row *row = &s->rows[i];
        if (!shown(row, depth))
            continue;
        (void)snprintf(number, sizeof number, "%lld", (long long)row->parameters);
        sr_text_add(out, "%*s%-*s  %-*s  %-*s %12s  %-7s", 2 * row->depth, "",
                    name > 2 * row->depth ? name - 2 * row->depth : 0, row->name, type, row->type,
                    output, row->has_output ? sr_info_text(&row->output, text) : "",
                    row->parameters > 0 ? number : "", trained_text(row));
        add_millions(row->multiply_adds, 14, out);
        while (out->length > 0 && out->data[out->length - 1] == ' ')
            out->data[--out->length] = '\0';
        sr_text_add(out, "\n");
    }
}

static void add_memory(const char *what, double bytes, sr_text *out) {
    char text[16];
    sr_text_add(out, "  %-30s  %s\n", what, sr_text_bytes((uint64_t)bytes, text));
}

void sr_summary_add_totals(const sr_summary *s, sr_text *out) {
    char text[INFO_BYTES];
    if (s->has_input)
        sr_text_add(out, "  input of a lane %s\n", sr_info_text(&s->input, text));
    sr_text_add(out, "  %lld parameters, %lld trained, %lld frozen; %lld values in buffers\n",
                (long long)s->parameters, (long long)s->trained,
                (long long)(s->parameters - s->trained), (long long)s->buffers);
    sr_text_add(out, "  %.2f M multiply-adds of a lane, forward\n", s->multiply_adds * 1e-6);
    add_memory("parameters", s->parameter_bytes, out);
    add_memory("input", s->input_bytes, out);
    add_memory("results of the forward pass", s->output_bytes, out);
    add_memory("planned, with backward pass", s->planned_bytes, out);
}

// ---- JSON ----

static void add_shape(sr_text *out, const char *name, bool present, const sr_info *info) {
    sr_text_add(out, ", \"%s\": ", name);
    if (!present) {
        sr_text_add(out, "null");
        return;
    }
    sr_text_add(out, "{\"dtype\": \"%s\", \"shape\": [", sr_dtype_name(info->dtype));
    for (int i = 0; i < info->rank; i++)
        sr_text_add(out, "%s%lld", i ? ", " : "", (long long)info->dim[i]);
    sr_text_add(out, "]}");
}

static void add_row(sr_text *out, const sr_summary_row *row) {
    sr_text_add(out, "{\"name\": ");
    sr_text_add_json_string(out, row->name);
    sr_text_add_json_string_member(out, "layer", row->path);
    sr_text_add_json_string_member(out, "type", row->type);
    sr_text_add_json_number_member(out, "depth", row->depth);
    add_shape(out, "output", row->has_output, &row->output);
    sr_text_add_json_number_member(out, "parameters", (double)row->parameters);
    sr_text_add_json_number_member(out, "trained", (double)row->trained);
    sr_text_add_json_number_member(out, "multiply_adds", row->multiply_adds);
    sr_text_add(out, "}");
}

void sr_summary_add_json(const sr_summary *s, int depth, sr_text *out) {
    const char *between = "";
    sr_text_add(out, "{\"model\": ");
    sr_text_add_json_string(out, s->model);
    add_shape(out, "input", s->has_input, &s->input);
    sr_text_add_json_number_member(out, "parameters", (double)s->parameters);
    sr_text_add_json_number_member(out, "trained", (double)s->trained);
    sr_text_add_json_number_member(out, "buffers", (double)s->buffers);
    sr_text_add_json_number_member(out, "multiply_adds", s->multiply_adds);
    sr_text_add_json_number_member(out, "parameter_bytes", s->parameter_bytes);
    sr_text_add_json_number_member(out, "input_bytes", s->input_bytes);
    sr_text_add_json_number_member(out, "output_bytes", s->output_bytes);
    sr_text_add_json_number_member(out, "planned_bytes", s->planned_bytes);
    sr_text_add(out, ", \"layers\": [");
    for (int i = 0; i < s->count; i++) {
        if (!shown(&s->rows[i], depth))
            continue;
        sr_text_add(out, "%s", between);
        add_row(out, &s->rows[i]);
        between = ", ";
    }
    sr_text_add(out, "]}\n");
}
