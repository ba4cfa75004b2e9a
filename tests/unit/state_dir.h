/* A directory for checkpoints, new for each test that is IN_DIR(). */
#ifndef STATE_DIR_H
#define STATE_DIR_H

#include "unit/train_rig.h"

#include <ftw.h>
#include <unistd.h>

static char dir[64];

static inline int remove_entry(const char *path, const struct stat *st,
                               int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/accel-test-state-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static inline int remove_dir(void **state)
{
    (void)state;
    return nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

#endif
