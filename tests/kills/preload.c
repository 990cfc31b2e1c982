/* Counts the calls that change files below given folders, and strikes at one of them.

   Loaded by LD_PRELOAD into an interpreter, and idle until kills_arm() is called there. From then
   on every process counts for itself, from 1: the one that called kills_arm() is process 0, and
   its forks are 1, 2, … in the order in which they were made. A line for every counted call goes
   to a record:  PROCESS NUMBER NAME PATH.

   A strike happens before the call takes effect. It is either SIGKILL, or an errno. An errno is
   returned by the first call from the chosen one on that needs space; as long as it is `lasting`,
   by every such call of every process after it, as a full disk does.

   Calls that libc makes within itself are not seen; tests/kills compares with strace. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

enum { ALWAYS, SPACE }; /* whether a call can be refused for want of space */

static struct {
    atomic_int processes; /* number of processes so far */
    atomic_int is_full;   /* whether a lasting errno has begun */
} *shared;                /* by all processes of a run */
static int process;
static atomic_long calls;
static char folders[4 * PATH_MAX]; /* each ends with a newline */
static char record[PATH_MAX];
static int struck_process, struck_errno, lasting;
static long struck_call;

static void in_child(void)
{
    if (shared) {
        process = atomic_fetch_add(&shared->processes, 1);
        atomic_store(&calls, 0);
    }
}

/* Begin to count in this process and its later forks.

   below: folders, each with a newline behind it; to: file of the record; at_process, at_call: where
   to strike, call 0 for nowhere; error: errno, 0 for SIGKILL. */
int kills_arm(const char *below, const char *to, int at_process, long at_call, int error, int lasts)
{
    if (strlen(below) >= sizeof folders || strlen(to) >= sizeof record)
        return -1;
    strcpy(folders, below);
    strcpy(record, to);
    struck_process = at_process;
    struck_call = at_call;
    struck_errno = error;
    lasting = lasts;
    process = 0;
    atomic_store(&calls, 0);
    void *memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || pthread_atfork(NULL, NULL, in_child))
        return -1;
    shared = memory;
    atomic_store(&shared->processes, 1);
    return 0;
}

static int is_below(const char *path)
{
    for (const char *at = folders; *at; ) {
        size_t length = strchrnul(at, '\n') - at;
        if (!strncmp(path, at, length) && (path[length] == '/' || !path[length]))
            return 1;
        at += length + 1;
    }
    return 0;
}

static void note(long number, const char *name, const char *path)
{
    char line[PATH_MAX + 100];
    int length = snprintf(line, sizeof line, "%d %ld %s %s\n", process, number, name, path);
    long file = syscall(SYS_openat, AT_FDCWD, record, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || syscall(SYS_write, file, line, length) != length)
        abort();
    syscall(SYS_close, file);
}

/* Whether the call that is about to happen on a path is refused; errno says why. */
static int refused(int needs, const char *name, const char *path)
{
    if (!is_below(path))
        return 0;
    long number = atomic_fetch_add(&calls, 1) + 1;
    note(number, name, path);
    int is_here = struck_call && process == struck_process && number >= struck_call;
    if (is_here && !struck_errno) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;)
            pause();
    }
    if (needs != SPACE)
        return 0;
    if (is_here && !atomic_exchange(&shared->is_full, 1)) {
        note(number, "refused", path);
        errno = struck_errno;
        return 1;
    }
    if (lasting && atomic_load(&shared->is_full)) {
        errno = struck_errno;
        return 1;
    }
    return 0;
}

