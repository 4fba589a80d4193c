// SPDX-License-Identifier: Apache-2.0
// safetensors: round trip, the official layout as read by another reader (python3's standard
// library), crafted bad files, and every single-bit flip of a header.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "tests/unit/support/test_support.h"
#include "trainer/checkpoint/file_sums.h"
#include "trainer/checkpoint/safetensors.h"

static char folder[] = "/tmp/serried-safetensors-XXXXXX";
static char path[128];

static const float weight[6] = {1.0f, -2.5f, 3.25f, 0.0f, 1e-30f, 7.0f};
static const float bias[3] = {0.5f, 0.25f, 0.125f};
static const int64_t tracked = 1234567890123;
static const uint8_t mask[5] = {1, 2, 3, 4, 255};

static const sr_stored_tensor tensors[] = {
    {.name = "mask", .dtype = SR_U8, .rank = 1, .shape = {5}, .data = mask},
    {.name = "conv1.weight", .dtype = SR_F32, .rank = 2, .shape = {2, 3}, .data = weight},
    {.name = "conv1.bias", .dtype = SR_F32, .rank = 1, .shape = {3}, .data = bias},
    {.name = "bn1.num_batches_tracked", .dtype = SR_I64, .rank = 0, .data = &tracked},
    {.name = "nothing", .dtype = SR_F32, .rank = 2, .shape = {0, 4}, .data = weight},
};
enum { TENSORS = sizeof tensors / sizeof *tensors };
static const sr_metadata metadata[] = {{"serried.classes", "[\"cat\",\"d\\\"og\"]"}};

static int set_up(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void check_contents(void) {
    sr_safetensors *file;
    float values[6];
    assert_int_equal(sr_safetensors_open(path, &file), SR_OK);
    assert_int_equal(sr_safetensors_count(file), TENSORS);
    assert_int_equal(sr_safetensors_data_offset(file) % 8, 0);
    assert_string_equal(sr_safetensors_metadata(file, "format"), "pt");
    assert_string_equal(sr_safetensors_metadata(file, "serried.classes"), metadata[0].value);
    assert_null(sr_safetensors_metadata(file, "none"));
    for (int i = 0; i < TENSORS; ++i) {
        const sr_stored_tensor *tensor = sr_safetensors_find(file, tensors[i].name);
        assert_non_null(tensor);
        assert_int_equal(tensor->dtype, tensors[i].dtype);
        assert_int_equal(tensor->rank, tensors[i].rank);
        assert_memory_equal(tensor->shape, tensors[i].shape, sizeof tensor->shape);
        assert_int_equal(tensor->begin % sr_dtype_size(tensor->dtype), 0);
        int64_t n = sr_stored_elements(tensor);
        uint8_t bytes[64];
        assert_int_equal(sr_safetensors_read(file, tensor, 0, n, bytes), SR_OK);
        assert_memory_equal(bytes, tensors[i].data, (size_t)n * sr_dtype_size(tensor->dtype));
    }
    const sr_stored_tensor *w = sr_safetensors_find(file, "conv1.weight");
    assert_int_equal(sr_safetensors_read(file, w, 2, 3, values), SR_OK);
    assert_memory_equal(values, weight + 2, 12);
    assert_int_equal(sr_safetensors_read(file, w, 4, 3, values), SR_E_ARGUMENT);
    assert_null(sr_safetensors_find(file, "conv1"));
    sr_safetensors_free(file);
}

static void round_trip(void **state) {
    (void)state;
    sr_file_sums sums;
    assert_int_equal(sr_safetensors_write(path, tensors, TENSORS, metadata, 1, &sums), SR_OK);
    check_contents();
    assert_int_equal(sr_file_sums_check(path, &sums, NULL), SR_OK);
    sr_file_sums_release(&sums);
}

// Larger than several chunks, put in odd pieces: what is read back and the checksums are right.
static void streams_large_tensors(void **state) {
    (void)state;
    enum { N = 700001 };
    sr_stored_tensor big[] = {{.name = "b", .dtype = SR_F32, .rank = 1, .shape = {N}},
                              {.name = "a", .dtype = SR_F32, .rank = 1, .shape = {N}}};
    uint32_t *data = sr_alloc_array(N, 4, "test"), *back = sr_alloc_array(N, 4, "test");
    sr_safetensors_writer *writer;
    sr_safetensors *file;
    sr_file_sums sums;
    for (uint32_t i = 0; i < N; ++i)
        data[i] = i * 2654435761u;
    assert_int_equal(sr_safetensors_create(path, big, 2, NULL, 0, &writer), SR_OK);
    assert_int_equal(sr_safetensors_order(writer, 0), 1); // "a" first
    assert_int_equal(sr_safetensors_commit(writer, NULL), SR_E_ARGUMENT);
    for (int k = 0; k < 2; ++k) {
        for (uint64_t at = 0; at < (uint64_t)N * 4;) {
            uint64_t left = (uint64_t)N * 4 - at, piece = 99991 < left ? 99991 : left;
            assert_int_equal(sr_safetensors_put(writer, (const char *)data + at, piece), SR_OK);
            at += piece;
        }
    }
    assert_int_equal(sr_safetensors_put(writer, data, 1), SR_E_ARGUMENT);
    assert_int_equal(sr_safetensors_commit(writer, &sums), SR_OK);
    sr_safetensors_writer_free(writer);
    assert_int_equal(sums.count, 6);
    assert_int_equal(sr_file_sums_check(path, &sums, NULL), SR_OK);
    assert_int_equal(sr_safetensors_open(path, &file), SR_OK);
    assert_int_equal(sr_safetensors_read(file, sr_safetensors_find(file, "b"), 0, N, back), SR_OK);
    assert_memory_equal(back, data, (size_t)N * 4);
    sr_safetensors_free(file);
    // One changed byte in the fourth chunk is detected there.
    int fd = open(path, O_RDWR);
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, 3500000), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, 3500000), 1);
    close(fd);
    sr_file_damage damage;
    assert_int_equal(sr_file_sums_check(path, &sums, &damage), SR_E_CHECKSUM);
    assert_int_equal(damage.chunks, 1);
    assert_int_equal(damage.begin, 3 << 20);
    assert_non_null(strstr(sr_error_message(), path));
    sr_file_sums_release(&sums);
    sr_free(back);
    sr_free(data);
}

