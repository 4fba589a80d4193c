// SPDX-License-Identifier: Apache-2.0
// Layers of a recipe: its bases, the file itself, the overrides of the command line; later ones
// win.
//
// A base is looked up in the folder of the file that names it, then among the shipped recipes. A
// file never finds itself, so ./resnet50.yaml may be based on the shipped resnet50. Overrides that
// name a choice (optimizer=adamw, loss.name=bce) are applied first, so that their order does not
// matter.
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "trainer/recipe/recipe_internal.h"

typedef struct base_chain {
    const struct base_chain *parent;
    const char *real; // path with symbolic links resolved
} base_chain;

static sr_status read_file(sr_recipe_internal *in, const char *path, const base_chain *parent,
                           sr_recipe_node **out);

static sr_status out_of_memory(void) {
    return SR_FAIL(SR_E_MEMORY, "out of memory while reading a recipe");
}

// ---- bases ------------------------------------------------------------------------------------

static bool is_in_chain(const base_chain *link, const char *path) {
    char real[PATH_MAX];
    if (!realpath(path, real))
        return false;
    for (; link; link = link->parent) {
        if (strcmp(link->real, real) == 0)
            return true;
    }
    return false;
}

static int chain_length(const base_chain *link) {
    int length = 0;
    for (; link; link = link->parent)
        length++;
    return length;
}

static bool same_file(const char *path, const char *real) {
    char other[PATH_MAX];
    return realpath(path, other) && strcmp(other, real) == 0;
}

// NAME.yaml or NAME in the folder of the file, unless it is the file itself; else NULL.
static sr_status find_beside(sr_recipe_internal *in, const char *file, const char *real,
                             const char *name, const char **out) {
    const char *slash = strrchr(file, '/');
    int folder = name[0] == '/' || !slash ? 0 : (int)(slash - file) + 1;
    static const char *const endings[] = {".yaml", ""};
    *out = NULL;
    for (size_t i = 0; i < 2 && !*out; i++) {
        size_t bytes = (size_t)folder + strlen(name) + 8;
        char *path = sr_arena_alloc(&in->arena, bytes);
        if (!path)
            return out_of_memory();
        snprintf(path, bytes, "%.*s%s%s", folder, file, name, endings[i]);
        if (sr_path_exists(path) && !same_file(path, real))
            *out = path;
    }
    return SR_OK;
}

// Suggests a shipped recipe, or those whose names begin with the word.
static const char *hint_at_recipes(sr_recipe_internal *in, const char *name) {
    sr_recipe_listing *items;
    int count;
    const char *names[1000];
    if (sr_recipe_list(&in->arena, &items, &count) != SR_OK) {
        in->out_of_memory = true;
        return "";
    }
    for (int i = 0; i < count; i++)
        names[i] = items[i].name;
    const char *hint = sr_recipe_hint(in, name, names, (size_t)count);
    return *hint ? hint : sr_recipe_hint_at_beginning(in, name, names, (size_t)count);
}

// Reports a mistake of 'base'. Keys that are missing may be in that base.
SR_PRINTF(3, 4)
static sr_status no_base(sr_recipe_internal *in, const sr_recipe_node *name, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    sr_recipe_mistake(in, name->at, "%s", sr_recipe_format_list(in, fmt, args));
    va_end(args);
    in->base_missing = true;
    return SR_OK;
}

