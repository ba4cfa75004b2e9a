# train: the accelerator, the model, the step
lib_libaccel_core_la_SOURCES += \
	lib/train/train_priv.h \
	lib/train/open.c \
	lib/train/ranks.c \
	lib/train/model.c \
	lib/train/compare.c \
	lib/train/prepare.c \
	lib/train/bucket.c \
	lib/train/step.c \
	lib/train/stop.c
