// SPDX-License-Identifier: Apache-2.0
// What the tests of the stand-in for cuDNN share: convolutions from their shape to a plan, and the
// memory that a plan needs.
#ifndef SR_TESTS_SOFT_CUDNN_FIXTURE_H
#define SR_TESTS_SOFT_CUDNN_FIXTURE_H

#include <cudnn.h>

#include "tests/soft_gpu/soft_gpu_fixture.h"

// Ends the test, in a process of its own, too, unless the call succeeds.
#define DNN(call) check_status(call, #call, __FILE__, __LINE__)
void check_status(cudnnStatus_t status, const char *call, const char *file, int line);

typedef cudnnBackendDescriptor_t descriptor;

typedef enum conv_kind { FORWARD, DATA, FILTER, CONV_KINDS } conv_kind;
enum { X_UID = 11, W_UID = 22, Y_UID = 33, CONFIGS = 8, KNOBS = 4 };

// A convolution. Values that must be equal in reality can be changed one by one for mistakes.
typedef struct conv {
    conv_kind kind;
    cudnnDataType_t type, w_type, compute;
    int64_t x[4], w[4], y[4]; // N, C, H, W
    int64_t pre[2], post[2], stride[2], dilation[2];
    int64_t alignment, y_uid;
    cudnnConvolutionMode_t mode;
    float alpha;
    bool channels_first, is_virtual;
} conv;

// Of n samples of c channels with h x w positions and k filters of r x s; 'window' holds the
// paddings above, left, below, right, the strides and the dilations.
conv make_conv(conv_kind kind, cudnnDataType_t type, const int64_t size[7],
               const int64_t window[8]);

descriptor make(cudnnBackendDescriptorType_t type);
void set(descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         int64_t count, const void *values);
void destroy(descriptor d);

// Up to the operation graph; the status of the first finalization that fails, and then no graph.
cudnnStatus_t try_graph(cudnnHandle_t handle, const conv *c, descriptor *graph);
descriptor make_graph(cudnnHandle_t handle, const conv *c);
// Configurations from heuristics; the status of the first call that fails, and then none.
cudnnStatus_t try_list(descriptor graph, cudnnBackendHeurMode_t mode, descriptor out[CONFIGS],
                       int *count);
int list(descriptor graph, descriptor out[CONFIGS]);
bool is_deterministic(descriptor config);
// The status of the finalization; plan and workspace if it succeeds.
cudnnStatus_t try_plan(cudnnHandle_t handle, descriptor config, descriptor *plan,
                       int64_t *workspace);

typedef struct choice {
    int64_t engine, knobs, values[KNOBS];
    cudnnBackendKnobType_t types[KNOBS];
} choice;
choice read_choice(descriptor config);
cudnnStatus_t try_config(descriptor graph, const choice *c, descriptor *config);
// The plan of an engine with its knobs.
descriptor make_plan(cudnnHandle_t handle, const conv *c, const choice *of, int64_t *workspace);
// The choice of the heuristics' first deterministic configuration whose plan can be made.
choice first_choice(cudnnHandle_t handle, const conv *c);

// Tensors of a convolution and what a plan needs beside them.
typedef struct tensors {
    size_t bytes[3], workspace_bytes;
    void *at[3], *workspace; // x, w, y
    uint16_t *host[3];       // operands; the result is written by read_result
} tensors;
// Operands are random numbers between 2^-8 and 1, of both signs.
tensors make_tensors(const conv *c, int64_t workspace, uint32_t seed, cudaStream_t stream);
void free_tensors(tensors *t);
descriptor make_pack(const tensors *t);
int result_of(conv_kind kind); // its number among the tensors
const uint16_t *read_result(const conv *c, tensors *t, cudaStream_t stream);
// Fills the result by a byte, executes a plan and reads the result.
const uint16_t *run(cudnnHandle_t handle, cudaStream_t stream, const conv *c, descriptor plan,
                    tensors *t);

#endif
