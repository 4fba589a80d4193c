// SPDX-License-Identifier: Apache-2.0
// Pascal VOC annotations, parsed with the events of expat (voc_xml.h).
//
// Only the elements in 'leaves' are read, by their whole path, so that the <name> and <bndbox> of a
// <part> inside an object are not taken for those of the object. A document type is refused: VOC
// has none, and hostile XML uses its entities. Source: the VOC development kit's documentation
// (host.robots.ox.ac.uk/pascal/VOC); Expat 2.5.
#include "dataio/formats/voc_xml.h"

#include <expat.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 32
#define MAX_TEXT 4096 // of a leaf
#define MAX_PATH 256

typedef enum leaf {
    LEAF_FILENAME,
    LEAF_WIDTH,
    LEAF_HEIGHT,
    LEAF_NAME,
    LEAF_DIFFICULT,
    LEAF_XMIN,
    LEAF_YMIN,
    LEAF_XMAX,
    LEAF_YMAX,
    LEAF_COUNT,
} leaf;

static const char *const leaves[LEAF_COUNT] = {
    [LEAF_FILENAME] = "/annotation/filename",
    [LEAF_WIDTH] = "/annotation/size/width",
    [LEAF_HEIGHT] = "/annotation/size/height",
    [LEAF_NAME] = "/annotation/object/name",
    [LEAF_DIFFICULT] = "/annotation/object/difficult",
    [LEAF_XMIN] = "/annotation/object/bndbox/xmin",
    [LEAF_YMIN] = "/annotation/object/bndbox/ymin",
    [LEAF_XMAX] = "/annotation/object/bndbox/xmax",
    [LEAF_YMAX] = "/annotation/object/bndbox/ymax",
};

typedef struct parse {
    XML_Parser xml;
    sr_arena *arena;
    sr_voc *out;
    size_t capacity;
    char path[MAX_PATH];
    size_t ends[MAX_DEPTH]; // length of the path above each element
    int depth;
    char text[MAX_TEXT + 1];
    size_t text_bytes;
    int leaf; // the open one, or -1
    sr_voc_object object;
    unsigned seen; // 1 << leaf, of the open object
    sr_status status;
} parse;

// Stops at the current position with this message.
static void fail(parse *p, const char *fmt, ...) SR_PRINTF(2, 3);
static void fail(parse *p, const char *fmt, ...) {
    char what[256];
    va_list arguments;
    if (p->status != SR_OK)
        return;
    va_start(arguments, fmt);
    (void)vsnprintf(what, sizeof what, fmt, arguments);
    va_end(arguments);
    p->status = SR_FAIL(SR_E_DATA, "%lu:%lu: %s", XML_GetCurrentLineNumber(p->xml),
                        XML_GetCurrentColumnNumber(p->xml) + 1, what);
    (void)XML_StopParser(p->xml, XML_FALSE);
}

static void on_start(void *user, const char *name, const char **attributes) {
    (void)attributes;
    parse *p = user;
    const size_t end = p->depth > 0 ? strlen(p->path) : 0, bytes = strlen(name);
    if (p->depth == MAX_DEPTH || end + bytes + 2 > MAX_PATH) {
        fail(p, "elements nested too deeply");
        return;
    }
    p->ends[p->depth++] = end;
    p->path[end] = '/';
    memcpy(p->path + end + 1, name, bytes + 1);
    if (p->depth == 1 && strcmp(p->path, "/annotation") != 0)
        fail(p, "<%.40s> where <annotation> was expected", name);
    p->leaf = -1;
    p->text_bytes = 0;
    for (int i = 0; i < LEAF_COUNT; i++)
        if (strcmp(p->path, leaves[i]) == 0)
            p->leaf = i;
    if (strcmp(p->path, "/annotation/object") == 0) {
        p->object = (sr_voc_object){0};
        p->seen = 0;
    }
}

static void on_text(void *user, const char *text, int bytes) {
    parse *p = user;
    if (p->leaf < 0)
        return;
    if (p->text_bytes + (size_t)bytes > MAX_TEXT) {
        fail(p, "a text of more than %d bytes", MAX_TEXT);
        return;
    }
    memcpy(p->text + p->text_bytes, text, (size_t)bytes);
    p->text_bytes += (size_t)bytes;
}

static double take_number(parse *p, const char *text) {
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value))
        fail(p, "'%.40s' where a number was expected", text);
    return value;
}

static const char *take_text(parse *p, const char *text) {
    const char *copy = sr_arena_strdup(p->arena, text);
    if (copy == NULL) {
        p->status = SR_E_MEMORY;
        (void)XML_StopParser(p->xml, XML_FALSE);
    }
    return copy;
}

