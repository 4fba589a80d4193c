# SPDX-License-Identifier: Apache-2.0
# Functions that register tests. Each program runs in the root of the repository; exit code 77 and a
# line "NOT RUN: reason" mean that it could not run here. Labels: short, long, dist, fuzz; tree
# for checks that are the same in every build; with long, also the part of tests/long-parts that runs it.
find_library(CMOCKA_LIBRARY cmocka REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(SERRIED_FUZZ_SECONDS 60 CACHE STRING "Seconds for each fuzz target where they fuzz")
set(SERRIED_TIMEOUT_FACTOR 1 CACHE STRING "Times the usual timeouts of tests, on busy machines")

set(sanitizers ${CMAKE_SOURCE_DIR}/tests/sanitizers)
set(SERRIED_TEST_ENVIRONMENT
  OMPI_ALLOW_RUN_AS_ROOT=set:1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=set:1
  OMPI_MCA_rmaps_base_oversubscribe=set:1
  SERRIED_CACHE=set:${CMAKE_BINARY_DIR}/cache)
if(SERRIED_SANITIZE)
  # Not detect_stack_use_after_return: gcc 12 aligns its fake frames to less than the 64 bytes of a
  # vector register, and AVX-512 code faults on them.
  set(asan_options allocator_may_return_null=1:exitcode=99)
  if(SERRIED_SOFT_GPU)
    # The runtimes of gcc 12 and clang 14 guess where the thread-local memory of an opened module lies, and the
    # leak check of a thread that is in one reads a wrong address. Left out, it reads none of it.
    string(APPEND asan_options :intercept_tls_get_addr=0)
  endif()
  list(APPEND SERRIED_TEST_ENVIRONMENT
    ASAN_OPTIONS=set:${asan_options}
    UBSAN_OPTIONS=set:print_stacktrace=1:exitcode=99
    LSAN_OPTIONS=set:suppressions=${sanitizers}/lsan.supp:print_suppressions=0
    TSAN_OPTIONS=set:suppressions=${sanitizers}/tsan.supp:second_deadlock_stack=1)
  if(SERRIED_SOFT_GPU)
    # The dlopen() of sanitizers does not search the RUNPATH of the module that calls it.
    list(APPEND SERRIED_TEST_ENVIRONMENT LD_LIBRARY_PATH=path_list_prepend:${CMAKE_BINARY_DIR}/tests/soft_gpu)
  endif()
endif()

function(sr_test_properties name timeout labels)
  math(EXPR timeout "${timeout} * ${SERRIED_TIMEOUT_FACTOR}")
  if(SERRIED_SANITIZE MATCHES "thread") # slows vector kernels by a factor of fifty
    math(EXPR timeout "${timeout} * 25")
  elseif(SERRIED_SANITIZE) # the others slow tests by about five
    math(EXPR timeout "${timeout} * 5")
  endif()
  # Tests that may take long start first.
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} COST ${timeout}
    SKIP_RETURN_CODE 77 ENVIRONMENT_MODIFICATION "${SERRIED_TEST_ENVIRONMENT}")
endfunction()

# A program whose cases were all skipped ends with 77, too.
add_library(test_skipped OBJECT ${CMAKE_SOURCE_DIR}/tests/unit/support/skipped_cases.c)
target_link_libraries(test_skipped PRIVATE sr_flags)

# sr_test(NAME LABELS short SOURCES unit/test_x.c [LIBRARIES sr_launcher] [TIMEOUT 60] [ARGS ...]):
# a cmocka program against libserried.
function(sr_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS;SOURCES;LIBRARIES;ARGS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_LABELS OR NOT ARG_SOURCES)
    message(FATAL_ERROR "sr_test(${name}): needs LABELS and SOURCES, got '${ARGN}'")
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sr_flags serried ${ARG_LIBRARIES} test_skipped ${CMOCKA_LIBRARY} m)
  target_link_options(${name} PRIVATE LINKER:--wrap=_skip,--wrap=_cmocka_run_group_tests)
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sr_test_properties(${name} ${ARG_TIMEOUT} "${ARG_LABELS}")
endfunction()

