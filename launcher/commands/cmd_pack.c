// SPDX-License-Identifier: Apache-2.0
// serried pack SRC DST: packs a folder or tar of pictures into a data set of shards.
//
// Exit 0; 2: usage, or DST contains something else; 3: damaged source, or more files refused than
// allowed (everything else is packed); 1: disk full and other failures of the machine.
#include <argp.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/pack/pack.h"
#include "kernels/base/text.h"
#include "launcher/commands/command.h"

enum {
    KEY_VAL = 0x100,
    KEY_SUBSET,
    KEY_LIST,
    KEY_CLASSES,
    KEY_CLASS_MAP,
    KEY_IGNORE,
    KEY_REDUCE,
    KEY_SIZE,
    KEY_QUALITY,
    KEY_RAW,
    KEY_ZSTD,
    KEY_INDEX,
    KEY_SHARD,
    KEY_FORMAT,
    KEY_FORMAT_IN,
    KEY_REFUSED,
    KEY_ENTRIES,
    KEY_UNPACKED,
};

static const struct argp_option options[] = {
    {"val-fraction", KEY_VAL, "F", 0,
     "if there is no val split, hold out the last fraction F of every class, in byte order of "
     "names",
     0},
    {"subset", KEY_SUBSET, "N|F", 0,
     "pack only the first N samples of every split, or this fraction of them (0 < F < 1), in the "
     "order of records",
     0},
    {"list", KEY_LIST, "FILE", 0,
     "pack what FILE lists, in lines of path TAB class [TAB split]; without SRC, paths are "
     "relative to the folder of FILE",
     0},
    {"classes", KEY_CLASSES, "FILE", 0,
     "file with the class names, one per line, in the order of class ids", 0},
    {"class-map", KEY_CLASS_MAP, "FILE", 0,
     "file with the meaning of the values of masks, in lines 'ID NAME' or 'R G B NAME' (NAME may "
     "be ignore), or one of camvid, cityscapes, cityscapes-train-ids, voc, coco-voc, ade20k and "
     "coco-stuff",
     0},
    {"ignore-value", KEY_IGNORE, "N", 0, "value of masks that means no class, in addition to 255",
     0},
    {"void", KEY_IGNORE, "N", OPTION_HIDDEN, NULL, 0}, // its former name
    {"reduce-zero-label", KEY_REDUCE, NULL, 0,
     "value 0 of masks means no class, and class N has value N + 1", 0},
    {"max-size", KEY_SIZE, "PX", 0, "shrink pictures whose shorter side is longer than PX", 0},
    {"quality", KEY_QUALITY, "Q", 0,
     "JPEG quality of pictures that --max-size shrinks, 1..100 (default: 90)", 0},
    {"raw", KEY_RAW, NULL, 0,
     "store pixels instead of JPEG: several times larger, and several times faster to read", 0},
    {"zstd", KEY_ZSTD, NULL, 0, "compress stored pixels with zstd", 0},
    {"row-index", KEY_INDEX, "N", 0,
     "segments per row of a JPEG that can be decoded separately, 0 (no index) to 64 (default: 1)",
     0},
    {"shard-size", KEY_SHARD, "BYTES", 0, "size of a shard, such as 64MiB (default: 256MiB)", 0},
    {"format", KEY_FORMAT, "NAME", 0,
     "shards, kpl-dir (a KPLRecord directory for each split) or lmdb (default: shards)", 0},
    {"format-in", KEY_FORMAT_IN, "NAME", 0,
     "format of SRC, instead of detecting it: classes, pictures, coco, "
     "coco-masks, coco-stuff, voc, voc-masks, yolo, masks, cityscapes, ade20k, camvid, "
     "webdataset, cifar, idx or kplrecord",
     0},
    {"allow-refused", KEY_REFUSED, "N", 0, "exit with 0 even if up to N files were refused", 0},
    {"max-entries", KEY_ENTRIES, "N", 0,
     "maximum number of entries in an archive (default: 50000000)", 0},
    {"max-unpacked", KEY_UNPACKED, "BYTES", 0,
     "maximum unpacked size of an archive (default: 512GiB)", 0},
    {"workers", 'j', "N", 0, "number of threads (default: one per core)", 0},
    {0}};

static const char about[] =
    "Pack SRC, a folder, archive or file, into the data set DST. The format of SRC is detected "
    "from its content and printed first: folders CLASS/picture or {train,val,test}/CLASS/picture; "
    "COCO JSON; "
    "Pascal VOC XML; YOLO images and labels with data.yaml; pictures and masks in two parallel "
    "folders or as Pascal VOC, Cityscapes, ADE20K, CamVid or COCO-Stuff; WebDataset shards; CIFAR "
    "and MNIST files; KPLRecords. Each of them may be in a tar "
    "(also compressed) or a zip. Pictures are JPEG and PNG; their pixels do not change unless "
    "--max-size is given."
    "\v"
    "Damaged files are refused and listed in DST/refused.csv; everything else is packed. The "
    "result is the same for any number of workers. If a pack is killed, the same command resumes "
    "it.";

static double parse_fraction(struct argp_state *state, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(value >= 0 && value < 1))
        argp_error(state, "'%s' is not a fraction, 0 <= F < 1", text);
    return value;
}

// A number of samples, or a fraction with a decimal point.
static void parse_subset(struct argp_state *state, const char *text, sr_pack_options *out) {
    char *end;
    if (strpbrk(text, ".eE") == NULL) {
        out->subset = sr_command_number(state, "--subset", text, 1, LONG_MAX);
        return;
    }
    out->subset_part = strtod(text, &end);
    if (*end != '\0' || !(out->subset_part > 0 && out->subset_part < 1))
        argp_error(state, "'%s' is neither a number of samples nor a fraction, 0 < F < 1", text);
}

