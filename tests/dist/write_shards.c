// SPDX-License-Identifier: Apache-2.0
// write_shards DST FILE...: writes a data set of shards whose records contain the files unchanged
// and unchecked; file i has class i % 2. A foreign writer could produce this: valid checksums
// around pictures that packing would have refused. For check_wild_inputs.py.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/record/record.h"
#include "dataio/record/shard.h"
#include "kernels/base/file.h"

static sr_status append(sr_writer *writer, sr_record_writer *record, const char *path, int number) {
    void *data;
    size_t bytes;
    SR_TRY(sr_file_read(path, 1 << 26, &data, &bytes));
    const sr_sample sample = {.data = data,
                              .bytes = bytes,
                              .encoded = true,
                              .height = 32,
                              .width = 32,
                              .channels = 3,
                              .label = number % 2,
                              .orientation = 1,
                              .name = path,
                              .name_bytes = strlen(path)};
    sr_status status = sr_sample_write(record, &sample);
    if (status == SR_OK)
        status = sr_writer_append(writer, record->data, record->bytes);
    sr_free(data);
    return status;
}

static sr_status write_all(const char *folder, char **files, int count) {
    const char *const classes[] = {"even", "odd"};
    sr_record_writer record = {0};
    sr_writer *writer;
    SR_TRY(sr_make_folders(folder));
    SR_TRY(sr_writer_open(&(sr_writer_options){.folder = folder,
                                               .split = "train",
                                               .classes = classes,
                                               .class_count = 2,
                                               .target_bytes = SR_SHARD_TARGET_BYTES},
                          &writer));
    sr_status status = SR_OK;
    for (int i = 0; i < count && status == SR_OK; i++)
        status = append(writer, &record, files[i], i);
    sr_record_writer_release(&record);
    if (status == SR_OK)
        return sr_writer_close(writer);
    sr_writer_abort(writer);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        (void)fputs("usage: write_shards DST FILE...\n", stderr);
        return 2;
    }
    sr_status status = write_all(argv[1], argv + 2, argc - 2);
    if (status != SR_OK)
        (void)fprintf(stderr, "%s\n", sr_error_message());
    return sr_status_exit_code(status);
}
