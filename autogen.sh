#!/bin/sh
# Makes ./configure from configure.ac. Needed once after a git clone.
set -eu
cd "$(dirname "$0")"
exec autoreconf --install --force --warnings=all,no-portability
