// SPDX-License-Identifier: Apache-2.0
// CSV files: cells, and which rows are kept when a run resumes.
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "trainer/report/csv_file.h"

static char folder[] = "/tmp/serried-csv-XXXXXX";
static char path[64], old_path[80];
static const char *const columns[] = {"samples", "loss", "note"};

static int set_up(void **state) {
    (void)state;
    sr_log_set_level(SR_LOG_ERROR);
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/m.csv", folder);
    snprintf(old_path, sizeof old_path, "%s.old", path);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    unlink(old_path);
    return rmdir(folder);
}

static void assert_contents(const char *want) {
    void *text;
    size_t bytes;
    assert_int_equal(sr_file_read(path, 1 << 20, &text, &bytes), SR_OK);
    assert_string_equal(text, want);
    sr_free(text);
}

static void put(const char *text) {
    assert_int_equal(sr_file_write_atomic(path, text, strlen(text)), SR_OK);
}

static void writes_cells(void **state) {
    (void)state;
    sr_csv *csv;
    assert_int_equal(sr_csv_open(path, columns, 3, 0, -1, &csv), SR_OK);
    assert_int_equal(sr_csv_add_numbers(csv, (double[]){1000000, 0.1, (double)NAN}), SR_OK);
    assert_int_equal(sr_csv_add_text(csv, (const char *[]){"2", NULL, "a,\"b\""}), SR_OK);
    assert_int_equal(sr_csv_add_numbers(csv, (double[]){3, (double)INFINITY, -2}), SR_OK);
    assert_int_equal(sr_csv_sync(csv), SR_OK);
    sr_csv_close(csv);
    assert_contents("samples,loss,note\n1000000,0.1,\n2,,\"a,\"\"b\"\"\"\n3,inf,-2\n");
    sr_csv_table table;
    assert_int_equal(sr_csv_read(path, &table), SR_OK);
    assert_int_equal(table.rows, 3);
    assert_int_equal(sr_csv_table_column(&table, "loss"), 1);
    assert_int_equal(sr_csv_table_column(&table, "none"), -1);
    assert_true(table.values[0] == 1000000 && table.values[1] == 0.1 && isnan(table.values[2]));
    assert_true(table.values[3] == 2 && isnan(table.values[4]) && isnan(table.values[5]));
    assert_true(isinf(table.values[7]) && table.values[8] == -2);
    sr_csv_table_release(&table);
}

static void resume_drops_later_rows(void **state) {
    (void)state;
    sr_csv *csv;
    put("samples,loss,note\n64,1.5,x\n128,1.25,\"y,z\"\n192,1,\n256,0.5,\n320,0.2");
    assert_int_equal(sr_csv_open(path, columns, 3, 0, 128, &csv), SR_OK);
    assert_int_equal(sr_csv_add_numbers(csv, (double[]){192, 9, 9}), SR_OK);
    sr_csv_close(csv);
    assert_contents("samples,loss,note\n64,1.5,x\n128,1.25,\"y,z\"\n192,9,9\n");
    // No rows after the position: nothing changes.
    assert_int_equal(sr_csv_open(path, columns, 3, 0, 1000, &csv), SR_OK);
    sr_csv_close(csv);
    assert_contents("samples,loss,note\n64,1.5,x\n128,1.25,\"y,z\"\n192,9,9\n");
    // A torn last line is removed even if its position would be kept.
    put("samples,loss,note\n64,1.5,x\n128,1.2");
    assert_int_equal(sr_csv_open(path, columns, 3, 0, 1000, &csv), SR_OK);
    sr_csv_close(csv);
    assert_contents("samples,loss,note\n64,1.5,x\n");
    // From the start: only the header is kept.
    assert_int_equal(sr_csv_open(path, columns, 3, 0, -1, &csv), SR_OK);
    sr_csv_close(csv);
    assert_contents("samples,loss,note\n");
}

static void other_columns_are_set_aside(void **state) {
    (void)state;
    sr_csv *csv;
    put("samples,other\n64,1.5\n");
    assert_int_equal(sr_csv_open(path, columns, 3, 0, 100, &csv), SR_OK);
    sr_csv_close(csv);
    assert_contents("samples,loss,note\n");
    assert_true(sr_path_exists(old_path));
}

// Rows that cannot be written for lack of space are kept, also torn ones, and written later; a
// checkpoint cannot wait.
static void rows_wait_for_room(void **state) {
    (void)state;
    struct rlimit limit;
    sr_csv *csv;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t all = limit.rlim_cur;
    assert_int_equal(sr_csv_open(path, columns, 3, 0, -1, &csv), SR_OK);
    limit.rlim_cur = 25; // in the middle of the first row
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    sr_status first = sr_csv_add_numbers(csv, (double[]){64, 1234567, 1});
    sr_status second = sr_csv_add_numbers(csv, (double[]){128, 1, 2});
    sr_status synced = sr_csv_sync(csv);
    limit.rlim_cur = all;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(first, SR_OK);
    assert_int_equal(second, SR_OK);
    assert_int_equal(synced, SR_E_IO);
    assert_non_null(strstr(sr_error_message(), path));
    assert_int_equal(sr_csv_add_numbers(csv, (double[]){192, 0.5, 3}), SR_OK);
    assert_int_equal(sr_csv_sync(csv), SR_OK);
    sr_csv_close(csv);
    assert_contents("samples,loss,note\n64,1234567,1\n128,1,2\n192,0.5,3\n");
}

static void refuses_broken_files(void **state) {
    (void)state;
    sr_csv_table table;
    put("");
    assert_int_equal(sr_csv_read(path, &table), SR_E_DATA);
    put("a,b\n1,2\n3\n4,5\n");
    assert_int_equal(sr_csv_read(path, &table), SR_E_DATA);
    assert_non_null(strstr(sr_error_message(), "m.csv:3"));
    put("a,b\n\"1,2\n3,4\n"); // an unterminated quote spoils only its own line
    assert_int_equal(sr_csv_read(path, &table), SR_E_DATA);
    assert_non_null(strstr(sr_error_message(), "m.csv:2"));
    put("a,b\n1,2,3\n");
    assert_int_equal(sr_csv_read(path, &table), SR_E_DATA);
}

int main(void) {
    (void)signal(SIGXFSZ, SIG_IGN); // a write beyond the limit then fails with EFBIG
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_cells),
        cmocka_unit_test(resume_drops_later_rows),
        cmocka_unit_test(other_columns_are_set_aside),
        cmocka_unit_test(refuses_broken_files),
        cmocka_unit_test(rows_wait_for_room),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
