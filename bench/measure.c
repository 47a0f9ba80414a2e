/* Runs a command and says what it cost.
 *
 *   measure SECONDS REPORT COMMAND ARGUMENT...     REPORT: a file that gets one JSON object; ends with the command's status
 *
 * After SECONDS (0: never) the command is killed.
 *
 * CPU, bytes written to storage and ru_maxrss come from wait4. ru_maxrss counts what the process was before exec as well, which is why the command is not
 * started by Python: here that is about a megabyte. VmHWM and the anonymous part are read every 10 ms. SIGTERM and SIGINT go on to the command.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLE_NS = 10 * 1000 * 1000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void sample(pid_t pid, long *hwm_kb, long *anon_kb) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return;
    long v;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmHWM: %ld", &v) == 1 && v > *hwm_kb) *hwm_kb = v;
        if (sscanf(line, "RssAnon: %ld", &v) == 1 && v > *anon_kb) *anon_kb = v;
    }
    fclose(f);
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "usage: measure SECONDS REPORT COMMAND ARGUMENT...\n"), 2;
    sigset_t mine, old;
    sigemptyset(&mine);
    sigaddset(&mine, SIGCHLD), sigaddset(&mine, SIGTERM), sigaddset(&mine, SIGINT);
    sigprocmask(SIG_BLOCK, &mine, &old);
    double start = now(), limit = atof(argv[1]);
    pid_t pid = fork();
    if (pid < 0) return perror("measure: fork"), 1;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigprocmask(SIG_SETMASK, &old, NULL);
        execvp(argv[3], argv + 3);
        perror(argv[3]);
        _exit(127);
    }
    long hwm_kb = 0, anon_kb = 0;
    struct rusage ru;
    int status = 0;
    double wall;
    for (;;) {
        struct timespec tick = {0, SAMPLE_NS};
        int sig = sigtimedwait(&mine, NULL, &tick);
        if (sig == SIGTERM || sig == SIGINT) kill(pid, sig);
        wall = now() - start;
        if (limit > 0 && wall > limit) fprintf(stderr, "measure: killed after %.0f s\n", wall), kill(pid, SIGKILL), limit = 0;
        if (wait4(pid, &status, WNOHANG, &ru) == pid) break;
        sample(pid, &hwm_kb, &anon_kb);
    }
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    FILE *f = fopen(argv[2], "w");
    if (!f) return perror(argv[2]), 1;
    fprintf(f,
            "{\"status\": %d, \"wall_s\": %.3f, \"user_s\": %.3f, \"sys_s\": %.3f, \"maxrss_mb\": %.1f, \"hwm_mb\": %.1f, \"anon_mb\": %.1f, "
            "\"written_mb\": %.1f, \"switches\": %ld, \"preempted\": %ld}\n",
            code, wall, seconds(ru.ru_utime), seconds(ru.ru_stime), (double)ru.ru_maxrss / 1024, (double)hwm_kb / 1024, (double)anon_kb / 1024,
            (double)ru.ru_oublock * 512 / 1e6, ru.ru_nvcsw, ru.ru_nivcsw);
    return fclose(f) ? perror(argv[2]), 1 : code;
}
