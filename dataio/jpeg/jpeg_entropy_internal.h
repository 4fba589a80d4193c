// SPDX-License-Identifier: Apache-2.0
// Huffman decoding of blocks (ITU-T T.81, F.2.2).
//
// One table look-up of the next bits decodes a code and the number after it, so the dependency
// chain from one coefficient to the next is a shift, a load and a shift; five coefficients fit
// between refills, which have no branches. jd_long decodes the rare code and number that are
// longer. The only other branch is at the end of a block.
//
// With an index two segments are read at once, because a processor can execute two such dependency
// chains in parallel. Then the number of instructions limits the speed. So the remaining bits and
// the remaining positions of the block share a word, from which one subtraction of a table entry
// updates both. Included by one file per instruction set, which defines SR_JPEG_READ as the
// function's name.
#ifndef SR_DATAIO_JPEG_ENTROPY_INTERNAL_H
#define SR_DATAIO_JPEG_ENTROPY_INTERNAL_H

#include "dataio/jpeg/jpeg_set_internal.h"

#define JD_INLINE static inline __attribute__((always_inline))
#define JD_APART static __attribute__((noinline))
#define JD_RARE(condition) __builtin_expect(condition, 0)
#define JD_FULL 56                              // bits after a refill, at least
#define JD_STEPS (JD_FULL / SR_JPEG_WHOLE_BITS) // coefficients between refills

// The state that changes with every coefficient.
typedef struct jd_hot {
    uint64_t buffer;
    uint32_t left; // bits 0..7: bits left in 'buffer'; 8..15: positions left in the block
    const uint8_t *next;
    const sr_jpeg_huffman *table; // of the block
    int16_t *out;                 // the block's coefficients in its group
} jd_hot;

// The state of a run that is being read, between blocks.
typedef struct jd_track {
    sr_jpeg_run *run;
    int block;
    int64_t mcu;
} jd_track;

typedef struct jd_job {
    const sr_jpeg_stream *stream;
    uint8_t position[SR_JPEG_BLOCK]; // offset in a group, by remaining positions of the block
    int group;
    int64_t mcus;
    bool store;
    int16_t unused[SR_JPEG_MAX_GROUP * SR_JPEG_BLOCK]; // for coefficients that are not stored
} jd_job;

typedef enum jd_state { JD_CONTINUES, JD_DONE, JD_INVALID } jd_state;

JD_INLINE uint64_t jd_load(const uint8_t *p) {
    return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 |
           (uint64_t)p[3] << 32 | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 |
           (uint64_t)p[6] << 8 | (uint64_t)p[7];
}

// At least JD_FULL bits from now on.
JD_INLINE void jd_refill(jd_hot *h) {
    h->buffer |= jd_load(h->next) >> (h->left & 63);
    h->next += ~h->left >> 3 & 7;
    h->left |= JD_FULL;
}

// Decodes the next symbol and the number after it.
JD_INLINE sr_jpeg_symbol jd_symbol(jd_hot *h, const sr_jpeg_huffman *table, int *number) {
    sr_jpeg_symbol symbol = table->look[h->buffer >> (64 - SR_JPEG_LOOK_BITS)];
    if (JD_RARE(symbol == 0))
        symbol = sr_jpeg_long_symbol(table, (uint32_t)(h->buffer >> 48));
    const uint64_t rest = h->buffer << (symbol >> 8 & 63);
    const int negative = (int)(~(int64_t)rest >> 63);
    *number = (int)(rest >> 1 >> (symbol >> 16 & 63)) + (negative & (int)(symbol >> 32));
    h->buffer <<= symbol & 63;
    h->left -= (uint32_t)(symbol & 63);
    return symbol;
}

// Decodes a coefficient that is too long for the look-up table. An invalid code ends the block.
JD_APART sr_jpeg_whole jd_long(jd_hot *h) {
    int number;
    jd_refill(h);
    const sr_jpeg_symbol symbol = jd_symbol(h, h->table, &number);
    const uint32_t skip = (uint32_t)SR_JPEG_SKIP(symbol);
    h->left = skip == SR_JPEG_SKIP_NONE ? (h->left & 63) | 0xff00 : h->left - (skip << 8);
    jd_refill(h);
    return SR_JPEG_WHOLE((uint32_t)symbol & 63, skip, number);
}

// Begins a block: its DC coefficient.
JD_INLINE jd_state jd_begin(jd_job *job, jd_track *t, jd_hot *h) {
    const sr_jpeg_mcu_block *p = &job->stream->mcu_block[t->block];
    int number;
    jd_refill(h);
    if (JD_RARE(SR_JPEG_SKIP(jd_symbol(h, p->dc, &number)) != 0))
        return JD_INVALID;
    int32_t *dc = &t->run->dc[p->component];
    *dc = (int32_t)((uint32_t)*dc + (uint32_t)number);
    h->out = job->unused;
    if (job->store) {
        const sr_jpeg_target *target = &t->run->target;
        const int64_t column = (target->column + t->mcu) * p->across + p->column;
        const int64_t member = column & (job->group - 1); // a power of two
        h->out = target->row[p->component][p->row] +
                 ((column - member) * SR_JPEG_BLOCK + member * SR_JPEG_SIDE);
    }
    h->out[0] = (int16_t)*dc;
    h->table = p->ac;
    h->left = (h->left & 63) | (SR_JPEG_BLOCK - 1) << 8;
    jd_refill(h);
    return JD_CONTINUES;
}

