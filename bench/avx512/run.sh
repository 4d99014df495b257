#!/usr/bin/env bash
# Runs the AVX-512 VNNI kernel beside the scalar one on an emulated Tiger Lake, bare metal, for machines that have no AVX-512.
# Needs gcc, binutils and Debian's bochs, bochs-term, bochsbios, vgabios, isolinux, syslinux-common, genisoimage. Exits 0 if no byte differs.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
native="$here/../../bytewise/inference/native"
for tool in bochs genisoimage gcc; do
    command -v "$tool" >/dev/null || { echo "missing $tool: see the head of $0" >&2; exit 69; }
done
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
# The flags of the engine's own build (setup.py), and what bare metal needs.
flags=(-O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -ffreestanding -fno-pic -mno-red-zone -mcmodel=small -fno-stack-protector "-I$native")
for source in "$native/kernel_scalar.c" "$native/kernel_avx512.c" "$here/main.c" "$here/boot.S"; do
    gcc "${flags[@]}" -c "$source"
done
ld -n --no-warnings -T "$here/link.ld" -o kernel64.elf boot.o main.o kernel_scalar.o kernel_avx512.o
mkdir -p iso/isolinux
objcopy -O elf32-i386 kernel64.elf iso/kernel.elf
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/{ldlinux,mboot,libcom32}.c32 iso/isolinux/
printf 'DEFAULT l\nPROMPT 0\nTIMEOUT 1\nLABEL l\n KERNEL mboot.c32\n APPEND /kernel.elf\n' >iso/isolinux/isolinux.cfg
genisoimage -quiet -o boot.iso -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table -J -R iso
cat >bochsrc <<END
cpu: model=tigerlake, count=1, ips=50000000
memory: guest=256, host=256
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0: enabled=1
ata0-master: type=cdrom, path=boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=serial.txt
display_library: term
log: bochs.log
panic: action=fatal
clock: sync=none
END
echo c >go.rc
# Bochs wants a terminal; it leaves by its shutdown port, which it calls a panic. What counts is what the kernel said.
TERM=xterm timeout 600 script -qfc 'bochs -q -f bochsrc -rc go.rc' /dev/null >terminal.txt 2>&1 </dev/null || true
cat serial.txt
grep -q ' comparisons, 0 differ' serial.txt
