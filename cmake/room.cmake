# SPDX-License-Identifier: Apache-2.0
# sr_room(NAME SOURCES a.c b.c LIBRARIES x y): the objects of one room, compiled with the common
# flags and only the libraries that the room may use. All rooms together form libserried.
function(sr_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(sr_${name} OBJECT ${ARG_SOURCES})
  target_link_libraries(sr_${name} PRIVATE sr_flags PUBLIC ${ARG_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY SERRIED_ROOMS sr_${name})
endfunction()

# sr_module(TARGET FOLDER SOURCES a.c LIBRARIES x): a module of libserried (kernels/base/module_file.h).
function(sr_module target folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${target} MODULE ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE sr_flags serried ${ARG_LIBRARIES} m)
  if(NOT SERRIED_SANITIZE) # whose functions are in the executable
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
  target_compile_definitions(${target} PRIVATE SR_VERSION="${PROJECT_VERSION}")
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${folder} INSTALL_RPATH "$ORIGIN")
endfunction()
