// SPDX-License-Identifier: Apache-2.0
// Writes event files (event_file.h). Messages are built from the inside out: the length of a
// protobuf message stands before it.
#include "trainer/report/event_file.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"

#define CASTAGNOLI 0x82f63b78u // the polynomial of CRC-32C, bits reversed
#define MASK 0xa282ead8u       // TFRecord adds it to a rotated checksum

// Types of fields on the wire (protobuf, "Encoding").
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

// Numbers of the fields in use.
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION = 7,
    SESSION_STATUS = 1,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_NUMBER = 2,
    VALUE_IMAGE = 4,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
    IMAGE_HEIGHT = 1,
    IMAGE_WIDTH = 2,
    IMAGE_COLORS = 3,
    IMAGE_BYTES = 4,
    METADATA_PLUGIN = 1,
    PLUGIN_NAME = 1,
    PLUGIN_CONTENT = 2,
    TENSOR_TYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_FLOATS = 5,
    SHAPE_DIM = 2,
    DIM_SIZE = 1,
    HPARAMS_SESSION = 3,
    SESSION_SETTING = 1,
    SESSION_START = 5,
    MAP_KEY = 1,
    MAP_VALUE = 2,
    STRUCT_NUMBER = 2,
    STRUCT_STRING = 3,
    STRUCT_BOOL = 4,
};

enum { SESSION_STATUS_START = 1, TENSOR_FLOAT = 1, COLORS_RGB = 3 };

struct sr_event_file {
    int fd;
    char *path;
    uint32_t crc[256]; // of each byte
    bool warned;
};

// ---- Protobuf ----

static void put_varint(sr_text *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        sr_text_add_bytes(out, &(uint8_t){(uint8_t)(value | 0x80)}, 1);
    sr_text_add_bytes(out, &(uint8_t){(uint8_t)value}, 1);
}

static void put_tag(sr_text *out, int field, int wire) {
    put_varint(out, (uint64_t)(field << 3 | wire));
}

static void put_int(sr_text *out, int field, int64_t value) {
    put_tag(out, field, WIRE_VARINT);
    put_varint(out, (uint64_t)value);
}

static void put_double(sr_text *out, int field, double value) {
    put_tag(out, field, WIRE_FIXED64);
    sr_text_add_bytes(out, &value, sizeof value);
}

static void put_float(sr_text *out, int field, float value) {
    put_tag(out, field, WIRE_FIXED32);
    sr_text_add_bytes(out, &value, sizeof value);
}

static void put_bytes(sr_text *out, int field, const void *bytes, size_t count) {
    put_tag(out, field, WIRE_BYTES);
    put_varint(out, count);
    sr_text_add_bytes(out, bytes, count);
}

static void put_string(sr_text *out, int field, const char *text) {
    put_bytes(out, field, text, strlen(text));
}

// Appends a finished message as a field, and empties it for the next one.
static void put_message(sr_text *out, int field, sr_text *message) {
    out->failed = out->failed || message->failed;
    put_bytes(out, field, message->data, message->length);
    sr_text_clear(message);
}

// ---- Records ----

static void fill_crc(uint32_t table[256]) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t c = byte;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? CASTAGNOLI : 0);
        table[byte] = c;
    }
}

static uint32_t masked_crc(const sr_event_file *file, const void *bytes, size_t count) {
    const uint8_t *p = bytes;
    uint32_t c = UINT32_MAX;
    for (size_t i = 0; i < count; i++)
        c = file->crc[(c ^ p[i]) & 0xff] ^ c >> 8;
    c = ~c;
    return (c >> 15 | c << 17) + MASK;
}

