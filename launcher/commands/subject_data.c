// SPDX-License-Identifier: Apache-2.0
// Packed data as a subject of serried verify and stat (see subject.h).
#include <inttypes.h>
#include <stdio.h>

#include "dataio/pack/inspect.h"
#include "launcher/commands/subject.h"

#define CLASSES_SHOWN 20 // in text; JSON has all

bool sr_subject_is_data(const char *path) {
    return sr_inspect_is(path);
}

// -- verify ------------------------------------------------------------------------------------

typedef struct damage_list {
    sr_text *out;
    bool json, any;
    char first[512];
} damage_list;

static void note(void *user, const char *message) {
    damage_list *f = user;
    if (f->json) {
        sr_text_add(f->out, f->any ? ", " : "");
        sr_text_add_json_string(f->out, message);
    } else {
        sr_text_add(f->out, "damaged: ");
        sr_text_add_visible(f->out, message);
        sr_text_add(f->out, "\n");
    }
    if (!f->any)
        (void)snprintf(f->first, sizeof f->first, "%s", message);
    f->any = true;
}

sr_status sr_subject_verify_data(const char *path, bool json, sr_text *out) {
    damage_list f = {.out = out, .json = json};
    sr_verify_result result;
    char size[16];
    if (json) {
        sr_text_add(out, "{\"path\": ");
        sr_text_add_json_string(out, path);
        sr_text_add(out, ", \"kind\": \"data set\", \"damage\": [");
    }
    sr_status status = sr_inspect_verify(path, note, &f, &result);
    if (json) {
        sr_text_add(out,
                    "], \"ok\": %s, \"shards\": %" PRIu64 ", \"records\": %" PRIu64
                    ", \"bytes\": %" PRIu64 "}\n",
                    status == SR_OK && !f.any ? "true" : "false", result.files, result.records,
                    result.bytes);
    } else if (result.noun != NULL) {
        sr_text_add(out, "%s: %s: %" PRIu64 " %s, %" PRIu64 " record%s, %s\n", path,
                    f.any             ? "damaged"
                    : status == SR_OK ? "intact"
                                      : "not read completely",
                    result.files, result.noun, result.records, result.records == 1 ? "" : "s",
                    sr_text_bytes(result.bytes, size));
    }
    if (status == SR_OK && f.any)
        return SR_FAIL(SR_E_CHECKSUM, "%" PRIu64 " finding%s of damage; the first: %s",
                       result.damaged, result.damaged == 1 ? "" : "s", f.first);
    return status;
}

// -- stat --------------------------------------------------------------------------------------

static void add_triple(sr_text *out, const char *name, const double v[3]) {
    sr_text_add(out, ", \"%s\": [", name);
    for (int c = 0; c < 3; c++) {
        sr_text_add(out, c ? ", " : "");
        sr_text_add_json_number(out, v[c]);
    }
    sr_text_add(out, "]");
}

// A share of the pixels of all masks.
static double share_of(const sr_split_stat *stat, uint64_t pixels) {
    return stat->pixels ? (double)pixels / (double)stat->pixels : 0.0;
}

static void add_json(const sr_dataset *set, const char *split, const sr_split_stat *stat,
                     sr_text *out) {
    sr_text_add(out, "{\"name\": ");
    sr_text_add_json_string(out, split);
    sr_text_add(out,
                ", \"records\": %" PRId64 ", \"shards\": %d, \"bytes\": %" PRIu64
                ", \"identity\": \"%s\", \"median_side\": %" PRId64,
                stat->records, stat->files, stat->bytes, sr_dataset_identity(set),
                sr_dataset_median_side(set));
    if (stat->has_mean) {
        add_triple(out, "mean", stat->mean);
        add_triple(out, "std", stat->std);
    }
    if (stat->has_boxes || stat->has_masks)
        sr_text_add(out, ", \"looked_at\": %" PRId64, stat->looked_at);
    if (stat->has_boxes) {
        sr_text_add(out,
                    ", \"boxes\": %" PRId64 ", \"difficult\": %" PRId64 ", \"small\": %" PRId64
                    ", \"medium\": %" PRId64 ", \"large\": %" PRId64 ", \"sides\": [",
                    stat->boxes, stat->difficult, stat->small,
                    stat->boxes - stat->small - stat->large, stat->large);
        for (int i = 0; i < 5; i++) {
            sr_text_add(out, i ? ", " : "");
            sr_text_add_json_number(out, stat->sides[i]);
        }
        sr_text_add(out, "]");
    }
    if (stat->has_masks)
        sr_text_add(out, ", \"pixels\": %" PRIu64 ", \"ignored\": %" PRIu64, stat->pixels,
                    stat->ignored);
    sr_text_add(out, ", \"classes\": [");
    for (int c = 0; c < stat->class_count; c++) {
        sr_text_add(out, c ? ", {\"name\": " : "{\"name\": ");
        sr_text_add_json_string(out, sr_dataset_class_name(set, c));
        sr_text_add(out, ", \"records\": %" PRId64, stat->class_records[c]);
        if (stat->has_boxes)
            sr_text_add(out, ", \"boxes\": %" PRId64, stat->class_boxes[c]);
        if (stat->has_masks) {
            sr_text_add(out, ", \"share\": ");
            sr_text_add_json_number(out, share_of(stat, stat->class_pixels[c]));
            sr_text_add(out, ", \"pixels\": %" PRIu64 ", \"pictures\": %" PRId64 ", \"weight\": ",
                        stat->class_pixels[c], stat->class_pictures[c]);
            sr_text_add_json_number(out, stat->class_weights[c]);
        }
        sr_text_add(out, "}");
    }
    sr_text_add(out, "]}");
}

