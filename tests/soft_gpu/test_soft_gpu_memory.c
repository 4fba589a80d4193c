// SPDX-License-Identifier: Apache-2.0
// The software GPU's devices and memory: properties, virtual memory, memory of the host, copies.
#include "tests/soft_gpu/soft_gpu_fixture.h"

enum { PAGE = 4096 };

static void test_devices(void **state) {
    (void)state;
    int count, value, device, peer;
    char id[20];
    struct cudaDeviceProp p;
    OK(cudaGetDeviceCount(&count));
    assert_int_equal(count, 2);
    OK(cudaGetDeviceProperties(&p, 1));
    assert_string_equal(p.name, "software GPU");
    assert_int_equal(p.major * 10 + p.minor, 90);
    assert_int_equal(p.totalGlobalMem, 1 << 30);
    assert_int_equal(p.multiProcessorCount, 132);
    assert_int_equal(p.sharedMemPerBlockOptin, 227 * 1024);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlock, 0));
    assert_int_equal(value, 48 * 1024);
    assert_int_equal(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 2),
                     cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    OK(cudaSetDevice(1));
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 1);
    OK(cudaSetDevice(0));
    OK(cudaDeviceCanAccessPeer(&peer, 0, 1));
    assert_int_equal(peer, 1);
    OK(cudaDeviceGetPCIBusId(id, sizeof id, 1));
    assert_string_equal(id, "0000:19:00.0");
    OK(cudaDriverGetVersion(&value));
    assert_int_equal(value, CUDART_VERSION);
    OK(cudaRuntimeGetVersion(&value));
    assert_int_equal(value, CUDART_VERSION);
    assert_string_equal(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

static void test_entry_points(void **state) {
    (void)state;
    static const char *const names[] = {
#define SR_CUDA_CALL(name)
#define SR_CUDA_DRIVER(name) #name,
#include "kernels/cuda/api.def"
    };
    enum cudaDriverEntryPointQueryResult status;
    void *call;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        OK(cudaGetDriverEntryPointByVersion(names[i], &call, 13000, 0, &status));
        if (!call || status != cudaDriverEntryPointSuccess)
            fail_msg("no %s", names[i]);
    }
    OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &call, 13000, 0, &status));
    assert_int_equal(status, cudaDriverEntryPointSymbolNotFound);
    assert_null(call);
    OK(cudaGetDriverEntryPointByVersion("cuMemCreate", &call, 9000, 0, &status));
    assert_int_equal(status, cudaDriverEntryPointVersionNotSufficent);
}

