// SPDX-License-Identifier: Apache-2.0
// Starting, watching and ending the children that draw (drawing.h): one at a time, since memory and
// threads may be short.
//
// posix_spawn of this program and not fork: a rank has threads, and MPI's memory. The picture goes
// through a file in memory, and so does what the child writes to stderr, by which a crash is
// explained.
#include "trainer/draw/drawing.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/build_identity.h"
#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"
#include "kernels/base/machine.h"
#include "trainer/draw/drawing_internal.h"
#include "trainer/draw/plots.h"

#define PICTURE_FD 3
#define CHILD_NS (60 * SR_NS_PER_S) // longest time for one picture
#define PAUSE_NS (2 * SR_NS_PER_MS)
#define SHEET_S 70 // more than a child may take

enum { WAITING_MAX = 16, NAME_BYTES = 256 };

extern char **environ;

typedef struct waiting {
    char name[NAME_BYTES]; // of the file
    char *folder;          // in which it is written
    int picture;           // descriptor
    int64_t step;          // that it shows
} waiting;

struct sr_drawing {
    waiting queue[WAITING_MAX];
    int count;
    waiting now; // what the child draws
    pid_t pid;   // 0: none
    int messages;
    int64_t deadline_ns;
    bool missed; // a picture was not drawn
    sr_drawing_drawn drawn;
    void *user;
    int64_t step; // that the next pictures show
};

static bool children_allowed;

void sr_drawing_allow_children(void) {
    children_allowed = true;
}

sr_status sr_drawing_create(sr_drawing **out) {
    *out = sr_alloc(sizeof **out, "pictures");
    return *out ? SR_OK : SR_E_MEMORY;
}

void sr_drawing_notify(sr_drawing *d, sr_drawing_drawn drawn, void *user) {
    d->drawn = drawn;
    d->user = user;
}

void sr_drawing_set_step(sr_drawing *d, int64_t step) {
    if (d)
        d->step = step;
}

static void notify(const sr_drawing *d, const char *folder, const char *name, int64_t step) {
    if (d->drawn)
        d->drawn(d->user, folder, name, step);
}

static void miss(sr_drawing *d, const char *name, const char *why) {
    SR_WARN("%s was not drawn: %s", name, why);
    d->missed = true;
}

static void release(waiting *w) {
    if (w->picture > 0)
        (void)close(w->picture);
    sr_free(w->folder);
    *w = (waiting){.picture = -1};
}

// -- starting --------------------------------------------------------------------------------

