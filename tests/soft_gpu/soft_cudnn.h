// SPDX-License-Identifier: Apache-2.0
// The stand-in for cuDNN 9 (README.md): what its descriptors hold, and what its parts use of each
// other.
//
// A descriptor holds copies of those it was given, so that the order in which they are destroyed
// does not matter. Descriptors and handles that are destroyed stay known, so that their use is
// found. One lock guards all of them.
#ifndef SR_TESTS_SOFT_CUDNN_H
#define SR_TESTS_SOFT_CUDNN_H

#include <cudnn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/soft_gpu/soft_cudnn_conv.h"

enum {
    SOFT_CUDNN_ALIGNMENT = 16, // bytes, of tensors and of workspaces
    SOFT_CUDNN_KNOBS = 4,      // of a configuration
    SOFT_CUDNN_CONFIGS = 8,    // that heuristics list
    SOFT_CUDNN_POINTERS = 16,  // of a variant pack
    SOFT_CUDNN_NOTES = 4       // of an engine
};

// ---- Descriptors ----

typedef struct soft_tensor {
    cudnnDataType_t type;
    int64_t dim[4], stride[4], uid, alignment; // in the order N, C, H, W
    bool is_virtual, is_by_value;
} soft_tensor;

typedef struct soft_window { // CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR
    cudnnDataType_t compute;
    cudnnConvolutionMode_t mode;
    int64_t dims, pre[2], post[2], stride[2], dilation[2];
} soft_window;

typedef struct soft_operation {
    cudnnBackendDescriptorType_t type;
    soft_window window;
    soft_tensor x, w, y; // or their gradients
    float alpha, beta;
} soft_operation;

typedef struct soft_graph {
    cudnnHandle_t handle;
    soft_operation operation;
    int64_t operations;
} soft_graph;

typedef struct soft_engine {
    soft_graph graph;
    int64_t index, notes, behaviors;
    cudnnBackendNumericalNote_t note[SOFT_CUDNN_NOTES];
    cudnnBackendBehaviorNote_t behavior[SOFT_CUDNN_NOTES];
} soft_engine;

typedef struct soft_knob {
    cudnnBackendKnobType_t type;
    int64_t value;
} soft_knob;

typedef struct soft_config {
    soft_engine engine;
    int64_t knobs;
    soft_knob knob[SOFT_CUDNN_KNOBS];
} soft_config;

typedef struct soft_heuristics {
    soft_graph graph;
    cudnnBackendHeurMode_t mode;
    int64_t results;
    soft_config result[SOFT_CUDNN_CONFIGS];
} soft_heuristics;

typedef struct soft_plan {
    cudnnHandle_t handle;
    soft_config config;
    int64_t workspace; // bytes
} soft_plan;

typedef struct soft_pack {
    int64_t uid[SOFT_CUDNN_POINTERS], uids;
    void *pointer[SOFT_CUDNN_POINTERS], *workspace;
    int64_t pointers;
} soft_pack;

typedef union soft_body {
    soft_tensor tensor;
    soft_window window;
    soft_operation operation;
    soft_graph graph;
    soft_engine engine;
    soft_knob knob;
    soft_config config;
    soft_heuristics heuristics;
    soft_plan plan;
    soft_pack pack;
} soft_body;

typedef struct soft_descriptor {
    uint64_t magic;
    cudnnBackendDescriptorType_t type;
    bool finalized;
    uint64_t set;    // bits of attributes, by their place in the table
    soft_body *body; // NULL: destroyed
    struct soft_descriptor *next;
} soft_descriptor;

struct cudnnContext {
    uint64_t magic;
    bool live;
    int device;
    cudaStream_t stream;
    struct cudnnContext *next;
};

// ---- Handles, descriptors, errors (soft_cudnn.c) ----

// Remembers a text for cudnnGetLastErrorString, and returns the status.
__attribute__((format(printf, 2, 3))) cudnnStatus_t soft_cudnn_refuse(cudnnStatus_t status,
                                                                      const char *format, ...);
// Whether the variable SOFT_CUDNN has this value (README.md).
bool soft_cudnn_set_to(const char *value);
// Each ends the process unless it is alive.
struct cudnnContext *soft_cudnn_handle(cudnnHandle_t handle);
soft_descriptor *soft_cudnn_descriptor(const void *descriptor);
// Its name in messages; NULL if the stand-in has no such one.
const char *soft_cudnn_type_name(cudnnBackendDescriptorType_t type);
bool soft_cudnn_is_operation(cudnnBackendDescriptorType_t type);

// ---- Attributes (soft_cudnn_attributes.c) ----

cudnnStatus_t soft_cudnn_set(soft_descriptor *d, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t count, const void *values);
cudnnStatus_t soft_cudnn_get(const soft_descriptor *d, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t room, int64_t *count,
                             void *values);
// Whether every attribute that the descriptor needs was set.
cudnnStatus_t soft_cudnn_check_set(const soft_descriptor *d);

// ---- What is described (soft_cudnn_check.c) ----

void soft_cudnn_check_tensor(const soft_tensor *t);
cudnnStatus_t soft_cudnn_check_window(const soft_window *w);
cudnnStatus_t soft_cudnn_check_operation(const soft_operation *o);
void soft_cudnn_check_graph(const soft_graph *g);
cudnnStatus_t soft_cudnn_check_pack(const soft_pack *p);
// Whether there are engines for it: for 16-bit types with sums in float, aligned to 16 bytes.
cudnnStatus_t soft_cudnn_check_support(const soft_operation *o);

// ---- Engines (soft_cudnn_engines.c); each fills in what the library adds to the descriptor ----

void soft_cudnn_heuristics(soft_heuristics *h);
cudnnStatus_t soft_cudnn_engine(soft_engine *e);
cudnnStatus_t soft_cudnn_config(soft_config *c);
cudnnStatus_t soft_cudnn_plan(soft_plan *p);
// The arguments of a plan's kernels, without pointers.
soft_conv_args soft_cudnn_arguments(const soft_plan *p);
soft_conv_kind soft_cudnn_kind(const soft_operation *o);

// ---- Execution (soft_cudnn_execute.c) ----

// Ends the process unless the pointers of a pack are those that a plan needs; fills them in.
// Refuses a pack that lacks one.
cudnnStatus_t soft_cudnn_bind(const soft_plan *plan, const soft_pack *pack, int device,
                              soft_conv_args *out);
// Enqueues the kernels of a plan.
cudnnStatus_t soft_cudnn_enqueue(const soft_plan *plan, const soft_conv_args *args,
                                 cudaStream_t stream);

#endif