// An independent reader, written only from the specification of the format.
static void python_reads_it(void **state) {
    (void)state;
    static const char script[] =
        "import json,struct,sys\n"
        "b=open(sys.argv[1],'rb').read()\n"
        "n=struct.unpack('<Q',b[:8])[0]\n"
        "h=json.loads(b[8:8+n].decode('utf-8'))\n"
        "m=h.pop('__metadata__')\n"
        "assert m['format']=='pt' and json.loads(m['serried.classes'])==['cat','d\"og'],m\n"
        "d=b[8+n:]\n"
        "assert (8+n)%8==0\n"
        "spans=sorted(tuple(t['data_offsets']) for t in h.values())\n"
        "assert spans[0][0]==0 and spans[-1][1]==len(d)\n"
        "assert all(x[1]==y[0] for x,y in zip(spans,spans[1:]))\n"
        "def get(k,f):\n"
        " t=h[k];s,e=t['data_offsets'];return "
        "t['dtype'],t['shape'],list(struct.unpack('<'+f,d[s:e]))\n"
        "assert get('bn1.num_batches_tracked','q')==('I64',[],[1234567890123])\n"
        "assert get('conv1.bias','3f')==('F32',[3],[0.5,0.25,0.125])\n"
        "assert get('conv1.weight','6f')[2][:3]==[1.0,-2.5,3.25]\n"
        "assert get('mask','5B')==('U8',[5],[1,2,3,4,255])\n"
        "assert get('nothing','')==('F32',[0,4],[])\n";
    if (access("/usr/bin/python3", X_OK) != 0)
        test_skip("/usr/bin/python3 does not exist");
    assert_int_equal(sr_safetensors_write(path, tensors, TENSORS, metadata, 1, NULL), SR_OK);
    pid_t child = fork();
    if (child == 0) {
        execl("/usr/bin/python3", "python3", "-c", script, path, (char *)NULL);
        _exit(127);
    }
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 0);
}