// A range that grows, as the product's do.
static void test_virtual_memory(void **state) {
    (void)state;
    const driver_calls d = get_driver();
    const CUmemAllocationProp prop = memory_of(0);
    const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUmemLocation other = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    CUmemGenericAllocationHandle first, second;
    CUdeviceptr at;
    size_t granularity, before, total, now;
    unsigned long long flags;
    OK((cudaError_t)d.granularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(granularity, PAGE);
    OK(cudaMemGetInfo(&before, &total));
    OK((cudaError_t)d.reserve(&at, 1 << 30, 0, 0, 0));
    OK((cudaError_t)d.create(&first, PAGE, &prop, 0));
    OK((cudaError_t)d.create(&second, 2 * PAGE, &prop, 0));
    OK((cudaError_t)d.map(at, PAGE, 0, first, 0));
    assert_int_equal(d.map(at, PAGE, 0, first, 0), CUDA_ERROR_INVALID_VALUE); // taken
    assert_int_equal(d.map(at + (1 << 30), PAGE, 0, first, 0), CUDA_ERROR_INVALID_VALUE);
    OK((cudaError_t)d.map(at + PAGE, 2 * PAGE, 0, second, 0));
    OK((cudaError_t)d.set_access(at, 3 * PAGE, &access, 1));
    OK((cudaError_t)d.get_access(&flags, &prop.location, at + PAGE));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK((cudaError_t)d.get_access(&flags, &other, at + PAGE));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    OK((cudaError_t)d.release(first));
    OK((cudaError_t)d.release(second));
    assert_int_equal(d.release(second), CUDA_ERROR_INVALID_VALUE);
    OK(cudaMemGetInfo(&now, &total));
    assert_int_equal(before - now, 3 * PAGE);

    // One kernel over both parts.
    const cudaStream_t s = make_stream();
    float host[3 * PAGE / 4];
    const vector_args a = {.y = (float *)(uintptr_t)at, .count = 3 * PAGE / 4, .value = 3.0f};
    OK(launch(s, fill, 12, 256, 0, &a));
    download(host, a.y, sizeof host, s);
    for (size_t i = 0; i < 3 * PAGE / 4; i++)
        assert_true(host[i] == 3.0f);
    assert_int_equal(d.unmap(at, 2 * PAGE), CUDA_ERROR_INVALID_VALUE); // splits a mapping
    OK((cudaError_t)d.unmap(at, 3 * PAGE));
    OK((cudaError_t)d.address_free(at, 1 << 30));
    assert_int_equal(d.address_free(at, 1 << 30), CUDA_ERROR_INVALID_VALUE);
    OK(cudaMemGetInfo(&now, &total));
    assert_int_equal(before, now);
    OK(cudaStreamDestroy(s));
}

// One allocation at two addresses, and on the other device with access.
static void test_two_mappings(void **state) {
    (void)state;
    const driver_calls d = get_driver();
    const CUmemAllocationProp prop = memory_of(0);
    CUmemAccessDesc access[2] = {{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                 {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    access[1].location.id = 1;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at[2];
    OK((cudaError_t)d.create(&handle, PAGE, &prop, 0));
    for (int i = 0; i < 2; i++) {
        OK((cudaError_t)d.reserve(&at[i], PAGE, 0, 0, 0));
        OK((cudaError_t)d.map(at[i], PAGE, 0, handle, 0));
        OK((cudaError_t)d.set_access(at[i], PAGE, access, 2));
    }
    OK(cudaSetDevice(1));
    const cudaStream_t s = make_stream();
    const vector_args a = {.y = (float *)(uintptr_t)at[0], .count = 8, .value = 5.0f};
    float host;
    OK(launch(s, fill, 1, 8, 0, &a));
    download(&host, (float *)(uintptr_t)at[1] + 7, 4, s);
    assert_true(host == 5.0f);
    OK(cudaSetDevice(0));
    for (int i = 0; i < 2; i++)
        device_free((void *)(uintptr_t)at[i], PAGE);
    OK((cudaError_t)d.release(handle));
    OK(cudaStreamDestroy(s));
}

// Addresses that were freed are not handed out again soon; in the end they are.
static void test_addresses(void **state) {
    (void)state;
    const driver_calls d = get_driver();
    CUdeviceptr first, at;
    OK((cudaError_t)d.reserve(&first, (size_t)1 << 30, 0, 0, 0));
    OK((cudaError_t)d.address_free(first, (size_t)1 << 30));
    for (int i = 0; i < 400; i++) {
        OK((cudaError_t)d.reserve(&at, (size_t)1 << 30, 1 << 21, 0, 0));
        assert_int_equal(at % (1 << 21), 0);
        if (i < 100)
            assert_int_not_equal(at, first);
        OK((cudaError_t)d.address_free(at, (size_t)1 << 30));
    }
    assert_int_equal(d.reserve(&at, (size_t)1 << 40, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_memory_ends(void **state) {
    (void)state;
    const driver_calls d = get_driver();
    const CUmemAllocationProp prop = memory_of(1);
    CUmemGenericAllocationHandle all, more;
    size_t free_bytes, total;
    OK(cudaSetDevice(1));
    OK(cudaMemGetInfo(&free_bytes, &total));
    OK((cudaError_t)d.create(&all, free_bytes / 2, &prop, 0));
    assert_int_equal(d.create(&more, free_bytes / 2 + PAGE, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK((cudaError_t)d.release(all));
    OK(cudaSetDevice(0));
}

static void test_host_memory(void **state) {
    (void)state;
    static _Alignas(4096) unsigned char memory[2 * PAGE];
    const cudaStream_t s = make_stream();
    void *x = device_alloc(2 * PAGE), *pinned;
    OK(cudaHostRegister(memory, PAGE, cudaHostRegisterDefault));
    assert_int_equal(cudaHostRegister(memory + 64, 64, 0), cudaErrorHostMemoryAlreadyRegistered);
    assert_int_equal(cudaMemcpyAsync(x, memory, 2 * PAGE, cudaMemcpyHostToDevice, s),
                     cudaErrorInvalidValue); // a part of it is not registered
    OK(cudaMemcpyAsync(x, memory, PAGE, cudaMemcpyHostToDevice, s));
    OK(cudaHostUnregister(memory));
    assert_int_equal(cudaHostUnregister(memory), cudaErrorHostMemoryNotRegistered);
    OK(cudaHostAlloc(&pinned, 100, cudaHostAllocDefault));
    assert_int_equal(cudaFreeHost((char *)pinned + 1), cudaErrorInvalidValue);
    OK(cudaFreeHost(pinned));
    device_free(x, 2 * PAGE);
    OK(cudaStreamDestroy(s));
}

// Pageable memory may be changed at once after an upload, and is there after a download.
static void test_copies(void **state) {
    (void)state;
    enum { COUNT = 500 };
    const cudaStream_t s = make_stream();
    int host[COUNT], back[COUNT];
    int *x = device_alloc(sizeof host), *y = device_alloc(sizeof host);
    for (int n = 0; n < 50; n++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = n + i;
        upload(x, host, sizeof host, s);
        memset(host, 0, sizeof host);
        OK(cudaMemcpyAsync(y, x, sizeof host, cudaMemcpyDeviceToDevice, s));
        OK(cudaMemsetAsync(y + 3, 0x11, 8, s));
        download(back, y, sizeof back, s);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(back[i], i == 3 || i == 4 ? 0x11111111 : n + i);
    }
    assert_int_equal(cudaMemcpyAsync(host, back, 4, cudaMemcpyHostToDevice, s),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyAsync(x, y, 4, cudaMemcpyHostToDevice, s), cudaErrorInvalidValue);
    assert_int_equal(cudaMemsetAsync(host, 0, 4, s), cudaErrorInvalidValue);
    assert_int_equal(cudaMemsetAsync(x, 0, 4, NULL), cudaErrorInvalidResourceHandle);
    device_free(x, sizeof host);
    device_free(y, sizeof host);
    OK(cudaStreamDestroy(s));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),        cmocka_unit_test(test_entry_points),
        cmocka_unit_test(test_virtual_memory), cmocka_unit_test(test_two_mappings),
        cmocka_unit_test(test_addresses),      cmocka_unit_test(test_memory_ends),
        cmocka_unit_test(test_host_memory),    cmocka_unit_test(test_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
