// SPDX-License-Identifier: Apache-2.0
// The text-format Meta of KPLRecord (N.meta), written and read (message: protocol.h).
//
// The reader is a small recursive descent over protobuf's text format: fields in any order,
// comments, both brackets, both quotes, escapes, separators; unknown fields are skipped. Not
// supported: extensions and Any, which cannot occur in Meta. Source:
// https://protobuf.dev/reference/protobuf/textformat-spec/
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/record/protocol.h"
#include "dataio/record/record.h"

#define MAX_DEPTH (4 * SR_RECORD_MAX_DEPTH)
#define WORD_MAX 256

static const char *const kind_names[] = {"unKnow", "bytes", "float64", "int64",
                                         "list",   "map",   "string",  "file"};
#define KIND_COUNT (sizeof kind_names / sizeof *kind_names)

// -- writing -----------------------------------------------------------------------------------

static void indent(sr_text *out, int level) {
    sr_text_add(out, "%*s", 2 * level, "");
}

static void add_quoted(sr_text *out, const char *text) {
    sr_text_add(out, "\"");
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            sr_text_add(out, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            sr_text_add(out, "\\%03o", c);
        else
            sr_text_add(out, "%c", c);
    }
    sr_text_add(out, "\"");
}

static void print_type(const sr_type *type, int level, sr_text *out) {
    indent(out, level);
    sr_text_add(out, "basicType: %s\n", kind_names[type->kind]);
    if (type->kind == SR_TYPE_LIST) {
        indent(out, level);
        sr_text_add(out, "item {\n");
        print_type(type->first, level + 1, out);
        indent(out, level);
        sr_text_add(out, "}\n");
    }
    if (type->kind != SR_TYPE_MAP)
        return;
    for (const sr_type *t = type->first; t != NULL; t = t->next) {
        indent(out, level);
        sr_text_add(out, "properties {\n");
        indent(out, level + 1);
        sr_text_add(out, "key: ");
        add_quoted(out, t->key);
        sr_text_add(out, "\n");
        indent(out, level + 1);
        sr_text_add(out, "value {\n");
        print_type(t, level + 2, out);
        indent(out, level + 1);
        sr_text_add(out, "}\n");
        indent(out, level);
        sr_text_add(out, "}\n");
    }
    for (const sr_type *t = type->first; t != NULL; t = t->next) {
        indent(out, level);
        sr_text_add(out, "keys: ");
        add_quoted(out, t->key);
        sr_text_add(out, "\n");
    }
}

void sr_meta_print(const sr_type *type, const char *id, sr_text *out) {
    sr_text_add(out, "version: 1\nid: ");
    add_quoted(out, id);
    sr_text_add(out, "\nrecord_type {\n");
    print_type(type, 1, out);
    sr_text_add(out, "}\n");
}

// -- reading -----------------------------------------------------------------------------------

typedef struct meta_reader {
    const char *at, *end;
    int line, depth;
    sr_arena *arena;
} meta_reader;

static sr_status mistake(const meta_reader *r, const char *what) {
    return SR_FAIL(SR_E_DATA, "protocol (Meta), line %d: %s", r->line, what);
}

static void skip_space(meta_reader *r) {
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        if (r->at == r->end || !isspace((unsigned char)*r->at))
            return;
        r->line += *r->at == '\n';
    }
}