static sr_status write_record(const sr_event_file *file, const sr_text *event) {
    const uint64_t length = event->length;
    const uint32_t length_crc = masked_crc(file, &length, sizeof length);
    const uint32_t event_crc = masked_crc(file, event->data, event->length);
    sr_text record;
    SR_TRY(sr_text_check(event));
    sr_text_init(&record);
    sr_text_add_bytes(&record, &length, sizeof length);
    sr_text_add_bytes(&record, &length_crc, sizeof length_crc);
    sr_text_add_bytes(&record, event->data, event->length);
    sr_text_add_bytes(&record, &event_crc, sizeof event_crc);
    sr_status status = sr_text_check(&record);
    if (status == SR_OK) // all of it or nothing: readers stop at half a record
        status = sr_file_add_line(file->fd, file->path, record.data, record.length);
    sr_text_release(&record);
    return status;
}

static double wall_time(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Writes an event whose content is this field, and empties the message.
static sr_status write_event(const sr_event_file *file, int64_t step, int field, sr_text *message) {
    sr_text event;
    sr_text_init(&event);
    put_double(&event, EVENT_WALL_TIME, wall_time());
    put_int(&event, EVENT_STEP, step);
    put_message(&event, field, message);
    const sr_status status = write_record(file, &event);
    sr_text_release(&event);
    return status;
}

static void add_event(sr_event_file *file, int64_t step, int field, sr_text *message) {
    if (write_event(file, step, field, message) == SR_OK || file->warned)
        return;
    file->warned = true;
    SR_WARN("%s; what TensorBoard shows of this run will have gaps", sr_error_message());
}

// ---- The file ----

static sr_status write_head(const sr_event_file *file, int64_t step) {
    sr_text message;
    sr_text_init(&message);
    sr_text_add(&message, "brain.Event:2");
    sr_status status = write_event(file, 0, EVENT_VERSION, &message);
    put_int(&message, SESSION_STATUS, SESSION_STATUS_START);
    if (status == SR_OK)
        status = write_event(file, step, EVENT_SESSION, &message);
    sr_text_release(&message);
    return status;
}

static sr_status open_file(const char *folder, int64_t step, sr_event_file *file) {
    char name[160], host[HOST_NAME_MAX + 1] = "";
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%d.0", (long long)wall_time(),
                   host, (int)getpid());
    file->path = sr_path_join(folder, name);
    if (!file->path)
        return SR_E_MEMORY;
    SR_TRY(sr_file_open_lines(file->path, &file->fd));
    return write_head(file, step);
}

sr_status sr_event_file_create(const char *folder, int64_t step, sr_event_file **out) {
    sr_event_file *file = sr_alloc(sizeof *file, "event file");
    if (!file)
        return SR_E_MEMORY;
    file->fd = -1;
    fill_crc(file->crc);
    const sr_status status = open_file(folder, step, file);
    if (status == SR_OK)
        *out = file;
    else
        sr_event_file_free(file);
    return status;
}

void sr_event_file_free(sr_event_file *file) {
    if (!file)
        return;
    if (file->fd >= 0)
        (void)close(file->fd);
    sr_free(file->path);
    sr_free(file);
}

// ---- Contents ----

void sr_event_file_add_scalars(sr_event_file *file, int64_t step, const char *const *names,
                               const double *values, size_t count) {
    sr_text summary, value;
    if (!file)
        return;
    sr_text_init(&summary);
    sr_text_init(&value);
    for (size_t i = 0; i < count; i++) {
        if (isnan(values[i]))
            continue;
        put_string(&value, VALUE_TAG, names[i]);
        put_float(&value, VALUE_NUMBER, (float)values[i]);
        put_message(&summary, SUMMARY_VALUE, &value);
    }
    if (summary.length > 0 || summary.failed)
        add_event(file, step, EVENT_SUMMARY, &summary);
    sr_text_release(&value);
    sr_text_release(&summary);
}

// Width and height stand big-endian behind the signature and the head of the first chunk (PNG
// specification, 5.2, 11.2.2).
static bool png_size(const uint8_t *bytes, size_t count, uint32_t *width, uint32_t *height) {
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (count < 24 || memcmp(bytes, signature, sizeof signature) != 0)
        return false;
    *width = (uint32_t)bytes[16] << 24 | (uint32_t)bytes[17] << 16 | (uint32_t)bytes[18] << 8 |
             bytes[19];
    *height = (uint32_t)bytes[20] << 24 | (uint32_t)bytes[21] << 16 | (uint32_t)bytes[22] << 8 |
              bytes[23];
    return true;
}

