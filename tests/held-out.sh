#!/bin/sh
# Fetches the 75 libraries of the rename figures in docs/evidence.md into FOLDER/libraries, each in
# a separate folder, and their dependencies into FOLDER/others. Measure with `cargo bench --bench
# rename -- FOLDER/libraries`. tests/fixtures.sh fetches none of these libraries, and steelbank's
# rules were not developed with them.
#
# Usage: held-out.sh FOLDER. Needs apt, but no root.
set -eu

folder=${1:?Say into which folder}
mkdir -p "$folder/debs"
cd "$folder"

held_out='cl-abnf cl-acl-compat cl-agnostic-lizard cl-aserve cl-asdf-finalizers cl-base64 cl-chipz cl-closure-common cl-clx-sbcl
  cl-command-line-arguments cl-consfigurator cl-containers cl-contextl cl-csv cl-curry-compose-reader-macros cl-cxml cl-db3
  cl-drakma cl-dynamic-classes cl-esrap cl-fiasco cl-ftp cl-garbage-pools cl-getopt cl-global-vars cl-graph cl-heredoc
  cl-htmlgen cl-hyperobject cl-ieee-floats cl-irc cl-ixf cl-kmrcl cl-lml2 cl-log cl-lparallel cl-lw-compat cl-markdown cl-md5
  cl-metabang-bind cl-metatilities-base cl-mustache cl-osicat cl-pg cl-photo cl-pipes cl-plus-ssl cl-postgres cl-postmodern
  cl-py-configparser cl-qmynd cl-quri cl-regex cl-reversi cl-rfc2388 cl-rss cl-s-sql cl-salza2 cl-simple-date cl-sql
  cl-sql-sqlite3 cl-sql-tests cl-sql-uffi cl-sqlite cl-swank cl-trivial-garbage cl-trivial-utf-8 cl-uax-15 cl-uffi
  cl-utilities cl-uuid cl-webactions cl-xlunit cl-xmls cl-zip cl-zpb-ttf cl-zs3 stumpwm'
others='cl-asdf-system-connections cl-trivial-macroexpand-all cl-daemon cl-launch cl-cluck cl-lml cl-modlisp cl-xptest
  cl-alexandria cl-anaphora cl-asdf-flv cl-babel cl-bordeaux-threads cl-cffi cl-chunga cl-closer-mop cl-fad cl-fiveam
  cl-flexi-streams cl-hunchentoot cl-interpol cl-ironclad cl-iterate cl-local-time cl-named-readtables cl-nibbles
  cl-parse-number cl-ppcre cl-ptester cl-puri cl-rt cl-split-sequence cl-trivial-backtrace cl-trivial-features
  cl-trivial-gray-streams cl-unicode cl-usocket cl-who cl-yason'

# unpack INTO PACKAGE...: unpacks the sources in Debian packages, one folder for each library.
unpack() {
  into=$1
  shift
  mkdir -p "$into"
  (cd debs && rm -f ./*.deb && apt-get download -qq -o APT::Sandbox::User=root "$@" >&2)
  for archive in debs/*.deb; do
    rm -rf unpacked
    dpkg-deb -x "$archive" unpacked
    for source in unpacked/usr/share/common-lisp/source unpacked/usr/share/stumpwm; do
      [ -d "$source" ] && cp -RL "$source/." "$into"
    done
  done
  rm -rf unpacked
}

unpack libraries $held_out
unpack others $others
rm -rf debs
ls libraries | wc -l