static bool take(meta_reader *r, char c) {
    skip_space(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool take_word(meta_reader *r, char *word) {
    skip_space(r);
    size_t n = 0;
    for (; r->at < r->end && n + 1 < WORD_MAX; r->at++) {
        unsigned char c = (unsigned char)*r->at;
        if (!isalnum(c) && c != '_' && c != '-' && c != '.' && c != '+')
            break;
        word[n++] = (char)c;
    }
    word[n] = '\0';
    return n > 0 && n + 1 < WORD_MAX;
}

static char take_escape(meta_reader *r) {
    char c = *r->at++;
    unsigned value = 0;
    if (c >= '0' && c <= '7') {
        value = (unsigned)(c - '0');
        for (int i = 0; i < 2 && r->at < r->end && *r->at >= '0' && *r->at <= '7'; i++)
            value = value * 8 + (unsigned)(*r->at++ - '0');
        return (char)value;
    }
    if (c == 'x' || c == 'X') {
        char digits[3] = {0};
        for (int i = 0; i < 2 && r->at < r->end && isxdigit((unsigned char)*r->at); i++)
            digits[i] = *r->at++;
        return (char)strtoul(digits, NULL, 16);
    }
    const char *from = "abfnrtv", *to = "\a\b\f\n\r\t\v", *found = strchr(from, c);
    return found && c ? to[found - from] : c;
}

static sr_status take_string(meta_reader *r, char *out) {
    size_t n = 0;
    skip_space(r);
    char quote = r->at < r->end ? *r->at : '\0';
    if (quote != '"' && quote != '\'')
        return mistake(r, "a quoted string is expected");
    r->at++;
    while (r->at < r->end && *r->at != quote && *r->at != '\n') {
        char c = *r->at++;
        if (c == '\\' && r->at < r->end)
            c = take_escape(r);
        if (n + 1 >= WORD_MAX)
            return mistake(r, "a string is too long");
        if (c == '\0')
            return mistake(r, "a key contains a zero byte");
        out[n++] = c;
    }
    out[n] = '\0';
    return take(r, quote) ? SR_OK : mistake(r, "a string does not end on its line");
}

// '{' or '<' after an optional ':'; *close gets the bracket that ends the message.
static sr_status enter(meta_reader *r, char *close) {
    (void)take(r, ':');
    *close = take(r, '{') ? '}' : take(r, '<') ? '>' : '\0';
    if (*close == '\0')
        return mistake(r, "'{' is expected");
    if (r->depth++ == MAX_DEPTH)
        return mistake(r, "nested too deeply");
    return SR_OK;
}

// The next field's name, or *more = false after the end of the message.
static sr_status next_field(meta_reader *r, char close, char *name, bool *more) {
    while (take(r, ',') || take(r, ';'))
        ;
    skip_space(r);
    if (close == '\0' ? r->at == r->end : take(r, close)) {
        r->depth -= close != '\0';
        *more = false;
        return SR_OK;
    }
    *more = true;
    return take_word(r, name) ? SR_OK : mistake(r, "a field name or a closing bracket is expected");
}

static sr_status skip_value(meta_reader *r) {
    char word[WORD_MAX], close;
    bool more;
    (void)take(r, ':');
    skip_space(r);
    if (r->at < r->end && (*r->at == '"' || *r->at == '\''))
        return take_string(r, word);
    if (r->at == r->end || (*r->at != '{' && *r->at != '<'))
        return take_word(r, word) ? SR_OK : mistake(r, "a value is expected");
    SR_TRY(enter(r, &close));
    for (;;) {
        SR_TRY(next_field(r, close, word, &more));
        if (!more)
            return SR_OK;
        SR_TRY(skip_value(r));
    }
}

static sr_status parse_kind(meta_reader *r, sr_type_kind *kind) {
    char word[WORD_MAX];
    if (!take(r, ':') || !take_word(r, word))
        return mistake(r, "a type is expected after basicType");
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (strcmp(word, kind_names[i]) == 0 || (word[0] == (char)('0' + i) && word[1] == '\0')) {
            *kind = (sr_type_kind)i;
            return SR_OK;
        }
    return mistake(r, "an unknown basicType");
}

static sr_status parse_record_type(meta_reader *r, sr_type *out);

static sr_status parse_property(meta_reader *r, sr_type **out) {
    char close, name[WORD_MAX], key[WORD_MAX] = "";
    bool more;
    sr_type *type = sr_arena_alloc(r->arena, sizeof *type);
    if (type == NULL)
        return SR_E_MEMORY;
    SR_TRY(enter(r, &close));
    for (;;) {
        SR_TRY(next_field(r, close, name, &more));
        if (!more)
            break;
        if (strcmp(name, "key") == 0) {
            (void)take(r, ':');
            SR_TRY(take_string(r, key));
        } else if (strcmp(name, "value") == 0) {
            SR_TRY(parse_record_type(r, type));
        } else {
            SR_TRY(skip_value(r));
        }
    }
    type->key = sr_arena_strdup(r->arena, key);
    *out = type;
    return type->key ? SR_OK : SR_E_MEMORY;
}

// 'keys' gives the order of the properties: moves the named property to the end.
static void order_key(sr_type *map, const char *key) {
    sr_type **from = &map->first;
    while (*from != NULL && ((*from)->key == NULL || strcmp((*from)->key, key) != 0))
        from = &(*from)->next;
    sr_type *moved = *from;
    if (moved == NULL)
        return;
    *from = moved->next;
    moved->next = NULL;
    while (*from != NULL)
        from = &(*from)->next;
    *from = moved;
}

typedef struct key_list {
    const char *name;
    struct key_list *next;
} key_list;

static sr_status parse_key(meta_reader *r, key_list ***tail) {
    char key[WORD_MAX];
    (void)take(r, ':');
    SR_TRY(take_string(r, key));
    key_list *entry = sr_arena_alloc(r->arena, sizeof *entry);
    if (entry == NULL || (entry->name = sr_arena_strdup(r->arena, key)) == NULL)
        return SR_E_MEMORY;
    **tail = entry;
    *tail = &entry->next;
    return SR_OK;
}

static sr_status parse_record_type(meta_reader *r, sr_type *out) {
    char close, name[WORD_MAX];
    bool more;
    sr_type **tail = &out->first;
    key_list *keys = NULL, **last_key = &keys;
    SR_TRY(enter(r, &close));
    for (;;) {
        SR_TRY(next_field(r, close, name, &more));
        if (!more)
            break;
        if (strcmp(name, "basicType") == 0) {
            SR_TRY(parse_kind(r, &out->kind));
        } else if (strcmp(name, "properties") == 0) {
            SR_TRY(parse_property(r, tail));
            tail = &(*tail)->next;
        } else if (strcmp(name, "keys") == 0) {
            SR_TRY(parse_key(r, &last_key));
        } else if (strcmp(name, "item") == 0) {
            *tail = sr_arena_alloc(r->arena, sizeof **tail);
            if (*tail == NULL)
                return SR_E_MEMORY;
            SR_TRY(parse_record_type(r, *tail));
            tail = &(*tail)->next;
        } else {
            SR_TRY(skip_value(r));
        }
    }
    if (out->kind == SR_TYPE_LIST && (out->first == NULL || out->first->next != NULL))
        return mistake(r, "a list has exactly one item type");
    if (out->kind == SR_TYPE_MAP)
        for (const key_list *k = keys; k != NULL; k = k->next)
            order_key(out, k->name);
    return SR_OK;
}

static sr_status check_keys(const sr_type *type, int depth) {
    if (depth > SR_RECORD_MAX_DEPTH)
        return SR_FAIL(SR_E_DATA, "protocol (Meta): more than %d levels", SR_RECORD_MAX_DEPTH);
    for (const sr_type *t = type->first; t != NULL; t = t->next) {
        if (type->kind == SR_TYPE_MAP && t->key == NULL)
            return SR_FAIL(SR_E_DATA, "protocol (Meta): an item inside a map");
        SR_TRY(check_keys(t, depth + 1));
    }
    return SR_OK;
}

sr_status sr_meta_parse(const char *text, size_t bytes, sr_arena *arena, const sr_type **out) {
    meta_reader r = {.at = text, .end = text + bytes, .line = 1, .arena = arena};
    char name[WORD_MAX];
    bool more;
    sr_type *type = sr_arena_alloc(arena, sizeof *type);
    if (type == NULL)
        return SR_E_MEMORY;
    for (;;) {
        SR_TRY(next_field(&r, '\0', name, &more));
        if (!more)
            break;
        if (strcmp(name, "record_type") == 0)
            SR_TRY(parse_record_type(&r, type));
        else
            SR_TRY(skip_value(&r));
    }
    if (type->kind != SR_TYPE_MAP)
        return SR_FAIL(SR_E_DATA, "protocol (Meta): record_type is not a map");
    SR_TRY(check_keys(type, 0));
    *out = type;
    return SR_OK;
}
