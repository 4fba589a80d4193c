// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/launcher/bench_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"

const char *bench_program;
char bench_folder[] = "/tmp/serried-bench-XXXXXX";
char bench_output[1 << 22];

int bench_set_up(void **state) {
    (void)state;
    sr_log_set_level(SR_LOG_ERROR);
    if (!mkdtemp(bench_folder))
        return -1;
    return setenv("SERRIED_PEERS", bench_folder, 1) || setenv("SERRIED_PEER_PYTHON", "sh", 1);
}

int bench_tear_down(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", bench_folder);
    return system(command);
}

void bench_write_peer(const char *name, const char *script) {
    char path[80];
    snprintf(path, sizeof path, "%s/%s", bench_folder, name);
    assert_int_equal(sr_file_write_atomic(path, script, strlen(script)), SR_OK);
}

int bench_run(const char *line) {
    char command[1024];
    snprintf(command, sizeof command, "'%s' %s 2>%s/messages </dev/null", bench_program, line,
             bench_folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t bytes = fread(bench_output, 1, sizeof bench_output - 1, pipe);
    bench_output[bytes] = '\0';
    int code = pclose(pipe);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

const sr_json *bench_json(sr_arena *arena) {
    const sr_json *json = NULL;
    assert_int_equal(
        sr_json_parse(bench_output, strlen(bench_output), 100000, "bench", arena, &json), SR_OK);
    return json;
}

double bench_number(const sr_json *json, const char *key) {
    double value = (double)NAN;
    assert_true(sr_json_double(sr_json_get(json, key), &value));
    return value;
}
