// SPDX-License-Identifier: Apache-2.0
// The list of the doctor's findings (doctor_internal.h).
#include <stdarg.h>
#include <stdio.h>

#include "launcher/commands/doctor_internal.h"

sr_finding *sr_findings_add(sr_findings *findings, sr_finding_state state, const char *name,
                            const char *fmt, ...) {
    static sr_finding spare;
    sr_finding *finding =
        findings->count < SR_FINDINGS_MAX ? &findings->item[findings->count++] : &spare;
    *finding = (sr_finding){.state = state, .name = name};
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(finding->text, sizeof finding->text, fmt, args);
    va_end(args);
    return finding;
}
