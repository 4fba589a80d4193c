# SPDX-License-Identifier: Apache-2.0
# nvcc, for libserried-cuda.so and for the checks of its kernels.
find_program(SERRIED_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)

# Products and sums are rounded separately and divisions as IEEE says, so that kernels of class "reference" have
# the CPU's bits (tests/cuda/check_code.py counts what the compiler contracts).
set(SERRIED_NVCC_FLAGS -std=c++17 -I${CMAKE_SOURCE_DIR}
  --fmad=false --ftz=false --prec-div=true --prec-sqrt=true
  -Werror=all-warnings -Xcompiler=-fPIC,-Wall,-Wextra,-fvisibility=hidden
  -Xptxas=--warn-on-spills,--warn-on-local-memory-usage,--warning-as-error)
set(SERRIED_CUDA_CODE "sm_80;sm_90a;compute_80" CACHE STRING
  "Machine code of the kernels: for A100, for H100, and what the driver compiles for others")

if(SERRIED_WITH_CUDA)
  if(NOT SERRIED_NVCC)
    message(FATAL_ERROR "SERRIED_WITH_CUDA needs nvcc of CUDA 13; set CUDA_HOME to its folder, or switch it off")
  endif()
  set(CMAKE_CUDA_COMPILER ${SERRIED_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  enable_language(CUDA)
  find_package(CUDAToolkit 13 REQUIRED)
endif()
