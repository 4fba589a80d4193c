// SPDX-License-Identifier: Apache-2.0
// Kernels: their arguments, how they are split into blocks, and the table that lists them.
//
// A kernel sees pointers, sizes, small plain structs and a worker, but no tensors, plans or
// threads. It is *prepared* once for a shape (allocates, builds library primitives) and then *run*
// many times (allocates nothing). A run consists of up to SR_KERNEL_STAGES stages; a stage is a
// fixed number of independent blocks, each of which runs on one thread. The partition into blocks
// depends only on the request (and the variant), never on the number of threads; a later stage
// combines partial sums through a fixed tree. So the bits are the same whether the executor runs
// the blocks on one thread or on many.
//
// This rule of blocks makes results independent of the numbers of threads and ranks. It applies to
// kernels of plug-ins, too: 'blocks' and the ranges of a block follow from shapes, dtypes and
// params, and each element is written by only one block of a stage. A kernel must not read a clock,
// use random numbers other than those from its arguments, or call a libm function whose bits depend
// on its version (kernels/base/math.h has its own).
//
// Providers ("reference", "x86", "onednn") fill the table in the order of provider_list.def; a
// module's providers are appended when it is opened (kernels/device/module.h). A request is served
// by the last provider for its kind of device that supports it in a numerics class of its own,
// unless the entry of an earlier provider outranks it. If there is none, the last provider that
// supports it in class "reference" serves it. Within the class the chooser takes the kernel that it
// measured to be fastest. With portable numerics only class "reference" is used: any device can
// follow its order of sums, so results are the same on all of them. If no entry serves a request,
// making the plan fails; there is no silent fallback to another device or dtype.
#ifndef SR_KERNELS_KERNEL_H
#define SR_KERNELS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/dtype.h"
#include "kernels/base/status.h"
#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_KERNEL_ABI 8            // version of the structs below
#define SR_KERNEL_MAX_ARGS 16      // tensors of one kernel
#define SR_KERNEL_STAGES 4         // of one run
#define SR_KERNEL_PARAMS_BYTES 192 // of a kernel's parameters
#define SR_KERNEL_LANE_ALIGN 64    // bytes: of the arguments of lanes that are apart

// The numerics class of portable numerics.
#define SR_KERNEL_REFERENCE "reference"

// What a kernel computes: a row of kernel_list.def.
typedef enum sr_kernel_id {
// One enumerator for each row; the macro ends with the list.
#define SR_KERNEL(id, params, doc, ...) SR_KERNEL_##id,
#include "kernels/kernel_list.def"
#undef SR_KERNEL
    SR_KERNEL_COUNT,
    SR_KERNEL_OWN = 0x10000 // not in the list: the operator has its own kernels (sr_op.kernels)
} sr_kernel_id;

// The dtypes that an argument may have.
typedef enum sr_argument_type {
    SR_ARG_T,    // activation: f32, bf16, f16 or f64, the same for all T of a request
    SR_ARG_P,    // parameter: f64 where T is f64, else f32
    SR_ARG_F32,  // f32
    SR_ARG_F64,  // f64
    SR_ARG_I32,  // i32
    SR_ARG_U8,   // u8
    SR_ARG_ANY,  // any dtype
    SR_ARG_CAST, // f32, bf16, f16, f64, i32, u8, or the dtype of the first argument
} sr_argument_type;

// What a kernel does with an argument.
typedef enum sr_argument_role {
    SR_ARG_IN,      // reads it
    SR_ARG_OPT,     // reads it where it is present
    SR_ARG_OUT,     // writes it
    SR_ARG_UPD,     // reads it and writes it in place
    SR_ARG_OPT_OUT, // writes it where it is present
} sr_argument_role;

// Whether the argument is a result: written, and not read.
static inline bool sr_argument_is_result(sr_argument_role role) {
    return role == SR_ARG_OUT || role == SR_ARG_OPT_OUT;
}

// An argument of a kernel, as in kernel_list.def.
typedef struct sr_kernel_argument {
    const char *name; // "x"
    sr_argument_type type;
    sr_argument_role role;
} sr_kernel_argument;

// One thread of the team that runs a launch.
typedef struct sr_worker {
    int index;     // 0 .. team - 1
    void *scratch; // at least the prepared kernel's 'scratch' bytes, 64-byte aligned, contents
                   // undefined
} sr_worker;

