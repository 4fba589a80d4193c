// SPDX-License-Identifier: Apache-2.0
// Labels given as texts become classes (label_text.h).
#include "dataio/formats/label_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "dataio/formats/few_names.h"
#include "kernels/base/log.h"

#define MAX_CLASSES 1000000          // limit of labels that are numbers of classes
#define MAX_DIGITS 18                // of a number: fewer than INT64_MAX has
#define MAX_WHOLE 9007199254740992.0 // 2^53: up to it a double is the number that was written
#define DIGITS "0123456789"
#define NO_NUMBER (-1)

void sr_label_texts_release(sr_label_texts *labels) {
    sr_name_table_release(&labels->texts);
    sr_free(labels->in_train);
    *labels = (sr_label_texts){0};
}

// -- texts -------------------------------------------------------------------------------------

// Whether the text is a decimal number, as 3, +3, -1, 2.50 or 3e+00.
static bool is_number(const char *text) {
    const char *at = text + (*text == '+' || *text == '-');
    const size_t whole = strspn(at, DIGITS);
    at += whole;
    const size_t part = *at == '.' ? strspn(at + 1, DIGITS) : 0;
    at += *at == '.' ? 1 + part : 0;
    if (whole + part > 0 && (*at == 'e' || *at == 'E')) {
        at += 1 + (at[1] == '+' || at[1] == '-');
        at = strspn(at, DIGITS) > 0 ? at + strspn(at, DIGITS) : text;
    }
    return whole + part > 0 && *at == '\0';
}

// The whole number that the text is, in whatever way it is written; else NO_NUMBER.
static int64_t number_of(const char *text) {
    const size_t digits = strspn(text, DIGITS);
    if (digits > 0 && digits <= MAX_DIGITS && text[digits] == '\0')
        return strtoll(text, NULL, 10);
    const double value = is_number(text) ? strtod(text, NULL) : -1.0;
    return value >= 0 && value <= MAX_WHOLE && value == floor(value) ? (int64_t)value : NO_NUMBER;
}

