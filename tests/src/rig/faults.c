/* Faults of disks and clocks for one process and what it starts, loaded into it with LD_PRELOAD.
 *
 * The control file is shared memory: the test writes what is to happen and reads what has happened (tests/src/rig/injector.rs has
 * the same layout). Only files below FAULTS_UNDER are touched. Without faults every call is passed on as it came.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { SYNC = 1, WRITE = 2, NAMES = 4, BYTES = 128, FILES = 65536 };

struct control {
    int64_t wall_ns;  /* added to the wall clock */
    int32_t calls;    /* which kinds of calls are counted, and fail */
    int32_t error;    /* the errno of a failure; 0: none fails */
    int32_t good;     /* so many are good first */
    int32_t bad;      /* so many fail then */
    int32_t lose;     /* a failed sync of a write-ahead log loses what was not synced */
    int32_t delay_us; /* each sync takes so long */
    int64_t seen;     /* calls of these kinds */
    int64_t failed;   /* those that failed */
    char part[64];    /* only paths with this in them; empty: all below the folder */
};

static struct control *control;
static const char *under;
static size_t under_length;
static int64_t synced[FILES];

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_CONTROL");
    under = getenv("FAULTS_UNDER");
    if (!path || !under) return;
    under_length = strlen(under);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) control = at;
}

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int is_ours(const char *path) {
    if (!path || !under || strncmp(path, under, under_length) != 0) return 0;
    return path[under_length] == '/' || path[under_length] == 0;
}

static int name_of(int fd, char *path) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

/* Whether this call has to fail; errno is set then. */
static int fails(int kind, const char *path) {
    if (!(control->calls & kind) || !is_ours(path)) return 0;
    if (control->part[0] && !strstr(path + under_length, control->part)) return 0;
    __atomic_add_fetch(&control->seen, 1, __ATOMIC_SEQ_CST);
    if (!control->error) return 0;
    if (__atomic_sub_fetch(&control->good, 1, __ATOMIC_SEQ_CST) >= 0) return 0;
    if (__atomic_sub_fetch(&control->bad, 1, __ATOMIC_SEQ_CST) < 0) return 0;
    __atomic_add_fetch(&control->failed, 1, __ATOMIC_SEQ_CST);
    errno = control->error;
    return 1;
}

static int fd_fails(int kind, int fd) {
    char path[PATH_MAX];
    if (!control || !(control->calls & kind)) return 0;
    return name_of(fd, path) && fails(kind, path);
}

static int path_fails(const char *path) {
    return control && (control->calls & NAMES) && fails(NAMES, path);
}

static int64_t length_of(int fd) {
    struct stat file;
    return fstat(fd, &file) == 0 ? (int64_t)file.st_size : 0;
}

static int sync_fails(int fd) {
    char path[PATH_MAX];
    if (!control) return 0;
    if (control->delay_us > 0) {
        struct timespec t = {control->delay_us / 1000000, (control->delay_us % 1000000) * 1000L};
        if (name_of(fd, path) && is_ours(path)) nanosleep(&t, NULL);
    }
    if (!fd_fails(SYNC, fd)) return 0;
    int error = errno;
    if (control->lose && fd < FILES && name_of(fd, path)) {
        size_t length = strlen(path);
        /* The pages that could not be written are gone, as the kernel drops them. */
        if (length > 4 && strcmp(path + length - 4, ".log") == 0 && syscall(SYS_ftruncate, fd, synced[fd]) != 0) abort();
    }
    errno = error;
    return 1;
}

static int done(int fd, int result) {
    if (result == 0 && control && fd >= 0 && fd < FILES) synced[fd] = length_of(fd);
    return result;
}

int fsync(int fd) {
    NEXT(fsync);
    return sync_fails(fd) ? -1 : done(fd, next(fd));
}

int fdatasync(int fd) {
    NEXT(fdatasync);
    return sync_fails(fd) ? -1 : done(fd, next(fd));
}

