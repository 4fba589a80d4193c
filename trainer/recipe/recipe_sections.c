// SPDX-License-Identifier: Apache-2.0
// Reads the sections of a recipe that are more than rows of a table: phases and parameter sets with
// their choices, parameter groups, and the list of transforms.
//
// Options that belong to descriptors are copied as written; recipe_options.c reads them later
// through the descriptors' tables.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dataio/transforms/transform.h"
#include "trainer/recipe/recipe_internal.h"

// ---- one choice -------------------------------------------------------------------------------

typedef struct section {
    sr_recipe_node *written;  // NULL or a map
    sr_recipe_node *resolved; // a map
    const char *path;
} section;

// The text of a section's 'name', or NULL. Reports mistakes.
static const char *read_name(sr_recipe_internal *in, const section *s) {
    sr_recipe_node *name = s->written ? sr_recipe_node_child(s->written, "name") : NULL;
    if (!name)
        return NULL;
    name->used = true;
    if (sr_recipe_node_is_null(name))
        return NULL;
    if (name->kind == SR_RECIPE_NODE_TEXT)
        return name->text;
    sr_recipe_mistake(in, name->at, "'name' must be text, not a %s",
                      name->kind == SR_RECIPE_NODE_MAP ? "map" : "list");
    return NULL;
}

// Begins a section: its maps and its name. fallback: the name if none is written; may be NULL.
static sr_status begin(sr_recipe_internal *in, sr_recipe_node *written_parent,
                       sr_recipe_node *resolved_parent, const char *prefix, const char *key,
                       const char *fallback, section *out, sr_recipe_choice *choice) {
    section s = {.path = sr_recipe_format(in, "%s%s", prefix, key)};
    s.written = sr_recipe_node_child(written_parent, key);
    sr_recipe_position at = s.written ? s.written->key_at : written_parent->key_at;
    if (s.written) {
        s.written->used = true;
        if (sr_recipe_node_is_null(s.written)) {
            s.written = NULL;
        } else if (s.written->kind != SR_RECIPE_NODE_MAP) {
            sr_recipe_mistake(in, s.written->at, "'%s' is a name, or a map with a name; not a list",
                              key);
            s.written = NULL;
        }
    }
    s.resolved = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, key, at);
    sr_recipe_node *name = sr_recipe_node_new(in, SR_RECIPE_NODE_TEXT, "name", at);
    if (!s.resolved || !name)
        return SR_E_MEMORY;
    const char *text = read_name(in, &s);
    if (text)
        name->at = sr_recipe_node_child(s.written, "name")->at;
    else
        name->note = "default";
    name->text = text ? text : fallback;
    sr_recipe_node_append(s.resolved, name);
    sr_recipe_node_append(resolved_parent, s.resolved);
    *choice = (sr_recipe_choice){name->text, s.path};
    *out = s;
    return SR_OK;
}

// Copies the options that have not been read yet.
static sr_status copy_options(sr_recipe_internal *in, const section *s) {
    for (sr_recipe_node *node = s->written ? s->written->first : NULL; node; node = node->next) {
        if (node->used)
            continue;
        sr_recipe_node *copy = sr_recipe_node_copy(in, node);
        if (!copy)
            return SR_E_MEMORY;
        sr_recipe_node_append(s->resolved, copy);
    }
    return SR_OK;
}

// ---- groups of the optimiser ------------------------------------------------------------------

static sr_status read_group(sr_recipe_internal *in, sr_recipe_node *written, sr_recipe_node *list,
                            sr_recipe_group *group) {
    sr_recipe_node *map = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, NULL, written->at);
    if (!map)
        return SR_E_MEMORY;
    sr_recipe_node_append(list, map);
    if (written->kind != SR_RECIPE_NODE_MAP) {
        sr_recipe_mistake(in, written->at,
                          "a group is a map, such as {match: [bias, norm], decay_scale: 0}");
        return SR_OK;
    }
    const sr_option_table *table = sr_recipe_group_keys();
    const char **keys = sr_arena_alloc(&in->arena, table->count * sizeof *keys);
    if (!keys)
        return SR_E_MEMORY;
    for (size_t i = 0; i < table->count; i++)
        keys[i] = table->options[i].name;
    SR_TRY(sr_recipe_read_table(in, table, group, written, map));
    for (const sr_recipe_node *node = written->first; node; node = node->next) {
        if (!node->used)
            sr_recipe_mistake(in, node->key_at, "unknown key '%s' of a group%s", node->key,
                              sr_recipe_hint(in, node->key, keys, table->count));
    }
    if (group->match.count == 0)
        sr_recipe_mistake(in, written->at, "a group needs 'match', which selects its parameters");
    return SR_OK;
}

