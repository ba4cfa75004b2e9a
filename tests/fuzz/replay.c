/* What the fuzzer found worth keeping, once through: tests/data/fuzz/FORMAT. */
#include "fuzz.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_MAX 65536

static int replay_folder(const char *root, const char *format)
{
    static uint8_t data[INPUT_MAX];
    char path[1024];
    struct dirent *entry;
    int count = 0;

    snprintf(path, sizeof path, "%s/%s", root, format);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s/%s", root, format, entry->d_name);
        FILE *f = fopen(path, "r");
        size_t bytes = f ? fread(data, 1, sizeof data, f) : 0;
        bool all = f && !ferror(f) && bytes < sizeof data;
        if (f)
            fclose(f);
        if (!all) {
            fprintf(stderr, "%s: cannot be read, or too long\n", path);
            exit(1);
        }
        fuzz_one(format, data, bytes);
        count++;
    }
    if (!dir) {
        perror(path);
        exit(1);
    }
    closedir(dir);
    printf("%s: %d inputs\n", format, count);
    return count;
}

int main(void)
{
    static const char *const formats[] = {"npy",      "npz",   "tar",  "tokens",
                                          "megatron", "lines", "hdf5", "tree"};
    const char *top = getenv("top_srcdir");
    char root[512];

    snprintf(root, sizeof root, "%s/tests/data/fuzz", top ? top : ".");
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (replay_folder(root, formats[i]) == 0)
            return 1;
    return 0;
}