// What an operator asks for. Arguments are in the order of the kernel's row in kernel_list.def;
// an absent optional one has dtype SR_DTYPE_COUNT and a NULL pointer. Requests are compared as
// bytes.
typedef struct sr_kernel_request {
    sr_device_kind device; // whose kernels are asked for
    sr_kernel_id kernel;
    int args;
    uint16_t lanes;    // 0: of one; else see kernels/kernel_lanes.h
    uint16_t per_lane; // with lanes: bit i: each of them has an argument i of its own
    uint16_t apart;    // of per_lane, bit i: those begin SR_KERNEL_LANE_ALIGN bytes apart, or a
                       // multiple; otherwise they are behind each other
    uint16_t reserved[3];
    sr_dtype dtype[SR_KERNEL_MAX_ARGS];
    uint64_t
        params[SR_KERNEL_PARAMS_BYTES / 8]; // the kernel's struct of kernel_params.h, then zeros
    const struct sr_kernel_entry *own;      // [own_count] where kernel is SR_KERNEL_OWN
    size_t own_count;
} sr_kernel_request;

// What one run is given.
typedef struct sr_kernel_args {
    void *const *p;     // one pointer per argument of the request, 64-byte aligned
    const void *params; // of the request
    void *state;        // of prepare
    void *workspace;    // shared by the stages and blocks of one run, 64-byte aligned, undefined
    int64_t block_rows; // of the running stage, see sr_kernel_stage
} sr_kernel_args;

// Runs one block of one stage.
typedef sr_status (*sr_kernel_fn)(const sr_kernel_args *args, int64_t block, sr_worker *worker);

// A number of independent blocks, which run when the previous stage is complete.
//
// A stage may declare that its blocks stream over arguments in order (zeros declare nothing and are
// always valid). An argument in 'streams' is divided into 'rows' equal rows, and block b reads and
// writes only the rows [b * block_rows, (b + 1) * block_rows). Stages of several kernels that
// stream over the same rows then run block by block, while the rows are in cache
// (graph/pass_chain.c). With a granule, the caller may choose another block size, any multiple of
// the granule, and pass it in sr_kernel_args.block_rows; the bits are the same.
typedef struct sr_kernel_stage {
    sr_kernel_fn run;
    int64_t blocks;
    int64_t rows, block_rows, granule;
    uint32_t streams; // bit i: the blocks stream over argument i
    uint32_t leaves;  // bit i: argument i is not touched
} sr_kernel_stage;

// What a kernel makes of an argument before it computes, such as weights of another type or in
// another order. It lies at the end of the kernel's workspace, unless the caller gives it memory of
// its own. Then it lasts: kernels whose packings have equal layouts and bytes may take one that
// another of them has made of the same argument.
typedef struct sr_kernel_packing {
    size_t bytes; // 0: the kernel packs nothing
    int argument;
    uint64_t layout;
} sr_kernel_packing;

// What a launch is given.
typedef struct sr_kernel_launch {
    const sr_address *p; // one address per argument of the request
    const void *params;  // of the request
    void *state;         // of prepare
    sr_address workspace;
    sr_address packed; // memory for the packed argument, which the workspace then ends before; none
    bool is_packed;    // it is there already
    void *stream;      // the device's native type, such as cudaStream_t
} sr_kernel_launch;

// A kernel made ready for one request; runs any number of times. On a CPU it has stages, on other
// devices a launch.
typedef struct sr_prepared {
    int stages;
    sr_kernel_stage stage[SR_KERNEL_STAGES];
    // Enqueues the kernel. How it is divided depends only on the request, as with blocks.
    sr_status (*launch)(const sr_kernel_launch *launch);
    size_t workspace;          // bytes
    sr_kernel_packing packing; // of a launch; a part of the workspace
    size_t scratch;            // bytes per worker of a CPU
    void *state;               // immutable while running: several threads run blocks at once
    void (*state_free)(void *state);
    const struct sr_kernel_entry *entry; // this and the next are filled by sr_kernel_prepare
    uint64_t number;                     // that no other has in this process, from 1
    int variant;                         // of the entry; set before the entry's 'prepare'
} sr_prepared;

