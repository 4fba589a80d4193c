// SPDX-License-Identifier: Apache-2.0
// From text to the value of an option (see options.h): one parser for each type, in one table.
//
// Deliberately no YAML: recipes pass scalars, and lists in flow style, as text.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/option_internal.h"
#include "kernels/base/table.h"

// What is being parsed, for messages, and where lists and strings go.
typedef struct parse_state {
    const sr_option_table *table;
    const sr_option *option;
    const char *text;
    sr_arena *arena;
} parse_state;

static sr_status expected(const parse_state *at, const char *what) {
    return SR_FAIL(SR_E_USAGE, "%s.%s: expected %s, got '%s'", at->table->name, at->option->name,
                   what, at->text);
}

static sr_status check_range(const parse_state *at, double value) {
    double min = at->option->min, max = at->option->max;
    if ((min == 0.0 && max == 0.0) || (value >= min && value <= max))
        return SR_OK;
    sr_text range;
    sr_text_init(&range);
    sr_options_range(at->option, &range);
    (void)SR_FAIL(SR_E_USAGE, "%s.%s: must be %s, got '%s'", at->table->name, at->option->name,
                  range.data, at->text);
    sr_text_release(&range);
    return SR_E_USAGE;
}

static const char *skip_space(const char *p) {
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

// A number at the start of text; *rest is what follows it and white space. NaN is refused.
static bool read_real(const char *text, double *value, const char **rest) {
    char *end;
    *value = strtod(text, &end);
    if (end == text || isnan(*value))
        return false;
    *rest = skip_space(end);
    return true;
}

// The same for an integer, which may also be written as "1e6".
static bool read_integer(const char *text, int64_t *value, const char **rest) {
    char *end;
    errno = 0;
    long long exact = strtoll(text, &end, 10);
    bool fraction = *end == '.' || *end == 'e' || *end == 'E';
    if (end != text && errno == 0 && !fraction) {
        *value = exact;
        *rest = skip_space(end);
        return true;
    }
    double real;
    if (!fraction || !read_real(text, &real, rest) || real != floor(real) || fabs(real) > 0x1p53)
        return false;
    *value = (int64_t)real;
    return true;
}

// The factor of the unit that is the whole of 'rest'.
static bool read_unit(const char *rest, const sr_option_unit *units, double *factor) {
    size_t n = strcspn(rest, " \t");
    if (*skip_space(rest + n) != '\0')
        return false;
    for (; units->name != NULL; units++)
        if (strlen(units->name) == n && strncmp(units->name, rest, n) == 0) {
            *factor = units->factor;
            return true;
        }
    return false;
}

static sr_status parse_bool(const parse_state *at, sr_option_value *value) {
    static const char *const names[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(at->text, names[i]) == 0) {
            value->flag = i % 2 == 1;
            return SR_OK;
        }
    return expected(at, "true or false");
}

static sr_status parse_int(const parse_state *at, sr_option_value *value) {
    int64_t integer;
    const char *rest;
    if (!read_integer(at->text, &integer, &rest) || *rest != '\0')
        return expected(at, "an integer");
    SR_TRY(check_range(at, (double)integer));
    value->integer = integer;
    return SR_OK;
}

static sr_status parse_float(const parse_state *at, sr_option_value *value) {
    double real;
    const char *rest;
    if (!read_real(at->text, &real, &rest) || *rest != '\0')
        return expected(at, "a number");
    SR_TRY(check_range(at, real));
    value->real = real;
    return SR_OK;
}

static sr_status parse_string(const parse_state *at, sr_option_value *value) {
    value->string = sr_arena_strdup(at->arena, at->text);
    return value->string ? SR_OK : SR_E_MEMORY;
}

static sr_status parse_enum(const parse_state *at, sr_option_value *value) {
    const char *const *choices = at->option->choices;
    size_t count = 0;
    for (; choices[count] != NULL; count++)
        if (strcmp(at->text, choices[count]) == 0) {
            value->choice = (int)count;
            return SR_OK;
        }
    sr_text list;
    sr_text_init(&list);
    for (size_t i = 0; i < count; i++)
        sr_text_add(&list, "%s%s", i ? ", " : "", choices[i]);
    const char *near = sr_text_nearest(at->text, choices, count);
    (void)SR_FAIL(SR_E_USAGE, "%s.%s: unknown value '%s'%s%s%s; one of: %s", at->table->name,
                  at->option->name, at->text, near ? "; did you mean '" : "", near ? near : "",
                  near ? "'?" : "", list.data);
    sr_text_release(&list);
    return SR_E_USAGE;
}

static sr_status parse_size(const parse_state *at, sr_option_value *value) {
    double real, factor;
    const char *rest;
    bool good = read_real(at->text, &real, &rest) && read_unit(rest, sr_option_size_units, &factor);
    if (!good || !(fabs(real * factor) < 0x1p63))
        return expected(at, "a size such as 64MiB or 4GiB");
    int64_t whole; // plain bytes stay exact beyond 53 bits
    const char *after;
    int64_t bytes = (int64_t)(real * factor);
    if (factor == 1.0 && read_integer(at->text, &whole, &after))
        bytes = whole;
    SR_TRY(check_range(at, (double)bytes));
    value->integer = bytes;
    return SR_OK;
}

static sr_status parse_duration(const parse_state *at, sr_option_value *value) {
    double real, factor;
    const char *rest;
    if (!read_real(at->text, &real, &rest) || !read_unit(rest, sr_option_duration_units, &factor))
        return expected(at, "a duration such as 500ms, 10s, 2min or 1h");
    // 1 / 1000 rounds once where 1 * 0.001 rounds twice, so that 500ms is exactly 0.5 s.
    double seconds = factor < 1.0 ? real / round(1.0 / factor) : real * factor;
    SR_TRY(check_range(at, seconds));
    value->real = seconds;
    return SR_OK;
}

static sr_status parse_length(const parse_state *at, sr_option_value *value) {
    static const struct {
        const char *name;
        sr_length_unit unit;
    } names[] = {
        {"ep", SR_LENGTH_EPOCHS},       {"epoch", SR_LENGTH_EPOCHS},   {"epochs", SR_LENGTH_EPOCHS},
        {"it", SR_LENGTH_STEPS},        {"step", SR_LENGTH_STEPS},     {"steps", SR_LENGTH_STEPS},
        {"samples", SR_LENGTH_SAMPLES}, {"sample", SR_LENGTH_SAMPLES}, {"%", SR_LENGTH_PERCENT},
    };
    double count;
    const char *rest = "";
    bool good = read_real(at->text, &count, &rest) && count >= 0.0 && !isinf(count);
    for (size_t i = 0; good && i < sizeof names / sizeof *names; i++) {
        if (strcmp(rest, names[i].name) != 0)
            continue;
        const bool whole = names[i].unit == SR_LENGTH_STEPS || names[i].unit == SR_LENGTH_SAMPLES;
        if (whole && count != floor(count))
            break;
        SR_TRY(check_range(at, count));
        value->length = (sr_length){.count = count, .unit = names[i].unit};
        return SR_OK;
    }
    return expected(at, "a length such as 90ep, 5000it, 100000samples or 90%");
}

// One item of a list: skips white space and copies a quoted or bare item into the arena. *p moves
// past the comma; *more is whether there was one.
static sr_status next_item(const parse_state *at, const char **p, const char *end, char **item,
                           bool *more) {
    const char *start = skip_space(*p);
    size_t n = 0;
    const char *q = start;
    char *copy = sr_arena_alloc(at->arena, (size_t)(end - start) + 1);
    if (copy == NULL)
        return SR_E_MEMORY;
    if (start < end && (*start == '"' || *start == '\'')) {
        for (q = start + 1; q < end && *q != *start; q++) {
            if (*start == '"' && *q == '\\' && q + 1 < end)
                q++;
            copy[n++] = *q;
        }
        if (q == end)
            return expected(at, "a closing quote");
        q = skip_space(q + 1);
    } else {
        while (q < end && *q != ',')
            copy[n++] = *q++;
        while (n > 0 && isspace((unsigned char)copy[n - 1]))
            n--;
        if (n == 0)
            return expected(at, "a list without empty items");
    }
    if (q < end && *q != ',')
        return expected(at, "a comma between the items of a list");
    copy[n] = '\0';
    *item = copy;
    *more = q < end;
    *p = q < end ? q + 1 : end;
    return SR_OK;
}

// Splits "[a, 'b', c]" or "a, b" into texts of the arena.
static sr_status split_list(const parse_state *at, sr_string_list *list) {
    const char *p = skip_space(at->text), *end = p + strlen(p);
    while (end > p && isspace((unsigned char)end[-1]))
        end--;
    if (*p == '[') {
        if (end == p + 1 || end[-1] != ']')
            return expected(at, "a list that ends with ']'");
        p = skip_space(p + 1);
        end--;
    }
    size_t most = 1;
    for (const char *c = p; c < end; c++)
        most += *c == ',';
    list->count = 0;
    list->items = sr_arena_alloc(at->arena, most * sizeof *list->items);
    if (list->items == NULL)
        return SR_E_MEMORY;
    for (bool more = skip_space(p) < end; more;) {
        char *item = NULL;
        SR_TRY(next_item(at, &p, end, &item, &more));
        list->items[list->count++] = item;
    }
    return SR_OK;
}

static sr_status parse_ints(const parse_state *at, sr_option_value *value) {
    sr_string_list texts;
    SR_TRY(split_list(at, &texts));
    sr_int_list list = {.count = texts.count};
    list.items = sr_arena_alloc(at->arena, texts.count * sizeof *list.items);
    if (list.items == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < texts.count; i++) {
        const char *rest;
        if (!read_integer(texts.items[i], &list.items[i], &rest) || *rest != '\0')
            return expected(at, "a list of integers such as [1, 2]");
        SR_TRY(check_range(at, (double)list.items[i]));
    }
    value->ints = list;
    return SR_OK;
}

static sr_status parse_floats(const parse_state *at, sr_option_value *value) {
    sr_string_list texts;
    SR_TRY(split_list(at, &texts));
    sr_float_list list = {.count = texts.count};
    list.items = sr_arena_alloc(at->arena, texts.count * sizeof *list.items);
    if (list.items == NULL)
        return SR_E_MEMORY;
    for (size_t i = 0; i < texts.count; i++) {
        const char *rest;
        if (!read_real(texts.items[i], &list.items[i], &rest) || *rest != '\0')
            return expected(at, "a list of numbers such as [0.1, 0.5]");
        SR_TRY(check_range(at, list.items[i]));
    }
    value->floats = list;
    return SR_OK;
}

static sr_status parse_strings(const parse_state *at, sr_option_value *value) {
    sr_string_list list;
    SR_TRY(split_list(at, &list));
    value->strings = list;
    return SR_OK;
}

const sr_option_table *sr_options_of(const sr_alternatives *alternatives, const char *name) {
    size_t count;
    const void *const *all = alternatives->all(&count);
    for (size_t i = 0; name && i < count; i++)
        if (strcmp(sr_table_item(all, i).name, name) == 0)
            return alternatives->options(all[i]);
    return NULL;
}

static sr_status unknown_alternative(const parse_state *at, const void *all, size_t count) {
    const char **names = sr_arena_alloc(at->arena, (count + 1) * sizeof *names);
    if (!names)
        return SR_E_MEMORY;
    sr_table_names(all, count, names);
    const char *what = at->table->alternatives->what;
    const char *near = sr_text_nearest(at->text, names, count);
    return SR_FAIL(SR_E_USAGE, "%s.%s: unknown %s '%s'%s%s%s", at->table->name, at->option->name,
                   what, at->text, near ? "; did you mean '" : "; 'serried info ",
                   near ? near : what, near ? "'?" : "s' lists all");
}

// Its name; sr_options_set adds its options.
static sr_status parse_alternative(const parse_state *at, sr_option_value *value) {
    size_t count;
    const void *all = at->table->alternatives->all(&count);
    for (size_t i = 0; i < count; i++) {
        const char *name = sr_table_item(all, i).name;
        if (strcmp(name, at->text) != 0)
            continue;
        value->alternative = (sr_alternative){.name = name};
        return SR_OK;
    }
    return unknown_alternative(at, all, count);
}

sr_status sr_option_parse(const sr_option_table *table, const sr_option *option, const char *text,
                          sr_arena *arena, sr_option_value *value) {
    static sr_status (*const parsers[])(const parse_state *, sr_option_value *) = {
        [SR_OPT_BOOL] = parse_bool,         [SR_OPT_INT] = parse_int,
        [SR_OPT_FLOAT] = parse_float,       [SR_OPT_STRING] = parse_string,
        [SR_OPT_ENUM] = parse_enum,         [SR_OPT_SIZE] = parse_size,
        [SR_OPT_DURATION] = parse_duration, [SR_OPT_LENGTH] = parse_length,
        [SR_OPT_INTS] = parse_ints,         [SR_OPT_FLOATS] = parse_floats,
        [SR_OPT_STRINGS] = parse_strings,   [SR_OPT_ALTERNATIVE] = parse_alternative,
    };
    parse_state at = {.table = table, .option = option, .text = text, .arena = arena};
    return parsers[option->type](&at, value);
}
