# etc: what goes beside the library on a site
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = etc/accel.pc

# Samples for the admin, with this installation's paths in them.
plugstackdir = $(pkgdatadir)/plugstack.conf.d
nodist_plugstack_DATA = etc/plugstack.conf.d/accel.conf
siteconfdir = $(pkgdatadir)
nodist_siteconf_DATA = etc/accel.conf
modulefiledir = $(pkgdatadir)/modulefiles/accel
nodist_modulefile_DATA = etc/$(PACKAGE_VERSION)
completiondir = $(datadir)/bash-completion/completions
nodist_completion_DATA = etc/accel

site_samples = etc/plugstack.conf.d/accel.conf etc/accel.conf \
	etc/$(PACKAGE_VERSION) etc/accel
CLEANFILES += $(site_samples)
EXTRA_DIST += etc/plugstack.conf.d/accel.conf.in etc/accel.conf.in \
	etc/modulefile.in etc/bash_completion

# Paths are whole only in make: they hold ${prefix} in configure.
fill_in = sed -e 's|@spankdir[@]|$(spankdir)|' \
	-e 's|@PACKAGE_VERSION[@]|$(PACKAGE_VERSION)|' \
	-e 's|@bindir[@]|$(bindir)|' -e 's|@mandir[@]|$(mandir)|' \
	-e 's|@libdir[@]|$(libdir)|' -e 's|@includedir[@]|$(includedir)|' \
	-e 's|@sysconfdir[@]|$(sysconfdir)|'

etc/plugstack.conf.d/accel.conf: etc/plugstack.conf.d/accel.conf.in Makefile
	$(AM_V_GEN)$(MKDIR_P) etc/plugstack.conf.d && $(fill_in) \
	    $(srcdir)/etc/plugstack.conf.d/accel.conf.in >$@
etc/accel.conf: etc/accel.conf.in Makefile
	$(AM_V_GEN)$(MKDIR_P) etc && $(fill_in) $(srcdir)/etc/accel.conf.in >$@
etc/$(PACKAGE_VERSION): etc/modulefile.in Makefile
	$(AM_V_GEN)$(MKDIR_P) etc && $(fill_in) $(srcdir)/etc/modulefile.in >$@
etc/accel: etc/bash_completion
	$(AM_V_GEN)$(MKDIR_P) etc && cp $(srcdir)/etc/bash_completion $@
