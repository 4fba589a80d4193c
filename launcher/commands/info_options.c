// SPDX-License-Identifier: Apache-2.0
// serried info options: every key of a recipe, from the tables that parse it.
//
// Keys of any recipe come first, then those that a model, loss, optimizer, schedule or transform
// adds where it is chosen; descriptors that share a table are listed together. The same rows are
// printed as text and, for programs, as JSON.
#include <stdio.h>
#include <string.h>

#include "dataio/transforms/transform.h"
#include "kernels/base/table.h"
#include "kernels/base/text.h"
#include "launcher/commands/command.h"
#include "launcher/commands/info_internal.h"
#include "trainer/losses/loss.h"
#include "trainer/models/model.h"
#include "trainer/optimizers/optimizer.h"
#include "trainer/recipe/recipe.h"
#include "trainer/schedules/schedule.h"
#include "trainer/tasks/task.h"

#define HELP_COLUMN 54 // where meanings begin, unless a key is longer

// ---- one option ---------------------------------------------------------------------------------

static const char *type_name(sr_option_type type) {
    static const char *const names[] = {
        [SR_OPT_BOOL] = "true|false",
        [SR_OPT_INT] = "integer",
        [SR_OPT_FLOAT] = "number",
        [SR_OPT_STRING] = "text",
        [SR_OPT_ENUM] = "choice",
        [SR_OPT_SIZE] = "size",
        [SR_OPT_DURATION] = "duration",
        [SR_OPT_LENGTH] = "length",
        [SR_OPT_INTS] = "integers",
        [SR_OPT_FLOATS] = "numbers",
        [SR_OPT_STRINGS] = "texts",
        [SR_OPT_ALTERNATIVE] = "name, or map of name and its options",
    };
    return names[type];
}

static bool is_list(sr_option_type type) {
    return type == SR_OPT_INTS || type == SR_OPT_FLOATS;
}

static void add_choices(const char *const *choices, sr_text *out) {
    for (const char *const *choice = choices; *choice; choice++)
        sr_text_add(out, "%s%s", choice == choices ? "" : "|", *choice);
}

static void add_range(const sr_option *option, sr_text *out) {
    if (is_list(option->type) && (option->min != 0 || option->max != 0))
        sr_text_add(out, "each ");
    sr_options_range(option, out);
}

// ---- rows ---------------------------------------------------------------------------------------

// A key as it is listed; its texts are borrowed for the time of the visit.
typedef struct listed {
    const char *prefix, *name; // of the key
    const char *of;            // what adds the key, such as "resnet18, resnet50"; "": any recipe
    const sr_option *option;   // NULL: the fields below describe the key
    const char *type, *default_value, *help;
    const char *const *choices; // NULL-terminated, or NULL
    sr_option_class option_class;
} listed;

typedef void (*visit_row)(void *user, const listed *row);

static listed of_option(const char *prefix, const char *of, const sr_option *option) {
    return (listed){.prefix = prefix,
                    .name = option->name,
                    .of = of,
                    .option = option,
                    .default_value = option->default_text,
                    .help = option->help,
                    .choices = option->type == SR_OPT_ENUM ? option->choices : NULL,
                    .option_class = option->option_class};
}

static void visit_table(const char *prefix, const char *of, const sr_option_table *table,
                        visit_row visit, void *user) {
    for (size_t i = 0; table && i < table->count; i++) {
        const listed row = of_option(prefix, of, &table->options[i]);
        visit(user, &row);
    }
}

// The names of all tasks, one of which is the value of 'task' itself.
static const char *const *task_names(sr_arena *arena) {
    size_t count;
    const sr_task_desc *const *tasks = sr_tasks(&count);
    const char **names = sr_arena_alloc(arena, (count + 1) * sizeof *names);
    for (size_t i = 0; names && i < count; i++)
        names[i] = tasks[i]->name;
    return names;
}

