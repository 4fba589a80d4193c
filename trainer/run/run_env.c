// SPDX-License-Identifier: Apache-2.0
// env.json: the environment of a run, for reproducing it.
//
// Only the variables in the list below are stored, because they can change speed, placement or
// which library is loaded. Any other variable may be a secret.
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/cpuid.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/base/text.h"
#include "trainer/run/run_folder.h"

static const char *const allowed[] = {
    "COLUMNS",
    "CUDA_VISIBLE_DEVICES",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NO_COLOR",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_MCA_btl",
    "OMPI_MCA_pml",
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "PMI_SIZE",
    "SERRIED_CACHE",
    "SERRIED_CPU_MASK",
    "SERRIED_PIN",
    "SERRIED_THREADS",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_RESTART_COUNT",
    "TERM",
    "TZ",
    "UCX_NET_DEVICES",
    "UCX_TLS",
};

static void add_string(sr_text *text, const char *key, const char *value) {
    sr_text_add(text, ",\n ");
    sr_text_add_json_string(text, key);
    sr_text_add(text, ": ");
    sr_text_add_json_string(text, value);
}

static void add_machine(sr_text *text) {
    struct utsname names;
    char features[128], host[128] = "?";
    (void)gethostname(host, sizeof host - 1);
    add_string(text, "host", host);
    if (uname(&names) == 0) {
        add_string(text, "kernel", names.release);
        add_string(text, "machine", names.machine);
    }
    add_string(text, "processor", sr_cpu_model());
    add_string(text, "processor_features", sr_cpu_features_text(sr_cpu_features(), features));
    sr_text_add(text, ",\n \"processors\": %d", sr_cpu_count());
}

static void add_versions(sr_text *text, const sr_run_pair *versions, int count) {
    sr_text_add(text, ",\n \"versions\": {\"compiler\": ");
    sr_text_add_json_string(text, __VERSION__);
    sr_text_add(text, ", \"glibc\": ");
    sr_text_add_json_string(text, gnu_get_libc_version());
    for (int i = 0; i < count; ++i) {
        sr_text_add(text, ", ");
        sr_text_add_json_string(text, versions[i].key);
        sr_text_add(text, ": ");
        sr_text_add_json_string(text, versions[i].value);
    }
    sr_text_add(text, "}");
}

static void add_command(sr_text *text, int argc, char *const *argv) {
    char *folder = getcwd(NULL, 0);
    add_string(text, SR_RUN_START_FOLDER, folder == NULL ? "?" : folder);
    free(folder);
    sr_text_add(text, ",\n \"command\": [");
    for (int i = 0; i < argc; ++i) {
        sr_text_add(text, i > 0 ? ", " : "");
        sr_text_add_json_string(text, argv[i]);
    }
    sr_text_add(text, "]");
}

static void add_variables(sr_text *text) {
    const char *separator = "";
    sr_text_add(text, ",\n \"environment\": {");
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; ++i) {
        const char *value = getenv(allowed[i]);
        if (value == NULL)
            continue;
        sr_text_add(text, "%s\n  ", separator);
        sr_text_add_json_string(text, allowed[i]);
        sr_text_add(text, ": ");
        sr_text_add_json_string(text, value);
        separator = ",";
    }
    sr_text_add(text, "}");
}

sr_status sr_run_write_env(sr_run_folder *run, const sr_run_pair *versions, int version_count,
                           int argc, char *const *argv) {
    char started[32];
    sr_text text;
    sr_text_init(&text);
    sr_clock_utc_label(started);
    sr_text_add(&text, "{\"started\": \"%s\"", started);
    add_machine(&text);
    add_versions(&text, versions, version_count);
    add_command(&text, argc, argv);
    add_variables(&text);
    sr_text_add(&text, "}\n");
    sr_status status = sr_text_check(&text);
    char *path = sr_run_folder_file(run, "env.json");
    if (path == NULL)
        status = SR_E_MEMORY;
    if (status == SR_OK)
        status = sr_file_write_atomic(path, text.data, text.length);
    sr_free(path);
    sr_text_release(&text);
    return status;
}
