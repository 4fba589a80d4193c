// SPDX-License-Identifier: Apache-2.0
// A recipe: what to train, on which data and how. A YAML file in, one plain struct with all
// defaults resolved out.
//
// The language is a subset of YAML: maps, lists and text. No anchors, aliases, tags, merge keys or
// second documents; at most 32 levels; a key occurs once in its map. A recipe and its bases have at
// most 1 MiB, and there are at most 64 bases: recipes of a few lines must not name the same base
// again and again, until memory is out. The type of a text
// is that of the key's row in an option table (kernels/base/options.h) and is never guessed: `no`
// is text where the option is text. `key:` without a value (or with null, ~) removes what a base
// set.
//
//   base: resnet50            # or a list; from this file's folder, else a shipped recipe
//   batch: 512
//   optimizer: {name: sgd, lr: 0.1, lr_per: 256, momentum: 0.9}
//
// Inheritance and overrides merge maps key by key and replace lists and text as a whole. A section
// that is a choice (model, optimizer, schedule, loss: a name, or a map with `name`) takes nothing
// from its base if it names something else. A loss may also be a list of such choices. A recipe
// with `phases: {G: {...}, D: {...}}` trains several parameter sets, each with its own model,
// optimizer and schedule; a phase takes what it leaves out from the top level. `set` of a phase
// names the set that it trains, by default one of the phase's name; model, optimizer and schedule
// of a set are those of its first phase.
//
// The options of an optimiser, schedule, loss, model or transform are not known here: its
// descriptor's option table reads them through sr_recipe_options_parse, so that a new optimiser
// needs no change in this file.
//
// Every mistake is reported as "recipe.yaml:6:1: error: unknown key 'optimzier'; did you mean
// 'optimizer'?", followed by the line and a caret; all mistakes that can be found are listed at
// once. Such failures are SR_E_USAGE and their message needs no prefix.
#ifndef SR_TRAINER_RECIPE_H
#define SR_TRAINER_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/base/options.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sr_transform_spec;

// How activations are stored; parameters are always fp32.
typedef enum sr_precision {
    SR_PRECISION_FP32 = 0,
    SR_PRECISION_BF16,
    SR_PRECISION_FP16, // with loss scaling
} sr_precision;

// Whether cheap values are recomputed in the backward pass.
typedef enum sr_recompute {
    SR_RECOMPUTE_AUTO = 0, // on CPUs, and on GPUs whose memory would not suffice
    SR_RECOMPUTE_ALWAYS,
    SR_RECOMPUTE_NEVER,
} sr_recompute;

// Whether training pictures stay in the device's memory, where they can.
typedef enum sr_resident_choice {
    SR_RESIDENT_AUTO = 0, // on GPUs, where they take a small part of it
    SR_RESIDENT_ALWAYS,
    SR_RESIDENT_NEVER,
} sr_resident_choice;

// Whether the fastest algorithm is chosen.
typedef enum sr_chooser {
    SR_CHOOSER_ON = 0, // candidates are timed within a numerics class: the same bits
    SR_CHOOSER_OFF,    // every kernel's default, nothing is timed
    SR_CHOOSER_CLASS,  // old name of SR_CHOOSER_ON
} sr_chooser;

// A named alternative and the path of its options.
typedef struct sr_recipe_choice {
    const char *name; // NULL: left to the task
    const char *path; // for sr_recipe_options_parse and sr_recipe_fail, as "phases.G.optimizer"
} sr_recipe_choice;

// Parameters with settings of their own; the first group that matches a tensor applies.
typedef struct sr_recipe_group {
    sr_string_list match; // patterns of param_groups.c
    double lr_scale;      // of the learning rate; default 1
    double decay_scale;   // of the weight decay; default 1
    bool frozen;          // not updated at all
    bool elementwise;     // not as matrices, by an optimizer that updates weights as such (muon)
    sr_length until;      // updated until then; 0: always
} sr_recipe_group;

// The part of the run in which something is done, as a length from its start.
typedef struct sr_recipe_span {
    sr_length from, until; // until 0: to the end
} sr_recipe_span;

