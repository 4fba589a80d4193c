# SPDX-License-Identifier: Apache-2.0
# sr_room(NAME SOURCES a.c b.c LIBRARIES x y): the objects of one room, compiled with the common
# flags and only the libraries that the room may use. All rooms together form libserried.
function(sr_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(sr_${name} OBJECT ${ARG_SOURCES})
  target_link_libraries(sr_${name} PRIVATE sr_flags PUBLIC ${ARG_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY SERRIED_ROOMS sr_${name})
endfunction()
