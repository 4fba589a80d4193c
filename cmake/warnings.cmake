# SPDX-License-Identifier: Apache-2.0
# sr_flags: the flags of every target. Numerics: no contraction, so that FMA stands only where it is
# written and all compilers give the same bits.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

add_library(sr_flags INTERFACE)
target_compile_options(sr_flags INTERFACE
  -ffp-contract=off -fno-math-errno -fno-common -fno-semantic-interposition
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  -Wdouble-promotion -Wcast-qual
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  -Wundef -Wvla -Wswitch-enum -Wformat=2)
# gcc 12 mistakes what a function stored through &p for the address of p.
target_compile_options(sr_flags INTERFACE $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-dangling-pointer>)
if(SERRIED_WERROR)
  target_compile_options(sr_flags INTERFACE -Werror)
endif()
target_compile_definitions(sr_flags INTERFACE _GNU_SOURCE
  $<$<BOOL:${SERRIED_WITH_ONEDNN}>:SR_WITH_ONEDNN=1>
  $<$<BOOL:${SERRIED_WITH_CAIRO}>:SR_WITH_CAIRO=1>
  $<$<BOOL:${SERRIED_WITH_LMDB}>:SR_WITH_LMDB=1>
  $<$<BOOL:${SERRIED_WITH_X86}>:SR_WITH_X86=1>)
target_include_directories(sr_flags INTERFACE ${CMAKE_SOURCE_DIR})

# __FILE__, which messages about operators name, is a path in the repository.
file(RELATIVE_PATH up ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
target_compile_options(sr_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:C,CXX>:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=;-fmacro-prefix-map=${up}=>")

# Hardening that costs nothing measurable (OpenSSF compiler guide): checked libc calls, guarded
# stacks, read-only relocations.
target_compile_options(sr_flags INTERFACE -fstack-protector-strong -fstack-clash-protection)
if(SERRIED_WITH_X86)
  target_compile_options(sr_flags INTERFACE -fcf-protection=full)
endif()
target_link_options(sr_flags INTERFACE LINKER:-z,relro,-z,now,-z,noexecstack)
if(SERRIED_SANITIZE)
  target_compile_options(sr_flags INTERFACE -fsanitize=${SERRIED_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(sr_flags INTERFACE -fsanitize=${SERRIED_SANITIZE})
else()
  target_compile_options(sr_flags INTERFACE
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
endif()
