// SPDX-License-Identifier: Apache-2.0
// Opens the module that draws, when something is to be drawn. Without it there are no plots, and
// text is in a bitmap font.
#include <pthread.h>

#include "trainer/draw/plots.h"
#include "trainer/draw/plots_module.h"
#include "trainer/draw/raster_font.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const sr_plots_module *opened;
static sr_kept_error failure;

static bool refused;

void sr_plots_refuse(void) {
    refused = true;
}

static sr_status open_file(void) {
    static const sr_module_expected expected = {SR_PLOTS_MODULE, sizeof *opened, SR_PLOTS_ABI};
    char path[PATH_MAX];
    const sr_module_head *head;
    if (refused)
        return SR_FAIL(SR_E_UNSUPPORTED, "this process does not load %s", SR_PLOTS_FILE);
    if (!sr_module_file_find(SR_PLOTS_FILE, path))
        return sr_module_file_fail_missing(SR_PLOTS_FILE);
    SR_TRY(sr_module_file_open(path, &expected, &head));
    opened = (const sr_plots_module *)(const void *)head;
    return SR_OK;
}

static void open_once(void) {
    sr_error_keep(&failure, open_file());
}

// NULL without the module; 'failure' is why.
static const sr_plots_module *module(void) {
    (void)pthread_once(&once, open_once);
    return opened;
}

static sr_status fail_not_drawn(const char *folder, const char *name) {
    (void)sr_error_restore(&failure);
    return SR_FAIL(SR_E_UNSUPPORTED, "%s/%s.png: %s (it is built if cairo and Pango are installed)",
                   folder, name, sr_error_message());
}

bool sr_plots_installed(void) {
    char path[PATH_MAX];
    return sr_module_file_find(SR_PLOTS_FILE, path);
}

bool sr_plots_available(sr_plots_libraries *out) {
    const sr_plots_module *m = module();
    if (m && out)
        *out = m->libraries;
    return m != NULL;
}

sr_status sr_figure_write(const sr_figure *figure, const char *folder, const char *name) {
    const sr_plots_module *m = module();
    sr_arena arena;
    sr_figure_list list;
    if (!m)
        return fail_not_drawn(folder, name);
    sr_arena_init(&arena);
    sr_status status = sr_figure_unpack(figure, &arena, &list);
    if (status == SR_OK)
        status = m->figure(&list, folder, name);
    sr_arena_release(&arena);
    return status;
}

int sr_raster_text(sr_raster *raster, int x, int y, int size, uint32_t color, int max_width,
                   const char *text) {
    const sr_plots_module *m = module();
    return (m ? m->text : sr_font_text)(raster, x, y, size, color, max_width, text);
}

int sr_raster_text_width(int size, const char *text) {
    const sr_plots_module *m = module();
    return (m ? m->text_width : sr_font_text_width)(size, text);
}
