// SPDX-License-Identifier: Apache-2.0
// The table of operators: graph/ops/op_list.def, and finding one by name.
#include <string.h>

#include "graph/ops/op_internal.h"

static const sr_op *const table[] = {
#define SR_OP(symbol) &(symbol),
#include "graph/ops/op_list.def"
#undef SR_OP
};

const sr_op *const *sr_ops(size_t *count) {
    *count = sizeof table / sizeof table[0];
    return table;
}

const sr_op *sr_op_find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}
