// SPDX-License-Identifier: Apache-2.0
// In place of the other files of cuBLASLt where its headers were missing in the build.
#include "kernels/cuda/cublaslt_provider.h"

bool sr_cublaslt_is_found(void) {
    return false;
}

const char *sr_cublaslt_version(void) {
    return "not found";
}

const char *sr_cublaslt_missing(void) {
    return "serried was built without the headers of cuBLAS; install them and build it again";
}

const sr_provider sr_provider_cublaslt = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "cublaslt",
    .device = "cuda",
    .version = sr_cublaslt_version,
    .numerics = 2,
};
