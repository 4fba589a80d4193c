// SPDX-License-Identifier: Apache-2.0
// Shared by the files recipe*.c: the tree of a recipe, with the source position of every node.
#ifndef SR_TRAINER_RECIPE_INTERNAL_H
#define SR_TRAINER_RECIPE_INTERNAL_H

#include <stdarg.h>

#include "trainer/recipe/recipe.h"

#define SR_RECIPE_MAX_BYTES ((size_t)1 << 20) // of a file, and of a recipe with all its bases
#define SR_RECIPE_MAX_DEPTH 32
#define SR_RECIPE_MAX_KEYS 1000   // of one map
#define SR_RECIPE_MAX_NODES 50000 // of a recipe with all its bases
#define SR_RECIPE_MAX_BASES 64    // in all; one that is reached in two ways counts twice
#define SR_RECIPE_MAX_CHAIN 16    // of bases, each based on the next
#define SR_RECIPE_MAX_PHASES 16
#define SR_RECIPE_MAX_COLUMN 40    // characters of a name that a column of metrics.csv contains
#define SR_RECIPE_MAX_REPORT 1900  // bytes, so that a report fits into an error message
#define SR_RECIPE_MAX_MISTAKES 100 // kept
#define SR_RECIPE_MAX_PATH 256     // bytes of a dotted path

// A text that nodes were parsed from: a file, or one override.
typedef struct sr_recipe_source {
    const char *name;  // for messages: path as opened, or "command line"
    const char *label; // for origins: the file's last name, or "command line"
    const char *text;  // all of it, terminated
    bool is_override;  // its positions are printed without line and column
    int order;         // of opening, by which mistakes are sorted
} sr_recipe_source;

typedef struct sr_recipe_position {
    const sr_recipe_source *source; // NULL: not written in any source
    int line, column;               // from 0; column in characters
} sr_recipe_position;

typedef enum sr_recipe_node_kind {
    SR_RECIPE_NODE_TEXT = 0,
    SR_RECIPE_NODE_MAP,
    SR_RECIPE_NODE_LIST,
} sr_recipe_node_kind;

typedef struct sr_recipe_node {
    sr_recipe_node_kind kind;
    const char *key;       // inside a map, else NULL
    const char *text;      // SR_RECIPE_NODE_TEXT; NULL: a known key without a value (resolved tree)
    const char *counts_as; // text for the identity if it differs from 'text'
    struct sr_recipe_node *first, *last, *next;
    int count;      // children
    bool plain;     // text without quotes
    bool verbatim;  // text that is already YAML, as "[1, 2]"
    bool used;      // some reader knows it (while resolving)
    bool scaled;    // from a base's, with the image: no layer has written it
    bool over_list; // a map without a name, which took the place of a base's list
    bool reshaped;  // one side, scaled to pictures of another shape (recipe_eval.c)
    sr_option_class option_class;
    const char *note; // where the value comes from if it was not written, as "default"
    sr_recipe_position at, key_at;
} sr_recipe_node;

typedef struct sr_mistake {
    sr_recipe_position at;
    const char *message;
    struct sr_mistake *next;
} sr_mistake;

// Filled by the recipe's own table: the public struct, and raw values that fields of it are derived
// from.
typedef struct sr_recipe_values {
    sr_recipe recipe;
    sr_int_list raw_image, raw_resize, raw_crop; // one side, or height and width
    int64_t raw_processes;
    const char *raw_on_corrupt, *raw_profile, *raw_sync_bn;
    sr_string_list raw_every;
} sr_recipe_values;

// The recipe and everything that it owns.
typedef struct sr_recipe_internal {
    sr_recipe_values v;
    const char *name, *file;
    sr_arena arena;
    int sources;
    int bases, nodes;   // read so far
    size_t bytes;       // of all files
    bool out_of_memory; // where it could not be returned; the verdict reports it
    bool base_missing;  // a base could not be read: keys that are missing may be in it
    int mistakes;
    sr_mistake *first_mistake;  // in the order of the sources
    sr_recipe_node *written;    // merged from bases, file and overrides
    sr_recipe_node *resolved;   // with defaults, in the order of printing
    const char **plugin_hashes; // of recipe.plugins
    bool plugins_loaded;
} sr_recipe_internal;

// recipe_report.c
void sr_recipe_mistake(sr_recipe_internal *in, sr_recipe_position at, const char *fmt, ...)
    SR_PRINTF(3, 4);
// SR_E_USAGE with the whole report if there was a mistake, else SR_OK.
SR_NODISCARD sr_status sr_recipe_verdict(const sr_recipe_internal *in);

// recipe_hints.c: ends of messages, in the arena; "" where there is nothing to suggest.
// "; did you mean 'x'?" for a word close to a candidate, or PyTorch's or timm's for it.
const char *sr_recipe_hint(sr_recipe_internal *in, const char *word, const char *const *candidates,
                           size_t count);
