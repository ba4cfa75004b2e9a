/* Opening files: which they are, what they look like, who reads them. */
#include "dataset_priv.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE_DEFAULT ((size_t)64 << 20)

/* ---- what a file looks like ---------------------------------------------- */

static bool ends_with(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);

    return n >= m && strcmp(path + n - m, suffix) == 0;
}

/* By its first bytes; text, which has none of its own, by its name. */
static accel_format_t recognise(const char *path, const unsigned char *start,
                                size_t n)
{
    static const struct {
        size_t at, length;
        const char *magic;
        accel_format_t format;
    } all[] = {
        {0, 8, "\x89HDF\r\n\x1a\n", ACCEL_FORMAT_HDF5},
        {512, 8, "\x89HDF\r\n\x1a\n", ACCEL_FORMAT_HDF5},
        {1024, 8, "\x89HDF\r\n\x1a\n", ACCEL_FORMAT_HDF5},
        {2048, 8, "\x89HDF\r\n\x1a\n", ACCEL_FORMAT_HDF5},
        {0, 6, "\x93NUMPY", ACCEL_FORMAT_NPY},
        {0, 4, "PK\3\4", ACCEL_FORMAT_NPZ},
        {0, 4, "PK\5\6", ACCEL_FORMAT_NPZ},
        {0, 4, "\x88\xd8\x34\x01", ACCEL_FORMAT_TOKENS}, /* 20240520 */
        {0, 4, "\xa1\xd9\x34\x01", ACCEL_FORMAT_TOKENS}, /* 20240801 */
        {0, 4, "\x8a\xd8\x34\x01", ACCEL_FORMAT_TOKENS}, /* refused there */
        {0, 9, "MMIDIDX\0\0", ACCEL_FORMAT_MEGATRON},
        {257, 5, "ustar", ACCEL_FORMAT_TAR},
    };
    static const char *const text[] = {".txt", ".text", ".jsonl",
                                       ".csv", ".tsv",  ".lines"};

    for (size_t i = 0; i < AX_ARRAY_SIZE(all); i++)
        if (n >= all[i].at + all[i].length &&
            memcmp(start + all[i].at, all[i].magic, all[i].length) == 0)
            return all[i].format;
    for (size_t i = 0; i < AX_ARRAY_SIZE(text); i++)
        if (ends_with(path, text[i]))
            return ACCEL_FORMAT_LINES;
    return ACCEL_FORMAT_AUTO;
}

static accel_status_t look_at(const char *path, accel_format_t *format)
{
    unsigned char start[2056];
    ax_file_t file;
    accel_status_t st = ax_file_open(&file, path, true);

    if (st != ACCEL_OK)
        return st;
    size_t n = file.bytes < sizeof start ? (size_t)file.bytes : sizeof start;
    st = ax_file_read(&file, start, n, 0);
    ax_file_close(&file);
    if (st == ACCEL_OK)
        *format = recognise(path, start, n);
    return st;
}

/* "x.bin", or "x", of a pair whose x.idx is an index of Megatron's? */
static bool is_megatron(const char *path)
{
    char *index = ax_megatron_name(path, ".idx");
    accel_format_t format = ACCEL_FORMAT_AUTO;
    bool found = index && access(index, F_OK) == 0 &&
                 look_at(index, &format) == ACCEL_OK &&
                 format == ACCEL_FORMAT_MEGATRON;

    free(index);
    return found;
}

static accel_status_t detect(const char *path, accel_format_t *format)
{
    accel_status_t st;

    *format = ACCEL_FORMAT_AUTO;
    if (access(path, F_OK) != 0 && is_megatron(path)) {
        *format = ACCEL_FORMAT_MEGATRON;
        return ACCEL_OK;
    }
    if ((st = look_at(path, format)) != ACCEL_OK)
        return st;
    if (*format == ACCEL_FORMAT_AUTO && ends_with(path, ".bin") &&
        is_megatron(path))
        *format = ACCEL_FORMAT_MEGATRON;
    if (*format == ACCEL_FORMAT_AUTO)
        return ax_fail(
            ACCEL_ERR_UNSUPPORTED,
            "dataset: %s: its first bytes are of no format that is "
            "known here, and its name does not end as those of texts "
            "do (.txt .text .jsonl .csv .tsv .lines); a program "
            "that knows better can set the option format",
            path);
    return ACCEL_OK;
}

