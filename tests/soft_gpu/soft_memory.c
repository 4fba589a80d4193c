// SPDX-License-Identifier: Apache-2.0
// Memory of the software GPU: the driver's virtual memory calls.
//
// Addresses of devices are one range of the process without memory, so that the host faults where
// it touches one. What kernels see lies at the same offset of a second range, of which the parts
// with memory and access can be read and written. Between reservations there are pages without
// memory, and addresses are handed out again as late as possible.
//
// Memory is a file without a name, which may be mapped at several addresses. Each allocation takes
// a new part of it, poisoned; parts of released ones are given back to the system.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

// Addresses of devices: where neither programs, libraries nor sanitizers map anything, and where
// two 32-bit numbers beside each other, taken for an address, are improbable.
#define BASE UINT64_C(0x7e8000000000)
#define RANGE UINT64_C(0x3000000000) // 192 GiB
#define GAP UINT64_C(65536)          // between reservations
#define POISON 0xff                  // NaN in every type

typedef struct reservation {
    uint64_t at, bytes;
} reservation;

typedef struct allocation {
    CUmemGenericAllocationHandle handle;
    uint64_t offset, bytes;
    int device, maps;
    bool released;
} allocation;

typedef struct mapping {
    uint64_t at, bytes;
    CUmemGenericAllocationHandle handle;
    int device;
    unsigned access; // a bit for each device
} mapping;

// Arrays, the first and the last in the order of addresses.
static reservation *reservations;
static allocation *allocations;
static mapping *mappings;
static size_t reservation_count, allocation_count, mapping_count;

static int file = -1;
static uint64_t file_end, next_handle = 1;
static uint64_t next_at = BASE;
static size_t used[SOFT_DEVICES];

// ---- Arrays ----

// Makes room for an element at a position.
static void *insert(void *array, size_t *count, size_t position, size_t size) {
    if (*count % 64 == 0) {
        array = realloc(array, (*count + 64) * size);
        if (!array)
            soft_mistake("no memory of the host is left");
    }
    unsigned char *bytes = array;
    memmove(bytes + (position + 1) * size, bytes + position * size, (*count - position) * size);
    ++*count;
    return array;
}

static void take_out(void *array, size_t *count, size_t position, size_t size) {
    unsigned char *bytes = array;
    --*count;
    memmove(bytes + position * size, bytes + (position + 1) * size, (*count - position) * size);
}