static sr_status merge_base(sr_recipe_internal *in, const sr_recipe_node *name, const char *file,
                            const base_chain *link, sr_recipe_node *into) {
    if (name->kind != SR_RECIPE_NODE_TEXT || name->text[0] == '\0')
        return no_base(in, name, "'base' must be the name or the path of a recipe");
    if (++in->bases > SR_RECIPE_MAX_BASES) { // one report is enough
        return in->bases > SR_RECIPE_MAX_BASES + 1
                   ? SR_OK
                   : no_base(in, name,
                             "more than %d bases in all (a base that is reached in two ways counts "
                             "twice)",
                             SR_RECIPE_MAX_BASES);
    }
    const char *path;
    SR_TRY(find_beside(in, file, link->real, name->text, &path));
    if (!path)
        SR_TRY(sr_recipe_shipped(&in->arena, name->text, &path));
    if (!path)
        return no_base(in, name, "no recipe '%s' in this file's folder or among the shipped ones%s",
                       name->text, hint_at_recipes(in, name->text));
    if (is_in_chain(link, path))
        return no_base(in, name, "base '%s' is itself based on this file: bases form a cycle",
                       name->text);
    if (chain_length(link) > SR_RECIPE_MAX_CHAIN)
        return no_base(in, name, "a chain of more than %d bases", SR_RECIPE_MAX_CHAIN);
    sr_recipe_node *base = NULL;
    const int before = in->mistakes;
    const sr_status status = read_file(in, path, link, &base);
    if (status == SR_E_USAGE && in->mistakes == before) // not reported with a position in the base
        return no_base(in, name, "base '%s' cannot be used: %s", name->text, sr_error_message());
    SR_TRY(status);
    if (base)
        sr_recipe_node_merge(into, base);
    return SR_OK;
}

static sr_status merge_bases(sr_recipe_internal *in, const sr_recipe_node *bases, const char *file,
                             const base_chain *link, sr_recipe_node *into) {
    if (bases->kind == SR_RECIPE_NODE_TEXT)
        return merge_base(in, bases, file, link, into);
    if (bases->kind == SR_RECIPE_NODE_MAP) {
        sr_recipe_mistake(in, bases->at, "'base' is a name or a list of names, not a map");
        return SR_OK;
    }
    for (const sr_recipe_node *name = bases->first; name; name = name->next)
        SR_TRY(merge_base(in, name, file, link, into));
    return SR_OK;
}

// ---- merging one layer --------------------------------------------------------------------------

static bool says(const sr_recipe_node *map, const char *key) {
    const sr_recipe_node *node = sr_recipe_node_child(map, key);
    return node && !sr_recipe_node_is_null(node);
}

// Epochs of a layer remove steps of the layers below, and the reverse.
static void merge_layer(sr_recipe_internal *in, sr_recipe_node *below, sr_recipe_node *layer) {
    sr_recipe_scale_lengths(in, below, layer);
    bool epochs = says(layer, "epochs"), steps = says(layer, "steps");
    if (epochs && steps)
        sr_recipe_mistake(in, sr_recipe_node_child(layer, "steps")->key_at,
                          "'epochs' and 'steps' are mutually exclusive; give one of them");
    else if (epochs)
        sr_recipe_node_remove(below, "steps");
    else if (steps)
        sr_recipe_node_remove(below, "epochs");
    sr_recipe_scale_evaluation(in, below, layer);
    sr_recipe_node_merge(below, layer);
}

static const char *last_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static sr_status parse_text(sr_recipe_internal *in, const char *path, const void *text,
                            size_t bytes, sr_recipe_node **out) {
    sr_recipe_source *source = sr_arena_alloc(&in->arena, sizeof *source);
    char *copy = sr_arena_alloc(&in->arena, bytes + 1), *name = sr_arena_strdup(&in->arena, path);
    if (!source || !copy || !name)
        return out_of_memory();
    memcpy(copy, text, bytes);
    *source = (sr_recipe_source){name, last_name(name), copy, false, in->sources++};
    return sr_recipe_node_parse(in, source, copy, bytes, 0, out);
}

static sr_status parse_file(sr_recipe_internal *in, const char *path, sr_recipe_node **out) {
    void *text = NULL;
    size_t bytes = 0;
    sr_status read = sr_file_read(path, SR_RECIPE_MAX_BYTES - in->bytes, &text, &bytes);
    if (read == SR_E_IO) // a folder, or not readable: the user must name another recipe
        return SR_FAIL(SR_E_USAGE, "%s", sr_error_message());
    if (read == SR_E_LIMIT)
        return SR_FAIL(SR_E_USAGE,
                       "%s: error: a recipe and its bases may have at most 1 MiB in all", path);
    SR_TRY(read);
    in->bytes += bytes;
    const sr_status status = parse_text(in, path, text, bytes, out);
    sr_free(text);
    return status;
}

