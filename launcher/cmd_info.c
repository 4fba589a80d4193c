// SPDX-License-Identifier: Apache-2.0
// serried info TABLE: what is built in, straight from the tables that the program itself uses, so
// that no listing goes stale.
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "dataio/transform.h"
#include "graph/op.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/plugin_file.h"
#include "kernels/base/table.h"
#include "kernels/base/text.h"
#include "kernels/kernel.h"
#include "launcher/command.h"
#include "launcher/info_internal.h"
#include "trainer/loss.h"
#include "trainer/model.h"
#include "trainer/optimizer.h"
#include "trainer/plugins.h"
#include "trainer/recipe.h"
#include "trainer/schedule.h"

// ---- rows of option tables ----------------------------------------------------------------------

static const char *type_name(sr_option_type type) {
    switch (type) {
    case SR_OPT_BOOL:
        return "true|false";
    case SR_OPT_INT:
        return "integer";
    case SR_OPT_FLOAT:
        return "number";
    case SR_OPT_STRING:
        return "text";
    case SR_OPT_ENUM:
        return "choice";
    case SR_OPT_SIZE:
        return "size";
    case SR_OPT_DURATION:
        return "time";
    case SR_OPT_LENGTH:
        return "length";
    case SR_OPT_INTS:
        return "integers";
    case SR_OPT_FLOATS:
        return "numbers";
    case SR_OPT_STRINGS:
        return "texts";
    default:
        return "?";
    }
}

static void add_type(sr_text *out, const sr_option *option) {
    if (option->type != SR_OPT_ENUM) {
        sr_text_add(out, "%s", type_name(option->type));
        return;
    }
    for (const char *const *choice = option->choices; *choice; choice++)
        sr_text_add(out, "%s%s", choice == option->choices ? "" : "|", *choice);
}

static void print_table(const sr_option_table *table, const char *prefix) {
    for (size_t i = 0; table && i < table->count; i++) {
        const sr_option *option = &table->options[i];
        sr_text type;
        sr_text_init(&type);
        add_type(&type, option);
        int used = printf("%s%s: %s", prefix, option->name, type.data);
        if (option->default_text)
            used += printf(" = %s", option->default_text);
        printf("%*s %s%s\n", used < 46 ? 46 - used : 0, "", option->help,
               option->option_class == SR_OPTION_NEUTRAL ? " (neutral)" : "");
        sr_text_release(&type);
    }
}

// ---- tables -------------------------------------------------------------------------------------

static void print_row(const char *name, const char *help) {
    printf("%-24s %s\n", name, help);
}

static void print_commands(void) {
    size_t count;
    const sr_command *commands = sr_commands(&count);
    for (size_t i = 0; i < count; i++) {
        if (commands[i].name)
            print_row(commands[i].name, commands[i].help);
    }
}

static void print_options(void) {
    puts("# Keys of a recipe. 'neutral' keys never change a bit of a result and are not part of a "
         "run's identity.");
    print_table(sr_recipe_keys(), "");
    print_table(sr_recipe_optimizer_keys(), "optimizer.");
    print_table(sr_recipe_schedule_keys(), "schedule.");
}

static void print_ops(void) {
    size_t count;
    const sr_op *const *ops = sr_ops(&count);
    puts("# Operators: inputs (required - total) -> outputs. 'gradient': the inputs that receive "
         "a\n# gradient; 'once': there is no second derivative.");
    for (size_t i = 0; i < count; i++) {
        char gradient[SR_OP_GRADIENT_TEXT];
        printf("%-24s %d-%d -> %d  %s (gradient: %s)\n", ops[i]->name, ops[i]->required,
               ops[i]->inputs, ops[i]->outputs, ops[i]->help,
               sr_op_gradient_text(ops[i], gradient));
    }
}

static bool runs_here(const sr_kernel_entry *entry) {
    return (entry->needs & ~sr_cpu_features()) == 0;
}

static void print_kernels(void) {
    char text[SR_PROVIDER_TEXT];
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    puts("# Of the kernels that support a request, the last one runs.");
    printf("%-30s %-18s %-19s %s\n", "# kernel/provider", "activations", "numerics", "runs here");
    for (size_t i = 0; i < count; i++) {
        const sr_provider *provider = providers[i];
        printf("# %s\n", sr_provider_numerics(provider, text));
        for (size_t k = 0; k < provider->count; k++) {
            const sr_kernel_entry *e = &provider->entries[k];
            printf("%-30s %-18s %-19s %-4s %s\n", e->name, e->dtypes ? e->dtypes : "?",
                   e->numerics_class, runs_here(e) ? "yes" : "no", sr_kernel_doc(e->kernel));
        }
    }
}

static void add_member(sr_text *out, const char *name, const char *value) {
    sr_text_add(out, ", \"%s\": ", name);
    sr_text_add_json_string(out, value);
}

static void add_kernel(sr_text *out, const sr_provider *provider, const sr_kernel_entry *e) {
    char needs[80], text[SR_PROVIDER_TEXT];
    sr_text_add(out, "{\"name\": ");
    sr_text_add_json_string(out, e->name);
    add_member(out, "kernel", sr_kernel_name(e->kernel));
    add_member(out, "computes", sr_kernel_doc(e->kernel));
    add_member(out, "provider", sr_provider_numerics(provider, text));
    add_member(out, "dtypes", e->dtypes ? e->dtypes : "");
    add_member(out, "numerics", e->numerics_class);
    add_member(out, "needs", e->needs ? sr_cpu_features_text(e->needs, needs) : "");
    sr_text_add(out, ", \"runs_here\": %s}", runs_here(e) ? "true" : "false");
}