// Names the work in messages, as "model.c:12: conv2d".
typedef struct sr_kernel_site {
    const char *what; // the operator; NULL: the entry's name
    const char *file; // of model code; NULL: none
    int line;
} sr_kernel_site;

// A prepared kernel with its arguments, for sr_stream_launch (kernels/device/stream.h).
typedef struct sr_kernel_call {
    const sr_prepared *prepared;      // both stay valid until the kernel has run
    const sr_kernel_request *request; //
    const sr_address *p;              // one address per argument; copied
    sr_address workspace;
    sr_address packed; // as in sr_kernel_launch
    bool is_packed;    //
    sr_kernel_site site;
} sr_kernel_call;

// One row of the table. In place: a kernel whose documentation allows output == input must work
// with p[output] == p[input].
typedef struct sr_kernel_entry {
    uint32_t struct_size, abi;
    sr_kernel_id kernel;
    const char *name;     // "conv2d/onednn"
    const char *provider; // "onednn"
    // Blocking and accumulation order, as "onednn-direct-f32": entries of one class give the same
    // bits for every request that both support. SR_KERNEL_REFERENCE: the bits of the reference; for
    // an operator's own kernels, plain IEEE arithmetic in an order that any processor can follow.
    const char *numerics_class;
    // Whether this entry can serve the request on this processor; must be cheap.
    bool (*supports)(const sr_kernel_request *request);
    // Fills *out, which is zeroed except for the variant. Errors name what is missing.
    sr_status (*prepare)(const sr_kernel_request *request, sr_prepared *out);
    // For listings; supports() decides.
    const char *dtypes; // of activations, as "f32 bf16"; NULL: unspecified
    uint32_t needs;     // device features, for a CPU the bits of kernels/base/cpuid.h; 0: none
    bool outranks;      // serves a request even if a later provider supports it, too
    // Names of further ways to prepare a request, NULL after the last; NULL: none. Variant 0 is the
    // default, variant i is variants[i - 1]. All give the same bits for every request: a variant
    // may use other blocks, passes or memory, but must not change any sum. The chooser measures
    // which one is fastest (kernels/chooser.h). 'prepare' returns SR_E_UNSUPPORTED if this request
    // has no such variant.
    const char *const *variants;
    bool lanes; // serves requests of several lanes, each with the bits that it has alone; an entry
                // of class "reference" does so without, if no argument is per lane
    uint16_t apart; // with lanes: bit i: those of argument i may be apart (sr_kernel_request.apart)
} sr_kernel_entry;

// A provider's entries.
typedef struct sr_provider {
    uint32_t struct_size, abi;
    const char *name;   // unique among the providers for its kind of device
    const char *device; // whose kernels these are: "cuda"; NULL: "cpu"
    const sr_kernel_entry *entries;
    size_t count;
    // Called once per thread that will run kernels (limits a library's own threads); may be NULL.
    void (*thread_init)(void);
    const char *(*version)(
        void); // of the library behind it, as "oneDNN 2.6.3"; NULL: serried itself
    // Version of the provider's results: raised with every change that alters a bit, for any
    // request on any processor. Part of the fingerprint (trainer/engine/fingerprint.h).
    int numerics;
    // Device features (for a CPU: kernels/base/cpuid.h) that affect the bits of an entry. Each
    // entry must give the same bits on all processors that it runs on and that agree in these
    // features. Which entries run (sr_kernel_entry.needs) affects the bits of a network, too.
    uint32_t features;
} sr_provider;

#define SR_PROVIDER_TEXT 96 // bytes of sr_provider_numerics, its terminator included

// Providers in order, for all kinds of devices: those of this build, then those of open modules.
// SERRIED_PROVIDERS ("reference,x86"), read once, restricts each kind of device for which it names
// a provider to the named ones.
const sr_provider *const *sr_providers(size_t *count);
// Adds a module's providers, a list that ends with NULL (NULL: none), all or nothing. The providers
// and 'origin' must stay valid. SR_E_UNSUPPORTED for one of another ABI, SR_E_USAGE for a name that
// is taken.
SR_NODISCARD sr_status sr_providers_add(const sr_provider *const *list, const char *origin);
// Whether the provider's kernels are for this kind of device.
bool sr_provider_is_for(const sr_provider *provider, sr_device_kind device);
// What its bits depend on besides the processor: "x86 2", "onednn 2, oneDNN 2.6.3"; returns out.
char *sr_provider_numerics(const sr_provider *provider, char out[SR_PROVIDER_TEXT]);
// Features of a kind of device that affect results, either the bits of entries or which entries
// run. Hosts and masks that differ only in other features give the same results. With portable
// numerics there are none.
uint32_t sr_providers_features(sr_device_kind device);
// Calls every provider's thread_init.
void sr_kernels_thread_init(void);