// The same for a key of the section 'prefix' ("", "data."): one of its own keys, or another's.
const char *sr_recipe_hint_at_key(sr_recipe_internal *in, const char *prefix, const char *key);
// A key of any section that ends in this name.
const char *sr_recipe_hint_elsewhere(sr_recipe_internal *in, const char *key);
// "; there are a, b", whose names begin with the word.
const char *sr_recipe_hint_at_beginning(sr_recipe_internal *in, const char *word,
                                        const char *const *names, size_t count);
// "; available: a, b", or those that begin like the word, and the command that lists all. what: of
// what kind they are, as "model".
const char *sr_recipe_hint_at_list(sr_recipe_internal *in, const char *what, const char *word,
                                   const char *const *names, size_t count);

// recipe_parse.c
// YAML to nodes. column: at which the text begins in its source (overrides).
SR_NODISCARD sr_status sr_recipe_node_parse(sr_recipe_internal *in, const sr_recipe_source *source,
                                            const char *text, size_t length, int column,
                                            sr_recipe_node **out);

// recipe_tree.c
sr_recipe_node *sr_recipe_node_new(sr_recipe_internal *in, sr_recipe_node_kind kind,
                                   const char *key, sr_recipe_position at);
void sr_recipe_node_append(sr_recipe_node *parent, sr_recipe_node *child);
void sr_recipe_node_remove(sr_recipe_node *parent, const char *key);
sr_recipe_node *sr_recipe_node_child(const sr_recipe_node *map, const char *key);
// The node at "a.b[2].c" below a root, or NULL.
sr_recipe_node *sr_recipe_node_find(sr_recipe_node *root, const char *path);
bool sr_recipe_node_is_null(const sr_recipe_node *node);
// Text and lists of text as an option table reads them: "x", "[a, b]". NULL for anything else.
const char *sr_recipe_node_value(sr_recipe_internal *in, const sr_recipe_node *node);
// Writes `optimizer: sgd` as `optimizer: {name: sgd}`, and `ema: 0.99` as `ema: {decay: 0.99}`.
SR_NODISCARD sr_status sr_recipe_node_normalise(sr_recipe_internal *in, sr_recipe_node *root);
// Merges 'over' into 'base' (both maps). The nodes of 'over' move.
void sr_recipe_node_merge(sr_recipe_node *base, sr_recipe_node *over);
// A copy with all children; NULL if out of memory.
sr_recipe_node *sr_recipe_node_copy(sr_recipe_internal *in, const sr_recipe_node *node);
// Is this the key of a choice (model, optimizer, schedule, loss)?
bool sr_recipe_node_is_choice(const char *key);
// Whether it is one that each phase can have.
bool sr_recipe_node_is_phase_choice(const char *key);
// Turns the text node into a map that contains it under 'key'.
SR_NODISCARD sr_status sr_recipe_node_wrap(sr_recipe_internal *in, sr_recipe_node *node,
                                           const char *key);

#define SR_RECIPE_TASK "classify" // of recipes that name none

// recipe_layers.c
// File, its bases and overrides, merged into in->written.
SR_NODISCARD sr_status sr_recipe_read(sr_recipe_internal *in, const char *name_or_path,
                                      const char *const *overrides, int count);
// The same of a text in memory, which is a map without bases.
SR_NODISCARD sr_status sr_recipe_read_text(sr_recipe_internal *in, const char *name,
                                           const char *text, const char *const *overrides,
                                           int count);

// recipe_eval.c
// If a layer changes the image size but not a size of evaluation, the latter scales in proportion.
void sr_recipe_scale_evaluation(sr_recipe_internal *in, sr_recipe_node *below,
                                sr_recipe_node *layer);
// recipe.eval from the rows of the table and the image size.
void sr_recipe_read_evaluation(sr_recipe_internal *in);
// recipe_lengths.c
// Before 'layer' is merged into it: 'below' gets the lengths that it has in a run of the layer's
// length.
void sr_recipe_scale_lengths(sr_recipe_internal *in, sr_recipe_node *below,
                             const sr_recipe_node *layer);

// recipe_files.c
// Path of a shipped recipe in the arena; *out is NULL if there is none.
SR_NODISCARD sr_status sr_recipe_shipped(sr_arena *arena, const char *name, const char **out);

// recipe_keys.c
// Does the recipe itself read 'key' in this kind of section?
bool sr_recipe_knows(const char *section_path, const char *key);

// recipe_options.c
// Sets *options to its defaults, reads all rows of a table from the map 'written' (may be NULL)
// into it, and puts a node for each row into the map 'resolved'. Nodes that were read become
// 'used'.
SR_NODISCARD sr_status sr_recipe_read_table(sr_recipe_internal *in, const sr_option_table *table,
                                            void *options, sr_recipe_node *written,
                                            sr_recipe_node *resolved);

// recipe_format.c
// printf into the arena; "" and in->out_of_memory if out of memory.
const char *sr_recipe_format(sr_recipe_internal *in, const char *fmt, ...) SR_PRINTF(2, 3);
const char *sr_recipe_format_list(sr_recipe_internal *in, const char *fmt, va_list args)
    SR_PRINTF(2, 0);

// recipe_sections.c
// Phases and augment, from in->written to in->recipe and in->resolved.
SR_NODISCARD sr_status sr_recipe_read_sections(sr_recipe_internal *in);

#endif
