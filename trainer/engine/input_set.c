// SPDX-License-Identifier: Apache-2.0
// Inputs of a replay on the device (input_set.h).
#include "trainer/engine/input_set.h"

void sr_input_set_init(sr_input_set *set, sr_device *device, int lanes) {
    *set = (sr_input_set){.device = device, .lanes = lanes};
}

void sr_input_set_release(sr_input_set *set) {
    for (int i = 0; i < SR_INPUT_SLOTS; i++)
        if (set->capacity[i])
            sr_device_free(set->device, set->memory[i]);
}

bool sr_input_set_in_place(const sr_input_set *set) {
    return sr_device_get_properties(set->device)->unified;
}

static sr_status grow(sr_input_set *set, int slot, size_t bytes) {
    const size_t all = (size_t)set->lanes * sr_lane_stride(bytes);
    if (all <= set->capacity[slot])
        return SR_OK;
    if (set->capacity[slot])
        sr_device_free(set->device, set->memory[slot]);
    set->capacity[slot] = 0;
    SR_TRY(sr_device_alloc(set->device, all, "inputs of lanes", &set->memory[slot]));
    set->capacity[slot] = all;
    return SR_OK;
}

sr_status sr_input_set_reserve(sr_input_set *set, int slot, size_t bytes) {
    return sr_input_set_in_place(set) ? SR_OK : grow(set, slot, bytes);
}

sr_status sr_input_set_place(sr_input_set *set, int slot, int lane, size_t bytes, sr_address *out) {
    SR_TRY(grow(set, slot, bytes));
    set->slots[slot] = set->memory[slot];
    *out = sr_address_add(set->memory[slot], (size_t)lane * sr_lane_stride(bytes));
    return SR_OK;
}

sr_status sr_input_set_fill(sr_input_set *set, int slot, int lane, const void *host, size_t bytes,
                            sr_stream *stream) {
    if (sr_input_set_in_place(set)) {
        set->slots[slot] = sr_device_host_address(set->device, host);
        return SR_OK;
    }
    sr_address to;
    SR_TRY(sr_input_set_place(set, slot, lane, bytes, &to));
    return sr_stream_upload(stream, to, host, bytes);
}
