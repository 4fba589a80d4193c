// SPDX-License-Identifier: Apache-2.0
// Reads a program's text (program_text.h): a line at a time, each of which is recorded by the calls
// that model code uses, so that shapes are inferred by the same rules and compared with those
// written.
#ifndef SR_OPS_PLAIN
#define SR_OPS_PLAIN
#endif
#include <string.h>

#include "graph/ops.h"
#include "graph/program_read_internal.h"

// ---- Values ----

// "%3": its number.
static sr_status read_name(sr_program_reader *r, int64_t *out) {
    SR_TRY(sr_reader_expect(r, '%', "the name of a value"));
    return sr_reader_integer(r, "the number of a value", 0, SR_PROGRAM_VALUES - 1, out);
}

static sr_status read_used(sr_program_reader *r, sr_tensor *out) {
    int64_t number;
    sr_reader_skip(r);
    const char *where = r->at;
    SR_TRY(read_name(r, &number));
    if ((size_t)number >= r->value_count || r->values[number].line == 0)
        return sr_reader_fail(r, where, "%%%lld is not defined before", (long long)number);
    *out = r->values[number].tensor;
    return SR_OK;
}

static sr_status define(sr_program_reader *r, int64_t number, sr_tensor tensor) {
    void *values = r->values;
    if ((size_t)number >= r->value_count) {
        SR_TRY(sr_grow(&values, &r->value_capacity, (size_t)number + 1, sizeof *r->values,
                       "values of a program"));
        r->values = values;
        for (; r->value_count <= (size_t)number; r->value_count++)
            r->values[r->value_count] = (sr_read_value){.line = 0};
    }
    r->values[number] = (sr_read_value){tensor, r->line};
    return SR_OK;
}

// The values that a line defines: none, or a list and '='.
typedef struct definitions {
    int64_t number[SR_OP_MAX_OUTPUTS];
    const char *where;
    int count;
} definitions;

static sr_status read_definitions(sr_program_reader *r, definitions *d) {
    *d = (definitions){0};
    sr_reader_skip(r);
    d->where = r->at;
    while (r->at < r->end && *r->at == '%') {
        const char *where = r->at;
        int64_t number;
        if (d->count == SR_OP_MAX_OUTPUTS)
            return sr_reader_fail(r, where, "an operator has at most %d results",
                                  SR_OP_MAX_OUTPUTS);
        SR_TRY(read_name(r, &number));
        if ((size_t)number < r->value_count && r->values[number].line > 0)
            return sr_reader_fail(r, where, "%%%lld is defined in line %d already",
                                  (long long)number, r->values[number].line);
        for (int i = 0; i < d->count; i++)
            if (d->number[i] == number)
                return sr_reader_fail(r, where, "%%%lld is defined twice", (long long)number);
        d->number[d->count++] = number;
        if (!sr_reader_accept(r, ','))
            return sr_reader_expect(r, '=', "the values");
        sr_reader_skip(r);
    }
    return d->count == 0 ? SR_OK : sr_reader_fail(r, r->at, "expected a value after ','");
}

static sr_status define_leaf(sr_program_reader *r, const definitions *d, sr_tensor tensor,
                             const char *where) {
    SR_TRY(sr_reader_check_context(r, where));
    return define(r, d->number[0], tensor);
}

// ---- Leaves ----

static sr_status read_input(sr_program_reader *r, const definitions *d) {
    int64_t slot;
    sr_info info;
    sr_reader_skip(r);
    const char *where = r->at;
    SR_TRY(sr_reader_integer(r, "the slot of an input", 0, SR_INPUT_SLOTS - 1, &slot));
    if (r->slots >> slot & 1)
        return sr_reader_fail(r, where, "input %lld is defined already", (long long)slot);
    r->slots |= UINT64_C(1) << slot;
    SR_TRY(sr_reader_expect(r, ':', "the slot"));
    SR_TRY(sr_reader_info(r, &info));
    return define_leaf(r, d, sr_input(r->context, (int)slot, &info), where);
}

