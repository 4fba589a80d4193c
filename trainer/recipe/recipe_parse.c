// SPDX-License-Identifier: Apache-2.0
// Parses YAML text to nodes, from the events of libfyaml.
//
// Events, not documents: anchors, aliases, tags and excessive depth are refused when they are met,
// before anything could be expanded from them (an alias bomb costs nothing), and every node keeps
// its position. Invalid YAML is reported with the library's message at the library's position.
#include <libfyaml.h>
#include <string.h>

#include "trainer/recipe/recipe_internal.h"

typedef struct yaml_reader {
    sr_recipe_internal *in;
    const sr_recipe_source *source;
    int column; // at which the text begins
    struct fy_parser *parser;
    sr_recipe_node *root;
    sr_recipe_node *open[SR_RECIPE_MAX_DEPTH];
    sr_recipe_node *key[SR_RECIPE_MAX_DEPTH]; // of the map at this level, whose value follows
    int depth, documents;
    bool stop; // after a mistake that makes the rest meaningless
    bool out_of_memory;
} yaml_reader;

static sr_recipe_position position_of(const yaml_reader *r, const struct fy_mark *mark) {
    sr_recipe_position at = {r->source, 0, r->column};
    if (mark) {
        at.line = mark->line;
        at.column = mark->column + (mark->line == 0 ? r->column : 0);
    }
    return at;
}

static void refuse(yaml_reader *r, sr_recipe_position at, const char *what) {
    sr_recipe_mistake(r->in, at, "%s", what);
    r->stop = true;
}

static const char *copy_text(yaml_reader *r, struct fy_token *token) {
    size_t length = 0;
    const char *text = token ? fy_token_get_text(token, &length) : NULL;
    char *copy = sr_arena_alloc(&r->in->arena, length + 1);
    if (!copy) {
        r->out_of_memory = r->stop = true;
        return "";
    }
    if (text)
        memcpy(copy, text, length);
    return copy;
}

// Takes the scalar as a key of the innermost map.
static void take_key(yaml_reader *r, sr_recipe_node *node) {
    sr_recipe_node *map = r->open[r->depth - 1];
    if (strcmp(node->text, "<<") == 0 && node->plain) {
        refuse(r, node->at, "merge keys ('<<') are not allowed in recipes; use 'base:'");
        return;
    }
    const sr_recipe_node *twin = sr_recipe_node_child(map, node->text);
    if (twin) {
        sr_recipe_mistake(r->in, node->at, "key '%s' is given twice, first on line %d", node->text,
                          twin->key_at.line + 1);
    } else if (map->count >= SR_RECIPE_MAX_KEYS) {
        refuse(r, node->at, "more than 1000 keys in one map");
    }
    r->key[r->depth - 1] = node;
}

// Stores a value under its key, at the end of a list, or as the root.
static void take_value(yaml_reader *r, sr_recipe_node *node) {
    if (r->depth == 0) {
        if (!r->root)
            r->root = node;
        return;
    }
    sr_recipe_node *parent = r->open[r->depth - 1], *key = r->key[r->depth - 1];
    if (parent->kind == SR_RECIPE_NODE_MAP && key) {
        r->key[r->depth - 1] = NULL;
        node->key = key->text;
        node->key_at = key->at;
        if (sr_recipe_node_child(parent, key->text))
            return; // duplicate key, reported by take_key
    }
    sr_recipe_node_append(parent, node);
}

static bool expects_key(const yaml_reader *r) {
    return r->depth > 0 && r->open[r->depth - 1]->kind == SR_RECIPE_NODE_MAP &&
           !r->key[r->depth - 1];
}

static sr_recipe_node *new_node(yaml_reader *r, sr_recipe_node_kind kind, struct fy_token *token) {
    sr_recipe_position at = position_of(r, token ? fy_token_start_mark(token) : NULL);
    if (!token && r->depth > 0) { // an empty value: take the position of its key
        const sr_recipe_node *key = r->key[r->depth - 1];
        at = key ? key->at : r->open[r->depth - 1]->at;
    }
    if (++r->in->nodes > SR_RECIPE_MAX_NODES) {
        refuse(r, at, "a recipe and its bases may have at most 50000 values in all");
        return NULL;
    }
    sr_recipe_node *node = sr_recipe_node_new(r->in, kind, NULL, at);
    if (!node)
        r->out_of_memory = r->stop = true;
    return node;
}

