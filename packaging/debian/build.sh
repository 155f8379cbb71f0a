#!/usr/bin/env bash
# Makes a Debian package of a binary that was built before.
#
#   packaging/debian/build.sh [BINARY] [FOLDER]
#
# BINARY  default target/release/zinc. It also writes its own manual pages and completions.
# FOLDER  where the package goes, default target/debian
#
# Needs dpkg-dev. The package depends on the C library alone; the Vulkan loader and Mesa's drivers are recommended,
# since the CPU runs every model.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
binary=$(realpath "${1:-$root/target/release/zinc}")
folder=${2:-$root/target/debian}
[ -x "$binary" ] || { echo "there is no program $binary: cargo build --release" >&2; exit 2; }

version=$("$binary" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"

install -Dm755 "$binary" "$tree/usr/bin/zinc"
install -Dm644 "$root/packaging/systemd/zinc.service" "$tree/usr/lib/systemd/user/zinc.service"
"$binary" man --folder "$tree/usr/share/man/man1"
gzip -9n "$tree"/usr/share/man/man1/*.1
completion() {
    mkdir -p "$tree/usr/share/$2"
    "$binary" completions "$1" > "$tree/usr/share/$2/$3"
}
completion bash bash-completion/completions zinc
completion zsh zsh/vendor-completions _zinc
completion fish fish/vendor_completions.d zinc.fish
mkdir -p "$tree/usr/share/doc/zinc"
cat > "$tree/usr/share/doc/zinc/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: zinc

Files: *
Copyright: the authors of ZINC
License: MIT or Apache-2.0
 The texts of both licences are beside this file.
END
cp "$root/LICENSE-MIT" "$root/LICENSE-APACHE" "$tree/usr/share/doc/zinc/"

# dpkg-shlibdeps wants a source package around it.
mkdir -p "$tree/debian"
touch "$tree/debian/control"
depends=$(cd "$tree" && dpkg-shlibdeps -O usr/bin/zinc | sed -n 's/^shlibs:Depends=//p')
rm -r "$tree/debian"
size=$(du -sk "$tree" | cut -f1)

mkdir -p "$tree/DEBIAN"
cat > "$tree/DEBIAN/control" <<END
Package: zinc
Version: $version
Architecture: $architecture
Maintainer: the authors of ZINC <zinc@localhost>
Installed-Size: $size
Depends: $depends
Recommends: libvulkan1, mesa-vulkan-drivers | libvulkan-driver
Section: science
Priority: optional
Description: runs language models from GGUF files on this machine
 One program: generates text, chats in the browser or the terminal, and serves
 the APIs of OpenAI and Anthropic. Models run on the GPU through Vulkan or on the
 CPU. "zinc --check" tells whether this machine is ready.
END
mkdir -p "$folder"
dpkg-deb --root-owner-group --build "$tree" "$folder/zinc_${version}_$architecture.deb"
