// SPDX-License-Identifier: Apache-2.0
// Adds the descriptors of a recipe's `plugins` to the tables (plugins.h). Two checks decide what
// may be loaded: here, where the path comes from; in kernels/base/plugin_file.c, who could have
// written the file.
#include "trainer/engine/plugins.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataio/transforms/transform.h"
#include "graph/op.h"
#include "kernels/base/file.h"
#include "kernels/base/plugin_file.h"
#include "trainer/losses/loss.h"
#include "trainer/models/model.h"
#include "trainer/optimizers/optimizer.h"
#include "trainer/recipe/recipe_internal.h"
#include "trainer/schedules/schedule.h"
#include "trainer/tasks/task.h"

static sr_status add_all(const sr_plugin *plugin, const char *origin) {
    SR_TRY(sr_models_add(plugin->models, origin));
    SR_TRY(sr_losses_add(plugin->losses, origin));
    SR_TRY(sr_tasks_add(plugin->tasks, origin));
    SR_TRY(sr_transforms_add(plugin->transforms, origin));
    SR_TRY(sr_ops_add(plugin->ops, origin));
    SR_TRY(sr_optimizers_add(plugin->optimizers, origin));
    return sr_schedules_add(plugin->schedules, origin);
}

sr_status sr_plugin_add(const sr_plugin *plugin) {
    if (plugin->abi != SR_PLUGIN_ABI || plugin->struct_size != sizeof *plugin) {
        return SR_FAIL(
            SR_E_UNSUPPORTED,
            "this program was built for plug-in interface %u with %u bytes, but this "
            "serried has interface %d with %zu; rebuild it against the installed headers",
            plugin->abi, plugin->struct_size, SR_PLUGIN_ABI, sizeof *plugin);
    }
    return add_all(plugin, plugin->name);
}

static sr_status open_one(const char *path, sr_plugin_file **out) {
    SR_TRY(sr_plugin_open(path, NULL, out));
    if ((*out)->added)
        return SR_OK;
    SR_TRY(add_all((*out)->plugin, (*out)->path));
    (*out)->added = true;
    return SR_OK;
}

sr_status sr_plugin_add_file(const char *path) {
    sr_plugin_file *file;
    return open_one(path, &file);
}

// ---- Plug-ins of a recipe ----

static sr_status check_source(sr_recipe *recipe, const sr_recipe_source *source,
                              sr_plugins_trust trust) {
    struct stat st;
    if (trust == SR_PLUGINS_ALLOWED || trust == SR_PLUGINS_LOADED || source->is_override)
        return SR_OK;
    if (trust == SR_PLUGINS_FOUND)
        return sr_recipe_fail(recipe, "plugins",
                              "the recipe in a run folder names code to run; give --allow-plugins "
                              "if you trust whoever made the folder");
    if (stat(source->name, &st) != 0)
        return SR_FAIL(SR_E_IO, "%s: cannot determine its owner: %s", source->name,
                       strerror(errno));
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return sr_recipe_fail(recipe, "plugins",
                              "this recipe belongs to user %u and names code to run; give "
                              "--allow-plugins if you trust that user",
                              st.st_uid);
    return SR_OK;
}

// The path of a plug-in; a relative one starts at the recipe's folder.
static const char *resolve_path(sr_recipe *recipe, const sr_recipe_source *source,
                                const char *item) {
    const char *beside = source->is_override ? recipe->file : source->name;
    const char *slash = strrchr(beside, '/');
    if (item[0] == '/' || !slash)
        return item;
    return sr_recipe_format(recipe->internal, "%.*s/%s", (int)(slash - beside), beside, item);
}

static sr_status load_one(sr_recipe *recipe, sr_plugins_trust trust, const sr_recipe_source *source,
                          sr_recipe_node *item, size_t index) {
    char message[1024];
    sr_plugin_file *file;
    const char *path = resolve_path(recipe, source, item->text);
    sr_status status = SR_OK;
    if (trust == SR_PLUGINS_LOADED && !sr_plugin_is_loaded(path))
        status = SR_FAIL(SR_E_USAGE, "plug-in %s is not loaded", path);
    if (status == SR_OK)
        status = open_one(path, &file);
    if (status == SR_E_MEMORY || status == SR_E_SYSTEM || status == SR_E_IO)
        return status;
    if (status != SR_OK) {
        (void)snprintf(message, sizeof message, "%s", sr_error_message());
        return sr_recipe_fail(recipe, "plugins", "%s", message);
    }
    item->text = file->path;
    recipe->plugins.items[index] = file->path;
    recipe->internal->plugin_hashes[index] = file->hash;
    return SR_OK;
}

sr_status sr_plugins_load(sr_recipe *recipe, sr_plugins_trust trust) {
    sr_recipe_internal *in = recipe->internal;
    size_t count = recipe->plugins.count, index = 0;
    sr_recipe_node *list = sr_recipe_node_find(in->resolved, "plugins");
    if (count == 0 || !list || in->plugins_loaded)
        return SR_OK;
    SR_TRY(check_source(recipe, list->at.source, trust));
    const char **hashes = sr_arena_alloc(&in->arena, count * sizeof *hashes);
    if (!hashes)
        return SR_E_MEMORY;
    in->plugin_hashes = hashes;
    for (sr_recipe_node *item = list->first; item && index < count; item = item->next, index++)
        SR_TRY(load_one(recipe, trust, list->at.source, item, index));
    in->plugins_loaded = true;
    return SR_OK;
}

bool sr_plugins_loaded(const sr_recipe *recipe) {
    return recipe->plugins.count == 0 || recipe->internal->plugins_loaded;
}

uint32_t sr_plugins_features(void) {
    uint32_t features = 0;
    size_t count;
    const sr_op *const *ops = sr_ops(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < ops[i]->kernel_count; k++)
            features |= ops[i]->kernels[k].needs;
    return features;
}
