// SPDX-License-Identifier: Apache-2.0
// The PATTERN of serried info.
#include <fnmatch.h>
#include <string.h>

#include "launcher/commands/info_internal.h"

bool sr_info_takes(sr_info_filter *filter, const char *name) {
    const char *pattern = filter->pattern;
    bool takes = !pattern;
    if (pattern && strpbrk(pattern, "*?["))
        takes = fnmatch(pattern, name, FNM_CASEFOLD) == 0;
    else if (pattern)
        takes = strcasestr(name, pattern) != NULL;
    filter->matches += takes;
    return takes;
}
