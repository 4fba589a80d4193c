// SPDX-License-Identifier: Apache-2.0
// The programs of expression_list.def: formulas for one element, on a stack of numbers.
//
// A kernel runs each opcode over a few hundred elements before the next one, so that loops are long
// and the stack stays in the first-level cache. It computes in f32 for f32, bf16 and f16, and in
// f64 for f64; the result is rounded once, when it is stored. A program is plain data, so a device
// kernel can take it by value.
#ifndef SR_KERNELS_EXPRESSION_H
#define SR_KERNELS_EXPRESSION_H

#include "kernels/kernel.h"

#define SR_EXPRESSION_CODES_MOST 40 // of a program, including its end
#define SR_EXPRESSION_LITERALS 4    // of a program
#define SR_EXPRESSION_DEPTH 8       // of its stack

// Opcodes: OPCODE(name, numbers popped, numbers pushed)
#define SR_EXPRESSION_OPCODES(OPCODE)                                                              \
    OPCODE(END, 1, 1)                                                                              \
    OPCODE(X0, 0, 1) /* inputs of type T */                                                        \
    OPCODE(X1, 0, 1)                                                                               \
    OPCODE(X2, 0, 1)                                                                               \
    OPCODE(P0, 0, 1) /* inputs that are a single number of type P */                               \
    OPCODE(P1, 0, 1)                                                                               \
    OPCODE(P2, 0, 1)                                                                               \
    OPCODE(K0, 0, 1) /* constants of the params */                                                 \
    OPCODE(K1, 0, 1)                                                                               \
    OPCODE(K2, 0, 1)                                                                               \
    OPCODE(K3, 0, 1)                                                                               \
    OPCODE(L0, 0, 1) /* literals of the program */                                                 \
    OPCODE(L1, 0, 1)                                                                               \
    OPCODE(L2, 0, 1)                                                                               \
    OPCODE(L3, 0, 1)                                                                               \
    OPCODE(ZERO, 0, 1)                                                                             \
    OPCODE(ONE, 0, 1)                                                                              \
    OPCODE(ADD, 2, 1)                                                                              \
    OPCODE(SUB, 2, 1)                                                                              \
    OPCODE(MUL, 2, 1)                                                                              \
    OPCODE(DIV, 2, 1)                                                                              \
    OPCODE(LT, 2, 1)   /* a b: 1 where a < b, else 0 */                                            \
    OPCODE(GT, 2, 1)   /* a b: 1 where a > b, else 0 */                                            \
    OPCODE(EQ, 2, 1)   /* a b: 1 where a = b, else 0 */                                            \
    OPCODE(MIN, 2, 1)  /* of a b; NaN where one of them is NaN */                                  \
    OPCODE(MAX, 2, 1)  /* the same */                                                              \
    OPCODE(POW, 2, 1)  /* a b: a to the power of b */                                              \
    OPCODE(PICK, 3, 1) /* c a b: a where c is not 0, else b */                                     \
    OPCODE(DUP, 1, 2)  /* a: a a */                                                                \
    OPCODE(NEG, 1, 1)                                                                              \
    OPCODE(SQRT, 1, 1)                                                                             \
    OPCODE(EXP, 1, 1)                                                                              \
    OPCODE(EXPM1, 1, 1) /* exp(a) - 1, without loss for small a */                                 \
    OPCODE(LOG, 1, 1)                                                                              \
    OPCODE(LOG1P, 1, 1) /* log(1 + a) for 0 <= a <= 1, without loss for small a */                 \
    OPCODE(ERF, 1, 1)                                                                              \
    OPCODE(TANH, 1, 1)                                                                             \
    OPCODE(SIGMOID, 1, 1) /* 1 / (1 + exp(-a)), without overflow */                                \
    OPCODE(SIN, 1, 1)                                                                              \
    OPCODE(COS, 1, 1)                                                                              \
    OPCODE(ATAN, 1, 1)

typedef enum sr_opcode {
#define SR_OPCODE(name, taken, left) SR_CODE_##name,
    SR_EXPRESSION_OPCODES(SR_OPCODE)
#undef SR_OPCODE
        SR_CODE_COUNT
} sr_opcode;

typedef struct sr_expression {
    uint8_t code[SR_EXPRESSION_CODES_MOST]; // sr_opcode, to SR_CODE_END
    uint8_t inputs;                         // the output is the argument after them
    double literal[SR_EXPRESSION_LITERALS];
} sr_expression;

// The program of a kernel, or NULL if it is not in expression_list.def. Static storage.
const sr_expression *sr_expression_of(sr_kernel_id kernel);
// The arguments of a formula's request that blocks of elements stream over, as bits: the output and
// the inputs with its shape. *touches: the other inputs.
uint32_t sr_expression_streams(const sr_kernel_request *request, uint32_t *touches);
// Whether a program never pops an empty stack, stays within the limits, and ends with one number.
bool sr_expression_is_sound(const sr_expression *expression);

#endif
