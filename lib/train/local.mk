# train: the accelerator, the model, the step, the state
lib_libaccel_core_la_SOURCES += \
	lib/train/train_priv.h \
	lib/train/state_priv.h \
	lib/train/open.c \
	lib/train/ranks.c \
	lib/train/model.c \
	lib/train/compare.c \
	lib/train/prepare.c \
	lib/train/bucket.c \
	lib/train/step.c \
	lib/train/state.c \
	lib/train/restore.c \
	lib/train/stop.c

unit_tests += tests/unit/test_state
tests_unit_test_state_SOURCES = tests/unit/test_state.c tests/unit/train_rig.h
tests_unit_test_state_CPPFLAGS = $(unit_cppflags)
tests_unit_test_state_LDADD = $(unit_ldadd)
