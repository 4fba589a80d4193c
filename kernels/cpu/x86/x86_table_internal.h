// SPDX-License-Identifier: Apache-2.0
// The stage functions of a family's rows. Included by x86_FAMILY.c, which defines SR_X86_FAMILY as
// its name and SR_X86_ROWS as the file of its rows, after the kernels.
#ifndef SR_KERNELS_CPU_X86_TABLE_INTERNAL_H
#define SR_KERNELS_CPU_X86_TABLE_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"

#define AVX2_STAGES(...)                                                                           \
    {                                                                                              \
        { __VA_ARGS__ }                                                                            \
    }
#if defined(__AVX512F__)
#define TABLE_OF(family) sr_x86_avx512_##family
#define AVX512_STAGES(...)                                                                         \
    {                                                                                              \
        { __VA_ARGS__ }                                                                            \
    }
#else
#define TABLE_OF(family) sr_x86_avx2_##family
#define AVX512_STAGES(...)                                                                         \
    {                                                                                              \
        { NULL }                                                                                   \
    }
#endif
#define NAMED(family) TABLE_OF(family)
// AMX rows belong to the AVX-512 set.
#define AMX_STAGES(...) AVX512_STAGES(__VA_ARGS__)
#define DOT_STAGES(...) AVX512_STAGES(__VA_ARGS__)
#define SR_X86(place, id, suffix, class, set, fits, plan, variants, stages) set##_STAGES(stages),
#define SR_X86_FIRST SR_X86
#define ANY(name) name,

const sr_x86_kernel NAMED(SR_X86_FAMILY)[] = {
#define TYPED(name) name##_f32,
#define F32(name) name##_f32,
#define BF16(name) NULL,
#include SR_X86_ROWS
#undef TYPED
#undef F32
#undef BF16

#define TYPED(name) name##_bf16,
#define F32(name) NULL,
#define BF16(name) name##_bf16,
#include SR_X86_ROWS
#undef TYPED
#undef BF16

#define TYPED(name) name##_f16,
#define BF16(name) NULL,
#include SR_X86_ROWS
};

#endif
