// SPDX-License-Identifier: Apache-2.0
// Processor features (see cpuid.h), from CPUID and XGETBV (Intel SDM vol. 1, 13 and 14; vol. 2,
// CPUID leaves 1 and 7) and the kernel's permission for AMX (arch_prctl(2), ARCH_REQ_XCOMP_PERM).
//
// Features and environment are read once. Other processors than x86-64 have no features here and
// run the reference kernels.
#include "kernels/base/cpuid.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/log.h"

// Features whose code also uses AVX-512: AMX tiles are loaded and stored through its vectors.
#define ON_AVX512                                                                                  \
    (SR_CPU_VNNI | SR_CPU_BF16 | SR_CPU_FP16 | SR_CPU_AMX_BF16 | SR_CPU_AMX_INT8 | SR_CPU_BF16_DOT)

static const struct {
    uint32_t bit;
    uint32_t dependents; // masked together with it
    const char *name;
} known[] = {
    {SR_CPU_AVX2, SR_CPU_AVX512 | ON_AVX512, "avx2"},
    {SR_CPU_AVX512, ON_AVX512, "avx512"},
    {SR_CPU_VNNI, 0, "vnni"},
    {SR_CPU_BF16, SR_CPU_BF16_DOT, "bf16"},
    {SR_CPU_FP16, 0, "fp16"},
    {SR_CPU_AMX_BF16, 0, "amx_bf16"},
    {SR_CPU_AMX_INT8, 0, "amx_int8"},
    {SR_CPU_BF16_DOT, 0, "bf16_dot"},
};

enum { FEATURES = sizeof known / sizeof *known };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t present;
static char model[128] = "unknown processor";
static _Atomic uint32_t allowed = UINT32_MAX;

#if defined(__x86_64__)
#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { XCOMP_TILE_DATA = 18 };

static uint64_t enabled_states(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool amx_permitted(uint64_t states) {
    return (states & 0x60000u) == 0x60000u &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XCOMP_TILE_DATA) == 0;
}

// Whether VDPBF16PS, with two products in each element, runs as often as a multiply-add of fp32. On
// AMD's processors it does, from Zen 4 on; on Intel's it runs half as often, so that nothing is
// gained (the fast way to multiply bf16 there is AMX).
static bool fast_bf16(void) {
    unsigned a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx && c == signature_AMD_ecx &&
           d == signature_AMD_edx;
}

static uint32_t detect(void) {
    unsigned a, b, c, d;
    uint32_t found = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    const unsigned fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    if ((c & (fma | osxsave | avx | f16c)) != (fma | osxsave | avx | f16c))
        return 0;
    uint64_t states = enabled_states();
    if ((states & 0x6u) != 0x6u || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    if (b & (1u << 5))
        found |= SR_CPU_AVX2;
    const unsigned f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
    if ((states & 0xe6u) == 0xe6u && (b & (f | dq | bw | vl)) == (f | dq | bw | vl)) {
        found |= SR_CPU_AVX512;
        found |= c & (1u << 11) ? SR_CPU_VNNI : 0;
        found |= d & (1u << 23) ? SR_CPU_FP16 : 0;
    }
    const unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24, amx_int8 = 1u << 25;
    if ((d & amx_tile) && amx_permitted(states)) {
        found |= d & amx_bf16 ? SR_CPU_AMX_BF16 : 0;
        found |= d & amx_int8 ? SR_CPU_AMX_INT8 : 0;
    }
    if ((found & SR_CPU_AVX512) && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 5)))
        found |= SR_CPU_BF16 | (fast_bf16() ? SR_CPU_BF16_DOT : 0);
    return found;
}
#else
static uint32_t detect(void) {
    return 0;
}
#endif

static void read_model(void) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL)
        return;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        colon += 1 + strspn(colon + 1, " ");
        (void)snprintf(model, sizeof model, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    (void)fclose(file);
}

// Bits of one name of SERRIED_CPU_MASK, with what depends on it.
static uint32_t named_bits(const char *name, size_t n) {
    for (int i = 0; i < FEATURES; i++)
        if (strlen(known[i].name) == n && strncmp(known[i].name, name, n) == 0)
            return known[i].bit | known[i].dependents;
    SR_WARN("SERRIED_CPU_MASK: unknown feature '%.*s'; known are avx2 avx512 vnni bf16 fp16 "
            "amx_bf16 amx_int8 bf16_dot",
            (int)n, name);
    return 0;
}

static void read_once(void) {
    present = detect();
    read_model();
    const char *mask = getenv("SERRIED_CPU_MASK");
    while (mask != NULL && *mask != '\0') {
        size_t n = strcspn(mask, ", ");
        if (n > 0)
            present &= ~named_bits(mask, n);
        mask += n + (mask[n] != '\0');
    }
}

uint32_t sr_cpu_features(void) {
    (void)pthread_once(&once, read_once);
    return present & atomic_load_explicit(&allowed, memory_order_relaxed);
}

void sr_cpu_restrict(uint32_t keep) {
    atomic_fetch_and_explicit(&allowed, keep, memory_order_relaxed);
}

char *sr_cpu_features_text(uint32_t features, char *out) {
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < FEATURES; i++)
        if (features & known[i].bit)
            n += (size_t)snprintf(out + n, 80 - n, "%s%s", n ? " " : "", known[i].name);
    return out;
}

const char *sr_cpu_model(void) {
    (void)pthread_once(&once, read_once);
    return model;
}
