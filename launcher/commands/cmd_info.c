// SPDX-License-Identifier: Apache-2.0
// serried info TABLE: what is built in, printed from the tables that the program itself uses, so
// that no listing is ever out of date.
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "dataio/transforms/transform.h"
#include "graph/op.h"
#include "kernels/base/plugin_file.h"
#include "kernels/base/table.h"
#include "kernels/base/text.h"
#include "kernels/device/device.h"
#include "launcher/commands/command.h"
#include "launcher/commands/info_internal.h"
#include "trainer/engine/plugins.h"
#include "trainer/losses/loss.h"
#include "trainer/models/model.h"
#include "trainer/optimizers/optimizer.h"
#include "trainer/recipe/recipe.h"
#include "trainer/schedules/schedule.h"
#include "trainer/tasks/task.h"

// ---- tables -------------------------------------------------------------------------------------

static void print_row(const char *name, const char *help) {
    printf("%-24s %s\n", name, help);
}

static sr_status print_commands(sr_info_filter *filter) {
    size_t count;
    const sr_command *commands = sr_commands(&count);
    for (size_t i = 0; i < count; i++) {
        if (commands[i].name && sr_info_takes(filter, commands[i].name))
            print_row(commands[i].name, commands[i].help);
    }
    return SR_OK;
}

static sr_status print_ops(sr_info_filter *filter) {
    size_t count;
    const sr_op *const *ops = sr_ops(&count);
    puts(
        "# Operators: inputs (required - total) -> outputs. 'gradient': the inputs that receive a\n"
        "# gradient; 'once': there is no second derivative.");
    for (size_t i = 0; i < count; i++) {
        char gradient[SR_OP_GRADIENT_TEXT];
        if (!sr_info_takes(filter, ops[i]->name))
            continue;
        printf("%-24s %d-%d -> %d  %s (gradient: %s)\n", ops[i]->name, ops[i]->required,
               ops[i]->inputs, ops[i]->outputs, ops[i]->help,
               sr_op_gradient_text(ops[i], gradient));
    }
    return SR_OK;
}

static void print_device(void *user, const char *name) {
    sr_device_properties device;
    char memory[16];
    if (!sr_info_takes(user, name))
        return;
    if (sr_device_describe(name, &device) == SR_OK)
        printf("%-24s %s (%d: %s, %s)\n", name, device.help, device.count, device.model,
               sr_text_bytes(device.memory, memory));
    else
        print_row(name, sr_error_message());
}

static sr_status print_devices(sr_info_filter *filter) {
    puts("# Devices that a recipe's 'device' can name; NAME:N is one of several.");
    sr_device_visit_kinds(print_device, filter);
    return SR_OK;
}

static sr_status print_models(sr_info_filter *filter) {
    size_t count;
    const sr_model_desc *const *models = sr_models(&count);
    for (size_t i = 0; i < count; i++) {
        if (!sr_info_takes(filter, models[i]->name))
            continue;
        print_row(models[i]->name, models[i]->help);
        sr_info_print_table(models[i]->options, "    ");
    }
    return SR_OK;
}

static sr_status print_losses(sr_info_filter *filter) {
    size_t count;
    const sr_loss_desc *const *losses = sr_losses(&count);
    for (size_t i = 0; i < count; i++) {
        if (!sr_info_takes(filter, losses[i]->name))
            continue;
        print_row(losses[i]->name, losses[i]->help);
        sr_info_print_table(losses[i]->options, "    ");
    }
    return SR_OK;
}

static sr_status print_tasks(sr_info_filter *filter) {
    size_t count;
    const sr_task_desc *const *tasks = sr_tasks(&count);
    for (size_t i = 0; i < count; i++) {
        if (!sr_info_takes(filter, tasks[i]->name))
            continue;
        print_row(tasks[i]->name, tasks[i]->help);
        sr_info_print_table(tasks[i]->options, "    ");
    }
    return SR_OK;
}

