// SPDX-License-Identifier: Apache-2.0
// XXH3 (xxhash.com, through libxxhash) and SHA-256 (FIPS 180-4, through libcrypto), see hash.h.
//
// XXH3 detects accidental damage, not attacks. Identities and signatures use SHA-256.
#include "kernels/base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include "kernels/base/memory.h"

uint64_t sr_hash64(const void *data, size_t bytes) {
    return XXH3_64bits(data, bytes);
}

uint64_t sr_hash64_seed(const void *data, size_t bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(data, bytes, seed);
}

sr_hash128 sr_hash_128(const void *data, size_t bytes) {
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    return (sr_hash128){.low = hash.low64, .high = hash.high64};
}

struct sr_sha256 {
    EVP_MD_CTX *state;
};

static sr_status library_failed(const char *call) {
    return SR_FAIL(
        SR_E_SYSTEM,
        "SHA-256: libcrypto's %s failed; check the OpenSSL installation and its configuration",
        call);
}

sr_status sr_sha256_create(sr_sha256 **out) {
    sr_sha256 *sha = sr_alloc(sizeof *sha, "a SHA-256 computation");
    if (sha == NULL)
        return SR_E_MEMORY;
    sha->state = EVP_MD_CTX_new();
    if (sha->state == NULL || EVP_DigestInit_ex(sha->state, EVP_sha256(), NULL) != 1) {
        sr_sha256_free(sha);
        return library_failed("EVP_DigestInit_ex");
    }
    *out = sha;
    return SR_OK;
}

sr_status sr_sha256_update(sr_sha256 *sha, const void *data, size_t bytes) {
    if (EVP_DigestUpdate(sha->state, data, bytes) != 1)
        return library_failed("EVP_DigestUpdate");
    return SR_OK;
}

sr_status sr_sha256_finish(sr_sha256 *sha, uint8_t *digest, char *hex) {
    static const char digits[] = "0123456789abcdef";
    if (EVP_DigestFinal_ex(sha->state, digest, NULL) != 1)
        return library_failed("EVP_DigestFinal_ex");
    if (hex != NULL) {
        for (size_t i = 0; i < SR_SHA256_BYTES; i++) {
            hex[2 * i] = digits[digest[i] >> 4];
            hex[2 * i + 1] = digits[digest[i] & 15];
        }
        hex[SR_SHA256_HEX - 1] = '\0';
    }
    return SR_OK;
}

void sr_sha256_free(sr_sha256 *sha) {
    if (sha == NULL)
        return;
    EVP_MD_CTX_free(sha->state);
    sr_free(sha);
}
