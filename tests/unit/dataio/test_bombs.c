// SPDX-License-Identifier: Apache-2.0
// Small files that claim to be large: JPEG and PNG with enormous sides, endless scans, chunks and
// zstd frames that expand a thousandfold. Each is refused with a reason, or read within the limits
// of decode.h; in a child process, whose memory and processor time are measured.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "dataio/jpeg/decode.h"
#include "dataio/record/zstd_frame.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

typedef struct file {
    uint8_t *data;
    size_t bytes;
} file;

static void add(file *f, const void *data, size_t bytes) {
    f->data = realloc(f->data, f->bytes + bytes);
    if (f->data == NULL)
        abort();
    memcpy(f->data + f->bytes, data, bytes);
    f->bytes += bytes;
}

// -- JPEG --------------------------------------------------------------------------------------

// A grey or RGB JPEG whose header claims the given size, and whose last scan is repeated 'scans'
// times.
static file make_jpeg(const picture_jpeg *options, unsigned width, unsigned height, int scans) {
    size_t bytes, last = 0;
    uint8_t *source = picture_encode(32, 32, 1, options, &bytes);
    for (size_t at = 2; at + 8 < bytes; at++) {
        if (source[at] != 0xff)
            continue;
        if (source[at + 1] == 0xc0 || source[at + 1] == 0xc2) {
            const uint8_t size[] = {(uint8_t)(height >> 8), (uint8_t)height, (uint8_t)(width >> 8),
                                    (uint8_t)width};
            memcpy(source + at + 5, size, sizeof size);
        }
        if (source[at + 1] == 0xda)
            last = at;
    }
    file f = {0};
    add(&f, source, bytes - 2);
    for (int i = 0; i < scans; i++)
        add(&f, source + last, bytes - 2 - last);
    add(&f, "\xff\xd9", 2);
    sr_free(source);
    return f;
}

static file huge_jpeg(void) {
    return make_jpeg(&(picture_jpeg){0}, 65500, 65500, 0);
}

static file wide_jpeg(void) { // within the pixel limit, with nearly all of the data missing
    return make_jpeg(&(picture_jpeg){0}, 40000, 3300, 0);
}

static file hungry_jpeg(void) { // whose coefficients take more memory than libjpeg may use
    return make_jpeg(&(picture_jpeg){.progressive = 1, .subsample = 1}, 40000, 3300, 0);
}

static file many_scans(void) {
    return make_jpeg(&(picture_jpeg){.progressive = 1}, 32, 32, 3000);
}

static file large_scans(void) {
    return make_jpeg(&(picture_jpeg){.color = PICTURE_GREY, .progressive = 1}, 40000, 3300, 150);
}

// -- PNG ---------------------------------------------------------------------------------------

static void add_be32(file *f, uint32_t value) {
    const uint8_t bytes[] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                             (uint8_t)value};
    add(f, bytes, sizeof bytes);
}

static void add_chunk(file *f, const char *type, const file *content) {
    add_be32(f, (uint32_t)content->bytes);
    const size_t begin = f->bytes;
    add(f, type, 4);
    if (content->bytes > 0)
        add(f, content->data, content->bytes);
    add_be32(f, (uint32_t)crc32(0, f->data + begin, (uInt)(f->bytes - begin)));
}

// Appends this many zeros, deflated.
static void add_deflated(file *f, size_t zeros) {
    static uint8_t in[1 << 16], out[1 << 16];
    z_stream z = {0};
    if (deflateInit(&z, 1) != Z_OK)
        abort();
    for (int state = Z_OK; state != Z_STREAM_END;) {
        if (z.avail_in == 0 && zeros > 0) {
            z.next_in = in;
            z.avail_in = (uInt)(zeros < sizeof in ? zeros : sizeof in);
            zeros -= z.avail_in;
        }
        z.next_out = out;
        z.avail_out = sizeof out;
        state = deflate(&z, zeros == 0 ? Z_FINISH : Z_NO_FLUSH);
        add(f, out, sizeof out - z.avail_out);
    }
    (void)deflateEnd(&z);
}

// An RGB PNG with 'profile' zeros in its colour profile and 'zeros' zeros in its pixels.
static file make_png(uint32_t width, uint32_t height, size_t profile, size_t zeros) {
    file f = {0}, header = {0}, pixels = {0}, none = {0}, colours = {0};
    add(&f, "\x89PNG\r\n\x1a\n", 8);
    add_be32(&header, width);
    add_be32(&header, height);
    add(&header, "\x08\x02\0\0\0", 5);
    add_chunk(&f, "IHDR", &header);
    if (profile > 0) {
        add(&colours, "p\0\0", 3);
        add_deflated(&colours, profile);
        add_chunk(&f, "iCCP", &colours);
    }
    add_deflated(&pixels, zeros);
    add_chunk(&f, "IDAT", &pixels);
    add_chunk(&f, "IEND", &none);
    free(header.data);
    free(pixels.data);
    free(colours.data);
    return f;
}

static file huge_png(void) {
    return make_png(1 << 20, 1 << 20, 0, 1 << 16);
}

static file wide_png(void) { // just over the limit, with all of its pixels
    return make_png(12000, 12000, 0, (size_t)64 << 20);
}