static sr_status read_groups(sr_recipe_internal *in, const section *s, sr_recipe_optimizer *out) {
    sr_recipe_node *written = s->written ? sr_recipe_node_child(s->written, "groups") : NULL;
    if (!written)
        return SR_OK;
    written->used = true;
    if (sr_recipe_node_is_null(written))
        return SR_OK;
    if (written->kind != SR_RECIPE_NODE_LIST) {
        sr_recipe_mistake(in, written->at, "'groups' is a list of maps");
        return SR_OK;
    }
    sr_recipe_node *list = sr_recipe_node_new(in, SR_RECIPE_NODE_LIST, "groups", written->at);
    size_t count = (size_t)written->count;
    sr_recipe_group *groups = sr_arena_alloc(&in->arena, (count + 1) * sizeof *groups);
    if (!list || !groups)
        return SR_E_MEMORY;
    sr_recipe_node_append(s->resolved, list);
    sr_recipe_node *item = written->first;
    for (size_t i = 0; i < count; i++, item = item->next)
        SR_TRY(read_group(in, item, list, &groups[i]));
    out->groups = groups;
    out->group_count = (int)count;
    return SR_OK;
}

// ---- phases -----------------------------------------------------------------------------------

// Recipes without these keep the identity that they had before the keys existed.
static void read_added(sr_recipe_internal *in, const section *s, const sr_recipe_optimizer *o) {
    sr_recipe_node *norm = sr_recipe_node_child(s->resolved, "clip_norm"),
                   *value = sr_recipe_node_child(s->resolved, "clip_value");
    if (!(o->clip_norm > 0))
        norm->option_class = SR_OPTION_NEUTRAL;
    if (!(o->clip_value > 0))
        value->option_class = SR_OPTION_NEUTRAL;
    if (o->layer_decay == 1)
        sr_recipe_node_child(s->resolved, "layer_decay")->option_class = SR_OPTION_NEUTRAL;
    if (o->clip_norm > 0 && o->clip_value > 0)
        sr_recipe_mistake(in, value->at,
                          "gradients are limited by clip_norm or by clip_value, not by both");
}

static sr_status read_optimizer(sr_recipe_internal *in, sr_recipe_node *written,
                                sr_recipe_node *resolved, const char *prefix,
                                sr_recipe_optimizer *out) {
    section s;
    SR_TRY(begin(in, written, resolved, prefix, "optimizer", "sgd", &s, &out->choice));
    sr_recipe_choice choice = out->choice; // reading the table clears the struct's other fields
    SR_TRY(sr_recipe_read_table(in, sr_recipe_optimizer_keys(), out, s.written, s.resolved));
    out->choice = choice;
    SR_TRY(read_groups(in, &s, out));
    SR_TRY(copy_options(in, &s));
    sr_recipe_node *lr = sr_recipe_node_child(s.resolved, "lr");
    out->lr = out->lr_given;
    if (out->lr_per > 0)
        out->lr = out->lr_given * ((double)in->v.recipe.batch / out->lr_per);
    if (!isfinite(out->lr))
        sr_recipe_mistake(in, sr_recipe_node_child(s.resolved, "lr_per")->at,
                          "a learning rate of %g for every %g samples is too large for a batch of "
                          "%lld",
                          out->lr_given, out->lr_per, (long long)in->v.recipe.batch);
    lr->counts_as = sr_recipe_format(in, "%.17g", out->lr);
    read_added(in, &s, out);
    return SR_OK;
}

static sr_status read_schedule(sr_recipe_internal *in, sr_recipe_node *written,
                               sr_recipe_node *resolved, const char *prefix,
                               sr_recipe_schedule *out) {
    section s;
    SR_TRY(begin(in, written, resolved, prefix, "schedule", "constant", &s, &out->choice));
    sr_recipe_choice choice = out->choice;
    SR_TRY(sr_recipe_read_table(in, sr_recipe_schedule_keys(), out, s.written, s.resolved));
    out->choice = choice;
    return copy_options(in, &s);
}