# sr_all_test(NAME PART): test NAME again over all that it otherwise takes a sample of, as NAME_all in
# this part of the long suite.
function(sr_all_test name part)
  add_test(NAME ${name}_all COMMAND ${name} all WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sr_test_properties(${name}_all 3600 "long;${part}")
endfunction()

# sr_check(NAME COMMAND...): a script that checks the tree itself.
function(sr_check name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sr_test_properties(${name} 120 "short;tree")
endfunction()

# sr_fuzz(NAME SOURCES fuzz/fuzz_x.c CORPUS fuzz/corpus/x): a libFuzzer target. In the fuzz preset it
# fuzzes for SERRIED_FUZZ_SECONDS (label fuzz); elsewhere it runs once over its committed corpus
# (label short), so that earlier findings stay fixed.
function(sr_fuzz name)
  cmake_parse_arguments(ARG "" "CORPUS" "SOURCES;LIBRARIES" ${ARGN})
  set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_CORPUS})
  if(SERRIED_SANITIZE MATCHES "fuzzer")
    add_executable(${name} ${ARG_SOURCES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set(found ${CMAKE_CURRENT_BINARY_DIR}/${name}-corpus)
    file(MAKE_DIRECTORY ${found})
    # With seed 0 libFuzzer draws one. Its default exit code for a finding is 77, which means "not run" here.
    add_test(NAME ${name} COMMAND sh -c
      "echo seed \${SERRIED_TEST_SEED:=0}; exec \"$0\" -seed=$SERRIED_TEST_SEED \"$@\"" $<TARGET_FILE:${name}>
      -error_exitcode=1 -max_total_time=${SERRIED_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048
      -print_final_stats=1
      -artifact_prefix=${found}/ ${found} ${corpus})
    math(EXPR timeout "${SERRIED_FUZZ_SECONDS} + 120")
    sr_test_properties(${name} ${timeout} fuzz)
  else()
    add_executable(${name} ${ARG_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_main.c)
    add_test(NAME ${name} COMMAND ${name} ${corpus} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    sr_test_properties(${name} 60 short)
  endif()
  target_link_libraries(${name} PRIVATE sr_flags serried ${ARG_LIBRARIES} m)
endfunction()

# Complete stacks of allocations, which are slow, where suppressions must match the caller of libc.
function(sr_whole_stacks name)
  if(SERRIED_SANITIZE)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT_MODIFICATION
      ASAN_OPTIONS=set:${asan_options}:fast_unwind_on_malloc=0)
  endif()
endfunction()

# sr_mpi_program(NAME SOURCES dist/test_x.c): a program for sr_mpi_test.
function(sr_mpi_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sr_flags serried ${ARG_LIBRARIES} m)
endfunction()

# sr_mpi_test(NAME PROGRAM p RANKS 4 EXIT_CODE 3 [TEXT "..."] [ARGS ...]): p under mpirun must end
# with this code and print this text. Without EXIT_CODE, RANKS "1 2 4" is a list: every run ends with 0 and
# writes the same to stdout. See tests/dist/mpirun.sh.
function(sr_mpi_test name)
  cmake_parse_arguments(ARG "" "PROGRAM;RANKS;EXIT_CODE;TEXT;TIMEOUT" "ARGS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  set(script sh tests/dist/mpirun.sh)
  set(program $<TARGET_FILE:${ARG_PROGRAM}> ${ARG_ARGS})
  if(DEFINED ARG_EXIT_CODE)
    add_test(NAME ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
      COMMAND ${script} ${ARG_EXIT_CODE} ${ARG_RANKS} "${ARG_TEXT}" ${program})
  else()
    add_test(NAME ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
      COMMAND ${script} same "${ARG_RANKS}" ${program})
  endif()
  sr_test_properties(${name} ${ARG_TIMEOUT} dist)
  sr_whole_stacks(${name})
endfunction()
