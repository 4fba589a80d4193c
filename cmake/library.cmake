# SPDX-License-Identifier: Apache-2.0
# libserried of all rooms but the launcher, the command, and what is installed.
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY SERRIED_ROOMS)
list(REMOVE_ITEM rooms sr_launcher)
add_library(serried SHARED)
# Before 1.0 a minor version may break the interface, so it is part of the SONAME.
set_target_properties(serried PROPERTIES VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
target_link_libraries(serried PRIVATE sr_flags ${rooms} m ${CMAKE_DL_LIBS})
target_include_directories(serried INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/serried>)
if(SERRIED_SANITIZE)
  target_sources(serried PRIVATE tests/sanitizers/keep_libraries.c)
else()
  target_link_options(serried PRIVATE LINKER:-z,defs)
endif()
install(TARGETS serried EXPORT serried-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

if(EXISTS ${CMAKE_SOURCE_DIR}/launcher/main.c)
  add_executable(serried-command launcher/main.c)
  set_target_properties(serried-command PROPERTIES OUTPUT_NAME serried
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  target_link_libraries(serried-command PRIVATE sr_flags $<TARGET_NAME_IF_EXISTS:sr_launcher>
    serried)
  install(TARGETS serried-command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

  # Man pages and completions, from the command just built.
  if(NOT CMAKE_CROSSCOMPILING AND NOT SERRIED_SANITIZE)
    add_custom_command(OUTPUT man/serried.1 DEPENDS serried-command docs/make_man.sh launcher/serried-convert
      COMMAND ${CMAKE_SOURCE_DIR}/docs/make_man.sh $<TARGET_FILE:serried-command>
        ${CMAKE_SOURCE_DIR}/launcher/serried-convert ${CMAKE_BINARY_DIR}/man)
    add_custom_target(man ALL DEPENDS man/serried.1)
    install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

    set(completions ${CMAKE_BINARY_DIR}/completions)
    file(MAKE_DIRECTORY ${completions})
    add_custom_command(OUTPUT completions/serried completions/_serried completions/serried.fish
      DEPENDS serried-command
      COMMAND serried-command completion bash > ${completions}/serried
      COMMAND serried-command completion zsh > ${completions}/_serried
      COMMAND serried-command completion fish > ${completions}/serried.fish)
    add_custom_target(completions ALL DEPENDS completions/_serried) # not "serried", a target
    install(FILES ${completions}/serried DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${completions}/_serried DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${completions}/serried.fish
      DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  endif()
endif()

# Weights to and from PyTorch: a script, so that it runs with the user's own python3.
install(PROGRAMS launcher/serried-convert DESTINATION ${CMAKE_INSTALL_BINDIR})
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/launcher/serried-convert ${CMAKE_BINARY_DIR}/serried-convert SYMBOLIC)

# Public headers are those that serried.h includes, and kernel_list.def, which one of them includes.
# They keep their rooms: #include "graph/tensor.h" under include/serried.
set(SERRIED_HEADERS ${CMAKE_INSTALL_INCLUDEDIR}/serried)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS serried.h)
file(STRINGS serried.h public_headers REGEX "^#include \"")
list(TRANSFORM public_headers REPLACE "^#include \"(.*)\"$" "\\1")
foreach(header IN ITEMS ${public_headers} kernels/kernel_list.def)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${SERRIED_HEADERS}/${folder})
endforeach()
install(FILES serried.h DESTINATION ${SERRIED_HEADERS})
install(DIRECTORY recipes/ DESTINATION ${CMAKE_INSTALL_DATADIR}/serried/recipes
  FILES_MATCHING PATTERN "*.yaml")
install(FILES dataio/record/kplrecord.proto DESTINATION ${CMAKE_INSTALL_DATADIR}/serried)

# For pkg-config: the installed file is relative to itself, so that a moved prefix still works; the one
# in the build folder serves programs against a tree that is not installed, which then find the library
# where they were linked with it.
file(RELATIVE_PATH prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix "${prefix}")
set(SERRIED_PC_PREFIX "\${pcfiledir}/${prefix}")
set(SERRIED_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
set(SERRIED_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}/serried")
set(SERRIED_PC_RPATH "")
configure_file(cmake/serried.pc.in pkgconfig/serried.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/pkgconfig/serried.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(SERRIED_PC_PREFIX "${CMAKE_SOURCE_DIR}")
set(SERRIED_PC_LIBDIR "\${pcfiledir}")
set(SERRIED_PC_INCLUDEDIR "\${prefix}")
set(SERRIED_PC_RPATH " -Wl,-rpath,\${libdir}")
configure_file(cmake/serried.pc.in serried.pc @ONLY)
set(SERRIED_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/serried)
configure_package_config_file(cmake/serried-config.cmake.in serried-config.cmake
  INSTALL_DESTINATION ${SERRIED_CMAKE})
write_basic_package_version_file(serried-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/serried-config.cmake
  ${CMAKE_BINARY_DIR}/serried-config-version.cmake DESTINATION ${SERRIED_CMAKE})
install(EXPORT serried-targets NAMESPACE serried:: DESTINATION ${SERRIED_CMAKE})