/* ---- lists of files ------------------------------------------------------ */

typedef struct list {
    char **path;
    size_t count, room;
} list_t;

static void list_free(list_t *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->path[i]);
    free(list->path);
}

static accel_status_t list_add(list_t *list, const char *folder,
                               const char *name)
{
    size_t length = strlen(folder) + strlen(name) + 2;
    char *path = malloc(length);

    if (path && list->count == list->room) {
        size_t room = 2 * list->room + 16;
        char **more = realloc(list->path, room * sizeof *more);
        if (more) {
            list->path = more;
            list->room = room;
        }
    }
    if (!path || list->count == list->room) {
        free(path);
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    }
    strcpy(path, folder);
    if (*folder && !ends_with(folder, "/"))
        strcat(path, "/");
    strcat(path, name);
    list->path[list->count++] = path;
    return ACCEL_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static accel_status_t list_folder(list_t *list, const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    struct stat about;
    accel_status_t st = ACCEL_OK;

    if (!dir)
        return ax_fail_sys(ACCEL_ERR_IO, errno, "dataset: %s: cannot be listed",
                           folder);
    errno = 0;
    while (st == ACCEL_OK && (entry = readdir(dir))) {
        if (entry->d_name[0] != '.' &&
            (fstatat(dirfd(dir), entry->d_name, &about, 0) != 0 ||
             S_ISREG(about.st_mode)))
            st = list_add(list, folder, entry->d_name);
        errno = 0;
    }
    if (st == ACCEL_OK && errno != 0)
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "dataset: %s: cannot be listed",
                         folder);
    closedir(dir);
    return st;
}

static accel_status_t list_pattern(list_t *list, const char *pattern)
{
    glob_t found;
    accel_status_t st = ACCEL_OK;
    int rc = glob(pattern, GLOB_ERR | GLOB_NOSORT, NULL, &found);

    if (rc == GLOB_NOMATCH)
        return ax_fail(ACCEL_ERR_NOTFOUND,
                       "dataset: %s: no such file, and none that matches",
                       pattern);
    if (rc != 0)
        return ax_fail(ACCEL_ERR_IO, "dataset: %s: a folder cannot be read",
                       pattern);
    for (size_t i = 0; i < found.gl_pathc && st == ACCEL_OK; i++)
        st = list_add(list, "", found.gl_pathv[i]);
    globfree(&found);
    return st;
}

/* The .bin of a Megatron pair has no format of its own: its .idx stands for
 * both. The list is sorted. */
static void drop_halves(list_t *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++) {
        char *path = list->path[i];
        size_t n = strlen(path);
        bool half = false;

        if (ends_with(path, ".bin")) {
            memcpy(path + n - 3, "idx", 3);
            half = bsearch(&path, list->path + i + 1, list->count - i - 1,
                           sizeof path, by_bytes);
            memcpy(path + n - 3, "bin", 3);
        }
        if (half)
            free(path);
        else
            list->path[kept++] = path;
    }
    list->count = kept;
}

static accel_status_t list_files(list_t *list, const char *path)
{
    struct stat about;
    accel_status_t st;

    if (stat(path, &about) != 0)
        st = errno == ENOENT && !is_megatron(path) ? list_pattern(list, path)
                                                   : list_add(list, "", path);
    else
        st = S_ISDIR(about.st_mode) ? list_folder(list, path)
                                    : list_add(list, "", path);
    if (st != ACCEL_OK)
        return st;
    if (list->count == 0)
        return ax_fail(ACCEL_ERR_NOTFOUND, "dataset: %s: no file in it", path);
    qsort(list->path, list->count, sizeof *list->path, by_bytes);
    drop_halves(list);
    return ACCEL_OK;
}

/* ---- opening ------------------------------------------------------------- */

typedef accel_status_t (*open_one_fn)(const char *, bool,
                                      const accel_dataset_options_t *,
                                      accel_dataset_t **);

/* Do all of them have room in the cache together? Then each may have it, else
 * none. */
static bool all_fit(const char *const *paths, size_t npaths, size_t limit)
{
    struct stat about;
    uint64_t all = 0;

    for (size_t i = 0; i < npaths; i++)
        if (stat(paths[i], &about) != 0 ||
            __builtin_add_overflow(all, (uint64_t)about.st_size, &all))
            return false;
    return all <= limit;
}