static void take_scalar(yaml_reader *r, struct fy_event *event) {
    struct fy_token *token = event->scalar.value;
    // For an empty value libfyaml gives no token, or one without a position.
    bool empty = !token || !fy_token_start_mark(token);
    sr_recipe_node *node = new_node(r, SR_RECIPE_NODE_TEXT, empty ? NULL : token);
    if (!node)
        return;
    node->text = copy_text(r, empty ? NULL : token);
    node->plain = empty || fy_token_scalar_style(token) == FYSS_PLAIN;
    if (strlen(node->text) > 0 && expects_key(r))
        take_key(r, node);
    else if (expects_key(r))
        refuse(r, node->at, "a key must not be empty");
    else
        take_value(r, node);
}

static void take_begin(yaml_reader *r, sr_recipe_node_kind kind, struct fy_token *token) {
    sr_recipe_node *node = new_node(r, kind, token);
    if (!node)
        return;
    if (expects_key(r)) {
        refuse(r, node->at, "a key must be text, not a map or a list");
        return;
    }
    take_value(r, node);
    if (r->depth == SR_RECIPE_MAX_DEPTH) {
        refuse(r, node->at, "maps and lists are nested deeper than 32 levels");
        return;
    }
    r->key[r->depth] = NULL;
    r->open[r->depth++] = node;
}

// The position of '&' or '*': libfyaml's tokens begin after it.
static sr_recipe_position sign_of(const yaml_reader *r, struct fy_token *token) {
    sr_recipe_position at = position_of(r, token ? fy_token_start_mark(token) : NULL);
    at.column -= at.column > 0;
    return at;
}

static void refuse_extras(yaml_reader *r, struct fy_token *tag, struct fy_token *anchor) {
    if (tag)
        refuse(r, position_of(r, fy_token_start_mark(tag)),
               "tags ('!...') are not allowed in recipes; types come from the key");
    else if (anchor)
        refuse(r, sign_of(r, anchor),
               "anchors ('&...') are not allowed in recipes; use 'base:' to share settings");
}

static void take_event(yaml_reader *r, struct fy_event *event) {
    struct fy_token *token = fy_event_get_token(event);
    switch (event->type) {
    case FYET_DOCUMENT_START:
        if (++r->documents > 1)
            refuse(r, position_of(r, token ? fy_token_start_mark(token) : NULL),
                   "a recipe is one document; '---' starts a second one");
        break;
    case FYET_SCALAR:
        refuse_extras(r, event->scalar.tag, event->scalar.anchor);
        if (!r->stop)
            take_scalar(r, event);
        break;
    case FYET_MAPPING_START:
        refuse_extras(r, event->mapping_start.tag, event->mapping_start.anchor);
        if (!r->stop)
            take_begin(r, SR_RECIPE_NODE_MAP, token);
        break;
    case FYET_SEQUENCE_START:
        refuse_extras(r, event->sequence_start.tag, event->sequence_start.anchor);
        if (!r->stop)
            take_begin(r, SR_RECIPE_NODE_LIST, token);
        break;
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        r->depth--;
        break;
    case FYET_ALIAS:
        refuse(r, sign_of(r, token),
               "aliases ('*...') are not allowed in recipes; quote text that starts with '*'");
        break;
    case FYET_NONE:
    case FYET_STREAM_START:
    case FYET_STREAM_END:
    case FYET_DOCUMENT_END:
    default:
        break;
    }
}

