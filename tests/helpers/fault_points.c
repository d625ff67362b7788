/* Every write, fsync, rename, truncation and removal below a folder, as the process makes it: listed, or the last thing
   that it does. Loaded before libc (LD_PRELOAD); nothing happens before `arm` is called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, LIST, BEFORE, AFTER, TORN };

static char folder[4096], wanted[4096];
static int mode = OFF, occurrence = 0, list = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void arm(const char *below, int how, const char *point, int which, int file) {
    snprintf(folder, sizeof folder, "%s/", below);
    snprintf(wanted, sizeof wanted, "%s", point);
    occurrence = which;
    list = file;
    mode = how;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Return how the call is to go: OFF as ever, AFTER die when it is done, TORN die when half of it is. */
static int at(const char *name, const char *path) {
    char point[8192];
    if (mode == OFF || strncmp(path, folder, strlen(folder))) return OFF;
    int length = snprintf(point, sizeof point, "%s %s", name, path + strlen(folder));
    if (mode == LIST) {
        point[length] = '\n';
        if (REAL(write)(list, point, length + 1) < 0) die();
        return OFF;
    }
    if (strcmp(point, wanted) || __atomic_sub_fetch(&occurrence, 1, __ATOMIC_SEQ_CST)) return OFF;
    if (mode == BEFORE) die();
    return mode;
}

static const char *path_of(int file, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, size - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

static int at_file(const char *name, int file) {
    char path[4096];
    return mode == OFF ? OFF : at(name, path_of(file, path, sizeof path));
}

static int at_name(const char *name, int below, const char *path) {
    char whole[8192], start[4096];
    if (mode == OFF || path[0] == '/') return mode == OFF ? OFF : at(name, path);
    if (below == AT_FDCWD) return OFF;
    snprintf(whole, sizeof whole, "%s/%s", path_of(below, start, sizeof start), path);
    return at(name, whole);
}

#define END(how, call) \
    __typeof__(call) result = call; \
    if (how != OFF) die(); \
    return result

ssize_t write(int file, const void *what, size_t size) {
    int how = at_file("write", file);
    END(how, REAL(write)(file, what, how == TORN ? size / 2 : size));
}

ssize_t pwrite(int file, const void *what, size_t size, off_t place) {
    int how = at_file("write", file);
    END(how, REAL(pwrite)(file, what, how == TORN ? size / 2 : size, place));
}

ssize_t pwrite64(int file, const void *what, size_t size, off64_t place) {
    int how = at_file("write", file);
    END(how, REAL(pwrite64)(file, what, how == TORN ? size / 2 : size, place));
}

ssize_t writev(int file, const struct iovec *what, int count) {
    int how = at_file("write", file);
    END(how, REAL(writev)(file, what, how == TORN ? count / 2 : count));
}

int fsync(int file) {
    int how = at_file("fsync", file);
    END(how, REAL(fsync)(file));
}

int fdatasync(int file) {
    int how = at_file("fsync", file);
    END(how, REAL(fdatasync)(file));
}

int ftruncate(int file, off_t size) {
    int how = at_file("truncate", file);
    END(how, REAL(ftruncate)(file, size));
}

int ftruncate64(int file, off64_t size) {
    int how = at_file("truncate", file);
    END(how, REAL(ftruncate64)(file, size));
}

int rename(const char *old, const char *path) {
    int how = at_name("rename", AT_FDCWD, path);
    END(how, REAL(rename)(old, path));
}

int renameat(int from, const char *old, int below, const char *path) {
    int how = at_name("rename", below, path);
    END(how, REAL(renameat)(from, old, below, path));
}

int unlink(const char *path) {
    int how = at_name("unlink", AT_FDCWD, path);
    END(how, REAL(unlink)(path));
}

int unlinkat(int below, const char *path, int flags) {
    int how = at_name("unlink", below, path);
    END(how, REAL(unlinkat)(below, path, flags));
}
