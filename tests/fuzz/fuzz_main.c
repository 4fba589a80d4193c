// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over files and folders of files, like libFuzzer's own main with a corpus, for
// builds without libFuzzer. Every input runs twice, because targets must not keep state.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 64 << 20 };

static int run_file(const char *path) {
    void *data = NULL;
    size_t bytes = 0;
    if (sr_file_read(path, INPUT_MAX, &data, &bytes) != SR_OK) {
        (void)fprintf(stderr, "%s\n", sr_error_message());
        return -1;
    }
    for (int i = 0; i < 2; i++)
        (void)LLVMFuzzerTestOneInput(data, bytes);
    sr_free(data);
    return 1;
}

// Number of inputs run, or -1.
static int run_path(const char *path) {
    DIR *folder = opendir(path);
    if (folder == NULL)
        return run_file(path);
    int count = 0;
    for (struct dirent *entry; count >= 0 && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        char *inside = sr_path_join(path, entry->d_name);
        int ran = inside ? run_file(inside) : -1;
        count = ran < 0 ? -1 : count + ran;
        sr_free(inside);
    }
    (void)closedir(folder);
    return count;
}

int main(int argc, char **argv) {
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int count = run_path(argv[i]);
        if (count < 0)
            return EXIT_FAILURE;
        total += count;
    }
    (void)printf("%d inputs\n", total);
    return total > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