// Finds a tab that indents a line near this one: libfyaml reports only its consequences.
static bool find_tab(const yaml_reader *r, int near, sr_recipe_position *at) {
    const char *text = r->source->text;
    for (int line = 0; text && line <= near + 1; line++) {
        size_t spaces = strspn(text, " "), blank = strspn(text, " \t");
        if (line + 1 >= near && text[spaces] == '\t' && !strchr("\r\n#", text[blank])) {
            *at = (sr_recipe_position){r->source, line, (int)spaces};
            return true;
        }
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return false;
}

static void report_syntax(yaml_reader *r, struct fy_diag *diag) {
    void *previous = NULL;
    const struct fy_diag_error *error;
    bool any = false;
    while ((error = fy_diag_errors_iterate(diag, &previous)) != NULL) {
        int line = error->line > 0 ? error->line - 1 : 0;
        int column = error->column > 0 ? error->column - 1 : 0;
        sr_recipe_position at = {r->source, line, column + (line == 0 ? r->column : 0)};
        bool tab = find_tab(r, line, &at);
        sr_recipe_mistake(r->in, at, "%s",
                          tab ? "this line is indented with a tab; YAML allows only spaces"
                              : error->msg);
        any = true;
        if (tab)
            return;
    }
    if (!any)
        sr_recipe_mistake(r->in, (sr_recipe_position){r->source, 0, r->column}, "invalid YAML");
}

// Bytes of the character at p, 0 if it is invalid: not UTF-8, or a control character other than tab
// and line ends (YAML 1.2, section 5.1).
static size_t character_length(const char *p) {
    const unsigned char c = (unsigned char)p[0];
    if (c == '\0' || c == 0x7f || (c < 0x20 && !strchr("\t\n\r", c)))
        return 0;
    return sr_text_utf8_length(p);
}

static bool check_bytes(yaml_reader *r, const char *text, size_t length) {
    sr_recipe_position at = {r->source, 0, r->column};
    for (size_t i = 0; i < length;) {
        const char *p = text + i;
        size_t n = character_length(p);
        if (n == 0) {
            sr_recipe_mistake(r->in, at, "byte 0x%02x is not allowed; a recipe is UTF-8 text",
                              (unsigned char)p[0]);
            return false;
        }
        at.column = p[0] == '\n' ? 0 : at.column + 1;
        at.line += p[0] == '\n';
        i += n;
    }
    return true;
}

static sr_status run_parser(yaml_reader *r, const char *text, size_t length) {
    struct fy_diag_cfg diag_options;
    fy_diag_cfg_default(&diag_options);
    struct fy_diag *diag = fy_diag_create(&diag_options);
    if (!diag)
        return SR_FAIL(SR_E_MEMORY, "libfyaml cannot start: out of memory");
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg options = {.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG, .diag = diag};
    r->parser = fy_parser_create(&options);
    if (!r->parser || fy_parser_set_string(r->parser, text, length) != 0) {
        fy_parser_destroy(r->parser);
        fy_diag_destroy(diag);
        return SR_FAIL(SR_E_MEMORY, "libfyaml cannot start: out of memory");
    }
    struct fy_event *event;
    while (!r->stop && (event = fy_parser_parse(r->parser)) != NULL) {
        take_event(r, event);
        fy_parser_event_free(r->parser, event);
    }
    if (!r->stop && fy_parser_get_stream_error(r->parser))
        report_syntax(r, diag);
    fy_parser_destroy(r->parser);
    fy_diag_destroy(diag);
    if (r->out_of_memory)
        return SR_FAIL(SR_E_MEMORY, "out of memory while reading %s", r->source->name);
    return SR_OK;
}

sr_status sr_recipe_node_parse(sr_recipe_internal *in, const sr_recipe_source *source,
                               const char *text, size_t length, int column, sr_recipe_node **out) {
    yaml_reader r = {.in = in, .source = source, .column = column};
    int before = in->mistakes;
    if (length > SR_RECIPE_MAX_BYTES) {
        sr_recipe_mistake(in, (sr_recipe_position){source, 0, 0},
                          "a recipe may have at most 1 MiB");
        return sr_recipe_verdict(in);
    }
    if (check_bytes(&r, text, length))
        SR_TRY(run_parser(&r, text, length));
    if (in->mistakes > before)
        return sr_recipe_verdict(in);
    *out = r.root;
    return SR_OK;
}
