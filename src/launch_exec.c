/* The program of the ranks: where it is, how it is started, and why it cannot
 * be: the kernel has one number for many causes. */
#include "cmd.h"
#include "launch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SHELL "/bin/sh"

/* The first bytes of a file, as the kernel looks at them; 0: none. */
static size_t read_head(const char *path, char *head, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, head, room);

    if (fd >= 0)
        close(fd);
    return n > 0 ? (size_t)n : 0;
}

static bool is_directory(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* ---- where it is ----------------------------------------------------------
 */

/* 0, ENOENT, or EACCES for a file that is there. */
static int look_in(const char *dir, size_t length, const char *name, char *path)
{
    if (length + strlen(name) + 2 > PATH_MAX)
        return ENOENT;
    snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, dir, length ? "/" : "",
             name);
    if (is_directory(path) || access(path, F_OK) != 0)
        return ENOENT;
    return access(path, X_OK) == 0 ? 0 : EACCES;
}

int program_find(const char *name, char *path)
{
    const char *dirs = getenv("PATH");
    char found[PATH_MAX] = "";

    if (strlen(name) >= PATH_MAX)
        return ENAMETOOLONG;
    strcpy(path, name);
    if (strchr(name, '/'))
        return 0; /* the kernel says what is wrong with it */
    for (const char *at = dirs ? dirs : "/bin:/usr/bin"; at;) {
        size_t length = strcspn(at, ":");
        int err = look_in(at, length, name, path);
        if (err == 0)
            return 0;
        if (err == EACCES && !*found)
            strcpy(found, path);
        at = at[length] ? at + length + 1 : NULL;
    }
    strcpy(path, *found ? found : name);
    return *found ? EACCES : ENOENT;
}

/* ---- how it is started ----------------------------------------------------
 */

/* What shells take for a script of theirs: its first line is text. */
static bool is_text(const char *path)
{
    char head[128];
    size_t n = read_head(path, head, sizeof head);
    const char *end = memchr(head, '\n', n);

    return (n < SELFMAG || memcmp(head, ELFMAG, SELFMAG) != 0) &&
           !memchr(head, '\0', end ? (size_t)(end - head) : n);
}

int program_exec(const char *path, char *const *argv, char *const *env)
{
    size_t count = 0;

    execve(path, argv, env);
    if (errno != ENOEXEC || !is_text(path))
        return errno;
    while (argv[count])
        count++;
    char **words = calloc(count + 2, sizeof *words);
    if (!words)
        return errno;
    words[0] = (char *)(uintptr_t)SHELL;
    words[1] = (char *)(uintptr_t)path;
    for (size_t i = 1; i < count; i++)
        words[i + 1] = argv[i];
    execve(SHELL, words, env);
    return errno;
}

/* ---- why it cannot be -----------------------------------------------------
 */

static const char *machine_name(unsigned machine)
{
    static const struct {
        unsigned machine;
        const char *name;
    } names[] = {{EM_X86_64, "x86-64"},   {EM_386, "32-bit x86"},
                 {EM_AARCH64, "aarch64"}, {EM_ARM, "32-bit ARM"},
                 {EM_PPC64, "POWER"},     {EM_RISCV, "RISC-V"},
                 {EM_S390, "s390"},       {EM_LOONGARCH, "LoongArch"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].machine == machine)
            return names[i].name;
    return NULL;
}

/* Byte order is the file's own: e_machine is two bytes at 18 in all of them. */
static unsigned machine_of(const char *head)
{
    unsigned a = (unsigned char)head[18], b = (unsigned char)head[19];

    return head[EI_DATA] == ELFDATA2MSB ? a << 8 | b : b << 8 | a;
}

static void tell_format(FILE *to, const char *path)
{
    char head[64], own[64];
    size_t n = read_head(path, head, sizeof head);

    if (n < 20 || memcmp(head, ELFMAG, SELFMAG) != 0) {
        fprintf(to, "it is neither a program of this machine nor a script");
        return;
    }
    unsigned machine = machine_of(head);
    const char *name = machine_name(machine), *here = NULL;
    if (read_head("/proc/self/exe", own, sizeof own) >= 20)
        here = machine_name(machine_of(own));
    if (here && name == here)
        fprintf(to, "its file is damaged or cut");
    else if (name)
        fprintf(to, "it was built for %s and this machine is %s; build it here",
                name, here ? here : "another");
    else
        fprintf(to, "it was built for another machine (ELF machine %u)",
                machine);
}

