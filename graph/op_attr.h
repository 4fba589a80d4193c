// SPDX-License-Identifier: Apache-2.0
// The members of an operator's attributes: names, types and valid ranges, for programs as text
// (graph/program_text.h). A row for each member of the struct:
//
//   static const sr_attr_field fields[] = {SR_ATTR(my_attr, eps, 0, 1), {0}};
#ifndef SR_GRAPH_OP_ATTR_H
#define SR_GRAPH_OP_ATTR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Type of a member.
typedef enum sr_attr_type {
    SR_ATTR_I32 = 0,
    SR_ATTR_U32,
    SR_ATTR_I64,
    SR_ATTR_F64,
    SR_ATTR_DTYPE, // an int32_t that is an sr_dtype
} sr_attr_type;

// A member, or an array of several. A table of them ends with a NULL name.
typedef struct sr_attr_field {
    const char *name;
    sr_attr_type type;
    uint32_t offset, count; // bytes; elements of an array, 0: as many as the attributes have
    double low, high;       // of valid values; low -INFINITY: any, also NaN
} sr_attr_field;

// The type of a member.
#define SR_ATTR_TYPE_OF(member)                                                                    \
    _Generic((member), int32_t                                                                     \
             : SR_ATTR_I32, uint32_t                                                               \
             : SR_ATTR_U32, int64_t                                                                \
             : SR_ATTR_I64, double                                                                 \
             : SR_ATTR_F64)
// A number within [low, high].
#define SR_ATTR(member_of, member, least, most)                                                    \
    {                                                                                              \
        .name = #member, .type = SR_ATTR_TYPE_OF(((member_of *)0)->member),                        \
        .offset = offsetof(member_of, member), .count = 1, .low = (least), .high = (most)          \
    }
// An array of them.
#define SR_ATTR_ARRAY(member_of, member, least, most)                                              \
    {                                                                                              \
        .name = #member, .type = SR_ATTR_TYPE_OF(((member_of *)0)->member[0]),                     \
        .offset = offsetof(member_of, member),                                                     \
        .count = sizeof((member_of *)0)->member / sizeof((member_of *)0)->member[0],               \
        .low = (least), .high = (most)                                                             \
    }
// A dtype.
#define SR_ATTR_TYPE(member_of, member)                                                            \
    { .name = #member, .type = SR_ATTR_DTYPE, .offset = offsetof(member_of, member), .count = 1 }
#define SR_ATTR_SIDE 32767        // bound of sides of windows, and the like
#define SR_ATTR_EXTENT 2147483647 // of extents of tensors
#define SR_ATTR_FLAG 1            // of flags

#ifdef __cplusplus
}
#endif
#endif
