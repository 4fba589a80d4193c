// SPDX-License-Identifier: Apache-2.0
// Fuzzes the small files of run folders and data sets, which have no checksum because people read
// and edit them. The first byte selects: 0, metrics.csv as a resume finds it (including a torn
// tail); 1, identity and 2, exit.json, which determine the state of a folder; 3, pack.txt. A table
// that was truncated at a position must not change when it is truncated there again.
#include <errno.h>
#include <math.h>
#include <sys/stat.h>

#include "dataio/formats/format.h"
#include "dataio/pack/pack_state.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/fuzz/scratch.h"
#include "trainer/report/csv_file.h"
#include "trainer/run/run_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const columns[] = {"step", "samples", "digest"};
enum { COLUMNS = 3, POSITION_COLUMN = 1, POSITION = 128 };

static char *cut_table(void) {
    void *text;
    size_t bytes;
    sr_csv *csv;
    sr_csv_table table;
    require(sr_csv_open(scratch_file("t.csv"), columns, COLUMNS, POSITION_COLUMN, POSITION, &csv) ==
            SR_OK);
    sr_csv_close(csv);
    require(sr_csv_read(scratch_file("t.csv"), &table) == SR_OK);
    require(table.columns == COLUMNS && sr_csv_table_column(&table, "digest") == 2);
    for (int64_t r = 0; r < table.rows; r++)
        require(table.values[r * COLUMNS + POSITION_COLUMN] <= POSITION);
    sr_csv_table_release(&table);
    require(sr_file_read(scratch_file("t.csv"), 1 << 24, &text, &bytes) == SR_OK);
    require(strlen(text) == bytes);
    return text;
}

static void fuzz_table(const uint8_t *data, size_t size) {
    sr_csv *csv;
    const char *const row[] = {"5", "128", "a \"quoted\", text"};
    scratch_write("t.csv", data, size);
    char *first = cut_table(), *second = cut_table();
    require(strcmp(first, second) == 0);
    require(sr_csv_open(scratch_file("t.csv"), columns, COLUMNS, POSITION_COLUMN, POSITION, &csv) ==
            SR_OK);
    require(sr_csv_add_text(csv, row) == SR_OK);
    sr_csv_close(csv);
    char *third = cut_table();
    require(strncmp(first, third, strlen(first)) == 0 && strlen(third) > strlen(first));
    sr_free(first);
    sr_free(second);
    sr_free(third);
    (void)unlink(scratch_file("t.csv.old"));
}

#define IDENTITY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// Whatever the contents, the folder is opened as what it is or refused with a message, and is kept.
static void fuzz_judgement(const char *name, const uint8_t *data, size_t size) {
    sr_run_folder *run;
    require(mkdir(scratch_file("run"), 0700) == 0 || errno == EEXIST);
    scratch_write("run/identity", IDENTITY "\n", sizeof IDENTITY);
    scratch_write("run/exit.json", "{}", 2);
    scratch_write(name, data, size);
    const sr_run_options options = {
        .recipe = "fuzz", .folder = scratch_file("run"), .identity = IDENTITY};
    sr_status status = sr_run_folder_open(&options, &run);
    if (status == SR_OK) {
        require(sr_run_folder_resumed(run));
        require(!isnan(sr_run_previous_seconds(run)));
        sr_run_folder_close(run);
    } else {
        require(status == SR_E_USAGE || status == SR_E_DATA || status == SR_E_CHECKSUM);
        require(sr_error_message()[0] != 0);
    }
}

static void fuzz_pack_state(const uint8_t *data, size_t size) {
    const sr_pack_options options = {.shard_bytes = 1};
    sr_source source = {.folder = -1, .format = sr_format_at(0)};
    sr_pack_report report = {0};
    sr_pack_state state;
    void *first, *second;
    require(mkdir(scratch_file("packed"), 0700) == 0 || errno == EEXIST);
    scratch_write("packed/pack.txt", data, size);
    require(sr_pack_state_open(scratch_file("packed"), &state) == SR_OK);
    sr_status status = sr_pack_state_compare(&state, &options, &source, &report);
    require(status == SR_OK || status == SR_E_EXISTS || status == SR_E_LIMIT ||
            status == SR_E_CHECKSUM);
    if (status == SR_OK && state.complete) { // what it contains is written, read and written again
        size_t bytes;
        require(sr_pack_state_finish(&state, &source, &report) == SR_OK);
        require(sr_file_read(scratch_file("packed/pack.txt"), 1 << 20, &first, &bytes) == SR_OK);
        report = (sr_pack_report){0};
        require(sr_pack_state_compare(&state, &options, &source, &report) == SR_OK);
        require(state.complete && sr_pack_state_finish(&state, &source, &report) == SR_OK);
        require(sr_file_read(scratch_file("packed/pack.txt"), 1 << 20, &second, &bytes) == SR_OK);
        require(strcmp(first, second) == 0);
        sr_free(first);
        sr_free(second);
    }
    sr_pack_state_close(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    sr_log_set_level(SR_LOG_ERROR);
    switch (data[0] % 4) {
    case 0:
        fuzz_table(data + 1, size - 1);
        break;
    case 1:
        fuzz_judgement("run/identity", data + 1, size - 1);
        break;
    case 2:
        fuzz_judgement("run/exit.json", data + 1, size - 1);
        break;
    default:
        fuzz_pack_state(data + 1, size - 1);
    }
    return 0;
}