static sr_status read_variable(sr_program_reader *r, const definitions *d) {
    const char *name;
    sr_info info;
    sr_reader_skip(r);
    const char *where = r->at;
    SR_TRY(sr_reader_quoted(r, &name));
    SR_TRY(sr_reader_expect(r, ':', "the name"));
    SR_TRY(sr_reader_info(r, &info));
    void *variables = r->out->variables;
    SR_TRY(sr_grow(&variables, &r->variable_capacity, (size_t)r->out->variable_count + 1,
                   sizeof(sr_tensor), "variables of a program"));
    r->out->variables = variables;
    const sr_tensor variable = r->without_memory
                                   ? sr_variable_on(r->context, name, &info, sr_address_none())
                                   : sr_variable(r->context, name, &info, NULL);
    SR_TRY(define_leaf(r, d, variable, where));
    r->out->variables[r->out->variable_count++] = variable;
    return SR_OK;
}

static sr_status read_elements(sr_program_reader *r, const sr_info *info, unsigned char *out) {
    char text[SR_NUMBER_TEXT];
    for (int64_t i = 0; i < sr_info_count(info); i++) {
        if (i > 0)
            SR_TRY(sr_reader_expect(r, ',', "an element"));
        sr_reader_skip(r);
        const char *where = r->at;
        SR_TRY(sr_reader_number(r, text));
        if (!sr_program_read_number(info->dtype, text, out))
            return sr_reader_fail(r, where, "'%s' is no %s", text, sr_dtype_name(info->dtype));
        out += sr_dtype_size(info->dtype);
    }
    return sr_reader_expect(r, '}', "the last element");
}

static sr_status read_constant(sr_program_reader *r, const definitions *d) {
    sr_info info;
    sr_reader_skip(r);
    const char *where = r->at;
    SR_TRY(sr_reader_expect(r, ':', "'constant'"));
    SR_TRY(sr_reader_info(r, &info));
    SR_TRY(sr_reader_expect(r, '{', "the shape"));
    if (sr_info_count(&info) > r->end - r->at) // before memory is taken
        return sr_reader_fail(r, r->at, "%lld elements are missing",
                              (long long)sr_info_count(&info));
    unsigned char *data = sr_alloc(sr_info_bytes(&info), "a constant");
    if (!data)
        return SR_E_MEMORY;
    sr_status status = read_elements(r, &info, data);
    if (status == SR_OK)
        status = define_leaf(r, d, sr_constant(r->context, &info, data), where);
    sr_free(data);
    return status;
}

// ---- Operators ----

typedef struct operator_line {
    const sr_op *op;
    const char *where;
    sr_tensor input[SR_OP_MAX_INPUTS];
    unsigned char attr[SR_OP_ATTR_BYTES];
    sr_info out[SR_OP_MAX_OUTPUTS];
    const char *out_where[SR_OP_MAX_OUTPUTS];
    const char *layer; // NULL: none
    bool backward;
} operator_line;

static sr_status no_operator(const sr_program_reader *r, const char *where, const char *name) {
    size_t count;
    const sr_op *const *ops = sr_ops(&count);
    const char **names = sr_arena_alloc(r->arena, count * sizeof *names);
    for (size_t i = 0; names && i < count; i++)
        names[i] = ops[i]->name;
    const char *nearest = names ? sr_text_nearest(name, names, count) : NULL;
    return sr_reader_fail(r, where, "unknown operator '%s'%s%s%s", name,
                          nearest ? "; did you mean '" : "", nearest ? nearest : "",
                          nearest ? "'?" : "");
}

static sr_status read_inputs(sr_program_reader *r, operator_line *o) {
    int count = 0;
    SR_TRY(sr_reader_expect(r, '(', "the operator"));
    while (!sr_reader_accept(r, ')')) {
        char word[SR_PROGRAM_WORD];
        if (count > 0)
            SR_TRY(sr_reader_expect(r, ',', "an input"));
        sr_reader_skip(r);
        const char *where = r->at;
        if (count == o->op->inputs)
            return sr_reader_fail(r, where, "%s has at most %d inputs", o->op->name, count);
        if (r->at < r->end && *r->at == '%') {
            SR_TRY(read_used(r, &o->input[count++]));
            continue;
        }
        SR_TRY(sr_reader_word(r, "a value or 'none'", word));
        if (strcmp(word, "none") != 0)
            return sr_reader_fail(r, where, "expected a value or 'none', not '%s'", word);
        if (count < o->op->required)
            return sr_reader_fail(r, where, "%s needs its input %s", o->op->name,
                                  o->op->input_name[count]);
        count++;
    }
    if (count < o->op->required)
        return sr_reader_fail(r, o->where, "%s needs %d inputs, not %d", o->op->name,
                              o->op->required, count);
    return SR_OK;
}

