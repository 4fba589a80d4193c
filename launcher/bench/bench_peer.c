// SPDX-License-Identifier: Apache-2.0
// Peers of benchmarks: a child process that keeps its model in memory and runs steps on request, so
// that our steps and its steps can alternate.
//
// The protocol: the child prints "ready JSON" once it is warm. To "run K" it answers with a line
// with the seconds of K steps, to "memory" with a line with bytes. It exits at the end of its
// standard input. Its stderr goes to an unnamed file, whose last line is reported if it fails.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "launcher/bench/bench_internal.h"

enum { LINE = 1024, MAX_ARGUMENTS = 64, LEVELS_UP = 5 };

struct sr_peer {
    pid_t process;
    int to, from;    // pipes
    FILE *messages;  // its standard error
    char line[LINE]; // received and not yet consumed
    size_t have;     // bytes in 'line'
    bool paused;
    char about[LINE];
};

// Finds tests/peers/SCRIPT in a parent folder of this program.
static sr_status find_script(const char *script, char out[PATH_MAX]) {
    const char *folder = getenv("SERRIED_PEERS");
    if (folder) {
        (void)snprintf(out, PATH_MAX, "%s/%s", folder, script);
        if (sr_path_exists(out))
            return SR_OK;
        return SR_FAIL(SR_E_NOT_FOUND, "SERRIED_PEERS: %s does not exist", out);
    }
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    for (int level = 0; level < LEVELS_UP; level++) {
        char *slash = strrchr(self, '/');
        if (!slash)
            break;
        *slash = '\0';
        if (snprintf(out, PATH_MAX, "%s/tests/peers/%s", self, script) < PATH_MAX &&
            sr_path_exists(out))
            return SR_OK;
    }
    return SR_FAIL(SR_E_NOT_FOUND,
                   "comparisons need %s of serried's source, which is not installed: set "
                   "SERRIED_PEERS=SOURCE/tests/peers; SOURCE/tests/peers/install installs PyTorch",
                   script);
}

static sr_status spawn(sr_peer *peer, char *const *command, int in, int out) {
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, fileno(peer->messages), STDERR_FILENO);
    if (error == 0)
        error = posix_spawnp(&peer->process, command[0], &actions, NULL, command, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (error == 0)
        return SR_OK;
    peer->process = 0;
    return SR_FAIL(SR_E_NOT_FOUND, "cannot start %s: %s", command[0], strerror(error));
}

