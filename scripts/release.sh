#!/usr/bin/env bash
# Builds what a release has into dist/: an archive for each system, Debian packages where dpkg-deb is, and SHA256SUMS. The same
# commit gives the same bytes with the same Go.
#
#   scripts/release.sh                            all systems
#   PLATFORMS=linux/amd64 scripts/release.sh      some of them
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C TZ=UTC CGO_ENABLED=0
PLATFORMS=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}

for tool in git tar gzip sha256sum; do
  command -v "$tool" >/dev/null || { echo "release: $tool is missing" >&2; exit 1; }
done
tar --version | grep -q GNU || { echo "release: this tar is not GNU tar, which can write the same archive twice" >&2; exit 1; }
if [ -n "$(git status --porcelain)" ]; then
  echo "release: there are changes that are not committed" >&2
  exit 1
fi
version=$(git describe --tags --exact-match --match 'v*' 2>/dev/null | sed 's/^v//') || true
[ -n "$version" ] || version=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' cmd/jp/internal/version/version.go)
debian=${version//-/\~} # sorts before the release itself
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

rm -rf dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir dist

make -s build
text=$work/text # what is the same on all systems
make -s install DESTDIR="$text" PREFIX=
rm -r "$text/bin"

for platform in $PLATFORMS; do
  os=${platform%/*} arch=${platform#*/}
  name=jp-$version-$os-$arch
  mkdir "$work/$name"
  GOOS=$os GOARCH=$arch make -s build BIN="$work/$name/jp"
  cp -r "$text/share" LICENSE "$work/$name/"
  mv "$work/$name/share/doc/jp"/* "$work/$name/"
  rm -r "$work/$name/share/doc"
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" |
    gzip -9n >"dist/$name.tar.gz"
  [ "$os" = linux ] || continue
  if ! command -v dpkg-deb >/dev/null; then
    echo "release: dpkg-deb is missing: no Debian package for $arch" >&2
    continue
  fi
  deb=$work/deb-$arch doc=$work/deb-$arch/usr/share/doc/jp
  mkdir -p "$deb/DEBIAN" "$deb/usr/bin" "$doc" "$deb/usr/share/lintian/overrides"
  cp "$work/$name/jp" "$deb/usr/bin/jp"
  cp -r "$text/share" "$deb/usr/"
  find "$deb/usr/share/man" -name '*.1' -exec gzip -9n {} +
  mkdir -p "$deb/usr/share/zsh/vendor-completions"
  mv "$deb/usr/share/zsh/site-functions/_jp" "$deb/usr/share/zsh/vendor-completions/_jp"
  rmdir "$deb/usr/share/zsh/site-functions"
  cp LICENSE "$doc/copyright"
  maintainer=${MAINTAINER:-$(git log -1 --format='%an <%ae>')}
  printf 'jp (%s) unstable; urgency=medium\n\n  * Version %s. docs/changelog.md says what is new.\n\n -- %s  %s\n' \
    "$debian" "$version" "$maintainer" "$(date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
  printf 'jp: statically-linked-binary [usr/bin/jp]\n' >"$deb/usr/share/lintian/overrides/jp"
  cat >"$deb/DEBIAN/control" <<CONTROL
Package: jp
Version: $debian
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -sk --apparent-size "$deb/usr" | cut -f1)
Section: utils
Priority: optional
Description: command-line assistant whose sub-agents are processes
 jp hands scoped work (research, planning, review) from a main agent to
 cheaper sub-agents. Each is a process with a conversation, a role, the
 tools of one profile and a part of one budget.
CONTROL
  find "$deb" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
  chmod 755 "$deb/usr/bin/jp"
  find "$deb" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz --build "$deb" "dist/jp_${debian}_$arch.deb" >/dev/null
  if command -v lintian >/dev/null; then
    lintian --fail-on error "dist/jp_${debian}_$arch.deb"
  fi
done
(cd dist && sha256sum ./* | sed 's, \./, ,' >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
cat dist/SHA256SUMS