static sr_status read_results(sr_program_reader *r, const definitions *d, operator_line *o) {
    if (d->count != o->op->outputs)
        return sr_reader_fail(r, d->where, "%s has %d results, not %d", o->op->name, o->op->outputs,
                              d->count);
    for (int i = 0; i < d->count; i++) {
        SR_TRY(sr_reader_expect(r, i ? ',' : ':', i ? "a shape" : "the operator"));
        sr_reader_skip(r);
        o->out_where[i] = r->at;
        SR_TRY(sr_reader_info(r, &o->out[i]));
    }
    return SR_OK;
}

static sr_status read_place(sr_program_reader *r, operator_line *o) {
    char word[SR_PROGRAM_WORD];
    if (sr_reader_accept(r, '@'))
        SR_TRY(sr_reader_quoted(r, &o->layer));
    if (sr_reader_at_line_end(r))
        return SR_OK;
    const char *where = r->at;
    SR_TRY(sr_reader_word(r, "'backward' or the end of the line", word));
    if (strcmp(word, "backward") != 0)
        return sr_reader_fail(r, where, "expected 'backward' or the end of the line, not '%s'",
                              word);
    o->backward = true;
    return SR_OK;
}

static sr_status record(sr_program_reader *r, const definitions *d, const operator_line *o) {
    sr_tensor output[SR_OP_MAX_OUTPUTS];
    char want[96], got[96];
    sr_context *context = r->context;
    sr_layer_use_exactly(context, o->layer);
    context->source = o->backward ? (uint32_t)context->recording.node_count + 1 : 0;
    sr_at(r->name, r->line);
    sr_op_record(o->op, o->attr, o->input, output);
    context->source = 0;
    SR_TRY(sr_reader_check_context(r, o->where));
    for (int i = 0; i < d->count; i++) {
        const uint32_t ref = sr_context_ref(context, output[i], "result");
        const sr_info *info = sr_context_info(context, ref);
        if (memcmp(info, &o->out[i], sizeof *info) != 0)
            return sr_reader_fail(r, o->out_where[i], "%s gives %s, not %s", o->op->name,
                                  sr_info_text(info, got), sr_info_text(&o->out[i], want));
        SR_TRY(define(r, d->number[i], output[i]));
    }
    return SR_OK;
}

static sr_status read_operator(sr_program_reader *r, const definitions *d, const char *where,
                               const char *name) {
    operator_line o = {.op = sr_op_find(name), .where = where};
    if (!o.op)
        return no_operator(r, where, name);
    SR_TRY(read_inputs(r, &o));
    SR_TRY(sr_reader_attributes(r, where, o.op, o.attr));
    SR_TRY(read_results(r, d, &o));
    SR_TRY(read_place(r, &o));
    return record(r, d, &o);
}

// ---- Lines ----

static sr_status read_target(sr_program_reader *r, sr_target *out) {
    char word[SR_PROGRAM_WORD];
    SR_TRY(read_used(r, &out->tensor));
    sr_reader_skip(r);
    if (r->at == r->end || *r->at != 'a')
        return SR_OK;
    const char *where = r->at;
    SR_TRY(sr_reader_word(r, "'after'", word));
    if (strcmp(word, "after") != 0)
        return sr_reader_fail(r, where, "expected 'after', not '%s'", word);
    sr_reader_skip(r);
    where = r->at;
    SR_TRY(read_used(r, &out->after));
    return out->after.generation == 0 ? SR_OK : sr_reader_fail(r, where, "it is not a variable");
}