static int plan_descriptors(posix_spawn_file_actions_t *actions, int picture, int messages) {
    int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(actions, messages, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(actions, messages, STDERR_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(actions, picture, PICTURE_FD);
    if (error == 0)
        error = posix_spawn_file_actions_addclosefrom_np(actions, PICTURE_FD + 1);
    return error;
}

static int spawn(const sr_drawing *d, pid_t *pid) {
    char title[] = "serried-draw", option[] = "--draw", parent[16];
    union {
        const char *in;
        char *any;
    } identity = {.in = sr_build_identity()}; // only read
    (void)snprintf(parent, sizeof parent, "%d", (int)getpid());
    char *arguments[] = {title, option, parent, identity.any, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;
    sigfillset(&all);
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = plan_descriptors(&actions, d->now.picture, d->messages);
        if (error == 0)
            error = posix_spawnattr_setsigmask(&attributes, &all);
        if (error == 0)
            error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        if (error == 0)
            error = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, arguments, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void end_picture(sr_drawing *d) {
    if (d->messages > 0)
        (void)close(d->messages);
    release(&d->now);
    d->messages = -1;
    d->pid = 0;
}

static void start_next(sr_drawing *d) {
    while (d->pid == 0 && d->count > 0) {
        d->now = d->queue[0];
        memmove(d->queue, d->queue + 1, (size_t)--d->count * sizeof *d->queue);
        d->messages = memfd_create("messages", MFD_CLOEXEC);
        const int error = d->messages < 0 ? errno : spawn(d, &d->pid);
        d->deadline_ns = sr_clock_ns() + CHILD_NS;
        if (error == 0)
            return;
        char failure[SR_START_FAILURE_BYTES];
        SR_WARN("%s was not drawn: cannot start a process: %s", d->now.name,
                sr_machine_start_failure(error, failure));
        d->missed = true;
        end_picture(d);
    }
}

// -- ending ----------------------------------------------------------------------------------

// Adds the last line that the child wrote.
static void add_last_words(int messages, sr_text *out) {
    char text[1024];
    const off_t end = lseek(messages, 0, SEEK_END);
    const off_t begin = end > (off_t)sizeof text - 1 ? end - (off_t)sizeof text + 1 : 0;
    const ssize_t got = end > 0 ? pread(messages, text, sizeof text - 1, begin) : 0;
    size_t n = got > 0 ? (size_t)got : 0;
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
    const char *line = strrchr(text, '\n');
    sr_text_add_visible(out, line ? line + 1 : text);
}

static void warn(sr_drawing *d, int end) {
    sr_text why;
    sr_text_init(&why);
    add_last_words(d->messages, &why);
    const bool said = !why.failed && why.length > 0;
    d->missed = true;
    if (WIFSIGNALED(end))
        SR_WARN("%s was not drawn: the process that draws was ended by signal %d (%s)%s%s",
                d->now.name, WTERMSIG(end), strsignal(WTERMSIG(end)), said ? ": " : "",
                said ? why.data : "");
    else if (said)
        SR_WARN("%s was not drawn: %s", d->now.name, why.data);
    else
        SR_WARN("%s was not drawn: the process that draws ended with exit code %d", d->now.name,
                WEXITSTATUS(end));
    sr_text_release(&why);
    sr_remove_temporary_files(d->now.folder, d->pid);
}

static void kill_child(sr_drawing *d) {
    (void)kill(d->pid, SIGKILL);
    while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    sr_remove_temporary_files(d->now.folder, d->pid);
    end_picture(d);
}

static void check_child(sr_drawing *d) {
    int end = 0;
    const pid_t got = waitpid(d->pid, &end, WNOHANG);
    if (got == d->pid || (got < 0 && errno != EINTR)) {
        if (end != 0)
            warn(d, end);
        else
            notify(d, d->now.folder, d->now.name, d->now.step);
        end_picture(d);
    } else if (sr_clock_ns() > d->deadline_ns) {
        SR_WARN("%s was not drawn: the process that draws it did not end within %d s", d->now.name,
                (int)(CHILD_NS / SR_NS_PER_S));
        d->missed = true;
        kill_child(d);
    }
}

void sr_drawing_poll(sr_drawing *d) {
    if (!d)
        return;
    if (d->pid > 0)
        check_child(d);
    start_next(d);
}

bool sr_drawing_finish(sr_drawing *d, double seconds) {
    const int64_t end = sr_clock_ns() + (int64_t)(seconds * (double)SR_NS_PER_S);
    if (!d)
        return true;
    for (sr_drawing_poll(d); d->pid > 0 && sr_clock_ns() < end; sr_drawing_poll(d))
        sr_clock_sleep_ns(PAUSE_NS);
    if (d->pid == 0)
        return !d->missed;
    SR_WARN("%s was not drawn%s: the run does not wait longer than %g s for its pictures",
            d->now.name, d->count > 0 ? ", nor were others" : "", seconds);
    kill_child(d);
    while (d->count > 0)
        release(&d->queue[--d->count]);
    d->missed = true;
    return false;
}

void sr_drawing_free(sr_drawing *d) {
    if (!d)
        return;
    if (d->pid > 0)
        kill_child(d);
    while (d->count > 0)
        release(&d->queue[--d->count]);
    sr_free(d);
}

// -- what is to be drawn ---------------------------------------------------------------------

// The picture as bytes in a file in memory; -1 with the error set if there is no memory for it.
static int pack(const sr_picture *picture) {
    sr_text bytes;
    int fd = -1;
    sr_text_init(&bytes);
    sr_picture_encode(picture, &bytes);
    if (sr_text_check(&bytes) == SR_OK) {
        fd = memfd_create("picture", MFD_CLOEXEC);
        const int error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes.length);
        void *to =
            error == 0 ? mmap(NULL, bytes.length, PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
        if (to != MAP_FAILED) {
            memcpy(to, bytes.data, bytes.length);
            (void)munmap(to, bytes.length);
        } else {
            (void)SR_FAIL(SR_E_MEMORY, "no memory for %zu bytes: %s", bytes.length,
                          strerror(error != 0 ? error : errno));
            if (fd >= 0)
                (void)close(fd);
            fd = -1;
        }
    }
    sr_text_release(&bytes);
    return fd;
}

// A place in the queue: that of an earlier picture of this name, or a new one.
static waiting *find_place(sr_drawing *d, const char *name) {
    for (int i = 0; i < d->count; i++)
        if (strcmp(d->queue[i].name, name) == 0) {
            release(&d->queue[i]);
            return &d->queue[i];
        }
    return d->count < WAITING_MAX ? &d->queue[d->count++] : NULL;
}

// Whether what may end a process is loaded by a child only.
static bool draws_in_children(void) {
    return children_allowed && sr_plots_installed();
}

// Takes ownership of the descriptor; -1: the error is set.
static void enqueue(sr_drawing *d, const char *name, const char *folder, int fd) {
    char *copy = fd >= 0 ? sr_strdup(folder) : NULL;
    waiting *place = copy ? find_place(d, name) : NULL;
    if (!place) {
        miss(d, name, copy ? "too many pictures wait" : sr_error_message());
        if (fd >= 0)
            (void)close(fd);
        sr_free(copy);
        return;
    }
    *place = (waiting){.folder = copy, .picture = fd, .step = d->step};
    (void)snprintf(place->name, sizeof place->name, "%s", name);
    sr_drawing_poll(d);
}

static void add(sr_drawing *d, const char *name, const char *folder, const sr_picture *picture) {
    if (!d)
        return;
    if (!draws_in_children()) {
        if (sr_picture_draw(picture) == SR_OK)
            notify(d, folder, name, d->step);
        else
            miss(d, name, sr_error_message());
        return;
    }
    enqueue(d, name, folder, pack(picture));
}

void sr_drawing_figure(sr_drawing *d, const sr_figure *figure, const char *name,
                       const char *folder) {
    const sr_picture picture = {
        .kind = SR_DRAWING_FIGURE, .path = folder, .name = name, .figure = *figure};
    char file[NAME_BYTES];
    (void)snprintf(file, sizeof file, "%s.png", name);
    if (d && sr_figure_check(figure) != SR_OK)
        miss(d, file, sr_error_message());
    else
        add(d, file, folder, &picture);
}

void sr_drawing_samples(sr_drawing *d, const sr_samples *sheet, const char *path) {
    const sr_picture picture = {.kind = SR_DRAWING_SAMPLES, .path = path, .sheet = *sheet};
    const char *slash = strrchr(path, '/');
    char *folder = sr_strdup(slash ? path : ".");
    if (folder && slash)
        folder[slash - path] = '\0';
    if (folder)
        add(d, slash ? slash + 1 : path, folder, &picture);
    sr_free(folder);
}

// -- a sheet that is not written ---------------------------------------------------------------

// What the child has added to the file.
static sr_status read_raster(int fd, off_t from, sr_raster *out) {
    struct stat info = {0};
    sr_raster_head head = {0};
    if (fstat(fd, &info) != 0 || pread(fd, &head, sizeof head, from) != (ssize_t)sizeof head)
        return SR_FAIL(SR_E_SYSTEM, "the process that draws has drawn nothing");
    SR_TRY(sr_raster_create(head.width, head.height, out));
    size_t got = 0, bytes = (size_t)head.width * (size_t)head.height * 3;
    while (got < bytes) {
        const ssize_t n =
            pread(fd, out->rgb + got, bytes - got, from + (off_t)sizeof head + (off_t)got);
        if (n <= 0) {
            sr_raster_release(out);
            return SR_FAIL(SR_E_SYSTEM, "the process that draws has not drawn everything");
        }
        got += (size_t)n;
    }
    return SR_OK;
}

static sr_status draw_in_child(sr_drawing *d, const sr_samples *sheet, const char *name,
                               sr_raster *out) {
    const sr_picture picture = {.kind = SR_DRAWING_SHEET, .sheet = *sheet};
    const int fd = pack(&picture), drawn = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    const off_t end = drawn >= 0 ? lseek(drawn, 0, SEEK_END) : 0;
    enqueue(d, name, "", fd);
    sr_status status =
        sr_drawing_finish(d, SHEET_S) && drawn >= 0 ? read_raster(drawn, end, out) : SR_E_SYSTEM;
    if (drawn >= 0)
        (void)close(drawn);
    return status;
}

sr_status sr_drawing_sheet(const sr_samples *sheet, const char *name, sr_raster *out) {
    sr_drawing *d;
    if (!draws_in_children())
        return sr_samples_draw(sheet, out);
    SR_TRY(sr_drawing_create(&d));
    const sr_status status = draw_in_child(d, sheet, name, out);
    sr_drawing_free(d);
    if (status == SR_OK)
        return SR_OK;
    SR_WARN("%s is drawn with a plain font instead", name);
    sr_plots_refuse();
    return sr_samples_draw(sheet, out);
}