// ---- losses -----------------------------------------------------------------------------------

static bool is_column(const char *name) {
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-')
            return false;
    return name[0] != '\0' && strlen(name) <= SR_RECIPE_MAX_COLUMN;
}

// 'as', or else the name, which no other loss of the list has.
static void name_loss(sr_recipe_internal *in, const section *s, const sr_recipe_loss *losses,
                      int index, sr_recipe_loss *out) {
    const bool given = out->name != NULL;
    const sr_recipe_position at = sr_recipe_node_child(s->resolved, given ? "as" : "name")->at;
    if (given && !is_column(out->name))
        sr_recipe_mistake(in, at, "as: expected at most %d letters, digits, '_' and '-', got '%s'",
                          SR_RECIPE_MAX_COLUMN, out->name);
    out->name = given ? out->name : out->choice.name ? out->choice.name : "";
    for (int i = 0; i < index; i++) {
        if (*out->name && strcmp(losses[i].name, out->name) == 0)
            sr_recipe_mistake(in, at,
                              "two losses of the list are called '%s'; name one of them otherwise, "
                              "such as as: %s_2",
                              out->name, out->name);
    }
}

static sr_status read_listed_loss(sr_recipe_internal *in, sr_recipe_node *written,
                                  sr_recipe_node *list, const char *path, int index,
                                  sr_recipe_loss *losses) {
    sr_recipe_loss *out = &losses[index];
    section s = {.resolved = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, NULL, written->at),
                 .path = sr_recipe_format(in, "%s[%d]", path, index)};
    sr_recipe_node *name = sr_recipe_node_new(in, SR_RECIPE_NODE_TEXT, "name", written->at);
    if (!s.resolved || !name)
        return SR_E_MEMORY;
    if (written->kind == SR_RECIPE_NODE_TEXT && !sr_recipe_node_is_null(written))
        SR_TRY(sr_recipe_node_wrap(in, written, "name"));
    s.written = written->kind == SR_RECIPE_NODE_MAP ? written : NULL;
    const sr_recipe_node *given = s.written ? sr_recipe_node_child(s.written, "name") : NULL;
    if (given)
        name->at = given->at;
    else
        sr_recipe_mistake(in, written->at,
                          "a loss of a list is a name, or a map with a name, such as {name: dice, "
                          "weight: 3}");
    name->text = read_name(in, &s);
    sr_recipe_node_append(s.resolved, name);
    sr_recipe_node_append(list, s.resolved);
    SR_TRY(sr_recipe_read_table(in, sr_recipe_loss_keys(), out, s.written, s.resolved));
    out->choice = (sr_recipe_choice){name->text, s.path};
    name_loss(in, &s, losses, index, out);
    return copy_options(in, &s);
}

static sr_status read_loss_list(sr_recipe_internal *in, sr_recipe_node *written,
                                sr_recipe_node *resolved, const char *path, sr_recipe_phase *out) {
    sr_recipe_node *list = sr_recipe_node_new(in, SR_RECIPE_NODE_LIST, "loss", written->at);
    sr_recipe_loss *losses =
        sr_arena_alloc(&in->arena, ((size_t)written->count + 1) * sizeof *losses);
    if (!list || !losses)
        return SR_E_MEMORY;
    list->key_at = written->key_at;
    sr_recipe_node_append(resolved, list);
    sr_recipe_node *item = written->first;
    for (int i = 0; i < written->count; i++, item = item->next)
        SR_TRY(read_listed_loss(in, item, list, path, i, losses));
    out->losses = losses;
    out->loss_count = written->count;
    return SR_OK;
}

static sr_status read_losses(sr_recipe_internal *in, sr_recipe_node *written,
                             sr_recipe_node *resolved, const char *prefix, sr_recipe_phase *out) {
    sr_recipe_node *node = sr_recipe_node_child(written, "loss");
    section s;
    if (node && node->kind == SR_RECIPE_NODE_LIST) {
        node->used = true;
        if (node->count == 0)
            sr_recipe_mistake(in, node->at, "'loss' is an empty list; remove it, or name a loss");
        return read_loss_list(in, node, resolved, sr_recipe_format(in, "%sloss", prefix), out);
    }
    if (node && node->over_list)
        sr_recipe_mistake(in, node->key_at,
                          "'loss' is a list in the recipe that this changes; give the whole list, "
                          "or a map with a name");
    sr_recipe_loss *loss = sr_arena_alloc(&in->arena, sizeof *loss);
    if (!loss)
        return SR_E_MEMORY;
    loss->weight = 1;
    SR_TRY(begin(in, written, resolved, prefix, "loss", NULL, &s, &loss->choice));
    out->losses = loss;
    out->loss_count = 1;
    return copy_options(in, &s);
}

