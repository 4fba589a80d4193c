// SPDX-License-Identifier: Apache-2.0
// The child process that draws one picture (drawing.h): `--draw PARENT IDENTITY`, with the picture
// as descriptor 3. Its stderr is read by the parent.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/build_identity.h"
#include "kernels/base/file.h"
#include "trainer/draw/drawing.h"
#include "trainer/draw/drawing_internal.h"

#define PICTURE_FD 3
#define NICE 5 // the run's own threads come first

// It ends with its parent and leaves no core file.
static sr_status prepare(pid_t parent) {
    static const int group_signals[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,  SIGTSTP, SIGTTIN,
                                        SIGTTOU, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM};
    const struct rlimit none = {0};
    sigset_t empty;
    for (size_t i = 0; i < sizeof group_signals / sizeof *group_signals; i++)
        (void)signal(group_signals[i], SIG_IGN);
    sigemptyset(&empty);
    (void)sigprocmask(SIG_SETMASK, &empty, NULL); // blocked by the parent until here
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "serried-draw");
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)!nice(NICE);
    return getppid() == parent ? SR_OK : SR_FAIL(SR_E_PEER, "the run has ended");
}

static sr_status draw_sheet(const sr_samples *sheet) {
    sr_raster raster;
    SR_TRY(sr_samples_draw(sheet, &raster));
    const sr_raster_head head = {raster.width, raster.height};
    const size_t bytes = (size_t)head.width * (size_t)head.height * 3;
    sr_status status = lseek(PICTURE_FD, 0, SEEK_END) >= 0
                           ? sr_file_add_line(PICTURE_FD, "picture", &head, sizeof head)
                           : SR_FAIL(SR_E_SYSTEM, "cannot give back what was drawn");
    if (status == SR_OK)
        status = sr_file_add_line(PICTURE_FD, "picture", raster.rgb, bytes);
    sr_raster_release(&raster);
    return status;
}

static sr_status draw(void) {
    struct stat info;
    if (fstat(PICTURE_FD, &info) != 0)
        return SR_FAIL(SR_E_SYSTEM, "nothing to draw");
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, PICTURE_FD, 0);
    if (bytes == MAP_FAILED)
        return SR_FAIL(SR_E_MEMORY, "no memory for what is to be drawn");
    sr_picture picture;
    sr_arena arena;
    sr_arena_init(&arena);
    sr_status status = sr_picture_decode(bytes, (size_t)info.st_size, &arena, &picture);
    if (status == SR_OK)
        status = picture.kind == SR_DRAWING_SHEET ? draw_sheet(&picture.sheet)
                                                  : sr_picture_draw(&picture);
    sr_arena_release(&arena);
    (void)munmap(bytes, (size_t)info.st_size);
    return status;
}

int sr_drawing_main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "--draw is for serried's internal use\n");
        return 2;
    }
    sr_status status = sr_build_compare(argv[3]);
    if (status == SR_OK)
        status = prepare((pid_t)atoi(argv[2]));
    if (status == SR_OK)
        status = draw();
    if (status != SR_OK)
        fprintf(stderr, "%s\n", sr_error_message());
    return sr_status_exit_code(status);
}
