# SPDX-License-Identifier: Apache-2.0
# CUDA code compiled by the host's compiler for the software GPU (tests/soft_gpu). Nothing of it is installed.
find_path(SERRIED_CUDA_INCLUDE cuda_runtime_api.h PATHS /usr/local/cuda/include)
if(NOT SERRIED_CUDA_INCLUDE)
  message(FATAL_ERROR "SERRIED_SOFT_GPU needs the headers of CUDA 13; set SERRIED_CUDA_INCLUDE to their folder")
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  message(FATAL_ERROR "SERRIED_SOFT_GPU needs an x86-64 processor")
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}" CACHE STRING "Flags of release builds")
set(CMAKE_CXX_FLAGS_DEBUG "${CMAKE_C_FLAGS_DEBUG}" CACHE STRING "Flags of debug builds")
enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

# sr_soft_gpu_sources(TARGET [RACES] SOURCES a.c b.cu ...): adds sources that call CUDA, or hold kernels, to a
# target that runs on the software GPU. With RACES, kernels report accesses to shared memory (soft_races.c),
# but not in builds with a sanitizer.
function(sr_soft_gpu_sources target)
  cmake_parse_arguments(ARG "RACES" "" "SOURCES" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/tests/soft_gpu)
  set(language ${folder}/device_language.h)
  # With -O3 -g, kernels of many variants take up to six times as long to compile.
  set(options -include ${language} "$<$<CONFIG:RelWithDebInfo>:-O2;-g1>")
  if(ARG_RACES AND NOT SERRIED_SANITIZE)
    list(APPEND options -fsanitize=thread -DSOFT_GPU_RACES
      "$<IF:$<CXX_COMPILER_ID:GNU>,--param=tsan-instrument-func-entry-exit=0,SHELL:-mllvm -tsan-instrument-func-entry-exit=0>")
    list(APPEND ARG_SOURCES ${folder}/soft_hooks.c)
  endif()
  set(kernels ${ARG_SOURCES})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  # Headers of CUDA have a type 'half', and nvcc does not warn of int as the size of an array.
  set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX OBJECT_DEPENDS "${language};${folder}/device_mma.h"
    COMPILE_OPTIONS "-Wno-shadow;-Wno-sign-conversion")
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
  target_sources(${target} PRIVATE ${ARG_SOURCES} ${folder}/register_kernels.c)
  target_include_directories(${target} SYSTEM PRIVATE ${SERRIED_CUDA_INCLUDE})
  target_link_libraries(${target} PRIVATE sr_flags soft_cudart)
endfunction()
