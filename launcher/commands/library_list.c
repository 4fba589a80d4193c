// SPDX-License-Identifier: Apache-2.0
// Versions of libraries, at run time where the library can report it: the installed package may be
// newer than the one that serried was built with.
#include "launcher/commands/library_list_internal.h"

#include <archive.h>
#include <expat.h>
#include <libfyaml.h>
#include <openssl/crypto.h>
#include <spng.h>
#include <stdio.h>
#include <xxhash.h>
#include <yajl/yajl_version.h>
#include <zstd.h>

#ifdef SR_WITH_LMDB
#include <lmdb.h>
#endif

#include "dataio/pipeline/data_numerics.h"
#include "kernels/kernel.h"
#include "trainer/draw/plots.h"

static const char *openmpi(char text[SR_LIBRARY_TEXT]) {
    char line[128] = "";
    FILE *pipe = popen("mpirun --version 2>/dev/null", "r");
    if (!pipe || !fgets(line, sizeof line, pipe) || sscanf(line, "%*[^0-9]%60s", text) != 1)
        snprintf(text, SR_LIBRARY_TEXT, "mpirun not found");
    if (pipe)
        (void)pclose(pipe);
    return text;
}

static const char *libjpeg(char text[SR_LIBRARY_TEXT]) {
    (void)text;
    return sr_jpeg_library_version();
}

static const char *zstd(char text[SR_LIBRARY_TEXT]) {
    (void)text;
    return ZSTD_versionString();
}

static const char *fyaml(char text[SR_LIBRARY_TEXT]) {
    (void)text;
    return fy_library_version();
}

static const char *xxhash(char text[SR_LIBRARY_TEXT]) {
    unsigned v = XXH_versionNumber();
    snprintf(text, SR_LIBRARY_TEXT, "%u.%u.%u", v / 10000, v / 100 % 100, v % 100);
    return text;
}

static const char *openssl(char text[SR_LIBRARY_TEXT]) {
    (void)text;
    return OpenSSL_version(OPENSSL_VERSION_STRING);
}

static const char *spng(char text[SR_LIBRARY_TEXT]) {
    (void)text;
    return spng_version_string();
}

static const char *libarchive(char text[SR_LIBRARY_TEXT]) {
    int v = archive_version_number();
    snprintf(text, SR_LIBRARY_TEXT, "%d.%d.%d", v / 1000000, v / 1000 % 1000, v % 1000);
    return text;
}

static const char *yajl(char text[SR_LIBRARY_TEXT]) {
    int v = yajl_version();
    snprintf(text, SR_LIBRARY_TEXT, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return text;
}

static const char *expat(char text[SR_LIBRARY_TEXT]) {
    const XML_Expat_Version v = XML_ExpatVersionInfo();
    snprintf(text, SR_LIBRARY_TEXT, "%d.%d.%d", v.major, v.minor, v.micro);
    return text;
}

static const char *cairo(char text[SR_LIBRARY_TEXT]) {
    sr_plots_libraries drawing;
    (void)text;
    return sr_plots_available(&drawing) ? drawing.cairo : "not installed: no plots";
}

static const char *pango(char text[SR_LIBRARY_TEXT]) {
    sr_plots_libraries drawing;
    (void)text;
    return sr_plots_available(&drawing) ? drawing.pango
                                        : "not installed: pictures are labelled in ASCII";
}

static const char *lmdb(char text[SR_LIBRARY_TEXT]) {
#ifdef SR_WITH_LMDB
    int major, minor, patch;
    (void)mdb_version(&major, &minor, &patch);
    snprintf(text, SR_LIBRARY_TEXT, "%d.%d.%d", major, minor, patch);
    return text;
#else
    (void)text;
    return "not built in: LMDB stores are read, not written";
#endif
}

// A provider of kernels that calls a library reports its version.
static const char *onednn(char text[SR_LIBRARY_TEXT]) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    for (size_t i = 0; i < count; i++) {
        if (providers[i]->version) {
            snprintf(text, SR_LIBRARY_TEXT, "%s", providers[i]->version());
            return text;
        }
    }
    return "not built in: only serried's own kernels are used";
}

static const sr_library libraries[] = {
    {"Open MPI", openmpi}, {"libjpeg-turbo", libjpeg}, {"zstd", zstd},
    {"libfyaml", fyaml},   {"xxHash", xxhash},         {"OpenSSL", openssl},
    {"libspng", spng},     {"libarchive", libarchive}, {"yajl", yajl},
    {"expat", expat},      {"cairo", cairo},           {"Pango", pango},
    {"LMDB", lmdb},        {"oneDNN", onednn},
};

const sr_library *sr_libraries(size_t *count) {
    *count = sizeof libraries / sizeof *libraries;
    return libraries;
}