static file profile_png(void) {
    return make_png(10, 10, (size_t)70 << 20, 310);
}

static file long_png(void) { // more pixels than the header says
    return make_png(10, 10, 0, (size_t)70 << 20);
}

static file empty_png(void) { // and fewer
    return make_png(4000, 4000, 0, 100);
}

// -- each of them ------------------------------------------------------------------------------

typedef struct bomb {
    const char *what;
    file (*make)(void);
    bool may_pass;
    const char *reason; // in the message that refuses it
    long most_mib;      // peak memory
} bomb;

static const bomb bombs[] = {
    {"a JPEG of 65500 x 65500", huge_jpeg, false, "over the limit of", 64},
    {"a JPEG of which 130 Mpx are missing", wide_jpeg, false, "JPEG: ", 700},
    {"a progressive JPEG of 800 MB", hungry_jpeg, false, "memory", 700},
    {"3000 scans", many_scans, false, "more than 200 scans", 64},
    {"150 scans of 132 Mpx", large_scans, false, "scans of 132000000 pixels", 700},
    {"a PNG of 2^40 pixels", huge_png, false, "over the limit of", 64},
    {"a PNG of 144 Mpx", wide_png, false, "over the limit of", 64},
    {"a colour profile of 70 MiB", profile_png, true, "PNG: ", 200},
    {"a PNG with 70 MiB too many", long_png, true, "PNG: ", 64},
    {"a PNG with 48 MB too few", empty_png, false, "PNG: ", 128},
};

static sr_status decode(const file *f) {
    sr_decoder *decoder;
    int64_t width, height;
    const sr_encoded encoded = {.data = f->data, .bytes = f->bytes};
    SR_TRY(sr_decoder_create(&decoder));
    sr_status status = sr_decoder_open(decoder, &encoded, &width, &height);
    if (status == SR_OK) {
        const sr_region all = {.width = width, .height = height};
        sr_pixels pixels;
        status = sr_decoder_read(decoder, &all, 1, &pixels);
    }
    sr_decoder_free(decoder);
    return status;
}

// Runs in a child: returns 0 if the file is handled as expected.
static int try_bomb(const bomb *b, const file *f) {
    const sr_status status = decode(f);
    if (status == SR_OK)
        return b->may_pass ? 0 : 1;
    if ((status == SR_E_DATA || status == SR_E_LIMIT) && strstr(sr_error_message(), b->reason))
        return 0;
    (void)fprintf(stderr, "%s: %s: %s\n", b->what, sr_status_name(status), sr_error_message());
    return 2;
}

static long peak_mib(const struct rusage *usage) {
    return usage->ru_maxrss >> 10;
}

static void check_bomb(const bomb *b) {
    struct rusage before, usage;
    int status;
    file f = b->make();
    assert_int_equal(0, getrusage(RUSAGE_SELF, &before)); // a child starts with the same peak
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(try_bomb(b, &f));
    assert_int_equal(child, wait4(child, &status, 0, &usage));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s: wait status %d", b->what, status);
    const long mib = peak_mib(&usage) - peak_mib(&before);
    const double seconds = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
    print_message("%-36s %7zu bytes: %4ld MiB, %.2f s\n", b->what, f.bytes, mib, seconds);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (mib > b->most_mib || seconds > 20)
        fail_msg("%s: took %ld MiB and %.1f s", b->what, mib, seconds);
#endif
    free(f.data);
}

static void test_pictures_that_expand(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++)
        check_bomb(&bombs[i]);
}

// Frames are expanded up to the size that the record's shape allows, and not a byte more.
static void test_frames_that_expand(void **state) {
    (void)state;
    enum { REAL = 64 << 20, SAID = 100 };
    sr_zstd zstd = {0};
    uint8_t to[SAID + 16];
    void *zeros = calloc(1, REAL);
    size_t most = ZSTD_compressBound(REAL);
    uint8_t *frame = malloc(most);
    assert_non_null(zeros);
    assert_non_null(frame);
    const size_t bytes = ZSTD_compress(frame, most, zeros, REAL, 1);
    assert_false(ZSTD_isError(bytes));
    assert_true(bytes < REAL / 1000);
    assert_status(SR_E_DATA, sr_zstd_expand(&zstd, frame, bytes, to, SAID));
    assert_message("states a length other than the expected 100 bytes");
    // A false length: a single-segment frame stores it after the magic number and the descriptor.
    const uint64_t stated = ZSTD_getFrameContentSize(frame, bytes);
    assert_int_equal(REAL, stated);
    size_t at = (frame[4] & 0x20) ? 5 : 6;
    memcpy(frame + at, "\x64\0\0\0", 4);
    if (ZSTD_getFrameContentSize(frame, bytes) == SAID) {
        memset(to, 7, sizeof to);
        assert_status(SR_E_DATA, sr_zstd_expand(&zstd, frame, bytes, to, SAID));
        assert_message("zstd");
        for (size_t i = SAID; i < sizeof to; i++)
            assert_int_equal(7, to[i]);
    } else {
        fail_msg("the frame's length is not at the expected offset");
    }
    sr_zstd_release(&zstd);
    free(frame);
    free(zeros);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures_that_expand),
        cmocka_unit_test(test_frames_that_expand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
