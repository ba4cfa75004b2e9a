# The manual. A room's own local.mk adds its pages to dist_man_MANS; each page
# of section 3 explains several functions, and `man` finds it by any of them.
each_alias = for page in $(dist_man_MANS); do \
	case $$page in *.3) ;; *) continue ;; esac; \
	test -e $$page || page=$(srcdir)/$$page; \
	for name in `bash $(srcdir)/man/names $$page`; do \
		file=`basename $$page`; \
		test $$name.3 != $$file || continue; \
		cd '$(DESTDIR)$(man3dir)' || exit 1
end_each_alias = cd "$$OLDPWD"; done; done

install-man-aliases:
	@$(each_alias); ln -sf $$file $$name.3; $(end_each_alias)
uninstall-man-aliases:
	@test ! -d '$(DESTDIR)$(man3dir)' || { \
	    $(each_alias); rm -f $$name.3; $(end_each_alias); }
install-data-hook: install-man-aliases
uninstall-hook: uninstall-man-aliases
.PHONY: install-man-aliases uninstall-man-aliases