static sr_status read_file(sr_recipe_internal *in, const char *path, const base_chain *parent,
                           sr_recipe_node **out) {
    char real[PATH_MAX];
    if (!realpath(path, real))
        snprintf(real, sizeof real, "%s", path);
    base_chain link = {parent, real};
    sr_recipe_node *root = NULL, *merged = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, NULL,
                                                              (sr_recipe_position){0});
    if (!merged)
        return out_of_memory();
    SR_TRY(parse_file(in, path, &root));
    *out = merged;
    if (!root || sr_recipe_node_is_null(root))
        return SR_OK;
    if (root->kind != SR_RECIPE_NODE_MAP) {
        sr_recipe_mistake(in, root->at, "a recipe is a map of 'key: value' lines");
        return SR_OK;
    }
    merged->at = root->at;
    SR_TRY(sr_recipe_node_normalise(in, root));
    const sr_recipe_node *bases = sr_recipe_node_child(root, "base");
    if (bases && !sr_recipe_node_is_null(bases))
        SR_TRY(merge_bases(in, bases, path, &link, merged));
    sr_recipe_node_remove(root, "base");
    merge_layer(in, merged, root);
    return SR_OK;
}

// ---- overrides ----------------------------------------------------------------------------------

// The value after '=': plain text, or YAML if it is quoted or a list or map.
static sr_status parse_value(sr_recipe_internal *in, const sr_recipe_source *source,
                             const char *value, sr_recipe_node **out) {
    int column = (int)(value - source->text);
    if (value[0] != '\0' && strchr("[{\"'", value[0]))
        return sr_recipe_node_parse(in, source, value, strlen(value), column, out);
    sr_recipe_node *node =
        sr_recipe_node_new(in, SR_RECIPE_NODE_TEXT, NULL, (sr_recipe_position){source, 0, column});
    if (!node)
        return out_of_memory();
    node->text = value;
    node->plain = true;
    *out = node;
    return SR_OK;
}

// Nested maps for "a.b.c" and a value, so that an override merges like any other layer.
static sr_status nest(sr_recipe_internal *in, const sr_recipe_source *source, const char *key,
                      size_t length, sr_recipe_node *value, sr_recipe_node **out) {
    sr_recipe_node *root = sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, NULL,
                                              (sr_recipe_position){source, 0, 0}),
                   *map = root;
    size_t begin = 0;
    while (map) {
        size_t n = strcspn(key + begin, ".=");
        char *word = sr_arena_alloc(&in->arena, n + 1);
        if (!word)
            break;
        memcpy(word, key + begin, n);
        bool last = begin + n >= length;
        sr_recipe_position at = {source, 0, (int)begin};
        sr_recipe_node *node = last ? value : sr_recipe_node_new(in, SR_RECIPE_NODE_MAP, NULL, at);
        if (!node)
            break;
        node->key = word;
        node->key_at = at;
        sr_recipe_node_append(map, node);
        if (last) {
            *out = root;
            return SR_OK;
        }
        map = node;
        begin += n + 1;
    }
    return out_of_memory();
}

static bool is_key(const char *key, size_t length) {
    bool begin = true; // at the beginning of a word
    for (size_t i = 0; i < length; i++) {
        if (key[i] == '.' && begin)
            return false;
        begin = key[i] == '.';
    }
    return !begin && length < SR_RECIPE_MAX_PATH;
}

