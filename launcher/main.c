// SPDX-License-Identifier: Apache-2.0
// The `serried` command. Everything else is in the room's object library, which tests link as well.
#include "launcher/commands/command.h"

int main(int argc, char **argv) {
    return sr_command_main(argc, argv);
}
