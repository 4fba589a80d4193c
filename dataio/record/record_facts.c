// SPDX-License-Identifier: Apache-2.0
// Shorter side and label of a record of any schema (record_facts_internal.h).
#include "dataio/record/record_facts_internal.h"

#include "dataio/record/record.h"

sr_status sr_record_facts_read(const void *record, size_t bytes, sr_record_facts *out) {
    sr_record_cursor entries = sr_record_entries(record, bytes);
    sr_feature shape, height, width, label;
    sr_record_facts facts = {0};
    int64_t sides[2] = {0, 0};
    size_t count = 0;
    SR_TRY(sr_record_find(entries, "shape", &shape));
    SR_TRY(sr_record_find(entries, "height", &height));
    SR_TRY(sr_record_find(entries, "width", &width));
    SR_TRY(sr_record_find(entries, "label", &label));
    if (shape.kind == SR_FEATURE_LIST) {
        if (sr_feature_int64s(&shape, sides, 2, &count) != SR_OK)
            sides[0] = 0; // of another schema
    } else {
        sides[0] = height.i64;
        sides[1] = width.i64;
    }
    int64_t side = sides[0] < sides[1] ? sides[0] : sides[1];
    facts.side = side > 0 && side <= UINT32_MAX ? (uint32_t)side : 0;
    if (label.kind == SR_FEATURE_LIST)
        facts.has_label = sr_feature_int64s(&label, &facts.label, 1, &count) == SR_OK && count > 0;
    *out = facts;
    return SR_OK;
}

sr_status sr_record_facts_check(const sr_record_facts *facts, uint32_t classes) {
    if (facts->has_label && (facts->label < 0 || facts->label >= classes))
        return SR_FAIL(SR_E_DATA, "label %lld is not one of the %u classes",
                       (long long)facts->label, classes);
    return SR_OK;
}
