// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/support/machine_fixture.h"

#include <sys/stat.h>

#include "tests/unit/support/test_support.h"

void machine_write(const char *folder, const char *name, const char *text) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(0, fclose(file));
}

static void write_cpu(const char *folder, int cpu, int package, int core) {
    char name[128], text[16];
    (void)snprintf(name, sizeof name, "devices/system/cpu/cpu%d/topology/core_id", cpu);
    (void)snprintf(text, sizeof text, "%d\n", core);
    machine_write(folder, name, text);
    (void)snprintf(name, sizeof name, "devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
    (void)snprintf(text, sizeof text, "%d\n", package);
    machine_write(folder, name, text);
}

void machine_make(char *folder) {
    test_folder_make(folder);
    for (int cpu = 0; cpu < 16; cpu++)
        write_cpu(folder, cpu, cpu % 2, cpu % 8 / 2);
    machine_write(folder, "devices/system/node/node0/cpulist", "0,2,4,6,8,10,12,14\n");
    machine_write(folder, "devices/system/node/node1/cpulist", "1,3,5,7,9,11,13,15\n");
}
