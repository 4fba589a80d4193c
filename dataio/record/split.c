// SPDX-License-Identifier: Apache-2.0
// Names of splits (split.h).
#include "dataio/record/split.h"

#include <stdbool.h>
#include <string.h>

const char *const sr_split_names[SR_SPLIT_COUNT] = {"train", "val", "test"};

int sr_split_find(const char *name, size_t bytes) {
    for (int s = 0; s < SR_SPLIT_COUNT; s++)
        if (strlen(sr_split_names[s]) == bytes && memcmp(name, sr_split_names[s], bytes) == 0)
            return s;
    return -1;
}

int sr_split_word(const char *name, size_t bytes) {
    bool begin = true;
    for (size_t i = 0; i < bytes; i++) {
        for (int s = 0; begin && s < SR_SPLIT_COUNT; s++) {
            const size_t n = strlen(sr_split_names[s]);
            if (n <= bytes - i && memcmp(name + i, sr_split_names[s], n) == 0)
                return s;
        }
        begin = strchr("_-. ", name[i]) != NULL;
    }
    return -1;
}
