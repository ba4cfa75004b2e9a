/*
 * The index of an HDF5 dataset as it is walked without the HDF5 library. The
 * first six bytes say what is looked for and where, the others are the file.
 */
#include "fuzz.h"

#include "loader/hdf5_priv.h"

#include <stdio.h>
#include <stdlib.h>

void fuzz_tree(const char *path, const uint8_t *said)
{
    ax_walk_t what = {.rank = said[0] % 8 + 1,
                      .chunk_bytes = said[2] + 1u,
                      .nchunks = said[3] + 1u};
    uint64_t *chunk = calloc((size_t)what.nchunks, sizeof *chunk);
    ax_file_t file;

    if (!chunk || ax_file_open(&file, path, true) != ACCEL_OK)
        abort();
    for (int d = 0; d < what.rank; d++) {
        what.chunk[d] = d ? 2 : said[1] + 1u;
        what.grid[d] = d ? 1 : what.nchunks;
    }
    bool found =
        ax_hdf5_walk(&file, ax_le(said + 4, 2), &what, chunk) == AX_WALK_FOUND;
    for (uint64_t i = 0; found && i < what.nchunks; i++)
        if (chunk[i] == 0 || chunk[i] + what.chunk_bytes > file.bytes) {
            fprintf(stderr, "fuzz: chunk %d is not in the file\n", (int)i);
            abort();
        }
    ax_file_close(&file);
    free(chunk);
}
