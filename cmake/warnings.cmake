# SPDX-License-Identifier: Apache-2.0
add_library(sr_flags INTERFACE)
target_compile_options(sr_flags INTERFACE
  -ffp-contract=off -fno-math-errno -fno-common -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  -Wdouble-promotion -Wcast-qual -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla
  -Wswitch-enum -Wformat=2)
if(SERRIED_WERROR)
  target_compile_options(sr_flags INTERFACE -Werror)
endif()
target_compile_definitions(sr_flags INTERFACE _GNU_SOURCE
  $<$<BOOL:${SERRIED_WITH_ONEDNN}>:SR_WITH_ONEDNN=1>
  $<$<BOOL:${SERRIED_WITH_CAIRO}>:SR_WITH_CAIRO=1>
  $<$<BOOL:${SERRIED_WITH_X86}>:SR_WITH_X86=1>)
target_include_directories(sr_flags INTERFACE ${CMAKE_SOURCE_DIR})
if(SERRIED_SANITIZE)
  target_compile_options(sr_flags INTERFACE -fsanitize=${SERRIED_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(sr_flags INTERFACE -fsanitize=${SERRIED_SANITIZE})
endif()
