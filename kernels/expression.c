// SPDX-License-Identifier: Apache-2.0
// The programs of expression_list.def by kernel.
#include "kernels/expression_programs.h"
#include "kernels/kernel_params.h"

static const sr_expression *const programs[SR_KERNEL_COUNT] = {
#define SR_EXPRESSION(name, ...) [SR_KERNEL_##name] = &sr_programs[SR_PROGRAM_##name],
#include "kernels/expression_list.def"
#undef SR_EXPRESSION
};

const sr_expression *sr_expression_of(sr_kernel_id kernel) {
    return (unsigned)kernel < (unsigned)SR_KERNEL_COUNT ? programs[kernel] : NULL;
}

uint32_t sr_expression_streams(const sr_kernel_request *request, uint32_t *touches) {
    const sr_expression_params *p = (const void *)request->params;
    const int inputs = request->args - 1;
    int count;
    const sr_kernel_argument *arguments = sr_kernel_arguments(request->kernel, &count);
    uint32_t streams = 1u << inputs;
    *touches = 0;
    for (int i = 0; i < inputs; i++) {
        if (arguments[i].type == SR_ARG_T && (p->dims == 0 || p->repeated[i] == 0))
            streams |= 1u << i;
        else
            *touches |= 1u << i;
    }
    return streams;
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