static sr_status read_return(sr_program_reader *r) {
    bool first = true;
    while (!sr_reader_at_line_end(r)) {
        sr_target target = {.after = SR_NONE};
        void *targets = r->out->targets;
        if (!first)
            SR_TRY(sr_reader_expect(r, ',', "a target"));
        first = false;
        SR_TRY(read_target(r, &target));
        SR_TRY(sr_grow(&targets, &r->target_capacity, (size_t)r->out->target_count + 1,
                       sizeof target, "targets of a program"));
        r->out->targets = targets;
        r->out->targets[r->out->target_count++] = target;
    }
    return SR_OK;
}

// A line that is not empty; *last: it was 'return'.
static sr_status read_line(sr_program_reader *r, bool *last) {
    static const struct {
        const char *name;
        sr_status (*read)(sr_program_reader *r, const definitions *d);
    } leaves[] = {{"input", read_input}, {"variable", read_variable}, {"constant", read_constant}};
    char name[SR_PROGRAM_WORD];
    definitions d;
    SR_TRY(read_definitions(r, &d));
    sr_reader_skip(r);
    const char *where = r->at;
    SR_TRY(sr_reader_word(r, "an operator", name));
    *last = d.count == 0 && strcmp(name, "return") == 0;
    if (*last)
        return read_return(r);
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        if (strcmp(leaves[i].name, name) != 0)
            continue;
        if (d.count != 1)
            return sr_reader_fail(r, where, "%s defines one value", name);
        return leaves[i].read(r, &d);
    }
    return read_operator(r, &d, where, name);
}

static sr_status read_head(sr_program_reader *r) {
    char word[SR_PROGRAM_WORD];
    int64_t version;
    sr_reader_skip(r);
    const char *where = r->at;
    if (sr_reader_word(r, "'program'", word) != SR_OK || strcmp(word, "program") != 0)
        return sr_reader_fail(r, where, "a program begins with 'program %d'", SR_PROGRAM_VERSION);
    SR_TRY(sr_reader_integer(r, "the version of the format", SR_PROGRAM_VERSION, SR_PROGRAM_VERSION,
                             &version));
    return SR_OK;
}

static sr_status next_line(sr_program_reader *r) {
    if (!sr_reader_at_line_end(r))
        return sr_reader_fail(r, r->at, "expected the end of the line");
    while (r->at < r->end && *r->at != '\n')
        r->at++;
    if (r->at < r->end) {
        r->at++;
        r->line++;
        r->line_begin = r->at;
    }
    return SR_OK;
}

static sr_status read_all(sr_program_reader *r) {
    bool head = false, last = false;
    while (r->at < r->end) {
        if (!sr_reader_at_line_end(r)) {
            if (last)
                return sr_reader_fail(r, r->at, "nothing follows 'return'");
            SR_TRY(head ? read_line(r, &last) : read_head(r));
            head = true;
        }
        SR_TRY(next_line(r));
    }
    return last ? SR_OK : sr_reader_fail(r, r->at, "'return' is missing");
}

// Moves what has been collected to the arena.
static sr_status keep(sr_arena *arena, void **list, size_t bytes) {
    void *copy = sr_arena_alloc(arena, bytes + 1);
    if (copy && bytes)
        memcpy(copy, *list, bytes);
    sr_free(*list);
    *list = copy;
    return copy ? SR_OK : SR_E_MEMORY;
}

sr_status sr_program_read(sr_context *context, const char *text, size_t bytes,
                          const sr_program_read_options *options, sr_arena *arena,
                          sr_read_program *out) {
    const char *name = options && options->name ? options->name : "program";
    sr_program_reader r = {.context = context,
                           .at = text,
                           .end = text + bytes,
                           .line_begin = text,
                           .line = 1,
                           .without_memory = options && options->without_memory,
                           .arena = arena,
                           .out = out};
    *out = (sr_read_program){0};
    SR_TRY(sr_context_status(context));
    r.name = sr_layer_keep_name(context, name);
    sr_status status = r.name ? read_all(&r) : SR_E_MEMORY;
    context->layer = NULL;
    context->layer_exact = false;
    sr_free(r.values);
    const sr_status targets =
        keep(arena, (void **)&out->targets, (size_t)out->target_count * sizeof *out->targets);
    const sr_status variables =
        keep(arena, (void **)&out->variables, (size_t)out->variable_count * sizeof *out->variables);
    return status != SR_OK ? status : targets != SR_OK ? targets : variables;
}
