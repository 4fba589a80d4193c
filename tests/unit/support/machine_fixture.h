// SPDX-License-Identifier: Apache-2.0
// Simulated machines: folders that describe processors as /sys does.
#ifndef SR_TESTS_MACHINE_FIXTURE_H
#define SR_TESTS_MACHINE_FIXTURE_H

// Writes a file of a machine, and creates the folders above it.
void machine_write(const char *folder, const char *name, const char *text);

// Two packages of four cores with two threads each, numbered as Linux does: cores first, then their
// second threads; packages alternate. Creates 'folder', see test_folder_make.
void machine_make(char *folder);

#endif
