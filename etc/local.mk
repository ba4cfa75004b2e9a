# etc: what goes beside the library on a site
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = etc/accel.pc