static sr_status print_optimizers(sr_info_filter *filter) {
    size_t count;
    const sr_optimizer_desc *const *optimizers = sr_optimizers(&count);
    for (size_t i = 0; i < count; i++) {
        if (!sr_info_takes(filter, optimizers[i]->name))
            continue;
        print_row(optimizers[i]->name, optimizers[i]->help);
        sr_info_print_table(optimizers[i]->options, "    ");
    }
    return SR_OK;
}

static sr_status print_schedules(sr_info_filter *filter) {
    size_t count;
    const sr_schedule_desc *const *schedules = sr_schedules(&count);
    for (size_t i = 0; i < count; i++) {
        if (!sr_info_takes(filter, schedules[i]->name))
            continue;
        print_row(schedules[i]->name, schedules[i]->help);
        sr_info_print_table(schedules[i]->options, "    ");
    }
    return SR_OK;
}

static sr_status print_transforms(sr_info_filter *filter) {
    size_t count;
    const sr_transform *const *transforms = sr_transforms(&count);
    for (size_t i = 0; i < count; i++) {
        if (!sr_info_takes(filter, transforms[i]->name))
            continue;
        print_row(transforms[i]->name, transforms[i]->help);
        sr_info_print_table(&transforms[i]->options, "    ");
    }
    return SR_OK;
}

// ---- plug-ins -----------------------------------------------------------------------------------

static void print_list(const char *kind, const void *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sr_descriptor d = sr_table_item(list, i);
        printf("    %-11s %-24s %s\n", kind, d.name, d.help ? d.help : "");
    }
}

#define PRINT_LIST(kind, list)                                                                     \
    do {                                                                                           \
        size_t count_ = 0;                                                                         \
        while ((list) && (list)[count_])                                                           \
            count_++;                                                                              \
        print_list((kind), (list), count_);                                                        \
    } while (0)

static void print_plugin(const sr_plugin_file *file) {
    const sr_plugin *p = file->plugin;
    printf("%s: %s%s%s\n    %-11s %s\n", file->path, p->name, p->help ? ", " : "",
           p->help ? p->help : "", "sha256", file->hash);
    PRINT_LIST("model", p->models);
    PRINT_LIST("loss", p->losses);
    PRINT_LIST("transform", p->transforms);
    PRINT_LIST("operator", p->ops);
    PRINT_LIST("optimizer", p->optimizers);
    PRINT_LIST("schedule", p->schedules);
    PRINT_LIST("task", p->tasks);
}

// Loads each file with the same checks as the plug-ins of a recipe.
static sr_status print_plugins(const char *const *paths, int count) {
    for (int i = 0; i < count; i++)
        SR_TRY(sr_plugin_add_file(paths[i]));
    const sr_plugin_file *files = sr_plugin_files(&count);
    for (int i = 0; i < count; i++)
        print_plugin(&files[i]);
    return SR_OK;
}

static const struct {
    const char *name;
    sr_status (*print)(sr_info_filter *filter);
    sr_status (*print_json)(sr_info_filter *filter); // NULL: --json is refused
} tables[] = {
    {"commands", print_commands, NULL},   {"options", sr_info_options, sr_info_options_json},
    {"models", print_models, NULL},       {"optimizers", print_optimizers, NULL},
    {"schedules", print_schedules, NULL}, {"transforms", print_transforms, NULL},
    {"losses", print_losses, NULL},       {"ops", print_ops, NULL},
    {"devices", print_devices, NULL},     {"tasks", print_tasks, NULL},
}; // and chooser, kernels, model, plugins, program, which take other arguments
#define TABLES (sizeof tables / sizeof *tables)
enum { MORE = 5, WORDS = 64, DEPTH = 3 };

static sr_status unknown(const char *name) {
    const char *names[TABLES + MORE] = {"chooser", "kernels", "model", "plugins", "program"};
    for (size_t i = 0; i < TABLES; i++)
        names[MORE + i] = tables[i].name;
    const char *nearest = sr_text_nearest(name, names, TABLES + MORE);
    if (nearest)
        return SR_FAIL(SR_E_USAGE, "no table '%s'; did you mean '%s'?", name, nearest);
    return SR_FAIL(SR_E_USAGE, "no table '%s'; 'serried info --help' lists them", name);
}