static sr_status parse_override(sr_recipe_internal *in, const char *text, sr_recipe_node **out) {
    sr_recipe_source *source = sr_arena_alloc(&in->arena, sizeof *source);
    char *copy = sr_arena_strdup(&in->arena, text);
    if (!source || !copy)
        return out_of_memory();
    *source = (sr_recipe_source){"command line", "command line", copy, true, in->sources++};
    const char *equals = strchr(copy, '=');
    size_t length = equals ? (size_t)(equals - copy) : 0;
    sr_recipe_position at = {source, 0, 0};
    if (!equals) {
        sr_recipe_mistake(in, at, "'%s' is not of the form key=value", copy);
    } else if (equals[1] == '\0') {
        sr_recipe_mistake(in, at, "'%.*s' has no value; '%.*s=~' removes the recipe's value",
                          (int)length, copy, (int)length, copy);
    } else if (!is_key(copy, length)) {
        sr_recipe_mistake(in, at, "a key consists of words joined by dots, such as optimizer.lr");
    } else {
        sr_recipe_node *value = NULL;
        SR_TRY(parse_value(in, source, equals + 1, &value));
        SR_TRY(nest(in, source, copy, length, value, out));
        SR_TRY(sr_recipe_node_normalise(in, *out));
        if (sr_recipe_node_child(*out, "base"))
            sr_recipe_mistake(in, at, "'base' can only be set in a recipe file");
        sr_recipe_node_remove(*out, "base");
    }
    return SR_OK;
}

// Does the override select a choice: "optimizer=x", "phases.G.loss.name=x"?
static bool names_choice(const char *text) {
    char key[SR_RECIPE_MAX_PATH];
    size_t length = strcspn(text, "=");
    if (length >= sizeof key)
        return false;
    memcpy(key, text, length);
    key[length] = '\0';
    char *dot = strrchr(key, '.');
    if (dot && strcmp(dot + 1, "name") == 0) {
        *dot = '\0';
        dot = strrchr(key, '.');
    }
    return sr_recipe_node_is_choice(dot ? dot + 1 : key);
}

// Choices are applied before what they would remove: of the options of a model, those nearer to it
// first.
static int rank_of(const char *text) {
    const char *key = strncmp(text, "phases.", 7) == 0 ? strchr(text + 7, '.') : NULL;
    const size_t length = strcspn(text, "=");
    int dots = 0;
    if (names_choice(text))
        return 0;
    key = key && key < text + length ? key + 1 : text;
    for (const char *c = key; c < text + length; c++)
        dots += *c == '.';
    if (strncmp(key, "model.", 6) != 0)
        return 1;
    if (length > 5 && strncmp(text + length - 5, ".name", 5) == 0)
        dots--;
    return dots < SR_RECIPE_MAX_DEPTH ? dots : SR_RECIPE_MAX_DEPTH;
}

static void refuse_both_lengths(sr_recipe_internal *in, sr_recipe_node *const *layers, int count) {
    const sr_recipe_node *seen[2] = {NULL, NULL};
    for (int i = 0; i < count; i++) {
        if (layers[i] && says(layers[i], "epochs"))
            seen[0] = sr_recipe_node_child(layers[i], "epochs");
        if (layers[i] && says(layers[i], "steps"))
            seen[1] = sr_recipe_node_child(layers[i], "steps");
    }
    if (seen[0] && seen[1])
        sr_recipe_mistake(in, seen[1]->key_at,
                          "'epochs' and 'steps' are mutually exclusive; give one of them");
}

static sr_status apply_overrides(sr_recipe_internal *in, const char *const *overrides, int count) {
    if (count <= 0)
        return SR_OK;
    sr_recipe_node **layers = sr_arena_alloc(&in->arena, (size_t)count * sizeof(sr_recipe_node *));
    if (!layers)
        return out_of_memory();
    for (int i = 0; i < count; i++) {
        sr_status status = parse_override(in, overrides[i], &layers[i]);
        if (status != SR_OK && status != SR_E_USAGE)
            return status;
    }
    refuse_both_lengths(in, layers, count);
    for (int rank = 0; rank <= SR_RECIPE_MAX_DEPTH; rank++) {
        for (int i = 0; i < count; i++) {
            if (layers[i] && rank_of(overrides[i]) == rank)
                merge_layer(in, in->written, layers[i]);
        }
    }
    return SR_OK;
}

// ---- loading ------------------------------------------------------------------------------------