static void visit_sections(visit_row visit, void *user, sr_arena *arena) {
    size_t count;
    const sr_recipe_section *sections = sr_recipe_sections(&count);
    for (size_t i = 0; i < count; i++) {
        const listed row = {.prefix = "",
                            .name = sections[i].name,
                            .of = "",
                            .type = sections[i].type,
                            .default_value = sections[i].default_value,
                            .help = sections[i].help,
                            .choices =
                                strcmp(sections[i].name, "task") == 0 ? task_names(arena) : NULL,
                            .option_class = sections[i].option_class};
        visit(user, &row);
    }
}

// ---- what descriptors add -----------------------------------------------------------------------

typedef struct described {
    const char *name;
    const sr_option_table *options; // may be NULL
} described;

// A kind of descriptor: where a recipe chooses one, and all that exist.
typedef struct descriptor_kind {
    const char *section; // such as "optimizer"
    const char *what;    // "the optimizer's name"
    const described *items;
    size_t count;
    bool in_list; // of augment, whose entries are NAME: {options}
} descriptor_kind;

// The item's name, followed by those of later items with the same table.
static void add_sharers(const descriptor_kind *k, size_t first, sr_text *out) {
    for (size_t i = first; i < k->count; i++)
        if (i == first || k->items[i].options == k->items[first].options)
            sr_text_add(out, "%s%s", i == first ? "" : ", ", k->items[i].name);
}

static bool was_listed(const descriptor_kind *k, size_t item) {
    for (size_t i = 0; i < item; i++)
        if (k->items[i].options == k->items[item].options)
            return true;
    return false;
}

static void visit_name(const descriptor_kind *k, const char *fallback, visit_row visit, void *user,
                       sr_arena *arena) {
    char prefix[64];
    const char **names = sr_arena_alloc(arena, (k->count + 1) * sizeof *names);
    for (size_t i = 0; names && i < k->count; i++)
        names[i] = k->items[i].name;
    (void)snprintf(prefix, sizeof prefix, "%s.", k->section);
    const listed row = {.prefix = prefix,
                        .name = "name",
                        .of = "",
                        .type = "choice",
                        .default_value = fallback,
                        .help = k->what,
                        .choices = names};
    if (names)
        visit(user, &row);
}

static void visit_kind(const descriptor_kind *k, visit_row visit, void *user) {
    char prefix[128];
    for (size_t i = 0; i < k->count; i++) {
        const sr_option_table *table = k->items[i].options;
        sr_text of;
        if (!table || table->count == 0 || (!k->in_list && was_listed(k, i)))
            continue;
        sr_text_init(&of);
        if (k->in_list) {
            sr_text_add(&of, "%s", k->items[i].name);
            (void)snprintf(prefix, sizeof prefix, "%s[].%s.", k->section, k->items[i].name);
        } else {
            add_sharers(k, i, &of);
            (void)snprintf(prefix, sizeof prefix, "%s.", k->section);
        }
        visit_table(prefix, of.data, table, visit, user);
        sr_text_release(&of);
    }
}

// Name and option table of each descriptor of a list, into items of the arena. The member 'options'
// of a descriptor is a table or points to one.
#define DESCRIBE(list_, total_, table_of_, arena_, items_)                                         \
    do {                                                                                           \
        (items_) = sr_arena_alloc((arena_), ((total_) + 1) * sizeof *(items_));                    \
        for (size_t i_ = 0; (items_) && i_ < (total_); i_++)                                       \
            (items_)[i_] = (described){(list_)[i_]->name, table_of_((list_)[i_]->options)};        \
    } while (0)
#define POINTS(options_) (options_)
#define IS(options_) (&(options_))

enum { TASK, MODEL, LOSS, OPTIMIZER, SCHEDULE, TRANSFORM, KINDS };