typedef struct info_arguments {
    const char *name;
    const char *words[WORDS]; // after the name
    int count;
    const char *device;
    bool json, recipe, dot, inference;
    const char *phase;
    int depth;
    long classes;
} info_arguments;

enum {
    KEY_JSON = 0x100,
    KEY_DEVICE,
    KEY_DEPTH,
    KEY_CLASSES,
    KEY_RECIPE,
    KEY_DOT,
    KEY_INFERENCE,
    KEY_PHASE
};

static const struct argp_option options[] = {
    {"device", KEY_DEVICE, "NAME", 0, "device whose kernels to print (default: cpu)", 0},
    {"depth", KEY_DEPTH, "N", 0, "model: levels of nested layers to show; 0: all (default: 3)", 0},
    {"classes", KEY_CLASSES, "N", 0,
     "model, program: number of classes without data.train (default: 1000)", 0},
    {"recipe", KEY_RECIPE, NULL, 0,
     "model, program: NAME is a recipe, even if a model has this name", 0},
    {"json", KEY_JSON, NULL, 0,
     "print options or kernels as JSON, an array of objects; a model as one object", 0},
    {"inference", KEY_INFERENCE, NULL, 0, "program: that of an evaluation, not of a step", 0},
    {"dot", KEY_DOT, NULL, 0, "program: draw it for Graphviz", 0},
    {"phase", KEY_PHASE, "NAME", 0, "program: of this phase of a step (default: the first)", 0},
    {0},
};

static bool is_named(const info_arguments *a, const char *name) {
    return a->name && strcmp(a->name, name) == 0;
}

static bool takes_model(const info_arguments *a) {
    return is_named(a, "model") || is_named(a, "program");
}

// Is it one whose rows a pattern chooses?
static bool is_table(const info_arguments *a) {
    for (size_t i = 0; i < TABLES; i++) {
        if (is_named(a, tables[i].name))
            return true;
    }
    return false;
}

static void add_word(info_arguments *a, const char *word, struct argp_state *state) {
    if (!a->name)
        a->name = word;
    else if (!is_named(a, "plugins") && !takes_model(a) && (a->count > 0 || !is_table(a)))
        argp_error(state, "one table at a time%s", is_table(a) ? ", and one pattern" : "");
    else if (a->count == WORDS)
        argp_error(state, "more than %d arguments", WORDS);
    else
        a->words[a->count++] = word;
}