static void add_boxes(const sr_split_stat *stat, sr_text *out) {
    sr_text_add(out,
                "  %" PRId64 " boxes, %.1f per picture, %" PRId64 " difficult; %" PRId64
                " small, %" PRId64 " medium, %" PRId64 " large (below 32 x 32, 96 x 96)\n",
                stat->boxes, stat->looked_at ? (double)stat->boxes / (double)stat->looked_at : 0.0,
                stat->difficult, stat->small, stat->boxes - stat->small - stat->large, stat->large);
    sr_text_add(
        out, "  sides (square root of the area; quartiles): %.0f .. %.0f | %.0f | %.0f .. %.0f\n",
        stat->sides[0], stat->sides[1], stat->sides[2], stat->sides[3], stat->sides[4]);
}

// The figures of the lines of classes.
static void add_masks(const sr_split_stat *stat, sr_text *out) {
    sr_text_add(out,
                "  %" PRIu64
                " pixels, %.2f%% ignored; of each class: share of the pixels, pictures "
                "with it, weight\n"
                "  (median frequency: the median of the classes' shares of the pictures that have "
                "them, over its own)\n",
                stat->pixels, 100 * share_of(stat, stat->ignored));
}

// The figures printed for a class, and the length of its bar.
static double add_class(const sr_split_stat *stat, int c, char *text, size_t capacity) {
    if (stat->has_masks) {
        const double share = share_of(stat, stat->class_pixels[c]);
        (void)snprintf(text, capacity, "%7.2f%% %8" PRId64 " %8.2f ", 100 * share,
                       stat->class_pictures[c], stat->class_weights[c]);
        return share;
    }
    const int64_t count = stat->has_boxes ? stat->class_boxes[c] : stat->class_records[c];
    (void)snprintf(text, capacity, "%8" PRId64, count);
    return (double)count;
}

// The first 'width' characters, padded with spaces.
static void add_column(sr_text *out, const char *name, int width) {
    sr_text visible;
    sr_text_init(&visible);
    sr_text_add_visible(&visible, name);
    const char *at = visible.data;
    for (; *at != '\0' && width > 0; width--)
        at += sr_text_utf8_length(at);
    sr_text_add_bytes(out, visible.data, (size_t)(at - visible.data));
    sr_text_add(out, "%*s", width, "");
    sr_text_release(&visible);
}

static void add_lines(const sr_dataset *set, const char *split, const sr_split_stat *stat,
                      sr_text *out) {
    char size[16];
    sr_text_add(out, "%s: %" PRId64 " record%s in %d %s, %s; %d class%s; median side %" PRId64 "\n",
                split, stat->records, stat->records == 1 ? "" : "s", stat->files,
                sr_dataset_file_noun(set), sr_text_bytes(stat->bytes, size), stat->class_count,
                stat->class_count == 1 ? "" : "es", sr_dataset_median_side(set));
    if (stat->has_mean)
        sr_text_add(out, "  mean %.4f %.4f %.4f  std %.4f %.4f %.4f  (R, G, B of values / 255)\n",
                    stat->mean[0], stat->mean[1], stat->mean[2], stat->std[0], stat->std[1],
                    stat->std[2]);
    sr_text_add(out, "  content %s\n", sr_dataset_identity(set));
    if (stat->has_boxes)
        add_boxes(stat, out);
    if (stat->looked_at > 0 && stat->looked_at < stat->records)
        sr_text_add(out, "  from %" PRId64 " evenly spaced records:\n", stat->looked_at);
    if (stat->has_masks)
        add_masks(stat, out);
    char text[64];
    double most = 0;
    for (int c = 0; c < stat->class_count; c++) {
        const double value = add_class(stat, c, text, sizeof text);
        most = value > most ? value : most;
    }
    for (int c = 0; c < stat->class_count && c < CLASSES_SHOWN; c++) {
        const double value = add_class(stat, c, text, sizeof text);
        const int bar = most > 0 ? (int)(value * 40 / most) : 0;
        sr_text_add(out, "  %4d ", c);
        add_column(out, sr_dataset_class_name(set, c), 24);
        sr_text_add(out, " %s %.*s\n", text, bar, "########################################");
    }
    if (stat->class_count > CLASSES_SHOWN)
        sr_text_add(out, "  ... %d more classes (all with --json)\n",
                    stat->class_count - CLASSES_SHOWN);
}

static sr_status stat_split(const char *path, const char *split, bool json, sr_text *out) {
    sr_dataset *set;
    sr_split_stat stat;
    SR_TRY(sr_dataset_open(path, split, &set));
    sr_status status = sr_inspect_stat(set, &stat);
    if (status == SR_OK) {
        if (json)
            add_json(set, split, &stat, out);
        else
            add_lines(set, split, &stat, out);
        sr_split_stat_release(&stat);
    }
    sr_dataset_free(set);
    return status;
}

sr_status sr_subject_stat_data(const char *path, bool json, sr_text *out) {
    sr_split_list splits;
    SR_TRY(sr_inspect_splits(path, &splits));
    if (json) {
        sr_text_add(out, "{\"path\": ");
        sr_text_add_json_string(out, path);
        sr_text_add(out, ", \"kind\": \"data set\", \"splits\": [");
    }
    for (int i = 0; i < splits.count; i++) {
        if (json && i > 0)
            sr_text_add(out, ", ");
        SR_TRY(stat_split(path, splits.names[i], json, out));
    }
    if (json)
        sr_text_add(out, "]}\n");
    return SR_OK;
}