static bool is_one_of(const char *text, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

// Whether the text says that there is no class; nan is how Python writes an empty cell of numbers.
static bool is_no_class(const char *text) {
    return (text[0] == '-' && is_number(text) && strtod(text, NULL) < 0) ||
           strcasecmp(text, "nan") == 0;
}

// Whether other programs write an empty cell so, though it may be the name of a class.
static bool may_be_missing(const char *text) {
    static const char *const words[] = {"none", "null", "na", "n/a", "<na>", "nil", "undefined"};
    return is_one_of(text, words, sizeof words / sizeof *words);
}

static bool has_controls(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return true;
    return false;
}

sr_status sr_label_texts_assign(sr_label_texts *labels, sr_source *source, sr_layout *layout,
                                size_t i, int split, const char *text, size_t bytes) {
    uint32_t number;
    const size_t before = labels->texts.count;
    const char *path = source->files.items[i].path;
    for (; bytes > 0 && strchr(" \t\r\n", *text) != NULL; bytes--)
        text++;
    while (bytes > 0 && strchr(" \t\r\n", text[bytes - 1]) != NULL)
        bytes--;
    if (bytes == 0)
        return sr_source_refuse(source, path, "its label is blank");
    if (has_controls(text, bytes))
        return sr_source_refuse(source, path, "its label has line breaks or control characters");
    SR_TRY(sr_name_table_get(&labels->texts, &layout->arena, text, bytes, &number));
    if (labels->texts.count > before) {
        bool *grown = sr_realloc(labels->in_train, before * sizeof *grown,
                                 labels->texts.count * sizeof *grown, "classes");
        if (grown == NULL)
            return SR_E_MEMORY;
        labels->in_train = grown;
    }
    const char *copy = sr_name_table_name(&labels->texts, number);
    if (is_no_class(copy))
        return sr_source_refuse_for(source, path, "label %.40s, which is not a class", copy);
    labels->in_train[number] = labels->in_train[number] || split == SR_SPLIT_TRAIN;
    layout->files[i].split = (int8_t)split;
    layout->files[i].label = (int32_t)number;
    return SR_OK;
}

// -- classes -----------------------------------------------------------------------------------

// A text as a number, to be sorted.
typedef struct numbered {
    int64_t number;
    uint32_t text;
} numbered;

typedef struct settling {
    const sr_label_texts *labels;
    sr_source *source;
    sr_layout *layout;
    int32_t *class_of; // [texts]: -1: none
    numbered *numbers; // [number_count], sorted
    size_t number_count;
    sr_few_names others;             // that are not whole numbers
    sr_few_names fractions, missing; // of these: numbers; what may be an empty cell
} settling;

static const char *text_at(const settling *s, uint32_t text) {
    return sr_name_table_name(&s->labels->texts, text);
}

static int by_number(const void *a, const void *b) {
    const numbered *x = a, *y = b;
    const int order = (x->number > y->number) - (x->number < y->number);
    return order ? order : (x->text > y->text) - (x->text < y->text);
}

static bool is_new(const settling *s, size_t i) {
    return i == 0 || s->numbers[i].number != s->numbers[i - 1].number;
}

// Sorts the texts into numbers and others, without those that no picture has.
static void find_numbers(settling *s) {
    for (uint32_t i = 0; i < s->labels->texts.count; i++) {
        const char *text = text_at(s, i);
        const int64_t number = number_of(text);
        if (number != NO_NUMBER)
            s->numbers[s->number_count++] = (numbered){.number = number, .text = i};
        else if (!is_no_class(text))
            sr_few_names_add(&s->others, text, strlen(text));
        if (number == NO_NUMBER && !is_no_class(text) && is_number(text) &&
            text[strspn(text, DIGITS)] != '\0')
            sr_few_names_add(&s->fractions, text, strlen(text));
        if (may_be_missing(text))
            sr_few_names_add(&s->missing, text, strlen(text));
    }
    if (s->number_count > 0)
        qsort(s->numbers, s->number_count, sizeof *s->numbers, by_number);
}

// Warns of different texts for one number, and of those that are not digits alone.
static void tell_same(const settling *s) {
    sr_few_names same = {0};
    for (size_t i = 0; i < s->number_count; i++) {
        const char *text = text_at(s, s->numbers[i].text);
        const bool last = i + 1 == s->number_count || is_new(s, i + 1);
        if (!is_new(s, i) || !last || text[strspn(text, DIGITS)] != '\0')
            sr_few_names_add(&same, text, strlen(text));
    }
    if (same.count > 0)
        SR_WARN("%s: labels are written in several ways, or not as digits alone (%s): they are "
                "treated as whole numbers",
                s->source->path, same.text);
}

static bool are_dense(const settling *s) {
    int64_t different = 0;
    const int64_t largest = s->numbers[s->number_count - 1].number;
    for (size_t i = 0; i < s->number_count; i++)
        different += is_new(s, i);
    return largest < MAX_CLASSES && 2 * different > largest;
}

static sr_status take_ids(settling *s) {
    tell_same(s);
    for (size_t i = 0; i < s->number_count; i++)
        s->class_of[s->numbers[i].text] = (int32_t)s->numbers[i].number;
    return sr_layout_number_classes(s->layout, s->numbers[s->number_count - 1].number + 1);
}

// Whether any picture is of train: then its classes are those of all splits.
static bool has_train(const sr_label_texts *labels) {
    for (uint32_t i = 0; i < labels->texts.count; i++)
        if (labels->in_train[i])
            return true;
    return false;
}

// Numbers as names, in their order.
static sr_status take_ordered_numbers(settling *s) {
    const sr_label_texts *labels = s->labels;
    const bool any_train = has_train(labels);
    const char **names = sr_alloc_array(s->number_count, sizeof *names, "classes");
    int count = 0;
    if (names == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0, n; i < s->number_count; i += n) {
        bool met = !any_train;
        for (n = 0; i + n < s->number_count && (n == 0 || !is_new(s, i + n)); n++)
            met = met || labels->in_train[s->numbers[i + n].text];
        if (!met)
            continue;
        for (size_t j = i; j < i + n; j++)
            s->class_of[s->numbers[j].text] = count;
        names[count++] = text_at(s, s->numbers[i].text);
    }
    s->layout->classes = names;
    s->layout->class_count = count;
    tell_same(s);
    SR_WARN("%s: few of the numbers up to %s occur as labels: they are treated as class names, in "
            "numerical order; if they are class numbers, give the names with --classes",
            s->source->path, text_at(s, s->numbers[s->number_count - 1].text));
    return SR_OK;
}

// Warns of names of classes that might have another meaning.
static void tell_names(const settling *s) {
    const char *path = s->source->path;
    if (s->number_count > 0) {
        SR_WARN(
            "%s: %zu labels are whole numbers and %zu are not (%s): all are treated as names of "
            "classes, in byte order",
            path, s->number_count, s->others.count, s->others.text);
    } else if (s->fractions.count > 0) {
        SR_WARN("%s: labels are numbers, but not whole (%s): they are treated as names of classes, "
                "in byte order",
                path, s->fractions.text);
    }
    if (s->missing.count > 0)
        SR_WARN("%s: labels that may stand for a missing one (%s) are treated as names of classes; "
                "leave the label of pictures without a class blank",
                path, s->missing.text);
}

static sr_status name_classes(settling *s) {
    const sr_label_texts *labels = s->labels;
    sr_name_list list = {0};
    sr_status status = SR_OK;
    const bool any_train = has_train(labels);
    for (uint32_t i = 0; i < labels->texts.count && status == SR_OK; i++) {
        const char *name = text_at(s, i);
        if (labels->in_train[i] || (!any_train && !is_no_class(name)))
            status = sr_name_list_add(&list, &s->layout->arena, name, strlen(name));
    }
    const sr_status set = sr_layout_set_classes(s->layout, &list);
    SR_TRY(status);
    SR_TRY(set);
    tell_names(s);
    return SR_OK;
}

static void find_names(const settling *s) {
    for (uint32_t i = 0; i < s->labels->texts.count; i++) {
        const char *text = text_at(s, i);
        s->class_of[i] = sr_layout_find_class(s->layout, text, strlen(text));
    }
}

static sr_status take_given_names(settling *s) {
    find_names(s);
    for (size_t i = 0; i < s->number_count; i++)
        if (s->class_of[s->numbers[i].text] < 0 && s->others.count == 0)
            return take_ids(s);
    return SR_OK;
}

static sr_status find_classes(settling *s) {
    find_numbers(s);
    if (s->layout->names_given)
        return take_given_names(s);
    if (s->others.count == 0 && s->number_count > 0)
        return are_dense(s) ? take_ids(s) : take_ordered_numbers(s);
    SR_TRY(name_classes(s));
    find_names(s);
    return SR_OK;
}

static sr_status settle_samples(const settling *s) {
    for (size_t i = 0; i < s->layout->count; i++) {
        sr_layout_file *file = &s->layout->files[i];
        if (file->split < 0)
            continue;
        const uint32_t text = (uint32_t)file->label;
        file->label = s->class_of[text];
        if (file->label >= 0)
            continue;
        file->label = 0;
        file->split = -1;
        SR_TRY(sr_source_refuse_for(s->source, s->source->files.items[i].path,
                                    "class '%.100s' is not one of the %d classes", text_at(s, text),
                                    s->layout->class_count));
    }
    return SR_OK;
}

sr_status sr_label_texts_settle(sr_label_texts *labels, sr_source *source, sr_layout *layout) {
    const size_t count = labels->texts.count;
    settling s = {.labels = labels, .source = source, .layout = layout};
    s.class_of = sr_alloc_array(count + 1, sizeof *s.class_of, "classes");
    s.numbers = sr_alloc_array(count + 1, sizeof *s.numbers, "classes");
    for (size_t i = 0; s.class_of != NULL && i < count; i++)
        s.class_of[i] = -1;
    sr_status status = s.class_of && s.numbers ? find_classes(&s) : SR_E_MEMORY;
    if (status == SR_OK)
        status = settle_samples(&s);
    sr_free(s.class_of);
    sr_free(s.numbers);
    return status;
}
