# SPDX-License-Identifier: Apache-2.0
# sr_flags: the flags of every target. Numerics: no contraction, so that FMA stands only where it is
# written and all compilers give the same bits.
include(CheckCSourceRuns)
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
target_compile_definitions(sr_flags INTERFACE _GNU_SOURCE)
target_include_directories(sr_flags INTERFACE ${CMAKE_SOURCE_DIR})

# sr_with(SOURCE NAME...): defines SR_WITH_NAME for a source of this folder where that part is built. All
# other sources compile alike in every build.
function(sr_with source)
  foreach(name IN LISTS ARGN)
    if(SERRIED_WITH_${name})
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS SR_WITH_${name}=1)
    endif()
  endforeach()
endfunction()

# __FILE__, which messages about operators name, is a path in the repository.
file(RELATIVE_PATH up ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
target_compile_options(sr_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:C,CXX>:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=;-fmacro-prefix-map=${up}=>")

# Hardening that costs nothing measurable (OpenSSF compiler guide): checked libc calls, guarded
# stacks, read-only relocations.
target_compile_options(sr_flags INTERFACE -fstack-protector-strong -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(sr_flags INTERFACE -fcf-protection=full)
endif()
target_link_options(sr_flags INTERFACE LINKER:-z,relro,-z,now,-z,noexecstack)
# Processes that serried starts compare build IDs (kernels/base/build_identity.h).
target_link_options(sr_flags INTERFACE LINKER:--build-id)

# The addresses in constant tables take a bit each instead of 24 bytes, where the C library reads that
# form.
if(NOT CMAKE_CROSSCOMPILING)
  set(CMAKE_REQUIRED_LINK_OPTIONS LINKER:-z,pack-relative-relocs)
  check_c_source_runs("int a, *b[] = {&a, &a}; int main(void) { return *b[1]; }" SERRIED_PACKED_RELOCATIONS)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(SERRIED_PACKED_RELOCATIONS)
    target_link_options(sr_flags INTERFACE LINKER:-z,pack-relative-relocs)
  endif()
endif()
if(SERRIED_SANITIZE)
  target_compile_options(sr_flags INTERFACE -fsanitize=${SERRIED_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  if(SERRIED_SANITIZE MATCHES "undefined")
    # Its handler is in UBSan's runtime for C++, with which executables of C are not linked.
    target_compile_options(sr_flags INTERFACE "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fno-sanitize=function>")
  endif()
  target_link_options(sr_flags INTERFACE -fsanitize=${SERRIED_SANITIZE})
else()
  target_compile_options(sr_flags INTERFACE
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
endif()
