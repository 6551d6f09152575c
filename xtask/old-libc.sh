#!/bin/sh
# Unpacks the C library of an old Debian in FOLDER/root, and creates FOLDER/cc, a compiler that
# links with it: a program requires the glibc version that it was linked with, or a later one.
# Downloads the packages with apt, but does not change the system's apt lists and configuration.
set -eu
umask 022
[ $# = 1 ] || { echo 'Usage: old-libc.sh FOLDER' >&2; exit 2; }
suite=bullseye
mkdir -p "$1"
folder=$(cd "$1" && pwd -P)
[ ! -x "$folder/cc" ] || exit 0

# shellcheck disable=SC2016  # apt expands $(...)
address=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sort -u | head -n 1)
[ -n "$address" ] || { echo "old-libc: apt's lists contain no Debian archive; run apt-get update" >&2; exit 1; }
work=$folder/apt root=$folder/root
rm -rf "$work" "$root"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$root"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
if [ -f $keyring ]; then signed="[signed-by=$keyring] "; else signed=; fi
echo "deb $signed$address $suite main" >"$work/sources.list"
cat >"$work/apt.conf" <<END
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "$work/lists";
Dir::State::status "/dev/null";
Dir::Cache "$work/cache";
APT::Sandbox::User "";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
END
cd "$work"
apt-get -qq -c apt.conf update
apt-get -qq -c apt.conf download libc6 libc6-dev libgcc-s1 linux-libc-dev
for package in ./*.deb; do dpkg-deb -x "$package" "$root"; done

# Make absolute links relative, because they would lead to the libraries of this system.
find "$root" -type l | while read -r link; do
    case $(readlink "$link") in
        /*) ln -sfn "$(realpath -m --relative-to "${link%/*}" "$root$(readlink "$link")")" "$link" ;;
    esac
done
rm -rf "$work"
libraries=lib/x86_64-linux-gnu
# Name the folders explicitly, because gcc searches its default folders before the root.
cat >"$folder/cc.new" <<END
#!/bin/sh
exec gcc --sysroot='$root' -B'$root/usr/$libraries' -L'$root/usr/$libraries' -L'$root/$libraries' "\$@"
END
chmod +x "$folder/cc.new"
mv "$folder/cc.new" "$folder/cc"
