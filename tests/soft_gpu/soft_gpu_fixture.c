// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_gpu/soft_gpu_fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

void check_success(cudaError_t error, const char *call, const char *file, int line) {
    if (error == cudaSuccess)
        return;
    (void)fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, cudaGetErrorName(error));
    exit(1);
}

static void get_call(const char *name, void *out) {
    enum cudaDriverEntryPointQueryResult status;
    OK(cudaGetDriverEntryPointByVersion(name, out, 13000, cudaEnableDefault, &status));
    assert_int_equal(status, cudaDriverEntryPointSuccess);
}

driver_calls get_driver(void) {
    driver_calls d;
    get_call("cuMemAddressReserve", &d.reserve);
    get_call("cuMemAddressFree", &d.address_free);
    get_call("cuMemCreate", &d.create);
    get_call("cuMemRelease", &d.release);
    get_call("cuMemMap", &d.map);
    get_call("cuMemUnmap", &d.unmap);
    get_call("cuMemSetAccess", &d.set_access);
    get_call("cuMemGetAllocationGranularity", &d.granularity);
    get_call("cuMemGetAccess", &d.get_access);
    return d;
}

CUmemAllocationProp memory_of(int device) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

static size_t rounded(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

void *device_alloc(size_t bytes) {
    const driver_calls d = get_driver();
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    int device;
    OK(cudaGetDevice(&device));
    const CUmemAllocationProp prop = memory_of(device);
    const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK((cudaError_t)d.reserve(&at, rounded(bytes), 0, 0, 0));
    OK((cudaError_t)d.create(&handle, rounded(bytes), &prop, 0));
    OK((cudaError_t)d.map(at, rounded(bytes), 0, handle, 0));
    OK((cudaError_t)d.release(handle));
    OK((cudaError_t)d.set_access(at, rounded(bytes), &access, 1));
    return (void *)(uintptr_t)at;
}

void device_free(void *memory, size_t bytes) {
    const driver_calls d = get_driver();
    OK((cudaError_t)d.unmap((CUdeviceptr)(uintptr_t)memory, rounded(bytes)));
    OK((cudaError_t)d.address_free((CUdeviceptr)(uintptr_t)memory, rounded(bytes)));
}

cudaStream_t make_stream(void) {
    cudaStream_t stream;
    OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
    return stream;
}

cudaEvent_t make_event(void) {
    cudaEvent_t event;
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

static cudaError_t launch_as(const cudaLaunchConfig_t *config, kernel_function kernel,
                             const vector_args *args) {
    union {
        kernel_function kernel;
        void *object;
    } function = {kernel};
    vector_args copy = *args;
    void *list[] = {&copy};
    return cudaLaunchKernelExC(config, function.object, list);
}

cudaError_t launch(cudaStream_t stream, kernel_function kernel, unsigned blocks, unsigned threads,
                   size_t shared, const vector_args *args) {
    const cudaLaunchConfig_t config = {.gridDim = {blocks, 1, 1},
                                       .blockDim = {threads, 1, 1},
                                       .dynamicSmemBytes = shared,
                                       .stream = stream};
    return launch_as(&config, kernel, args);
}

cudaError_t launch_overlapping(cudaStream_t stream, kernel_function kernel, unsigned blocks,
                               unsigned threads, const vector_args *args) {
    cudaLaunchAttribute overlap = {.id = cudaLaunchAttributeProgrammaticStreamSerialization,
                                   .val.programmaticStreamSerializationAllowed = 1};
    const cudaLaunchConfig_t config = {.gridDim = {blocks, 1, 1},
                                       .blockDim = {threads, 1, 1},
                                       .stream = stream,
                                       .attrs = &overlap,
                                       .numAttrs = 1};
    return launch_as(&config, kernel, args);
}

void upload(void *to, const void *from, size_t bytes, cudaStream_t stream) {
    OK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

void download(void *to, const void *from, size_t bytes, cudaStream_t stream) {
    OK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
}

float *device_iota(int64_t count, cudaStream_t stream) {
    const size_t bytes = (size_t)count * sizeof(float);
    float *values = malloc(bytes), *out = device_alloc(bytes);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)i;
    upload(out, values, bytes, stream);
    OK(cudaStreamSynchronize(stream));
    free(values);
    return out;
}

// ---- Processes of their own ----

int run_child(void (*function)(void), char *text, size_t bytes) {
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)signal(SIGABRT, SIG_DFL);
        (void)signal(SIGSEGV, SIG_DFL);
        (void)alarm(30);
        function();
        _exit(0);
    }
    (void)close(ends[1]);
    size_t length = 0;
    for (ssize_t n;
         length + 1 < bytes && (n = read(ends[0], text + length, bytes - 1 - length)) > 0;)
        length += (size_t)n;
    text[length] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void expect_abort(void (*function)(void), const char *message) {
    char text[CHILD_TEXT_BYTES];
    const int end = run_child(function, text, sizeof text);
    if (!strstr(text, "software GPU: ") || !strstr(text, message))
        fail_msg("no message '%s' (ended with %d) but: %s", message, end, text);
    assert_int_equal(end, 1000 + SIGABRT);
}

void expect_clean(void (*function)(void)) {
    char text[CHILD_TEXT_BYTES];
    const int end = run_child(function, text, sizeof text);
    if (end != 0 || text[0])
        fail_msg("ended with %d: %s", end, text);
}

bool right;

void both(void (*function)(void), const char *message) {
    right = true;
    expect_clean(function);
    right = false;
    expect_abort(function, message);
}

void shows(void (*function)(void)) {
    char text[CHILD_TEXT_BYTES];
    right = true;
    expect_clean(function);
    right = false;
    const int end = run_child(function, text, sizeof text);
    if (end != 8 && !strstr(text, "ThreadSanitizer: data race"))
        fail_msg("ended with %d: %s", end, text);
}