// After a block's last coefficient: checks how the block ended and begins the next block.
JD_INLINE jd_state jd_turn(jd_job *job, jd_track *t, jd_hot *h, sr_jpeg_whole last) {
    if ((h->left >> 8 & 255) == 0)
        h->out[job->position[0]] = (int16_t)(last >> 16);
    else if (JD_RARE((last >> 8 & 255) != SR_JPEG_SKIP_END))
        return JD_INVALID;
    if (++t->block == job->stream->mcu_blocks) {
        t->block = 0;
        t->mcu++;
        if (JD_RARE(h->next > t->run->bits.end + sizeof h->buffer))
            return JD_INVALID;
        if (t->mcu == job->mcus)
            return JD_DONE;
    }
    return jd_begin(job, t, h);
}

// Decodes one coefficient; returns whether the block continues. The struct is copied for the call
// of jd_long, so that the original stays in registers.
JD_INLINE bool jd_step(const jd_job *job, jd_hot *h, sr_jpeg_whole *whole) {
    *whole = h->table->whole[h->buffer >> (64 - SR_JPEG_WHOLE_BITS)];
    if (JD_RARE(*whole == 0)) {
        jd_hot copy = *h;
        *whole = jd_long(&copy);
        *h = copy;
    } else {
        h->buffer <<= *whole & 63;
        h->left -= *whole;
    }
    const uint32_t left = h->left >> 8 & 255;
    if ((int8_t)left <= 0)
        return false;
    h->out[job->position[left]] = (int16_t)(*whole >> 16);
    return true;
}

// Decodes as many coefficients as fit between refills; returns whether the block continues.
JD_INLINE bool jd_steps(const jd_job *job, jd_hot *h, sr_jpeg_whole *whole) {
    jd_refill(h);
    for (int i = 0; i < JD_STEPS; i++)
        if (!jd_step(job, h, whole))
            return false;
    return true;
}

static jd_state jd_finish(jd_job *job, jd_track *t, jd_hot *out) {
    jd_hot h = *out;
    sr_jpeg_whole whole;
    jd_state state;
    do {
        while (jd_steps(job, &h, &whole)) {
        }
        state = jd_turn(job, t, &h, whole);
    } while (state == JD_CONTINUES);
    *out = h;
    return state;
}

// Reads both runs until one is complete, then the rest of the other.
static jd_state jd_finish_both(jd_job *job, jd_track *t, jd_hot *hot) {
    jd_hot a = hot[0], b = hot[1];
    sr_jpeg_whole whole;
    jd_state state;
    int other;
    for (;;) {
        jd_refill(&a);
        jd_refill(&b);
        for (int i = 0; i < JD_STEPS; i++) {
            if (!jd_step(job, &a, &whole))
                goto a_turns;
            if (!jd_step(job, &b, &whole))
                goto b_turns;
        }
        continue;
    a_turns:
        other = 1;
        if ((state = jd_turn(job, &t[0], &a, whole)) != JD_CONTINUES)
            break;
        continue;
    b_turns:
        other = 0;
        if ((state = jd_turn(job, &t[1], &b, whole)) != JD_CONTINUES)
            break;
    }
    hot[0] = a;
    hot[1] = b;
    return state == JD_INVALID ? JD_INVALID : jd_finish(job, &t[other], &hot[other]);
}

// Offsets of coefficients in a group of 'group' blocks.
JD_INLINE void jd_positions(int group, uint8_t *position) {
    for (int i = 0; i < SR_JPEG_BLOCK; i++) {
        const int row = sr_jpeg_zigzag[i] / SR_JPEG_SIDE, column = sr_jpeg_zigzag[i] % SR_JPEG_SIDE;
        position[SR_JPEG_BLOCK - 1 - i] = (uint8_t)(row * SR_JPEG_SIDE * group + column);
    }
}

bool SR_JPEG_READ(const sr_jpeg_stream *s, sr_jpeg_run *runs, int count, int64_t mcus, int group,
                  bool store) {
    jd_job job = {.stream = s, .group = group, .mcus = mcus, .store = store};
    jd_track t[SR_JPEG_RUNS] = {{0}};
    jd_hot hot[SR_JPEG_RUNS];
    jd_positions(group, job.position);
    for (int i = 0; i < count; i++) {
        const sr_jpeg_bits *b = &runs[i].bits;
        hot[i] = (jd_hot){.buffer = b->buffer, .left = (uint32_t)b->count, .next = b->next};
        t[i].run = &runs[i];
        if (jd_begin(&job, &t[i], &hot[i]) != JD_CONTINUES)
            return false;
    }
    if ((count > 1 ? jd_finish_both(&job, t, hot) : jd_finish(&job, t, hot)) == JD_INVALID)
        return false;
    for (int i = 0; i < count; i++) {
        sr_jpeg_bits *b = &runs[i].bits;
        b->buffer = hot[i].buffer;
        b->count = (int)(hot[i].left & 63);
        b->next = hot[i].next;
        if (store)
            runs[i].target.column += mcus;
    }
    return true;
}

#endif
