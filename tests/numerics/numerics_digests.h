// SPDX-License-Identifier: Apache-2.0
// The parts of numerics_digests. Each prints sections: "[what decides the bits]" as in the
// fingerprint, followed by a row for each result: name, class or precision, digest.
#ifndef SR_TESTS_NUMERICS_DIGESTS_H
#define SR_TESTS_NUMERICS_DIGESTS_H

// Entries of the reference on all problems of kernel_cases.c.
void digests_of_reference(void);
// Entries of the other providers; "-" for an entry that cannot run here.
void digests_of_providers(void);
// Small networks, a few steps each.
void digests_of_networks(void);
// The same with portable numerics, which promise the same bits everywhere.
void digests_of_portable(void);
// Decoding and augmentation.
void digests_of_data(void);

#endif
