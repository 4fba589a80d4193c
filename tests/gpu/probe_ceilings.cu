// SPDX-License-Identifier: Apache-2.0
// The limits of a GPU: copying, matrix products, launches. One line for each figure: name, value,
// unit, how it was measured, separated by tabs.
//
// Data are random, never zeros: a matrix product of zeros draws less power and runs faster. Times
// are measured by events on the stream; launch costs by the host's clock. Not a test.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK_CUDA(call)                                                                           \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess) {                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CHECK_BLAS(call)                                                                           \
    do {                                                                                           \
        cublasStatus_t error_ = (call);                                                            \
        if (error_ != CUBLAS_STATUS_SUCCESS) {                                                     \
            fprintf(stderr, "%s:%d: cuBLASLt status %d\n", __FILE__, __LINE__, (int)error_);       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static cudaStream_t stream;
static cudaEvent_t begin_event, end_event;

static void report(const char *name, double value, const char *unit, const char *how) {
    printf("%s\t%.4g\t%s\t%s\n", name, value, unit, how);
    fflush(stdout);
}

static double host_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void start(void) {
    CHECK_CUDA(cudaEventRecord(begin_event, stream));
}

static double stop(void) {
    float ms = 0;
    CHECK_CUDA(cudaEventRecord(end_event, stream));
    CHECK_CUDA(cudaEventSynchronize(end_event));
    CHECK_CUDA(cudaEventElapsedTime(&ms, begin_event, end_event));
    return 1e-3 * (double)ms;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

// ---- Kernels ----

__global__ void empty_kernel(void) {}

// 16-bit floating-point numbers in [-1, 1) from a hash of the index; half: fp16, else bf16.
__global__ void fill_kernel(uint16_t *out, size_t count, bool half, uint32_t seed) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        uint32_t x = (uint32_t)i * 2654435761u + seed;
        x ^= x >> 16;
        x *= 0x7feb352du;
        x ^= x >> 15;
        x *= 0x846ca68bu;
        x ^= x >> 16;
        float value = (float)(x >> 8) * 0x1p-23f - 1.0f;
        out[i] = half ? __half_as_ushort(__float2half(value))
                      : __bfloat16_as_ushort(__float2bfloat16(value));
    }
}

__global__ void copy_kernel(uint4 *out, const uint4 *in, size_t count) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        out[i] = in[i];
}

static void fill(void *out, size_t count, bool half, uint32_t seed) {
    fill_kernel<<<1024, 256, 0, stream>>>((uint16_t *)out, count, half, seed);
    CHECK_CUDA(cudaGetLastError());
}

// ---- Copying ----

static void measure_copies(int processors) {
    const size_t bytes = (size_t)2 << 30;
    double kernel[21], driver[21];
    void *from, *to;
    CHECK_CUDA(cudaMalloc(&from, bytes));
    CHECK_CUDA(cudaMalloc(&to, bytes));
    fill(from, bytes / 2, false, 1);
    for (int i = -3; i < 21; i++) { // three to warm up
        start();
        copy_kernel<<<processors * 8, 1024, 0, stream>>>((uint4 *)to, (const uint4 *)from,
                                                         bytes / sizeof(uint4));
        double seconds = stop();
        if (i >= 0)
            kernel[i] = 2e-9 * (double)bytes / seconds;
        start();
        CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
        seconds = stop();
        if (i >= 0)
            driver[i] = 2e-9 * (double)bytes / seconds;
    }
    CHECK_CUDA(cudaGetLastError());
    report("copy kernel", median(kernel, 21), "GB/s",
           "2 GiB, 16 bytes a thread, read and written, median of 21");
    report("copy by the driver", median(driver, 21), "GB/s",
           "2 GiB, read and written, median of 21");
    CHECK_CUDA(cudaFree(from));
    CHECK_CUDA(cudaFree(to));
}

// ---- Matrix products ----

typedef struct product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t layout;
    cublasLtMatmulAlgo_t algorithm;
    void *a, *b, *c, *workspace;
    size_t workspace_bytes;
} product;

static void choose_algorithm(product *p) {
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found[8];
    int count = 0;
    CHECK_BLAS(cublasLtMatmulPreferenceCreate(&preference));
    CHECK_BLAS(
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &p->workspace_bytes, sizeof p->workspace_bytes));
    CHECK_BLAS(cublasLtMatmulAlgoGetHeuristic(p->handle, p->operation, p->layout, p->layout,
                                              p->layout, p->layout, preference, 8, found, &count));
    if (count == 0) {
        fprintf(stderr, "cuBLASLt has no algorithm for this product\n");
        exit(1);
    }
    p->algorithm = found[0].algo;
    CHECK_BLAS(cublasLtMatmulPreferenceDestroy(preference));
}

static void create_product(product *p, int64_t n, bool half) {
    cudaDataType_t type = half ? CUDA_R_16F : CUDA_R_16BF;
    const cublasOperation_t transpose = CUBLAS_OP_T;
    size_t count = (size_t)(n * n);
    p->workspace_bytes = (size_t)64 << 20;
    CHECK_BLAS(cublasLtCreate(&p->handle));
    CHECK_BLAS(cublasLtMatmulDescCreate(&p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK_BLAS(cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                              sizeof transpose));
    CHECK_BLAS(cublasLtMatrixLayoutCreate(&p->layout, type, (uint64_t)n, (uint64_t)n, n));
    CHECK_CUDA(cudaMalloc(&p->a, count * 2));
    CHECK_CUDA(cudaMalloc(&p->b, count * 2));
    CHECK_CUDA(cudaMalloc(&p->c, count * 2));
    CHECK_CUDA(cudaMalloc(&p->workspace, p->workspace_bytes));
    fill(p->a, count, half, 1);
    fill(p->b, count, half, 2);
    choose_algorithm(p);
}

static void free_product(product *p) {
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaFree(p->a));
    CHECK_CUDA(cudaFree(p->b));
    CHECK_CUDA(cudaFree(p->c));
    CHECK_CUDA(cudaFree(p->workspace));
    CHECK_BLAS(cublasLtMatrixLayoutDestroy(p->layout));
    CHECK_BLAS(cublasLtMatmulDescDestroy(p->operation));
    CHECK_BLAS(cublasLtDestroy(p->handle));
}