static void refuses_bad_writes(void **state) {
    (void)state;
    sr_stored_tensor same[] = {tensors[1], tensors[1]}, bad = tensors[1];
    unlink(path);
    assert_int_equal(sr_safetensors_write(path, same, 2, NULL, 0, NULL), SR_E_ARGUMENT);
    bad.shape[0] = -1;
    assert_int_equal(sr_safetensors_write(path, &bad, 1, NULL, 0, NULL), SR_E_ARGUMENT);
    bad.shape[0] = INT64_MAX;
    bad.shape[1] = 8;
    assert_int_equal(sr_safetensors_write(path, &bad, 1, NULL, 0, NULL), SR_E_ARGUMENT);
    bad = tensors[1];
    bad.name = "__metadata__";
    assert_int_equal(sr_safetensors_write(path, &bad, 1, NULL, 0, NULL), SR_E_ARGUMENT);
    assert_false(sr_path_exists(path));
}

static void write_crafted(uint64_t header_bytes, const char *header, size_t data_bytes) {
    uint8_t prefix[8];
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (unsigned k = 0; k < 8; ++k)
        prefix[k] = (uint8_t)(header_bytes >> (8 * k));
    assert_int_equal(fwrite(prefix, 1, 8, file), 8);
    assert_true(fputs(header, file) >= 0);
    for (size_t i = 0; i < data_bytes; ++i)
        assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
}

static void refuses_crafted_files(void **state) {
    (void)state;
#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
    static const struct {
        const char *header;
        size_t data;
        sr_status status;
        const char *word; // in the message
    } cases[] = {
        {"{" T("a", "F32", "[2]", "[0,8]") "}", 8, SR_OK, ""},
        {"{" T("a", "F32", "[2]", "[0,8]") "}  ", 8, SR_OK, ""},
        {"{}", 0, SR_OK, ""},
        {" {" T("a", "F32", "[2]", "[0,8]") "}", 8, SR_E_DATA, "byte 8"},
        {"{" T("a", "F32", "[2]", "[0,8]") "}", 9, SR_E_DATA, "file at"},
        {"{" T("a", "F32", "[2]", "[0,8]") "}", 7, SR_E_DATA, "'a'"},
        {"{" T("a", "F32", "[3]", "[0,8]") "}", 8, SR_E_DATA, "needs 12"},
        {"{" T("a", "F32", "[2]", "[8,0]") "}", 8, SR_E_DATA, "'a'"},
        {"{" T("a", "F32", "[2]", "[1,9]") "}", 9, SR_E_DATA, "starts at"},
        {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[4,12]") "}", 12, SR_E_DATA,
         "'b'"},
        {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[9,17]") "}", 17, SR_E_DATA,
         "'b'"},
        {"{" T("a", "F32", "[2]", "[0,8]") "," T("a", "F32", "[2]", "[8,16]") "}", 16, SR_E_DATA,
         "duplicate key"},
        {"{" T("a", "F32", "[-2]", "[0,8]") "}", 8, SR_E_DATA, "dimension"},
        {"{" T("a", "F32", "[2.0]", "[0,8]") "}", 8, SR_E_DATA, "dimension"},
        {"{" T("a", "F32", "[4294967296,4294967296]", "[0,8]") "}", 8, SR_E_DATA, "overflows"},
        {"{" T("a", "F64", "[2305843009213693952]", "[0,0]") "}", 0, SR_E_DATA, "overflows"},
        {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", 8, SR_E_DATA, "dimensions"},
        {"{" T("a", "F8_E4M3", "[8]", "[0,8]") "}", 8, SR_E_UNSUPPORTED, "F8_E4M3"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, SR_E_DATA, "'a'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"z\":1}}", 8, SR_E_DATA,
         "exactly"},
        {"{\"a\":[1]}", 0, SR_E_DATA, "'a'"},
        {"{\"__metadata__\":{\"k\":1}}", 0, SR_E_DATA, "metadata"},
        {"{\"__metadata__\":3}", 0, SR_E_DATA, "__metadata__"},
        {"{" T("", "F32", "[2]", "[0,8]") "}", 8, SR_E_DATA, "tensor ''"},
        {"{" T("a", "F32", "[2]", "[0,18446744073709551616]") "}", 8, SR_E_DATA, "'a'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        sr_safetensors *file = NULL;
        write_crafted(strlen(cases[i].header), cases[i].header, cases[i].data);
        sr_status status = sr_safetensors_open(path, &file);
        if (status != cases[i].status)
            fail_msg("case %zu: %s: %s", i, sr_status_name(status), sr_error_message());
        if (status != SR_OK && (strstr(sr_error_message(), cases[i].word) == NULL ||
                                strstr(sr_error_message(), path) == NULL))
            fail_msg("case %zu: '%s' lacks '%s'", i, sr_error_message(), cases[i].word);
        sr_safetensors_free(file);
    }
}

