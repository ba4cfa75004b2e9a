/* From srun to the first fence with data, by PMIx alone: the least that any
 * bootstrap over PMIx can take. */
#include <pmix.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    pmix_proc_t me;
    pmix_value_t value = {.type = PMIX_STRING};
    pmix_info_t collect;
    bool yes = true;
    char text[256];
    pmix_status_t rc = PMIx_Init(&me, NULL, 0);

    if (rc == PMIX_SUCCESS) {
        memset(text, 'x', sizeof text - 1);
        text[sizeof text - 1] = '\0';
        value.data.string = text;
        rc = PMIx_Put(PMIX_GLOBAL, "bench", &value);
    }
    if (rc == PMIX_SUCCESS)
        rc = PMIx_Commit();
    if (rc == PMIX_SUCCESS) {
        PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
        rc = PMIx_Fence(NULL, 0, &collect, 1);
    }
    if (rc != PMIX_SUCCESS) {
        fprintf(stderr, "startup_pmix: %s\n", PMIx_Error_string(rc));
        return 1; /* after a failed PMIx_Init, Finalize crashes */
    }
    return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}