// The first mapping that ends behind an address.
static size_t mapping_behind(uint64_t address) {
    size_t low = 0, high = mapping_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (mappings[middle].at + mappings[middle].bytes > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static const reservation *find_reservation(uint64_t address, uint64_t bytes) {
    for (size_t i = 0; i < reservation_count; i++) {
        const reservation *r = &reservations[i];
        if (address >= r->at && address - r->at <= r->bytes &&
            bytes <= r->bytes - (address - r->at))
            return r;
    }
    return NULL;
}

static allocation *find_allocation(CUmemGenericAllocationHandle handle) {
    for (size_t i = 0; i < allocation_count; i++)
        if (allocations[i].handle == handle)
            return &allocations[i];
    return NULL;
}

// ---- Addresses ----

void *soft_seen(uint64_t address) {
    return (void *)(uintptr_t)(address + RANGE);
}

void *soft_seen_range(size_t *bytes) {
    *bytes = RANGE;
    return soft_seen(BASE);
}

static void *held(uint64_t address) {
    return (void *)(uintptr_t)address;
}

soft_place soft_find(uint64_t address, int device, uint64_t *left) {
    *left = 0;
    if (address < BASE || address >= BASE + RANGE)
        return SOFT_NOT_DEVICE;
    size_t i = mapping_behind(address);
    if (i < mapping_count && mappings[i].at <= address) {
        uint64_t end = address;
        for (; i < mapping_count && mappings[i].at <= end; i++) {
            if (!(mappings[i].access >> device & 1u))
                break;
            end = mappings[i].at + mappings[i].bytes;
        }
        *left = end - address;
        return end > address ? SOFT_MAPPED : SOFT_FOREIGN;
    }
    if (i > 0 && mappings[i - 1].at + mappings[i - 1].bytes == address)
        return mappings[i - 1].access >> device & 1u ? SOFT_MAPPED : SOFT_FOREIGN;
    return find_reservation(address, 0) ? SOFT_UNMAPPED : SOFT_FREED;
}

static void describe(uint64_t address, char *out, size_t bytes) {
    for (size_t i = 0; i < mapping_count; i++) {
        const mapping *m = &mappings[i];
        if (address >= m->at && address - m->at < m->bytes) {
            (void)snprintf(out, bytes, "byte %llu of an allocation of %llu bytes of device %d",
                           (unsigned long long)(address - m->at), (unsigned long long)m->bytes,
                           m->device);
            return;
        }
    }
    for (size_t i = 0; i < mapping_count; i++) {
        const mapping *m = &mappings[i];
        const uint64_t end = m->at + m->bytes;
        if (address >= end && address - end < GAP) {
            (void)snprintf(out, bytes, "%llu bytes behind the end of an allocation of %llu bytes",
                           (unsigned long long)(address - end), (unsigned long long)m->bytes);
            return;
        }
        if (address < m->at && m->at - address <= GAP) {
            (void)snprintf(out, bytes, "%llu bytes before an allocation of %llu bytes",
                           (unsigned long long)(m->at - address), (unsigned long long)m->bytes);
            return;
        }
    }
    (void)snprintf(out, bytes, "%s",
                   find_reservation(address, 0) ? "reserved, without memory"
                                                : "freed, or never allocated");
}

bool soft_describe(uint64_t address, char *out, size_t bytes, bool *seen) {
    if (address < BASE || address >= BASE + 2 * RANGE)
        return false;
    *seen = address >= BASE + RANGE;
    describe(*seen ? address - RANGE : address, out, bytes);
    return true;
}

size_t soft_memory_left(int device) {
    const size_t all = soft_device_memory(), taken = used[device] + soft_others_memory();
    return taken < all ? all - taken : 0;
}

static bool take_ranges(void) {
    if (file >= 0)
        return true;
    void *at = mmap(held(BASE), 2 * RANGE, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    file = at == held(BASE) ? memfd_create("software GPU", MFD_CLOEXEC) : -1;
    return file >= 0 && ftruncate(file, (off_t)1 << 50) == 0;
}

// Addresses from 'from' on that no reservation has; 0 if there are none.
static uint64_t find_gap(uint64_t from, uint64_t bytes, uint64_t alignment) {
    uint64_t at = (from + alignment - 1) / alignment * alignment;
    for (size_t i = 0; i < reservation_count; i++) {
        const reservation *r = &reservations[i];
        if (r->at + r->bytes + GAP <= at)
            continue;
        if (at + bytes + GAP <= r->at)
            break;
        at = (r->at + r->bytes + GAP + alignment - 1) / alignment * alignment;
    }
    return at + bytes + GAP <= BASE + RANGE ? at : 0;
}

static CUresult address_reserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint,
                                unsigned long long flags) {
    const uint64_t page = soft_page();
    (void)soft_count("made");
    if (bytes == 0 || bytes % page != 0 || alignment % page != 0 || flags != 0 || hint != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment == 0)
        alignment = page;
    if (!take_ranges())
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t at = find_gap(next_at, bytes, alignment);
    if (at == 0)
        at = find_gap(BASE, bytes, alignment);
    if (at == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t position = 0;
    while (position < reservation_count && reservations[position].at < at)
        position++;
    reservations = insert(reservations, &reservation_count, position, sizeof *reservations);
    reservations[position] = (reservation){at, bytes};
    next_at = at + bytes + GAP;
    *out = at;
    return CUDA_SUCCESS;
}

static CUresult address_free(CUdeviceptr at, size_t bytes) {
    for (size_t i = 0; i < reservation_count; i++) {
        const reservation *r = &reservations[i];
        if (r->at != at || r->bytes != bytes)
            continue;
        const size_t first = mapping_behind(at);
        if (first < mapping_count && mappings[first].at < at + bytes)
            return (CUresult)soft_refuse(cudaErrorInvalidValue,
                                         "cuMemAddressFree: memory is still mapped");
        take_out(reservations, &reservation_count, i, sizeof *reservations);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

// ---- Memory ----

static bool is_of_device(const CUmemLocation *location) {
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 &&
           location->id < SOFT_DEVICES;
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t bytes,
                       const CUmemAllocationProp *prop, unsigned long long flags) {
    (void)soft_count("made");
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || !is_of_device(&prop->location) ||
        flags != 0 || bytes == 0 || bytes % soft_page() != 0)
        return CUDA_ERROR_INVALID_VALUE;
    const int device = prop->location.id;
    if (soft_fault("memory") || bytes > soft_memory_left(device) || !take_ranges())
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)file_end);
    if (fresh == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(fresh, POISON, bytes);
    (void)munmap(fresh, bytes);
    allocations = insert(allocations, &allocation_count, allocation_count, sizeof *allocations);
    allocations[allocation_count - 1] =
        (allocation){.handle = next_handle++, .offset = file_end, .bytes = bytes, .device = device};
    *out = allocations[allocation_count - 1].handle;
    file_end += bytes;
    used[device] += bytes;
    return CUDA_SUCCESS;
}

static void give_back(allocation *a) {
    if (!a->released || a->maps > 0)
        return;
    (void)fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)a->offset,
                    (off_t)a->bytes);
    used[a->device] -= a->bytes;
    take_out(allocations, &allocation_count, (size_t)(a - allocations), sizeof *allocations);
}

static CUresult release(CUmemGenericAllocationHandle handle) {
    allocation *a = find_allocation(handle);
    if (!a || a->released)
        return CUDA_ERROR_INVALID_VALUE;
    a->released = true;
    give_back(a);
    return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr at, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)soft_count("made");
    allocation *a = find_allocation(handle);
    const size_t position = mapping_behind(at);
    if (!a || a->released || offset != 0 || flags != 0 || bytes == 0 || bytes % soft_page() != 0 ||
        at % soft_page() != 0 || bytes > a->bytes || !find_reservation(at, bytes) ||
        (position < mapping_count && mappings[position].at < at + bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (mmap(soft_seen(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, (off_t)a->offset) ==
        MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mappings = insert(mappings, &mapping_count, position, sizeof *mappings);
    mappings[position] = (mapping){.at = at, .bytes = bytes, .handle = handle, .device = a->device};
    a->maps++;
    return CUDA_SUCCESS;
}

// The mappings that are exactly this range; false if there are none.
static bool find_mappings(uint64_t at, size_t bytes, size_t *first, size_t *count) {
    uint64_t end = at;
    *first = mapping_behind(at);
    *count = 0;
    for (size_t i = *first; i < mapping_count && mappings[i].at == end && end < at + bytes; i++) {
        end += mappings[i].bytes;
        ++*count;
    }
    return bytes > 0 && end == at + bytes;
}

static CUresult unmap(CUdeviceptr at, size_t bytes) {
    size_t first, count;
    if (!find_mappings(at, bytes, &first, &count))
        return CUDA_ERROR_INVALID_VALUE;
    (void)mmap(soft_seen(at), bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (; count > 0; count--) {
        allocation *a = find_allocation(mappings[first].handle);
        take_out(mappings, &mapping_count, first, sizeof *mappings);
        a->maps--;
        give_back(a);
    }
    return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *list,
                           size_t list_count) {
    size_t first, count;
    if (!find_mappings(at, bytes, &first, &count))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < list_count; i++) {
        const bool gives = list[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (!is_of_device(&list[i].location) ||
            (!gives && list[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE))
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t m = first; m < first + count; m++) {
            const unsigned bit = 1u << list[i].location.id;
            mappings[m].access = gives ? mappings[m].access | bit : mappings[m].access & ~bit;
        }
    }
    for (size_t m = first; m < first + count; m++)
        if (mprotect(soft_seen(mappings[m].at), mappings[m].bytes,
                     mappings[m].access ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult get_access(unsigned long long *flags, const CUmemLocation *location,
                           CUdeviceptr at) {
    const size_t i = mapping_behind(at);
    if (!location || !is_of_device(location) || i == mapping_count || mappings[i].at > at)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = mappings[i].access >> location->id & 1u ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

// ---- Calls of the driver: each is one above, unless an error or a capture forbids it ----

#define LOCKED(name, call)                                                                         \
    CUresult result = (CUresult)soft_enter();                                                      \
    if (result != CUDA_SUCCESS)                                                                    \
        return result;                                                                             \
    soft_lock();                                                                                   \
    result = (CUresult)soft_capture_forbids_unsafe(name);                                          \
    if (result == CUDA_SUCCESS)                                                                    \
        result = call;                                                                             \
    soft_unlock();                                                                                 \
    return result

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
    LOCKED("cuMemAddressReserve", address_reserve(ptr, size, alignment, addr, flags));
}
CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    LOCKED("cuMemAddressFree", address_free(ptr, size));
}
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags) {
    LOCKED("cuMemCreate", create(handle, size, prop, flags));
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    LOCKED("cuMemRelease", release(handle));
}
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    LOCKED("cuMemMap", map(ptr, size, offset, handle, flags));
}
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    LOCKED("cuMemUnmap", unmap(ptr, size));
}
CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
    LOCKED("cuMemSetAccess", set_access(ptr, size, desc, count));
}
CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr) {
    LOCKED("cuMemGetAccess", get_access(flags, location, ptr));
}
CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
    (void)option;
    if (!prop || !is_of_device(&prop->location))
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = soft_page();
    return (CUresult)soft_enter();
}

// Reached by name, with the types that cudaTypedefs.h has.
void *soft_driver_call(const char *name) {
    static const struct {
        const char *name;
        union {
            void (*function)(void);
            void *object;
        } call;
    } calls[] = {
#define CALL(name)                                                                                 \
    {                                                                                              \
#name, {                                                                                   \
            (void (*)(void)) name                                                                  \
        }                                                                                          \
    }
        CALL(cuMemAddressReserve), CALL(cuMemAddressFree), CALL(cuMemCreate),
        CALL(cuMemRelease),        CALL(cuMemMap),         CALL(cuMemUnmap),
        CALL(cuMemSetAccess),      CALL(cuMemGetAccess),   CALL(cuMemGetAllocationGranularity),
#undef CALL
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].call.object;
    return NULL;
}

SOFT_GPU_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(
    const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *driverStatus) {
    cudaError_t error = soft_enter();
    (void)flags;
    if (error == cudaSuccess && (!symbol || !funcPtr))
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return soft_leave(error);
    *funcPtr = soft_driver_call(symbol);
    enum cudaDriverEntryPointQueryResult found =
        *funcPtr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    if (*funcPtr && cudaVersion < 10020) { // the driver has them since CUDA 10.2
        found = cudaDriverEntryPointVersionNotSufficent;
        *funcPtr = NULL;
    }
    if (driverStatus)
        *driverStatus = found;
    return cudaSuccess;
}
