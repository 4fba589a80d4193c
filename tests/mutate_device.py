# SPDX-License-Identifier: Apache-2.0
"""The faults that `tests/mutate device` seeds: mistakes with a device's memory, streams and events.

Most are right on a CPU, whose memory is the host's and whose streams run at once, so the tests run on
cpu-async. They are of the form described in mutate_faults.py.
"""
from mutate_faults import Fault

ENGINE, EXCHANGE, TREE = "test_engine_device", "test_exchange_device", "test_lane_tree"
LOSSES, GRAPH = "test_loss_golden", "test_repeat"

FAULTS = [
    # Inputs.
    Fault("inputs: the address of host memory", "trainer/engine/input_set.c",
          "    set->slots[slot] = set->memory[slot];",
          "    set->slots[slot] = (sr_address){(uintptr_t)host};", [ENGINE]),
    Fault("inputs: half of them is copied", "trainer/engine/input_set.c",
          "return sr_stream_upload(stream, set->memory[slot], host, bytes);",
          "return sr_stream_upload(stream, set->memory[slot], host, bytes / 2);", [ENGINE]),
    Fault("inputs: their copy is not waited for", "trainer/engine/feed.c",
          "    SR_TRY(sr_event_wait(feed->copied, feed->act_seconds));\n    return sr_stream_wait(feed->copies);",
          "    return SR_OK;", [ENGINE]),
    Fault("inputs: the set that is read is filled", "trainer/engine/engine.c",
          "    run->next = !run->next;\n", "", [ENGINE]),
    Fault("inputs: the set that is not filled is read", "trainer/engine/engine.c",
          "{.inputs = run->inputs[run->next].slots,", "{.inputs = run->inputs[!run->next].slots,", [ENGINE]),
    Fault("inputs: given back before they are copied", "trainer/engine/engine.c",
          "    const sr_status status = fill_inputs(e, run, phase, step, lane, &slot);\n",
          "    if (!in_place)\n        source->done(source->user, lane);\n"
          "    const sr_status status = fill_inputs(e, run, phase, step, lane, &slot);\n", [ENGINE]),
    Fault("replay: the addresses of the replay before", "graph/executor.c",
          "        SR_TRY(fill_moved(e, plan));\n", "        (void)fill_moved;\n", [ENGINE, GRAPH]),
    # Results.
    Fault("sink: the host reads device memory", "trainer/engine/engine.c",
          "    return sr_stream_download(stream, run->out, data, bytes);",
          "    (void)stream;\n    memcpy(run->out, (const void *)data.at, bytes);\n    return SR_OK;", [ENGINE]),
    Fault("sink: called before the kernel whose result it takes", "graph/executor_stream.c",
          ("        SR_TRY(launch(e, plan->items[step->first].launch));\n",
           "step->sink_count, e->stream));\n"),
          ("", "step->sink_count, e->stream));\n        SR_TRY(launch(e, plan->items[step->first].launch));\n"),
          [ENGINE, GRAPH]),
    Fault("sink: on another stream than its lane", "trainer/engine/engine.c",
          "    return sr_exchange_put(phase->exchange, run->lane, segment, data, count, stream);",
          "    return sr_exchange_put(phase->exchange, run->lane, segment, data, count, run->engine->copies);",
          [ENGINE]),
    Fault("scalars: copied outside of the stream that sums them", "trainer/engine/phase.c",
          "        return sr_stream_copy(stream, values, sum, bytes);",
          "        return sr_device_copy(phase->device, values, sum, bytes);", [ENGINE]),
    Fault("scalars: brought to the host before the exchange has ended", "trainer/engine/engine.c",
          "    SR_TRY(sr_exchange_step_wait(phase->exchange));\n    SR_TRY(sr_phase_end_step(phase));\n",
          "    SR_TRY(sr_phase_end_step(phase));\n    SR_TRY(sr_exchange_step_wait(phase->exchange));\n", [ENGINE]),
    Fault("scalars: those of another phase", "trainer/engine/engine.c",
          "    SR_TRY(sr_phase_end_step(phase));\n", "    SR_TRY(sr_phase_end_step(e->phases[0]));\n", [ENGINE]),
    # Parameters, settings, averages.
    Fault("settings: not brought to the device", "trainer/engine/phase.c",
          "    return sr_device_upload(phase->device, phase->hyper, phase->settings,\n"
          "                            HYPER_SETTINGS * HYPER_ROW * sizeof(float));",
          "    (void)phase;\n    return SR_OK;", [LOSSES]),
    Fault("settings: brought to the device after the lanes", "trainer/engine/engine.c",
          ("    SR_TRY(sr_phase_begin_step(phase));\n", "    SR_TRY(sr_exchange_step_wait(phase->exchange));\n"),
          ("", "    SR_TRY(sr_phase_begin_step(phase));\n    SR_TRY(sr_exchange_step_wait(phase->exchange));\n"),
          [ENGINE, LOSSES]),
    Fault("parameters: first values stay on the host", "trainer/engine/phase.c",
          "SR_TRY(sr_phase_unmap(phase, SR_PHASE_VALUES, values, true));",
          "SR_TRY(sr_phase_unmap(phase, SR_PHASE_VALUES, values, false));", [ENGINE]),
    Fault("parameters: bound to the memory of a state", "trainer/engine/phase.c",
          "sr_model_bind(phase->model, o->context, phase->values)",
          "sr_model_bind(phase->model, o->context, phase->states[0])", [LOSSES]),
    Fault("average: copied outside of the stream that updates it", "trainer/engine/phase.c",
          "sr_stream_copy(stream, values, average, bytes) : SR_OK;",
          "sr_device_copy(phase->device, values, average, bytes) : SR_OK;", [ENGINE]),
    Fault("checkpoint: read without a map", "trainer/engine/state.c",
          "const sr_status status = sr_phase_map(e->phases[p], a, &out->flat[p][a]);",
          "const sr_status status = SR_OK;\n            out->flat[p][a] = (float *)e->phases[p]->values.at;", [ENGINE]),
    Fault("checkpoint: what is loaded stays on the host", "trainer/engine/state.c",
          "return unmap(e, &host, true, load_arrays(", "return unmap(e, &host, false, load_arrays(", [ENGINE]),
    # Sums over lanes.
    Fault("lane sum: a number of elements for one of bytes", "trainer/exchange/lane_tree.c",
          "SR_TRY(sr_stream_copy(stream, to, data, (size_t)count * sizeof(float)));",
          "SR_TRY(sr_stream_copy(stream, to, data, (size_t)count));", [EXCHANGE, TREE]),
    Fault("lane sum: a buffer is written before it is free", "trainer/exchange/lane_tree.c",
          "    SR_TRY(sr_stream_wait_event(stream, own->buffer->used));\n", "", [EXCHANGE, ENGINE]),
    Fault("lane sum: a node is added before it is complete", "trainer/exchange/lane_tree.c",
          "    SR_TRY(sr_stream_wait_event(stream, from->used));\n", "", [EXCHANGE, ENGINE]),
    Fault("lane sum: a buffer is given back without an event", "trainer/exchange/lane_tree.c",
          "    return sr_event_record(from->used, stream);", "    return SR_OK;", [EXCHANGE, ENGINE]),
    Fault("lane sum: complete without an event", "trainer/exchange/lane_tree.c",
          "        status = sr_event_record(buffer->used, stream);", "        status = SR_OK;", [EXCHANGE, ENGINE]),
    Fault("exchange: begins before the lanes' streams have ended", "trainer/exchange/lane_tree.c",
          "        if (!sr_event_done(subtree(tree, i)->used))",
          "        if (sr_address_is_none(subtree(tree, i)->memory))", [EXCHANGE, ENGINE]),
    Fault("exchange: an argument beyond the end of its memory", "trainer/exchange/exchange_plan.c",
          "(size_t)(all - mine) * (size_t)largest * sizeof(float),", "(size_t)largest * sizeof(float),", [EXCHANGE]),
    Fault("exchange: lane buffers are given back before they are folded", "trainer/exchange/exchange_host.c",
          "    if (!transfer->released && transfer->reduced &&",
          "    if (!transfer->released && transfer->swapped &&", [EXCHANGE, ENGINE]),
    Fault("exchange: new values are sent before they are computed", "trainer/exchange/exchange_host.c",
          ("!transfer->reduced && sr_event_done(transfer->updated)) {", "    SR_TRY(sr_exchange_check_stream(x));\n"),
          ("!transfer->reduced) {", ""), [EXCHANGE, ENGINE]),
    Fault("exchange: measures are sent before they are copied", "trainer/exchange/exchange_agree.c",
          "        if (!sr_event_done(a->copied))\n            return SR_OK;\n        SR_TRY(sr_stream_wait(x->stream));\n",
          "", [EXCHANGE]),
    # Messages.
    Fault("messages: sent before they are copied", "collective/comm_staging.c",
          "        if (!sr_event_done(s->copied))\n            return SR_OK;\n        forget_unsent(comm, request);\n"
          "        SR_TRY(sr_stream_wait(s->stream)); // returns the copy's failure\n",
          "        forget_unsent(comm, request);\n", [EXCHANGE]),
    Fault("messages: their buffer is used again before it is copied", "collective/comm_staging.c",
          "    if (s->stage == COPIED_TO_DEVICE && sr_event_done(s->copied)) {\n"
          "        SR_TRY(sr_stream_wait(s->stream));\n",
          "    if (s->stage == COPIED_TO_DEVICE) {\n", [EXCHANGE]),
    Fault("messages: the backend reads device memory", "collective/comm_message.c",
          "    if (sr_comm_memory_of(comm, device).in_place)\n        return sr_comm_isend(",
          "    if (device)\n        return sr_comm_isend(", [EXCHANGE]),
    # Lifetimes.
    Fault("executor: its memory is freed before its stream has ended", "graph/executor.c",
          "    e->launcher->free(e);\n    sr_device_free(e->device, e->range);\n",
          "    sr_device_free(e->device, e->range);\n    e->launcher->free(e);\n", [GRAPH]),
]