static bool is_path(const char *name) {
    const char *ending = strrchr(name, '.');
    return strchr(name, '/') ||
           (ending && (strcmp(ending, ".yaml") == 0 || strcmp(ending, ".yml") == 0));
}

static sr_status locate(sr_recipe_internal *in, const char *name, const char **path) {
    if (is_path(name)) {
        *path = name;
        if (sr_path_exists(name))
            return SR_OK;
        const char *last = last_name(name), *ending = strrchr(last, '.');
        last =
            sr_recipe_format(in, "%.*s", (int)(ending ? ending - last : (long)strlen(last)), last);
        return SR_FAIL(SR_E_NOT_FOUND, "%s: no such recipe file%s", name,
                       hint_at_recipes(in, last));
    }
    SR_TRY(sr_recipe_shipped(&in->arena, name, path));
    if (*path)
        return SR_OK;
    return SR_FAIL(SR_E_NOT_FOUND,
                   "no shipped recipe '%s'%s ('serried recipe list' lists them; a file needs its "
                   "ending, such as my.yaml)",
                   name, hint_at_recipes(in, name));
}

static sr_status name_recipe(sr_recipe_internal *in, const char *path) {
    char *file = sr_arena_strdup(&in->arena, path), *name = sr_arena_strdup(&in->arena, path);
    if (!file || !name)
        return out_of_memory();
    in->file = file;
    char *slash = strrchr(name, '/'), *ending = strrchr(name, '.');
    if (ending && ending > (slash ? slash + 1 : name))
        *ending = '\0';
    in->name = slash ? slash + 1 : name;
    return SR_OK;
}

// The model of the recipe or of a phase as it is written; "" if there is none.
static const char *model_in(const sr_recipe_node *map) {
    const sr_recipe_node *model = sr_recipe_node_child(map, "model");
    if (model && model->kind == SR_RECIPE_NODE_MAP)
        model = sr_recipe_node_child(model, "name");
    return model && model->kind == SR_RECIPE_NODE_TEXT && model->text ? model->text : "";
}

static const char *all_models(sr_recipe_internal *in) {
    const char *list = model_in(in->written);
    const sr_recipe_node *phases = sr_recipe_node_child(in->written, "phases");
    if (!phases || phases->kind != SR_RECIPE_NODE_MAP)
        return list;
    for (const sr_recipe_node *p = phases->first; p; p = p->next) {
        if (p->kind == SR_RECIPE_NODE_MAP && *model_in(p))
            list = sr_recipe_format(in, "%s%s%s", list, *list ? "-" : "", model_in(p));
    }
    return list;
}

// A recipe whose models the command line replaces is called RECIPE-MODEL, and so are its runs.
static void name_after_model(sr_recipe_internal *in, const char *before) {
    const char *now = all_models(in);
    if (*now == '\0' || strcmp(now, before) == 0)
        return;
    char *name = sr_arena_strdup(&in->arena, sr_recipe_format(in, "%s-%s", in->name, now));
    if (!name) {
        in->out_of_memory = true;
        return;
    }
    for (char *c = name; *c; c++)
        *c = *c == '/' ? '_' : *c;
    in->name = name;
}

sr_status sr_recipe_read(sr_recipe_internal *in, const char *name_or_path,
                         const char *const *overrides, int count) {
    const char *path;
    SR_TRY(locate(in, name_or_path, &path));
    SR_TRY(name_recipe(in, path));
    SR_TRY(read_file(in, path, NULL, &in->written));
    const char *models = all_models(in);
    SR_TRY(apply_overrides(in, overrides, count));
    name_after_model(in, models);
    return SR_OK;
}

sr_status sr_recipe_read_text(sr_recipe_internal *in, const char *name, const char *text,
                              const char *const *overrides, int count) {
    SR_TRY(name_recipe(in, name));
    SR_TRY(parse_text(in, name, text, strlen(text), &in->written));
    SR_TRY(sr_recipe_node_normalise(in, in->written));
    return apply_overrides(in, overrides, count);
}