// The optimizer section of a set.
typedef struct sr_recipe_optimizer {
    sr_recipe_choice choice;
    double lr;       // absolute: lr_per is already applied
    double lr_given; // as written
    double lr_per;   // batch size that lr_given is meant for; 0: absolute
    double weight_decay;
    double clip_norm, clip_value; // of gradients, at most one of them; 0: no limit
    sr_string_list no_decay;      // patterns as those of groups: their weight decay is 0
    double layer_decay;           // factor of the learning rate for each layer before the last
    const sr_recipe_group *groups;
    int group_count;
} sr_recipe_optimizer;

// The schedule section of a set.
typedef struct sr_recipe_schedule {
    sr_recipe_choice choice;
    sr_length warmup;    // linear, from warmup_start * lr to lr; 0: none
    double warmup_start; // factor, 0..1
} sr_recipe_schedule;

// A parameter set: a model with its optimiser and schedule. Most recipes have one, with name "".
typedef struct sr_recipe_set {
    const char *name; // its tensors get the prefix "NAME." unless it is empty
    sr_recipe_choice model;
    sr_recipe_optimizer optimizer;
    sr_recipe_schedule schedule;
} sr_recipe_set;

// A loss, or one of a list, which are added.
typedef struct sr_recipe_loss {
    sr_recipe_choice choice;
    double weight;
    const char *name; // that it is logged by; NULL: it is not in a list
} sr_recipe_loss;

// A phase of a step, which trains one set. Most recipes have one, with name "".
typedef struct sr_recipe_phase {
    const char *name, *set_name;
    int64_t every; // it runs in steps whose number is a multiple; 0: left to the task
    int set;       // index of the set
    const sr_recipe_loss *losses;
    int loss_count; // one or more
} sr_recipe_phase;

// A safetensors file to start from.
typedef struct sr_recipe_weights {
    const char *part; // of the model that it is of, as "backbone" or "G.backbone"; NULL: the whole
    const char *path; // relative to the working directory
    const char *key;  // of the recipe, as "weights.backbone"
} sr_recipe_weights;

// A resolved recipe. Immutable except for sr_recipe_options_parse; owns all its memory.
typedef struct sr_recipe {
    // 'name' is the file's name without folder and ending.
    const char *name, *file; // file: as opened; also the folder that 'plugins' are looked up in
    const char *about;       // one line for `recipe list`; NULL if there is none

    sr_recipe_choice task;         // what the model learns to do
    const sr_recipe_phase *phases; // one or more
    const sr_recipe_set *sets;     // one or more, in the order in which phases first name them
    int phase_count, set_count;
    sr_recipe_weights *weights; // to start from
    int weights_count;
    sr_string_list weights_reset;

    struct {
        const char *train, *val;  // data set folder or shards; NULL if not given
        int64_t workers;          // DataTransformer processes per rank; 0: one per core
        int64_t memory;           // bytes of the rings per rank; 0: 256 MiB
        bool threads;             // data.processes: 0
        int resident;             // sr_resident_choice
        int on_corrupt;           // sr_on_corrupt
        int64_t skip_limit;       // of on_corrupt: skip:N
        int order;                // sr_data_order
        int64_t repeats;          // copies of each sample in a batch
        int64_t boxes_per_sample; // most boxes of a picture after its transforms
        double balance;           // power of class frequencies that draws make up for; 0: none
        sr_float_list mean, std;  // 0..1 scale, of red, green, blue
    } data;
    int64_t image_height, image_width; // of training images after all transforms
    struct {
        int64_t from, step;   // sides; from 0: images have their size from the start
        sr_length begin, end; // of the growth
    } progressive;            // of square images
    int64_t batch;            // global
    int64_t lanes;            // if not given: a power of two
    int recompute;            // sr_recompute
    int64_t lanes_at_once;    // that a GPU computes side by side, at most; 0: all
    int64_t sync_bn;          // lanes that share batch statistics; 1: each has its own
    double epochs;            // 0 if the length is given in steps
    int64_t steps;            // 0 if the length is given in epochs
    int64_t seed;
    int precision; // sr_precision
    struct {
        double initial; // power of two or not
        int64_t every;  // steps without overflow after which it doubles; 0: constant
    } loss_scale;       // of fp16
    bool numerics_portable, numerics_strict, numerics_tf32;
    const char *device; // "auto", or a name of the device table

    const struct sr_transform_spec *augment; // of training, in order
    const sr_recipe_span *augment_spans;     // of each
    int augment_count;
    struct {
        double mixup, cutmix; // alpha; 0: none
        double probability;   // that a lane's samples are mixed in a step
        sr_length until;      // mixed until then; 0: to the end
    } mix;                    // of training samples, after the transforms

    struct {
        int64_t resize_height, resize_width; // before the crop; width 0: height is that of the
                                             // shorter side, or if it is 0, pictures stay as is
        int64_t crop_height, crop_width;     // of the model's input; 0: whole pictures
        int filter;                          // sr_resize_filter
        bool exact;                          // without scaled decoding
        int64_t batch;
        int64_t every; // epochs
        bool flip;     // average over the picture and its mirror image
        int64_t shift; // and over copies that are moved by so many pixels
    } eval;            // eval_view.h is how pictures are prepared
    struct {
        double decay;        // 0: no EMA
        int64_t every;       // steps between its updates
        sr_length warmup;    // until then the decay grows as (1 + n) / (10 + n)
        bool lookahead;      // each update sets the parameters to the average
        bool buffers;        // running statistics are averaged, too
        sr_string_list sets; // that are averaged; none: left to the task
    } ema;
    struct {
        int64_t bucket; // bytes; 0: the exchange's default
    } exchange;
    struct {
        sr_length every; // 0: not by progress
        double seconds;  // 0: not by time
        int64_t keep;
        const char *metric; // that selects best/; NULL: the task's default
    } checkpoint;
    struct {
        const char *metric;               // NULL: that of checkpoint.metric
        int64_t patience;                 // evaluations; 0: the run has its full length
    } stop;                               // of a run that gets no better
    int chooser;                          // sr_chooser
    int64_t chooser_workspace;            // bytes
    double deadline_report, deadline_act; // seconds
    sr_string_list plugins;
    bool debug_nan;                     // values that are not finite end the step that makes them
    int64_t profile_begin, profile_end; // steps [begin, end) are traced; equal: none

    struct sr_recipe_internal *internal; // the resolved tree, its sources and all memory
} sr_recipe;

