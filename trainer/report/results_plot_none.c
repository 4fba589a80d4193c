// SPDX-License-Identifier: Apache-2.0
// Plots of results in a build without cairo: SR_E_UNSUPPORTED. CMake builds this file instead of
// the plot files.
#include "trainer/report/results_plot.h"

bool sr_plots_available(void) {
    return false;
}

sr_status sr_results_plot(const char *folder) {
    return SR_FAIL(SR_E_UNSUPPORTED,
                   "%s: results.png is not drawn: this serried was built without cairo", folder);
}

sr_status sr_confusion_plot(const sr_confusion *confusion, const char *const *classes,
                            const char *folder) {
    (void)confusion;
    (void)classes;
    return SR_FAIL(SR_E_UNSUPPORTED,
                   "%s: confusion.png is not drawn: this serried was built without cairo", folder);
}
