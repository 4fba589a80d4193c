// SPDX-License-Identifier: Apache-2.0
// serried doctor: checks the machine, starts two ranks, and decodes pictures for a second.
//
// Exit code 0 if training can work, 1 if something must be repaired first.
#include <argp.h>
#include <stdio.h>
// jpeglib.h needs stdio.h before it.
#include <jpeglib.h>
#include <stdlib.h>
#include <unistd.h>

#include "dataio/jpeg/decode.h"
#include "kernels/base/clock.h"
#include "kernels/base/rng.h"
#include "launcher/commands/command.h"
#include "launcher/commands/doctor_internal.h"
#include "launcher/commands/library_list_internal.h"
#include "trainer/recipe/recipe.h"

// ---- decoding -----------------------------------------------------------------------------------

enum { KEY_JSON = 0x100, WIDTH = 500, HEIGHT = 375 };

// A row of a picture about as expensive to decode as a photograph: slow waves and some noise.
static void fill_row(uint8_t *row, int y, sr_rng *rng) {
    for (int x = 0; x < WIDTH; x++, row += 3) {
        int wave = (x * x / 90 + y * 3) & 255, noise = (int)sr_rng_below(rng, 24);
        row[0] = (uint8_t)((wave > 127 ? 255 - wave : wave) + noise);
        row[1] = (uint8_t)(y * 200 / HEIGHT + noise);
        row[2] = (uint8_t)(x * 200 / WIDTH + noise);
    }
}

static void encode(unsigned char **data, unsigned long *bytes) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    uint8_t row[3 * WIDTH];
    JSAMPROW rows[1] = {row};
    sr_rng rng;
    sr_rng_init(&rng, 1, 2, 3, 4);
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, data, bytes);
    jpeg.image_width = WIDTH;
    jpeg.image_height = HEIGHT;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 90, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < HEIGHT; y++) {
        fill_row(row, y, &rng);
        (void)jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
}

static sr_status decode_for_a_second(const sr_encoded *picture, double *per_second) {
    sr_decoder *decoder = NULL;
    SR_TRY(sr_decoder_create(&decoder));
    const sr_region whole = {0, 0, WIDTH, HEIGHT};
    int64_t begin = sr_clock_ns(), now = begin, count = 0, width, height;
    sr_status status = SR_OK;
    for (; status == SR_OK && now - begin < SR_NS_PER_S; now = sr_clock_ns(), count++) {
        sr_pixels pixels;
        status = sr_decoder_open(decoder, picture, &width, &height);
        if (status == SR_OK)
            status = sr_decoder_read(decoder, &whole, 1, &pixels);
    }
    *per_second = (double)count * (double)SR_NS_PER_S / (double)(now - begin);
    sr_decoder_free(decoder);
    return status;
}

static void check_decoding(sr_findings *f) {
    unsigned char *data = NULL;
    unsigned long bytes = 0;
    double rate = 0;
    encode(&data, &bytes);
    const sr_encoded picture = {.data = data, .bytes = bytes};
    if (decode_for_a_second(&picture, &rate) != SR_OK)
        sr_findings_add(f, SR_FINDING_BAD, "decoding", "%s", sr_error_message());
    else
        sr_findings_add(f, SR_FINDING_OK, "decoding",
                        "%.0f pictures of %dx%d per second on one core", rate, WIDTH, HEIGHT)
            ->images_per_s = rate;
    free(data);
}

// ---- the report ---------------------------------------------------------------------------------

static void check_recipes(sr_findings *f) {
    sr_arena arena;
    sr_arena_init(&arena);
    sr_recipe_listing *items;
    int count = 0;
    if (sr_recipe_list(&arena, &items, &count) == SR_OK && count > 0)
        sr_findings_add(f, SR_FINDING_OK, "recipes", "%d shipped", count);
    else
        sr_findings_add(f, SR_FINDING_BAD, "recipes",
                        "none found; check SERRIED_RECIPES, or install serried again");
    sr_arena_release(&arena);
}

static const char *const states[] = {"ok", "note", "warn", "bad"};

static void print_text(const sr_findings *f) {
    static const char *const colors[] = {"32", "36", "33", "31"};
    const char *no_color = getenv("NO_COLOR");
    bool color = isatty(STDOUT_FILENO) && (!no_color || !*no_color);
    for (int i = 0; i < f->count; i++) {
        const sr_finding *item = &f->item[i];
        if (color)
            printf("\033[%sm%-4s\033[0m  %-14s %s\n", colors[item->state], states[item->state],
                   item->name, item->text);
        else
            printf("%-4s  %-14s %s\n", states[item->state], item->name, item->text);
    }
}

static int print_json(const sr_findings *f, bool ok) {
    sr_text out;
    sr_text_init(&out);
    sr_text_add(&out, "{\"ok\": %s, \"version\": \"%s\", \"checks\": [", ok ? "true" : "false",
                SR_VERSION);
    for (int i = 0; i < f->count; i++) {
        const sr_finding *item = &f->item[i];
        sr_text_add(&out, "%s\n  {\"name\": ", i > 0 ? "," : "");
        sr_text_add_json_string(&out, item->name);
        sr_text_add(&out, ", \"state\": \"%s\", \"text\": ", states[item->state]);
        sr_text_add_json_string(&out, item->text);
        if (item->images_per_s > 0) {
            sr_text_add(&out, ", \"images_per_s\": ");
            sr_text_add_json_number(&out, item->images_per_s);
        }
        sr_text_add(&out, "}");
    }
    sr_text_add(&out, "\n]}\n");
    const sr_status status = sr_command_print(SR_OK, &out);
    return status == SR_OK ? 0 : sr_command_fail(status);
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    bool *json = state->input;
    (void)value;
    if (key == KEY_JSON)
        *json = true;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "doctor takes no arguments");
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

int sr_cmd_doctor(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"json", KEY_JSON, NULL, 0, "print the findings as JSON", 0}, {0}};
    static const struct argp parser = {
        options,
        parse_option,
        NULL,
        "Check that this machine is ready to train: libraries, processor, memory, limits, two "
        "ranks under mpirun, and the speed of decoding. Exit code: 0 if it is ready, 1 if not.",
        NULL,
        NULL,
        NULL};
    bool json = false, ok = true;
    if (argp_parse(&parser, argc, argv, 0, NULL, &json) != 0)
        return 2;
    sr_findings *findings = sr_alloc(sizeof *findings, "the doctor's findings");
    if (!findings)
        return sr_command_fail(SR_E_MEMORY);
    size_t count;
    char text[SR_LIBRARY_TEXT];
    const sr_library *libraries = sr_libraries(&count);
    sr_findings_add(findings, SR_FINDING_OK, "serried", "%s", SR_VERSION);
    for (size_t i = 0; i < count; i++)
        sr_findings_add(findings, SR_FINDING_OK, libraries[i].name, "%s",
                        libraries[i].version(text));
    sr_doctor_check_machine(findings);
    check_recipes(findings);
    sr_doctor_check_ranks(findings);
    check_decoding(findings);
    for (int i = 0; i < findings->count; i++)
        ok = ok && findings->item[i].state != SR_FINDING_BAD;
    int code = 0;
    if (json)
        code = print_json(findings, ok);
    else
        print_text(findings);
    sr_free(findings);
    return code != 0 ? code : ok ? 0 : 1;
}
