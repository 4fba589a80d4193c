// SPDX-License-Identifier: Apache-2.0
// serried pack SRC DST: a folder or tar of pictures into a data set of shards.
//
// Exit 0; 2: usage, or DST holds something else; 3: damaged source, or more files refused than
// allowed (everything else is packed then); 1: disk full and other failures of the machine.
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "dataio/pack.h"
#include "kernels/base/text.h"
#include "launcher/command.h"

enum { KEY_VAL = 0x100, KEY_SIZE, KEY_QUALITY, KEY_RAW, KEY_INDEX, KEY_FORMAT, KEY_REFUSED };

static const struct argp_option options[] = {
    {"val-fraction", KEY_VAL, "F", 0,
     "without a val split: hold out the last F of every class, in byte order of names", 0},
    {"max-size", KEY_SIZE, "PX", 0, "shrink pictures whose shorter side is longer", 0},
    {"quality", KEY_QUALITY, "Q", 0, "JPEG quality of shrunk pictures, 1..100 (default: 90)", 0},
    {"raw", KEY_RAW, NULL, 0,
     "store pixels instead of JPEG: several times as large and as fast to read", 0},
    {"row-index", KEY_INDEX, "N", 0,
     "parts of each row of a JPEG that can be decoded alone, 0 (no index) to 64 (default: 1)", 0},
    {"format", KEY_FORMAT, "NAME", 0,
     "shards, kpl-dir (a KPLRecord directory for each split) or lmdb (default: shards)", 0},
    {"allow-refused", KEY_REFUSED, "N", 0, "end with 0 although up to N files were refused", 0},
    {"workers", 'j', "N", 0, "threads (default: one per core)", 0},
    {0}};

static const char about[] =
    "Packs a folder CLASS/picture or {train,val,test}/CLASS/picture, or a tar of one (also "
    "compressed, also a tar of one tar per class), into DST. JPEG and PNG, told by content; pixels "
    "do not change unless --max-size is given.\v"
    "Damaged files are refused and named in DST/refused.csv; everything else is packed. The result "
    "is the same for any number of workers. A killed pack is finished by the same command.";

static double parse_fraction(struct argp_state *state, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(value >= 0 && value < 1))
        argp_error(state, "'%s' is not a fraction, 0 <= F < 1", text);
    return value;
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    sr_pack_options *o = state->input;
    switch (key) {
    case KEY_VAL:
        o->val_fraction = parse_fraction(state, value);
        break;
    case KEY_SIZE:
        o->max_side = sr_command_number(state, "--max-size", value, 1, 65535);
        break;
    case KEY_QUALITY:
        o->quality = (int)sr_command_number(state, "--quality", value, 1, 100);
        break;
    case KEY_RAW:
        o->raw = true;
        break;
    case KEY_INDEX:
        o->segments =
            (int)sr_command_number(state, "--row-index", value, 0, SR_PICTURE_MAX_SEGMENTS);
        if (o->segments == 0)
            o->segments = SR_PICTURE_NO_INDEX;
        break;
    case KEY_FORMAT:
        o->format = value;
        break;
    case KEY_REFUSED:
        o->allow_refused = sr_command_number(state, "--allow-refused", value, 0, 1L << 40);
        break;
    case 'j':
        o->workers = (int)sr_command_number(state, "--workers", value, 1, 1024);
        break;
    case ARGP_KEY_ARG:
        if (o->destination != NULL)
            argp_error(state, "SRC and DST, and no more");
        if (o->source == NULL)
            o->source = value;
        else
            o->destination = value;
        break;
    case ARGP_KEY_END:
        if (o->destination == NULL)
            argp_error(state, "SRC and DST are needed");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void print_notes(const sr_pack_options *o, const sr_pack_report *r, bool failed) {
    if (o->val_fraction > 0 && r->val_existed)
        fputs("note: the source has a val split of its own; --val-fraction was not needed\n",
              stderr);
    if (o->val_fraction > 0 && !r->val_existed && r->records[SR_SPLIT_VAL] == 0)
        fputs("note: every class is too small for --val-fraction; there is no val split\n", stderr);
    if (r->classes == 1)
        fputs("note: all pictures are of one class; is every class a folder of its own?\n", stderr);
    if (r->unlabelled > 0)
        fprintf(stderr, "note: %" PRId64 " pictures of test lie in no class folder: left out\n",
                r->unlabelled);
    if (r->refused > 0 && !failed) // a failure says it by itself
        fprintf(stderr, "note: %" PRId64 " file%s refused: see %s/refused.csv\n", r->refused,
                r->refused == 1 ? " was" : "s were", o->destination);
}

static void print_report(const sr_pack_options *o, const sr_pack_report *r) {
    char size[16];
    const char *between = "";
    printf("%s: ", o->destination);
    for (int s = 0; s < SR_SPLIT_COUNT; s++)
        if (r->records[s] > 0 || s == SR_SPLIT_TRAIN) {
            printf("%s%" PRId64 " %s", between, r->records[s], sr_split_names[s]);
            between = ", ";
        }
    printf("; %" PRId64 " class%s, %s", r->classes, r->classes == 1 ? "" : "es",
           sr_text_bytes(r->bytes, size));
    if (r->was_complete)
        printf(" (was already packed)\n");
    else
        printf(", %.1f s\n", r->seconds);
    between = "  ";
    for (int i = 0; i < SR_PICTURE_FLAG_COUNT; i++)
        if (r->met[i] > 0) {
            printf("%s%" PRId64 " %s", between, r->met[i], sr_pack_flag_name(i));
            between = ", ";
        }
    if (r->ignored > 0)
        printf("%s%" PRId64 " file%s ignored (hidden, or no picture)", between, r->ignored,
               r->ignored == 1 ? "" : "s");
    if (*between == ',' || r->ignored > 0)
        printf("\n");
}

int sr_cmd_pack(int argc, char **argv) {
    const struct argp argp = {
        .options = options, .parser = parse_option, .args_doc = "SRC DST", .doc = about};
    sr_pack_options o = {0};
    sr_pack_report report;
    if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
        return 2;
    sr_status status = sr_pack(&o, &report);
    if (report.bytes > 0) { // also where too many files were refused: the rest is packed
        print_report(&o, &report);
        print_notes(&o, &report, status != SR_OK);
    }
    return status == SR_OK ? 0 : sr_command_fail(status);
}