static sr_status list_kinds(descriptor_kind kinds[KINDS], sr_arena *arena) {
    size_t counts[KINDS];
    described *items[KINDS];
    const sr_task_desc *const *tasks = sr_tasks(&counts[TASK]);
    const sr_model_desc *const *models = sr_models(&counts[MODEL]);
    const sr_loss_desc *const *losses = sr_losses(&counts[LOSS]);
    const sr_optimizer_desc *const *optimizers = sr_optimizers(&counts[OPTIMIZER]);
    const sr_schedule_desc *const *schedules = sr_schedules(&counts[SCHEDULE]);
    const sr_transform *const *transforms = sr_transforms(&counts[TRANSFORM]);
    DESCRIBE(tasks, counts[TASK], POINTS, arena, items[TASK]);
    DESCRIBE(models, counts[MODEL], POINTS, arena, items[MODEL]);
    DESCRIBE(losses, counts[LOSS], POINTS, arena, items[LOSS]);
    DESCRIBE(optimizers, counts[OPTIMIZER], POINTS, arena, items[OPTIMIZER]);
    DESCRIBE(schedules, counts[SCHEDULE], POINTS, arena, items[SCHEDULE]);
    DESCRIBE(transforms, counts[TRANSFORM], IS, arena, items[TRANSFORM]);
    static const char *const sections[] = {"task",      "model",    "loss",
                                           "optimizer", "schedule", "augment"};
    static const char *const what[] = {NULL,           "the network", "the loss", "the optimizer",
                                       "the schedule", NULL};
    for (int k = 0; k < KINDS; k++) {
        if (!items[k])
            return SR_E_MEMORY;
        kinds[k] = (descriptor_kind){sections[k], what[k], items[k], counts[k], k == TRANSFORM};
    }
    return SR_OK;
}

// The default of a section.
static const char *fallback_of(const char *section) {
    size_t count;
    const sr_recipe_section *sections = sr_recipe_sections(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(sections[i].name, section) == 0)
            return sections[i].default_value;
    return NULL;
}

static sr_status visit_all(visit_row visit, void *user) {
    descriptor_kind kinds[KINDS];
    sr_arena arena;
    sr_arena_init(&arena);
    const sr_status status = list_kinds(kinds, &arena);
    if (status == SR_OK) {
        visit_sections(visit, user, &arena);
        visit_table("", "", sr_recipe_keys(), visit, user);
        for (int k = MODEL; k < TRANSFORM; k++)
            visit_name(&kinds[k], fallback_of(kinds[k].section), visit, user, &arena);
        visit_table("optimizer.", "", sr_recipe_optimizer_keys(), visit, user);
        visit_table("optimizer.groups[].", "", sr_recipe_group_keys(), visit, user);
        visit_table("schedule.", "", sr_recipe_schedule_keys(), visit, user);
        visit_table("loss[].", "", sr_recipe_loss_keys(), visit, user);
        visit_table("phases.NAME.", "", sr_recipe_phase_keys(), visit, user);
        visit_table("augment[].NAME.", "", sr_recipe_transform_keys(), visit, user);
        for (int k = 0; k < KINDS; k++)
            visit_kind(&kinds[k], visit, user);
    }
    sr_arena_release(&arena);
    return status;
}

// ---- as text ------------------------------------------------------------------------------------

static void add_text_row(const listed *row, sr_text *out) {
    sr_text key;
    sr_text_init(&key);
    sr_text_add(&key, "%s%s: ", row->prefix, row->name);
    if (row->choices)
        add_choices(row->choices, &key);
    else
        sr_text_add(&key, "%s", row->option ? type_name(row->option->type) : row->type);
    if (row->default_value)
        sr_text_add(&key, " = %s", row->default_value);
    if (row->option && (row->option->min != 0 || row->option->max != 0)) {
        sr_text_add(&key, ", ");
        add_range(row->option, &key);
    }
    sr_text_add(out, "%-*s  %s%s\n", HELP_COLUMN - 2, key.data, row->help,
                row->option_class == SR_OPTION_NEUTRAL ? " (neutral)" : "");
    sr_text_release(&key);
}

typedef struct printer {
    sr_text out, of; // 'of' of the last row
    sr_info_filter *filter;
    const char *comma;
} printer;

static bool takes(const printer *p, const listed *row) {
    sr_text key;
    sr_text_init(&key);
    sr_text_add(&key, "%s%s", row->prefix, row->name);
    const bool taken = sr_info_takes(p->filter, key.data);
    sr_text_release(&key);
    return taken;
}

