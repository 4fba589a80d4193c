// SPDX-License-Identifier: Apache-2.0
// A plug-in that provides only a name (for test_plugin_file.c).
#include "kernels/base/plugin.h"

const sr_plugin *sr_plugin_entry(void);

const sr_plugin *sr_plugin_entry(void) {
    static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = PLUGIN_NAME};
    return &plugin;
}