void sr_event_file_add_picture(sr_event_file *file, int64_t step, const char *name,
                               const char *path) {
    enum { MOST = 64 << 20 };
    void *bytes = NULL;
    size_t count = 0;
    uint32_t width = 0, height = 0;
    sr_text summary, value, image;
    if (!file || sr_file_read(path, MOST, &bytes, &count) != SR_OK)
        return; // who drew it has reported why it is missing
    sr_text_init(&summary);
    sr_text_init(&value);
    sr_text_init(&image);
    if (png_size(bytes, count, &width, &height)) {
        put_int(&image, IMAGE_HEIGHT, height);
        put_int(&image, IMAGE_WIDTH, width);
        put_int(&image, IMAGE_COLORS, COLORS_RGB);
        put_bytes(&image, IMAGE_BYTES, bytes, count);
        put_string(&value, VALUE_TAG, name);
        put_message(&value, VALUE_IMAGE, &image);
        put_message(&summary, SUMMARY_VALUE, &value);
        add_event(file, step, EVENT_SUMMARY, &summary);
    }
    sr_free(bytes);
    sr_text_release(&image);
    sr_text_release(&value);
    sr_text_release(&summary);
}

static void put_setting(sr_text *session, const sr_event_setting *s, sr_text *entry,
                        sr_text *value) {
    if (s->type == SR_EVENT_STRING)
        put_string(value, STRUCT_STRING, s->text);
    else if (s->type == SR_EVENT_BOOL)
        put_int(value, STRUCT_BOOL, s->number != 0);
    else
        put_double(value, STRUCT_NUMBER, s->number);
    put_string(entry, MAP_KEY, s->name);
    put_message(entry, MAP_VALUE, value);
    put_message(session, SESSION_SETTING, entry);
}

// The plug-in for hyper-parameters wants a tensor beside its metadata: one zero.
static void put_zero(sr_text *value, sr_text *tensor, sr_text *shape, sr_text *dim) {
    const float zero = 0;
    put_int(dim, DIM_SIZE, 1);
    put_message(shape, SHAPE_DIM, dim);
    put_int(tensor, TENSOR_TYPE, TENSOR_FLOAT);
    put_message(tensor, TENSOR_SHAPE, shape);
    put_bytes(tensor, TENSOR_FLOATS, &zero, sizeof zero);
    put_message(value, VALUE_TENSOR, tensor);
}

void sr_event_file_add_settings(sr_event_file *file, const sr_event_setting *settings,
                                size_t count) {
    enum { SESSION, PLUGIN_DATA, METADATA, VALUE, SUMMARY, INNER, INNERMOST, TEXTS };
    sr_text text[TEXTS];
    if (!file)
        return;
    for (int i = 0; i < TEXTS; i++)
        sr_text_init(&text[i]);
    for (size_t i = 0; i < count; i++)
        put_setting(&text[SESSION], &settings[i], &text[INNER], &text[INNERMOST]);
    put_double(&text[SESSION], SESSION_START, wall_time());
    put_message(&text[INNER], HPARAMS_SESSION, &text[SESSION]);
    put_string(&text[PLUGIN_DATA], PLUGIN_NAME, "hparams");
    put_message(&text[PLUGIN_DATA], PLUGIN_CONTENT, &text[INNER]);
    put_message(&text[METADATA], METADATA_PLUGIN, &text[PLUGIN_DATA]);
    put_string(&text[VALUE], VALUE_TAG, "_hparams_/session_start_info");
    put_message(&text[VALUE], VALUE_METADATA, &text[METADATA]);
    put_zero(&text[VALUE], &text[SESSION], &text[INNER], &text[INNERMOST]);
    put_message(&text[SUMMARY], SUMMARY_VALUE, &text[VALUE]);
    add_event(file, 0, EVENT_SUMMARY, &text[SUMMARY]);
    for (int i = 0; i < TEXTS; i++)
        sr_text_release(&text[i]);
}