static accel_status_t open_each(open_one_fn open_one, const char *const *paths,
                                size_t npaths,
                                const accel_dataset_options_t *options,
                                accel_dataset_t **out)
{
    accel_dataset_t **parts;
    accel_status_t st = ACCEL_OK;
    size_t n = 0;

    if (npaths == 1)
        return open_one(paths[0], true, options, out);
    accel_dataset_options_t each = *options;
    if (!all_fit(paths, npaths, options->cache_bytes))
        each.cache_bytes = 0;
    parts = calloc(npaths, sizeof *parts);
    if (!parts)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    while (st == ACCEL_OK && n < npaths) {
        st = open_one(paths[n], npaths <= AX_KEPT_OPEN, &each, &parts[n]);
        n += st == ACCEL_OK;
    }
    if (st == ACCEL_OK) {
        st = ax_dataset_join(parts, n, out);
        if (st != ACCEL_OK)
            ax_fail_prefix(st, "dataset: %s and others", paths[0]);
    } else {
        while (n-- > 0)
            accel_dataset_destroy(parts[n]);
    }
    free(parts);
    return st;
}

static accel_status_t open_as(accel_format_t format, const char *const *paths,
                              size_t npaths, const accel_dataset_options_t *o,
                              accel_dataset_t **out)
{
    switch (format) {
    case ACCEL_FORMAT_HDF5:
        return open_each(ax_hdf5_open, paths, npaths, o, out);
    case ACCEL_FORMAT_NPY:
        return open_each(ax_npy_open, paths, npaths, o, out);
    case ACCEL_FORMAT_NPZ:
        return open_each(ax_npz_open, paths, npaths, o, out);
    case ACCEL_FORMAT_TOKENS:
        return ax_tokens_open(paths, npaths, o, out);
    case ACCEL_FORMAT_MEGATRON:
        return ax_megatron_open(paths, npaths, o, out);
    case ACCEL_FORMAT_LINES:
        return ax_lines_open(paths, npaths, o, out);
    case ACCEL_FORMAT_TAR:
        return ax_tar_open(paths, npaths, o, out);
    case ACCEL_FORMAT_AUTO:
        break;
    }
    return ax_fail(ACCEL_ERR_ARG, "dataset: no format has number %d",
                   (int)format);
}

static accel_status_t check_options(const accel_dataset_options_t *o)
{
    if (o->nfields && !o->fields)
        return ax_fail(ACCEL_ERR_ARG, "dataset: fields is NULL, nfields %zu",
                       o->nfields);
    for (size_t f = 0; f < o->nfields; f++)
        if (!o->fields[f].name || !*o->fields[f].name)
            return ax_fail(ACCEL_ERR_ARG, "dataset: field %zu has no name", f);
    return ACCEL_OK;
}

accel_status_t accel_dataset_open_files(const char *const *paths, size_t npaths,
                                        const accel_dataset_options_t *options,
                                        accel_dataset_t **out)
{
    accel_dataset_options_t o = ACCEL_DATASET_INIT;
    accel_status_t st;

    *out = NULL;
    if (!paths || npaths == 0 || npaths > UINT32_MAX)
        return ax_fail(ACCEL_ERR_ARG, "dataset: no file to open");
    for (size_t i = 0; i < npaths; i++)
        if (!paths[i])
            return ax_fail(ACCEL_ERR_ARG, "dataset: path %zu is NULL", i);
    if ((st = ax_options_copy(&o, options, sizeof o, "ACCEL_DATASET")) !=
            ACCEL_OK ||
        (st = check_options(&o)) != ACCEL_OK)
        return st;
    o.cache_bytes = ax_or_int(o.cache_bytes, CACHE_DEFAULT);
    accel_format_t format = o.format;
    if (format == ACCEL_FORMAT_AUTO)
        st = detect(paths[0], &format);
    return st == ACCEL_OK ? open_as(format, paths, npaths, &o, out) : st;
}

accel_status_t accel_dataset_open(const char *path,
                                  const accel_dataset_options_t *options,
                                  accel_dataset_t **out)
{
    list_t list = {0};
    accel_status_t st;

    *out = NULL;
    if (!path || !*path)
        return ax_fail(ACCEL_ERR_ARG, "dataset: no file to open");
    st = list_files(&list, path);
    if (st == ACCEL_OK)
        st = accel_dataset_open_files((const char *const *)list.path,
                                      list.count, options, out);
    list_free(&list);
    return st;
}