static int print_kernels_json(void) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    const char *comma = "";
    sr_text out;
    sr_text_init(&out);
    sr_text_add(&out, "[");
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < providers[i]->count; k++, comma = ",\n ") {
            sr_text_add(&out, "%s", comma);
            add_kernel(&out, providers[i], &providers[i]->entries[k]);
        }
    }
    sr_text_add(&out, "]\n");
    const sr_status status = sr_command_print(SR_OK, &out);
    return status == SR_OK ? 0 : sr_command_fail(status);
}

static void print_models(void) {
    size_t count;
    const sr_model_desc *const *models = sr_models(&count);
    for (size_t i = 0; i < count; i++) {
        print_row(models[i]->name, models[i]->help);
        print_table(models[i]->options, "    ");
    }
}

static void print_losses(void) {
    size_t count;
    const sr_loss_desc *const *losses = sr_losses(&count);
    for (size_t i = 0; i < count; i++) {
        print_row(losses[i]->name, losses[i]->help);
        print_table(losses[i]->options, "    ");
    }
}

static void print_optimizers(void) {
    size_t count;
    const sr_optimizer_desc *const *optimizers = sr_optimizers(&count);
    for (size_t i = 0; i < count; i++) {
        print_row(optimizers[i]->name, optimizers[i]->help);
        print_table(optimizers[i]->options, "    ");
    }
}

static void print_schedules(void) {
    size_t count;
    const sr_schedule_desc *const *schedules = sr_schedules(&count);
    for (size_t i = 0; i < count; i++) {
        print_row(schedules[i]->name, schedules[i]->help);
        print_table(schedules[i]->options, "    ");
    }
}

static void print_transforms(void) {
    size_t count;
    const sr_transform *const *transforms = sr_transforms(&count);
    for (size_t i = 0; i < count; i++) {
        print_row(transforms[i]->name, transforms[i]->help);
        print_table(&transforms[i]->options, "    ");
    }
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
}

// Loads each, with every check that a recipe's plug-ins go through.
static int print_plugins(const char *const *paths, int count) {
    for (int i = 0; i < count; i++) {
        sr_status status = sr_plugin_add_file(paths[i]);
        if (status != SR_OK)
            return sr_command_fail(status);
    }
    const sr_plugin_file *files = sr_plugin_files(&count);
    for (int i = 0; i < count; i++)
        print_plugin(&files[i]);
    return 0;
}

static const struct {
    const char *name;
    void (*print)(void);
} tables[] = {
    {"commands", print_commands},   {"options", print_options},
    {"models", print_models},       {"optimizers", print_optimizers},
    {"schedules", print_schedules}, {"transforms", print_transforms},
    {"losses", print_losses},       {"ops", print_ops},
    {"kernels", print_kernels},     {"chooser", sr_info_chooser},
};
#define TABLES (sizeof tables / sizeof *tables)

static int unknown(const char *name) {
    const char *names[TABLES];
    for (size_t i = 0; i < TABLES; i++)
        names[i] = tables[i].name;
    const char *nearest = sr_text_nearest(name, names, TABLES);
    fprintf(stderr, "serried: no table '%s'", name);
    if (nearest)
        fprintf(stderr, "; did you mean '%s'?\n", nearest);
    else
        fputs("; 'serried info --help' lists them\n", stderr);
    return 2;
}

typedef struct info_arguments {
    const char *name;
    const char *files[SR_PLUGIN_FILES_MAX];
    int count;
    bool json;
} info_arguments;

enum { KEY_JSON = 0x100 };

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "kernels as JSON: an array of objects", 0},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    info_arguments *a = state->input;
    bool plugins = a->name && strcmp(a->name, "plugins") == 0;
    if (key == KEY_JSON)
        a->json = true;
    else if (key == ARGP_KEY_ARG && !a->name)
        a->name = value;
    else if (key == ARGP_KEY_ARG && plugins && a->count < SR_PLUGIN_FILES_MAX)
        a->files[a->count++] = value;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, plugins ? "too many plug-ins" : "one table at a time");
    else if (key == ARGP_KEY_END && !a->name)
        argp_error(state, "which table? commands, options, models, optimizers, schedules, "
                          "transforms, losses, ops, kernels, chooser, or plugins FILE...");
    else if (key == ARGP_KEY_END && plugins && a->count == 0)
        argp_error(state, "which plug-ins? serried info plugins FILE.so...");
    else if (key == ARGP_KEY_END && a->json && strcmp(a->name, "kernels") != 0)
        argp_error(state, "--json is for 'info kernels' only");
    return key == KEY_JSON || key == ARGP_KEY_ARG || key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
}

int sr_cmd_info(int argc, char **argv) {
    static const struct argp parser = {
        options,
        parse_option,
        "TABLE\nplugins FILE...",
        "Print a table of what is built in: commands, options (keys of a recipe), models, "
        "optimizers, schedules, transforms, losses, ops or kernels. chooser: the kernels measured "
        "as the fastest here, among those that give the same bits. plugins: what plug-ins contain, "
        "after the same checks as for those of a recipe.",
        NULL,
        NULL,
        NULL};
    info_arguments a = {0};
    if (argp_parse(&parser, argc, argv, 0, NULL, &a) != 0)
        return 2;
    if (a.json)
        return print_kernels_json();
    if (strcmp(a.name, "plugins") == 0)
        return print_plugins(a.files, a.count);
    for (size_t i = 0; i < TABLES; i++) {
        if (strcmp(tables[i].name, a.name) == 0) {
            tables[i].print();
            return 0;
        }
    }
    return unknown(a.name);
}
