// SPDX-License-Identifier: Apache-2.0
// Made-up machines: folders that tell of processors as /sys does.
#ifndef SR_TESTS_MACHINE_FIXTURE_H
#define SR_TESTS_MACHINE_FIXTURE_H

// A file of a machine, with the folders above it.
void machine_write(const char *folder, const char *name, const char *text);

// Two packages of four cores with two threads each, numbered as Linux does: cores first, then their
// second threads; packages take turns. 'folder' is made, see test_folder_make.
void machine_make(char *folder);

#endif
