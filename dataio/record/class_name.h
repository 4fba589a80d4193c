// SPDX-License-Identifier: Apache-2.0
// Class names in records and shards of other writers, which may have any encoding. Checkpoints and
// tables need UTF-8, so in a name that is not UTF-8 the bytes that are not become \xNN.
#ifndef SR_DATAIO_CLASS_NAME_H
#define SR_DATAIO_CLASS_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "dataio/record/record.h"
#include "kernels/base/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

// The name in UTF-8, in the arena; NULL: no memory.
const char *sr_class_name_decode(const void *bytes, size_t n, sr_arena *arena);
// The class of an object: its number or, of an object with only a name, the class with that name;
// -1 if no class has it. names: in the form that sr_class_name_decode returns.
int64_t sr_object_class(const sr_object *object, const char *const *names, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
