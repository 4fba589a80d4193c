// SPDX-License-Identifier: Apache-2.0
// In place of the other files of cuDNN where its headers were missing in the build.
#include "kernels/cuda/cudnn_provider.h"

bool sr_cudnn_is_found(void) {
    return false;
}

const char *sr_cudnn_version(void) {
    return "not found";
}

const char *sr_cudnn_missing(void) {
    return "serried was built without the headers of cuDNN 9; install them and build it again";
}

const sr_provider sr_provider_cudnn = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "cudnn",
    .device = "cuda",
    .version = sr_cudnn_version,
    .numerics = 1,
};