// Switches portable numerics on or off for the process: kernels prepared from now on are of class
// "reference". Must be called before any kernel is prepared.
void sr_kernels_use_portable(bool on);
// Whether numerics are portable.
bool sr_kernels_portable(void);
// Allows kernels for fp32, or forbids them, that round the factors of products to TF32: to the 10
// bits of fp16 behind the point, with the range of fp32. Must be called before any kernel is
// prepared. Off at first.
void sr_kernels_use_tf32(bool on);
// Whether they are allowed.
bool sr_kernels_tf32(void);
// Whether an entry is of class "reference".
bool sr_kernel_is_reference(const sr_kernel_entry *entry);

// The entry that serves a request, or NULL.
const sr_kernel_entry *sr_kernel_find(const sr_kernel_request *request);
// The same, limited to one provider for the request's kind of device.
const sr_kernel_entry *sr_kernel_find_in(const sr_kernel_request *request, const char *provider);
// Whether an entry of the request's kernel can serve it, on this processor and for its lanes.
bool sr_kernel_serves(const sr_kernel_entry *entry, const sr_kernel_request *request);
// Finds and prepares: the entry that serves the request, or one with the same bits that the chooser
// measured to be faster. SR_E_UNSUPPORTED, naming kernel, dtypes and device, if no entry serves it.
SR_NODISCARD sr_status sr_kernel_prepare(const sr_kernel_request *request, sr_prepared *out);
// Prepares this entry, which supports the request, in this variant.
SR_NODISCARD sr_status sr_kernel_prepare_as(const sr_kernel_request *request,
                                            const sr_kernel_entry *entry, int variant,
                                            sr_prepared *out);
// The name of a variant; "" for the default, NULL if the entry has no variant of this number.
const char *sr_kernel_variant(const sr_kernel_entry *entry, int variant);
// Frees what 'prepare' allocated; no run may be in progress.
void sr_prepared_release(sr_prepared *prepared);
// Runs all stages and blocks of a CPU kernel on the calling thread (for tests). The caller provides
// the scratch.
SR_NODISCARD sr_status sr_prepared_run(const sr_prepared *prepared,
                                       const sr_kernel_request *request, void *const *p,
                                       void *workspace, void *scratch);

// The name in kernel_list.def, as "conv2d". Static storage.
const char *sr_kernel_name(sr_kernel_id kernel);
// Its arguments and formula in kernel_list.def, as text. Static storage.
const char *sr_kernel_doc(sr_kernel_id kernel);
// Its arguments in kernel_list.def, in order; NULL and 0 for SR_KERNEL_OWN. Static storage.
const sr_kernel_argument *sr_kernel_arguments(sr_kernel_id kernel, int *count);
// The dtype of an argument for activations of the given dtype, which is also the result if any
// dtype is allowed.
sr_dtype sr_kernel_argument_dtype(const sr_kernel_argument *argument, sr_dtype activation);
// Fills a request for a kernel of the list with all its arguments present; the caller marks
// optional ones as absent. 'params' is the kernel's struct, 'bytes' long.
void sr_kernel_request_init(sr_kernel_request *request, sr_device_kind device, sr_kernel_id kernel,
                            sr_dtype activation, const void *params, size_t bytes);
// Number of elements of argument i of a request, those of all its lanes and what lies between them,
// from its params: 0 if it is absent, -1 if the kernel has no such argument or is not in the list.
int64_t sr_kernel_argument_count(const sr_kernel_request *request, int i);
// Whether the number, presence and dtypes of the arguments match the list. Providers check all
// further restrictions themselves.
bool sr_kernel_fits(const sr_kernel_request *request);
// The dtype of the request's T; if no argument is a T, the dtype of the first argument.
sr_dtype sr_kernel_activation(const sr_kernel_request *request);

#ifdef __cplusplus
}
#endif
#endif