// Loads a recipe by path (a name with '/' or ending in .yaml) or by the name of a shipped one, and
// applies "key=value" overrides (dotted keys; values as in YAML, [..] and {..} included; of epochs
// and steps the one that is given removes the other). Everything is resolved except what needs
// descriptors. Errors: SR_E_USAGE with every mistake found; SR_E_NOT_FOUND naming the nearest
// recipe; SR_E_IO. Warnings go to the log.
SR_NODISCARD sr_status sr_recipe_load(const char *name_or_path, const char *const *overrides,
                                      int override_count, sr_recipe **out);
// A recipe that trains a model by its name, with usual settings: classification of 224-pixel
// pictures, one sample in one lane. For reports about models. The overrides as above.
SR_NODISCARD sr_status sr_recipe_for_model(const char *model, const char *const *overrides,
                                           int override_count, sr_recipe **out);
// NULL is legal. Everything borrowed from the recipe becomes invalid.
void sr_recipe_free(sr_recipe *recipe);

// Reads the options of the section at 'path' ("optimizer", "phases.G.loss[1]", "augment[2]") into
// *options, with defaults for the rest, and adds them to the resolved recipe, so that identity and
// printing include them. Keys that the recipe itself reads there (name; optimizer lr, lr_per,
// weight_decay, clip_norm, clip_value, no_decay, layer_decay, groups; schedule warmup,
// warmup_start; loss[1] weight, as) are skipped unless the table has them. Strings live as long as
// the recipe. SR_E_USAGE: unknown key, wrong type or out of range, with all mistakes reported so
// far in this recipe, each with its position.
SR_NODISCARD sr_status sr_recipe_options_parse(sr_recipe *recipe, const char *path,
                                               const sr_option_table *table, void *options);

// The index of a chosen name among 'names', for a section's `name` (or a plain key such as
// "device"). SR_E_USAGE: "unknown optimizer 'sdg'; did you mean 'sgd'?", where 'what' is
// "optimizer".
SR_NODISCARD sr_status sr_recipe_choose(sr_recipe *recipe, const char *path, const char *what,
                                        const char *const *names, int count, int *index);