static void multiply(const product *p) {
    const float one = 1, zero = 0;
    CHECK_BLAS(cublasLtMatmul(p->handle, p->operation, &one, p->a, p->layout, p->b, p->layout,
                              &zero, p->c, p->layout, p->c, p->layout, &p->algorithm, p->workspace,
                              p->workspace_bytes, stream));
}

// Seconds for 'count' products, timed together.
static double time_products(const product *p, int count) {
    start();
    for (int i = 0; i < count; i++)
        multiply(p);
    return stop();
}

static void measure_product(int64_t n, bool half) {
    product p;
    double rates[11], flops = 2.0 * (double)n * (double)n * (double)n;
    char name[64];
    create_product(&p, n, half);
    time_products(&p, 5);
    for (int i = 0; i < 11; i++)
        rates[i] = 1e-12 * 10 * flops / time_products(&p, 10);
    snprintf(name, sizeof name, "matrix product %s %lld", half ? "fp16" : "bf16", (long long)n);
    report(name, median(rates, 11), "TFLOP/s",
           "cuBLASLt, A^T B, fp32 sums, random in [-1, 1), median of 11 x 10 products");
    free_product(&p);
}

// The rate after the clocks have settled under load.
static void measure_sustained(double seconds) {
    product p;
    const int64_t n = 8192;
    double flops = 2.0 * (double)n * (double)n * (double)n, rates[4096];
    int count = 0;
    create_product(&p, n, false);
    double end = host_seconds() + seconds, half_time = end - seconds / 2;
    while (host_seconds() < end && count < 4096) {
        double rate = 1e-12 * 50 * flops / time_products(&p, 50);
        if (host_seconds() > half_time)
            rates[count++] = rate;
    }
    report("matrix product bf16 8192, sustained", median(rates, count), "TFLOP/s",
           "the same, median over the second half of 30 s");
    free_product(&p);
}

// ---- Launches ----

static void measure_launches(void) {
    const int count = 10000;
    double submit[11], run[11];
    for (int i = -1; i < 11; i++) {
        CHECK_CUDA(cudaStreamSynchronize(stream));
        double from = host_seconds();
        for (int k = 0; k < count; k++)
            empty_kernel<<<1, 32, 0, stream>>>();
        double submitted = host_seconds();
        CHECK_CUDA(cudaStreamSynchronize(stream));
        if (i >= 0) {
            submit[i] = 1e6 * (submitted - from) / count;
            run[i] = 1e6 * (host_seconds() - from) / count;
        }
    }
    CHECK_CUDA(cudaGetLastError());
    report("empty kernel, submit", median(submit, 11), "us",
           "10,000 launches on a stream, host time until the last is queued, median of 11");
    report("empty kernel, run", median(run, 11), "us", "the same, until all have run");
}

static void measure_graph(int nodes) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    double submit[101], run[101];
    char name[64];
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int k = 0; k < nodes; k++)
        empty_kernel<<<1, 32, 0, stream>>>();
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = -5; i < 101; i++) {
        CHECK_CUDA(cudaStreamSynchronize(stream));
        double from = host_seconds();
        CHECK_CUDA(cudaGraphLaunch(executable, stream));
        double submitted = host_seconds();
        CHECK_CUDA(cudaStreamSynchronize(stream));
        if (i >= 0) {
            submit[i] = 1e6 * (submitted - from);
            run[i] = 1e6 * (host_seconds() - from);
        }
    }
    snprintf(name, sizeof name, "graph of %d empty kernels, launch", nodes);
    report(name, median(submit, 101), "us", "straight line, host time of the call, median of 101");
    snprintf(name, sizeof name, "graph of %d empty kernels, run", nodes);
    report(name, median(run, 101), "us", "the same, until all have run");
    CHECK_CUDA(cudaGraphExecDestroy(executable));
    CHECK_CUDA(cudaGraphDestroy(graph));
}

static int print_device(void) {
    struct cudaDeviceProp device;
    int runtime = 0, driver = 0;
    CHECK_CUDA(cudaGetDeviceProperties(&device, 0));
    CHECK_CUDA(cudaRuntimeGetVersion(&runtime));
    CHECK_CUDA(cudaDriverGetVersion(&driver));
    printf("device\t%s\t\tcompute capability %d.%d, %d processors, L2 %d MB\n", device.name,
           device.major, device.minor, device.multiProcessorCount, device.l2CacheSize >> 20);
    printf("versions\t%d\t\tCUDA runtime; driver's CUDA %d; cuBLASLt %zu\n", runtime, driver,
           cublasLtGetVersion());
    return device.multiProcessorCount;
}

int main(int argc, char **argv) {
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreate(&begin_event));
    CHECK_CUDA(cudaEventCreate(&end_event));
    int processors = print_device();
    measure_launches();
    measure_graph(100);
    measure_graph(1000);
    measure_copies(processors);
    for (int64_t n = 4096; n <= 16384; n *= 2)
        measure_product(n, false);
    measure_product(8192, true);
    measure_sustained(argc > 1 ? atof(argv[1]) : 30);
    return 0;
}
