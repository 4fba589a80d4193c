// SPDX-License-Identifier: Apache-2.0
// The programs of expression_list.def by kernel.
#include "kernels/expression.h"

// Opcodes as the list writes them.
enum {
#define SR_OPCODE(name, taken, left) name = SR_CODE_##name,
    SR_EXPRESSION_OPCODES(SR_OPCODE)
#undef SR_OPCODE
};

#define CODE(...)                                                                                  \
    { __VA_ARGS__, END }
#define LITERALS(...)                                                                              \
    { __VA_ARGS__ }
#define IN(type, name, elements) +1
#define OUT(type, name, elements)
#define SR_EXPRESSION(name, formula, call, arguments, code, literals, ...)                         \
    [SR_KERNEL_##name] = {code, 0 arguments, literals},
static const sr_expression expressions[SR_KERNEL_COUNT] = {
#include "kernels/expression_list.def"
};
#undef SR_EXPRESSION

static const bool listed[SR_KERNEL_COUNT] = {
#define SR_EXPRESSION(name, ...) [SR_KERNEL_##name] = true,
#include "kernels/expression_list.def"
#undef SR_EXPRESSION
};

const sr_expression *sr_expression_of(sr_kernel_id kernel) {
    const bool known = (unsigned)kernel < (unsigned)SR_KERNEL_COUNT && listed[kernel];
    return known ? &expressions[kernel] : NULL;
}

bool sr_expression_is_sound(const sr_expression *expression) {
    static const struct {
        int taken, left;
    } effects[] = {
#define SR_OPCODE(name, taken, left) {taken, left},
        SR_EXPRESSION_OPCODES(SR_OPCODE)
#undef SR_OPCODE
    };
    int depth = 0;
    for (int i = 0; i < SR_EXPRESSION_CODES_MOST; i++) {
        const uint8_t code = expression->code[i];
        if (code >= SR_CODE_COUNT || depth < effects[code].taken)
            return false;
        if (code == SR_CODE_END)
            return depth == 1;
        depth += effects[code].left - effects[code].taken;
        if (depth > SR_EXPRESSION_DEPTH)
            return false;
    }
    return false;
}