static uint32_t take_side(parse *p, const char *text) {
    const double value = take_number(p, text);
    return value >= 1 && value <= 1 << 24 ? (uint32_t)value : 0;
}

// The text of the leaf that has ended, without surrounding space.
static char *trimmed(parse *p) {
    static const char space[] = " \t\r\n";
    char *text = p->text;
    text[p->text_bytes] = '\0';
    text += strspn(text, space);
    size_t n = strlen(text);
    while (n > 0 && strchr(space, text[n - 1]) != NULL)
        text[--n] = '\0';
    return text;
}

static void take_leaf(parse *p) {
    const char *text = trimmed(p);
    p->seen |= 1u << p->leaf;
    if (p->leaf == LEAF_FILENAME)
        p->out->filename = take_text(p, text);
    else if (p->leaf == LEAF_WIDTH)
        p->out->width = take_side(p, text);
    else if (p->leaf == LEAF_HEIGHT)
        p->out->height = take_side(p, text);
    else if (p->leaf == LEAF_NAME)
        p->object.name = take_text(p, text);
    else if (p->leaf == LEAF_DIFFICULT)
        p->object.difficult = *text != '\0' && take_number(p, text) != 0;
    else
        p->object.box[p->leaf - LEAF_XMIN] = take_number(p, text);
}

static void take_object(parse *p) {
    static const int needed[] = {LEAF_NAME, LEAF_XMIN, LEAF_YMIN, LEAF_XMAX, LEAF_YMAX};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if ((p->seen >> needed[i] & 1) == 0) {
            fail(p, "an object without <%s>", strrchr(leaves[needed[i]], '/') + 1);
            return;
        }
    if (p->object.name != NULL && p->object.name[0] == '\0') {
        fail(p, "an object with an empty name");
        return;
    }
    void *objects = p->out->objects;
    p->status =
        sr_grow(&objects, &p->capacity, p->out->count + 1, sizeof(sr_voc_object), "objects");
    p->out->objects = objects;
    if (p->status == SR_OK)
        p->out->objects[p->out->count++] = p->object;
    else
        (void)XML_StopParser(p->xml, XML_FALSE);
}

static void on_end(void *user, const char *name) {
    (void)name;
    parse *p = user;
    if (p->status != SR_OK)
        return; // expat may call once more after a stop
    if (p->leaf >= 0)
        take_leaf(p);
    else if (strcmp(p->path, "/annotation/object") == 0)
        take_object(p);
    p->leaf = -1;
    p->path[p->ends[--p->depth]] = '\0';
}

static void on_doctype(void *user, const char *name, const char *system, const char *public,
                       int internal) {
    (void)name, (void)system, (void)public, (void)internal;
    fail(user, "a document type, which VOC annotations do not have");
}

bool sr_voc_is_xml(const uint8_t *head, size_t bytes) {
    size_t at = bytes >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < bytes &&
           (head[at] == ' ' || head[at] == '\t' || head[at] == '\r' || head[at] == '\n'))
        at++;
    return bytes - at >= 11 &&
           (memcmp(head + at, "<?xml", 5) == 0 || memcmp(head + at, "<annotation", 11) == 0);
}

sr_status sr_voc_parse(const void *text, size_t bytes, sr_arena *arena, sr_voc *out) {
    sr_voc voc = {.filename = ""};
    parse p = {.xml = XML_ParserCreate(NULL), .arena = arena, .out = &voc, .leaf = -1};
    if (p.xml == NULL)
        return SR_FAIL(SR_E_MEMORY, "out of memory for reading XML");
    XML_SetUserData(p.xml, &p);
    XML_SetElementHandler(p.xml, on_start, on_end);
    XML_SetCharacterDataHandler(p.xml, on_text);
    XML_SetStartDoctypeDeclHandler(p.xml, on_doctype);
    if (bytes > SR_VOC_MAX_BYTES)
        p.status = SR_FAIL(SR_E_LIMIT, "%zu MiB of XML", bytes >> 20);
    else if (XML_Parse(p.xml, text, (int)bytes, XML_TRUE) != XML_STATUS_OK && p.status == SR_OK)
        p.status = SR_FAIL(SR_E_DATA, "%lu:%lu: %s", XML_GetCurrentLineNumber(p.xml),
                           XML_GetCurrentColumnNumber(p.xml) + 1,
                           XML_ErrorString(XML_GetErrorCode(p.xml)));
    XML_ParserFree(p.xml);
    if (p.status != SR_OK) {
        sr_free(voc.objects);
        return p.status;
    }
    *out = voc;
    return SR_OK;
}