// Model, loss, optimizer and schedule, in the order in which they are printed. 'set' is NULL for a
// phase whose set is that of an earlier phase.
static sr_status read_choices(sr_recipe_internal *in, sr_recipe_node *written,
                              sr_recipe_node *resolved, const char *prefix, sr_recipe_set *set,
                              sr_recipe_phase *phase) {
    section model;
    if (set) {
        SR_TRY(begin(in, written, resolved, prefix, "model", NULL, &model, &set->model));
        if (!set->model.name && !in->base_missing) {
            sr_recipe_mistake(in, model.resolved->at,
                              "'%s' is missing: name one, such as model: resnet18%s%s", model.path,
                              in->v.recipe.set_count > 1 ? ", or the set of another phase, as set: "
                                                         : "",
                              in->v.recipe.set_count > 1 ? in->v.recipe.sets[0].name : "");
        }
        SR_TRY(copy_options(in, &model));
    }
    SR_TRY(read_losses(in, written, resolved, prefix, phase));
    if (!set)
        return SR_OK;
    SR_TRY(read_optimizer(in, written, resolved, prefix, &set->optimizer));
    return read_schedule(in, written, resolved, prefix, &set->schedule);
}

static bool is_word(const char *name) {
    for (const char *c = name; *c; c++) {
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    }
    return name[0] != '\0';
}

// A phase's sections, merged over those of the top level.
static sr_recipe_node *phase_over_top(sr_recipe_internal *in, const sr_recipe_node *phase) {
    sr_recipe_node *merged = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, phase->key, phase->at);
    sr_recipe_node *own = sr_recipe_node_copy(in, phase);
    if (!merged || !own)
        return NULL;
    merged->key_at = phase->key_at;
    for (sr_recipe_node *top = in->written->first; top; top = top->next) {
        if (!sr_recipe_node_is_phase_choice(top->key) || sr_recipe_node_is_null(top))
            continue;
        top->used = true;
        sr_recipe_node *copy = sr_recipe_node_copy(in, top);
        if (!copy)
            return NULL;
        copy->used = false;
        sr_recipe_node_append(merged, copy);
    }
    sr_recipe_node_merge(merged, own);
    return merged;
}

// 'set' and 'every'; a set that is named like its phase is no part of the identity, which recipes
// had before the key existed.
static sr_status read_cadence(sr_recipe_internal *in, sr_recipe_node *written,
                              sr_recipe_node *resolved, sr_recipe_phase *out) {
    SR_TRY(sr_recipe_read_table(in, sr_recipe_phase_keys(), out, written, resolved));
    sr_recipe_node *set = sr_recipe_node_child(resolved, "set");
    out->name = written->key;
    out->set_name = out->set_name ? out->set_name : out->name;
    set->text = out->set_name;
    if (strcmp(out->set_name, out->name) == 0)
        set->option_class = SR_OPTION_NEUTRAL;
    if (!is_word(out->set_name))
        sr_recipe_mistake(in, set->at,
                          "the name of a parameter set consists of letters, digits and '_'");
    return SR_OK;
}

// The sections of a set are those of the first phase that names it.
static void refuse_second(sr_recipe_internal *in, const sr_recipe_node *written,
                          const sr_recipe_phase *phase, const char *first) {
    for (const sr_recipe_node *node = written->first; node; node = node->next)
        if (sr_recipe_node_is_phase_choice(node->key) && strcmp(node->key, "loss") != 0)
            sr_recipe_mistake(in, node->key_at,
                              "phase %s trains set '%s', whose %s is phases.%s.%s: change it there",
                              phase->name, phase->set_name, node->key, first, node->key);
}

