// SPDX-License-Identifier: Apache-2.0
// Whether mpirun can start two ranks here: the doctor starts this program twice, as
// `serried --mpi-probe`. So does `train` if mpirun fails (start_run.c), with the number of ranks.
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "collective/comm.h"
#include "kernels/base/clock.h"
#include "launcher/commands/command.h"
#include "launcher/commands/doctor_internal.h"
#include "launcher/start/start.h"

int sr_doctor_mpi_probe(int argc, char **argv) {
    sr_comm *comm = NULL;
    const sr_comm_options options = {.report_seconds = 5, .act_seconds = 10};
    sr_status status = sr_comm_create(&options, &comm);
    if (status == SR_OK)
        status = sr_comm_barrier(comm, "the doctor's barrier");
    const int ranks = argc > 2 ? atoi(argv[2]) : 2;
    if (status == SR_OK && sr_comm_size(comm) != ranks)
        status =
            SR_FAIL(SR_E_PEER, "MPI connected %d ranks instead of %d", sr_comm_size(comm), ranks);
    sr_comm_free(comm);
    return status == SR_OK ? 0 : sr_command_fail(status);
}

static sr_status run_probe(sr_arena *arena, int *code) {
    char self[PATH_MAX], option[] = "--mpi-probe";
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot find this program's own file in /proc/self/exe");
    self[length] = '\0';
    char *command[] = {self, option, NULL};
    sr_start_plan plan;
    SR_TRY(sr_start_prepare(2, command, command, arena, &plan));
    plan.limit_seconds = 30;
    sr_status status = sr_start_run(&plan, code);
    sr_start_release(&plan);
    return status;
}

void sr_doctor_check_ranks(sr_findings *f) {
    if (sr_start_detect() != SR_STARTED_ALONE) {
        sr_findings_add(f, SR_FINDING_NOTE, "two ranks",
                        "not tried, because this process is itself a rank");
        return;
    }
    sr_arena arena;
    sr_arena_init(&arena);
    int code = 1;
    int64_t begin = sr_clock_ns();
    sr_status status = run_probe(&arena, &code);
    double seconds = (double)(sr_clock_ns() - begin) / (double)SR_NS_PER_S;
    if (status != SR_OK)
        sr_findings_add(f, SR_FINDING_BAD, "two ranks", "%s", sr_error_message());
    else if (code != 0)
        sr_findings_add(f, SR_FINDING_BAD, "two ranks",
                        "mpirun exited with code %d; try: mpirun -np 2 hostname", code);
    else
        sr_findings_add(f, SR_FINDING_OK, "two ranks", "started, synchronised and exited in %.1f s",
                        seconds);
    sr_arena_release(&arena);
    sr_findings_add(
        f, SR_FINDING_NOTE, "signals",
        "under plain mpirun, only SIGUSR1 requests a checkpoint; after SIGTERM, mpirun kills the "
        "ranks and exits with 1");
}
