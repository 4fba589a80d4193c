// SPDX-License-Identifier: Apache-2.0
// Names of splits (split.h).
#include "dataio/record/split.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

const char *const sr_split_names[SR_SPLIT_COUNT] = {"train", "val", "test"};

#define UNION SR_SPLIT_COUNT // train and val

// As timm and Keras name them; t10k is MNIST's test set.
static const struct {
    const char *name;
    int split;
} meanings[] = {
    {"train", SR_SPLIT_TRAIN},  {"training", SR_SPLIT_TRAIN}, {"trainval", UNION},
    {"val", SR_SPLIT_VAL},      {"valid", SR_SPLIT_VAL},      {"validation", SR_SPLIT_VAL},
    {"eval", SR_SPLIT_VAL},     {"evaluation", SR_SPLIT_VAL}, {"test", SR_SPLIT_TEST},
    {"testing", SR_SPLIT_TEST}, {"t10k", SR_SPLIT_TEST},
};

int sr_split_find(const char *name, size_t bytes) {
    for (int s = 0; s < SR_SPLIT_COUNT; s++)
        if (strlen(sr_split_names[s]) == bytes && memcmp(name, sr_split_names[s], bytes) == 0)
            return s;
    return -1;
}

// A split, UNION, or -1.
static int meaning_of(const char *word, size_t bytes) {
    while (bytes > 0 && word[bytes - 1] >= '0' && word[bytes - 1] <= '9')
        bytes--;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (strlen(meanings[i].name) == bytes && strncasecmp(word, meanings[i].name, bytes) == 0)
            return meanings[i].split;
    return -1;
}

static bool is_lower(uint8_t c) {
    return c >= 'a' && c <= 'z';
}

static bool is_upper(uint8_t c) {
    return c >= 'A' && c <= 'Z';
}

static bool is_of_word(uint8_t c) {
    return is_lower(c) || is_upper(c) || (c >= '0' && c <= '9') || c >= 0x80;
}

// Moves *at to the next word of the name and returns its length, 0 at the end.
static size_t next_word(const char *name, size_t bytes, size_t *at) {
    size_t begin = *at, n = 1;
    while (begin < bytes && !is_of_word((uint8_t)name[begin]))
        begin++;
    *at = begin;
    if (begin == bytes)
        return 0;
    while (begin + n < bytes && is_of_word((uint8_t)name[begin + n]) &&
           !(is_upper((uint8_t)name[begin + n]) && !is_upper((uint8_t)name[begin + n - 1])))
        n++;
    return n;
}

// The same for all words of the name.
static int meaning_of_words(const char *name, size_t bytes) {
    unsigned met = 0;
    for (size_t at = 0, n; (n = next_word(name, bytes, &at)) > 0; at += n) {
        const int meaning = meaning_of(name + at, n);
        if (meaning >= 0)
            met |= meaning == UNION ? 1u << SR_SPLIT_TRAIN | 1u << SR_SPLIT_VAL : 1u << meaning;
    }
    if (met == (1u << SR_SPLIT_TRAIN | 1u << SR_SPLIT_VAL))
        return UNION;
    for (int s = 0; s < SR_SPLIT_COUNT; s++)
        if (met == 1u << s)
            return s;
    return -1;
}

int sr_split_named(const char *name, size_t bytes) {
    const int meaning = meaning_of(name, bytes);
    return meaning == UNION ? SR_SPLIT_TRAIN : meaning;
}

int sr_split_word(const char *name, size_t bytes) {
    const int meaning = meaning_of_words(name, bytes);
    return meaning == UNION ? SR_SPLIT_TRAIN : meaning;
}

bool sr_split_is_union(const char *name, size_t bytes) {
    return meaning_of_words(name, bytes) == UNION;
}

bool sr_split_resembles(const char *name, size_t bytes) {
    static const char *const begins[] = {"train", "val", "test", "eval"};
    static const char *const others[] = {"dev", "holdout", "minival"};
    if (meaning_of_words(name, bytes) >= 0)
        return false;
    for (size_t at = 0, n; (n = next_word(name, bytes, &at)) > 0; at += n) {
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
            if (n >= strlen(begins[i]) && strncasecmp(name + at, begins[i], strlen(begins[i])) == 0)
                return true;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (n == strlen(others[i]) && strncasecmp(name + at, others[i], n) == 0)
                return true;
    }
    return false;
}