static sr_status start(sr_peer *peer, char *const *command) {
    int in[2], out[2];
    peer->messages = tmpfile();
    if (!peer->messages)
        return SR_FAIL(SR_E_IO, "cannot create a file for the peer's messages: %s",
                       strerror(errno));
    if (pipe2(in, O_CLOEXEC) != 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot create a pipe to the peer: %s", strerror(errno));
    peer->to = in[1];
    if (pipe2(out, O_CLOEXEC) != 0) {
        (void)close(in[0]);
        return SR_FAIL(SR_E_SYSTEM, "cannot create a pipe from the peer: %s", strerror(errno));
    }
    peer->from = out[0];
    sr_status status = spawn(peer, command, in[0], out[1]);
    (void)close(in[0]);
    (void)close(out[1]);
    return status;
}

sr_status sr_peer_start(const char *script, const char *const *args, sr_peer **out) {
    union { // posix_spawn does not change its arguments
        const char *in;
        char *out;
    } word[MAX_ARGUMENTS];
    char *command[MAX_ARGUMENTS];
    char path[PATH_MAX];
    SR_TRY(find_script(script, path));
    const char *python = getenv("SERRIED_PEER_PYTHON");
    int n = 0;
    word[n++].in = python ? python : "/usr/bin/python3";
    word[n++].in = path;
    for (; *args && n < MAX_ARGUMENTS - 1; args++)
        word[n++].in = *args;
    word[n].in = NULL;
    for (int i = 0; i <= n; i++)
        command[i] = word[i].out;
    sr_peer *peer = sr_alloc(sizeof *peer, "peer");
    if (!peer)
        return SR_E_MEMORY;
    peer->to = peer->from = -1;
    (void)signal(SIGPIPE, SIG_IGN); // a dead peer is noticed when its answer is read
    sr_status status = start(peer, command);
    if (status != SR_OK) {
        sr_peer_stop(peer);
        return status;
    }
    *out = peer;
    return SR_OK;
}

// The last line of its messages, for our error message.
static const char *last_message(sr_peer *peer, char text[LINE]) {
    text[0] = '\0';
    long end = fseek(peer->messages, 0, SEEK_END) == 0 ? ftell(peer->messages) : 0;
    long from = end > LINE - 1 ? end - (LINE - 1) : 0;
    if (fseek(peer->messages, from, SEEK_SET) != 0)
        return "it printed nothing";
    size_t n = fread(text, 1, LINE - 1, peer->messages);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
    char *line = strrchr(text, '\n');
    return n == 0 ? "it printed nothing" : line ? line + 1 : text;
}

static sr_status ended(sr_peer *peer) {
    char text[LINE];
    const char *said = last_message(peer, text);
    return SR_FAIL(SR_E_PEER, "the peer exited: %s%s", said,
                   strstr(said, "No module named") ? "; tests/peers/install installs it" : "");
}

static sr_status wait_readable(sr_peer *peer, int64_t deadline) {
    for (;;) {
        int64_t left = deadline - sr_clock_ns();
        struct pollfd fd = {.fd = peer->from, .events = POLLIN};
        if (left <= 0)
            return SR_FAIL(SR_E_TIMEOUT, "the peer did not answer in time");
        int n = poll(&fd, 1, (int)(left / SR_NS_PER_MS) + 1);
        if (n > 0)
            return SR_OK;
        if (n < 0 && errno != EINTR)
            return SR_FAIL(SR_E_SYSTEM, "poll: %s", strerror(errno));
    }
}

// The next line, without its end, into 'out' (LINE bytes).
static sr_status read_line(sr_peer *peer, double seconds, char out[LINE]) {
    int64_t deadline = sr_clock_ns() + (int64_t)(seconds * (double)SR_NS_PER_S);
    for (;;) {
        char *end = memchr(peer->line, '\n', peer->have);
        if (end) {
            size_t n = (size_t)(end - peer->line);
            memcpy(out, peer->line, n);
            out[n] = '\0';
            peer->have -= n + 1;
            memmove(peer->line, end + 1, peer->have);
            return SR_OK;
        }
        if (peer->have == LINE - 1)
            return SR_FAIL(SR_E_PEER, "the peer wrote a line longer than %d bytes", LINE - 1);
        SR_TRY(wait_readable(peer, deadline));
        ssize_t n = read(peer->from, peer->line + peer->have, LINE - 1 - peer->have);
        if (n == 0)
            return ended(peer);
        if (n < 0 && errno != EINTR)
            return SR_FAIL(SR_E_IO, "reading from the peer: %s", strerror(errno));
        peer->have += n > 0 ? (size_t)n : 0;
    }
}

sr_status sr_peer_ready(sr_peer *peer, double limit_seconds, const char **about) {
    static const char word[] = "ready ";
    char line[LINE];
    SR_TRY(read_line(peer, limit_seconds, line));
    if (strncmp(line, word, sizeof word - 1) != 0)
        return SR_FAIL(SR_E_PEER, "the peer answered '%s' instead of 'ready'", line);
    (void)snprintf(peer->about, sizeof peer->about, "%s", line + sizeof word - 1);
    *about = peer->about;
    return SR_OK;
}

sr_status sr_peer_begin(sr_peer *peer, int steps) {
    if (peer->paused)
        peer->paused = kill(peer->process, SIGCONT) != 0;
    if (dprintf(peer->to, "run %d\n", steps) < 0)
        return ended(peer);
    return SR_OK;
}

static sr_status read_number(sr_peer *peer, double limit_seconds, const char *what, double *out) {
    char line[LINE], *end;
    SR_TRY(read_line(peer, limit_seconds, line));
    double value = strtod(line, &end);
    if (end == line || !(value > 0))
        return SR_FAIL(SR_E_PEER, "the peer answered '%s' instead of %s", line, what);
    *out = value;
    return SR_OK;
}

sr_status sr_peer_wait(sr_peer *peer, double limit_seconds, double *seconds) {
    return read_number(peer, limit_seconds, "seconds", seconds);
}

sr_status sr_peer_memory(sr_peer *peer, double limit_seconds, double *bytes) {
    if (dprintf(peer->to, "memory\n") < 0)
        return ended(peer);
    return read_number(peer, limit_seconds, "bytes", bytes);
}

// Fields 14 and 15 of /proc/PID/stat (proc(5)), after the name in parentheses.
double sr_peer_cpu_seconds(const sr_peer *peer) {
    char path[64], text[LINE];
    unsigned long long user = 0, system = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)peer->process);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[n] = '\0';
    const char *behind = strrchr(text, ')');
    if (!behind || sscanf(behind + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
                          &user, &system) != 2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

void sr_peer_pause(sr_peer *peer) {
    peer->paused = kill(peer->process, SIGSTOP) == 0;
}

void sr_peer_stop(sr_peer *peer) {
    if (!peer)
        return;
    if (peer->to >= 0)
        (void)close(peer->to);
    if (peer->process > 0) {
        (void)kill(peer->process, SIGKILL); // it has no state to save
        while (waitpid(peer->process, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (peer->from >= 0)
        (void)close(peer->from);
    if (peer->messages)
        (void)fclose(peer->messages);
    sr_free(peer);
}