/* The path of a descriptor, "" if it has none. */
static const char *of_fd(int fd, char *path)
{
    char link[64];
    snprintf(link, sizeof link, fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return path;
}

/* The path of a name in a folder that is open as fd. */
static const char *of_name(int fd, const char *name, char *path)
{
    if (!name || name[0] == '/')
        return name ? name : "";
    of_fd(fd, path);
    size_t length = strlen(path);
    snprintf(path + length, PATH_MAX - length, "/%s", name);
    return path;
}

static int refused_fd(int needs, const char *name, int fd)
{
    char path[PATH_MAX];
    int before = errno;
    int is_refused = refused(needs, name, of_fd(fd, path));
    if (!is_refused)
        errno = before;
    return is_refused;
}

static int refused_name(int needs, const char *name, int fd, const char *of)
{
    char path[PATH_MAX];
    int before = errno;
    int is_refused = refused(needs, name, of_name(fd, of, path));
    if (!is_refused)
        errno = before;
    return is_refused;
}

/* Of two names the first decides, and the second if the first lies elsewhere: one call counts once. */
static int refused_names(const char *name, int fd, const char *of, int to_fd, const char *to)
{
    char path[PATH_MAX];
    return refused_name(SPACE, name, is_below(of_name(fd, of, path)) ? fd : to_fd,
                        is_below(of_name(fd, of, path)) ? of : to);
}

#define NEXT(name) \
    static typeof(&name) next; \
    if (!next) \
        next = (typeof(&name))dlsym(RTLD_NEXT, #name)

/* A call on a descriptor, and one on a name in a folder. */
#define ON_FD(type, name, needs, fd, parameters, arguments) \
    type name parameters \
    { \
        NEXT(name); \
        return shared && refused_fd(needs, #name, fd) ? -1 : next arguments; \
    }
#define ON_NAME(type, name, needs, fd, path, parameters, arguments) \
    type name parameters \
    { \
        NEXT(name); \
        return shared && refused_name(needs, #name, fd, path) ? -1 : next arguments; \
    }
#define ON_NAMES(name, from, of, to, as, parameters, arguments) \
    int name parameters \
    { \
        NEXT(name); \
        return shared && refused_names(#name, from, of, to, as) ? -1 : next arguments; \
    }
#define CHANGES (O_CREAT | O_TRUNC)
#define ON_OPEN(name, fd, parameters, ...) \
    int name parameters \
    { \
        NEXT(name); \
        mode_t mode = 0; \
        if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
            va_list more; \
            va_start(more, flags); \
            mode = va_arg(more, mode_t); \
            va_end(more); \
        } \
        int is_change = flags & CHANGES || (flags & O_TMPFILE) == O_TMPFILE; \
        if (shared && is_change && refused_name(SPACE, #name, fd, path)) \
            return -1; \
        return next(__VA_ARGS__, flags, mode); \
    }

ON_OPEN(open, AT_FDCWD, (const char *path, int flags, ...), path)
ON_OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), path)
ON_OPEN(openat, fd, (int fd, const char *path, int flags, ...), fd, path)
ON_OPEN(openat64, fd, (int fd, const char *path, int flags, ...), fd, path)
ON_NAME(int, creat, SPACE, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_NAME(int, creat64, SPACE, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))

#undef fopen
#undef fopen64
#define ON_FOPEN(name) \
    FILE *name(const char *path, const char *mode) \
    { \
        NEXT(name); \
        int is_change = shared && strpbrk(mode, "wa"); \
        return is_change && refused_name(SPACE, #name, AT_FDCWD, path) ? NULL : next(path, mode); \
    }
ON_FOPEN(fopen)
ON_FOPEN(fopen64)

ON_FD(ssize_t, write, SPACE, fd, (int fd, const void *data, size_t size), (fd, data, size))
ON_FD(ssize_t, pwrite, SPACE, fd, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_FD(ssize_t, pwrite64, SPACE, fd, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
ON_FD(ssize_t, writev, SPACE, fd, (int fd, const struct iovec *parts, int count), (fd, parts, count))
ON_FD(ssize_t, pwritev, SPACE, fd, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
ON_FD(ssize_t, pwritev64, SPACE, fd, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
ON_FD(ssize_t, pwritev2, SPACE, fd, (int fd, const struct iovec *parts, int count, off_t at, int flags), (fd, parts, count, at, flags))
ON_FD(ssize_t, sendfile, SPACE, to, (int to, int from, off_t *at, size_t size), (to, from, at, size))
ON_FD(ssize_t, sendfile64, SPACE, to, (int to, int from, off64_t *at, size_t size), (to, from, at, size))
ON_FD(ssize_t, copy_file_range, SPACE, to, (int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags), (from, from_at, to, to_at, size, flags))
ON_FD(ssize_t, splice, SPACE, to, (int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags), (from, from_at, to, to_at, size, flags))
ON_FD(int, ftruncate, SPACE, fd, (int fd, off_t size), (fd, size))
ON_FD(int, ftruncate64, SPACE, fd, (int fd, off64_t size), (fd, size))
ON_NAME(int, truncate, SPACE, AT_FDCWD, path, (const char *path, off_t size), (path, size))
ON_NAME(int, truncate64, SPACE, AT_FDCWD, path, (const char *path, off64_t size), (path, size))
ON_FD(int, fallocate, SPACE, fd, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
ON_FD(int, fallocate64, SPACE, fd, (int fd, int mode, off64_t at, off64_t size), (fd, mode, at, size))
ON_FD(int, fsync, SPACE, fd, (int fd), (fd))
ON_FD(int, fdatasync, SPACE, fd, (int fd), (fd))
ON_FD(int, syncfs, SPACE, fd, (int fd), (fd))
ON_FD(int, sync_file_range, SPACE, fd, (int fd, off64_t at, off64_t size, unsigned flags), (fd, at, size, flags))

/* It returns the error, and leaves errno as it is. */
#define ON_ALLOCATION(name, offset) \
    int name(int fd, offset at, offset size) \
    { \
        NEXT(name); \
        return shared && refused_fd(SPACE, #name, fd) ? errno : next(fd, at, size); \
    }
ON_ALLOCATION(posix_fallocate, off_t)
ON_ALLOCATION(posix_fallocate64, off64_t)

ON_NAMES(rename, AT_FDCWD, of, AT_FDCWD, to, (const char *of, const char *to), (of, to))
ON_NAMES(renameat, fd, of, to_fd, to, (int fd, const char *of, int to_fd, const char *to), (fd, of, to_fd, to))
ON_NAMES(renameat2, fd, of, to_fd, to, (int fd, const char *of, int to_fd, const char *to, unsigned flags), (fd, of, to_fd, to, flags))
ON_NAMES(link, AT_FDCWD, of, AT_FDCWD, to, (const char *of, const char *to), (of, to))
ON_NAMES(linkat, fd, of, to_fd, to, (int fd, const char *of, int to_fd, const char *to, int flags), (fd, of, to_fd, to, flags))
ON_NAME(int, symlink, SPACE, AT_FDCWD, path, (const char *to, const char *path), (to, path))
ON_NAME(int, symlinkat, SPACE, fd, path, (const char *to, int fd, const char *path), (to, fd, path))
ON_NAME(int, unlink, ALWAYS, AT_FDCWD, path, (const char *path), (path))
ON_NAME(int, unlinkat, ALWAYS, fd, path, (int fd, const char *path, int flags), (fd, path, flags))
ON_NAME(int, remove, ALWAYS, AT_FDCWD, path, (const char *path), (path))
ON_NAME(int, rmdir, ALWAYS, AT_FDCWD, path, (const char *path), (path))
ON_NAME(int, mkdir, SPACE, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_NAME(int, mkdirat, SPACE, fd, path, (int fd, const char *path, mode_t mode), (fd, path, mode))
ON_NAME(int, mkfifo, SPACE, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_NAME(int, mknod, SPACE, AT_FDCWD, path, (const char *path, mode_t mode, dev_t device), (path, mode, device))
ON_NAME(int, mknodat, SPACE, fd, path, (int fd, const char *path, mode_t mode, dev_t device), (fd, path, mode, device))
ON_NAME(int, chmod, ALWAYS, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_NAME(int, fchmodat, ALWAYS, fd, path, (int fd, const char *path, mode_t mode, int flags), (fd, path, mode, flags))
ON_FD(int, fchmod, ALWAYS, fd, (int fd, mode_t mode), (fd, mode))
ON_NAME(int, chown, ALWAYS, AT_FDCWD, path, (const char *path, uid_t user, gid_t group), (path, user, group))
ON_NAME(int, lchown, ALWAYS, AT_FDCWD, path, (const char *path, uid_t user, gid_t group), (path, user, group))
ON_NAME(int, fchownat, ALWAYS, fd, path, (int fd, const char *path, uid_t user, gid_t group, int flags), (fd, path, user, group, flags))
ON_FD(int, fchown, ALWAYS, fd, (int fd, uid_t user, gid_t group), (fd, user, group))
ON_NAME(int, utime, ALWAYS, AT_FDCWD, path, (const char *path, const struct utimbuf *times), (path, times))
ON_NAME(int, utimes, ALWAYS, AT_FDCWD, path, (const char *path, const struct timeval times[2]), (path, times))
ON_NAME(int, lutimes, ALWAYS, AT_FDCWD, path, (const char *path, const struct timeval times[2]), (path, times))
ON_NAME(int, futimesat, ALWAYS, fd, path, (int fd, const char *path, const struct timeval times[2]), (fd, path, times))
ON_FD(int, futimes, ALWAYS, fd, (int fd, const struct timeval times[2]), (fd, times))
ON_FD(int, futimens, ALWAYS, fd, (int fd, const struct timespec times[2]), (fd, times))
ON_NAME(int, setxattr, SPACE, AT_FDCWD, path, (const char *path, const char *key, const void *value, size_t size, int flags), (path, key, value, size, flags))
ON_NAME(int, lsetxattr, SPACE, AT_FDCWD, path, (const char *path, const char *key, const void *value, size_t size, int flags), (path, key, value, size, flags))
ON_FD(int, fsetxattr, SPACE, fd, (int fd, const char *key, const void *value, size_t size, int flags), (fd, key, value, size, flags))
ON_NAME(int, removexattr, ALWAYS, AT_FDCWD, path, (const char *path, const char *key), (path, key))

/* Without a name it is a call on the descriptor itself. */
int utimensat(int fd, const char *path, const struct timespec times[2], int flags)
{
    NEXT(utimensat);
    if (shared && (path ? refused_name(ALWAYS, "utimensat", fd, path) : refused_fd(ALWAYS, "utimensat", fd)))
        return -1;
    return next(fd, path, times, flags);
}
