/* accel env, inside: everything is collected as JSON, then dumped or told. */
#ifndef ENV_H
#define ENV_H

#include <accel.h>

#include <jansson.h>

/* Each gives a new reference; NULL when there is no memory. */
json_t *env_libraries(void);
json_t *env_settings(const accel_settings_t *settings);
json_t *env_ignored(const accel_settings_t *settings);
json_t *env_job(const accel_job_t *job);
json_t *env_hardware(const accel_topo_t *topo);
json_t *env_transports(void);

/* A text from outside: bytes that are not UTF-8 become "\\xE9", for JSON has
 * no other. */
json_t *env_text(const char *text);

/* For people, on standard output. */
void env_tell(const json_t *all);

#endif
