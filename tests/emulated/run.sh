#!/bin/bash
# The AVX-512 kernel on an emulated processor (Debian packages bochs, bochs-term, bochsbios, vgabios; one minute), for machines
# that have none: prints "N comparisons, 0 different". CONTRACT=fast compiles it wrongly, and must find differences.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
native=$here/../../bytewise/inference/native
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
flags=(-O3 -std=gnu11 -fno-math-errno -fno-trapping-math -ffreestanding -fno-pic -mno-red-zone -fno-stack-protector
    -fno-asynchronous-unwind-tables -fcf-protection=none -fno-tree-loop-distribute-patterns -I "$native")
gcc "${flags[@]}" -ffp-contract="${CONTRACT:-off}" -c "$native/kernel_avx512.c"
gcc "${flags[@]}" -ffp-contract=off -c "$native/kernel_scalar.c" "$here/program.c"
ld -T "$here/program.ld" -nostdlib -o program.elf program.o kernel_avx512.o kernel_scalar.o
objcopy -O binary -j .text program.elf program.bin
gcc -c -DSECTORS=$(( ($(stat -c %s program.bin) + 8191) / 8192 * 16 )) "$here/boot.S" -o boot.o
ld -e start -Ttext 0x7c00 --oformat binary -o boot.bin boot.o
cat boot.bin program.bin > disk
truncate -s $(( 20 * 16 * 63 * 512 )) disk
cat > bochsrc <<CONFIGURATION
cpu: model=tigerlake, count=1, ips=200000000
memory: guest=64, host=64
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0: enabled=1
ata0-master: type=disk, path=$out/disk, mode=flat, cylinders=20, heads=16, spt=63
boot: disk
port_e9_hack: enabled=1
display_library: term
log: $out/log
panic: action=fatal
clock: sync=none
CONFIGURATION
echo c > commands
TERM=xterm timeout 600 script -qc 'bochs-bin -q -f bochsrc -rc commands' screen > /dev/null 2>&1 || true
grep -aoE '[0-9]+ comparisons, [0-9]+ different|DIFFERENT [a-z]+' screen | sort | uniq -c