static void check(const info_arguments *a, struct argp_state *state) {
    if (!a->name) {
        argp_error(state, "which table? commands, options, models, optimizers, schedules, "
                          "transforms, losses, tasks, ops, devices, kernels, chooser, "
                          "plugins FILE..., model NAME, or program NAME");
    } else if (is_named(a, "plugins") && a->count == 0) {
        argp_error(state, "which plug-ins? serried info plugins FILE.so...");
    } else if (takes_model(a) && a->count == 0) {
        argp_error(state, "which model? serried info %s NAME, a model or a recipe", a->name);
    } else if (a->device && !is_named(a, "kernels")) {
        argp_error(state, "--device is for kernels, not '%s'", a->name);
    } else if ((a->recipe || a->classes) && !takes_model(a)) {
        argp_error(state, "--classes and --recipe are for model and program, not '%s'", a->name);
    } else if (a->depth != DEPTH && !is_named(a, "model")) {
        argp_error(state, "--depth is for model, not '%s'", a->name);
    } else if ((a->dot || a->phase || a->inference) && !is_named(a, "program")) {
        argp_error(state, "--dot, --phase and --inference are for program, not '%s'", a->name);
    } else if (a->phase && a->inference) {
        argp_error(state, "--phase and --inference exclude each other");
    }
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    info_arguments *a = state->input;
    if (key == KEY_JSON)
        a->json = true;
    else if (key == KEY_DEVICE)
        a->device = value;
    else if (key == KEY_DEPTH)
        a->depth = (int)sr_command_number(state, "--depth", value, 0, 100);
    else if (key == KEY_CLASSES)
        a->classes = sr_command_number(state, "--classes", value, 1, 1000000);
    else if (key == KEY_RECIPE)
        a->recipe = true;
    else if (key == KEY_DOT)
        a->dot = true;
    else if (key == KEY_INFERENCE)
        a->inference = true;
    else if (key == KEY_PHASE)
        a->phase = value;
    else if (key == ARGP_KEY_ARG)
        add_word(a, value, state);
    else if (key == ARGP_KEY_END)
        check(a, state);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static sr_status print_table(const info_arguments *a,
                             sr_status (*function)(sr_info_filter *filter)) {
    sr_info_filter filter = {.pattern = a->count > 0 ? a->words[0] : NULL};
    SR_TRY(function(&filter));
    if (filter.pattern && filter.matches == 0)
        return SR_FAIL(SR_E_NOT_FOUND, "no name in the table '%s' contains '%s'", a->name,
                       filter.pattern);
    return SR_OK;
}

static sr_status print(const info_arguments *a) {
    if (strcmp(a->name, "plugins") == 0 && !a->json)
        return print_plugins(a->words, a->count);
    if (strcmp(a->name, "model") == 0) {
        const sr_info_subject subject = {a->words, a->count, a->recipe, a->classes};
        return sr_info_model(&subject, a->depth, a->json);
    }
    if (strcmp(a->name, "program") == 0 && !a->json) {
        const sr_info_subject subject = {a->words, a->count, a->recipe, a->classes};
        return sr_info_program(&subject, a->phase, a->inference, a->dot);
    }
    if (strcmp(a->name, "kernels") == 0) {
        const char *device = a->device ? a->device : "cpu";
        return a->json ? sr_info_kernels_json(device) : sr_info_kernels(device);
    }
    if (strcmp(a->name, "chooser") == 0 && !a->json)
        return sr_info_chooser();
    for (size_t i = 0; i < TABLES; i++) {
        if (strcmp(tables[i].name, a->name) != 0)
            continue;
        if (!a->json)
            return print_table(a, tables[i].print);
        if (tables[i].print_json)
            return print_table(a, tables[i].print_json);
    }
    return a->json
               ? SR_FAIL(SR_E_USAGE, "--json is for options, kernels and model, not '%s'", a->name)
               : unknown(a->name);
}

int sr_cmd_info(int argc, char **argv) {
    static const struct argp parser = {
        options,
        parse_option,
        "TABLE [PATTERN]\nplugins FILE...\nmodel NAME [key=value...]\nprogram NAME [key=value...]",
        "Print a table of what is built in."
        "\v"
        "  commands    commands of serried\n"
        "  options     keys of a recipe, with type, default, range and meaning\n"
        "  models, optimizers, schedules, transforms, losses, tasks\n"
        "              what a recipe can name, with its options\n"
        "  ops         operators of the graph\n"
        "  devices     devices to compute on, and why one cannot be used\n"
        "  kernels     kernels of a device, and whether they run here\n"
        "  chooser     kernels measured fastest here, among those with the same bits\n"
        "  plugins     what plug-in files contain, after the checks made for a recipe\n"
        "  model       layers of a model or of a recipe's models: shapes, parameters,\n"
        "              memory\n"
        "  program     operators of one lane of a step, as text or as a drawing; a file\n"
        "              NAME.program with such a text is read, checked and printed\n\n"
        "PATTERN selects rows by name, such as vit or 'resnet*'; kernels and chooser take none.\n"
        "A model given by name has a batch of one picture of 224 pixels and the task that\n"
        "it can be trained for; keys change that:\n"
        "  serried info model resnet50 image=320 batch=8 lanes=1 --depth 2",
        NULL,
        NULL,
        NULL};
    info_arguments a = {.depth = DEPTH};
    if (argp_parse(&parser, argc, argv, 0, NULL, &a) != 0)
        return 2;
    const sr_status status = print(&a);
    return status == SR_OK ? 0 : sr_command_fail(status);
}
