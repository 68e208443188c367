#!/usr/bin/env bash
# A newcomer's machine: a new Debian 12 in a chroot, with a C compiler and rustup's toolchain and nothing else, where an
# ordinary user clones the project and runs the two commands. With arguments, runs those instead, as in
# `ci/fresh.sh cargo test -p tocsin-sync`; AS=root runs them as root, who may install packages, as `AS=root ci/fresh.sh .ci/run`
# wants. KEEP=1 leaves the chroot there and tells where it is.
#
# Wants root, for the chroot; what is committed is what is cloned.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
suite=bookworm
user=newcomer
as=${AS:-$user}

if [[ "$(id -u)" != 0 ]]; then
    echo "error: a chroot needs root; run: sudo --preserve-env=PATH,HOME ci/fresh.sh" >&2
    exit 1
fi
# Mounts of a namespace of our own end with us, however we end.
if [[ -z "${FRESH_NAMESPACE:-}" ]]; then
    FRESH_NAMESPACE=1 exec unshare --mount --propagation private bash "$0" "$@"
fi

if ! command -v debootstrap >/dev/null; then
    echo "installing debootstrap"
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends debootstrap; }; then
        echo "error: debootstrap is missing; run: apt-get install -y debootstrap" >&2
        exit 1
    fi
fi

"$root/ci/toolchain.sh"
channel=$(sed -n 's/^channel *= *"\(.*\)".*/\1/p' "$root/rust-toolchain.toml")
sysroot=$(rustup run "$channel" rustc --print sysroot)
host=$(rustup run "$channel" rustc -vV | sed -n 's/^host: //p')
cargo_home=${CARGO_HOME:-$HOME/.cargo}

chroot=$(mktemp -d "${TMPDIR:-/var/tmp}/tocsin-fresh.XXXXXX")
chmod 755 "$chroot"
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    if [[ -n "${KEEP:-}" ]]; then
        echo "kept: $chroot"
        return
    fi
    local at
    for at in dev/pts dev/shm dev proc sys; do
        umount "$chroot/$at" 2>/dev/null || umount -l "$chroot/$at" 2>/dev/null || true
    done
    # Never across a mount, should one have stayed.
    rm -rf --one-file-system "$chroot"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# The mirror that this machine's apt uses for Debian itself.
# shellcheck disable=SC2016 # expanded by apt
format='$(REPO_URI) $(CODENAME)'
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mirror=$(apt-get indextargets --format "$format" | awk -v c="${codename:-$suite}" '$2 == c { print $1; exit }')
if [[ -z "$mirror" ]]; then
    echo "error: apt knows no mirror of Debian; run: apt-get update" >&2
    exit 1
fi

echo "##### debootstrap of $suite"
start=$SECONDS
options=(--variant=minbase "--include=gcc,libc6-dev,ca-certificates")
if [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]]; then
    options+=(--keyring=/usr/share/keyrings/debian-archive-keyring.gpg)
fi
if ! timeout 900 debootstrap "${options[@]}" "$suite" "$chroot" "$mirror" >"$chroot.log" 2>&1; then
    tail -20 "$chroot.log" >&2
    echo "error: debootstrap failed; see $chroot.log" >&2
    exit 1
fi
rm -f "$chroot.log"

mount -t proc proc "$chroot/proc"
mount -t sysfs -o ro sysfs "$chroot/sys"
mount -t tmpfs -o mode=755 tmpfs "$chroot/dev"
mknod -m 666 "$chroot/dev/null" c 1 3
mknod -m 666 "$chroot/dev/zero" c 1 5
mknod -m 666 "$chroot/dev/full" c 1 7
mknod -m 666 "$chroot/dev/random" c 1 8
mknod -m 666 "$chroot/dev/urandom" c 1 9
mknod -m 666 "$chroot/dev/tty" c 5 0
ln -s /proc/self/fd "$chroot/dev/fd"
mkdir "$chroot/dev/shm" "$chroot/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$chroot/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$chroot/dev/pts"
ln -s pts/ptmx "$chroot/dev/ptmx"

# The network as this machine has it.
cp -L /etc/resolv.conf "$chroot/etc/resolv.conf"
cp -L /etc/hosts "$chroot/etc/hosts"
if [[ -e /etc/ssl/certs/ca-certificates.crt ]]; then
    cp -L /etc/ssl/certs/ca-certificates.crt "$chroot/etc/ssl/certs/ca-certificates.crt"
fi

# What rustup installs, as an ordinary user has it; the registry's configuration with it, its cache not.
chroot "$chroot" useradd --create-home --shell /bin/bash "$user"
inside_home=/home/"$user"
home=$chroot$inside_home
mkdir -p "$home/.cargo/bin" "$home/.rustup/toolchains/$channel-$host"
tar -C "$sysroot" --exclude=./share/doc -cf - . | tar -C "$home/.rustup/toolchains/$channel-$host" -xf -
cp -L "$(command -v rustup)" "$home/.cargo/bin/rustup"
for proxy in cargo rustc rustdoc rustfmt cargo-fmt clippy-driver cargo-clippy; do
    ln -s rustup "$home/.cargo/bin/$proxy"
done
printf 'version = "12"\ndefault_toolchain = "%s-%s"\nprofile = "minimal"\n' "$channel" "$host" >"$home/.rustup/settings.toml"
for file in config.toml config; do
    if [[ -e "$cargo_home/$file" ]]; then
        cp -L "$cargo_home/$file" "$home/.cargo/$file"
    fi
done
git clone --quiet --no-hardlinks "$root" "$home/tocsin"
chroot "$chroot" chown -R "$as:$as" "$inside_home"
echo "##### debootstrap of $suite: $((SECONDS - start)) s"

# Only what says how to reach a network goes in with the user.
environment=(HOME="$inside_home" USER="$as" LANG=C.UTF-8 TERM=dumb
    PATH="$inside_home/.cargo/bin:/usr/local/bin:/usr/bin:/bin${AS:+:/usr/sbin:/sbin}")
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR \
    CARGO_HTTP_CAINFO CARGO_HTTP_PROXY RUSTUP_DIST_SERVER; do
    if [[ -n "${!name:-}" ]]; then
        environment+=("$name=${!name}")
    fi
done
inside() {
    local limit=$1
    shift
    # A process namespace of its own: nothing that the commands leave behind survives them.
    timeout --kill-after=20 "$limit" unshare --pid --fork --mount-proc="$chroot/proc" --kill-child \
        chroot --userspec="$as:$as" "$chroot" env -i "${environment[@]}" \
        bash -c 'cd ~/tocsin && exec "$@"' bash "$@" </dev/null
}

status=0
check() {
    local limit=$1 start=$SECONDS
    shift
    echo
    echo "##### $*"
    if inside "$limit" "$@"; then
        echo "##### $*: ok, $((SECONDS - start)) s"
    else
        echo "##### $*: FAILED after $((SECONDS - start)) s" >&2
        status=1
    fi
}

if (($# > 0)); then
    check 3600 "$@"
    exit "$status"
fi
check 1200 cargo xtask demo
# Again: once built it has 3 minutes, and its last line is the picture.
start=$SECONDS
picture=$(inside 180 cargo xtask demo | tail -n 1) || status=1
echo "##### cargo xtask demo, once built: $((SECONDS - start)) s, $picture"
if [[ ! -s "$chroot$picture" ]]; then
    echo "error: the last line of the demo is no picture: $picture" >&2
    status=1
fi
check 3000 cargo xtask test
exit "$status"
