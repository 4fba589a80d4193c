// SPDX-License-Identifier: Apache-2.0
// A program outside the tree: one header, one library.
#include <stdio.h>

#include <serried.h>

int main(void) {
    sr_rng4 words = sr_philox(0, 0, 0, 0, 0);
    if (words.v[0] != 0x6627e8d5u) {
        (void)fprintf(stderr, "Philox gives %08x\n", words.v[0]);
        return 1;
    }
    return 0;
}