// Finds the phase's set, or adds it: *first is the first phase that names it.
static sr_recipe_set *find_set(sr_recipe *recipe, sr_recipe_phase *phases, sr_recipe_set *sets,
                               sr_recipe_phase *phase, const sr_recipe_phase **first) {
    for (*first = phases; *first < phase; (*first)++)
        if (strcmp((*first)->set_name, phase->set_name) == 0)
            break;
    phase->set = *first < phase ? (*first)->set : recipe->set_count++;
    sets[phase->set].name = phase->set_name;
    return &sets[phase->set];
}

static bool is_phase_key(const char *key) {
    return sr_recipe_node_is_phase_choice(key) || sr_options_find(sr_recipe_phase_keys(), key);
}

// Keys that are not those of a phase, and a value that is no map.
static bool check_phase(sr_recipe_internal *in, const sr_recipe_node *written) {
    static const char *const keys[] = {"set", "every", "model", "optimizer", "schedule", "loss"};
    if (!is_word(written->key))
        sr_recipe_mistake(in, written->key_at,
                          "the name of a phase consists of letters, digits and '_'");
    if (written->kind != SR_RECIPE_NODE_MAP) {
        sr_recipe_mistake(in, written->at,
                          "a phase is a map with model, optimizer, schedule, loss");
        return false;
    }
    for (const sr_recipe_node *node = written->first; node; node = node->next) {
        if (!is_phase_key(node->key))
            sr_recipe_mistake(in, node->key_at, "unknown key '%s' of a phase%s", node->key,
                              sr_recipe_hint(in, node->key, keys, sizeof keys / sizeof *keys));
    }
    return true;
}

// The list of all phases and of the sets that they name.
typedef struct phase_lists {
    sr_recipe_phase *phases;
    sr_recipe_set *sets;
    sr_recipe_node *parent; // resolved
} phase_lists;

static sr_status read_named_phase(sr_recipe_internal *in, sr_recipe_node *written,
                                  const phase_lists *lists, sr_recipe_phase *out) {
    sr_recipe_node *resolved =
        sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, written->key, written->key_at);
    if (!resolved)
        return SR_E_MEMORY;
    sr_recipe_node_append(lists->parent, resolved);
    out->name = out->set_name = written->key;
    if (check_phase(in, written))
        SR_TRY(read_cadence(in, written, resolved, out));
    const sr_recipe_phase *first;
    sr_recipe_set *set = find_set(&in->v.recipe, lists->phases, lists->sets, out, &first);
    if (written->kind != SR_RECIPE_NODE_MAP)
        return SR_OK;
    if (first != out)
        refuse_second(in, written, out, first->name);
    sr_recipe_node *sections = phase_over_top(in, written);
    if (!sections)
        return SR_E_MEMORY;
    return read_choices(in, sections, resolved, sr_recipe_format(in, "phases.%s.", written->key),
                        first == out ? set : NULL, out);
}

static sr_status read_phases(sr_recipe_internal *in) {
    sr_recipe_node *written = sr_recipe_node_child(in->written, "phases");
    bool flat = !written || sr_recipe_node_is_null(written);
    if (written)
        written->used = true;
    if (!flat && (written->kind != SR_RECIPE_NODE_MAP || written->count == 0)) {
        sr_recipe_mistake(in, written->at, "'phases' is a map of NAME: {model, optimizer, ...}");
        flat = true;
    }
    if (!flat && written->count > SR_RECIPE_MAX_PHASES) { // each has a copy of the top level
        sr_recipe_mistake(in, written->at, "a recipe has at most %d phases", SR_RECIPE_MAX_PHASES);
        flat = true;
    }
    size_t count = flat ? 1 : (size_t)written->count;
    phase_lists lists = {.phases = sr_arena_alloc(&in->arena, count * sizeof *lists.phases),
                         .sets = sr_arena_alloc(&in->arena, count * sizeof *lists.sets)};
    if (!lists.phases || !lists.sets)
        return SR_E_MEMORY;
    in->v.recipe.phases = lists.phases;
    in->v.recipe.sets = lists.sets;
    in->v.recipe.phase_count = (int)count;
    in->v.recipe.set_count = flat;
    if (flat) {
        lists.sets[0].name = lists.phases[0].name = lists.phases[0].set_name = "";
        return read_choices(in, in->written, in->resolved, "", &lists.sets[0], &lists.phases[0]);
    }
    lists.parent = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, "phases", written->key_at);
    if (!lists.parent)
        return SR_E_MEMORY;
    sr_recipe_node_append(in->resolved, lists.parent);
    sr_recipe_node *phase = written->first;
    for (size_t i = 0; i < count; i++, phase = phase->next)
        SR_TRY(read_named_phase(in, phase, &lists, &lists.phases[i]));
    return SR_OK;
}