static uint64_t parse_size(struct argp_state *state, const char *text) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 0x1p40}};
    char *end;
    uint64_t bytes = 0;
    const double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && strcmp(end, units[i].name) == 0 && number * units[i].bytes >= 1 &&
            number * units[i].bytes < 1e15)
            bytes = (uint64_t)(number * units[i].bytes);
    if (bytes == 0)
        argp_error(state, "'%s' is not a size such as 64MiB", text);
    return bytes;
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    sr_pack_options *o = state->input;
    switch (key) {
    case KEY_VAL:
        o->val_fraction = parse_fraction(state, value);
        break;
    case KEY_SUBSET:
        parse_subset(state, value, o);
        break;
    case KEY_LIST:
        o->list = value;
        break;
    case KEY_CLASSES:
        o->classes = value;
        break;
    case KEY_CLASS_MAP:
        o->class_map = value;
        break;
    case KEY_IGNORE:
        o->ignore_value = 1 + (int)sr_command_number(state, "--ignore-value", value, 0, 255);
        break;
    case KEY_REDUCE:
        o->reduce_zero_label = true;
        break;
    case KEY_ZSTD:
        o->zstd = true;
        break;
    case KEY_SHARD:
        o->shard_bytes = parse_size(state, value);
        break;
    case KEY_ENTRIES:
        o->limits.entries = (uint64_t)sr_command_number(state, "--max-entries", value, 1, LONG_MAX);
        break;
    case KEY_UNPACKED:
        o->limits.unpacked = parse_size(state, value);
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
    case KEY_FORMAT_IN:
        o->source_format = value;
        break;
    case KEY_REFUSED:
        o->allow_refused = sr_command_number(state, "--allow-refused", value, 0, 1L << 40);
        break;
    case 'j':
        o->workers = (int)sr_command_number(state, "--workers", value, 1, 1024);
        break;
    case ARGP_KEY_ARG:
        if (o->destination != NULL)
            argp_error(state, "only SRC and DST are expected");
        if (o->source == NULL)
            o->source = value;
        else
            o->destination = value;
        break;
    case ARGP_KEY_END:
        if (o->destination == NULL && o->list != NULL) { // the list says where the pictures are
            o->destination = o->source;
            o->source = NULL;
        }
        if (o->destination == NULL)
            argp_error(state, "SRC and DST are needed");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void print_reading(const char *line) {
    printf("%s\n", line);
    (void)fflush(stdout); // before warnings and progress on stderr
}

static void print_notes(const sr_pack_options *o, const sr_pack_report *r, bool failed) {
    if (o->val_fraction > 0 && r->val_existed)
        fputs("note: the source has its own val split; --val-fraction was ignored\n", stderr);
    if (o->val_fraction > 0 && !r->val_existed && r->records[SR_SPLIT_VAL] == 0)
        fputs("note: every class is too small for --val-fraction; there is no val split\n", stderr);
    if (r->classes == 1 && r->annotations == 0)
        fputs("note: all pictures belong to one class; is there a folder for each class?\n",
              stderr);
    if (r->classes == 0)
        fputs("note: no picture has a class; to classify them, make a folder for each class\n",
              stderr);
    if (r->unlabelled > 0)
        fprintf(stderr, "note: %" PRId64 " picture%s left out: without a label, or in no list\n",
                r->unlabelled, r->unlabelled == 1 ? "" : "s");
    if (r->refused > 0 && !failed) // a failure reports it itself
        fprintf(stderr, "note: %" PRId64 " file%s refused: see %s/refused.csv\n", r->refused,
                r->refused == 1 ? " was" : "s were", o->destination);
}

// Returns the separator before the next count.
static const char *print_count(const char *between, int64_t count, const char *what) {
    if (count <= 0)
        return between;
    printf("%s%" PRId64 " %s", between, count, what);
    return ", ";
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
    if (r->classes > 0)
        printf("; %" PRId64 " class%s", r->classes, r->classes == 1 ? "" : "es");
    printf("%s%s", r->classes > 0 ? ", " : "; ", sr_text_bytes(r->bytes, size));
    if (r->was_complete)
        printf(" (was already packed)\n");
    else
        printf(", %.1f s\n", r->seconds);
    if (r->resumed > 0)
        printf("  resumed after %" PRId64 " record%s of an interrupted pack\n", r->resumed,
               r->resumed == 1 ? "" : "s");
    if (r->objects > 0)
        printf("  %" PRId64 " box%s, of which %" PRId64 " empty or outside their picture\n",
               r->objects, r->objects == 1 ? "" : "es", r->degenerate);
    between = "  ";
    for (int i = 0; i < SR_PICTURE_FLAG_COUNT; i++)
        between = print_count(between, r->flagged[i], sr_pack_flag_name(i));
    between = print_count(between, r->annotations, "annotation files");
    between = print_count(between, r->outside, "not in the subset");
    between = print_count(between, r->ignored,
                          r->ignored == 1
                              ? "file ignored (hidden, or not a picture or annotation file)"
                              : "files ignored (hidden, or not a picture or annotation file)");
    if (*between == ',')
        printf("\n");
}

int sr_cmd_pack(int argc, char **argv) {
    const struct argp argp = {
        .options = options, .parser = parse_option, .args_doc = "SRC DST", .doc = about};
    sr_pack_options o = {.recognised = print_reading};
    sr_pack_report report;
    if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
        return 2;
    sr_status status = sr_pack(&o, &report);
    if (report.bytes > 0) { // also if too many files were refused: the rest is packed
        print_report(&o, &report);
        print_notes(&o, &report, status != SR_OK);
    }
    return status == SR_OK ? 0 : sr_command_fail(status);
}
