// SPDX-License-Identifier: Apache-2.0
// What headers count over records, read from the keys of the schemas in record.h.
#ifndef SR_DATAIO_RECORD_FACTS_INTERNAL_H
#define SR_DATAIO_RECORD_FACTS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

typedef struct sr_record_facts {
    uint32_t side; // the shorter one; 0: unknown
    bool has_label;
    int64_t label; // the first of its list
} sr_record_facts;

SR_NODISCARD sr_status sr_record_facts_read(const void *record, size_t bytes, sr_record_facts *out);
// SR_E_DATA for a label that is not one of the classes.
SR_NODISCARD sr_status sr_record_facts_check(const sr_record_facts *facts, uint32_t classes);

#endif