// ---- task ----

// A task without options is printed and identified by its name alone.
static sr_status read_task(sr_recipe_internal *in) {
    section s;
    SR_TRY(
        begin(in, in->written, in->resolved, "", "task", SR_RECIPE_TASK, &s, &in->v.recipe.task));
    SR_TRY(copy_options(in, &s));
    if (s.resolved->count > 1)
        return SR_OK;
    const sr_recipe_node *name = s.resolved->first;
    s.resolved->kind = SR_RECIPE_NODE_TEXT;
    s.resolved->text = name->text;
    s.resolved->note = name->note;
    s.resolved->at = name->at;
    s.resolved->first = s.resolved->last = NULL;
    s.resolved->count = 0;
    return SR_OK;
}

// ---- transforms -------------------------------------------------------------------------------

// Adds "key=value" as sr_transform_spec requires it: lists without brackets and spaces.
static bool add_argument(sr_recipe_internal *in, sr_text *out, const sr_recipe_node *option) {
    if (option->kind == SR_RECIPE_NODE_TEXT && sr_recipe_node_is_null(option))
        return true;
    sr_text_add(out, "%s%s=", out->length > 0 ? " " : "", option->key);
    const sr_recipe_node *first = option->kind == SR_RECIPE_NODE_LIST ? option->first : option;
    for (const sr_recipe_node *item = first; item; item = item->next) {
        if (item->kind != SR_RECIPE_NODE_TEXT || strpbrk(item->text, " \t\n")) {
            sr_recipe_mistake(
                in, item->at,
                "an option of a transform is a value without spaces, or a list of such values");
            return false;
        }
        sr_text_add(out, "%s%s", item == first ? "" : ",", item->text);
        if (option->kind != SR_RECIPE_NODE_LIST)
            break;
    }
    return true;
}

// Reads the keys that every transform has.
static sr_status read_span(sr_recipe_internal *in, sr_recipe_node *options, sr_recipe_span *out) {
    sr_recipe_node *unused = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, NULL, options->at);
    if (!unused)
        return SR_E_MEMORY;
    return sr_recipe_read_table(in, sr_recipe_transform_keys(), out, options, unused);
}

// The transform's own options, as it reads them; "" after a mistake.
static const char *arguments_of(sr_recipe_internal *in, const sr_recipe_node *options) {
    const sr_option_table *shared = sr_recipe_transform_keys();
    sr_text text;
    sr_text_init(&text);
    bool fine = true;
    for (const sr_recipe_node *option = options->first; option && fine; option = option->next)
        fine = sr_options_find(shared, option->key) || add_argument(in, &text, option);
    const char *arguments = text.failed ? NULL : sr_arena_strdup(&in->arena, text.data);
    sr_text_release(&text);
    return arguments;
}

static sr_status read_transform(sr_recipe_internal *in, const sr_recipe_node *written,
                                sr_recipe_node *list, sr_transform_spec *out,
                                sr_recipe_span *span) {
    const sr_recipe_node *named = written;
    if (written->kind == SR_RECIPE_NODE_MAP && written->count == 1)
        named = written->first;
    const char *name = named->key ? named->key : named->text;
    bool has_options = named->key && !sr_recipe_node_is_null(named);
    if (written->kind == SR_RECIPE_NODE_LIST ||
        (written->kind == SR_RECIPE_NODE_MAP && written->count != 1) ||
        sr_recipe_node_is_null(written) || (has_options && named->kind != SR_RECIPE_NODE_MAP)) {
        sr_recipe_mistake(in, written->at,
                          "a transform is a name, or one name with a map of options, such as "
                          "{pad_crop: {pad: 4}}");
        return SR_OK;
    }
    sr_recipe_node *item = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, NULL, written->at);
    sr_recipe_node *options = has_options
                                  ? sr_recipe_node_copy(in, named)
                                  : sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, name, written->at);
    if (!item || !options)
        return SR_E_MEMORY;
    options->key = name;
    sr_recipe_node_append(item, options);
    sr_recipe_node_append(list, item);
    SR_TRY(read_span(in, options, span));
    out->name = name;
    out->arguments = arguments_of(in, options);
    return out->arguments ? SR_OK : SR_E_MEMORY;
}

