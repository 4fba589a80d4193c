# SPDX-License-Identifier: Apache-2.0
# libserried of all rooms but the launcher, and the command. Rooms without sources are left out.
get_property(rooms GLOBAL PROPERTY SERRIED_ROOMS)
list(REMOVE_ITEM rooms sr_launcher)
add_library(serried SHARED)
set_target_properties(serried PROPERTIES VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
target_link_libraries(serried PRIVATE sr_flags ${rooms} m ${CMAKE_DL_LIBS})
target_include_directories(serried INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/serried>)

if(EXISTS ${CMAKE_SOURCE_DIR}/launcher/main.c)
  add_executable(serried-command launcher/main.c)
  set_target_properties(serried-command PROPERTIES OUTPUT_NAME serried
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  target_link_libraries(serried-command PRIVATE sr_flags $<TARGET_NAME_IF_EXISTS:sr_launcher> serried)
endif()