static void print_row(void *user, const listed *row) {
    printer *p = user;
    if (!takes(p, row))
        return;
    if (strcmp(p->of.data, row->of) != 0) {
        sr_text_release(&p->of);
        sr_text_init(&p->of);
        sr_text_add(&p->of, "%s", row->of);
        sr_text_add(&p->out, "# %.*s: %s\n", (int)strcspn(row->prefix, ".["), row->prefix, row->of);
    }
    add_text_row(row, &p->out);
}

sr_status sr_info_options(sr_info_filter *filter) {
    printer p = {.comma = "", .filter = filter};
    sr_text_init(&p.out);
    sr_text_init(&p.of);
    sr_text_add(
        &p.out,
        "# Keys of a recipe: type = default, range. Neutral keys never change a bit of a result "
        "and\n"
        "# are not part of a run's identity. 'model: NAME' is short for 'model: {name: NAME}',\n"
        "# likewise loss, optimizer and schedule; 'ema: 0.999' for 'ema: {decay: 0.999}'. Keys "
        "below\n"
        "# a line such as '# schedule: step' exist only with that choice.\n");
    const sr_status status = visit_all(print_row, &p);
    sr_text_release(&p.of);
    return sr_command_print(status, &p.out);
}

void sr_info_print_table(const sr_option_table *table, const char *prefix) {
    for (size_t i = 0; table && i < table->count; i++) {
        const listed row = of_option(prefix, "", &table->options[i]);
        sr_text out;
        sr_text_init(&out);
        add_text_row(&row, &out);
        (void)fputs(out.data, stdout);
        sr_text_release(&out);
    }
}

// ---- as JSON ------------------------------------------------------------------------------------

static void add_choices_json(const char *const *choices, sr_text *out) {
    sr_text_add(out, ", \"choices\": ");
    if (!choices) {
        sr_text_add(out, "null");
        return;
    }
    for (const char *const *choice = choices; *choice; choice++) {
        sr_text_add(out, choice == choices ? "[" : ", ");
        sr_text_add_json_string(out, *choice);
    }
    sr_text_add(out, "]");
}

static void add_json_row(void *user, const listed *row) {
    printer *p = user;
    const sr_option *option = row->option;
    if (!takes(p, row))
        return;
    const bool bounded = option && (option->min != 0 || option->max != 0);
    sr_text key, range;
    sr_text_init(&key);
    sr_text_init(&range);
    sr_text_add(&key, "%s%s", row->prefix, row->name);
    if (bounded)
        add_range(option, &range);
    sr_text_add(&p->out, "%s{\"key\": ", p->comma);
    sr_text_add_json_string(&p->out, key.data);
    sr_text_add_json_string_member(&p->out, "of", row->of[0] ? row->of : NULL);
    sr_text_add_json_string_member(&p->out, "type", option ? type_name(option->type) : row->type);
    add_choices_json(row->choices, &p->out);
    sr_text_add_json_string_member(&p->out, "default", row->default_value);
    sr_text_add_json_string_member(&p->out, "range", bounded ? range.data : NULL);
    if (bounded) {
        sr_text_add(&p->out, ", \"min\": ");
        sr_text_add_json_number(&p->out, option->min);
        sr_text_add(&p->out, ", \"max\": ");
        sr_text_add_json_number(&p->out, option->max);
    }
    sr_text_add_json_string_member(&p->out, "class",
                                   row->option_class == SR_OPTION_NEUTRAL ? "neutral" : "numerics");
    sr_text_add_json_string_member(&p->out, "help", row->help);
    sr_text_add(&p->out, "}");
    p->comma = ",\n ";
    sr_text_release(&range);
    sr_text_release(&key);
}

sr_status sr_info_options_json(sr_info_filter *filter) {
    printer p = {.comma = "", .filter = filter};
    sr_text_init(&p.out);
    sr_text_add(&p.out, "[");
    const sr_status status = visit_all(add_json_row, &p);
    sr_text_add(&p.out, "]\n");
    return sr_command_print(status, &p.out);
}