static sr_status read_augment(sr_recipe_internal *in) {
    sr_recipe_node *written = sr_recipe_node_child(in->written, "augment");
    if (!written)
        return SR_OK;
    written->used = true;
    if (sr_recipe_node_is_null(written))
        return SR_OK;
    if (written->kind != SR_RECIPE_NODE_LIST) {
        sr_recipe_mistake(in, written->at,
                          "'augment' is a list of transforms; give the whole list, such as [flip]");
        return SR_OK;
    }
    sr_recipe_node *list = sr_recipe_node_new(in, SR_RECIPE_NODE_LIST, "augment", written->at);
    size_t count = (size_t)written->count;
    sr_transform_spec *specs = sr_arena_alloc(&in->arena, (count + 1) * sizeof *specs);
    sr_recipe_span *spans = sr_arena_alloc(&in->arena, (count + 1) * sizeof *spans);
    if (!list || !specs || !spans)
        return SR_E_MEMORY;
    list->key_at = written->key_at;
    sr_recipe_node_append(in->resolved, list);
    const sr_recipe_node *item = written->first;
    for (size_t i = 0; i < count; i++, item = item->next)
        SR_TRY(read_transform(in, item, list, &specs[i], &spans[i]));
    in->v.recipe.augment = specs;
    in->v.recipe.augment_spans = spans;
    in->v.recipe.augment_count = (int)count;
    return SR_OK;
}

// ---- weights ----------------------------------------------------------------------------------

static int leaf_count(const sr_recipe_node *node) {
    int count = node->kind == SR_RECIPE_NODE_TEXT;
    for (const sr_recipe_node *child = node->first; child; child = child->next)
        count += leaf_count(child);
    return count;
}

// Adds the files of a node. part: the names of the maps that it is in; NULL: it is in none.
static void add_weights(sr_recipe_internal *in, const sr_recipe_node *node, const char *part) {
    sr_recipe *r = &in->v.recipe;
    if (node->kind == SR_RECIPE_NODE_LIST) {
        sr_recipe_mistake(in, node->at,
                          "weights: expected a file, or a map such as {backbone: FILE}");
    } else if (node->kind == SR_RECIPE_NODE_TEXT && !sr_recipe_node_is_null(node)) {
        r->weights[r->weights_count++] =
            (sr_recipe_weights){.part = part,
                                .path = node->text,
                                .key = part ? sr_recipe_format(in, "weights.%s", part) : "weights"};
    }
    for (const sr_recipe_node *child = node->first; child; child = child->next)
        if (child->key)
            add_weights(in, child,
                        part ? sr_recipe_format(in, "%s.%s", part, child->key) : child->key);
}

// The row keeps its place where nothing is written.
static sr_status read_weights(sr_recipe_internal *in) {
    sr_recipe_node *written = sr_recipe_node_child(in->written, "weights");
    const bool given = written && !sr_recipe_node_is_null(written);
    sr_recipe_node *node =
        given ? sr_recipe_node_copy(in, written)
              : sr_recipe_node_new(in, SR_RECIPE_NODE_TEXT, "weights", (sr_recipe_position){0});
    if (!node)
        return SR_E_MEMORY;
    if (written)
        written->used = true;
    node->option_class = SR_OPTION_NEUTRAL;
    sr_recipe_node_append(in->resolved, node);
    if (!given) {
        node->text = NULL;
        node->note = "default";
        return SR_OK;
    }
    in->v.recipe.weights =
        sr_arena_alloc(&in->arena, ((size_t)leaf_count(node) + 1) * sizeof *in->v.recipe.weights);
    if (!in->v.recipe.weights)
        return SR_E_MEMORY;
    add_weights(in, node, NULL);
    return SR_OK;
}

sr_status sr_recipe_read_sections(sr_recipe_internal *in) {
    SR_TRY(read_task(in));
    SR_TRY(read_weights(in));
    SR_TRY(read_phases(in));
    return read_augment(in);
}
