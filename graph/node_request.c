// SPDX-License-Identifier: Apache-2.0
// What a node asks of the kernels: its operator's view of the values, and its request.
#include <string.h>

#include "graph/plan_internal.h"

static void node_view(const sr_program *p, const sr_program_node *node, sr_view_arrays *arrays,
                      sr_node_view *view) {
    for (int i = 0; i < node->op->inputs; i++)
        arrays->in[i] = node->input[i] == SR_REF_NONE ? (sr_info){.dtype = SR_DTYPE_COUNT}
                                                      : p->values[node->input[i]].info;
    for (int i = 0; i < node->op->outputs; i++)
        arrays->out[i] = node->output[i] == SR_REF_NONE ? (sr_info){.dtype = SR_DTYPE_COUNT}
                                                        : p->values[node->output[i]].info;
    *view = (sr_node_view){.op = node->op,
                           .attr = p->attrs + node->attr,
                           .inputs = node->op->inputs,
                           .in = arrays->in,
                           .out = arrays->out};
}

static void init_request(const sr_context *context, sr_kernel_request *request,
                         const sr_node_view *node) {
    memset(request, 0, sizeof *request);
    request->device = sr_device_get_properties(context->device)->kind;
    request->args = node->inputs + node->op->outputs;
    for (int i = 0; i < node->inputs; i++)
        request->dtype[i] = node->in[i].dtype;
    for (int i = 0; i < node->op->outputs; i++)
        request->dtype[node->inputs + i] = node->out[i].dtype;
    if (node->op->kernel_count) {
        request->kernel = SR_KERNEL_OWN;
        request->own = node->op->kernels;
        request->own_count = node->op->kernel_count;
    }
}

static sr_status lower_copy(const sr_node_view *view, sr_kernel_request *request) {
    request->kernel = SR_KERNEL_cast;
    int64_t count = sr_info_count(&view->in[0]);
    memcpy(request->params, &count, sizeof count);
    return SR_OK;
}

sr_status sr_node_request(const sr_context *context, const sr_program_node *node,
                          sr_view_arrays *arrays, sr_node_view *view, sr_kernel_request *request) {
    node_view(context->recording.program, node, arrays, view);
    init_request(context, request, view);
    if (node->op->alias)
        return lower_copy(view, request);
    return node->op->lower ? node->op->lower(view, request) : SR_OK;
}
