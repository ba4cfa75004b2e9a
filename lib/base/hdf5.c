/* One at a time in the HDF5 library. */
#include "base/hdf5.h"

#include <pthread.h>

static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;

void ax_hdf5_enter(ax_hdf5_visit_t *visit)
{
    pthread_mutex_lock(&library);
    /* After a failed write HDF5 1.10 crashes in its exit handler: no handler.
     * Too late, and harmless, when the program has used HDF5 before. */
    H5dont_atexit();
    H5open();
    H5Eget_auto2(H5E_DEFAULT, &visit->print, &visit->data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (H5PLget_loading_state(&visit->plugins) < 0)
        visit->plugins = 0;
    H5PLset_loading_state(0);
}

void ax_hdf5_leave(const ax_hdf5_visit_t *visit)
{
    H5PLset_loading_state(visit->plugins);
    H5Eclear2(H5E_DEFAULT);
    H5Eset_auto2(H5E_DEFAULT, visit->print, visit->data);
    pthread_mutex_unlock(&library);
}
