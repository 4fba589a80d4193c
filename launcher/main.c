// SPDX-License-Identifier: Apache-2.0
// The `serried` command. Everything is in command.c, so that tests reach it too.
#include "launcher/commands/command.h"

int main(int argc, char **argv) {
    return sr_command_main(argc, argv);
}