// Reports a mistake at the value of 'path' (or at its nearest parent that was written; without a
// position if there is none) and returns SR_E_USAGE with it:
//   return sr_recipe_fail(recipe, "lanes", "batch 256 has 8 lanes, so at most 8 ranks; ...");
sr_status sr_recipe_fail(sr_recipe *recipe, const char *path, const char *fmt, ...) SR_PRINTF(3, 4);

// Paths of data and weights that are relative and were not given on the command line are those of
// 'folder' from now on; one that does not exist there stays as it is.
SR_NODISCARD sr_status sr_recipe_use_folder(sr_recipe *recipe, const char *folder);
// Settles the section `eval` for a task, which evaluates whole pictures or crops of one size: whole
// ones keep their size unless the recipe resizes them. SR_E_USAGE where the recipe says otherwise.
SR_NODISCARD sr_status sr_recipe_use_whole_pictures(sr_recipe *recipe, bool whole,
                                                    const char *task);
// Whether the value of a key comes from the command line.
bool sr_recipe_is_override(const sr_recipe *recipe, const char *path);

// Resolved text of one key, or NULL if it has none. Valid while the recipe lives.
const char *sr_recipe_get(const sr_recipe *recipe, const char *path);

// The resolved recipe as YAML that loads again with the same identity. With origins, each line ends
// in a comment that says where its value comes from ("cifar10.yaml:7", "command line", "default").
SR_NODISCARD sr_status sr_recipe_print_yaml(const sr_recipe *recipe, bool origins, sr_text *out);
// The same as one JSON object and a newline; keys without a value are null.
SR_NODISCARD sr_status sr_recipe_print_json(const sr_recipe *recipe, sr_text *out);

// SHA-256 over every option whose table row says numerics, the content of all 'weights' and the
// content identity of the data set. Never over ranks, paths, workers, buckets, budgets or
// deadlines. Options of descriptors are included once sr_recipe_options_parse has read them: parse
// all first.
SR_NODISCARD sr_status sr_recipe_identity(const sr_recipe *recipe, const char *data_identity,
                                          char hex[65]);

// The same as computed before the keys of evaluation, which change nothing that is trained, became
// neutral: runs of then have it.
SR_NODISCARD sr_status sr_recipe_identity_with_eval(const sr_recipe *recipe,
                                                    const char *data_identity, char hex[65]);

// Adds a line "key=value" for every key in which the ranks of a job must not differ: all that have
// a value but paths, whose content is compared otherwise, and what is adapted to a host.
void sr_recipe_add_shared(const sr_recipe *recipe, sr_text *out);

// The keys that the recipe itself reads, for listings, completion and the manual.
const sr_option_table *sr_recipe_keys(void);           // whole recipe, dotted
const sr_option_table *sr_recipe_optimizer_keys(void); // inside any optimizer section
const sr_option_table *sr_recipe_schedule_keys(void);  // inside any schedule section
const sr_option_table *sr_recipe_group_keys(void);     // inside an item of optimizer.groups
const sr_option_table *sr_recipe_phase_keys(void);     // inside any phase
const sr_option_table *sr_recipe_loss_keys(void);      // inside an item of a list of losses
const sr_option_table *sr_recipe_transform_keys(void); // inside the options of any transform

// A key whose value is not the text of one option: a choice, a list of maps, a map of phases.
typedef struct sr_recipe_section {
    const char *name;          // dotted, as "optimizer.groups"
    const char *type;          // what its value may be, as "list of maps"
    const char *default_value; // NULL: none
    const char *help;          // one line, no full stop
    sr_option_class option_class;
} sr_recipe_section;
// All of them, in the usual order of a recipe. Static storage.
const sr_recipe_section *sr_recipe_sections(size_t *count);

// Shipped recipes: found in SERRIED_RECIPES (folders separated by ':'), else next to the library or
// the command (build tree), else in the installation's share/serried/recipes.
typedef struct sr_recipe_listing {
    const char *name, *path, *about; // about: "" if the file has none
} sr_recipe_listing;
// Sorted by the bytes of their names; memory from the arena.
SR_NODISCARD sr_status sr_recipe_list(sr_arena *arena, sr_recipe_listing **items, int *count);

#ifdef __cplusplus
}
#endif
#endif
