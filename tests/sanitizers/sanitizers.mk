# `make check-sanitizers`: all unit tests, and the injected library under the fakes, with the address and undefined
# behaviour sanitizers and then with the thread sanitizer. Included by the top Makefile.

SANITIZED_PLANTED_BUG := $(B)/tests/sanitizers/libplanted_bug.so

$(B)/obj/tests/sanitizers/planted_bug.o: tests/sanitizers/planted_bug.cc config.mk
	@mkdir -p $(@D)
	$(call say,CXX,$@)$(CXX) $(INJECTED_FLAGS) $(SANFLAGS) $(CPPFLAGS) -c -o $@ $<

$(SANITIZED_PLANTED_BUG): $(B)/obj/tests/sanitizers/planted_bug.o profiler/exports.map
	@mkdir -p $(@D)
	$(call say,LD,$@)$(INJECTED_LINK) -o $@ $< $(INJECTED_LIBS)

check-sanitizers: packages
	+$(Q)$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$$(nproc)) SAN=address,undefined run-check-sanitizers
	+$(Q)$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$$(nproc)) SAN=thread run-check-sanitizers

run-check-sanitizers: $(PROFILER_LIB) $(ANALYZE) $(FAKES) $(UNIT) $(SANITIZED_PLANTED_BUG)
	$(Q)tests/sanitizers/run $(B)