static void refuses_bad_lengths(void **state) {
    (void)state;
    sr_safetensors *file;
    write_crafted(UINT64_MAX, "{}", 0);
    assert_int_equal(sr_safetensors_open(path, &file), SR_E_DATA);
    write_crafted(100000001, "{}", 0);
    assert_int_equal(sr_safetensors_open(path, &file), SR_E_DATA);
    assert_non_null(strstr(sr_error_message(), "100 MB"));
    write_crafted(3, "{}", 0);
    assert_int_equal(sr_safetensors_open(path, &file), SR_E_DATA);
    assert_non_null(strstr(sr_error_message(), "truncated"));
    write_crafted(0, "", 0);
    assert_int_equal(sr_safetensors_open(path, &file), SR_E_DATA);
    assert_int_equal(truncate(path, 5), 0);
    assert_int_equal(sr_safetensors_open(path, &file), SR_E_DATA);
    unlink(path);
    assert_int_equal(sr_safetensors_open(path, &file), SR_E_NOT_FOUND);
    assert_int_equal(sr_safetensors_open(folder, &file), SR_E_DATA);
}

static void limits_the_number_of_tensors(void **state) {
    (void)state;
    sr_safetensors *file;
    for (int n = SR_SAFETENSORS_MAX_TENSORS; n <= SR_SAFETENSORS_MAX_TENSORS + 1; ++n) {
        sr_text text;
        sr_text_init(&text);
        for (int i = 0; i < n; ++i)
            sr_text_add(&text, "%c\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                        i == 0 ? '{' : ',', i);
        sr_text_add(&text, "}");
        assert_int_equal(sr_text_check(&text), SR_OK);
        write_crafted(text.length, text.data, 0);
        sr_status status = sr_safetensors_open(path, &file);
        assert_int_equal(status, n <= SR_SAFETENSORS_MAX_TENSORS ? SR_OK : SR_E_LIMIT);
        if (status == SR_OK)
            sr_safetensors_free(file);
        sr_text_release(&text);
    }
}

// Any flipped header bit, any truncation: never a crash, never a read out of bounds, and what still
// opens conforms to the format.
static void survives_flips_and_truncations(void **state) {
    (void)state;
    void *bytes;
    size_t n;
    char other[160];
    sr_safetensors *file;
    assert_int_equal(sr_safetensors_write(path, tensors, TENSORS, metadata, 1, NULL), SR_OK);
    assert_int_equal(sr_file_read(path, 1 << 20, &bytes, &n), SR_OK);
    snprintf(other, sizeof other, "%s/b.safetensors", folder);
    int fd = open(other, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    for (size_t bit = 0; bit < 8 * (n - 53); ++bit) {
        uint8_t was = ((uint8_t *)bytes)[bit / 8], flipped = (uint8_t)(was ^ (1u << (bit % 8)));
        assert_int_equal(pwrite(fd, &flipped, 1, (off_t)(bit / 8)), 1);
        if (sr_safetensors_open(other, &file) == SR_OK) {
            uint8_t out[64];
            for (int i = 0; i < sr_safetensors_count(file); ++i) {
                const sr_stored_tensor *t = sr_safetensors_get(file, i);
                assert_true(t->end - t->begin <= sizeof out);
                assert_int_equal(sr_safetensors_read(file, t, 0, sr_stored_elements(t), out),
                                 SR_OK);
            }
            sr_safetensors_free(file);
        }
        assert_int_equal(pwrite(fd, &was, 1, (off_t)(bit / 8)), 1);
    }
    for (size_t length = n; length-- > 0;) {
        assert_int_equal(ftruncate(fd, (off_t)length), 0);
        assert_int_not_equal(sr_safetensors_open(other, &file), SR_OK);
    }
    close(fd);
    unlink(other);
    sr_free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(streams_large_tensors),
        cmocka_unit_test(python_reads_it),
        cmocka_unit_test(refuses_bad_writes),
        cmocka_unit_test(refuses_crafted_files),
        cmocka_unit_test(refuses_bad_lengths),
        cmocka_unit_test(limits_the_number_of_tensors),
        cmocka_unit_test(survives_flips_and_truncations),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