/* The interpreter in the first line of a script; NULL: none. */
static char *script_interpreter(char *head, size_t n, bool *crlf)
{
    char *end = memchr(head, '\n', n);

    if (n < 3 || memcmp(head, "#!", 2) != 0)
        return NULL;
    if (!end)
        end = head + n - 1;
    *crlf = end > head && end[-1] == '\r';
    *end = '\0';
    head += 2 + strspn(head + 2, " \t");
    head[strcspn(head, " \t\r")] = '\0';
    return head;
}

/* The loader that a program asks for; NULL: none, or it is of another kind. */
static char *elf_interpreter(char *head, size_t n)
{
    const Elf64_Ehdr *elf = (const void *)head;

    if (n < sizeof *elf || memcmp(head, ELFMAG, SELFMAG) != 0 ||
        head[EI_CLASS] != ELFCLASS64)
        return NULL;
    for (unsigned i = 0; i < elf->e_phnum; i++) {
        uint64_t at = elf->e_phoff + (uint64_t)i * sizeof(Elf64_Phdr);
        Elf64_Phdr part;
        if (at > n - sizeof part)
            return NULL;
        memcpy(&part, head + at, sizeof part);
        if (part.p_type == PT_INTERP && part.p_offset < n &&
            memchr(head + part.p_offset, '\0', n - part.p_offset))
            return head + part.p_offset;
    }
    return NULL;
}

/* The file is there, yet the kernel says it is not, or may not be used: it
 * means the one that the file asks for. */
static bool tell_interpreter(FILE *to, const char *path)
{
    _Alignas(Elf64_Ehdr) char head[4096];
    size_t n = read_head(path, head, sizeof head);
    bool crlf = false;
    char *loader = elf_interpreter(head, n);
    char *script = loader ? NULL : script_interpreter(head, n, &crlf);

    if (crlf) {
        fprintf(to, "its first line ends with CR LF, so its interpreter is "
                    "sought as \"");
        cmd_put(to, script);
        fprintf(to, "\\x0D\"; take the CRs out with sed -i 's/\\r$//'");
        return true;
    }
    if (!loader && !script)
        return false;
    const char *file = loader ? loader : script;
    if (access(file, X_OK) == 0 && !is_directory(file))
        return false;
    fprintf(to, loader ? "its loader " : "its interpreter ");
    cmd_put(to, file);
    fprintf(to, is_directory(file)        ? " is a directory"
                : access(file, F_OK) == 0 ? " is not executable"
                                          : " is not on this machine");
    return true;
}

static void tell_access(FILE *to, const char *path)
{
    struct statvfs fs;
    struct stat info;

    if (is_directory(path))
        fprintf(to, "it is a directory");
    else if (stat(path, &info) != 0)
        fprintf(to, "a directory on the way to it may not be searched");
    else if (!(info.st_mode & 0111))
        fprintf(to, "it is not executable; chmod +x makes it so");
    else if (access(path, X_OK) != 0 && statvfs(path, &fs) == 0 &&
             fs.f_flag & ST_NOEXEC)
        fprintf(to, "its file system is mounted noexec");
    else if (access(path, X_OK) != 0)
        fprintf(to, "it may not be executed by user %u", (unsigned)geteuid());
    else if (!tell_interpreter(to, path))
        fprintf(to, "see its rights and its interpreter's");
}

void program_explain(FILE *to, const char *path, int err)
{
    bool here = access(path, F_OK) == 0;

    fprintf(to, "%s", strerror(err));
    if (err == ENOENT && !here && strchr(path, '/'))
        return;
    fprintf(to, ": ");
    if (err == ENOENT && strchr(path, '/')) {
        if (!tell_interpreter(to, path))
            fprintf(to, "something that it asks for is missing");
    } else if (err == ENOENT)
        fprintf(to, here && !is_directory(path)
                        ? "it is not in PATH; for the one in this directory "
                          "write ./ before it"
                        : "it is not in PATH");
    else if (err == EACCES)
        tell_access(to, path);
    else if (err == ENOEXEC)
        tell_format(to, path);
    else if (err == EAGAIN)
        fprintf(to, "raise the limit with ulimit -u");
    else if (err == E2BIG)
        fprintf(to, "its arguments and the environment are too large");
    else
        fprintf(to, "the kernel cannot start it");
}
