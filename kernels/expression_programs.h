// SPDX-License-Identifier: Apache-2.0
// sr_programs: the programs of expression_list.def as constants, one per row. For expression.c, and
// for kernels that are compiled separately for each program.
#ifndef SR_KERNELS_EXPRESSION_PROGRAMS_H
#define SR_KERNELS_EXPRESSION_PROGRAMS_H

#include "kernels/expression.h"

// Indices of the rows.
enum {
#define SR_EXPRESSION(name, ...) SR_PROGRAM_##name,
#include "kernels/expression_list.def"
#undef SR_EXPRESSION
    SR_PROGRAMS
};

// Opcodes under the names that the list uses.
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
    {code, 0 arguments, literals},
#ifdef __cplusplus
static constexpr sr_expression sr_programs[SR_PROGRAMS] = {
#else
static const sr_expression sr_programs[SR_PROGRAMS] = {
#endif
#include "kernels/expression_list.def"
};
#undef SR_EXPRESSION
#undef OUT
#undef IN
#undef LITERALS
#undef CODE

#endif