ssize_t write(int fd, const void *bytes, size_t count) {
    NEXT(write);
    return fd_fails(WRITE, fd) ? -1 : next(fd, bytes, count);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    NEXT(writev);
    return fd_fails(WRITE, fd) ? -1 : next(fd, parts, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    NEXT(pwrite);
    return fd_fails(WRITE, fd) ? -1 : next(fd, bytes, count, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    NEXT(pwrite64);
    return fd_fails(WRITE, fd) ? -1 : next(fd, bytes, count, at);
}

int ftruncate(int fd, off_t length) {
    NEXT(ftruncate);
    return fd_fails(WRITE, fd) ? -1 : next(fd, length);
}

int ftruncate64(int fd, off64_t length) {
    NEXT(ftruncate64);
    return fd_fails(WRITE, fd) ? -1 : next(fd, length);
}

/* An opening counts where it makes a file or lets it be written. */
static int opening_fails(const char *path, int flags) {
    return (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) && path_fails(path);
}

static int opened(int fd) {
    if (fd >= 0 && fd < FILES && control) synced[fd] = length_of(fd);
    return fd;
}

#define MODE(flags, last) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, last); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *path, int flags, ...) {
    NEXT(open);
    MODE(flags, flags)
    return opening_fails(path, flags) ? -1 : opened(next(path, flags, mode));
}

int open64(const char *path, int flags, ...) {
    NEXT(open64);
    MODE(flags, flags)
    return opening_fails(path, flags) ? -1 : opened(next(path, flags, mode));
}

int openat64(int folder, const char *path, int flags, ...) {
    NEXT(openat64);
    MODE(flags, flags)
    return opening_fails(path, flags) ? -1 : opened(next(folder, path, flags, mode));
}

int rename(const char *from, const char *to) {
    NEXT(rename);
    return path_fails(to) ? -1 : next(from, to);
}

int link(const char *from, const char *to) {
    NEXT(link);
    return path_fails(to) ? -1 : next(from, to);
}

int unlink(const char *path) {
    NEXT(unlink);
    return path_fails(path) ? -1 : next(path);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    NEXT(linkat);
    return path_fails(to) ? -1 : next(from_folder, from, to_folder, to, flags);
}

/* Below a folder that is open the path is the rest of it. */
static int below_fails(int folder, const char *name) {
    char path[PATH_MAX];
    if (name[0] == '/' || folder == AT_FDCWD) return path_fails(name);
    if (!control || !(control->calls & NAMES) || !name_of(folder, path)) return 0;
    size_t length = strlen(path);
    if (length + strlen(name) + 2 > sizeof path) return 0;
    snprintf(path + length, sizeof path - length, "/%s", name);
    return fails(NAMES, path);
}

int unlinkat(int folder, const char *name, int flags) {
    NEXT(unlinkat);
    return below_fails(folder, name) ? -1 : next(folder, name, flags);
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t count, unsigned flags) {
    NEXT(copy_file_range);
    return fd_fails(WRITE, to) ? -1 : next(from, from_at, to, to_at, count, flags);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t count) {
    NEXT(sendfile64);
    return fd_fails(WRITE, to) ? -1 : next(to, from, at, count);
}

int mkdir(const char *path, mode_t mode) {
    NEXT(mkdir);
    /* Of what is there the kernel says EEXIST, whatever else is wrong. */
    return access(path, F_OK) != 0 && path_fails(path) ? -1 : next(path, mode);
}

int clock_gettime(clockid_t id, struct timespec *t) {
    NEXT(clock_gettime);
    int result = next(id, t);
    if (result == 0 && control && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t ns = (int64_t)t->tv_sec * 1000000000 + t->tv_nsec + control->wall_ns;
        t->tv_sec = ns / 1000000000;
        t->tv_nsec = ns % 1000000000;
    }
    return result;
}
