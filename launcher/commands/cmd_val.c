// SPDX-License-Identifier: Apache-2.0
// serried val: the metrics of a trained model on the val split of a packed data set. Runs alone or
// under mpirun; the result has the same bits on any number of ranks.
#include <argp.h>
#include <stdio.h>

#include "kernels/base/text.h"
#include "launcher/commands/command.h"
#include "trainer/run/inference.h"

enum { KEY_RAW = 0x100, KEY_PLUGINS, KEY_JSON, MAX_OVERRIDES = 256 };

static const struct argp_option options[] = {
    {"data", 'd', "DATA", 0, "packed data set (default: that of the recipe)", 0},
    {"output", 'o', "DIR", 0,
     "write what the metrics know beyond their numbers: confusion.csv, and of segmentation "
     "classes.csv",
     0},
    {"raw", KEY_RAW, NULL, 0, "use the parameters instead of their moving average", 0},
    {"allow-plugins", KEY_PLUGINS, NULL, 0,
     "load the plug-ins that the recipe of a run folder names", 0},
    {"json", KEY_JSON, NULL, 0, "print one JSON object", 0},
    {0}};

static const char about[] =
    "Evaluate MODEL: a run folder, a checkpoint (last/, best/), or a recipe with weights=FILE."
    "\v"
    "  serried val runs/cifar10-fast/latest\n"
    "  serried val resnet50 weights=resnet50.safetensors data.val=imagenet\n";

typedef struct val_arguments {
    sr_inference_options open;
    const char *overrides[MAX_OVERRIDES];
    const char *data, *output;
    bool json;
} val_arguments;

static error_t parse(int key, char *value, struct argp_state *state) {
    val_arguments *a = state->input;
    switch (key) {
    case 'd':
        a->data = value;
        return 0;
    case 'o':
        a->output = value;
        return 0;
    case KEY_RAW:
        a->open.raw = true;
        return 0;
    case KEY_PLUGINS:
        a->open.allow_plugins = true;
        return 0;
    case KEY_JSON:
        a->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (!a->open.source)
            a->open.source = value;
        else if (a->open.override_count < MAX_OVERRIDES)
            a->overrides[a->open.override_count++] = value;
        else
            argp_error(state, "more than %d overrides", MAX_OVERRIDES);
        return 0;
    case ARGP_KEY_END:
        if (!a->open.source)
            argp_error(
                state,
                "MODEL is missing: a run folder, a checkpoint, or a recipe with weights=FILE");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void add_value(const sr_measures *m, int i, bool json, sr_text *out) {
    const sr_column *column = m->columns[i];
    if (json) {
        sr_text_add(out, ", \"val_%s\": ", column->name);
        sr_text_add_json_number(out, m->values[i]);
        return;
    }
    sr_text_add(out, "val_%s %.*f\n", column->name, column->unit == SR_UNIT_FRACTION ? 4 : 6,
                m->values[i]);
}

// Losses come last.
static void add_values(const sr_measures *m, bool json, sr_text *out) {
    for (int losses = 0; losses < 2; losses++)
        for (int i = 0; i < m->count; i++)
            if ((m->columns[i]->unit == SR_UNIT_LOSS) == (losses == 1))
                add_value(m, i, json, out);
}

static sr_status print(const sr_measures *m, bool json) {
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, json ? "{\"samples\": %lld" : "samples %lld\n", (long long)m->samples);
    add_values(m, json, &text);
    if (json)
        sr_text_add(&text, "}\n");
    return sr_command_print(SR_OK, &text);
}

int sr_cmd_val(int argc, char **argv) {
    static const struct argp parser = {options, parse, "MODEL [key=value...]", about, 0, 0, 0};
    val_arguments a = {.open = {0}};
    sr_inference *inference;
    sr_measures metrics;
    a.open.overrides = a.overrides;
    if (argp_parse(&parser, argc, argv, 0, NULL, &a) != 0)
        return 2;
    sr_status status = sr_inference_open(&a.open, &inference);
    if (status != SR_OK)
        return sr_command_fail(status);
    status = sr_inference_evaluate(inference, a.data, a.output, &metrics);
    if (status == SR_OK && sr_comm_rank(inference->comm) == 0)
        status = print(&metrics, a.json);
    int code = status == SR_OK ? 0 : sr_command_fail(status);
    if (status != SR_OK)
        sr_comm_abort(inference->comm, status, sr_error_message());
    sr_inference_free(inference);
    return code;
}
